"""However a job is run, killed, divided and joined, its results have the same bytes."""

import io
import json
import multiprocessing
import os
import random
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import tyro
from commands import trf
from deploy.tiny_models import model, some_lists

from trflm.cli.doctor import watched
from trflm.cli.rescore import Coming, merge, rescore
from trflm.deploy.journal import Journal, to_line
from trflm.deploy.rescorer import Rescorer
from trflm.deploy.stream import Shard
from trflm.errors import InputError
from trflm.evaluation.formats import read_lists, write_jsonl
from trflm.evaluation.formats.jsonl import to_json
from trflm.files import writer

COUNT = 30


def run(command: Callable[..., None], *arguments: object) -> None:
    tyro.cli(command, args=[str(argument) for argument in arguments], config=(tyro.conf.FlagCreatePairsOff,))


def files(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir())}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A rescorer, lists with references, and the results of the undisturbed job."""
    place = tmp_path_factory.mktemp("stream")
    Rescorer({model("cnn"): 0.5, model("ngram"): 0.7}, mapping="lower").save(place / "r")
    write_jsonl(some_lists(COUNT), place / "lists.jsonl")
    (place / "ref").write_text("".join(f"{nbest.utterance} {nbest.texts[1]}\n" for nbest in some_lists(COUNT)))
    run(rescore, *job(place), "--ref", place / "ref", "--out", place / "whole")
    run(rescore, *job(place), "--out", place / "without-ref")
    return place


def job(place: Path) -> list[object]:
    return ["--rescorer", place / "r", "--nbest", place / "lists.jsonl", "--scores", "--quiet"]


def test_the_files_of_a_job(place: Path) -> None:
    assert sorted(files(place / "whole")) == ["best.txt", "result.json", "scores.jsonl.gz"]
    result = json.loads((place / "whole/result.json").read_text())
    assert result["utterances"] == COUNT
    assert result["hypotheses"] == 6 * COUNT
    assert result["oov_types"] == {"cnn": 1, "ngram": 1}  # emu
    rescorer = Rescorer.load(place / "r")
    assert result["rescorer"] == rescorer.sha256
    best = {scored.nbest.utterance: scored.best for scored in rescorer.rescore(some_lists(COUNT))}
    assert (place / "whole/best.txt").read_text() == "".join(f"{u} {text}".rstrip() + "\n" for u, text in best.items())
    assert result["wer"]["rescored"]["words"] == sum(len(n.texts[1].split()) for n in some_lists(COUNT))


def dying(arguments: list[object], seed: int) -> None:
    """In a process of its own: the job, killed after some lines, in the midst of a line, or after some files were replaced."""
    rng, write, replace = random.Random(seed), Journal.write, os.replace
    lines, renames, piece = rng.choice([0, 1, 2, 3, 5]), rng.randint(0, 2), rng.random() < 0.5
    left = [lines, renames]

    def write_or_die(self: Journal, entry) -> None:
        if left[0] == 0:
            if piece:
                line = to_line(entry).encode()
                self.file.write(line[: rng.randrange(len(line))])
                self.file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1
        write(self, entry)

    def replace_or_die(*paths) -> None:
        if left[1] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left[1] -= 1
        replace(*paths)

    Journal.write, writer.os.replace = write_or_die, replace_or_die  # pyright: ignore[reportAttributeAccessIssue]
    sys.stdout = io.StringIO()
    run(rescore, *arguments)


def test_twenty_kills_and_a_resume_leave_the_same_bytes(place: Path, tmp_path: Path) -> None:
    arguments = [*job(place), "--ref", place / "ref", "--out", tmp_path / "out", "--resume"]
    kills = 0
    for seed in range(200):
        process = multiprocessing.get_context("fork").Process(target=dying, args=(arguments, seed))
        process.start()
        process.join(120)
        kills += process.exitcode == -signal.SIGKILL
        if kills == 20:
            break
        if process.exitcode == 0:  # it came to its end: begin anew, until twenty have died
            for path in (tmp_path / "out").iterdir():
                path.unlink()
    assert kills == 20
    run(rescore, *arguments)
    assert {name: of for name, of in files(tmp_path / "out").items() if not name.startswith(".")} == files(place / "whole")


@pytest.mark.parametrize(("of", "references"), [(3, True), (4, False)])
def test_shards_joined_are_the_whole(place: Path, tmp_path: Path, of: int, references: bool) -> None:
    more = ["--ref", place / "ref"] if references else []
    shards = [tmp_path / f"shard{i}" for i in range(1, of + 1)]
    for i, shard in enumerate(shards, 1):
        run(rescore, *job(place), *more, "--shard", f"{i}/{of}", "--out", shard)
    with pytest.raises(InputError, match=f"shard 1/{of} is missing"):
        run(merge, *shards[1:], "--out", tmp_path / "joined")
    with pytest.raises(InputError, match="give each one once"):
        run(merge, *shards, shards[0], "--out", tmp_path / "joined")
    run(merge, *reversed(shards), "--out", tmp_path / "joined")
    assert files(tmp_path / "joined") == files(place / ("whole" if references else "without-ref"))


def test_one_list_at_a_time_is_the_whole(place: Path, tmp_path: Path) -> None:
    best = []
    for line in (place / "lists.jsonl").read_text().splitlines(keepends=True)[::7]:
        (tmp_path / "one.jsonl").write_text(line)
        run(rescore, "--rescorer", place / "r", "--nbest", tmp_path / "one.jsonl", "--out", tmp_path / "out", "--quiet")
        best.append((tmp_path / "out/best.txt").read_text())
        (tmp_path / "out/best.txt").unlink()
        (tmp_path / "out/result.json").unlink()
    assert best == (place / "whole/best.txt").read_text().splitlines(keepends=True)[::7]


def test_from_stdin_to_stdout(place: Path) -> None:
    lists = (place / "lists.jsonl").read_text()
    done = trf("rescore", "--rescorer", place / "r", "--nbest", "-", "--format", "jsonl", "--out", "-", "--quiet", stdin=lists)
    assert done.stdout == (place / "whole/best.txt").read_text()
    assert done.returncode == 0


def test_a_job_is_not_mixed_with_another(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(rescore, *job(place), "--shard", "1/2", "--out", out)
    with pytest.raises(InputError, match="exists already; give a new name, or go on with --resume"):
        run(rescore, *job(place), "--out", out)
    (out / "result.json").unlink()
    with pytest.raises(InputError, match="was begun with shard = 1, now it is 2"):
        run(rescore, *job(place), "--shard", "2/2", "--resume", "--out", out)
    run(rescore, *job(place), "--shard", "1/2", "--resume", "--out", out)
    journal = (out / "journal.jsonl").read_text().splitlines(keepends=True)
    (out / "result.json").unlink()
    (out / "journal.jsonl").write_text("".join([journal[0], journal[2]]))
    with pytest.raises(InputError, match=r'has "utt002" where utterance "utt000" comes now; give the same lists'):
        run(rescore, *job(place), "--shard", "1/2", "--resume", "--out", out)


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "-1/2", "1/99999999999999999999", "1/" + "9" * 5000])
def test_a_wrong_shard_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="write i/n"):
        Shard.parse(text)


def test_a_job_that_was_stopped_before_its_journal_was_removed_is_tidied(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(rescore, *job(place), "--shard", "1/2", "--out", out)  # whose journal stays
    run(rescore, *job(place), "--shard", "1/2", "--resume", "--out", out)
    assert "journal.jsonl" in files(out)
    journal = (out / "journal.jsonl").read_text().replace('"shards": 2', '"shards": 1')
    (out / "journal.jsonl").write_text(journal)
    run(rescore, *job(place), "--resume", "--out", out)
    assert sorted(files(out)) == ["best.txt", "result.json", "scores.jsonl.gz"]


def test_a_journal_of_somebody_else_leads_nowhere(place: Path, tmp_path: Path) -> None:
    out, precious = tmp_path / "out", tmp_path / "precious"
    run(rescore, *job(place), "--shard", "1/2", "--out", out)
    (out / "result.json").unlink()
    journal = (out / "journal.jsonl").read_bytes()
    precious.write_text("precious")
    (out / "journal.jsonl.new").symlink_to(precious)  # what the journal is rewritten by when a file has changed
    (tmp_path / "lists.jsonl").write_bytes(b" " + (place / "lists.jsonl").read_bytes())
    moved = ["--rescorer", place / "r", "--nbest", tmp_path / "lists.jsonl", "--scores", "--quiet"]
    run(rescore, *moved, "--shard", "1/2", "--resume", "--out", out)
    assert precious.read_text() == "precious"
    (out / "result.json").unlink()
    head, _, rest = journal.partition(b"\n")
    for content, message in [
        (head + b"\n\xff\n", r"journal.jsonl:2: byte 0xff at .* is not UTF-8"),
        (b"\xff" + journal, r"journal.jsonl:1: byte 0xff at .* is not UTF-8"),
        (head + b"\n" + rest.replace(b'"best": "', b'"best": 5, "b": "', 1), r"journal.jsonl:2: the journal is damaged"),
    ]:
        (out / "journal.jsonl").write_bytes(content)
        with pytest.raises(InputError, match=message):
            run(rescore, *job(place), "--shard", "1/2", "--resume", "--out", out)
    (out / "journal.jsonl").unlink()
    os.link(precious, out / "journal.jsonl")
    with pytest.raises(InputError, match="has another name as well"):
        run(rescore, *job(place), "--shard", "1/2", "--resume", "--out", out)
    assert precious.read_text() == "precious"


def test_a_fault_further_on_costs_only_itself(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was done is kept, and when the fault is mended the job goes on: the bytes of one that never met it. A list that was
    done and has changed is noticed. `--check` finds the fault before anything is scored."""
    monkeypatch.setattr("trflm.evaluation.doctor.LOOKED_AT", 4)
    monkeypatch.setattr("trflm.deploy.rescorer.AT_ONCE", 2)
    lines = (place / "lists.jsonl").read_text().splitlines(keepends=True)
    here, out = tmp_path / "lists.jsonl", tmp_path / "out"
    arguments = ["--rescorer", place / "r", "--nbest", here, "--scores", "--threads", 1, "--out"]
    here.write_text("".join([*lines[:20], "{\n", *lines[20:]]))
    with pytest.raises(InputError, match=r"lists.jsonl:21: not JSON"):
        run(rescore, *arguments, out, "--check")
    assert not out.exists()
    with pytest.raises(InputError, match=r"lists.jsonl:21: not JSON"):
        run(rescore, *arguments, out)
    assert "20 utterances are done and kept; mend what is wrong and go on with --resume" in capsys.readouterr().err
    here.write_text("".join([*lines[:3], lines[3].replace("-", "-1", 1), *lines[4:]]))
    with pytest.raises(InputError, match='has "utt003" with other hypotheses, scores or reference than come now'):
        run(rescore, *arguments, out, "--resume")
    here.write_text("".join(lines))
    run(rescore, *arguments, out, "--resume")
    run(rescore, *arguments, tmp_path / "undisturbed")
    assert files(out) == files(tmp_path / "undisturbed")
    assert (out / "best.txt").read_bytes() == (place / "whole/best.txt").read_bytes()


