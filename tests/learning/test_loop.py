import pytest
import torch
from harness import random_batch

from trflm.errors import TrainingError
from trflm.language_model import Stored
from trflm.learning.batches import ShuffledBatches
from trflm.learning.loop import Metrics, training
from trflm.seeds import generator
from trflm.text import Batch


class Recorder:
    """A learner that remembers what it saw."""

    notes = ()

    def __init__(self) -> None:
        self.batches = ShuffledBatches(DATA, 3, seed=4)
        self.steps_per_epoch = self.batches.per_epoch
        self.seen: list[tuple[list[int], float]] = []

    def step(self, number: int, rng: torch.Generator) -> Metrics:
        self.seen.append((self.batches.of_step(number).lengths_B.tolist(), float(torch.rand((), generator=rng))))
        return {"loss": 1.0 / len(self.seen)}

    def usable(self, dev: Batch) -> Batch:
        return dev

    @property
    def model(self) -> Stored:
        raise NotImplementedError("the loop stores nothing")

    def evaluate(self, dev: Batch) -> Metrics:
        return {"dev_loss": float(len(dev))}

    def state_dict(self):
        return {}

    def load_state_dict(self, state) -> None:
        pass


DATA = random_batch(5, list(range(1, 11)))


def test_an_epoch_sees_each_sentence_once_in_a_new_order():
    learner = Recorder()
    moments = list(training(learner, DATA, epochs=2, seed=4))
    assert [m.step for m in moments] == [1, 2, 3, 4, 5, 6]
    assert [m.dev is not None for m in moments] == [False, False, True] * 2
    first = [n for lengths, _ in learner.seen[:3] for n in lengths]
    second = [n for lengths, _ in learner.seen[3:] for n in lengths]
    assert len(set(first)) == len(set(second)) == 9  # 10 sentences, batches of 3: one waits for another epoch
    assert first != second


def test_continuing_from_any_step_is_the_same_run():
    whole = Recorder()
    list(training(whole, None, epochs=2, seed=4))
    for start in range(7):
        rest = Recorder()
        list(training(rest, None, epochs=2, seed=4, steps_done=start))
        assert rest.seen == whole.seen[start:]


def test_streams_are_independent_and_repeatable():
    draws = {
        float(torch.rand((), generator=generator(seed, stream, number)))
        for seed in (1, 2)
        for stream in ("order", "step")
        for number in (0, 1)
    }
    assert len(draws) == 8
    assert torch.equal(torch.rand(3, generator=generator(1, "init")), torch.rand(3, generator=generator(1, "init")))


def test_divergence_stops_with_advice():
    class Diverging(Recorder):
        def step(self, number: int, rng: torch.Generator) -> Metrics:
            return {"loss": float("nan")}

    with pytest.raises(TrainingError, match=r"diverged at step 1: loss = nan.*Lower the learning rate"):
        list(training(Diverging(), None, epochs=2, seed=4))
