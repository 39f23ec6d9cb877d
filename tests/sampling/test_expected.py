"""The window jump leaves the target as it is, and what moves say they expect has the mean of what comes to be."""

import itertools

import pytest
import torch
from harness import rng, sentence_numbers
from kernels import V, check_balance, exact_p, histogram, problem, total_variation

from trflm.sampling.chains import Chains
from trflm.sampling.exact import all_sentences
from trflm.sampling.gibbs import block_gibbs, expected_of
from trflm.sampling.jump import local_jump
from trflm.sampling.mixture import TransMSConfig, trans_ms
from trflm.sampling.window import beginnings, length_log_probs, window_jump, windows
from trflm.text import Batch


def test_windows_cut_the_lengths_into_parts():
    lengths = torch.arange(1, 8)
    for offset in range(3):
        low, high = windows(lengths, torch.full_like(lengths, offset), 3, 7)
        assert bool(((low <= lengths) & (lengths <= high)).all())
        assert float((high - low).max()) <= 2
        cells = set(zip(low.tolist(), high.tolist(), strict=True))
        assert sum(b - a + 1 for a, b in cells) == 7, "no length is in two windows"


@pytest.mark.parametrize("width", [2, 3])
def test_window_jump_balances(width):
    """The transition matrix, by all words that may be drawn."""
    target, proposal = problem(3)
    everything, m = all_sentences(V, 3), 3
    S = len(everything)
    flow_SS = torch.zeros(S, S, dtype=torch.float64)
    for x, offset in itertools.product(range(S), range(width)):
        now = everything.select(torch.tensor([x]))
        low, high = windows(now.lengths_B, torch.tensor([offset]), width, m)
        a, b, k = int(low), int(high), int(now.lengths_B)
        added = torch.tensor(list(itertools.product(range(V), repeat=b - k)), dtype=torch.int64).reshape(V ** (b - k), b - k)
        n = len(added)
        words = torch.cat([now.ids_N.expand(n, k), added], 1)
        log_g = torch.zeros(n, b - a + 1, dtype=torch.float64)
        for at in range(a, b):  # the density of each word, given those before it in a sentence of b words
            prefix = Batch(words[:, :at].flatten(), torch.full((n,), at))
            one, left = torch.ones(n, dtype=torch.int64), torch.full((n,), b - at)
            state = proposal.after(prefix, torch.full((n,), b))
            log_g[:, at - a + 1] = proposal.propose(rng(), state, words[:, None, at : at + 1], one, left).log_q_CM[:, 0]
        ends = [Batch(words[:, :at].flatten(), torch.full((n,), at)) for at in range(a, b + 1)]
        log_p = torch.stack([target.log_density(end) for end in ends], 1)
        drawn = log_g[:, k - a + 1 :].sum(1, keepdim=True)
        flow = (drawn + length_log_probs(log_p, log_g)).exp() / width
        for column, end in enumerate(ends):
            flow_SS[x].index_add_(0, sentence_numbers(end, V), flow[:, column])
    check_balance(flow_SS, exact_p(target))


def test_beginnings_are_the_words_of_a_chain_then_the_drawn_ones():
    now = Batch(torch.tensor([5, 6, 7, 8]), torch.tensor([1, 3]))
    words = torch.tensor([[0, 11, 12], [0, 8, 21]])  # from word a + 1 on, whose own words are given
    every = beginnings(now, torch.tensor([1, 2]), words, torch.tensor([0, 0, 0, 1, 1, 1]), torch.tensor([0, 1, 2, 0, 1, 2]))
    rows = [every.select(torch.tensor([i])).ids_N.tolist() for i in range(6)]
    assert rows == [[5], [5, 11], [5, 11, 12], [6, 7], [6, 7, 8], [6, 7, 8, 21]]


