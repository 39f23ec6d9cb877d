"""The training loop: every learner runs in it. It knows no files; who iterates over it records, saves and stops.

Everything random is a function of (seed, step) or (seed, epoch), so a run continues bit for bit from any step: there is
no generator state to lose.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from trflm.errors import TrainingError
from trflm.text import Batch

Metrics = dict[str, float]


class Learner(Protocol):
    """What the loop asks of a learner."""

    def step(self, batch: Batch, rng: torch.Generator) -> Metrics:
        """One parameter update from these sentences; what a person wants to see of it."""
        ...

    def evaluate(self, dev: Batch) -> Metrics:
        """What is to be seen on dev text, deterministic; `criterion` among it, higher is better."""
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


@dataclass(frozen=True)
class Plan:
    """How long to train and in what order to see the data."""

    batch: int
    epochs: int
    seed: int
    device: str = "cpu"

    def steps_per_epoch(self, n_sentences: int) -> int:
        return max(n_sentences // self.batch, 1)


def training(learner: Learner, train: Batch, dev: Batch | None, plan: Plan, steps_done: int = 0) -> Iterator[Moment]:
    """Steps `steps_done`+1 up to the last, one Moment after each."""
    per_epoch = plan.steps_per_epoch(len(train))
    steps = plan.epochs * per_epoch
    order = torch.empty(0)
    for step in range(steps_done, steps):
        epoch, place = divmod(step, per_epoch)
        if place == 0 or step == steps_done:
            order = torch.randperm(len(train), generator=generator(plan.seed, "order", epoch))
        chosen = order[place * plan.batch : (place + 1) * plan.batch]
        metrics = learner.step(train.select(chosen).to(plan.device), generator(plan.seed, "step", step))
        check_finite(metrics, step + 1)
        dev_metrics = learner.evaluate(dev) if dev is not None and place == per_epoch - 1 else None
        yield Moment(step + 1, steps, (step + 1) / per_epoch, metrics, dev_metrics)


STREAMS = {"order": 1, "step": 2, "init": 3, "dev": 4, "sample": 5}


def generator(seed: int, stream: str, number: int = 0) -> torch.Generator:
    """An independent source of randomness for one purpose and one number."""
    state = np.random.SeedSequence([seed, STREAMS[stream], number]).generate_state(1, np.uint64)
    return torch.Generator().manual_seed(int(state[0]))


def check_finite(metrics: Metrics, step: int) -> None:
    bad = [f"{name} = {value}" for name, value in metrics.items() if not math.isfinite(value)]
    if bad:
        raise TrainingError(
            f"training diverged at step {step}: {', '.join(bad)}. The last good checkpoint is kept. "
            "Lower the learning rate or the gradient clip (--set learner.lr=..., learner.clip=...) and start a new run"
        )


def clip_gradient(parameters: Iterable[Tensor], most: float) -> float:
    """Scale the gradient to a norm of at most `most`; the norm it had."""
    return float(torch.nn.utils.clip_grad_norm_(parameters, most))
