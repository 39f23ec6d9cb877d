"""Scores, samples and proposals of an n-gram model against enumeration."""

from itertools import product

import numpy as np
import pytest
import torch
from harness import check_proposal, random_batch, tiny_vocab
from safetensors.torch import load, save

from trflm.errors import InputError
from trflm.language_model import LanguageModel
from trflm.lms.ngram import KneserNeyConfig, NGram, kneser_ney
from trflm.lms.ngram.tables import Order, Tables
from trflm.lms.proposals.ngram import NGramProposal
from trflm.text import Batch, Vocab, pack

MODELS = ["unigram", "interpolated", "backed_off"]  # names of fixtures


@pytest.fixture(scope="module")
def model(text: Batch, vocab: Vocab) -> NGram:
    return kneser_ney(text, vocab, KneserNeyConfig(order=4))


@pytest.fixture(scope="module")
def interpolated() -> NGram:
    """Three words, trigrams; `b` nearly always ends its sentence."""
    vocab = Vocab(["<unk>", "a", "b"])
    text = vocab.batch(["a b", "a a b", "a b", "<unk> a b", "a a a b", "b", "a <unk>", "b a b"] * 4)
    with pytest.warns(UserWarning, match="too few"):
        return kneser_ney(text, vocab, KneserNeyConfig(order=3))


@pytest.fixture(scope="module")
def unigram() -> NGram:
    vocab = Vocab(["<unk>", "a", "b"])
    with pytest.warns(UserWarning, match="too few"):
        return kneser_ney(vocab.batch(["a b", "a"]), vocab, KneserNeyConfig(order=1))


@pytest.fixture(scope="module")
def backed_off() -> NGram:
    """Bigrams that no interpolation gives: p(b | a) = 0.1 is below backoff(a) p(b). Symbols: <unk>, a, b, start, end."""
    p1 = np.array([0.1, 0.2, 0.4, 0.0, 0.3])
    stored = {(1, 2): 0.1, (1, 4): 0.3, (2, 1): 0.5, (3, 1): 0.6, (3, 2): 0.2}  # (context, symbol): probability
    backoff = np.ones(5)
    for context in (1, 2, 3):
        followers = [w for c, w in stored if c == context]
        backoff[context] = (1 - sum(stored[context, w] for w in followers)) / (1 - p1[followers].sum())
    keys = np.array([c * 5 + w for c, w in stored])
    with np.errstate(divide="ignore"):
        orders = [
            Order(np.arange(5), np.log(p1), np.log(backoff)),
            Order(keys, np.log(np.array(list(stored.values()))), np.empty(0)),
        ]
    return NGram(Vocab(["<unk>", "a", "b"]), Tables(3, orders))


def spans(length: int) -> Batch:
    """All 3^length spans of three words."""
    ids = torch.tensor(list(product(range(3), repeat=length)))
    return Batch(ids.flatten(), torch.full((len(ids),), length))


def spread(value: int, n: int) -> torch.Tensor:
    return torch.full((n,), value)


def test_is_a_language_model(model: NGram) -> None:
    lm: LanguageModel = model
    explanation = lm.explain(["w1 w2", "w3"])
    torch.testing.assert_close(
        explanation.batch.sum_words(explanation.word_N) + explanation.rest_B, lm.log_prob(["w1 w2", "w3"])
    )
    assert lm.log_prob(["w1 w2"]).dtype == torch.float64


def test_a_score_does_not_depend_on_its_neighbours(model: NGram, text: Batch) -> None:
    together = model.log_prob(text.select(torch.arange(50)))
    alone = torch.cat([model.log_prob(text.select(torch.tensor([b]))) for b in range(50)])
    torch.testing.assert_close(together, alone)


def test_words_outside_the_vocabulary_are_unk(model: NGram) -> None:
    assert model.log_prob(["w1 zebra w2"]) == model.log_prob(["w1 <unk> w2"])


@pytest.mark.parametrize("name", MODELS)
def test_all_sentences_sum_to_one(name: str, request: pytest.FixtureRequest) -> None:
    lm: NGram = request.getfixturevalue(name)
    end_at_once = np.exp(lm.tables.extend(lm.tables.start_context(1), np.array([lm.tables.end]))[1][-1, 0])
    total = end_at_once + sum(lm.log_prob(spans(length)).double().exp().sum() for length in range(1, 11))
    going_on = 1 - total  # longer sentences: what is left falls geometrically
    shorter = end_at_once + sum(lm.log_prob(spans(length)).double().exp().sum() for length in range(1, 9))
    assert 0 < going_on < 0.6 * (1 - shorter)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("prefix", ["", "a", "b", "a b", "b a a"])