def test_the_sampler_with_window_jumps_reaches_the_target():
    """400,000 draws over 39 sentences: sampling noise alone gives a total variation of about 0.004."""
    target, proposal = problem(3)
    config = TransMSConfig(block=2, trials=3, window=2)
    found = histogram(
        target, lambda r, c: trans_ms(r, Chains(c.batch), target, proposal, config)[0], n_chains=2000, iterations=220
    )
    assert total_variation(found, exact_p(target)) < 0.02


JUMPS = {
    "local": lambda r, c, t, q: local_jump(r, c, t, q, 2),
    "window": lambda r, c, t, q: window_jump(r, c, t, q, 3),
}


@pytest.mark.parametrize("name", JUMPS)
def test_expected_shares_of_lengths_have_the_mean_of_the_shares_and_a_smaller_variance(name):
    """400 jumps of the same 50 chains: standard errors of the mean shares are about 0.003."""
    target, proposal = problem(4)
    chains = Chains.at(all_sentences(V, 4).select(torch.arange(50) * 2), target)
    expected, found = [], []
    for seed in range(400):
        after, info = JUMPS[name](rng(seed), chains, target, proposal)
        expected.append(info.length_share)
        found.append(torch.bincount(after.batch.lengths_B, minlength=5).double() / 50)
    expected, found = torch.stack(expected), torch.stack(found)
    assert float((expected.sum(1) - 1).abs().max()) < 1e-12
    assert float((expected.mean(0) - found.mean(0)).abs().max()) < 0.01
    assert float(expected.var(0).sum()) < 0.7 * float(found.var(0).sum())


def test_expected_sentences_have_the_mean_of_the_target_and_a_smaller_variance():
    """At stationarity, 300 sweeps of 120 chains: their estimate of each sentence's probability, against the truth."""
    target, proposal = problem(3)
    everything, p_S = all_sentences(V, 3), exact_p(target)
    start = everything.select(torch.multinomial(p_S, 120, True, generator=rng(5)))
    chains, source, expected, found = Chains.at(start, target), rng(6), [], []
    for _ in range(20):
        chains, _ = trans_ms(source, chains, target, proposal, TransMSConfig(block=2, trials=3, window=2))
    for _ in range(300):
        chains, _ = window_jump(source, chains, target, proposal, 3)
        chains, info = block_gibbs(source, chains, target, proposal, block=2, trials=3, weigh_trials=True)
        assert info.expected is not None
        number = sentence_numbers(info.expected.batch, V)
        expected.append(torch.zeros(len(p_S), dtype=torch.float64).index_add_(0, number, info.expected.weight_B))
        found.append(torch.bincount(sentence_numbers(chains.batch, V), minlength=len(p_S)).double() / 120)
    expected, found = torch.stack(expected), torch.stack(found)
    # a mean of 36,000 draws over 39 sentences: total variation 0.013 by noise alone, if they were independent
    assert total_variation(expected.mean(0), p_S) < 0.03
    assert float((expected.mean(0).sum() - 1).abs()) < 0.01
    assert float(expected.var(0).sum()) < 0.8 * float(found.var(0).sum())


def test_the_roulette_keeps_every_mean():
    """Trials of little weight are mostly left out, and count for more when they are not. 4000 times over, standard errors of
    the means are below 0.002."""
    now = Batch(torch.tensor([0, 1]), torch.tensor([1, 1]))
    trial = Batch(torch.tensor([2, 3, 4, 5, 6, 7]), torch.ones(6, dtype=torch.int64))
    prob_CM = torch.tensor([[0.5, 0.03, 0.01], [0.02, 0.05, 0.9]], dtype=torch.float64)
    total, kept = torch.zeros(8, dtype=torch.float64), 0
    for seed in range(4000):
        found = expected_of(rng(seed), now, trial, prob_CM, torch.tensor([0, 1]))
        total.index_add_(0, found.batch.ids_N, found.weight_B)
        kept += len(found.batch)
    expected = torch.tensor([0.46, 0.03, 0.5, 0.03, 0.01, 0.02, 0.05, 0.9], dtype=torch.float64)
    torch.testing.assert_close(total / 4000, expected, rtol=0, atol=0.01)
    assert kept / 4000 < 5
