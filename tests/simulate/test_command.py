"""`trf nbest simulate`, and the demo's text, from files to files."""

import bz2
import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
import tyro

pytest.importorskip("numba")
from trflm.cli.simulate import simulate
from trflm.errors import InputError
from trflm.evaluation.formats import read_nbest
from trflm.simulate.search import Recogniser
from trflm.simulate.wikipedia import wikipedia_sentences

DICTIONARY = "a AH\nrose R OW Z\nrows R OW Z\nthe DH AH\nroad R OW D\n"
PAGES = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/"><page><title>Roses</title><ns>0</ns><id>1</id>
<revision><id>2</id><text>'''Roses''' are [[flower|flowers]] of the rose family. In 1984, 12 of them were blue.

== Heading ==
* A list item of some words.
Roses are flowers of the rose family. The formula is x = 2y here.
A caption without an end of any kind</text></revision></page></mediawiki>"""


def run(*arguments: object) -> None:
    tyro.cli(simulate, args=[str(argument) for argument in arguments], config=(tyro.conf.FlagCreatePairsOff,))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tiny.dict").write_text(DICTIONARY)
    (tmp_path / "train.txt").write_text("the rose\na road\nthe rows\n\na rose the road\n")
    (tmp_path / "said.txt").write_text("the rose\nan unknown rose\na road the rows\n")
    return tmp_path


def test_lists_are_written_as_kaldi_archives(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--text", folder / "said.txt", "--words", folder / "train.txt", "--dict", folder / "tiny.dict", "--jobs", 1]
    run(*common, "--out", folder / "a", "--n", 4)
    assert "1 of 3 sentences have words that cannot be said" in capsys.readouterr().err
    nbest = read_nbest(folder / "a/nbest.txt", folder / "a/acoustic.txt", scores={"lm": folder / "a/lm.txt"})
    assert len(nbest) == 2
    assert nbest.depths_U.tolist() == [4, 4]
    assert (nbest.scores["acoustic"] < 0).all()
    assert (folder / "a/ref.txt").read_text() == "utt0001 the rose\nutt0002 a road the rows\n"
    assert json.loads((folder / "a/simulation.json").read_text())["channel"]["substitution"] == 0.2
    run(*common, "--out", folder / "b", "--n", 4, "--quiet")
    assert capsys.readouterr().err == ""
    for file in ("nbest.txt", "acoustic.txt", "lm.txt"):
        assert (folder / "a" / file).read_bytes() == (folder / "b" / file).read_bytes()


def test_bad_input_leaves_nothing(folder: Path) -> None:
    common = ["--words", folder / "train.txt", "--dict", folder / "tiny.dict", "--out", folder / "out"]
    with pytest.raises(InputError, match=r"--substitution = 2\.0: must be a probability"):
        run("--text", folder / "said.txt", *common, "--substitution", 2)
    (folder / "said.txt").write_text("unknown words\n")
    with pytest.raises(InputError, match=r"said\.txt: no sentence has only words that are in"):
        run("--text", folder / "said.txt", *common)
    assert not (folder / "out").exists()


def test_lists_do_not_depend_on_the_number_of_processes_and_a_killed_one_is_an_error(folder: Path, monkeypatch) -> None:
    (folder / "said.txt").write_text("the rose\na road the rows\n" * 4)
    common = ["--text", folder / "said.txt", "--words", folder / "train.txt", "--dict", folder / "tiny.dict", "--n", 4]
    run(*common, "--out", folder / "one", "--jobs", 1, "--quiet")
    run(*common, "--out", folder / "two", "--jobs", 2, "--quiet")
    assert (folder / "one/acoustic.txt").read_bytes() == (folder / "two/acoustic.txt").read_bytes()

    parent, recognise = os.getpid(), Recogniser.recognise

    def killed(self: Recogniser, heard: Sequence[int], n: int):
        if os.getpid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
        return recognise(self, heard, n)

    monkeypatch.setattr(Recogniser, "recognise", killed)
    with pytest.raises(ChildProcessError, match="a process that searched has ended before its time"):
        run(*common, "--out", folder / "three", "--jobs", 2, "--quiet")
    assert not (folder / "three").exists()


def test_sentences_of_wikipedia(tmp_path: Path) -> None:
    pytest.importorskip("gensim")
    path = tmp_path / "pages.xml.bz2"
    path.write_bytes(bz2.compress(PAGES.encode()))
    assert [" ".join(words) for words in wikipedia_sentences(path)] == [
        "roses are flowers of the rose family",
        "in nineteen eighty four twelve of them were blue",
    ]
