"""The estimator against the equations written out plainly, one n-gram at a time."""

import math
from collections import Counter, defaultdict
from itertools import pairwise

import numpy as np
import pytest
import torch

from trflm.errors import InputError
from trflm.lms.ngram import KneserNeyConfig, NGram, kneser_ney
from trflm.lms.ngram.estimate import discounts
from trflm.text import Batch, Vocab


class PlainKneserNey:
    """p(w | h) of interpolated modified Kneser-Ney by dictionaries and recursion; symbols are words and "<s>", "</s>"."""

    def __init__(self, sentences: list[list[str]], words: list[str], config: KneserNeyConfig) -> None:
        self.words, self.config = [*words, "</s>"], config
        n = config.order
        marked = [("<s>", *sentence, "</s>") for sentence in sentences]
        occurrences = {k: Counter(s[i : i + k] for s in marked for i in range(len(s) - k + 1)) for k in range(1, n + 1)}
        self.count: dict[int, dict[tuple, int]] = {n: dict(occurrences[n])}
        for k in range(1, n):
            before = defaultdict(set)
            for longer in occurrences[k + 1]:
                before[longer[1:]].add(longer[0])
            self.count[k] = {g: c if g[0] == "<s>" else len(before[g]) for g, c in occurrences[k].items()}
        self.count[1].pop(("<s>",))
        if config.open_vocabulary:
            self.count[1].pop(("<unk>",), None)
        self.D = {}
        for k in range(1, n + 1):
            n1, n2, n3, n4 = (sum(c == j for c in self.count[k].values()) for j in (1, 2, 3, 4))
            Y = n1 / (n1 + 2 * n2)
            self.D[k] = {1: 1 - 2 * Y * n2 / n1, 2: 2 - 3 * Y * n3 / n2, 3: 3 - 4 * Y * n4 / n3}
        minimum = [*config.min_counts, *[config.min_counts[-1]] * n]
        self.dropped = {
            gram
            for k in range(2, n + 1)
            for gram, c in occurrences[k].items()
            if c < minimum[k - 1] or (config.open_vocabulary and "<unk>" in gram)
        }
        self.followers = defaultdict(list)
        for k in range(1, n + 1):
            for gram in self.count[k]:
                self.followers[gram[:-1]].append(gram)

    def discount(self, gram: tuple) -> float:
        c = self.count[len(gram)][gram]
        return c if gram in self.dropped else self.D[len(gram)][min(c, 3)]

    def prob(self, word: str, history: tuple) -> float:
        lower = self.prob(word, history[1:]) if history else 1 / len(self.words)
        followers = self.followers[history]
        if not followers or history in self.dropped:
            return lower
        total = sum(self.count[len(g)][g] for g in followers)
        gram = (*history, word)
        own = self.count[len(gram)][gram] - self.discount(gram) if gram in followers else 0.0
        return own / total + sum(self.discount(g) for g in followers) / total * lower

    def log_probs(self, sentence: list[str]) -> list[float]:
        marked = ["<s>", *sentence, "</s>"]
        return [
            math.log(self.prob(marked[i], tuple(marked[max(0, i - self.config.order + 1) : i]))) for i in range(1, len(marked))
        ]


