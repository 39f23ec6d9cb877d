"""What recognisers write is told by its content, read strictly, and gives the same lists."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from evaluation.nbest_cases import same, three_lists

from trflm.errors import InputError
from trflm.evaluation.formats import format_of, read_lists, write_espnet, write_jsonl, write_kaldi, write_mlm, write_srilm
from trflm.evaluation.formats.seen import Seen
from trflm.evaluation.nbest import NBestList


def write_hypr(lists: list[NBestList], path: Path) -> None:
    records = [
        {"name": n.utterance, "ref": n.reference, "hyps": list(n.texts), "am_score": n.scores["acoustic"].tolist(), "beam": 10}
        for n in lists
    ]
    path.write_text(json.dumps(records, indent=1))


def write_other_jsonl(lists: list[NBestList], path: Path) -> None:
    rows = [
        {
            "utt_id": n.utterance,
            "nbest": [{"text": t, "score": float(s)} for t, s in zip(n.texts, n.scores["acoustic"], strict=True)],
        }
        for n in lists
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_espnet2(lists: list[NBestList], path: Path) -> None:
    for rank in range(max(map(len, lists))):
        folder = path / f"{rank + 1}best_recog"
        folder.mkdir(parents=True)
        some = [n for n in lists if len(n) > rank]
        (folder / "text").write_text("".join(f"{n.utterance} {n.texts[rank]}\n" for n in some))
        (folder / "score").write_text("".join(f"{n.utterance} tensor({n.scores['acoustic'][rank]})\n" for n in some))


WRITERS = {
    "jsonl": (write_jsonl, "x"),
    "espnet": (write_espnet, "x"),
    "mlm": (write_mlm, "x"),
    "hypr": (write_hypr, "x"),
    "espnet2": (write_espnet2, "decode"),
}


@pytest.mark.parametrize("name", WRITERS)
def test_the_format_is_told_by_content_not_by_name(tmp_path: Path, name: str) -> None:
    write, file = WRITERS[name]
    write(three_lists(), tmp_path / file)
    assert format_of(tmp_path / file).name == name
    assert same(list(read_lists(tmp_path / file, {})), three_lists())
    assert same(list(read_lists(tmp_path / file, {}, format=name)), three_lists())


def test_json_lines_with_other_fields(tmp_path: Path) -> None:
    write_other_jsonl(three_lists(), tmp_path / "x")
    assert format_of(tmp_path / "x").name == "jsonl"
    assert same(list(read_lists(tmp_path / "x", {})), three_lists())
    row = {"file": "u", "beams": ["a b", "c"], "am": [-1, -2], "total": [-3, -4], "said": "a b", "times": [0.1, 0.2, 0.3]}
    (tmp_path / "y").write_text(json.dumps(row) + "\n")
    with pytest.raises(InputError, match=r"y:1: no field is the utterance \(there are file, .*: --field utterance=NAME"):
        list(read_lists(tmp_path / "y", {}))
    fields = {"utterance": "file", "hypotheses": "beams", "reference": "said"}
    (nbest,) = read_lists(tmp_path / "y", {}, fields=fields)
    assert (nbest.utterance, nbest.texts, nbest.reference) == ("u", ["a b", "c"], "a b")
    assert {name: of.tolist() for name, of in nbest.scores.items()} == {"acoustic": [-1, -2], "total": [-3, -4]}
    (nbest,) = read_lists(tmp_path / "y", {}, fields={**fields, "acoustic": "total"})
    assert {name: of.tolist() for name, of in nbest.scores.items()} == {"am": [-1, -2], "acoustic": [-3, -4]}
    with pytest.raises(InputError, match="has no score 'no'"):
        write_mlm([NBestList("u", ["a"], {"acoustic": np.zeros(1)})], tmp_path / "z")
        (tmp_path / "w").write_text('{"utt": "u", "hyps": ["a"], "p": [-1]}\n')
        list(read_lists(tmp_path / "w", {}, fields={"acoustic": "no"}))


def test_where_the_text_is_is_asked_and_what_was_said_is_not_asked_again(tmp_path: Path) -> None:
    (tmp_path / "x").write_text('{"id": "u", "nbest": [{"line": "a b", "am": -1.5}]}\n')
    with pytest.raises(
        InputError, match=r"x:1: hypothesis 1: no field is the text \(there are line, am\); say which: --field text"
    ):
        list(read_lists(tmp_path / "x", {}))
    with pytest.raises(InputError, match=r"x:1: hypothesis 1: there is no field 'lines' for the text, only line, am; give"):
        list(read_lists(tmp_path / "x", {}, fields={"text": "lines"}))
    (nbest,) = read_lists(tmp_path / "x", {}, fields={"text": "line"})
    assert (nbest.texts, nbest.scores["acoustic"].tolist()) == (["a b"], [-1.5])


def test_nemo(tmp_path: Path) -> None:
    file = tmp_path / "preds_out_width2_alpha1.tsv"
    file.write_text("a b\t-1.5\nc\t-2\n\t-3\nd\t-4\n")
    lists = list(read_lists(file, {}))
    assert [(n.utterance, n.texts) for n in lists] == [("utt000001", ["a b", "c"]), ("utt000002", ["", "d"])]
    other = file.rename(tmp_path / "x")
    for depth in ({}, {"depth": "0"}, {"depth": "9" * 20}, {"depth": "9" * 5000}):
        with pytest.raises(InputError, match="Say --field depth=N"):
            list(read_lists(other, {}, fields=depth))
    assert len(list(read_lists(other, {}, fields={"depth": "4"}))) == 1
    with pytest.raises(InputError, match="has 1 of 3 hypotheses"):
        list(read_lists(other, {}, fields={"depth": "3"}))


def test_kaldi_and_srilm_by_content(tmp_path: Path) -> None:
    write_kaldi(three_lists(), tmp_path)
    (tmp_path / "nbest.txt").rename(tmp_path / "nbest.json")  # a name that lies
    assert format_of(tmp_path / "nbest.txt" if (tmp_path / "nbest.txt").exists() else tmp_path / "acoustic.txt").name == "kaldi"
    (tmp_path / "s").mkdir()
    lists = [NBestList("u", ["a b", ""], {"acoustic": np.array([-1.0, -2.0]), "lm": np.array([-3.0, -4.0])})]
    write_srilm(lists, tmp_path / "s")
    assert format_of(tmp_path / "s/u.txt").name == "srilm"
    assert same(list(read_lists(tmp_path / "s", {})), lists)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda d: (d / "2best_recog/score").write_text("a-1 tensor(nan)\n"), "the score 'tensor.nan.' of \"a-1\" is not"),
        (lambda d: (d / "1best_recog/score").write_text("b -1\n"), '"a-1" has no score of rank 1'),
        (lambda d: (d / "1best_recog").rename(d / "4best_recog"), "there is no 1best_recog in it"),
        (lambda d: (d / "3best_recog/text").write_text("c x\na-1 y\n"), '"c" has no score of rank 3'),
    ],
)
def test_faults_of_espnet2(tmp_path: Path, spoil, message: str) -> None:
    write_espnet2(three_lists(), tmp_path / "d")
    spoil(tmp_path / "d")
    with pytest.raises(InputError, match=message):
        list(read_lists(tmp_path / "d", {}, format="espnet2"))


TWICE = '[{"name": "a", "hyps": ["x"]}, {"name": "a", "hyps": ["x"]}]'


@pytest.mark.parametrize("text", ["[1]", '[{"name": "a"}]', TWICE, "[{}", "[] 1"])
def test_faults_of_arrays(tmp_path: Path, text: str) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(InputError, match="x:1: "):
        list(read_lists(tmp_path / "x", {}))


def test_stdin_is_told_by_content_too() -> None:
    code = "from trflm.evaluation.formats import read_lists; print([n.texts for n in read_lists('-', {})])"
    text = '{"utt": "u", "hyps": ["a b", ""]}\n'
    done = subprocess.run([sys.executable, "-c", code], input=text, capture_output=True, text=True, check=True)
    assert done.stdout == "[['a b', '']]\n"


def test_names_are_remembered() -> None:
    seen = Seen()
    for number in range(5000):
        assert seen.line_of(f"u{number}") is None
        seen.add(f"u{number}", number)
    assert [seen.line_of(f"u{number}") for number in range(5000)] == list(range(5000))
    assert seen.line_of("other") is None
