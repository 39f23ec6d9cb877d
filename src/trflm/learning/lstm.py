"""Training of an LSTM language model (Zaremba et al. 2014): windows of the concatenated text, the state carried on.

    lr(epoch) = lr * decay^max(epoch + 1 - constant_epochs, 0)      epoch = 0, 1, 2, ...
    lr(e) = lr * (1 + cos(pi e / cosine_epochs)) / 2                e = epochs done, fractions too; if cosine_epochs is given

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
from trflm.learning.shards import WHOLE, Shard, Shards
from trflm.lms.lstm import LSTM, FastWindowLoss, Preserve, SampledSoftmax, State, n_windows, streams, window, window_loss
from trflm.lms.lstm.train import WindowLoss
from trflm.ranges import Amount, Count, NotNegative, Positive, Share
from trflm.speed.bf16 import has_bf16
from trflm.text import Batch, Text

MOST_NATS = 700.0  # e to this is still a number: the perplexity of a model that has diverged

PRODUCTS = {
    torch.bfloat16: "products in bf16, parameters and sums in fp32",
    torch.float32: "bf16 = true, but this CPU has no instructions for bf16: products in fp32, about twice as slow",
}


@dataclass(frozen=True)
class WindowsConfig:
    """What both optimisers have: the data of a step, the schedule of the learning rate, the clipping."""

    streams: Count = 20  # of text, read side by side
    window: Count = 20  # steps of a stream that the gradient goes through
    lr: Positive = 20.0  # the learning rate at the start
    constant_epochs: Amount = 4  # epochs before the learning rate falls
    decay: Share = 0.5  # the factor of each epoch after
    clip: Positive = 0.25  # greatest gradient norm
    cosine_epochs: Amount = 0  # if not 0, the learning rate falls to 0 over so many epochs along a cosine, instead of the above
    warm_up: NotNegative = 0.0  # epochs at the start over which the learning rate rises from 0, as a straight line
    bf16: bool = False  # products in bf16, on a CPU that has instructions for it (see lms/lstm/fast_window.py)
    sampled_epochs: Amount = 0  # first epochs, in which the softmax sums over some words only (see lms/lstm/output_loss.py)
    frequent: Amount = 1000  # those words are: the target, so many of the most frequent
    drawn: Count = 1000  # and so many drawn from the others in each step

    def __post_init__(self) -> None:
        if min(self.streams, self.window) < 1 or self.constant_epochs < 0:
            raise ValueError("streams and window must be at least 1, constant_epochs must not be negative")
        if not (self.lr > 0 and 0 < self.decay <= 1 and self.clip > 0):
            raise ValueError("lr and clip must be positive, decay must be above 0 and at most 1")
        if min(self.cosine_epochs, self.warm_up, self.sampled_epochs, self.frequent) < 0 or self.drawn < 2:
            raise ValueError("cosine_epochs, warm_up, sampled_epochs and frequent are at least 0, drawn at least 2")
        if self.sampled_epochs and not self.bf16:
            raise ValueError("sampled_epochs needs bf16 = true: the sampled softmax belongs to the fast way of a step")

    def build(self, lstm: LSTM, text: Text, shards: Shards = WHOLE) -> "LSTMLearner":
        shards.check_divides(self.streams, "learner.streams")
        return LSTMLearner(lstm, text, self, shards)

    def optimiser(self, parameters: list[Tensor]) -> torch.optim.Optimizer:
        raise NotImplementedError

    def lr_at(self, epoch: float) -> float:
        """After so many epochs, whole and fractions."""
        rise = min(epoch / self.warm_up, 1.0) if self.warm_up else 1.0
        if self.cosine_epochs:
            return self.lr * rise * (1 + math.cos(math.pi * min(epoch / self.cosine_epochs, 1.0))) / 2
        return self.lr * rise * falling(self.decay, self.constant_epochs, math.floor(epoch))


@dataclass(frozen=True)
class SGDConfig(WindowsConfig):
    """[learner] kind = "sgd": plain gradient descent, as Zaremba et al. Defaults: their small model."""

    kind: Literal["sgd"] = "sgd"

    def optimiser(self, parameters: list[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=self.lr)


@dataclass(frozen=True)
class AdamConfig(WindowsConfig):
    """[learner] kind = "adam": Adam with decoupled weight decay."""

    lr: Positive = 2e-3
    weight_decay: NotNegative = 0.0  # decoupled
    kind: Literal["adam"] = "adam"

    def optimiser(self, parameters: list[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, lr=self.lr, weight_decay=self.weight_decay, fused=self.bf16 or None)


class LSTMLearner:
    """Trains an LSTM in place. The order of the text is its own; nothing is shuffled."""

    def __init__(self, lstm: LSTM, text: Text, config: WindowsConfig, shards: Shards = WHOLE) -> None:
        self.lstm, self.config, self.shards = lstm, config, shards
        self.symbol_TS = streams(text, lstm.end, config.streams)
        self.optimiser = config.optimiser(list(lstm.parameters()))
        self.state = lstm.zero_state(config.streams)
        count_V = sum(torch.bincount(symbol_T[1:], minlength=lstm.end + 1) for symbol_T in self.symbol_TS.T)
        assert isinstance(count_V, Tensor)
        dtype = torch.bfloat16 if has_bf16() else torch.float32
        self.exact: WindowLoss = FastWindowLoss(dtype) if config.bf16 else window_loss
        self.sampled: WindowLoss = FastWindowLoss(dtype, SampledSoftmax.by_count(count_V, config.frequent, config.drawn))
        self.notes = [PRODUCTS[dtype]] if config.bf16 else []  # for the log

    @property
    def steps_per_epoch(self) -> int:
        return n_windows(self.symbol_TS, self.config.window)

    def step(self, number: int, rng: torch.Generator) -> Metrics:
        epoch, place = divmod(number, self.steps_per_epoch)
        if place == 0:
            self.state = self.lstm.zero_state(self.config.streams)
        lr = self.config.lr_at(number / self.steps_per_epoch)
        for group in self.optimiser.param_groups:
            group["lr"] = lr
        window_loss = self.sampled if epoch < self.config.sampled_epochs else self.exact
        window_TS = window(self.symbol_TS, self.config.window, place).to(self.lstm.output_bias.device)

        def loss_of(shard: Shard) -> tuple[Tensor, tuple[float, State]]:
            """Of the streams of a shard."""
            span = shard.span(self.config.streams)
            at = slice(span.start, span.stop)
            state = State(self.state.h_KSH[:, at], self.state.c_KSH[:, at])
            loss, state = window_loss(self.lstm, window_TS[:, at], state, shard.rng)
            loss = loss * (len(span) / self.config.streams)
            return loss, (float(loss.detach()), state)

        parts = self.shards.sum_gradient(list(self.lstm.parameters()), rng, loss_of)
        norm = torch.nn.utils.clip_grad_norm_(self.lstm.parameters(), self.config.clip)
        self.optimiser.step()
        self.state = State(*(torch.cat(streams, 1) for streams in zip(*(state for _, state in parts), strict=True)))
        return {"loss": sum(loss for loss, _ in parts), "gradient_norm": float(norm), "lr": lr}

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