CONFIGS = [
    KneserNeyConfig(order=1),
    KneserNeyConfig(order=2),
    KneserNeyConfig(order=3, open_vocabulary=True),
    KneserNeyConfig(order=4, min_counts=(1, 1, 2)),
    KneserNeyConfig(order=4, min_counts=(1, 2, 2, 3), open_vocabulary=True),
    KneserNeyConfig(order=6),
]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_equals_the_equations(text: Batch, vocab: Vocab, config: KneserNeyConfig) -> None:
    plain = PlainKneserNey([s.split() for s in vocab.sentences(text)], list(vocab.words), config)
    model = kneser_ney(text, vocab, config)
    unseen = ["seen never w3", "w1 w2 w3 w290 w1 w1", "<unk>", "w7 <unk> w1 <unk>"]
    batch = vocab.batch([*vocab.sentences(text.select(torch.arange(60))), *unseen])
    explanation = model.explain(batch)
    for b, sentence in enumerate(vocab.sentences(batch)):
        *word, end = plain.log_probs(sentence.split())
        np.testing.assert_allclose(explanation.word_N[batch.sentence_N == b], word, rtol=1e-6)
        np.testing.assert_allclose(explanation.rest_B[b], end, rtol=1e-6)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_sums_to_one_after_every_context(text: Batch, vocab: Vocab, config: KneserNeyConfig) -> None:
    tables = kneser_ney(text, vocab, config).tables
    symbols = [*range(len(vocab)), tables.end]
    words = [s.split() for s in vocab.sentences(text.select(torch.arange(20)))]
    context_KA = tables.start_context(1)
    for word in [word for sentence in words for word in sentence]:  # one endless sentence: contexts seen and unseen
        _, log_prob_nA = tables.extend(np.repeat(context_KA, len(symbols), axis=1), np.array(symbols))
        np.testing.assert_allclose(np.exp(log_prob_nA).sum(1), 1.0, rtol=1e-12)
        row_nA, _ = tables.extend(context_KA, np.array([vocab.index[word]]))
        context_KA = row_nA[:-1]


def test_discounts_by_hand() -> None:
    # n_1 .. n_4 = 8, 4, 2, 1: Y = 8/16, D = 1 - 2 Y 4/8, 2 - 3 Y 2/4, 3 - 4 Y 1/2
    count = np.repeat([0, 1, 2, 3, 4, 5, 9], [3, 8, 4, 2, 1, 7, 7])
    np.testing.assert_allclose(discounts(count, 2), [0.0, 0.5, 1.25, 2.0])


@pytest.mark.filterwarnings("ignore:the .-grams")
def test_a_text_too_small_for_discounts_warns_and_still_sums_to_one() -> None:
    vocab = Vocab(["<unk>", "a", "b"])
    with pytest.warns(UserWarning, match=r"2-grams .* too few .*\(0.5, 1.0, 1.5\)"):
        model = kneser_ney(vocab.batch(["a b", "a", "b b a"]), vocab, KneserNeyConfig(order=3))
    _, log_prob_nA = model.tables.extend(np.repeat(model.tables.start_context(1), 4, axis=1), np.array([0, 1, 2, 4]))
    np.testing.assert_allclose(np.exp(log_prob_nA).sum(1), 1.0)


@pytest.mark.filterwarnings("ignore:the .-grams")
def test_orders_longer_than_every_sentence_are_empty() -> None:
    vocab = Vocab(["<unk>", "a"])
    short = kneser_ney(vocab.batch(["a"] * 3), vocab, KneserNeyConfig(order=3))
    long = kneser_ney(vocab.batch(["a"] * 3), vocab, KneserNeyConfig(order=6))
    assert [len(order) for order in long.tables.orders[3:]] == [0, 0, 0]
    torch.testing.assert_close(long.log_prob(["a", "a a a"]), short.log_prob(["a", "a a a"]))


def test_cut_offs_shrink_the_model(text: Batch, vocab: Vocab) -> None:
    sizes = [kneser_ney(text, vocab, KneserNeyConfig(order=4, min_counts=(1, 1, c))).n_parameters() for c in (1, 2, 3)]
    assert all(more > fewer for more, fewer in pairwise(sizes))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"order": 0}, "at least 1, not 0"),
        ({"order": 2, "min_counts": (1, 1, 2)}, "min_counts has 3 values"),
        ({"min_counts": (1, 3, 2)}, "never falls"),
        ({"min_counts": (2, 2)}, "starts with 1"),
    ],
)
def test_wrong_settings(settings: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        KneserNeyConfig(**settings)


def test_is_a_small_lookup_table_of_counted_ngrams(text: Batch, vocab: Vocab) -> None:
    model = kneser_ney(text, vocab, KneserNeyConfig(order=2))
    bigrams = {pair for sentence in vocab.sentences(text) for pair in pairwise(["<s>", *sentence.split(), "</s>"])}
    assert isinstance(model, NGram)
    assert model.n_parameters() == len(vocab) + 2 + len(bigrams)
