"""Every format: what is written comes back the same, known files read as they should, malformed ones give InputError."""

import contextlib
import gzip
import json
import tempfile
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from evaluation.nbest_cases import nbest_lists, same, three_lists
from hypothesis import given, settings
from hypothesis import strategies as st

from trflm.errors import InputError
from trflm.evaluation.formats import (
    read_json,
    read_jsonl,
    read_kaldi,
    read_lists,
    read_nbest,
    read_srilm,
    write_espnet,
    write_jsonl,
    write_kaldi,
    write_mlm,
    write_srilm,
)
from trflm.evaluation.formats.jsonl import lines_of_jsonl, list_of_line
from trflm.evaluation.nbest import NBestList


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


# Round trips -----------------------------------------------------------------------------------------------------------


@given(lists=nbest_lists(("acoustic", "lm", "other-3")))
@settings(max_examples=60)
def test_json_round_trips_are_lossless(lists: list[NBestList], folder: Path) -> None:
    write_jsonl(lists, folder / "a.jsonl.gz")
    write_mlm(read_jsonl(folder / "a.jsonl.gz"), folder / "b.json")
    write_espnet(read_json(folder / "b.json"), folder / "c.json.gz")
    assert same(list(read_json(folder / "c.json.gz")), lists)


@given(lists=nbest_lists(("acoustic", "lm")))
@settings(max_examples=60)
def test_kaldi_round_trip_is_lossless(lists: list[NBestList], folder: Path) -> None:
    write_kaldi(lists, folder)
    scores = {"acoustic": folder / "acoustic.txt", "lm": folder / "lm.txt"}
    assert same(list(read_kaldi(folder / "nbest.txt", scores)), lists, references=False)
    costs = list(read_lists(folder / "nbest.txt", scores, costs=["lm"]))
    assert all((cost.scores["lm"] == -nbest.scores["lm"]).all() for cost, nbest in zip(costs, lists, strict=True))


@given(lists=nbest_lists(("acoustic", "lm")))
@settings(max_examples=30)
def test_srilm_round_trip_is_lossless(lists: list[NBestList]) -> None:
    with tempfile.TemporaryDirectory() as name:
        write_srilm(lists, Path(name))
        by_name = sorted(lists, key=lambda nbest: f"{nbest.utterance}.txt")
        assert same(list(read_srilm(name)), by_name, references=False)


# Known files -----------------------------------------------------------------------------------------------------------


CLASHES = [("nbest", "the hypotheses"), ("ref", "the references"), ("Ref", "the references"), ("lm LM", "the score 'lm'")]


@pytest.mark.parametrize(("scores", "clash"), CLASHES)
def test_scores_that_would_take_the_file_of_something_else_are_refused(tmp_path: Path, scores: str, clash: str) -> None:
    nbest = NBestList("u", ["it rose"], {name: np.array([-1.0]) for name in ["acoustic", *scores.split()]}, "it rose")
    with pytest.raises(
        InputError, match=rf"the score '{scores.split()[-1]}' .* is the file of {clash}; give the score another"
    ):
        write_kaldi([nbest], tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("names", "message"), [("u u", "another one has the file u.txt"), (".u", "cannot name a file")])
def test_srilm_files_that_would_be_lost_are_refused(tmp_path: Path, names: str, message: str) -> None:
    scores = {"acoustic": np.array([-1.0]), "lm": np.array([-1.0])}
    with pytest.raises(InputError, match=message):
        write_srilm([NBestList(name, ["it rose"], scores) for name in names.split()], tmp_path)


def test_srilm_scores_are_base_10_and_pauses_are_not_words(tmp_path: Path) -> None:
    (tmp_path / "sa1.score").write_text("-2 -1 4 <s> it rose </s>\n-3 -1.5 3 it -pau- rows\n")
    (nbest,) = read_srilm(tmp_path)
    assert nbest.utterance == "sa1"
    assert nbest.texts == ["it rose", "it rows"]
    np.testing.assert_allclose(nbest.scores["acoustic"], np.array([-2, -3]) * np.log(10), rtol=1e-15)
    np.testing.assert_allclose(nbest.scores["lm"], np.array([-1, -1.5]) * np.log(10), rtol=1e-15)


def test_espnet_file_as_espnet_writes_it(tmp_path: Path) -> None:
    entry = {
        "name": "target1[1]",
        "rec_text": "▁IT▁ROSE<eos>",
        "rec_token": "x",
        "score": -1.5,
        "shape": [1, 2],
        "text": "IT ROSE",
    }
    record = {"utts": {"u1": {"output": [entry, {**entry, "rec_text": "IT ROWS <eos>", "score": -2}], "utt2spk": "s"}}}
    (tmp_path / "data.json").write_text(json.dumps(record, indent=4))
    (nbest,) = read_json(tmp_path / "data.json")
    assert (nbest.texts, nbest.reference) == (["IT ROSE", "IT ROWS"], "IT ROSE")
    assert nbest.scores["acoustic"].tolist() == [-1.5, -2.0]


