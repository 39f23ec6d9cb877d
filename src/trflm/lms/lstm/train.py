"""Training of an LSTM on concatenated text: truncated back-propagation through time (Zaremba et al. 2014).

The text, with the end symbol after every sentence, is cut into S streams that are read side by side, some 35 steps at a time;
the state is carried on, gradients are not.

Shapes: S streams, T steps of a stream.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from trflm.errors import InputError
from trflm.lms.lstm.model import LSTM, State
from trflm.text import Text


@dataclass(frozen=True)
class StepInfo:
    loss: float  # nats per symbol
    gradient_norm: float  # before clipping


def streams(sentences: Text, end: int, n_streams: int) -> Tensor:
    """[T, S] the text after an end symbol, cut into equal streams; the last symbols that do not fill a step are left out.

    int32, stream after stream in memory: 4 bytes a symbol and no more, from a text on disk too. Every stream is read at its own
    place, so a window would have to be gathered from S places of the disk.
    """
    text = torch.full((1 + sentences.n_words + len(sentences),), end, dtype=torch.int32)
    n_steps = len(text) // n_streams
    if n_steps < 2:
        raise InputError(
            f"a text of {len(text)} symbols is too short for {n_streams} streams; train on more text or fewer streams"
        )
    place = 1
    for part in sentences.parts():
        text[place + torch.arange(part.n_words) + part.sentence_N] = part.ids_N.int()
        place += part.n_words + len(part)
    return text[: n_steps * n_streams].view(n_streams, n_steps).T


def n_windows(symbol_TS: Tensor, n_steps: int) -> int:
    """How many windows of `n_steps` predictions there are, the last perhaps shorter."""
    return -(-(len(symbol_TS) - 1) // n_steps)


def window(symbol_TS: Tensor, n_steps: int, number: int) -> Tensor:
    """Window 0, 1, 2, ..., int64: n_steps + 1 symbols of each stream, the last of one being the first of the next."""
    return symbol_TS[number * n_steps : (number + 1) * n_steps + 1].long().contiguous()


def windows(symbol_TS: Tensor, n_steps: int = 35) -> Iterator[Tensor]:
    """All of them."""
    return (window(symbol_TS, n_steps, number) for number in range(n_windows(symbol_TS, n_steps)))


def window_loss(lstm: LSTM, window_TS: Tensor, state: State, rng: Generator | None) -> tuple[Tensor, State]:
    """(mean -log p of each symbol of the window after the first, the state to go on from, without gradients)."""
    h_TSH, state = lstm.read(window_TS[:-1], state, rng)
    loss = F.cross_entropy(lstm.logits(h_TSH).flatten(0, 1).float(), window_TS[1:].flatten())
    return loss, State(*(part.detach() for part in state))


WindowLoss = Callable[[LSTM, Tensor, State, Generator], tuple[Tensor, State]]


def train_step(
    lstm: LSTM,
    optimizer: torch.optim.Optimizer,
    window_TS: Tensor,
    state: State,
    rng: Generator,
    clip: float,
    loss_of: WindowLoss = window_loss,
) -> tuple[State, StepInfo]:
    """One update of the parameters; the norm of the gradient is cut to `clip`."""
    optimizer.zero_grad(set_to_none=True)
    loss, state = loss_of(lstm, window_TS, state, rng)
    loss.backward()
    norm = nn.utils.clip_grad_norm_(lstm.parameters(), clip)
    optimizer.step()
    return state, StepInfo(float(loss.detach()), float(norm))
