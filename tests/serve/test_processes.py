"""What operators do to a service, and what happens to it: limits, signals, a killed worker."""

import http.client
import json
import os
import shutil
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

for package in ("fastapi", "uvicorn", "prometheus_client", "httpx"):
    pytest.importorskip(package, reason=f"{package} is not installed: pip install 'trflm[serve,dev]'")

import httpx
from commands import fresh_trf, trf
from deploy.tiny_models import some_lists
from serve.service import PATIENCE, Service, make_rescorer

from trflm.deploy.rescorer import Rescorer
from trflm.evaluation.formats import write_jsonl

LISTS = [
    {"id": nbest.utterance, "hypotheses": list(nbest.texts), "acoustic": nbest.scores["acoustic"].tolist()}
    for nbest in some_lists(20)
]
TOKEN = "0123456789abcdef0123456789abcdef"


@pytest.fixture(scope="module")
def rescorer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_rescorer(tmp_path_factory.mktemp("processes") / "rescorer")


def answers(directory: Path) -> dict[str, list[float]]:
    """utterance -> the scores of its hypotheses, without a service."""
    loaded = Rescorer.load(directory)
    return {one["id"]: list(loaded(one["hypotheses"], acoustic=one["acoustic"]).scores) for one in LISTS}


class Begun:
    """A request of which the last byte is held back."""

    def __init__(self, service: Service, body: dict, **headers: str) -> None:
        self.connection, raw = (
            http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE),
            json.dumps(body).encode(),
        )
        self.connection.putrequest("POST", "/v1/rescore")
        for name, value in {"content-type": "application/json", "content-length": str(len(raw)), **headers}.items():
            self.connection.putheader(name, value)
        self.connection.endheaders(raw[:-1])
        self.last = raw[-1:]

    def finish(self) -> http.client.HTTPResponse:
        self.connection.send(self.last)
        return self.connection.getresponse()


def test_limits_queue_and_token(rescorer: Path, tmp_path: Path):
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    small = ["--most-bytes", 3000, "--most-hypotheses", 3, "--most-words", 4, "--queue", 0]
    with Service(rescorer, "--token-file", tmp_path / "token", *small) as service:
        bearer = {"authorization": f"Bearer {TOKEN}"}

        def post(body: dict, headers: dict[str, str] = bearer) -> httpx.Response:
            return service.client.post("/v1/rescore", json=body, headers=headers)

        # the token
        for wrong in ({}, {"authorization": TOKEN}, {"authorization": f"Bearer {TOKEN}x"}, {"authorization": "Bearer \xff"}):
            refused = post({"hypotheses": ["a"]}, {name: value.encode("latin-1") for name, value in wrong.items()})  # pyright: ignore
            assert refused.status_code == 401
            assert "Bearer" in refused.headers["www-authenticate"]
        assert service.client.get("/v1/rescorer").status_code == 401
        assert service.client.get("/metrics").status_code == 401
        document = service.client.get("/openapi.json", headers=bearer).json()
        assert document["security"] == [{"token": []}]
        assert document["components"]["securitySchemes"]["token"] == {"type": "http", "scheme": "bearer"}
        assert document["paths"]["/v2/health/ready"]["get"]["security"] == []
        assert service.client.get("/v2/health/ready").status_code == 200  # probes have none
        assert service.client.get("/v2/health/ready", headers={"host": "service.example"}).status_code == 200

        # sizes
        assert post({"hypotheses": ["a b c d"] * 3}).status_code == 200
        for body, what in [
            ({"hypotheses": ["a"] * 4}, "4 sentences"),
            ({"hypotheses": ["a", "a b c d e"]}, "hypothesis 1 has 5 words"),
            ({"hypotheses": ["a"], "reference": "a b c d e"}, "the reference has 5 words"),
            ({"hypotheses": ["x" * 3000]}, "3,000 bytes"),
        ]:
            refused = post(body)
            assert refused.status_code == 413
            assert what in refused.json()["error"]
        limits = service.client.get("/v1/rescorer", headers=bearer).json()["limits"]
        assert limits == {"body": 3000, "hypotheses": 3, "words": 4, "concurrency": 1}
        lines = b'{"hypotheses": ["' + b"x" * 20_000 + b'"]}\n{"id": "b", "hypotheses": ["a"]}\n'
        stream = service.client.post("/v1/rescore", content=lines, headers={"content-type": "application/x-ndjson", **bearer})
        first, second = map(json.loads, stream.text.splitlines())
        assert "3,000 bytes" in first["error"]
        assert second["best"] == "a"

        # one is being answered, and none may wait: the next is sent away, at once, and told when to come again
        begun = Begun(service, {"hypotheses": ["a"]}, **bearer)
        service.wait_for_metric("trf_requests_in_progress", 1, bearer)
        refused = post({"hypotheses": ["b"]})
        assert refused.status_code == 503
        assert int(refused.headers["retry-after"]) > 0
        assert begun.finish().status == 200
        assert post({"hypotheses": ["b"]}).status_code == 200