def test_mlm_scoring_file_in_any_key_order(tmp_path: Path) -> None:
    text = (
        '{"u1": {"hyp_2": {"score": -2.5, "text": " it rows"}, "ref": "it rose", "hyp_1": {"score": -2, "text": " it rose"}}}'
    )
    (tmp_path / "hyps.json").write_text(text)
    (nbest,) = read_json(tmp_path / "hyps.json")
    assert (nbest.texts, nbest.reference, nbest.scores["acoustic"].tolist()) == (["it rose", "it rows"], "it rose", [-2, -2.5])


def test_kaldi_lines_sorted_as_text_and_score_file_in_another_order(tmp_path: Path) -> None:
    texts = [f"word{rank}" for rank in range(1, 12)]
    lines = [f"a-{rank} {text}" for rank, text in enumerate(texts, 1)] + ["b-x-1 yes"]
    (tmp_path / "nbest.txt").write_text("\n".join(sorted(lines)) + "\n")
    scores = ["b-x-1 -7", *(f"a-{rank} {-rank}" for rank in range(11, 0, -1))]
    (tmp_path / "ac.txt.gz").write_bytes(gzip.compress("\n".join(scores).encode()))
    a, b = read_kaldi(tmp_path / "nbest.txt", {"acoustic": tmp_path / "ac.txt.gz"})
    assert (a.utterance, a.texts, a.scores["acoustic"].tolist()) == ("a", texts, [-float(rank) for rank in range(1, 12)])
    assert (b.utterance, b.texts, b.scores["acoustic"].tolist()) == ("b-x", ["yes"], [-7.0])


def test_read_nbest_from_python(tmp_path: Path) -> None:
    write_kaldi(three_lists(), tmp_path)
    nbest = read_nbest(tmp_path / "nbest.txt", tmp_path / "acoustic.txt")
    assert same(list(nbest), three_lists())
    costs = read_nbest(tmp_path / "nbest.txt", tmp_path / "acoustic.txt", acoustic_is_cost=True)
    assert costs.scores["acoustic"].tolist() == (-nbest.scores["acoustic"]).tolist()


def test_empty_hypotheses_are_legal_and_dropping_one_never_drops_its_utterance(tmp_path: Path) -> None:
    (tmp_path / "nbest.txt").write_text("a-1\na-2 it rose\nb-1\nb-2\n")
    (tmp_path / "ac.txt").write_text("a-1 -1\na-2 -2\nb-1 -3\nb-2 -4\n")
    lists = list(read_kaldi(tmp_path / "nbest.txt", {"acoustic": tmp_path / "ac.txt"}))
    assert [nbest.texts for nbest in lists] == [["", "it rose"], ["", ""]]
    a, b = (nbest.without_empty() for nbest in lists)
    assert (a.texts, a.scores["acoustic"].tolist()) == (["it rose"], [-2.0])
    assert (b.texts, b.scores["acoustic"].tolist()) == ([""], [-3.0])
    for name, write in [("n.jsonl", write_jsonl), ("n.json", write_mlm), ("e.json", write_espnet)]:
        write(lists, tmp_path / name)
        assert same(list(read_lists(tmp_path / name, {})), lists)


