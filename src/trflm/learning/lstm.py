"""Training of an LSTM language model (Zaremba et al. 2014): windows of the concatenated text, the state carried on.

    lr(epoch) = lr * decay^max(epoch + 1 - constant_epochs, 0)      epoch = 0, 1, 2, ...

The gradient's norm is cut to `clip`, dropout is drawn from the step's generator. Every epoch starts from the zero state.

Our loss is the mean over the symbols of a window, theirs the sum over its steps and the mean over the streams. So with windows
of 35 steps their learning rate 1 and clip 5 are 35 and 5/35 here.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from trflm.learning.loop import Metrics
from trflm.learning.schedules import falling
from trflm.lms.lstm import LSTM, Preserve, State, streams, train_step, windows
from trflm.text import Batch

MOST_NATS = 700.0  # e to this is still a number: the perplexity of a model that has diverged


@dataclass(frozen=True)
class WindowsConfig:
    """What both optimisers have: the data of a step, the schedule of the learning rate, the clipping."""

    streams: int = 20  # of text, read side by side
    window: int = 20  # steps of a stream that the gradient goes through
    lr: float = 20.0
    constant_epochs: int = 4  # before the learning rate falls
    decay: float = 0.5  # the factor of each epoch after
    clip: float = 0.25  # greatest gradient norm

    def __post_init__(self) -> None:
        if min(self.streams, self.window) < 1 or self.constant_epochs < 0:
            raise ValueError("streams and window must be at least 1, constant_epochs must not be negative")
        if not (self.lr > 0 and 0 < self.decay <= 1 and self.clip > 0):
            raise ValueError("lr and clip must be positive, decay must be above 0 and at most 1")

    def build(self, lstm: LSTM, text: Batch) -> "LSTMLearner":
        return LSTMLearner(lstm, text, self)

    def optimiser(self, parameters: list[Tensor]) -> torch.optim.Optimizer:
        raise NotImplementedError

    def lr_at(self, epoch: int) -> float:
        return self.lr * falling(self.decay, self.constant_epochs, epoch)


@dataclass(frozen=True)
class SGDConfig(WindowsConfig):
    """[learner] kind = "sgd": plain gradient descent, as Zaremba et al. Defaults: their small model."""

    kind: Literal["sgd"] = "sgd"

    def optimiser(self, parameters: list[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=self.lr)


@dataclass(frozen=True)
class AdamConfig(WindowsConfig):
    """[learner] kind = "adam": Adam with decoupled weight decay."""

    lr: float = 2e-3
    weight_decay: float = 0.0
    kind: Literal["adam"] = "adam"

    def optimiser(self, parameters: list[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, lr=self.lr, weight_decay=self.weight_decay)


class LSTMLearner:
    """Trains an LSTM in place. The order of the text is its own; nothing is shuffled."""

    def __init__(self, lstm: LSTM, text: Batch, config: WindowsConfig) -> None:
        self.lstm, self.config = lstm, config
        self.windows = list(windows(streams(text, lstm.end, config.streams).to(lstm.output_bias.device), config.window))
        self.optimiser = config.optimiser(list(lstm.parameters()))
        self.state = lstm.zero_state(config.streams)

    @property
    def steps_per_epoch(self) -> int:
        return len(self.windows)

    def step(self, number: int, rng: torch.Generator) -> Metrics:
        epoch, place = divmod(number, len(self.windows))
        if place == 0:
            self.state = self.lstm.zero_state(self.config.streams)
        lr = self.config.lr_at(epoch)
        for group in self.optimiser.param_groups:
            group["lr"] = lr
        self.state, info = train_step(self.lstm, self.optimiser, self.windows[place], self.state, rng, self.config.clip)
        return {"loss": info.loss, "gradient_norm": info.gradient_norm, "lr": lr}

    def usable(self, dev: Batch) -> Batch:
        """All of it."""
        return dev

    @property
    def model(self) -> LSTM:
        return self.lstm

    def evaluate(self, dev: Batch) -> Metrics:
        """Perplexity of the dev text read in order, as in training, by as many streams."""
        log_prob = float(Preserve(self.lstm, self.config.streams).log_prob(dev).double().sum())
        per_symbol = log_prob / (dev.n_words + len(dev))
        return {"dev_perplexity": math.exp(min(-per_symbol, MOST_NATS)), "criterion": per_symbol}

    def state_dict(self) -> dict[str, Any]:
        return {
            "lstm": self.lstm.state_dict(),
            "optimiser": self.optimiser.state_dict(),
            "h": self.state.h_KSH,
            "c": self.state.c_KSH,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.lstm.load_state_dict(state["lstm"])
        self.optimiser.load_state_dict(state["optimiser"])
        device = self.lstm.output_bias.device
        self.state = State(state["h"].to(device), state["c"].to(device))
