"""Requests made up from the OpenAPI document, by schemathesis: whatever comes, it is no fault of the server."""

import json
from collections.abc import Iterator

import pytest

for package in ("fastapi", "uvicorn", "prometheus_client", "httpx"):
    pytest.importorskip(package, reason=f"{package} is not installed: pip install 'trflm[serve,dev]'")
schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed: pip install 'trflm[dev]'")

from hypothesis import HealthCheck, given, settings
from serve.service import PATIENCE, Service, make_rescorer

from trflm.serve.messages import ExplainRequest, ParseRequest, RescoreAnswer, RescoreRequest, ScoreRequest

SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
EXAMPLES = 20  # of each endpoint
CHECKS = [
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.content_type_conformance,
    schemathesis.checks.response_schema_conformance,
]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(make_rescorer(tmp_path_factory.mktemp("schema") / "rescorer")) as running:
        yield running


@pytest.mark.parametrize("mode", list(schemathesis.GenerationMode), ids=lambda mode: mode.value)
def test_nothing_that_the_document_allows_or_forbids_is_a_fault(service: Service, mode):
    """Positive requests are as the document says, negative ones are not."""
    document = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    tried = 0

    def check(case) -> None:
        nonlocal tried
        answer = case.call(timeout=PATIENCE)
        tried += 1
        assert answer.status_code < 500, answer.text
        if answer.status_code >= 400:
            assert 5 < len(answer.json()["error"]) < 2000
        case.validate_response(answer, checks=CHECKS)

    for found in document.get_all_operations():
        operation = found.ok()
        if operation.body or mode is schemathesis.GenerationMode.POSITIVE:  # without a body there is nothing to get wrong
            strategy = operation.as_strategy(generation_mode=mode)
            settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None, suppress_health_check=SLOW)(
                given(strategy)(check)
            )()
    assert tried >= 4 * EXAMPLES / 2


def test_the_log_has_no_traceback(service: Service):
    assert "Traceback" not in "".join(service.log)


@pytest.mark.parametrize(
    ("path", "kind"),
    [("rescore", RescoreRequest), ("score", ScoreRequest), ("explain", ExplainRequest), ("parse", ParseRequest)],
)
def test_examples_of_the_document_are_answered(service: Service, path: str, kind):
    document = service.client.get("/openapi.json").json()
    content = document["paths"][f"/v1/{path}"]["post"]["requestBody"]["content"]
    (example,) = content["application/json"]["schema"]["examples"]
    assert kind.model_validate_json(json.dumps(example))
    assert service.client.post(f"/v1/{path}", json=example).status_code == 200


def test_the_example_of_a_stream_is_answered_line_by_line(service: Service):
    document = service.client.get("/openapi.json").json()
    lines = document["paths"]["/v1/rescore"]["post"]["requestBody"]["content"]["application/x-ndjson"]["example"]
    answer = service.client.post("/v1/rescore", content=lines, headers={"content-type": "application/x-ndjson"})
    found = [RescoreAnswer.model_validate_json(line) for line in answer.text.splitlines()]
    assert [one.id for one in found] == [json.loads(line)["id"] for line in lines.splitlines()]


def test_the_example_of_an_answer_is_one(service: Service):
    schemas = service.client.get("/openapi.json").json()["components"]["schemas"]
    (example,) = schemas["RescoreAnswer"]["examples"]
    shown = RescoreAnswer.model_validate_json(json.dumps(example))
    assert [sum(parts.values()) for parts in shown.parts] == pytest.approx(shown.scores)
    assert shown.order == sorted(range(2), key=lambda k: -shown.scores[k])
    assert shown.best == shown.hypotheses[shown.order[0]]
    request = {"hypotheses": shown.hypotheses, "acoustic": shown.acoustic, "reference": "the market rose"}
    real = service.client.post("/v1/rescore", json=request).json()
    assert real["errors"]["each"] == example["errors"]["each"]
    assert real["errors"]["first"] == example["errors"]["first"]
    assert real.keys() == example.keys()
