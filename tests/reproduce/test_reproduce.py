"""A table of results from end to end, on a text and lists of a few words."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from commands import TINY_LSTM, TINY_NGRAM, TINY_RECIPE, TINY_TEXT

from trflm.errors import InputError
from trflm.evaluation.changed import Difference
from trflm.evaluation.formats import write_kaldi
from trflm.evaluation.nbest import NBestList
from trflm.evaluation.second_pass import scores as scores_module
from trflm.experiment.content import model_hash
from trflm.experiment.progress import Quiet
from trflm.experiment.store import load_model
from trflm.files.records import from_record, to_record
from trflm.lms.lstm import LSTM, Preserve, Shuffle
from trflm.lms.lstm import model as lstm_model
from trflm.reproduce import row as row_module
from trflm.reproduce import scores
from trflm.reproduce.models import Source, training_seconds, unfinished
from trflm.reproduce.plan import choose_rows, only_strategies_of, read_plan
from trflm.reproduce.record import CombinedRow, MissingRow, ModelRow, Results
from trflm.reproduce.results import reproduce

TABLES = """
title = "A tiny table"
baseline = "kn"
rival = "lstm"
strategies = ["lstm"]
[text]
train = "text.txt"
valid = "text.txt"
test = "text.txt"
[dev]
nbest = "dev/nbest.txt"
acoustic = "dev/acoustic.txt"
ref = "dev/ref.txt"
[test]
nbest = "test/nbest.txt"
acoustic = "test/acoustic.txt"
ref = "test/ref.txt"
[[row]]
name = "kn"
label = "KN3"
paper = { wer = "8.78" }
[[row]]
name = "lstm"
label = "LSTM"
seeds = [2]
[[row]]
name = "discrete"
label = "discrete TRF"
[[row]]
name = "trf"
label = "neural TRF"
[[row]]
name = "kn+lstm"
label = "KN3 + LSTM"
models = ["kn", "lstm"]
[[row]]
name = "discrete+lstm"
label = "discrete TRF + LSTM"
models = ["discrete", "lstm"]
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """recipes/ and data/: in every list the wrong word sounds better, and only grammar tells."""
    recipes, data = tmp_path / "recipes", tmp_path / "data"
    recipes.mkdir()
    data.mkdir()
    (data / "text.txt").write_text(TINY_TEXT)
    (recipes / "tables.toml").write_text(TABLES)
    for name, recipe in (("kn", TINY_NGRAM), ("lstm", TINY_LSTM), ("trf", TINY_RECIPE)):
        (recipes / f"{name}.toml").write_text(recipe.format(text="elsewhere.txt").replace("epochs = 20", "epochs = 3"))
    for name, words in (("dev", ("cat", "dog")), ("test", ("bird", "dog"))):
        folder = data / name
        folder.mkdir()
        lists = []
        for u, (noun, verb) in enumerate([(n, v) for n in words for v in ("ran", "sat")]):
            texts = [f"the the {verb}", f"the {noun} {verb}", f"{noun} the {verb}"]
            acoustic = np.array([-9.0 - u, -9.5 - u, -9.2 - u])
            lists.append(NBestList(f"u{u}", texts, {"acoustic": acoustic}, texts[1]))
        write_kaldi(lists, folder)
    return tmp_path


def make(place: Path, rows: str = "", train: bool = True, bf16: bool = False) -> Results:
    plan = read_plan(place / "recipes")
    overrides = tuple(f"data.{part}={place / 'data/text.txt'}" for part in ("train", "valid"))
    source = Source(place / "recipes", place / "out", overrides, train)
    return reproduce(plan, choose_rows(plan, rows), place / "data", source, 1, Quiet, 0.1, bf16)


