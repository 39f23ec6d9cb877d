"""Each kernel's exact transition matrix, by enumerating its proposals, and the sampler's long-run histogram.

The matrices are built from the functions the kernels accept with (`jump_log_acceptance`, `mtmis_log_acceptance`), so a
wrong formula breaks detailed balance here; the histogram then shows that the kernels put them together rightly.
"""

import itertools

import pytest
import torch
from harness import rng, sentence_numbers
from kernels import V, check_balance, exact_p, histogram, problem, total_variation, words_of

from trflm.lms.proposals.lstm import LSTMProposal, LSTMProposalConfig
from trflm.sampling.chains import Chains
from trflm.sampling.draw import draw_sentences
from trflm.sampling.exact import Exact, all_sentences
from trflm.sampling.gibbs import block_gibbs, mtmis_log_acceptance, with_block, words_at
from trflm.sampling.jump import append, jump_log_acceptance, local_jump, log_gamma, truncate
from trflm.sampling.mixture import TransMSConfig, trans_ms
from trflm.text import Batch


@pytest.mark.parametrize("jump_range", [1, 2])
def test_jump_balances(jump_range):
    target, proposal = problem(4)
    m = target.max_length
    everything = all_sentences(V, m)
    S, log_p_S = len(everything), target.log_density(everything)
    flow_SS = torch.zeros(S, S, dtype=torch.float64)
    for k, j in itertools.product(range(1, m + 1), repeat=2):
        if k == j or abs(k - j) > jump_range:
            continue
        # Every pair of a sentence of the shorter length and a span that makes it longer.
        short, long = min(k, j), max(k, j)
        rows = (everything.lengths_B == short).nonzero().squeeze(1)
        added = words_of(long - short)
        prefix = everything.select(rows.repeat_interleave(len(added)))
        words = added.repeat(len(rows), 1)
        n = len(prefix)
        lengths, span = torch.full((n,), long), torch.full((n,), long - short)
        g = proposal.propose(rng(), proposal.after(prefix, lengths), words[:, None], span, span).log_q_CM[:, 0]
        longer = append(prefix, words, span)
        assert torch.equal(truncate(longer, prefix.lengths_B).ids_N, prefix.ids_N)
        at_short, at_long = sentence_numbers(prefix, V), sentence_numbers(longer, V)
        at_from, at_to = (at_short, at_long) if j > k else (at_long, at_short)
        from_C, to_C = torch.full((n,), k), torch.full((n,), j)
        log_accept = jump_log_acceptance(from_C, to_C, log_p_S[at_from], log_p_S[at_to], g, jump_range, m)
        log_proposed = log_gamma(from_C, jump_range, m) + (g if j > k else 0)
        flow_SS[at_from, at_to] += (log_proposed + log_accept).exp()
    check_balance(flow_SS, exact_p(target))


@pytest.mark.parametrize("trials", [1, 2, 3])
@pytest.mark.parametrize("block", [1, 2])
def test_move_balances(block, trials):
    target, proposal = problem(3)
    everything = all_sentences(V, 3)
    S, p_S = len(everything), exact_p(target)
    for first in range(0, 3, block):
        flow_SS = torch.zeros(S, S, dtype=torch.float64)
        for x in (everything.lengths_B > first).nonzero().squeeze(1).tolist():
            now = everything.select(torch.tensor([x]))
            remaining = now.lengths_B - first
            span = remaining.clamp(max=block)
            options = torch.zeros(V ** int(span), block, dtype=torch.int64)
            options[:, : int(span)] = words_of(int(span))
            before = Batch(now.ids_N[:first], torch.tensor([first])) if first else None
            state = proposal.after(before, now.lengths_B) if before else proposal.start(1)
            log_g = proposal.propose(rng(), state, options[None], span, remaining).log_q_CM[0]
            sentences = with_block(now, first, options[None])
            at = sentence_numbers(sentences, V)
            log_w = target.log_density(sentences) - log_g
            present = int((options == words_at(now, first, block)).all(1).nonzero())
            tuples = torch.tensor(list(itertools.product(range(len(options)), repeat=trials)))
            log_w_CM = log_w[tuples]
            log_flow = log_g[tuples].sum(1, keepdim=True) + log_w_CM.log_softmax(1)
            log_flow = log_flow + mtmis_log_acceptance(log_w_CM, log_w[present].expand(len(tuples)))
            flow_SS[x].index_add_(0, at[tuples].flatten(), log_flow.exp().flatten())
        check_balance(flow_SS, p_S)


