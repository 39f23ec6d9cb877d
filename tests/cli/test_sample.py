"""`trf sample`: any number of sentences, some at a time, and how far it is."""

import itertools
import math

import pytest
import torch
from commands import TINY_NGRAM, tiny_recipe, trf
from deploy.tiny_models import model

import trflm
from trflm import language_model
from trflm.cli.sample import sample
from trflm.errors import InputError
from trflm.language_model import Directed, Sampled
from trflm.lms.lstm import LSTM, LSTMConfig
from trflm.lms.ngram import NGram, read_arpa
from trflm.text import UNK, Batch, Vocab

ENDLESS = "\\data\\\nngram 1=5\n\n\\1-grams:\n-99 <s>\n-30 </s>\n-0.602 <unk>\n-0.301 the\n-0.602 cat\n\n\\end\\\n"


class Counting(Directed):
    """Sentences 1, 2, 3, ...; remembers how many were drawn at a time."""

    def __init__(self) -> None:
        self.vocab = Vocab([UNK, *map(str, range(1, 2001))])
        self.drawn: list[int] = []

    def draw_some(self, n: int, rng: torch.Generator, length: int | None, burn_in: int) -> Batch:
        first = sum(self.drawn) + 1
        self.drawn.append(n)
        return Batch(torch.arange(first, first + n), torch.ones(n, dtype=torch.int64))


def test_sentences_are_drawn_as_they_are_taken():
    lm = Counting()
    assert list(itertools.islice(lm.samples(10**6), 3)) == ["1", "2", "3"]
    assert lm.drawn == [lm.drawn_at_once]
    lm = Counting()
    assert lm.sample(1100) == [str(i) for i in range(1, 1101)]
    assert lm.drawn == [500, 500, 100]
    lm = Counting()
    next(lm.samples(3, length=10**6))  # so long that memory holds one at a time
    assert lm.drawn == [1]
    assert Counting().sample(0) == []


@pytest.mark.parametrize("kind", ["cnn", "ngram"])
def test_pieces_go_on_where_the_one_before_ended(kind, monkeypatch):
    """All sentences come from one generator, so none is drawn again."""
    lm = trflm.load(model(kind))
    assert isinstance(lm, Sampled)
    monkeypatch.setattr(type(lm), "drawn_at_once", 4)
    rng, expected = torch.Generator(), []
    rng.set_state(language_model.generator(3, "sample").get_state())
    for n in (4, 4, 2):
        expected += lm.vocab.sentences(lm.draw_some(n, rng, 6, 2))
    assert lm.sample(10, seed=3, length=6, burn_in=2) == list(lm.samples(10, seed=3, length=6, burn_in=2)) == expected
    assert len(set(expected)) > 5


def test_many_sentences_through_the_command(tmp_path):
    done = trf("train", tiny_recipe(tmp_path, TINY_NGRAM), "--out", tmp_path / "run", "--quiet")
    assert done.returncode == 0, done.stderr
    done = trf("sample", tmp_path / "run", "-n", 1200, "--seed", 4)
    assert done.stdout.splitlines() == trflm.load(tmp_path / "run").sample(1200, seed=4)
    assert len(done.stdout.splitlines()) == 1200


def test_progress_goes_to_standard_error(monkeypatch, capsys):
    monkeypatch.setitem(sample.__globals__, "EVERY", -math.inf)
    sample(model("ngram"), n=150)
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 150
    assert [line.partition(",")[0] for line in err.splitlines()] == [f"{i} of 150 sentences" for i in (50, 100, 150)]
    assert err.endswith("150 of 150 sentences, 0:00:00 left\n")
    sample(model("ngram"), n=150, quiet=True)
    assert capsys.readouterr() == (out, "")


def test_a_sentence_that_never_ends_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(language_model, "LONGEST_DRAWN", 200)
    (tmp_path / "endless.arpa").write_text(ENDLESS)
    ngram = read_arpa(tmp_path / "endless.arpa")
    lstm, rounded = (LSTM(Vocab([UNK, "cat"]), LSTMConfig(embedding=2, hidden=2), torch.Generator()) for _ in range(2))
    rounded.use_bf16(anyway=True)
    with torch.no_grad():
        for lm in (lstm, rounded):
            lm.output_bias[lm.end] = -1000.0
    for lm in (ngram, lstm, rounded):
        with pytest.raises(InputError, match=r"has not ended after 200 words: give the length"):
            lm.sample(1)
        assert len(lm.sample(1, length=300)[0].split()) == 300
    assert isinstance(ngram, NGram)
