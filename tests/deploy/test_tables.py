"""Tables of lists: Parquet, rows of data frames, and the class that Ray's workers run, here without Ray."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import pyarrow
import pyarrow.parquet
from deploy.tiny_models import model, some_lists
from evaluation.nbest_cases import nbest_lists, same, three_lists
from hypothesis import given, settings

from trflm.deploy.rescorer import Rescorer
from trflm.errors import InputError
from trflm.evaluation.formats import read_lists, write_jsonl
from trflm.evaluation.formats.parquet import read_parquet, write_parquet
from trflm.evaluation.nbest import Finding, NBestList
from trflm.files import remote


@settings(max_examples=25)
@given(lists=nbest_lists())
def test_parquet_comes_back_to_the_bit(tmp_path_factory, lists):
    path = tmp_path_factory.mktemp("parquet") / "lists.parquet"
    write_parquet(lists, path)
    assert same(list(read_parquet(path)), lists)
    assert same(list(read_lists(path, {}, ())), lists)  # told by its content


def test_parquet_is_read_in_parts_and_from_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setattr("trflm.evaluation.formats.parquet.AT_ONCE", 7)
    lists = some_lists(30)
    write_parquet(lists, tmp_path / "lists.parquet")
    assert pyarrow.parquet.ParquetFile(tmp_path / "lists.parquet").num_row_groups == 5
    remote.put_files([tmp_path / "lists.parquet"], "memory://tables")
    assert same(list(read_parquet("memory://tables/lists.parquet")), lists)


def test_columns_of_others_and_names_of_others_are_understood(tmp_path):
    rows = [{"utt_id": "a", "nbest": [{"hyp": "x y", "score": -1.0}, {"hyp": "x", "score": -2.0}], "speaker": "s1"}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a")
    fields = {"utterance": "utt_id", "hypotheses": "nbest", "text": "hyp", "acoustic": "score"}
    (nbest,) = read_parquet(tmp_path / "a", fields=fields)
    assert (nbest.utterance, nbest.texts, nbest.scores["acoustic"].tolist()) == ("a", ["x y", "x"], [-1.0, -2.0])


def test_faults_have_the_number_of_their_row(tmp_path):
    twice = [three_lists()[0], three_lists()[1], three_lists()[0]]
    write_parquet(twice, tmp_path / "twice")
    with pytest.raises(InputError, match=r"twice: row 3: utterance \"a-1\" was already in row 1"):
        list(read_parquet(tmp_path / "twice"))
    found: list[Finding] = []
    assert len(list(read_parquet(tmp_path / "twice", found.append))) == 2
    assert len(found) == 1
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{"utterance": "a", "hypotheses": None}]), tmp_path / "none")
    with pytest.raises(InputError, match="none: row 1"):
        list(read_parquet(tmp_path / "none"))
    (tmp_path / "cut").write_bytes((tmp_path / "twice").read_bytes()[:-9])
    with pytest.raises(InputError, match="cut: the file is damaged or is not Parquet"):
        list(read_parquet(tmp_path / "cut"))
    with pytest.raises(InputError, match="read from its end"):
        list(read_parquet("-"))


def test_lists_of_other_scores_do_not_fit_into_a_table(tmp_path):
    one = three_lists()[0]
    other = NBestList("b", ["the end"], {"acoustic": np.array([-1.0]), "more": np.array([1.0])})
    with pytest.raises(InputError, match=r"utterance \"b\" has the scores acoustic, more, the first list acoustic.*jsonl"):
        write_parquet([one, other], tmp_path / "lists")
    assert not (tmp_path / "lists").exists()


# The class that `map_batches` is given.


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("rescorer") / "r"
    Rescorer({model("ngram"): 0.7}, mapping="lower").save(place)
    return place


def test_batches_of_any_kind_give_what_the_rescorer_gives(directory, tmp_path):
    from trflm.ray import Rescorer as OnTables

    lists = some_lists(7)
    expected = [Rescorer.load(directory)(nbest.texts, nbest.scores["acoustic"].tolist()) for nbest in lists]
    write_parquet(lists, tmp_path / "lists")
    write_jsonl(lists, tmp_path / "lists.jsonl")
    table = pyarrow.parquet.read_table(tmp_path / "lists")
    lines = pyarrow.table({"text": (tmp_path / "lists.jsonl").read_text().splitlines()})
    rescore = OnTables(directory, sha256=Rescorer.load(directory).sha256)
    columns = {name: np.array(table[name].to_pylist(), dtype=object) for name in table.column_names}
    for batch in (table, lines, columns):
        found = rescore(batch).to_pylist()
        assert [row["best"] for row in found] == [one.best for one in expected]
        assert [row["order"] for row in found] == [list(one.order) for one in expected]
        assert [row["score"] for row in found] == [list(one.scores) for one in expected]
    assert rescore(table).column_names == ["utterance", "reference", "hypotheses", "best", "order", "score"]


def test_wrong_use_is_said(directory):
    from trflm.ray import Rescorer as OnTables

    with pytest.raises(InputError, match="is another rescorer on this machine"):
        OnTables(directory, sha256="0" * 64)
    rescore = OnTables(directory)
    row = {"utterance": "a", "hypotheses": [{"text": "x", "scores": {"acoustic": -1.0}}]}
    with pytest.raises(InputError, match="have a column 'best' already"):
        rescore(pyarrow.Table.from_pylist([{**row, "best": "x"}]))
    with pytest.raises(InputError, match='row of utterance "a"'):
        rescore(pyarrow.Table.from_pylist([{"utterance": "a"}]))
    with pytest.raises(InputError, match="the column text is not JSON"):
        rescore(pyarrow.table({"text": [json.dumps(row)[:-1]]}))
