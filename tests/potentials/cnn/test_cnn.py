from dataclasses import replace

import pytest
import torch
from harness import check_potential, random_batch, rng

from trflm.potentials.cnn import winograd
from trflm.potentials.cnn.bank import fill_by_torch, fill_compiled
from trflm.potentials.cnn.layers import Rows, half_offsets
from trflm.potentials.cnn.model import CNN, CNNConfig
from trflm.potentials.cnn.plain import plain_phi

SMALL = CNNConfig(embedding=6, projection=5, bank_width=4, bank_filters=3, stack_layers=2, stack_filters=4, init=0.5)
SHAPES = [
    SMALL,
    CNNConfig(embedding=3, projection=4, bank_width=1, bank_filters=5, pool_width=1, stack_layers=1, stack_width=1, init=0.5),
    CNNConfig(embedding=3, projection=2, bank_width=7, bank_filters=2, pool_width=3, stack_width=4, stack_filters=3, init=0.5),
]
WIDE = CNNConfig(embedding=3, projection=4, bank_width=3, bank_filters=11, stack_filters=32, init=0.2)  # minimal filtering


@pytest.mark.parametrize("config", SHAPES)
def test_is_a_potential(config):
    check_potential(CNN(config, 9, rng()).double(), n_words=9, longest=14)


@pytest.mark.parametrize("config", [*SHAPES, WIDE])
def test_equals_padded_convolutions_forward_and_backward(config, compiled, monkeypatch):
    """In float64 the two differ by rounding alone (1e-12); a wrong offset or edge differs in the first digit. Rows are filtered
    in several parts."""
    monkeypatch.setattr(winograd, "CHUNK", 7)
    cnn = CNN(config, 9, rng()).double()
    batch = random_batch(9, [*range(1, 25), 1, 1, 2])
    weight_B = torch.randn(len(batch), generator=rng(5), dtype=torch.float64)
    ours, plain = cnn(batch), plain_phi(cnn, batch)
    torch.testing.assert_close(ours, plain, rtol=1e-11, atol=1e-11)
    parameters = list(cnn.parameters())
    for mine, theirs in zip(
        torch.autograd.grad((weight_B * ours).sum(), parameters),
        torch.autograd.grad((weight_B * plain).sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-11)


@pytest.mark.usefixtures("numba")
@pytest.mark.parametrize("bank_width", [1, 2, 7])
def test_compiled_loops_find_the_same_table_rows(bank_width):
    batch = random_batch(9, [*range(1, 25), 1, 1, 2])
    offsets = torch.tensor([(k, o) for k in range(1, bank_width + 1) for o in half_offsets(k)]).t()
    words_U, word_N = torch.unique(batch.ids_N, return_inverse=True)
    arguments = (batch, Rows(batch, [2, 3]), word_N, 1 + torch.arange(len(words_U)).flip(0), torch.bincount(word_N), offsets)
    for found, expected in zip(fill_compiled(*arguments), fill_by_torch(*arguments), strict=True):
        assert torch.equal(found, expected)


def test_paper_size_in_float32_for_every_length():
    cnn = CNN(CNNConfig(), 50, rng())
    batch = random_batch(50, list(range(1, 60)))
    with torch.no_grad():
        assert float((cnn(batch) - plain_phi(cnn, batch)).abs().max()) < 1e-5


def test_has_the_papers_number_of_parameters():
    """Table 2 says 4.0 M for PTB's 10,000 words."""
    count = sum(p.numel() for p in CNN(CNNConfig(), 10_000, rng()).parameters())
    assert count == 10_000 * 256 + (256 + 1) * 128 + 55 * 128 * 128 + 3 * 128 * (1280 + 128 + 128) + 3 * 128 + 128 + 1
    assert abs(count - 4.08e6) < 0.01e6


def test_a_position_sees_seventeen_words():
    """4 + 3 words to the left and 5 + 1 + 3 to the right, and not one more."""
    cnn = CNN(CNNConfig(embedding=4, projection=8, bank_filters=8, stack_filters=8, init=0.5), 30, rng()).double()
    batch = random_batch(30, [40])
    with torch.no_grad():
        before = cnn.contributions(batch)
        reached = set()
        for place in range(40):
            other = batch.ids_N.clone()
            other[place] = (other[place] + 1) % 30
            after = cnn.contributions(type(batch)(other, batch.lengths_B))
            if abs(float(after[20] - before[20])) > 1e-14:
                reached.add(place - 20)
    assert reached == set(range(-7, 10))


def test_same_seed_same_parameters():
    one, two = CNN(SMALL, 9, rng(3)), CNN(SMALL, 9, rng(3))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))


@pytest.mark.parametrize("wrong", [{"bank_width": 0}, {"stack_layers": 0}, {"init": 0.0}])
def test_impossible_dimensions_are_refused(wrong):
    with pytest.raises(ValueError, match="must be"):
        CNNConfig(**wrong)


def test_the_kept_table_follows_the_parameters_and_the_vocabulary():
    """Scores stay right when words come one after the other, when a parameter changes, and when the table starts anew."""
    cnn = CNN(SMALL, 40, rng()).double()
    first, second = random_batch(10, [3, 5, 7]), random_batch(40, [9, 11, 2], seed=4)
    cnn.score(first)
    torch.testing.assert_close(cnn.score(second), cnn(second).detach())
    with torch.no_grad():
        cnn.bank.mul_(1.5)
    torch.testing.assert_close(cnn.score(first), cnn(first).detach())
    cnn.word_table.most_bytes = 1
    torch.testing.assert_close(cnn.score(second), cnn(second).detach())
    torch.testing.assert_close(cnn.score(first), cnn(first).detach())


def test_dropout_is_drawn_from_the_generator_and_only_with_one():
    """With weights above 0 no ReLU bends and phi is linear in what is dropped: it keeps its mean. 400 draws, five errors."""
    plain, dropped = CNN(SMALL, 9, rng()).double(), CNN(replace(SMALL, dropout=0.5), 9, rng()).double()
    batch = random_batch(9, [3, 8])
    assert torch.equal(plain(batch, rng(1)), dropped(batch))
    assert torch.equal(dropped(batch, rng(1)), dropped(batch, rng(1)))
    assert not torch.equal(dropped(batch, rng(1)), dropped(batch, rng(2)))
    with torch.no_grad():
        for parameter in dropped.parameters():
            parameter.abs_()
        generator = rng(3)
        draws = torch.stack([dropped(batch, generator) for _ in range(400)])
        error = draws.std(0) / 20
        assert bool((error > 0).all())
        assert bool(((draws.mean(0) - dropped(batch)).abs() < 5 * error).all())
