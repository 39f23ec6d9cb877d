"""How `cloze`, `distil` and `word-nce` go down their loss: Adam with decoupled weight decay (Adagrad on the rows of a discrete
potential, see `adam`), and a running mean of the potential.

    lr(t)   = lr * min(1, t / warm_up) * fall,     fall = 1 for `constant_epochs`, then half a cosine down to 0 at `lr_epochs`
    mean(t) = mean(t-1) + (theta(t) - mean(t-1)) * (1 - min(average, (t + 1) / (t + 10)))

The steps change a potential of their own; that of the field is the mean. So the field can be scored and saved at any moment,
and is better than the last step's potential as long as the rate has not fallen.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from trflm.learning.adam import Adam
from trflm.learning.loop import clip_gradient
from trflm.potentials.protocol import Layers, Potential
from trflm.ranges import NotNegative, Positive, Share, Steps
from trflm.speed.bf16 import has_bf16


@dataclass(frozen=True)
class DescentConfig:
    lr: Positive = 2e-3  # learning rate (Adam)
    warm_up: Steps = 200  # steps until the learning rate is reached
    constant_epochs: NotNegative = 5.0  # epochs before it falls
    lr_epochs: NotNegative = 24.0  # epochs after which it has fallen to nothing
    weight_decay: NotNegative = 0.03  # decoupled
    clip: Positive = 1.0  # greatest gradient norm
    average: Share = 0.99  # of the running mean: the share it keeps in a step; 0: no mean
    bf16: bool = False  # products of CNN and LSTM layers in bf16, if this CPU has instructions for it

    def __post_init__(self) -> None:
        if not (self.lr > 0 and self.clip > 0 and self.lr_epochs > self.constant_epochs >= 0):
            raise ValueError("lr and clip must be positive, constant_epochs not negative, and lr_epochs above it")
        if min(self.warm_up, self.weight_decay) < 0 or not 0 <= self.average < 1:
            raise ValueError("warm_up and weight_decay must not be negative, average must be from 0 up and below 1")

    def lr_at(self, number: int, epoch: float) -> float:
        """The learning rate of step `number`, at `epoch` epochs."""
        fallen = (epoch - self.constant_epochs) / (self.lr_epochs - self.constant_epochs)
        fall = (1 + math.cos(math.pi * min(max(fallen, 0.0), 1.0))) / 2
        return self.lr * min(1.0, (number + 1) / (self.warm_up + 1)) * max(fall, 1e-3)


class Descent:
    """`potential` is what a loss is to be computed with; `field` keeps its running mean."""

    def __init__(self, field: Potential, others: Sequence[nn.Parameter], config: DescentConfig) -> None:
        assert isinstance(field, nn.Module)
        self.field, self.config = field, config
        self.potential = copy.deepcopy(field)
        for part in self.potential.modules():
            if isinstance(part, Layers):
                part.train_in_bf16 = config.bf16 and has_bf16()
        self.theta = [*self.potential.parameters(), *others]
        on_cpu = all(p.device.type == "cpu" for p in self.theta)
        self.optimiser = Adam(
            [{"params": list(self.potential.parameters())}, {"params": list(others), "weight_decay": 0.0}],
            lr=config.lr,
            weight_decay=config.weight_decay,
            fused=on_cpu,  # one pass over the parameters
        )

    def step(self, number: int, epoch: float) -> tuple[float, float]:
        """Down the gradient that `theta` has: (its norm, the rate)."""
        rate = self.config.lr_at(number, epoch)
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        norm = clip_gradient(self.theta, self.config.clip)
        self.optimiser.step()
        new = 1 - min(self.config.average, (number + 1) / (number + 10))
        with torch.no_grad():
            for mean, value in zip(self.field.parameters(), self.potential.parameters(), strict=True):
                mean.lerp_(value, new)
        return norm, rate

    def state_dict(self) -> dict[str, Any]:
        return {"potential": self.potential.state_dict(), "optimiser": self.optimiser.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.potential.load_state_dict(state["potential"])
        self.optimiser.load_state_dict(state["optimiser"])