# Faults, each with its place and remedy ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nbest", "scores", "message"),
    [
        ("a-1 x\na-1 y\n", "a-1 -1\n", 'nbest.txt:2: "a-1" was already on line 1; remove'),
        ("a-1 x\na-3 y\n", "a-1 -1\na-3 -1\n", 'nbest.txt:2: "a-3" comes where rank 2 is missing; number'),
        ("a-0 x\n", "a-0 -1\n", 'nbest.txt:1: "a-0" comes where rank 1 is missing'),
        ("a-1 x\nb-1 x\na-2 x\n", "a-1 1\n", 'nbest.txt:3: "a-2" stands apart from line 1; put'),
        ("a x\n", "a-1 -1\n", 'nbest.txt:1: "a" is not UTT-N with a rank N; write'),
        ("a-1 x\n\n", "a-1 -1\n", "nbest.txt:2: the line is empty; remove"),
        ("a-1 x\na-2 y\n", "a-1 -1\n", 'nbest.txt:2: "a-2" has no score in .*ac.txt; add'),
        ("a-1 x\n", "b-1 -1\n", 'nbest.txt:1: utterance "a" has no scores in .*ac.txt; add'),
        ("a-1 x\n", "a-1 -1\nb-1 -1\n", 'ac.txt:2: utterance "b" is not in .*nbest.txt; remove'),
        ("a-1 x\n", "a-1 -1\na-2 -1\n", 'ac.txt:2: "a-2" is not in .*nbest.txt; remove'),
        ("a-1 x\n", "a-1 -1 -2\n", "ac.txt:1: \"a-1\" has the score '-1 -2'; write one finite number"),
        ("a-1 x\n", "a-1 nan\n", "ac.txt:1: \"a-1\" has the score 'nan'; write one finite number"),
        ("a-1 x\n", "a-1\n", "ac.txt:1: \"a-1\" has the score ''; write one finite number"),
    ],
)
def test_kaldi_faults(tmp_path: Path, nbest: str, scores: str, message: str) -> None:
    (tmp_path / "nbest.txt").write_text(nbest)
    (tmp_path / "ac.txt").write_text(scores)
    with pytest.raises(InputError, match=message):
        list(read_kaldi(tmp_path / "nbest.txt", {"acoustic": tmp_path / "ac.txt"}))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.jsonl", "{]", "a.jsonl:1: not JSON"),
        ("a.jsonl", '{"utterance": "a", "hyps": []}', 'a.jsonl:1: utterance "a" has no hypotheses'),
        ("a.jsonl", '{"utterance": "a", "hypotheses": []}', 'a.jsonl:1: utterance "a" has no hypotheses; leave it out'),
        ("a.jsonl", '{"utterance": "a b", "hypotheses": []}', "'a b' cannot name an utterance; use"),
        ("a.jsonl", '{"utterance": "a", "hypotheses": [{"text": "x", "scores": {"s": NaN}}]}', "NaN is not a number"),
        ("a.jsonl", '{"utterance": "a", "hypotheses": [{"text": "x", "scores": {"s": "1"}}]}', "'s' is '1'; write one finite"),
        ("a.jsonl", '{"utterance": "a", "hypotheses": [{"text": "\\ud800", "scores": {}}]}', "half a character"),
        (
            "a.jsonl",
            '{"utterance": "a", "hypotheses": [{"text": "x", "scores": {"s": 1}}, {"text": "x", "scores": {}}]}',
            r"hypothesis 2 of \"a\" has the scores \[\], not \['s'\]; give all",
        ),
        ("a.json", '{"a": {"hyp_1": {"text": "x", "score": 1}}, \n"a": {}}', 'a.json:2: utterance "a" was already on line 1'),
        ("a.json", '{"a": {"hyp_1": {"text": "x", "score": 1}', 'a.json:2: the value of "a" is not JSON: .* whole'),
        ("a.json", '{"a": {"hyp_2": {"text": "x", "score": 1}}}', "hyp_2 where hyp_1 is missing"),
        ("a.json", '{"a": {"hyp_1": {"text": "x"}}}', "has no scores"),
        ("a.json", '{"a": {"hyp_1": {"text": "x", "score": 1, "text": "y"}}}', "the key 'text' stands twice"),
        ("a.json", '{"a": {"hyp_1": {"text": "x", "score": 1}}} 1', "follows the end of the object; remove it"),
        ("a.json", '{"a":' + "[" * 100_000, "nested too deeply"),
    ],
)
def test_json_faults(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message) as found:
        list(read_lists(tmp_path / name, {}))
    if name == "a.jsonl":  # and where the lines are read by others
        with pytest.raises(InputError) as elsewhere:
            [list_of_line(where, line) for _, where, line in lines_of_jsonl(tmp_path / name)]
        assert str(elsewhere.value) == str(found.value)


