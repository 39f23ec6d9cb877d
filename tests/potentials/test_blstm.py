import pytest
import torch
from harness import check_expected_gradient, check_potential, random_batch, random_pi, rng
from torch import nn

from trflm.potentials.blstm import BLSTM, BLSTMConfig, shared, walks, with_markers
from trflm.text import Batch

SHAPES = [
    BLSTMConfig(embedding=5, units=5, init=0.5),
    BLSTMConfig(embedding=4, units=6, layers=2, init=0.5),
]


def awake(config: BLSTMConfig, n_words: int) -> BLSTM:
    """In float64, with biases that are not 0."""
    blstm = BLSTM(config, n_words, rng()).double()
    with torch.no_grad():
        blstm.bias.normal_(generator=rng(7))
    return blstm


@pytest.mark.parametrize("config", SHAPES)
def test_is_a_potential(config):
    check_potential(awake(config, 9), n_words=9, longest=14)


@pytest.mark.parametrize("config", SHAPES)
def test_expected_gradient(config):
    check_expected_gradient(awake(config, 3), 3, random_pi(3))


def plain_phi(blstm: BLSTM, words: list[int]) -> torch.Tensor:
    """The equation, sentence by sentence, with torch's own LSTM."""
    e = blstm.embedding[torch.tensor([blstm.start, *words, blstm.end])]
    phi = blstm.bias[torch.tensor(words)].sum()
    for stack, read in ((blstm.forward_stack, e), (blstm.backward_stack, e.flip(0))):
        x = read[:-1]
        for w_input, w_recurrent, bias in zip(stack.input, stack.recurrent, stack.gate_bias, strict=True):
            lstm = nn.LSTM(w_input.shape[1], w_recurrent.shape[1]).double()
            weights = {"weight_ih_l0": w_input, "weight_hh_l0": w_recurrent, "bias_ih_l0": bias, "bias_hh_l0": 0 * bias}
            x = torch.func.functional_call(lstm, weights, x)[0]
        h = x if stack.output is None else x @ stack.output.T
        phi = phi + (h * read[1:]).sum()
    return phi


@pytest.mark.parametrize("config", SHAPES)
def test_equals_torchs_lstm_forward_and_backward(config):
    blstm = awake(config, 9)
    batch = random_batch(9, [3, 1, 12, 7, 7, 1])
    plain = torch.stack([plain_phi(blstm, s.tolist()) for s in batch.ids_N.split(batch.lengths_B.tolist())])
    ours = blstm(batch)
    torch.testing.assert_close(ours, plain, rtol=1e-11, atol=1e-11)
    weight_B = torch.randn(len(batch), generator=rng(5), dtype=torch.float64)
    parameters = list(blstm.parameters())
    for mine, theirs in zip(
        torch.autograd.grad((weight_B * ours).sum(), parameters),
        torch.autograd.grad((weight_B * plain).sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-11)


def similar_sentences(n_words: int) -> Batch:
    """Sixty versions of one sentence: a word replaced, some with their end cut off."""
    sentence = random_batch(n_words, [20]).ids_N
    versions = []
    for i in range(60):
        version = sentence.clone()
        version[(7 * i) % 20] = i % n_words
        versions.append(version[: 20 - i % 3])
    return Batch(torch.cat(versions), torch.tensor([len(v) for v in versions]))


def test_shared_prefixes_and_suffixes_change_nothing_in_float32():
    blstm = BLSTM(BLSTMConfig(), 50, rng())
    batch = similar_sentences(50)
    marked = with_markers(batch, 50, 51)
    readings = [shared(walk, marked.ids_N, 52) for walk in walks(batch, marked)]
    assert all(r.parent_P is not None and len(r.row_P) < 0.75 * (batch.n_words + len(batch)) for r in readings)
    torch.testing.assert_close(blstm.score(batch), blstm(batch).detach(), rtol=0, atol=1e-5)


def test_markers_count_for_the_words_beside_them():
    """With states of one constant vector h, a word adds 2 h . e(word), and the first and last one h . e(marker) more."""
    blstm = awake(BLSTMConfig(embedding=3, units=3), 5)
    with torch.no_grad():
        for stack in (blstm.forward_stack, blstm.backward_stack):
            stack.input[0].zero_()
            stack.recurrent[0].zero_()
            stack.gate_bias[0].copy_(torch.tensor([9.0, -99, 9, 9]).repeat_interleave(3))  # forgets all: h is constant
        h = (torch.tensor(9.0).double().sigmoid() * torch.tensor(9.0).double().tanh()).tanh() * torch.tensor(
            9.0
        ).double().sigmoid()
        batch = random_batch(5, [1, 4])
        product = h * blstm.embedding.sum(1)
        expected = 2 * product[batch.ids_N] + blstm.bias[batch.ids_N]
        expected[[0, 1]] += product[blstm.start]
        expected[[0, 4]] += product[blstm.end]
        torch.testing.assert_close(blstm.contributions(batch), expected)


def test_dropout_is_drawn_from_the_generator_and_keeps_the_mean():
    """Products of dropped outputs keep their mean: 400 draws, within five standard errors (inputs are not linear in phi, so
    they are kept whole here by a single layer of saturated gates)."""
    blstm = awake(BLSTMConfig(embedding=4, units=4, dropout=0.5), 6)
    batch = random_batch(6, [3, 5])
    assert not torch.equal(blstm(batch, rng(1)), blstm(batch, rng(2)))
    with torch.no_grad():
        for stack in (blstm.forward_stack, blstm.backward_stack):
            stack.input[0].zero_()
        generator = rng(3)
        draws = torch.stack([blstm(batch, generator) for _ in range(400)])
        error = draws.std(0) / 20
        assert bool((error > 0).all())
        assert bool(((draws.mean(0) - blstm(batch)).abs() < 5 * error).all())


@pytest.mark.parametrize("wrong", [{"units": 0}, {"layers": 0}, {"init": 0.0}, {"dropout": 1.0}])
def test_impossible_dimensions_are_refused(wrong):
    with pytest.raises(ValueError, match="must be"):
        BLSTMConfig(**wrong)