def test_what_looks_wrong_in_a_pipe_is_told_without_keeping_a_list_back(
    place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    told: list[int] = []
    passed = watched(some_lists(12), lambda some: told.append(len(list(some))), 5)
    for _ in range(5):
        next(passed)
        assert told == []
    assert len(list(passed)) == 7
    assert told == [5]
    lists = "".join(to_json(replace(nbest, texts=["zzz"] * len(nbest))) for nbest in some_lists(3))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(lists.encode()))))  # pyright: ignore
    with pytest.raises(InputError, match="--check reads the lists twice"):
        run(rescore, "--rescorer", place / "r", "--nbest", "-", "--out", "-", "--check")
    run(rescore, "--rescorer", place / "r", "--nbest", "-", "--out", "-")
    assert "WARNING: -: cnn does not know 100.0% of the words" in capsys.readouterr().err


def test_how_many_lists_there_will_be_is_told_from_the_share_of_the_file_that_was_read(tmp_path: Path) -> None:
    lists = tmp_path / "lists.jsonl"
    write_jsonl((replace(nbest, utterance=f"u{u}") for u in range(700) for nbest in some_lists(1)), lists)
    coming = Coming(read_lists(lists, {}), lists)
    assert coming.total() is None
    reading = iter(coming)
    for _ in range(350):
        next(reading)
    assert coming.total() == pytest.approx(700, abs=70)  # what is read ahead is a buffer at most
    assert len(list(reading)) == 350
    assert coming.total() == 700
    assert Coming([], "-").total() is None


def test_a_job_that_fails_at_once_leaves_nothing(place: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text((place / "lists.jsonl").read_text() + "{\n")
    with pytest.raises(InputError, match=f"bad.jsonl:{COUNT + 1}: not JSON"):  # before anything is scored
        run(rescore, "--rescorer", place / "r", "--nbest", tmp_path / "bad.jsonl", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()
