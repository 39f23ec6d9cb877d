"""The commands around n-best lists, from files to files, through the same parser that `trf` uses."""

import gzip
import json
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
import tyro
from evaluation.toy_lm import UnigramLM

from trflm.cli.doctor import doctor
from trflm.cli.nbest import check, convert, from_lattice, oracle
from trflm.cli.rescore import rescore
from trflm.cli.tune import tune
from trflm.cli.wer import wer
from trflm.errors import InputError
from trflm.evaluation.formats import read_lists
from trflm.evaluation.second_pass import files
from trflm.text.mapping import Table

MODELS = {
    "good": UnigramLM({"it": -1.0, "rose": -1.0, "fell": -1.0, "rows": -6.0, "felt": -6.0}),
    "other": UnigramLM({"it": -1.0, "rows": -1.0, "rose": -2.0, "fell": -2.0, "felt": -1.0}),
}


def run(command: Callable[..., None], *arguments: object) -> None:
    tyro.cli(command, args=[str(argument) for argument in arguments], config=(tyro.conf.FlagCreatePairsOff,))


@pytest.fixture(autouse=True)
def models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trflm.experiment.store.load_model", lambda path, bf16=False, device="cpu": MODELS[str(path)])


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Two sets of six utterances in which the acoustic score prefers the wrong word; scores are costs."""
    for name, words in [("dev", ("rose", "rows")), ("test", ("fell", "felt"))]:
        folder = tmp_path / name
        folder.mkdir()
        right, wrong = words
        with (
            gzip.open(folder / "nbest.txt.gz", "wt") as nbest,
            open(folder / "cost.txt", "w") as cost,
            open(folder / "ref", "w") as ref,
        ):
            for u in range(6):
                nbest.write(f"u{u}-1 it {wrong}\nu{u}-2 it {right}\nu{u}-3 it\n")
                cost.write(f"u{u}-1 {10 + u}\nu{u}-2 {11 + u}\nu{u}-3 {30 + u}\n")
                ref.write(f"u{u} it {right}\n")
    return tmp_path


def lists(folder: Path) -> list[object]:
    return ["--nbest", folder / "nbest.txt.gz", "--acoustic", folder / "cost.txt", "--acoustic-is-cost"]


def test_tune_then_rescore(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    models = ["--lm", "good", "--lm", "other"]
    run(tune, *lists(data / "dev"), "--ref", data / "dev/ref", *models, "--out", data / "w.json", "--folds", 3, "--quiet")
    printed = capsys.readouterr()
    assert "without LM: WER 50.00%" in printed.out
    assert "tuned (on this set): WER 0.00%" in printed.out
    assert "cross-validated (3 folds): WER 0.00%" in printed.out
    assert printed.err == ""
    stored = json.loads((data / "w.json").read_text())
    assert stored["dev"]["wer"] == 0
    assert set(stored["tuned_on"]) == {"nbest", "acoustic", "ref"}
    arguments = [*models, "--weights", data / "w.json", "--ref", data / "test/ref", "--changes", 1]
    run(rescore, *lists(data / "test"), *arguments, "--out", data / "out", "--scores")
    printed = capsys.readouterr()
    assert "rescored: WER 0.00%" in printed.out
    assert "said: fell | before: felt | now: fell" in printed.out
    assert "6 utterances of 6, 0 s left" in printed.err
    assert (data / "out/best.txt").read_text().splitlines()[0] == "u0 it fell"
    result = json.loads((data / "out/result.json").read_text())
    assert result["wer"]["rescored"]["errors"] == 0
    assert "warning" not in result
    gains = result["changed"][0]["score_gains"]
    assert gains["acoustic"] == -1.0
    assert sum(gains.values()) > 0
    first = json.loads(gzip.decompress((data / "out/scores.jsonl.gz").read_bytes()).splitlines()[0])
    scores = first["hypotheses"][1]["scores"]
    assert (scores["acoustic"], scores["lm1"], scores["lm2"]) == (-11.0, -2.0, -3.0)


def test_every_file_is_hashed_once_and_the_mapping_read_once(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed, tables = [], []
    content_hash, from_file = files.content_hash, Table.from_file
    monkeypatch.setattr(files, "content_hash", lambda path: hashed.append(path) or content_hash(path))
    monkeypatch.setattr(Table, "from_file", lambda path: tables.append(path) or from_file(path))
    (data / "table").write_text("rose\trows\n")
    models = ["--lm", "good", "--lm", "other"]
    more = ["--mapping", f"lower,table={data}/table", "--out", data / "w.json"]
    run(tune, *lists(data / "dev"), "--ref", data / "dev/ref", *models, *more)
    assert (hashed, tables) == ([data / "dev" / name for name in ("nbest.txt.gz", "cost.txt", "ref")], [f"{data}/table"])
    more = ["--weights", data / "w.json", "--out", data / "out"]
    run(rescore, *lists(data / "test"), "--ref", data / "test/ref", *models, *more)
    assert hashed[3:] == [data / "test" / name for name in ("nbest.txt.gz", "cost.txt", "ref")]
    assert tables[1:] == [f"{data}/table"]


def test_the_tuning_set_is_refused_unless_forced_and_then_marked(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(tune, *lists(data / "dev"), "--ref", data / "dev/ref", "--lm", "good", "--out", data / "w.json")
    arguments = [
        *lists(data / "dev"),
        "--lm",
        "good",
        "--weights",
        data / "w.json",
        "--ref",
        data / "dev/ref",
        "--out",
        data / "out",
    ]
    with pytest.raises(InputError, match="tuned on this very file; report on another set, or say --force"):
        run(rescore, *arguments)
    assert not (data / "out").exists()
    capsys.readouterr()
    run(rescore, *arguments, "--force")
    printed = capsys.readouterr()
    assert all("too good" in line for line in printed.out.splitlines())
    assert "too good" in printed.err
    assert {path.name for path in (data / "out").iterdir()} == {"tuned-on-this-set.best.txt", "tuned-on-this-set.result.json"}
    assert "too good" in json.loads((data / "out/tuned-on-this-set.result.json").read_text())["warning"]


def test_a_scale_without_tuning_and_a_first_pass_score(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = data / "test"
    run(rescore, *lists(folder), "--lm", "good", "--scale", 1, "--out", data / "a")
    assert "u0 it fell" in (data / "a/best.txt").read_text()
    assert json.loads((data / "a/result.json").read_text())["weights"]["oov_penalty"] == 0  # no unknown words
    more = ["--score", f"cost2={folder}/cost.txt", "--cost", "cost2"]
    run(rescore, *lists(folder), *more, "--lm", "score:cost2", "--scale", 1, "--out", data / "b")
    assert "u0 it felt" in (data / "b/best.txt").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--scale", "1", "--weights", "w.json"], "either --scale X or --weights FILE"),
        ([], "either --scale X or --weights FILE"),
        (["--scale", "1", "--mapping", "x"], "'x' is not a step"),
        (["--scale", "1", "--lm", "good"], "given twice"),
        (["--scale", "1", "--lm", "score:z"], "has no score 'z'"),
        (["--weights", "no.json"], "no.json: cannot be read"),
        (["--scale", "1", "--ref", "no.txt"], "no.txt: cannot be read"),
        (["--scale", "1", "--changes", "1"], "--changes needs to know what was said: give --ref"),
    ],
)
def test_bad_input_leaves_nothing_behind(data: Path, change: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(rescore, *lists(data / "test"), "--lm", "good", "--out", data / "out", *change)
    assert sorted(path.name for path in data.iterdir()) == ["dev", "test"]


def test_costs_taken_for_scores_are_noticed(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / "dev/ref").write_text("".join(f"u{u} it rows\n" for u in range(6)))
    run(tune, *lists(data / "dev")[:-1], "--ref", data / "dev/ref", "--lm", "good", "--out", data / "w.json", "--quiet")
    assert "the sign is wrong; say --acoustic-is-cost" in capsys.readouterr().err


def test_wer(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / "hyp").write_text("".join(f"u{u} it {'rows' if u == 0 else 'rose'}\n" for u in range(6)))
    (data / "other").write_text("".join(f"u{u} it rows\n" for u in range(6)))
    run(wer, data / "hyp", data / "dev/ref", "--against", data / "other", "--changes", 1)
    printed = capsys.readouterr().out
    assert "WER 8.33%" in printed
    assert "1 / 12 words  S 1 D 0 I 0" in printed
    assert "words repaired: rose 5" in printed
    run(wer, data / "hyp", data / "dev/ref", "--against", data / "other", "--json")
    record = json.loads(capsys.readouterr().out)
    assert record["comparison"]["difference"] == pytest.approx(-5 / 12)
    assert len(record["changed"]) == 5
    with pytest.raises(InputError, match="--changes needs --against"):
        run(wer, data / "hyp", data / "dev/ref", "--changes", 1)


def test_nbest_check_convert_oracle(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(check, *lists(data / "dev"), "--ref", data / "dev/ref")
    assert "6 utterances, 18 hypotheses (at most 3), 30 words, scores: acoustic\nfindings: none" in capsys.readouterr().out
    run(convert, *lists(data / "dev"), "--to", "srilm", "--out", data / "srilm", "--constant", "lm=0")
    run(convert, "--nbest", data / "srilm", "--to", "jsonl", "--out", data / "a.jsonl.gz")
    run(convert, "--nbest", data / "a.jsonl.gz", "--to", "kaldi", "--out", data / "kaldi")
    assert (data / "kaldi/nbest.txt").read_text() == gzip.decompress((data / "dev/nbest.txt.gz").read_bytes()).decode()
    assert (data / "kaldi/acoustic.txt").read_text().splitlines()[:2] == ["u0-1 -10.0", "u0-2 -11.0"]
    run(oracle, "--nbest", data / "a.jsonl.gz", "--ref", data / "dev/ref")
    assert capsys.readouterr().out.splitlines() == [
        "oracle of 1: WER 50.00%  6 / 12 words",
        "oracle of 2: WER 0.00%  0 / 12 words",
        "oracle of 5: WER 0.00%  0 / 12 words",
    ]
    (data / "bad.txt").write_text("u0-1 x\nu0-1 y\n")
    with pytest.raises(InputError, match=r"bad.txt: 1 errors, see above"):
        run(check, "--nbest", data / "bad.txt")
    assert 'bad.txt:2: "u0-1" was already on line 1' in capsys.readouterr().out
    with pytest.raises(InputError, match="was already on line 1"):
        run(convert, "--nbest", data / "bad.txt", "--to", "kaldi", "--out", data / "never")
    assert not (data / "never").exists()


def test_doctor_proposes_the_command_line_and_no_flag_that_is_set(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = data / "dev"
    upper = gzip.decompress((folder / "nbest.txt.gz").read_bytes()).decode().replace("it", "IT").replace("rows", "ROWS")
    (folder / "upper.txt").write_text(upper.replace("rose", "ROSE"))
    words = ["--nbest", folder / "upper.txt", "--acoustic", folder / "cost.txt", "--lm", "good"]
    monkeypatch.setattr("sys.argv", ["trf", "doctor", *map(str, words)])
    run(doctor, *words)
    printed = capsys.readouterr().out
    assert "good: does not know 100.0% of the words !" in printed
    assert (
        "WRONG: good does not know 100.0% of the words; with the mapping lower it would be 0.0%; say --mapping lower" in printed
    )
    assert f"use: trf tune --nbest {folder}/upper.txt" in printed
    assert "--mapping lower --out RESCORER" in printed
    run(doctor, *words, "--mapping", "lower")
    assert "say --mapping" not in capsys.readouterr().out
    (folder / "wrong").write_text("".join(f"u{u} it rows\n" for u in range(6)))
    run(doctor, *lists(folder)[:-1], "--ref", folder / "wrong", "--lm", "good")
    assert "the sign is wrong; say --acoustic-is-cost" in capsys.readouterr().out
    (folder / "cost.txt").write_text(
        "".join(line.replace(" ", " -") + "\n" for line in (folder / "cost.txt").read_text().splitlines())
    )
    run(doctor, *lists(folder), "--ref", folder / "wrong", "--lm", "good")
    printed = capsys.readouterr().out
    assert "the sign is wrong; these are no costs" in printed  # the flag is set already
    assert "say --acoustic-is-cost" not in printed


@pytest.mark.parametrize(
    ("nbest", "ref", "message"),
    [
        ("u-1 thisisonelongline\nu-2 thisisonelonglime\n", "u thisisonelongline\n", "each line is one word"),
        ("u-1 IT ROSE\n", "u it rose\n", "differ in case"),
        ("u-1 it rose\n", "v it rose\n", "1 of 1 lists have no reference"),
        ("u-1 it rose\n", "u it rose\n", "language models decide alone"),
    ],
)
def test_doctor_sees(data: Path, capsys: pytest.CaptureFixture[str], nbest: str, ref: str, message: str) -> None:
    (data / "n").write_text(nbest)
    (data / "r").write_text(ref)
    run(doctor, "--nbest", data / "n", "--ref", data / "r", "--lm", "good")
    assert message in capsys.readouterr().out


def test_doctor_judges_a_sign_by_references_it_can_use_and_says_how_sure_it_is(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Six lists of six are sure, one of one is a hint; references in other letters say nothing; without references the order of
    many lists hints at costs."""
    folder = data / "dev"
    scores = lists(folder)[:-1]
    (folder / "wrong").write_text("".join(f"u{u} it rows\n" for u in range(6)))
    run(doctor, *scores, "--ref", folder / "wrong", "--lm", "good")
    assert "WRONG: the highest acoustic scores have 6 word errors, the lowest 0: the sign is wrong" in capsys.readouterr().out
    (folder / "one").write_text("u0 it rows\n" + "".join(f"u{u} it it\n" for u in range(1, 6)))
    run(doctor, *scores, "--ref", folder / "one", "--lm", "good")
    assert (
        "note: the highest acoustic scores have 6 word errors, the lowest 5: the sign may be wrong" in capsys.readouterr().out
    )
    (folder / "upper").write_text("".join(f"u{u} IT ROWS\n" for u in range(6)))
    run(doctor, *scores, "--ref", folder / "upper", "--lm", "good")
    assert "differ in case" in (printed := capsys.readouterr().out)
    assert "word errors" not in printed
    (folder / "many").write_text("".join(f"v{u}-1 it rose\nv{u}-2 it rows\n" for u in range(40)))
    (folder / "costs").write_text("".join(f"v{u}-1 {u}\nv{u}-2 {u + (1 if u % 4 else -1)}\n" for u in range(40)))
    many = ["--nbest", folder / "many", "--acoustic", folder / "costs", "--lm", "good"]
    run(doctor, *many)
    assert "in 30 of 40 lists the later hypotheses have the higher acoustic scores" in capsys.readouterr().out
    run(doctor, *many, "--acoustic-is-cost")
    assert "may be wrong" not in capsys.readouterr().out