def test_sigterm_finishes_what_has_begun(rescorer: Path):
    expected = answers(rescorer)
    with Service(rescorer) as service:
        begun = Begun(service, LISTS[0])
        stream = http.client.HTTPConnection("127.0.0.1", service.port, timeout=PATIENCE)
        stream.putrequest("POST", "/v1/rescore")
        stream.putheader("content-type", "application/x-ndjson")
        stream.putheader("transfer-encoding", "chunked")
        line = json.dumps(LISTS[1]).encode() + b"\n"
        stream.endheaders(b"%x\r\n%s\r\n" % (len(line), line))
        lines = stream.getresponse()
        assert json.loads(lines.readline())["id"] == LISTS[1]["id"]
        service.wait_for_metric("trf_requests_in_progress", 2)
        service.process.send_signal(signal.SIGTERM)
        while True:  # until it listens no more
            try:
                httpx.get(f"{service.url}/v2/health/live")
            except httpx.TransportError:
                break
        answer = begun.finish()
        assert answer.status == 200
        assert json.loads(answer.read())["scores"] == pytest.approx(expected[LISTS[0]["id"]], abs=1e-6)
        assert "the server ends" in json.loads(lines.readline())["error"]  # nothing more came on the stream
        assert lines.read() == b""
        assert service.process.wait(PATIENCE) == 0


def ask(service: Service, numbers: range, stop: threading.Event, pause: float = 0.0) -> tuple[list[dict], int]:
    """The answers to these requests, and how many connections broke; each is asked until it is answered by 200."""
    found, broken = [], 0
    with httpx.Client(base_url=service.url, timeout=PATIENCE) as client:
        for number in numbers:
            while True:
                try:
                    answer = client.post("/v1/rescore", json=LISTS[number % len(LISTS)])
                except httpx.TransportError:
                    broken += 1
                    continue
                assert answer.status_code == 200, answer.text
                found.append(answer.json())
                break
            if stop.wait(pause):
                break
    return found, broken


def children(process: subprocess.Popen[str]) -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


