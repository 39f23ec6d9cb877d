"""Word classes: the likelihood by direct counting, every gain, and files."""

from collections import Counter
from itertools import islice, pairwise
from math import log
from pathlib import Path

import pytest
import torch

from trflm.errors import InputError
from trflm.text import Batch, Vocab
from trflm.text.classes import exchange_classes, exchange_passes, frequency_classes, read_classes, write_classes


def grammar_text(n_sentences: int, seed: int) -> Batch:
    """Sentences of a determiner, a noun, a verb, in turns: words 1-6, 7-12, 13-18; now and then <unk> (0) for a noun."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda low, high: torch.randint(low, high, (n_sentences,), generator=generator)  # noqa: E731
    noun = torch.where(draw(0, 10) == 0, 0, draw(7, 13))
    ids = torch.stack([draw(1, 7), noun, draw(13, 19), draw(1, 7), draw(7, 13)], 1)
    lengths = torch.where(draw(0, 3) == 0, 3, 5)
    return Batch(ids[torch.arange(5) < lengths[:, None]], lengths)


def random_text(n_words: int) -> Batch:
    """500 sentences of 10 independent words, often the same one twice in a row."""
    generator = torch.Generator().manual_seed(2)
    ids = torch.multinomial(torch.arange(1, n_words + 1) ** -1.0, 5000, replacement=True, generator=generator)
    return Batch(ids, torch.full((500,), 10))


TEXTS = [grammar_text(200, seed=0), random_text(19)]


def plain_log_likelihood(text: Batch, class_V: torch.Tensor) -> float:
    """ln p of the ring of sentences under the class bigram model with relative frequencies, pair by pair."""
    words, boundary = [], -1
    for ids in text.ids_N.split(text.lengths_B.tolist()):
        words += [*ids.tolist(), boundary]
    classes = [boundary if w == boundary else int(class_V[w]) for w in words]
    pairs = list(pairwise([*classes, classes[0]]))
    n_pair, n_class, n_word = Counter(pairs), Counter(classes), Counter(words)
    transitions = sum(log(n_pair[g, h] / n_class[g]) for g, h in pairs)
    return transitions + sum(log(n_word[w] / n_class[g]) for w, g in zip(words, classes, strict=True))


@pytest.mark.parametrize("text", TEXTS, ids=["grammar", "random"])
def test_log_likelihood_is_that_of_the_class_bigram_model(text: Batch) -> None:
    for state in islice(exchange_passes(text, 19, 4), 3):
        assert state.log_likelihood == pytest.approx(plain_log_likelihood(text, state.class_V), rel=1e-12)


def test_log_likelihood_never_falls() -> None:
    states = list(islice(exchange_passes(random_text(80), 80, 9), 12))
    gains = [after.log_likelihood - before.log_likelihood for before, after in pairwise(states)]
    assert min(gains) > -1e-6
    assert max(gains) > 1
    assert all((gain > 1e-6) == (state.n_moved > 0) for gain, state in zip(gains, states[1:], strict=True))


@pytest.mark.parametrize("text", TEXTS, ids=["grammar", "random"])
def test_no_single_move_improves_the_result(text: Batch) -> None:
    result = exchange_classes(text, 19, 4)
    assert result.n_moved == 0
    for word in range(19):
        for other in range(4):
            moved = result.class_V.clone()
            moved[word] = other
            assert plain_log_likelihood(text, moved) <= result.log_likelihood + 1e-6


def test_classes_do_not_mix_parts_of_speech_and_unk_is_a_noun() -> None:
    class_V = exchange_classes(grammar_text(2000, seed=0), 19, 6).class_V.tolist()
    determiners, nouns, verbs = set(class_V[1:7]), {class_V[0], *class_V[7:13]}, set(class_V[13:])
    assert len(determiners) + len(nouns) + len(verbs) == len(determiners | nouns | verbs)


def test_a_word_that_is_not_in_the_text_has_a_class_too() -> None:
    result = exchange_classes(Batch(torch.tensor([1, 2, 1]), torch.tensor([2, 1])), 5, 2)
    assert result.class_V.shape == (5,)
    assert set(result.class_V.tolist()) <= {0, 1}


@pytest.mark.parametrize("n_classes", [0, 20])
def test_an_impossible_number_of_classes(n_classes: int) -> None:
    with pytest.raises(InputError, match="give 1 to 19"):
        exchange_classes(grammar_text(5, seed=0), 19, n_classes)


def test_frequency_classes_share_the_text() -> None:
    text = Batch(torch.tensor([2] * 50 + [0] * 25 + [3] * 15 + [1] * 10), torch.tensor([100]))
    assert frequency_classes(text, 5, 4).tolist() == [1, 2, 0, 2, 2]  # half; a quarter; the rest, with the word never seen
    assert frequency_classes(text, 5, 1).tolist() == [0] * 5


def test_files_there_and_back(tmp_path: Path) -> None:
    vocab, class_V = Vocab(["<unk>", "a", "é"]), torch.tensor([1, 0, 1])
    for name in ("classes.txt", "classes.txt.gz"):
        write_classes(class_V, vocab, tmp_path / name)
        assert read_classes(tmp_path / name, vocab).tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<unk> 0\na\nb 1\n", r":2: 'a' is not 'word class'"),
        ("<unk> 0\na -1\nb 1\n", r":2: 'a -1' is not 'word class'"),
        ("<unk> 0\na 1 2\nb 1\n", r":2: 'a 1 2' is not"),
        ("<unk> 0\na 1\nc 1\n", r":3: 'c' is not in the vocabulary"),
        ("<unk> 0\na 1\na 1\n", r":3: 'a' was already on line 2"),
        ("<unk> 0\na 3\nb 1\n", r":2: class 3 of 'a'"),
        ("<unk> 0\n", r"2 words of the vocabulary have no class, 'a' first"),
    ],
)
def test_malformed_files(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "classes.txt"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_classes(path, Vocab(["<unk>", "a", "b"]))
