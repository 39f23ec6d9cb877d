"""The command line through real processes: stdout for results, exit codes, no traceback for bad input."""

import json
import math
import shlex
import subprocess
import sys

import pytest
from commands import fresh_trf, tiny_recipe, trf

import trflm


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    directory = tmp_path_factory.mktemp("model")
    assert trf("train", tiny_recipe(directory), "--out", directory / "run", "--quiet", "--set", "run.epochs=3").returncode == 0
    return directory / "run"


def test_score_prints_one_number_a_line_and_warns_on_stderr(model):
    done = trf("score", model, stdin="the cat ran\n\nthe zebra ran\n" + "cat " * 9 + "\n")
    assert done.returncode == 0
    values = [float(line) for line in done.stdout.splitlines()]
    expected = trflm.load(model).log_prob(["the cat ran", "the zebra ran", "cat " * 9]).tolist()
    assert values == pytest.approx([expected[0], math.log(1e-5), *expected[1:]], abs=1e-5)
    assert "1 empty lines, scored as sentences without words" in done.stderr
    assert "1 of 15 words are not in the vocabulary" in done.stderr
    assert "1 sentences have a length that training did not have" in done.stderr
    assert trf("score", model, "--quiet", stdin="\nzebra\n").stderr == ""


def test_every_line_has_its_line_in_every_form(model):
    for options in ([], ["--per-word"], ["--json"], ["--json", "--per-word"]):
        assert trf("score", model, *options, "--quiet", stdin="\nthe cat\n\n\na").stdout.count("\n") == 5


def test_score_answers_before_the_text_has_ended(model):
    """A line is answered while the next one has not been written: who waits for the answer is not kept waiting."""
    words = [sys.executable, "-m", "trflm", "score", str(model), "--quiet"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for text in ("the cat ran", "", "a dog"):
            print(text, file=process.stdin, flush=True)
            assert float(process.stdout.readline()) < 0
        process.stdin.close()
        assert process.stdout.read() == ""


def test_score_per_word_and_json_add_up(model):
    text = "the cat ran\na zebra\n"
    plain = [float(line) for line in trf("score", model, stdin=text).stdout.splitlines()]
    for line, total, n_words in zip(
        trf("score", model, "--per-word", stdin=text).stdout.splitlines(), plain, (3, 2), strict=True
    ):
        first, *parts = map(float, line.split("\t"))
        assert len(parts) == n_words + 1
        assert first == pytest.approx(total, abs=1e-5)
        assert sum(parts) == pytest.approx(total, abs=1e-4)
    rows = [json.loads(line) for line in trf("score", model, "--json", "--per-word", stdin=text).stdout.splitlines()]
    assert [row["log_prob"] for row in rows] == pytest.approx(plain, abs=1e-5)
    assert rows[1]["words"] == ["a", "<unk>"]
    assert rows[1]["n_unk"] == 1
    assert sum(rows[0]["word_scores"]) + rows[0]["rest"] == pytest.approx(plain[0], abs=1e-5)


def test_score_reads_files(model, tmp_path):
    (tmp_path / "t.txt").write_text("the cat ran\n")
    assert trf("score", model, tmp_path / "t.txt").stdout == trf("score", model, "-", stdin="the cat ran\n").stdout


def test_explain_shows_every_word_and_the_total(model):
    done = trf("explain", model, stdin="the cat ran\n")
    assert done.returncode == 0
    head, *rows = done.stdout.splitlines()
    assert [row.split()[0] for row in rows] == ["the", "cat", "ran"]
    total = float(trf("score", model, stdin="the cat ran\n").stdout)
    assert float(head.split()[3]) == pytest.approx(total, abs=1e-3)
    assert "│" in rows[0]


def test_sample_is_repeatable_and_knows_its_options(model):
    one, two, other = (trf("sample", model, "-n", 5, "--seed", seed, "--burn-in", 3) for seed in (4, 4, 5))
    assert one.returncode == 0
    assert len(one.stdout.splitlines()) == 5
    assert one.stdout == two.stdout != other.stdout
    assert {word for line in one.stdout.splitlines() for word in line.split()} <= set(trflm.load(model).vocab.words)
    fixed = trf("sample", model, "-n", 3, "--length", 2, "--burn-in", 1).stdout.splitlines()
    assert [len(line.split()) for line in fixed] == [2, 2, 2]
    for option in ("--length", "-n"):
        wrong = trf("sample", model, option, 0)
        assert (wrong.returncode, "must be from " in wrong.stderr) == (2, True)
    assert trf("sample", model, "--threads", -1).returncode == 2


def test_report_is_one_page_with_a_curve_for_each_metric(model, tmp_path):
    done = trf("report", model, "--out", tmp_path / "r.html")
    assert (done.returncode, done.stdout.strip()) == (0, str(tmp_path / "r.html"))
    page = (tmp_path / "r.html").read_text()
    for name in ("loss", "accuracy", "gradient norm", "dev loss"):
        assert f">{name}<span>" in page
    assert page.count("<svg") == page.count("</svg>") >= 5
    assert "http" not in page
    assert "learner.batch" in page
    assert trf("report", model, "--out", tmp_path / "nowhere" / "r.html").returncode == 2
    (tmp_path / "empty").mkdir()
    wrong = trf("report", tmp_path / "empty")
    assert wrong.returncode == 2
    assert "config.json: there is no such file" in wrong.stderr


def damaged(model, tmp_path, name, content):
    copy = tmp_path / "model"
    copy.mkdir()
    for file in ("config.json", "vocab.txt", "model.safetensors"):
        (copy / file).write_bytes((model / file).read_bytes())
    (copy / name).write_bytes(content)
    return copy


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("model.safetensors", b"half", "not a model file, or a damaged one"),
        ("config.json", b"{", "damaged or not ours"),
        ("config.json", b'{"recipe": {}}', "does not belong to"),
        ("config.json", b'{"recipe": {"reference": 0.5}}', "its recipe is not an object of objects"),
        ("vocab.txt", b"<unk>\nthe\n", "does not belong to"),
        ("vocab.txt", b"\xff\n", "is not UTF-8"),
        ("vocab.txt", b"<unk>\nsat\nran\nthe\na\ndog\ncat\nbird\n", "does not belong to the vocab.txt beside it"),
    ],
)
def test_a_damaged_model_gives_one_message(model, tmp_path, name, content, message):
    done = trf("score", damaged(model, tmp_path, name, content), stdin="the\n")
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["score", "nowhere"], "nowhere: there is no such directory"),
        (["score"], "MODEL"),
        (["sccore", "x"], "sccore"),
        (["train", "nowhere.toml", "--out", "x"], "nowhere.toml: there is no such recipe"),
        (["train", "tiny"], "--out"),
        (["train", "nowhere.toml", "--out", "x", "--sed", "3"], "--sed"),
    ],
)
def test_wrong_use_exits_2_without_traceback(arguments, message, tmp_path):
    done = trf(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stdout + done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "x").exists()


def test_help_and_import_do_not_load_torch():
    code = "import sys, trflm, trflm.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    done = fresh_trf("--help")
    assert done.returncode == 0
    assert "train" in done.stdout


def test_a_reader_that_leaves_early_is_no_crash(model, tmp_path):
    (tmp_path / "t.txt").write_text("the cat ran\n" * 20_000)
    line = shlex.join([sys.executable, "-m", "trflm", "score", str(model), f"{tmp_path}/t.txt"]) + " | head -1"
    done = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
    assert len(done.stdout.splitlines()) == 1
    assert "Traceback" not in done.stderr