def test_a_table_from_nothing_and_again_from_what_is_there(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = make(place)
    assert {row.name: row.status for row in results.rows} == {
        "kn": "done",
        "lstm": "done",
        "discrete": "not available",
        "trf": "done",
        "kn+lstm": "done",
        "discrete+lstm": "not available",
    }
    kn, lstm, discrete, trf, both, _ = results.rows
    assert isinstance(kn, ModelRow)
    assert isinstance(lstm, ModelRow)
    assert isinstance(trf, ModelRow)
    assert isinstance(both, CombinedRow)
    assert isinstance(discrete, MissingRow)
    assert "there is no recipe" in discrete.reason
    # The grammar of the text repairs every utterance, which the acoustic score got wrong.
    assert results.references["without LM"].wer == pytest.approx(1 / 3)
    assert results.references["oracle"].wer == 0
    assert kn.wer.wer == 0
    assert kn.perplexity is not None
    assert kn.perplexity.reset > 1
    assert trf.perplexity is None
    interval = trf.perplexity_interval
    assert interval is not None
    assert interval.low == interval.high > 1  # all sentences summed over
    assert lstm.strategies is not None
    assert lstm.strategies.keys() == {"preserve", "reset", "shuffle"}
    assert lstm.seeds is not None
    assert lstm.seeds.keys() == {"2"}
    other = lstm.seeds["2"]
    assert other.against_baseline is not None
    assert other.against_baseline.difference == pytest.approx(other.wer.wer - kn.wer.wer)
    assert trf.seeds is None
    assert lstm.against_baseline is not None
    assert lstm.against_baseline.difference == pytest.approx(lstm.wer.wer - kn.wer.wer)
    assert kn.against_baseline is None
    assert trf.against_rival is not None
    assert trf.against_rival.difference == pytest.approx(trf.wer.wer - lstm.wer.wer)
    assert lstm.against_rival is None
    assert both.equal is not None  # both models at the same weight
    assert both.equal.words == both.wer.words
    assert lstm.curves["dev_perplexity"][-1][0] == 3
    assert kn.changed[0].differences == (Difference("bird", "the", "bird"),)
    assert both.changed[0].words is None
    # The files.
    out = place / "out"
    stored = json.loads((out / "results.json").read_text())
    assert stored["rows"][0]["name"] == "kn"
    assert [list(row)[:4] for row in stored["rows"]] == [["name", "label", "paper", "status"]] * 6
    assert stored["rows"][3]["perplexity"] is None
    assert "perplexity" not in stored["rows"][4]
    assert "against_baseline" not in stored["rows"][0]
    assert to_record(from_record(Results, stored)) == stored  # `trf report` reads it
    text = (out / "results.md").read_text()
    assert "| KN3 |" in text
    assert "| against kn | against lstm |" in text
    assert f"KN3 + LSTM: with equal weights, as in the paper, {100 * both.equal.wer:.2f}" in text
    assert "discrete TRF: not available: there is no recipe" in text
    assert "| LSTM | preserve" not in text
    page = (out / "report.html").read_text()
    assert "<svg" in page
    assert "http" not in page
    # A second run trains and scores nothing.
    before = {path: path.stat().st_mtime_ns for path in out.rglob("model.safetensors")}

    def never(*arguments: object) -> None:
        raise AssertionError("scored or trained again")

    monkeypatch.setattr(scores, "score_lm", never)
    monkeypatch.setattr("trflm.reproduce.models.run_recipe", never)
    again = make(place)
    assert before == {path: path.stat().st_mtime_ns for path in out.rglob("model.safetensors")}
    assert (again.rows, again.references, again.lists) == (results.rows, results.references, results.lists)


def test_an_lstm_that_remembers_is_given_all_sentences_in_one_text(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The paper shuffles the candidates of all utterances together. Were they scored utterance by utterance, as other models
    are, neighbours would still be hypotheses of one utterance."""
    monkeypatch.setattr(scores_module, "CHUNK_WORDS", 1)
    monkeypatch.setattr(lstm_model, "STREAMS", 1)  # in twenty, each of these few sentences would be alone
    make(place, "lstm")
    lstm = load_model(place / "out/lstm")
    assert isinstance(lstm, LSTM)
    lists = scores.read_named("test", read_plan(place / "recipes").test.files(place / "data"), "none").lists
    for how, model in (("preserve", Preserve(lstm, 1)), ("shuffle", Shuffle(Preserve(lstm, 1), 1))):
        kept = np.load(place / f"out/scores/lstm@{how}.test.npz")["log_prob_H"]
        expected = model.log_prob(lists.sentences.texts).double().numpy()[lists.sentences.index_H]
        np.testing.assert_allclose(kept, expected, atol=1e-6)
        assert np.abs(kept - np.load(place / "out/scores/lstm.test.npz")["log_prob_H"]).max() > 1e-3


def test_lists_may_be_scored_in_bf16_but_not_the_text(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = make(place, "lstm")
    exact = np.load(place / "out/scores/lstm.test.npz")["log_prob_H"]
    for module in ("trflm.reproduce.results", "trflm.lms.lstm.model"):  # products in bf16 are slow elsewhere, not impossible
        monkeypatch.setattr(f"{module}.has_bf16", lambda: True)
    rounded = make(place, "lstm", bf16=True)
    difference = np.abs(np.load(place / "out/scores/lstm.test.npz")["log_prob_H"] - exact).max()
    assert 0 < difference < 0.3
    assert rounded.made.machine == f"{plain.made.machine}, lists scored in bf16"
    for results in (plain, rounded):
        assert isinstance(results.rows[0], ModelRow)
    assert rounded.rows[0].perplexity == plain.rows[0].perplexity  # pyright: ignore[reportAttributeAccessIssue]


def test_a_model_is_read_and_hashed_once_for_all_its_rows(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, hashed = [], []
    monkeypatch.setattr(row_module, "load_model", lambda run, *_: read.append(run.name) or load_model(run))
    monkeypatch.setattr(row_module, "model_hash", lambda run: hashed.append(run.name) or model_hash(run))
    make(place, "kn,lstm,kn+lstm")  # the LSTM in three ways
    assert read == hashed == ["kn", "lstm", "lstm-seed2"]


def test_a_row_may_have_runs_with_other_seeds(place: Path) -> None:
    (row,) = make(place, "lstm").rows
    out = place / "out"
    first, second = (json.loads((out / name / "config.json").read_text())["recipe"] for name in ("lstm", "lstm-seed2"))
    assert second["run"].pop("seed") == 2
    assert first["run"].pop("seed") == 1
    assert first == second
    assert model_hash(out / "lstm") != model_hash(out / "lstm-seed2")
    assert "over 2 seeds" in (out / "results.md").read_text()
    assert isinstance(row, ModelRow)
    shutil.rmtree(out / "lstm-seed2")  # a further run that is missing takes away its figures alone
    (again,) = make(place, "lstm", train=False).rows
    assert isinstance(again, ModelRow)
    assert (again.wer, again.seeds) == (row.wer, None)


def test_the_training_time_of_a_run_includes_that_of_its_start(place: Path) -> None:
    for name, init, seconds in (("first", "", 100.0), ("second", "elsewhere/first", 20.0)):
        run = place / name
        run.mkdir()
        (run / "config.json").write_text(json.dumps({"recipe": {"run": {"init": init}}}))
        (run / "metrics.jsonl").write_text(json.dumps({"seconds": seconds}) + "\n")
    assert training_seconds(place / "first") == 100.0
    assert training_seconds(place / "second") == 120.0


def test_strategies_may_be_left_out_by_name(place: Path) -> None:
    plan = read_plan(place / "recipes")
    assert plan.strategies == ("lstm",)
    assert only_strategies_of(plan, "lstm,kn").strategies == ("lstm",)
    assert only_strategies_of(plan, "kn").strategies == ()
    assert only_strategies_of(plan, "-kn").strategies == ("lstm",)
    assert only_strategies_of(plan, "-lstm").strategies == ()
    with pytest.raises(InputError, match="--strategies lsmt: there is no such row; the rows are kn, lstm"):
        only_strategies_of(plan, "lsmt")


def test_rows_by_name_and_models_that_are_there(place: Path) -> None:
    make(place, "kn")
    results = make(place, "-trf,-discrete,-discrete+lstm", train=False)
    assert [(row.name, row.status) for row in results.rows] == [
        ("kn", "done"),
        ("lstm", "not available"),
        ("kn+lstm", "not available"),
    ]
    assert "not trained" in results.missing[0].reason
    with pytest.raises(InputError, match="there is no such row; the rows are kn, lstm"):
        make(place, "kn6")


def test_a_recipe_that_goes_on_from_another_trains_that_one_first(place: Path) -> None:
    recipes = place / "recipes"
    more = (recipes / "trf.toml").read_text().replace("[run]", '[run]\ninit = "runs/trf"')
    (recipes / "discrete.toml").write_text(more)
    make(place, "discrete")
    assert (place / "out/trf/model.safetensors").exists()
    config = json.loads((place / "out/discrete/config.json").read_text())
    assert config["recipe"]["run"]["init"] == str(place / "out/trf")


def test_a_recipe_that_learns_from_another_trains_that_one_first(place: Path) -> None:
    recipes = place / "recipes"
    teachers = 'kind = "distil"\nteachers = ["runs/kn"]'
    student = (recipes / "trf.toml").read_text().replace('kind = "nce"', teachers)
    assert teachers in student
    (recipes / "discrete.toml").write_text(student)
    make(place, "discrete")
    assert (place / "out/kn/model.safetensors").exists()
    config = json.loads((place / "out/discrete/config.json").read_text())
    assert config["recipe"]["learner"]["teachers"] == [str(place / "out/kn")]


def test_an_unfinished_run_is_gone_on_with(place: Path) -> None:
    recipe = place / "recipes/lstm.toml"
    recipe.write_text(recipe.read_text().replace("epochs = 3", "epochs = 3\nminutes = 1e-9"))
    make(place, "lstm")
    run = place / "out/lstm"
    assert unfinished(run) is None  # its time was over: that is an end
    for name in ("lstm", "lstm-seed2"):
        config = json.loads((run.parent / name / "config.json").read_text())
        config["recipe"]["run"]["minutes"] = 0.0
        (run.parent / name / "config.json").write_text(json.dumps(config))
    assert unfinished(run) is not None
    (row,) = make(place, "lstm", train=False).models
    assert row.seeds is None
    assert row.unfinished is not None
    assert row.unfinished.endswith(" of 3 epochs")
    assert "unfinished |" in (place / "out/results.md").read_text()
    (row,) = make(place, "lstm").models
    assert row.unfinished is None
    assert row.seeds is not None
    assert unfinished(run) is None
    assert json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["epoch"] == 3


def test_one_bad_row_does_not_cost_the_others(place: Path) -> None:
    make(place, "lstm")
    (place / "out/lstm/model.safetensors").write_bytes(b"damaged")
    results = make(place, "lstm,kn")
    assert [(row.name, row.status) for row in results.rows] == [("kn", "done"), ("lstm", "failed")]
    assert "model.safetensors" in results.missing[0].reason


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("data/test/acoustic.txt", "u0-1 x\n", "acoustic.txt:1"),
        ("data/test/ref.txt", "u9 the dog ran\n", "u9"),
        ("recipes/lstm.toml", "[model]\nkind = 'lstm'\nhiden = 3\n", "did you mean hidden"),
        ("recipes/tables.toml", TABLES.replace('baseline = "kn"', 'base = "kn"'), "did you mean baseline"),
        (
            "recipes/tables.toml",
            TABLES.replace('models = ["kn", "lstm"]', 'models = ["kn", "x"]'),
            "'x' is not the name of a row",
        ),
        ("recipes/tables.toml", TABLES.replace("test/", "dev/"), "never tuned on the set that is reported"),
    ],
)
def test_bad_input_stops_before_anything_is_trained(place: Path, file: str, content: str, message: str) -> None:
    (place / file).write_text(content)
    with pytest.raises(InputError, match=message):
        make(place)
    assert not (place / "out").exists()


def test_the_words_that_decided_add_up(place: Path) -> None:
    make(place, "kn")
    from trflm.experiment.store import load_model

    lm = load_model(place / "out/kn")
    before, now = row_module.explain_words(lm, "the the ran", "the dog ran")
    assert [word for word, _ in now] == ["the", "dog", "ran"]
    end = lm.explain(["the dog ran"]).rest_B.double()
    assert sum(value for _, value in now) + float(end[0]) == pytest.approx(float(lm.log_prob(["the dog ran"])[0]), abs=2e-3)
    assert before[1][1] < now[1][1]
