"""What `trf serve` answers, asked by a real HTTP client over a real socket."""

import http.client
import importlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

for package in ("fastapi", "uvicorn", "prometheus_client", "httpx"):
    pytest.importorskip(package, reason=f"{package} is not installed: pip install 'trflm[serve,dev]'")

import httpx
from commands import trf
from deploy.tiny_models import model, some_lists
from serve.service import Service, make_rescorer

import trflm
from trflm.deploy.rescorer import Rescorer
from trflm.errors import InputError
from trflm.evaluation.alignment import align, word_errors
from trflm.evaluation.formats import write_jsonl
from trflm.evaluation.nbest import NBestList

COUNT = 40


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("serve")
    make_rescorer(place / "rescorer")
    return place


@pytest.fixture(scope="module")
def service(place: Path) -> Iterator[Service]:
    with Service(place / "rescorer") as running:
        yield running


@pytest.fixture(scope="module")
def lists(place: Path) -> list[NBestList]:
    lists = some_lists(COUNT)
    write_jsonl(lists, place / "lists.jsonl")
    return lists


def request(nbest: NBestList) -> dict:
    return {"id": nbest.utterance, "hypotheses": list(nbest.texts), "acoustic": nbest.scores["acoustic"].tolist()}


@pytest.fixture(scope="module")
def rescored(place: Path, lists: list[NBestList]) -> dict[str, tuple[str, list[float]]]:
    """utterance -> (its best, the score of each hypothesis), as `trf rescore` has them."""
    arguments = ["--rescorer", place / "rescorer", "--nbest", place / "lists.jsonl", "--out", "-", "--scores", "--quiet"]
    done = trf("rescore", *arguments, "--threads", 1)
    assert done.returncode == 0, done.stderr
    found = {}
    for line in done.stdout.splitlines():
        record = json.loads(line)
        totals = [hypothesis["scores"]["total"] for hypothesis in record["hypotheses"]]
        found[record["utterance"]] = record["hypotheses"][totals.index(max(totals))]["text"], totals
    assert len(found) == len(lists)
    return found


def same(answer: dict, rescored: dict[str, tuple[str, list[float]]]) -> None:
    best, totals = rescored[answer["id"]]
    assert answer["best"] == best
    assert answer["scores"] == pytest.approx(totals, abs=1e-6, rel=0)


def test_winners_and_scores_are_those_of_the_command(service: Service, lists: list[NBestList], rescored: dict):
    for nbest in lists:
        answer = service.client.post("/v1/rescore", json=request(nbest))
        assert answer.status_code == 200
        same(answer.json(), rescored)


def test_a_stream_is_answered_line_by_line_in_order(service: Service, lists: list[NBestList], rescored: dict):
    good = [json.dumps(request(nbest)) for nbest in lists]
    lines = [good[0], "no json", "", *good[1:], json.dumps({"id": "last", "hypotheses": ["a"], "acoustic": [1, 2]})]
    headers = {"content-type": "application/x-ndjson"}
    answer = service.client.post("/v1/rescore", content="\n".join(lines).encode(), headers=headers)
    assert answer.headers["content-type"] == "application/x-ndjson"
    found = [json.loads(line) for line in answer.text.splitlines()]
    assert [one["id"] for one in found] == [lists[0].utterance, None, *(nbest.utterance for nbest in lists[1:]), "last"]
    assert "not JSON" in found[1]["error"]
    assert "2 scores 'acoustic'" in found[-1]["error"]
    for one in [found[0], *found[2:-1]]:
        same(one, rescored)


