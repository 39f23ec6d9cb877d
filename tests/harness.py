"""Correctness checks that every implementation goes through. A new potential's or language model's test is three lines.

Tiny problems: V words, lengths up to m, every sentence enumerated.
"""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from trflm.field.trf import TRF
from trflm.files.tensors import load_state, save_state
from trflm.language_model import LanguageModel
from trflm.learning.loop import Learner
from trflm.lms.proposals.protocol import Proposal
from trflm.potentials.protocol import Potential
from trflm.sampling.exact import Exact, all_sentences, expected_gradient
from trflm.seeds import generator
from trflm.text import UNK, Batch, Vocab


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def tiny_vocab(n_words: int) -> Vocab:
    return Vocab([UNK, *(f"w{i}" for i in range(1, n_words))])


def random_batch(n_words: int, lengths: list[int], seed: int = 0) -> Batch:
    return Batch(torch.randint(n_words, (sum(lengths),), generator=rng(seed)), torch.tensor(lengths))


def random_pi(max_length: int, seed: int = 0) -> Tensor:
    """A length distribution without zeros, entry 0 aside."""
    weights = torch.rand(max_length + 1, generator=rng(seed), dtype=torch.float64) + 0.2
    weights[0] = 0
    return weights / weights.sum()


def check_potential(potential: Potential, n_words: int, longest: int) -> None:
    """A potential in float64: packing does not matter, words add up, every parameter's gradient is that of its phi."""
    lengths = [*range(1, longest + 1), 1, 3, longest]
    batch = random_batch(n_words, lengths)
    phi_B = potential(batch)
    assert phi_B.shape == (len(batch),)
    assert torch.isfinite(phi_B).all()

    # A sentence's phi is its own, whatever it is packed with, in whatever order.
    alone_B = torch.cat([potential(batch.select(torch.tensor([b]))) for b in range(len(batch))])
    torch.testing.assert_close(phi_B, alone_B, rtol=1e-10, atol=1e-10)
    order = torch.randperm(len(batch), generator=rng(1))
    torch.testing.assert_close(potential(batch.select(order)), phi_B[order], rtol=1e-10, atol=1e-10)

    torch.testing.assert_close(batch.sum_words(potential.contributions(batch)), phi_B, rtol=1e-10, atol=1e-10)
    repeated = batch.select(torch.arange(len(batch)).repeat(3))
    torch.testing.assert_close(potential.score(repeated), phi_B.repeat(3), rtol=1e-10, atol=1e-10)

    # Dropout (if any) is the generator's alone: the same generator, the same phi; parameters can be saved and loaded.
    assert torch.equal(potential(batch, rng(4)), potential(batch, rng(4)))
    state = {name: value.clone() for name, value in potential.state_dict().items()}
    with torch.no_grad():
        for parameter in potential.parameters():
            parameter.add_(0.1)
    assert not torch.equal(potential(batch), phi_B)
    potential.load_state_dict(state)
    assert torch.equal(potential(batch), phi_B)

    # Directional derivative of a weighted sum of phi, by autograd and by central differences.
    weight_B = torch.randn(len(batch), generator=rng(2), dtype=torch.float64)
    parameters = list(potential.parameters())
    gradients = torch.autograd.grad((weight_B * potential(batch)).sum(), parameters)
    for parameter, gradient in zip(parameters, gradients, strict=True):
        direction = torch.randn(parameter.shape, generator=rng(3), dtype=torch.float64)
        step = 1e-6
        with torch.no_grad():
            parameter.add_(step * direction)
            above = float((weight_B * potential(batch)).sum())
            parameter.sub_(2 * step * direction)
            below = float((weight_B * potential(batch)).sum())
            parameter.add_(step * direction)
        expected = float((gradient.to_dense() * direction).sum())
        assert math.isclose((above - below) / (2 * step), expected, rel_tol=1e-4, abs_tol=1e-6)