def test_the_whole_sampler_reaches_the_target():
    """400,000 draws over 39 sentences: sampling noise alone gives a total variation of about 0.004."""
    target, proposal = problem(3)
    config = TransMSConfig(jump_range=2, block=2, trials=3)
    found = histogram(
        target, lambda r, c: trans_ms(r, Chains(c.batch), target, proposal, config)[0], n_chains=2000, iterations=220
    )
    assert total_variation(found, exact_p(target)) < 0.02


def test_move_alone_keeps_lengths_and_reaches_the_conditional():
    target, proposal = problem(3)
    found = histogram(target, lambda r, c: block_gibbs(r, c, target, proposal, 2, 2)[0], n_chains=1950, iterations=220)
    lengths = all_sentences(V, 3).lengths_B
    expected = exact_p(target)
    for length in (1, 2, 3):
        of_length = lengths == length
        assert abs(float(found[of_length].sum()) - int(of_length.sum()) / 39) < 1e-9  # 1950 chains, 50 on each sentence
        conditional = expected[of_length] / expected[of_length].sum()
        assert total_variation(found[of_length] / found[of_length].sum(), conditional) < 0.02


def test_kernels_are_pure_and_repeatable():
    target, proposal = problem(3)
    start = Chains.at(all_sentences(V, 3), target)
    before = start.batch.ids_N.clone()
    one, info = local_jump(rng(5), start, target, proposal, 1)
    two, _ = local_jump(rng(5), start, target, proposal, 1)
    assert torch.equal(one.batch.ids_N, two.batch.ids_N)
    assert torch.equal(start.batch.ids_N, before)
    assert 0 < info.accepted <= info.tried < len(start.batch)
    block_gibbs(rng(5), start, target, proposal, 2, 2)
    assert torch.equal(start.batch.ids_N, before)


def test_sentences_drawn_at_a_length_have_their_distribution():
    """20,000 chains, one draw each: the greatest standard error of a share is 0.0035."""
    target, proposal = problem(3)
    drawn = draw_sentences(rng(9), target.trf, proposal, 20_000, length=2, burn_in=6, config=TransMSConfig(block=2, trials=3))
    shares = torch.bincount(sentence_numbers(drawn, V), minlength=39)[V : V + V**2] / 20_000
    with torch.no_grad():
        exact = Exact.of(target.trf.potential, V, 2)
    assert float((shares - exact.phi_S[V:].softmax(0)).abs().max()) < 0.015
    free = draw_sentences(rng(9), target.trf, proposal, 20_000, length=None, burn_in=0, config=TransMSConfig())
    lengths = torch.bincount(free.lengths_B, minlength=4) / 20_000
    assert float((lengths - target.trf.pi).abs().max()) < 0.015


def test_mtmis_acceptance_is_the_papers():
    """min{1, W / (W - w(u) + w(x))} in plain numbers. (W / (W + w(x)) would balance too, but accepts less.)"""
    w, now = torch.tensor([0.5, 2.0, 1.5], dtype=torch.float64), 3.0
    expected = [min(1.0, 4.0 / (4.0 - u + now)) for u in w.tolist()]
    found = mtmis_log_acceptance(w.log()[None], torch.tensor([now], dtype=torch.float64).log()).exp()[0]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64))


def test_each_block_is_proposed_after_the_words_the_chain_has():
    """The density of the words that stand in a block is that after the words now before it, accepted trials included."""
    target, _ = problem(4)
    scored = []

    class Spy(LSTMProposal):
        def propose(self, rng, state, given_CMs, span_C, remaining_C):
            span = super().propose(rng, state, given_CMs, span_C, remaining_C)
            scored.append((given_CMs[:, -1], span.log_q_CM[:, -1]))
            return span

    proposal = Spy(LSTMProposalConfig(units=5, sees_remaining=False, init=1.2), V, None, rng(3)).double()
    everything = all_sentences(V, 4)
    start = everything.select((everything.lengths_B == 4).nonzero().squeeze(1))
    after, info = block_gibbs(rng(4), Chains.at(start, target), target, proposal, block=2, trials=2)
    assert info.accepted > 20
    (first, log_q_first), (second, log_q_second) = scored
    final = after.batch.ids_N.view(-1, 4)
    assert not torch.equal(final[:, :2], first)
    lengths = after.batch.lengths_B
    as_it_was = proposal.word_log_q(Batch(torch.cat([final[:, :2], second], 1).flatten(), lengths)).view(-1, 4)
    torch.testing.assert_close(log_q_second, as_it_was[:, 2:].sum(1).detach())
    torch.testing.assert_close(log_q_first, proposal.word_log_q(start).view(-1, 4)[:, :2].sum(1).detach())