def test_a_line_is_answered_before_the_next_is_sent(service: Service, lists: list[NBestList]):
    """A recogniser that keeps one stream open: it sends a list only when it has read the answer to the one before."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=300)
    connection.putrequest("POST", "/v1/rescore")
    connection.putheader("content-type", "application/x-ndjson")
    connection.putheader("transfer-encoding", "chunked")
    connection.endheaders()
    answers = None
    for nbest in lists[:3]:
        line = json.dumps(request(nbest)).encode() + b"\n"
        connection.send(b"%x\r\n%s\r\n" % (len(line), line))
        answers = answers or connection.getresponse()
        assert json.loads(answers.readline())["id"] == nbest.utterance
    connection.send(b"0\r\n\r\n")
    assert answers is not None
    assert answers.read() == b""


def test_an_answer_says_all_that_decided(service: Service, place: Path):
    texts = ["THE cat sat", "the emu  sat", "", "the cat ran"]
    body = {"hypotheses": texts, "acoustic": [-10.0, -9.5, -30, -9.9], "reference": "the cat sat here", "words": True}
    answer = service.client.post("/v1/rescore", json=body).json()
    direct = Rescorer.load(place / "rescorer")(texts, acoustic=body["acoustic"], words=True)
    assert answer["id"] is None
    assert answer["hypotheses"] == list(direct.texts)
    assert answer["order"] == list(direct.order)
    assert answer["scores"] == pytest.approx(list(direct.scores), abs=1e-6)
    about = service.client.get("/v1/rescorer").json()
    weights = about["weights"]
    for k in range(4):  # as the page computes it when a slider moves
        score = answer["acoustic"][k] + weights["word_penalty"] * answer["n_words"][k]
        for name, of in weights["lms"].items():
            score += of["factor"] * (answer["lms"][name]["log_prob"][k] - of["oov_penalty"] * answer["lms"][name]["oov"][k])
        assert score == pytest.approx(answer["scores"][k], abs=1e-9)
        assert sum(answer["parts"][k].values()) == pytest.approx(answer["scores"][k], abs=1e-9)
        for name, of in answer["words"][k].items():
            assert sum(of["added"]) + of["rest"] == pytest.approx(
                answer["parts"][k][name] + answer["parts"][k][f"{name} OOV words"], abs=1e-4
            )
    assert answer["words"][0]["ngram"]["words"] == ["the", "cat", "sat"]  # as the model saw them
    assert answer["words"][2] == {}
    errors = answer["errors"]
    assert errors["reference"] == 4
    assert errors["each"] == word_errors(body["reference"], direct.texts).tolist()
    for place_, text in [("first", direct.texts[0]), ("best", direct.best)]:
        found = align(body["reference"], text)
        assert errors[place_]["errors"] == found.substitutions + found.insertions + found.deletions
        assert [pair[0] for pair in errors[place_]["alignment"] if pair[0] is not None] == body["reference"].split()
        assert [pair[1] for pair in errors[place_]["alignment"] if pair[1] is not None] == text.split()


def test_sentences_are_scored_and_explained(service: Service):
    sentences = ["the cat sat", "the emu sat"]
    scored = service.client.post("/v1/score", json={"sentences": sentences}).json()["lms"]
    assert scored["ngram"]["log_prob"] == pytest.approx(trflm.load(model("ngram")).log_prob(sentences).tolist(), abs=1e-6)
    assert scored["ngram"]["oov"] == [0, 1]
    explained = service.client.post("/v1/explain", json={"hypotheses": sentences}).json()["words"]
    assert [set(one) for one in explained] == [{"cnn", "ngram"}] * 2
    assert sum(explained[0]["ngram"]["added"]) + explained[0]["ngram"]["rest"] == pytest.approx(
        0.4 * scored["ngram"]["log_prob"][0], abs=1e-5
    )


def test_an_nbest_file_is_parsed_whatever_its_format(service: Service):
    def parsed(**body: object) -> httpx.Response:
        return service.client.post("/v1/parse", json=body)

    kaldi = parsed(
        text="u1-1 it rose\nu1-2 it rows\nu2-1 a b\n", acoustic="u1-1 5\nu1-2 6.5\nu2-1 1\n", acoustic_is_cost=True,
        references="u1 it rose\n",
    ).json()  # fmt: skip
    assert kaldi["format"] == "kaldi"
    first = {"id": "u1", "hypotheses": ["it rose", "it rows"], "acoustic": [-5, -6.5], "scores": {}, "reference": "it rose"}
    assert kaldi["lists"] == [first, {"id": "u2", "hypotheses": ["a b"], "acoustic": [-1], "scores": {}}]
    assert kaldi["notes"] == ['utterance "u2" has no reference']
    assert service.client.post("/v1/rescore", json=kaldi["lists"][0]).status_code == 200
    jsonl = parsed(text='{"utt_id": "u1", "ref": "a", "hyps": ["a", "b"], "am_score": [-1, -2], "lm_score": [-3, -4]}').json()
    assert jsonl["lists"] == [
        {"id": "u1", "hypotheses": ["a", "b"], "acoustic": [-1, -2], "scores": {"lm_score": [-3, -4]}, "reference": "a"}
    ]
    srilm = parsed(text="-1 -2 2 it rose\n", name="dir/sa1.score.gz").json()
    assert (srilm["format"], srilm["lists"][0]["id"]) == ("srilm", "sa1")
    wrong = parsed(text="u1-1 a\nu1 b\n", name="mine.txt")
    assert wrong.status_code == 422
    assert wrong.json()["error"].startswith('mine.txt:2: "u1" is not UTT-N')
    assert parsed(text="").status_code == 422


@pytest.mark.parametrize(
    "name", ["/etc/passwd", "../../../etc/passwd", "-", "/", "..", ".gz", "a\x00b", "C:\\x\\y.txt", "x" * 999]
)
def test_a_name_opens_no_file(service: Service, name: str):
    answer = service.client.post("/v1/parse", json={"text": "u1-1 it rose\n", "name": name})
    assert answer.status_code == 200, answer.text
    assert answer.json()["lists"] == [{"id": "u1", "hypotheses": ["it rose"], "scores": {}}]


def test_examples_can_be_rescored(service: Service):
    examples = service.client.get("/v1/examples").json()["examples"]
    assert len(examples) >= 3
    for example in examples:
        for one in example["lists"]:
            answer = service.client.post("/v1/rescore", json=one)
            assert answer.status_code == 200, answer.text
            assert one["reference"] in one["hypotheses"]


MILLION = " ".join(["word"] * 1_000_000)
BAD = {
    "empty": b"",
    "no JSON": b"hello",
    "broken off": b'{"hypotheses": ["a"',
    "invalid UTF-8": b'{"hypotheses": ["a\xff\xfe"]}',
    "half a surrogate": b'{"hypotheses": ["\\ud800"]}',
    "deep": b'{"hypotheses": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "deep and open": b"[" * 1_000_000,
    "NaN": b'{"hypotheses": ["a"], "acoustic": [NaN]}',
    "Infinity": b'{"hypotheses": ["a"], "acoustic": [-Infinity]}',
    "too large a number": b'{"hypotheses": ["a"], "acoustic": [1e999]}',
    "too long a number": b'{"hypotheses": ["a"], "acoustic": [' + b"9" * 5000 + b"]}",
    "text for a number": b'{"hypotheses": ["a"], "acoustic": ["-1"]}',
    "true for a number": b'{"hypotheses": ["a"], "acoustic": [true]}',
    "number for text": b'{"hypotheses": [1]}',
    "null": b"null",
    "a list": b"[]",
    "no hypotheses": b'{"hypotheses": []}',
    "text for a list": b'{"hypotheses": "a b"}',
    "unknown key": b'{"hypotheses": ["a"], "path": "/etc/passwd"}',
    "too few scores": b'{"hypotheses": ["a", "b"], "acoustic": [-1]}',
    "no acoustic": b'{"hypotheses": ["a"], "scores": {"lm": [-1]}}',
    "acoustic twice": b'{"hypotheses": ["a"], "acoustic": [-1], "scores": {"acoustic": [-1]}}',
    "a million words": json.dumps({"hypotheses": [MILLION]}).encode(),
    "two thousand words": json.dumps({"hypotheses": ["a " * 2000]}).encode(),
    "a long reference": json.dumps({"hypotheses": ["a"], "reference": "a " * 2000}).encode(),
    "many hypotheses": json.dumps({"hypotheses": ["a"] * 10_000}).encode(),
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD.keys())
def test_what_is_wrong_is_refused_in_one_sentence(service: Service, body: bytes):
    answer = service.client.post("/v1/rescore", content=body, headers={"content-type": "application/json"})
    assert 400 <= answer.status_code < 500
    assert answer.headers["content-type"] == "application/json"
    message = answer.json()["error"]
    assert 10 < len(message) < 2000
    assert "Traceback" not in message
    in_stream = service.client.post(
        "/v1/rescore", content=body.replace(b"\n", b""), headers={"content-type": "application/x-ndjson"}
    )
    assert in_stream.status_code == 200
    assert all(set(json.loads(line)) == {"id", "error"} for line in in_stream.text.splitlines())
    assert bool(in_stream.text) == bool(body)


def test_very_large_scores_give_no_infinity(service: Service):
    body = {"hypotheses": ["a", "b"], "acoustic": [1.7e308, -1.7e308], "words": True}
    answer = service.client.post("/v1/rescore", json=body)
    assert answer.status_code in (200, 422)
    assert "Infinity" not in answer.text


def test_markup_comes_back_as_text_that_no_browser_runs(service: Service):
    words = "<script>alert(1)</script> <img/src=x/onerror=alert(1)> \u2028 \x00 ..\\..\\x"
    answer = service.client.post("/v1/rescore", json={"id": "<b>", "hypotheses": [words, "a"], "words": True})
    assert answer.status_code == 200
    assert answer.json()["hypotheses"][0] == " ".join(words.split())
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'self'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", "/v1/rescore", {}, 405),
        ("POST", "/v1/rescore", {"content-type": "text/plain"}, 415),
        ("POST", "/v1/score", {"content-type": "application/x-ndjson"}, 415),
        ("POST", "/v1/rescore", {}, 415),
        ("GET", "/nothing", {}, 404),
        ("GET", "/static/../app.py", {}, 404),
        ("GET", "/static/%2e%2e/app.py", {}, 404),
        ("GET", "/static//etc/passwd", {}, 404),
        ("GET", "/static/%00", {}, 404),
        ("GET", "/v1/rescorer", {"host": "evil.example"}, 403),
    ],
)
def test_other_requests_are_refused(service: Service, method: str, path: str, headers: dict[str, str], status: int):
    answer = service.client.request(method, path, headers=headers, content=b"{}" if method == "POST" else None)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]


def test_probes_and_counts(service: Service, lists: list[NBestList]):
    assert service.client.get("/v2/health/live").json() == {"live": True}
    assert service.client.get("/v2/health/ready").json() == {"ready": True}
    names = ["trf_lists_total", "trf_hypotheses_total", 'trf_requests_total{endpoint="/v1/rescore",status="200"}']
    before = [service.metric(name) for name in names]
    service.client.post("/v1/rescore", json=request(lists[0]))
    assert [service.metric(name) - was for name, was in zip(names, before, strict=True)] == [1, len(lists[0]), 1]
    assert service.metric("trf_requests_in_progress") == 0
    assert service.metric("trf_rescorer_workers") == 1


def test_the_log_has_no_traceback(service: Service):
    assert "Traceback" not in "".join(service.log)


def test_wrong_use_is_one_message(place: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    assert "--token-file" in trf("serve", place / "rescorer", "--host", "0.0.0.0").stderr
    (tmp_path / "token").write_text("short\n")
    assert "16 characters" in trf("serve", place / "rescorer", "--token-file", tmp_path / "token").stderr
    missing = trf("serve", tmp_path / "nothing", "--port", 0)
    assert (missing.returncode, missing.stderr.count("\n")) == (2, 1)
    assert "is not the directory of a rescorer" in missing.stderr
    command = importlib.import_module("trflm.cli.serve")
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'trflm\[serve\]'"):
        command.serve(place / "rescorer")
