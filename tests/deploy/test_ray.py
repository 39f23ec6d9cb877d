"""Rescoring on Ray gives the bytes of one process, whatever dies on the way. One local Ray of two workers for all of it."""

import json
import os
import signal
import socket
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("ray")
pytest.importorskip("pyarrow")

import pyarrow
import ray.data
from deploy.test_stream import files, job, place, run  # noqa: F401
from deploy.tiny_models import model, some_lists
from ray import cloudpickle

import trflm.ray
from trflm.cli.rescore import rescore
from trflm.deploy import on_ray
from trflm.deploy.rescorer import Rescorer
from trflm.deploy.tables import JournalRescorer
from trflm.errors import InputError
from trflm.evaluation.formats.parquet import write_parquet
from trflm.evaluation.second_pass.files import ListFiles

pytestmark = pytest.mark.xdist_group("ray")


# Before there is a Ray: what cannot be.


def test_without_ray_its_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"--ray: Ray is not installed.*pip install 'trflm\[ray\]'"):
        on_ray.connected(None, 1, 1).__enter__()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "nonsense"])
def test_an_address_where_nobody_listens_is_one_message(address):
    with pytest.raises(InputError, match=f"--ray {address}: there is no Ray to be reached: ") as found:
        on_ray.connected(address, 1, 1).__enter__()
    assert "\n" not in str(found.value)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [(b"HTTP/1.1 400 Bad Request\r\n\r\n", "another service answers there; Ray's own port is 6379"), (b"", "another service"),
     (None, "no answer in 1 seconds")],
)  # fmt: skip
def test_a_port_of_another_service_is_one_message(answer, problem, monkeypatch):
    """Such as Ray's dashboard; Ray itself would try for a minute or more."""
    monkeypatch.setattr(on_ray, "CONNECT_SECONDS", 1)

    def serve(listener):
        peer, _ = listener.accept()
        with peer:
            peer.recv(1000)
            if answer is None:
                ended.wait()
            else:
                peer.sendall(answer)

    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        try:
            with pytest.raises(InputError, match=f"--ray {address}: there is no Ray to be reached: {problem}"):
                on_ray.connected(address, 1, 1).__enter__()
        finally:
            ended.set()
            thread.join()


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--ray", "a", "b"], "--ray a b: give one address, or none"),
        (["--ray", "--out", "-"], "workers see no pipes"),
        (["--workers", "2"], "--workers N is for --ray"),
    ],
)
def test_wrong_use_is_said(place, tmp_path, more, message):  # noqa: F811
    out = [] if "--out" in more else ["--out", tmp_path / "out"]
    with pytest.raises(InputError, match=message):
        run(rescore, *job(place), *out, *more)


def test_a_home_that_cannot_be_written_needs_no_token_file(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "")
    monkeypatch.delenv("RAY_AUTH_TOKEN")  # as it was, afterwards
    monkeypatch.setenv("HOME", str(tmp_path))
    on_ray.give_token()
    assert "RAY_AUTH_TOKEN" not in os.environ  # Ray makes one
    monkeypatch.setenv("HOME", "/dev/null")
    on_ray.give_token()
    assert len(os.environ["RAY_AUTH_TOKEN"]) == 64
    monkeypatch.setenv("RAY_AUTH_TOKEN", "the user's own")
    on_ray.give_token()
    assert os.environ["RAY_AUTH_TOKEN"] == "the user's own"


# On a Ray of two workers.


@pytest.fixture(scope="module")
def two_workers():
    size = 0
    with ExitStack() as stack:
        for attempt in range(4):  # Ray gives a machine 30 seconds to start it, and a busy one may need more
            try:
                size = stack.enter_context(on_ray.connected(None, 2, 1))
                break
            except InputError as error:
                if "timed out during startup" not in str(error) or attempt == 3:
                    raise
        assert size == 2
        yield


def test_a_ray_is_known_by_its_greeting(two_workers):
    on_ray.check_reachable(ray.get_runtime_context().gcs_address)


def test_the_bytes_of_one_process(two_workers, place, tmp_path):  # noqa: F811
    run(rescore, *job(place), "--ref", place / "ref", "--out", tmp_path / "out", "--ray", "--workers", 2)
    assert files(tmp_path / "out") == files(place / "whole")


def test_ray_is_not_kept_waiting_until_all_lists_are_read_here(two_workers, place, tmp_path, monkeypatch):  # noqa: F811
    read, taken = ListFiles.read, []

    def noting(self, *more):
        for nbest in read(self, *more):
            taken.append(nbest.utterance)
            yield nbest

    monkeypatch.setattr(ListFiles, "read", noting)
    run(rescore, *job(place), "--out", tmp_path / "out", "--ray", "--workers", 2)
    assert files(tmp_path / "out") == files(place / "without-ref")
    assert taken == []


