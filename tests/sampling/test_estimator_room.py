"""A new estimator is a file with its configuration, and a line in `estimators.ESTIMATORS`."""

from dataclasses import dataclass
from typing import Literal

import pytest
import torch
from harness import random_pi, rng, tiny_vocab

from trflm.errors import InputError
from trflm.evaluation.effort import Effort
from trflm.evaluation.perplexity import perplexity
from trflm.field.snapshots import FieldModel
from trflm.field.trf import TRF
from trflm.lms.unigram import Unigram
from trflm.potentials.cnn.model import CNN, CNNConfig
from trflm.sampling import estimators
from trflm.sampling.draw import FieldSampler
from trflm.sampling.estimator import Estimates, Problem
from trflm.sampling.importance import Importance, ImportanceConfig
from trflm.sampling.mixture import TransMSConfig
from trflm.text import Batch


class Doubled(Importance):
    """Importance sampling with twice the draws: the toy."""

    def forward(self, rng: torch.Generator, length: int, n: int) -> Estimates:
        return Importance(self.problem, 2 * self.size).forward(rng, length, n)

    def describe(self) -> str:
        return "twice the draws"


@dataclass(frozen=True)
class DoubledConfig:
    kind: Literal["doubled"] = "doubled"

    def build(self, problem: Problem) -> Doubled:
        return Doubled(problem, ImportanceConfig().size)


def test_an_estimator_is_one_file_and_one_line(monkeypatch):
    with pytest.raises(InputError, match="give one of smc, ais, is"):
        estimators.by_kind("doubled")
    monkeypatch.setattr(estimators, "ESTIMATORS", (*estimators.ESTIMATORS, DoubledConfig))
    vocab = tiny_vocab(40)
    config = CNNConfig(4, 4, bank_width=3, bank_filters=4, stack_layers=1, stack_filters=4, init=0.3)
    trf = TRF(vocab, CNN(config, 40, rng(1)), random_pi(6))
    unigram = Unigram(vocab, trf.pi, torch.full((40,), 1 / 40).log())
    lm = FieldModel([trf], FieldSampler(unigram, TransMSConfig()))
    text = Batch(torch.randint(40, (60,), generator=rng(2)), torch.full((10,), 6))
    found = perplexity(lm, text, estimators.by_kind("doubled"), Effort(0.05, 0.5))
    assert "twice the draws" in found.how
    assert 1 < found.low <= found.high
