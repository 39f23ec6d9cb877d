"""Where AugSA starts: a taught proposal, zeta from estimates, chains of the field."""

import pytest
import torch
from enumerable import Bigrams
from harness import random_batch, random_pi, rng, sentence_numbers, tiny_vocab

from trflm.field.trf import TRF
from trflm.learning import start
from trflm.learning.start import StartConfig, at_data, estimate_zeta, lengths_to_estimate, smoothed, start_chains, teach
from trflm.lms.proposals.lstm import LSTMProposal, LSTMProposalConfig
from trflm.sampling.exact import Exact, all_of_length
from trflm.text import Batch

V, M = 3, 12


def a_proposal(init: float = 0.3) -> LSTMProposal:
    return LSTMProposal(LSTMProposalConfig(units=12, init=init), V, torch.tensor([0, 1, 1]), rng(2))


def a_field(roughness: float, m: int = M) -> TRF:
    return TRF(tiny_vocab(V), Bigrams(roughness * torch.randn(V, V, generator=rng(1))), random_pi(m))


def test_a_taught_proposal_knows_the_text_and_comes_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text = Batch(torch.tensor([0, 1, 2, 0, 1, 2]).repeat(1600), torch.full((3200,), 3))
    proposal, again, other = a_proposal(), a_proposal(), a_proposal(0.4)
    before = float(proposal.log_q(text).mean().detach())
    teach(proposal, text, 10, seed=1)
    assert before < -3
    assert float(proposal.log_q(text).mean().detach()) > -1
    monkeypatch.setattr(start, "clip_gradient", lambda *_: pytest.fail("it was learned again"))
    teach(again, text, 10, seed=1)
    assert all(torch.equal(a, b) for a, b in zip(proposal.parameters(), again.parameters(), strict=True))
    with pytest.raises(pytest.fail.Exception):
        teach(other, text, 10, seed=1)  # another start is another proposal


@pytest.mark.parametrize(("roughness", "by_smc"), [(0.3, False), (2.5, True)])
def test_zeta_of_a_field_by_importance_sampling_or_else_sequential_Monte_Carlo(roughness, by_smc):
    """Of the smooth field 400 draws are worth more than 50; the rough one's mass is far from the proposal."""
    trf = a_field(roughness)
    note = estimate_zeta(rng(5), trf, a_proposal(), 400)
    log_Z = trf.potential.log_Z(M)  # type: ignore[union-attr, operator]
    error = (trf.zeta - (log_Z - log_Z[1]))[1:].abs()
    assert ("sequential Monte Carlo" in note) == by_smc
    assert float(error.max()) < (0.4 if by_smc else 0.1)
    assert trf.zeta[1] == 0


def test_lengths_to_estimate_get_wider_apart():
    assert lengths_to_estimate(13) == [2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13]
    assert lengths_to_estimate(1) == []
    assert len(lengths_to_estimate(82)) < 35
    assert lengths_to_estimate(82)[-1] == 82


def test_smoothing_keeps_a_line_and_takes_noise_off():
    line = 5.0 + 2.0 * torch.arange(1, 41, dtype=torch.float64)
    found = {length: (float(line[length - 1]), 0.3) for length in (1, 2, 5, 9, 20, 40)}
    torch.testing.assert_close(smoothed(found, 40)[1:], line - line[0], rtol=0, atol=1e-6)
    noise = torch.randn(40, generator=rng(6), dtype=torch.float64)
    noise[0] = 0
    noisy = {length: (float(line[length - 1] + noise[length - 1]), 1.0) for length in range(1, 41)}
    error = smoothed(noisy, 40)[1:] - (line - line[0])
    assert float(error.square().mean().sqrt()) < 0.5 * float(noise.square().mean().sqrt())


def test_smoothing_follows_what_is_known_well():
    exact = {length: (float(length**1.5), 0.0) for length in range(1, 11)}
    found = smoothed(exact, 10)
    for length, (value, _) in exact.items():
        assert float(found[length]) == pytest.approx(value - 1, abs=0.01)


def test_chains_at_data_are_sentences_of_the_text_of_the_same_lengths():
    text = random_batch(V, [1, 2, 2, 3, 3, 3, 5])
    drawn = random_batch(V, [3, 1, 4, 2, 5, 5, 3], seed=3)
    chains = at_data(rng(1), drawn, Batch(text.ids_N.int(), text.lengths_B))
    assert torch.equal(chains.lengths_B, drawn.lengths_B)
    for row in range(len(drawn)):
        one = chains.select(torch.tensor([row]))
        same = [text.select(torch.tensor([b])).ids_N.tolist() for b in range(len(text)) if text.lengths_B[b] == one.lengths_B]
        expected = same or [drawn.select(torch.tensor([row])).ids_N.tolist()]  # the text has no sentence of 4 words
        assert one.ids_N.tolist() in expected


def test_after_the_burn_in_chains_are_draws_of_the_field():
    """2000 chains of 3 words: noise alone makes a total variation of about 0.04 over 27 sentences."""
    trf, lengths = a_field(1.5, 3), torch.full((2000,), 3)
    exact = Exact.of(trf.potential, V, 3).phi_S.detach()[-27:].softmax(0)

    def distance(config: StartConfig) -> float:
        chains = start_chains(rng(4), trf, a_proposal(), lengths, random_batch(V, [3] * 20), config)
        share = torch.bincount(sentence_numbers(chains, V), minlength=39)[-27:] / 2000
        return float((share - exact).abs().sum()) / 2

    assert distance(StartConfig(block=2, trials=4)) > 0.3
    assert distance(StartConfig(block=2, trials=4, burn_in=20)) < 0.08
    assert distance(StartConfig(block=2, trials=4, burn_in=20, chains_at_data=True)) < 0.08
    assert len(all_of_length(V, 3)) == 27
