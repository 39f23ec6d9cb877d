"""Sentences of the text with drawn ones beside them: a function of seed and step, each draw used so many times."""

from collections import Counter

import pytest
import torch
from harness import random_batch, tiny_vocab

from trflm.learning.batches import ShuffledBatches
from trflm.learning.drawn import BLOCK, Draws, TextAndDraws
from trflm.lms.ngram import KneserNeyConfig, NGram, kneser_ney
from trflm.text import Batch

pytestmark = pytest.mark.filterwarnings("ignore:the .-grams of this text")

V, M = 4, 5
TEXT = random_batch(V, [1, 2, 3, 5, 4, 2] * 20, seed=3)


def model() -> NGram:
    return kneser_ney(TEXT, tiny_vocab(V), KneserNeyConfig(order=2))


class Numbered:
    """Draws sentences 0, 1, 2, ... of one word each, every fifth too long."""

    def draw(self, n: int, rng: torch.Generator) -> Batch:
        lengths = torch.ones(n, dtype=torch.int64)
        lengths[::5] = M + 1
        return Batch(torch.arange(n).repeat_interleave(lengths), lengths)


def test_each_draw_is_used_as_often_as_is_said_and_none_is_too_long():
    text = ShuffledBatches(TEXT, 8, seed=1)
    both = TextAndDraws(text, Draws(Numbered(), 10, uses=4, max_length=M, seed=1), text.per_epoch)
    words: Counter[int] = Counter()
    for step in range(BLOCK):
        batch = both.of_step(step)
        assert len(batch) == 18
        assert torch.equal(batch.select(torch.arange(8)).ids_N, text.of_step(step).ids_N.long())
        assert int(batch.lengths_B.max()) <= M
        drawn = batch.select(torch.arange(8, 18))
        words.update(drawn.ids_N.tolist())
    assert set(words) == {k for k in range(10 * BLOCK // 4) if k % 5}
    assert set(words.values()) <= {4, 5, 6}  # the too long ones are made up for by the others
    assert sum(words.values()) == 10 * BLOCK


def test_a_step_is_a_function_of_seed_and_number():
    def sentences(seed: int, steps: list[int]) -> list[list[int]]:
        draws = Draws(model(), 6, uses=2, max_length=M, seed=seed)
        return [draws.of_step(step).ids_N.tolist() for step in steps][-1:]

    last = BLOCK + 3
    assert sentences(1, [0, 5, last]) == sentences(1, [last])  # as after a resume
    assert sentences(1, [last]) != sentences(2, [last])
    assert sentences(1, [last]) != sentences(1, [2 * last])


def test_draws_follow_the_model():
    """The words of many draws have the model's frequencies."""
    draws = Draws(model(), 200, uses=1, max_length=10_000, seed=1)
    drawn = [draws.of_step(step).ids_N for step in range(0, 2 * BLOCK, 4)]
    share = torch.bincount(torch.cat(drawn), minlength=V).double()
    exact = torch.bincount(model().draw(20_000, torch.Generator().manual_seed(5)).ids_N, minlength=V).double()
    assert torch.allclose(share / share.sum(), exact / exact.sum(), atol=0.02)