def test_lines_that_others_read_are_the_lists(tmp_path: Path) -> None:
    """Ours, with another order of keys, with a name that JSON writes with signs, and of another toolkit."""
    write_jsonl(three_lists(), tmp_path / "a.jsonl")
    more = [
        {"hypotheses": [{"text": "x", "scores": {"s": 1}}], "utterance": "d"},
        {"utterance": 'e"1', "hypotheses": [{"text": "x", "scores": {"s": 1}}]},
        {"utterance": "f", "nbest": [{"text": "x", "score": 1}]},
    ]
    with open(tmp_path / "a.jsonl", "a") as file:
        file.writelines(json.dumps(one) + "\n" for one in more)
    wanted, found = list(read_jsonl(tmp_path / "a.jsonl")), list(lines_of_jsonl(tmp_path / "a.jsonl"))
    assert same([list_of_line(where, line) or wanted[0] for _, where, line in found], wanted)
    assert [name for name, _, _ in found] == [nbest.utterance for nbest in wanted]
    assert found[1][1] == f"{tmp_path / 'a.jsonl'}:2"
    with open(tmp_path / "a.jsonl", "a") as file:
        file.write(json.dumps(more[0]) + "\n")
    with pytest.raises(InputError, match='utterance "d" was already on line 4; remove one'):
        list(lines_of_jsonl(tmp_path / "a.jsonl"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NBestList1.0\n(-5) x\n", "u.txt:1: .* is a Decipher list; convert it"),
        ("-1 -2 x\n", "u.txt:1: '-1 -2 x' does not begin with two scores and a word count; write"),
        ("-1 inf 1 x\n", "u.txt:1: the scores '-1' 'inf' are not two finite numbers; write"),
        ("-1 -2 3 x\n", "u.txt:1: the line says 3 words and has 1; correct"),
        ("", 'utterance "u" has no hypotheses; remove'),
    ],
)
def test_srilm_faults(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "u.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        list(read_srilm(tmp_path))


def test_scores_beside_a_format_that_has_them_inside_are_refused(tmp_path: Path) -> None:
    write_jsonl(three_lists(), tmp_path / "a.jsonl")
    with pytest.raises(InputError, match="has its scores inside; leave out ac"):
        read_lists(tmp_path / "a.jsonl", {"acoustic": "ac.txt"})


# Only InputError may come out ------------------------------------------------------------------------------------------

TOKENS = [
    "a-1",
    "a-2",
    "b-1",
    " ",
    "\n",
    "x",
    "-1.5",
    "nan",
    "1e999",
    "{",
    "}",
    "[",
    "]",
    '"',
    ":",
    ",",
    "\\ud800",
    "\\",
    "null",
]
TOKENS += [
    '"utts"',
    '"a"',
    '"output"',
    '"hyp_1"',
    '"ref"',
    '"text"',
    '"score"',
    '"scores"',
    '"rec_text"',
    "1" * 5000,
    "_",
    "-",
    "٣",
]
TOKENS += [
    '"utterance"',
    '"hypotheses"',
    '{"text": "x", "score": 1}',
    '{"text": "x", "scores": {"s": 1}}',
    "\x1c",
    "\u2028",
    "<s>",
]
MESS = st.lists(st.sampled_from(TOKENS), max_size=25).map(lambda tokens: "".join(tokens).encode()) | st.binary(max_size=60)


@given(mess=MESS, second=MESS)
@settings(max_examples=300)
def test_malformed_files_give_input_errors_only(mess: bytes, second: bytes, folder: Path) -> None:
    (folder / "lists").mkdir(exist_ok=True)
    for name in ["n.txt", "n.txt.gz", "n.jsonl", "n.json", "lists/u.txt"]:
        (folder / name).write_bytes(mess)
    (folder / "s.txt").write_bytes(second)
    for name, scores in [
        ("n.txt", {"acoustic": folder / "s.txt"}),
        ("n.txt.gz", {}),
        ("n.jsonl", {}),
        ("n.json", {}),
        ("lists", {}),
    ]:
        try:
            for nbest in read_lists(folder / name, scores):  # and what is accepted is well formed
                assert nbest.texts
                assert all(text.split() for text in nbest.texts)
                assert all(np.isfinite(values).all() and len(values) == len(nbest) for values in nbest.scores.values())
        except InputError as error:
            message = str(error)
        else:
            message = str(folder)
        assert message.startswith(str(folder)), "every message begins with the file"


@given(data=st.data())
@settings(max_examples=150)
def test_damaged_good_files_give_input_errors_only(data: st.DataObject, folder: Path) -> None:
    write_jsonl(three_lists(), folder / "d.jsonl")
    write_mlm(three_lists(), folder / "d.json")
    name = data.draw(st.sampled_from(["d.jsonl", "d.json"]))
    content = bytearray((folder / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        content[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    (folder / name).write_bytes(content)
    with contextlib.suppress(InputError):
        list(read_lists(folder / name, {}))


@pytest.mark.parametrize("name", ["n.txt", "n.jsonl", "n.json"])
def test_memory_does_not_grow_with_the_number_of_utterances(name: str, tmp_path: Path) -> None:
    def peak(utterances: int) -> int:
        texts = [f"word{rank} of a list" for rank in range(100)]
        lists = [NBestList(f"u{u}", texts, {"acoustic": np.zeros(100)}) for u in range(utterances)]
        write_kaldi(lists, tmp_path)
        (tmp_path / "nbest.txt").rename(tmp_path / "n.txt")
        write_jsonl(lists, tmp_path / "n.jsonl")
        write_mlm(lists, tmp_path / "n.json")
        scores = {"acoustic": tmp_path / "acoustic.txt"} if name == "n.txt" else {}
        tracemalloc.start()
        for _ in read_lists(tmp_path / name, scores):
            pass
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    assert peak(200) < peak(20) + 100_000  # 180 lists more are 2 MB of text: only their names may stay