def test_lists_and_results_elsewhere(two_workers, place, tmp_path):  # noqa: F811
    """memory:// is of this process alone: who reads there does so here."""
    import fsspec

    there = fsspec.filesystem("memory")
    there.pipe("/lists/lists.jsonl", (place / "lists.jsonl").read_bytes())
    words = ["--rescorer", place / "r", "--nbest", "memory://lists/lists.jsonl", "--scores", "--quiet"]
    run(rescore, *words, "--out", "memory://results/one", "--ray", "--workers", 2)
    found = {Path(name).name: there.cat(name) for name in there.ls("/results/one", detail=False)}
    expected = files(place / "without-ref")
    assert found.keys() == expected.keys()
    for name in ("best.txt", "scores.jsonl.gz"):
        assert found[name] == expected[name]
    with pytest.raises(InputError, match="memory://results/one: exists already"):
        run(rescore, *words, "--out", "memory://results/one")


class Dying(JournalRescorer):
    """Notes what it is given; the first that is given list 11 is killed before it answers, and a later one for list 23 after
    it has computed all."""

    def __call__(self, batch):
        numbers = batch["number"].to_pylist()
        notes = Path(os.environ["TRFLM_NOTES"])
        with open(notes, "a") as file:
            file.write(json.dumps([os.getpid(), numbers]) + "\n")
        for number, after in ((11, False), (23, True)):
            if number in numbers and not (marker := notes.with_name(f"killed-{number}")).exists():
                marker.touch()
                if after:
                    super().__call__(batch)
                os.kill(os.getpid(), signal.SIGKILL)
        return super().__call__(batch)


def test_what_a_killed_worker_had_is_done_again_and_none_is_lost_or_double(two_workers, place, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(on_ray, "BATCH", 1500)  # three or four lists
    notes = tmp_path / "notes"

    class Noted(Dying):
        def __call__(self, batch):
            os.environ["TRFLM_NOTES"] = str(notes)
            return super().__call__(batch)

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    rescorer = tmp_path / "r"  # a CNN as small as the tests' has last bits that depend on the lists before (docs/rescoring.md)
    Rescorer({model("ngram"): 0.7}, mapping="lower").save(rescorer)
    work = on_ray.Job(ListFiles(place / "lists.jsonl"), rescorer, Rescorer.load(rescorer).sha256, scores=True)
    start = 2
    try:
        found = list(on_ray.lines(work, start, 2, Noted))
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    alone = JournalRescorer(rescorer, threads=1, sha256=None, referenced=False, scores=True)
    table = pyarrow.Table.from_pylist(list(work.rows(start)))
    assert found == alone(table)["line"].to_pylist()
    given = [json.loads(line) for line in notes.read_text().splitlines()]
    batches = [tuple(numbers) for _, numbers in given]
    again = {numbers for numbers in batches if batches.count(numbers) > 1}
    assert {11, 23} <= {number for numbers in again for number in numbers}
    assert len(set(batches)) > 5
    assert sorted(number for numbers in set(batches) for number in numbers) == list(range(start, 30))
    assert len({process for process, _ in given}) >= 3  # two at first, and those in their places


def test_a_fault_in_a_list_is_the_users_own_message(two_workers, place, tmp_path):  # noqa: F811
    (tmp_path / "lists.jsonl").write_text((place / "lists.jsonl").read_text() + '{"utterance": 3}\n')
    words = ["--rescorer", place / "r", "--nbest", tmp_path / "lists.jsonl", "--quiet"]
    with pytest.raises(InputError, match=r"lists.jsonl:31"):
        run(rescore, *words, "--out", tmp_path / "out", "--ray", "--workers", 2)


def test_a_data_set_is_rescored_by_map_batches(two_workers, place, tmp_path):  # noqa: F811
    """As docs/scale.md has it: Parquet in, JSON Lines out."""
    lists = some_lists(12)
    write_parquet(lists, tmp_path / "lists.parquet")
    options = {"concurrency": 2, "num_cpus": 0.5, "batch_size": 4}  # a CPU is left to read and write
    table = ray.data.read_parquet(str(tmp_path / "lists.parquet"))
    found = table.map_batches(trflm.ray.Rescorer, fn_constructor_args=[str(place / "r")], **options)
    found.write_json(str(tmp_path / "found"))
    rows = [json.loads(line) for part in (tmp_path / "found").iterdir() for line in part.read_text().splitlines()]
    made = Rescorer.load(place / "r")
    expected = {one.utterance: made(one.texts, one.scores["acoustic"].tolist()) for one in lists}
    assert len(rows) == len(expected)
    for row in rows:
        assert (row["best"], row["order"]) == (expected[row["utterance"]].best, list(expected[row["utterance"]].order))
        assert row["score"] == pytest.approx(expected[row["utterance"]].scores, rel=1e-8)  # write_json rounds