def test_log_q_sums_to_one_over_spans(name: str, prefix: str, request: pytest.FixtureRequest) -> None:
    lm: NGram = request.getfixturevalue(name)
    start = len(prefix.split())
    whole = lm.vocab.batch([f"{prefix} {span}" for span in lm.vocab.sentences(spans(3))])
    log_q = lm.log_span(whole, spread(start, 27), spread(3, 27))
    torch.testing.assert_close(log_q.double().exp().sum(), torch.tensor(1.0, dtype=torch.float64), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("prefix", ["", "a", "a b"])
def test_propose_draws_from_log_q(name: str, prefix: str, request: pytest.FixtureRequest) -> None:
    lm: NGram = request.getfixturevalue(name)
    start, n = len(prefix.split()), 40_000
    context = lm.vocab.batch([f"{prefix} a"]).select(torch.zeros(n, dtype=torch.int64))  # words after `start` play no part
    drawn, log_q = lm.draw_spans(context, spread(start, n), spread(2, n), torch.Generator().manual_seed(0))
    number = drawn.ids_N.view(n, 2) @ torch.tensor([3, 1])  # of each span in `spans(2)`
    whole = lm.vocab.batch([f"{prefix} {span}" for span in lm.vocab.sentences(spans(2))])
    exact = lm.log_span(whole, spread(start, 9), spread(2, 9))
    torch.testing.assert_close(log_q, exact[number])
    p = exact.double().exp()
    error = (torch.bincount(number, minlength=9) / n - p) / (p * (1 - p) / n).sqrt()
    assert error.abs().max() < 4  # standard errors, the largest of nine


@pytest.mark.parametrize("name", MODELS)
def test_sample_draws_from_p(name: str, request: pytest.FixtureRequest) -> None:
    lm: NGram = request.getfixturevalue(name)
    n = 40_000
    drawn = lm.draw(n, torch.Generator().manual_seed(0))
    end_at_once = np.exp(lm.tables.extend(lm.tables.start_context(1), np.array([lm.tables.end]))[1][-1, 0])
    for length in (1, 2, 3):
        p = lm.log_prob(spans(length)).double().exp() / (1 - end_at_once)
        chosen = drawn.select(torch.nonzero(drawn.lengths_B == length).squeeze(1))
        number = chosen.ids_N.view(-1, length) @ 3 ** torch.arange(length - 1, -1, -1)
        error = (torch.bincount(number, minlength=3**length) / n - p) / (p * (1 - p) / n).sqrt()
        assert error.abs().max() < 4


def test_samples_of_given_lengths(model: NGram) -> None:
    lengths = torch.tensor([3, 1, 7, 3])
    drawn = model.draw(4, torch.Generator().manual_seed(0), lengths)
    again = model.draw(4, torch.Generator().manual_seed(0), lengths)
    assert drawn.lengths_B.tolist() == lengths.tolist()
    assert drawn.ids_N.tolist() == again.ids_N.tolist()
    assert int(drawn.ids_N.max()) < len(model.vocab)


def test_sentences_by_a_seed(model: NGram) -> None:
    assert [len(sentence.split()) for sentence in model.sample(4, seed=2, length=3)] == [3] * 4
    assert model.sample(9, seed=2) == model.sample(9, seed=2) != model.sample(9, seed=3)


def test_log_q_of_a_proposed_span_put_in_place(model: NGram, text: Batch) -> None:
    batch = text.select(torch.nonzero(text.lengths_B >= 4).squeeze(1)[:200])
    start = torch.arange(200) % 5
    length = 1 + torch.arange(200) % 3
    span, log_q = model.draw_spans(batch, start, length, torch.Generator().manual_seed(3))
    rows = zip(batch.ids_N.split(batch.lengths_B.tolist()), span.ids_N.split(length.tolist()), start.tolist(), strict=True)
    spliced = pack([Batch(ids := torch.cat([x[:s], u]), torch.tensor([len(ids)])) for x, u, s in rows])
    torch.testing.assert_close(model.log_span(spliced, start.clamp(max=batch.lengths_B), length), log_q)


def test_log_q_of_a_span_beyond_the_sentence(model: NGram) -> None:
    with pytest.raises(ValueError, match="beyond the end"):
        model.log_span(model.vocab.batch(["w1 w2"]), torch.tensor([1]), torch.tensor([2]))
    with pytest.raises(ValueError, match="beyond the end"):
        model.draw_spans(model.vocab.batch(["w1 w2"]), torch.tensor([3]), torch.tensor([1]), torch.Generator())


def test_no_sentences_have_no_scores(model: NGram) -> None:
    assert model.log_prob([]).shape == (0,)
    assert len(model.draw(0, torch.Generator())) == 0


def test_tensors_there_and_back(model: NGram) -> None:
    back = NGram.from_tensors(model.vocab, load(save(model.to_tensors())))
    assert torch.equal(back.log_prob(["w1 w2 w3", "seen"]), model.log_prob(["w1 w2 w3", "seen"]))
    assert back.n_parameters() == model.n_parameters()


def test_tensors_of_something_else(model: NGram) -> None:
    tensors = model.to_tensors()
    with pytest.raises(InputError, match="vocabulary 2; they do not belong together"):
        NGram.from_tensors(Vocab(["<unk>", "a"]), tensors)
    del tensors["log_prob.2"]
    with pytest.raises(InputError, match=r"log_prob\.2"):
        NGram.from_tensors(model.vocab, tensors)
    with pytest.raises(InputError, match="not those of an n-gram"):
        NGram.from_tensors(model.vocab, {})


@pytest.mark.filterwarnings("ignore:the .-grams")
def test_as_a_proposal():
    """The harness of every proposal, with a model whose order is longer and shorter than the spans."""
    for order in (1, 3):
        ngram = kneser_ney(random_batch(3, [1, 2, 3, 4, 5] * 30, seed=4), tiny_vocab(3), KneserNeyConfig(order=order))
        check_proposal(NGramProposal(ngram), 3, 4)