@pytest.mark.skipif(not Path("/proc").exists(), reason="finds the workers in /proc")
def test_a_killed_worker_and_a_new_rescorer_under_load(rescorer: Path, tmp_path: Path):
    clients, stop = 4, threading.Event()
    directory = tmp_path / "current"
    shutil.copytree(rescorer, directory)
    make_rescorer(tmp_path / "next", factor=1.1)
    old, new = answers(rescorer), answers(tmp_path / "next")
    assert all(old[name] != pytest.approx(new[name], abs=1e-3) for name in old)
    with Service(directory, "--workers", 2) as service, ThreadPoolExecutor(clients) as threads:
        asked = [threads.submit(ask, service, range(1_000_000), stop, 0.02) for _ in range(clients)]
        try:
            # kill -9: requests that it held are lost, no others; another takes its place
            victim = children(service.process)[0]
            service.wait_for_metric("trf_lists_total", 50)
            os.kill(victim, signal.SIGKILL)
            service.wait_for(rf"worker {victim} ended \(killed by SIGKILL\)")
            service.wait_for_metric("trf_rescorer_workers", 2)
            assert victim not in children(service.process)
            assert service.metric("trf_worker_restarts_total") == 1

            # a broken directory is not taken
            (directory / "rescorer.json").rename(tmp_path / "kept.json")
            service.process.send_signal(signal.SIGHUP)
            service.wait_for("is not the directory of a rescorer.* stays in use")
            service.wait_for("the other workers were not told")
            (tmp_path / "kept.json").rename(directory / "rescorer.json")

            # a new one is, by every worker
            directory.rename(tmp_path / "before")
            (tmp_path / "next").rename(directory)
            service.process.send_signal(signal.SIGHUP)
            for _ in range(2):
                service.wait_for("loaded ")
            after = service.client.post("/v1/rescore", json=LISTS[0]).json()["scores"]
            assert after == pytest.approx(new[LISTS[0]["id"]], abs=1e-6)
        finally:
            stop.set()
        found = [one.result() for one in asked]
        assert "Traceback" not in "".join(service.log)
    assert sum(broken for _, broken in found) <= clients  # one each, at most: what the killed one held
    for some, _ in found:
        is_new = [one["scores"] == pytest.approx(new[one["id"]], abs=1e-6) for one in some]
        for one, now in zip(some, is_new, strict=True):
            assert now or one["scores"] == pytest.approx(old[one["id"]], abs=1e-6)
        assert not is_new[0]
    assert any(some[-1]["scores"] == pytest.approx(new[some[-1]["id"]], abs=1e-6) for some, _ in found)


def test_many_requests_of_eight_clients_have_no_error(rescorer: Path, tmp_path: Path):
    """TRF_LOAD_REQUESTS=10000 makes it the load test of docs/serving.md."""
    clients, each = 8, int(os.environ.get("TRF_LOAD_REQUESTS", "400")) // 8
    write_jsonl(some_lists(20), tmp_path / "lists.jsonl")
    given = ["--rescorer", rescorer, "--nbest", tmp_path / "lists.jsonl", "--out", "-", "--scores", "--quiet"]
    expected = {}
    for line in trf("rescore", *given).stdout.splitlines():
        record = json.loads(line)
        totals = [hypothesis["scores"]["total"] for hypothesis in record["hypotheses"]]
        expected[record["utterance"]] = record["hypotheses"][totals.index(max(totals))]["text"], totals
    assert len(expected) == len(LISTS)
    with Service(rescorer) as service, ThreadPoolExecutor(clients) as threads:
        asked = [threads.submit(ask, service, range(each), threading.Event()) for _ in range(clients)]
        worst = 0.0
        for one in asked:
            found, broken = one.result()
            assert (len(found), broken) == (each, 0)
            for answer in found:
                best, totals = expected[answer["id"]]
                assert answer["best"] == best
                worst = max(worst, *(abs(a - b) for a, b in zip(answer["scores"], totals, strict=True)))
        assert worst <= 1e-6
        assert service.metric("trf_lists_total") == clients * each
        assert service.metric('trf_requests_total{endpoint="/v1/rescore",status="200"}') == clients * each
        assert service.metric("trf_requests_refused_total") == 0
        print(f"{clients * each} requests of {clients} clients, 0 errors, largest difference {worst:.1e}")


def test_workers_that_cannot_load_end_the_service(tmp_path: Path):
    done = fresh_trf("serve", tmp_path / "nothing", "--port", 0, "--workers", 2)
    assert done.returncode == 2
    assert "is not the directory of a rescorer" in done.stderr
    assert "Traceback" not in done.stderr
