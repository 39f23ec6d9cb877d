"""The training loop: every learner runs in it. It knows no files and no text; who iterates over it records, saves and stops.

A learner owns its data and says how many steps an epoch of it has. Everything random is a function of (seed, step) or
(seed, epoch), so a run continues bit for bit from any step.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from trflm.errors import TrainingError
from trflm.language_model import Stored
from trflm.seeds import generator
from trflm.text import Batch

Metrics = dict[str, float]


class Learner(Protocol):
    """What the loop asks of a learner."""

    @property
    def steps_per_epoch(self) -> int:
        """How many steps see the training text once."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What a person should know before the first step."""
        ...

    def step(self, number: int, rng: torch.Generator) -> Metrics:
        """Parameter update 0, 1, 2, ... from the data that is its turn; what a person wants to see of it."""
        ...

    def usable(self, dev: Batch) -> Batch:
        """The dev sentences that it can be evaluated on."""
        ...

    def evaluate(self, dev: Batch) -> Metrics:
        """Deterministic dev metrics, including `criterion`, higher is better."""
        ...

    @property
    def model(self) -> Stored:
        """What a run stores: a field with its proposal, or a directed model, as it is at this moment."""
        ...

    def state_dict(self) -> dict[str, Any]:
        """All that the next step depends on, model and optimisers included."""
        ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


@dataclass(frozen=True)
class Moment:
    """The state of training after a step."""

    step: int  # steps done
    steps: int  # steps in all
    epoch: float  # epochs done
    metrics: Metrics
    dev: Metrics | None  # at the end of an epoch


def training(learner: Learner, dev: Batch | None, *, epochs: int, seed: int, steps_done: int = 0) -> Iterator[Moment]:
    """Steps `steps_done`+1 up to the last, one Moment after each."""
    per_epoch = learner.steps_per_epoch
    steps = epochs * per_epoch
    for step in range(steps_done, steps):
        metrics = learner.step(step, generator(seed, "step", step))
        check_finite(metrics, step + 1)
        ends_epoch = (step + 1) % per_epoch == 0
        dev_metrics = learner.evaluate(dev) if dev is not None and ends_epoch else None
        check_finite(dev_metrics or {}, step + 1)
        yield Moment(step + 1, steps, (step + 1) / per_epoch, metrics, dev_metrics)


def check_finite(metrics: Metrics, step: int) -> None:
    bad = [f"{name} = {value}" for name, value in metrics.items() if not math.isfinite(value)]
    if bad:
        raise TrainingError(
            f"training diverged at step {step}: {', '.join(bad)}. The last good checkpoint is kept. "
            "Lower the learning rate or the gradient clip (--set learner.lr=..., learner.clip=...) and start a new run"
        )


def clip_gradient(parameters: Iterable[Tensor], most: float) -> float:
    """Scale the gradient to a norm of at most `most`; the norm it had. Sparse gradients are coalesced."""
    gradients = []
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
            gradients.append(parameter.grad.values())  # the same memory
        elif parameter.grad is not None:
            gradients.append(parameter.grad)
    norm = torch.nn.utils.get_total_norm(gradients)
    scale = (most / (norm + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale)
    return float(norm)