def check_language_model(lm: LanguageModel | TRF, max_length: int) -> None:
    """Probabilities of all sentences of up to m words sum to one; words add up; strings and batches agree."""
    batch = all_sentences(len(lm.vocab), max_length)
    log_prob_S = lm.log_prob(batch)
    total = float(torch.logsumexp(log_prob_S.double(), 0))
    assert abs(total) < 1e-5, f"the probabilities sum to {math.exp(total)}"
    explanation = lm.explain(batch)
    together = batch.sum_words(explanation.word_N) + explanation.rest_B
    torch.testing.assert_close(together, log_prob_S, rtol=1e-6, atol=1e-5)
    some = torch.arange(0, len(batch), max(len(batch) // 20, 1))
    strings = lm.vocab.sentences(batch.select(some))
    torch.testing.assert_close(lm.log_prob(strings), log_prob_S[some], rtol=1e-6, atol=1e-5)


def check_expected_gradient(potential: Potential, n_words: int, pi: Tensor) -> None:
    """expected_gradient is sum_x p(l, x) d phi(x): sentence by sentence, the slow way."""
    parameters = list(potential.parameters())
    batch = all_sentences(n_words, len(pi) - 1)
    with torch.no_grad():
        p_S = Exact.of(potential, n_words, len(pi) - 1).log_prob(pi).exp()
    slow = [torch.zeros_like(p) for p in parameters]
    for s in range(len(batch)):
        one = torch.autograd.grad(potential(batch.select(torch.tensor([s]))).sum(), parameters)
        for total, gradient in zip(slow, one, strict=True):
            total += p_S[s] * gradient
    for fast, expected in zip(expected_gradient(potential, n_words, pi), slow, strict=True):
        torch.testing.assert_close(fast.to_dense(), expected, rtol=1e-8, atol=1e-10)


def check_learner(build: Callable[[], Learner], dev: Batch, directory: Path, steps: int = 4) -> None:
    """A step is a function of seed and number, state is complete and survives a file, and what is stored is finite: a run that
    is stopped after every step, saved, and gone on with by a new learner is the same run."""
    straight, broken, metrics = build(), build(), []
    for number in range(steps):
        metrics.append(straight.step(number, generator(7, "step", number)))
        assert broken.step(number, generator(7, "step", number)) == metrics[-1]
        assert broken.evaluate(dev) == straight.evaluate(dev)
        save_state(directory / "state.safetensors", broken.state_dict())
        broken = build()
        broken.load_state_dict(load_state(directory / "state.safetensors")[0])
    save_state(directory / "broken.safetensors", broken.state_dict())
    save_state(directory / "straight.safetensors", straight.state_dict())
    assert same_state(load_state(directory / "broken.safetensors")[0], load_state(directory / "straight.safetensors")[0])
    dev_metrics = straight.evaluate(dev)
    assert all(math.isfinite(value) for row in (*metrics, dev_metrics) for value in row.values())
    assert "criterion" in dev_metrics
    assert straight.evaluate(dev) == dev_metrics
    save_state(directory / "model.safetensors", straight.model.to_state())


def check_gradient(build: Callable[[int], tuple[Learner, Sequence[Tensor]]], loss: Callable[[Any], Tensor], draws: int) -> None:
    """The gradient that a first step leaves on the parameters is, in the mean over `draws` seeds, that of the loss which is
    said to be minimised, summed over everything that may be drawn: each parameter within five standard errors, and these
    are small enough together for a wrong factor to be seen."""
    gradient_KP = torch.stack([gradient_of_a_step(*build(seed), seed) for seed in range(draws)])
    learner, parameters = build(0)
    expected_P = flat(torch.autograd.grad(loss(learner), parameters))
    if draws == 1:
        torch.testing.assert_close(gradient_KP[0], expected_P, rtol=1e-3, atol=1e-5)
        return
    mean_P, error_P = gradient_KP.mean(0), gradient_KP.std(0) / math.sqrt(draws)
    assert float(error_P.norm()) < 0.1 * float(expected_P.norm())
    assert float(((mean_P - expected_P).abs() / (error_P + 1e-6)).max()) < 5


def gradient_of_a_step(learner: Learner, parameters: Sequence[Tensor], seed: int) -> Tensor:
    learner.step(0, generator(seed, "step", 0))
    return flat([gradient for p in parameters if (gradient := p.grad) is not None])


def flat(tensors: Sequence[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().to_dense().double().flatten() for tensor in tensors])


def same_state(one: Any, other: Any) -> bool:
    """To the bit."""
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same_state(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same_state, one, other))
    return one == other


def sentence_numbers(batch: Batch, n_words: int) -> Tensor:
    """[B] the row of each sentence in all_sentences: those of length l start after V + ... + V^(l-1), in counting order."""
    value_N = batch.ids_N * n_words**batch.remaining_N
    first = torch.tensor([sum(n_words**k for k in range(1, length)) for length in range(int(batch.lengths_B.max()) + 1)])
    return first[batch.lengths_B] + torch.zeros(len(batch), dtype=torch.int64).index_add(0, batch.sentence_N, value_N)


def check_proposal(proposal: Proposal, n_words: int, max_length: int) -> None:
    """log_q sums to one for every length; what propose draws has the density it says, and the right frequencies."""
    batch = all_sentences(n_words, max_length)
    log_q_S = proposal.log_q(batch).detach()
    for length in range(1, max_length + 1):
        total = float(torch.logsumexp(log_q_S[batch.lengths_B == length], 0))
        assert abs(total) < 1e-6, f"length {length} sums to {math.exp(total)}"

    # Whole sentences drawn span by span: the density returned is log_q, the words are those it belongs to.
    n, length = 4000, max_length
    lengths = torch.full((n,), length)
    first = length // 2
    draws = torch.full((n, 2, first), -1)
    one = proposal.propose(rng(1), proposal.start(n), draws, torch.full((n,), first), lengths)
    pick = torch.arange(n) % 2
    rest = torch.full((n, 1, length - first), -1)
    two = proposal.propose(rng(2), one.state_after(pick), rest, lengths - first, lengths - first)
    words = torch.cat([one.words_CMs[torch.arange(n), pick], two.words_CMs[:, 0]], 1)
    drawn = Batch(words.flatten(), lengths)
    log_q = one.log_q_CM[torch.arange(n), pick] + two.log_q_CM[:, 0]
    torch.testing.assert_close(log_q, proposal.log_q(drawn).detach(), rtol=1e-6, atol=1e-6)

    # The same words given instead of drawn, after the same first half read at once.
    prefix = Batch(words[:, :first].flatten(), torch.full((n,), first))
    given = proposal.propose(rng(3), proposal.after(prefix, lengths), words[:, None, first:], lengths - first, lengths - first)
    assert torch.equal(given.words_CMs[:, 0], words[:, first:])
    torch.testing.assert_close(given.log_q_CM[:, 0], two.log_q_CM[:, 0], rtol=1e-6, atol=1e-6)

    # 4000 draws of a share p have a standard error of at most 0.008: five of them.
    shares = torch.bincount(sentence_numbers(drawn, n_words), minlength=len(batch)) / n
    expected = log_q_S.exp() * (batch.lengths_B == length)
    assert float((shares - expected).abs().max()) < 0.04
