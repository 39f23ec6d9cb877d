import pytest
import torch
from harness import all_sentences, check_proposal, random_batch, rng

from trflm.lms import softmax
from trflm.lms.proposals.lstm import LSTMProposal, LSTMProposalConfig
from trflm.lms.softmax import ClassSoftmax, FullSoftmax, equal_classes
from trflm.speed import compiled

CLASSES = [None, torch.tensor([1, 0, 1, 2]), torch.tensor([0, 0, 0, 0])]


@pytest.mark.parametrize("sees_remaining", [True, False])
@pytest.mark.parametrize("class_V", CLASSES)
def test_is_a_proposal(class_V, sees_remaining, compiled):
    config = LSTMProposalConfig(units=6, sees_remaining=sees_remaining, init=1.0)
    check_proposal(LSTMProposal(config, 4, class_V, rng()).double(), n_words=4, max_length=4)


def test_seeing_how_many_words_remain_changes_the_end():
    """With it q(x_1 | l) differs between lengths; without it, it does not."""
    for sees, differs in ((True, True), (False, False)):
        proposal = LSTMProposal(LSTMProposalConfig(units=6, sees_remaining=sees, init=1.0), 3, None, rng()).double()
        batch = all_sentences(3, 2)
        q_S = proposal.log_q(batch).exp()
        alone, in_pairs = q_S[:3], q_S[3:].view(3, 3).sum(1)
        assert bool((alone - in_pairs).abs().max() > 1e-3) is differs


def test_one_class_is_the_full_softmax():
    full, classed = FullSoftmax(5, 7), ClassSoftmax(5, torch.zeros(7, dtype=torch.int64))
    for parameter in (*full.parameters(), *classed.parameters()):
        torch.nn.init.normal_(parameter, generator=rng())
    classed.load_state_dict({**classed.state_dict(), **full.state_dict()})
    h, words = torch.randn(20, 5, generator=rng(1)), torch.randint(7, (20,), generator=rng(2))
    torch.testing.assert_close(full.log_prob(h, words), classed.log_prob(h, words))


@pytest.mark.usefixtures("numba")
def test_compiled_loops_choose_the_same_words(monkeypatch):
    """Classes of 1 to 40 words, several trials a row, some words given. In float64 a draw would differ only where its level is
    within 1e-15 of a bound, so none does."""
    class_V = torch.multinomial(torch.tensor([1.0, 40, 20, 7, 2]), 200, replacement=True, generator=rng())
    output = ClassSoftmax(6, torch.unique(class_V, return_inverse=True)[1]).double()
    for parameter in output.parameters():
        torch.nn.init.normal_(parameter, generator=rng())
    h_RH, row_T = torch.randn(30, 6, generator=rng(1), dtype=torch.float64), torch.randint(30, (500,), generator=rng(2))
    given_T = torch.randint(-200, 200, (500,), generator=rng(3)).clamp(min=-1)
    word_T, log_prob_T = output.choose(h_RH, row_T, given_T, rng(4))
    monkeypatch.setattr(compiled, "usable", lambda tensor: False)
    expected_T, expected_log_prob_T = output.choose(h_RH, row_T, given_T, rng(4))
    assert word_T.tolist() == expected_T.tolist()
    assert word_T[given_T >= 0].tolist() == given_T[given_T >= 0].tolist()
    torch.testing.assert_close(log_prob_T, expected_log_prob_T)
    torch.testing.assert_close(log_prob_T, output.log_prob(h_RH[row_T], word_T))


def test_logits_do_not_depend_on_what_counts_as_few_trials(monkeypatch):
    """Classes of 0 to 9 trials, some by compiled loops and the larger ones by a product: none is left out, none is mixed up."""
    output = ClassSoftmax(6, torch.arange(40) % 10).double()
    for parameter in output.requires_grad_(False).parameters():
        torch.nn.init.normal_(parameter, generator=rng())
    counts = list(range(10))
    h_TH = torch.randn(sum(counts), 6, generator=rng(1), dtype=torch.float64)
    weight_KWH, bias_KW = output.weight.view(10, 4, 6), output.bias.view(10, 4)
    expected = torch.cat([h_tH @ w.t() + b for h_tH, w, b in zip(h_TH.split(counts), weight_KWH, bias_KW, strict=True)])
    for few in range(11):
        monkeypatch.setattr(softmax, "FEW", few)
        torch.testing.assert_close(output._logits(h_TH, counts), expected)


def test_gradient_reaches_every_parameter():
    class_V = equal_classes(torch.arange(12), 3)
    proposal = LSTMProposal(LSTMProposalConfig(units=4), 12, class_V, rng())
    proposal.log_q(random_batch(12, [5, 3, 9, 12, 1])).sum().backward()
    for name, parameter in proposal.named_parameters():
        assert parameter.grad is not None
        assert parameter.grad.abs().sum() > 0, name


def test_equal_classes_are_even_and_ordered_by_frequency():
    class_V = equal_classes(torch.tensor([5, 9, 1, 7, 3]), 2)
    assert class_V.tolist() == [0, 0, 1, 0, 1]
    assert torch.bincount(equal_classes(torch.arange(10_000), 100)).tolist() == [100] * 100
    assert equal_classes(torch.arange(3), 100).tolist() == [2, 1, 0]


def test_a_class_without_words_is_refused():
    with pytest.raises(ValueError, match="class 1 has no word"):
        ClassSoftmax(3, torch.tensor([0, 2, 0]))