def written(folder: Path, texts: list[str], name: str = "acoustic", said: str | None = None) -> Path:
    """Six lists as JSON Lines, the scores falling; `name` is that of the score, "" for none."""
    rows = [
        {
            "utterance": f"u{u}",
            "hypotheses": [{"text": t, "scores": {name: -0.7 * k} if name else {}} for k, t in enumerate(texts)],
        }
        | ({} if said is None else {"reference": said})
        for u in range(6)
    ]
    (folder / "written lists.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "written lists.jsonl"


def proposed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """What `trf doctor` prints for these words."""
    monkeypatch.setattr("sys.argv", ["trf", "doctor", *map(str, words)])
    run(doctor, *words)
    return capsys.readouterr().out


def test_what_doctor_proposes_can_be_run(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it stands: names with blanks, flags with =, references inside, another name of the score, or no score."""
    for texts, name, flag in [
        (["IT ROWS", "IT ROSE", "ROWS"], "acoustic", "--mapping lower"),
        (["it rows", "it rose", "rows"], "first_pass", "--acoustic-name first_pass"),
        (["it rows", "it rose", "rows"], "am", None),
        (["it rows", "it rose", "rows"], "", None),
    ]:
        nbest = written(data, texts, name, said=texts[1])
        printed = proposed(monkeypatch, capsys, f"--nbest={nbest}", "--lm", "good", "--mapping=none")
        words = shlex.split(printed[printed.index("use: ") :].splitlines()[0])
        assert words[:3] == ["use:", "trf", "tune"]
        assert "--ref" not in words
        if flag is None:
            assert "; say" not in printed
        else:
            assert f"say {flag}" in printed
            assert words.count("--mapping") + words.count("--mapping=none") == 1
        out = data / f"w-{texts[0]}-{name}.json"
        run(tune, *words[3:-1], out, "--quiet")
        assert "tuned (on this set): WER 0.00%" in capsys.readouterr().out


def test_doctor_says_what_no_flag_mends(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (data / "r").write_text("".join(f"u{u} it rose\n" for u in range(8)))
    nbest = written(data, ["it rose", "it rows"])
    printed = proposed(monkeypatch, capsys, "--nbest", nbest, "--ref", data / "r", "--lm", "good")
    assert 'WRONG: 2 references have no list ("u6"); leave them out or add the lists' in printed
    assert "mend what no flag mends, then use: trf tune" in printed


def test_one_mapping_for_all_models_and_ptb_where_numbers_are_a_word(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    nbest = written(data, ["IT'S FIVE ROSE", "IT'S ROSE"])
    monkeypatch.setitem(MODELS, "split", UnigramLM({"it": -1.0, "'s": -1.0, "rose": -1.0, "five": -1.0}))
    monkeypatch.setitem(MODELS, "whole", UnigramLM({"it's": -1.0, "rose": -1.0, "five": -1.0}))
    monkeypatch.setitem(MODELS, "penn", UnigramLM({"it": -1.0, "'s": -1.0, "rose": -1.0, "five": -1.0, "N": -1.0}))
    printed = proposed(monkeypatch, capsys, "--nbest", nbest, "--lm", "whole", "--lm", "split")
    assert printed.splitlines()[-1].count("--mapping") == 1
    for model, mapping in [("split", "lower,clitics"), ("penn", "ptb")]:
        printed = proposed(monkeypatch, capsys, "--nbest", nbest, "--lm", model)
        assert f"with the mapping {mapping} it would be 0.0%; say --mapping {mapping}" in printed


def test_lists_without_scores_are_tuned_and_rescored_by_the_model_alone(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nbest = written(data, ["it rows", "it rose"], "", said="it rose")
    run(tune, "--nbest", nbest, "--lm", "good", "--out", data / "w.json")
    printed = capsys.readouterr()
    assert "without LM: WER 50.00%" in printed.out
    assert "tuned (on this set): WER 0.00%" in printed.out
    assert "the lists have no acoustic scores: language models decide alone" in printed.err
    written(data, ["it felt", "it fell"], "", said="it fell")  # another set
    run(rescore, "--nbest", nbest, "--lm", "good", "--weights", data / "w.json", "--out", data / "out")
    printed = capsys.readouterr()
    assert "rescored: WER 0.00%" in printed.out
    assert "the lists have no acoustic scores: language models decide alone" in printed.err


def test_a_mapping_that_hardly_helps_is_not_proposed(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (data / "n").write_text("u-1 it's rose\n")
    run(doctor, "--nbest", data / "n", "--lm", "good")
    assert "would be 33.3%; say --mapping clitics" in capsys.readouterr().out
    (data / "n").write_text("".join(f"u{u}-1 thisisonelongline{u}\n" for u in range(40)) + "v-1 it's\n")
    run(doctor, "--nbest", data / "n", "--lm", "good")
    assert "--mapping" not in capsys.readouterr().out


def test_references_inside_the_lists_are_enough(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same figures as with --ref; a list without one is named."""
    for name in ("dev", "test"):
        said = dict(line.split(maxsplit=1) for line in (data / name / "ref").read_text().splitlines())
        run(convert, *lists(data / name), "--to", "jsonl", "--out", data / f"{name}.jsonl")
        rows = [json.loads(line) for line in (data / f"{name}.jsonl").read_text().splitlines()]
        text = "".join(json.dumps({**row, "reference": said[row["utterance"]]}) + "\n" for row in rows)
        (data / f"{name}.jsonl").write_text(text)
    capsys.readouterr()
    run(tune, "--nbest", data / "dev.jsonl", "--lm", "good", "--out", data / "inside.json", "--quiet")
    inside = capsys.readouterr().out
    run(tune, *lists(data / "dev"), "--ref", data / "dev/ref", "--lm", "good", "--out", data / "beside.json", "--quiet")
    assert inside.splitlines()[:3] == capsys.readouterr().out.splitlines()[:3]
    run(
        rescore,
        "--nbest",
        data / "test.jsonl",
        "--lm",
        "good",
        "--weights",
        data / "inside.json",
        "--out",
        data / "out",
        "--quiet",
    )
    assert "rescored: WER 0.00%" in capsys.readouterr().out
    with pytest.raises(InputError, match="6 of 6 utterances carry no reference, u0 is the first; say what was said by --ref"):
        run(tune, *lists(data / "dev"), "--lm", "good", "--out", data / "none.json")


def test_lists_from_lattices(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Several files to one; a scale that weighs nothing is told, once."""
    slf = "VERSION=1.0\nN=4 L=4\nI=0 W=!NULL\nI=1 W=it\nI=2 W=rose\nI=3 W=rows\nI=4 W=!SENT_END\n"
    slf += "J=0 S=0 E=1 a=-1{}\nJ=1 S=1 E=2 a=-2\nJ=2 S=1 E=3 a=-1\nJ=3 S=2 E=4 a=0\nJ=4 S=3 E=4 a=0\n"
    for name, lm in [("u1", ""), ("u2", ""), ("u3", " l=-4")]:
        (data / f"{name}.htk").write_text(slf.format(lm))
    several = [data / f"u{u}.htk" for u in (1, 2, 3)]
    run(from_lattice, *several, "--n", 2, "--lm-scale", 3, "--out", data / "lattices.jsonl")
    assert capsys.readouterr().err.count("has no language model scores; --lm-scale weighs nothing there") == 1
    found = {nbest.utterance: nbest for nbest in read_lists(data / "lattices.jsonl", {})}
    assert [list(nbest.texts) for nbest in found.values()] == [["it rows", "it rose"]] * 3
    assert found["u3"].scores["lm"].tolist() == [-4, -4]
    run(from_lattice, several[2], "--lm-scale", 3, "--quiet", "--out", data / "other.jsonl")
    assert capsys.readouterr().err == ""
    with pytest.raises(InputError, match="give lattice files"):
        run(from_lattice, "--out", data / "none.jsonl")
