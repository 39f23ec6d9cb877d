"""Requests and answers. pydantic checks requests strictly (no text for a number, no unknown key, no NaN); OpenAPI shows both.

Answers are made as plain dicts by `answers.py`; their classes here say what is in them.

Shapes: K hypotheses of a list.
"""

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trflm.serve.errors import NotJsonError, RequestError

Number = Annotated[float, Field(allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
HYPOTHESES = ["the market rose", "the market rows"]
SAME = [[word, word] for word in HYPOTHESES[0].split()]
LINES = '{"id": "utt1", "hypotheses": ["the market rose", "the market rows"]}\n{"id": "utt2", "hypotheses": ["it fell"]}\n'


def _example(value: dict[str, Any]) -> dict[str, Any]:
    return {"examples": [value]}


class Request(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class RescoreRequest(Request):
    """An n-best list, best guess of the recogniser first."""

    model_config = ConfigDict(
        json_schema_extra=_example(
            {"id": "utt1", "hypotheses": HYPOTHESES, "acoustic": [-310.2, -309.9], "reference": "the market rose"}
        )
    )
    hypotheses: list[str] = Field(min_length=1, description="What may have been said, words separated by blanks.")
    id: str | None = Field(None, max_length=1000, description="Comes back with the answer.")
    acoustic: list[Number] | None = Field(
        None, description="The recogniser's score of each: a natural log, higher is better. Without it models decide alone."
    )
    scores: dict[str, list[Number]] | None = Field(
        None, description="Further scores by name, for a rescorer that was tuned with `--lm score:NAME`."
    )
    reference: str | None = Field(None, description="What was said; with it word errors are counted.")
    words: bool = Field(False, description="Also tell what each word added.")


class ScoreRequest(Request):
    """Sentences to score."""

    model_config = ConfigDict(json_schema_extra=_example({"sentences": HYPOTHESES}))
    sentences: list[str] = Field(min_length=1)


class ExplainRequest(Request):
    """Sentences to explain."""

    model_config = ConfigDict(json_schema_extra=_example({"hypotheses": HYPOTHESES}))
    hypotheses: list[str] = Field(min_length=1)


class ParseRequest(Request):
    """The content of an n-best file in any format that `trf nbest` reads, and of the files that belong to it."""

    model_config = ConfigDict(
        json_schema_extra=_example(
            {
                "text": "utt1-1 the market rose\nutt1-2 the market rows\n",
                "acoustic": "utt1-1 -310.2\nutt1-2 -309.9\n",
                "references": "utt1 the market rose\n",
            }
        )
    )
    text: str
    name: str | None = Field(None, max_length=1000, description="The name the file had: some formats say something in it.")
    acoustic: str | None = Field(None, description="The content of the score file of a Kaldi archive.")
    acoustic_is_cost: bool = Field(False, description="Acoustic scores are costs: lower is better.")
    references: str | None = Field(None, description="What was said: lines `UTT word word ...`, or NIST trn.")


class ErrorAnswer(BaseModel):
    model_config = ConfigDict(json_schema_extra=_example({"error": "acoustic[0]: Input should be a finite number"}))
    error: str = Field(description="What is wrong, and the remedy, in one sentence.")


class ModelScores(BaseModel):
    log_prob: list[float] = Field(description="Natural-log probability of each whole sentence.")
    oov: list[Count] = Field(description="How many of its words the model does not know.")


class WordsOf(BaseModel):
    words: list[str] = Field(description="As the model saw them.")
    added: list[float] = Field(description="What each added to the score, factor and OOV penalty counted in.")
    rest: float = Field(description="The end of the sentence, or the length of a field.")


class Errors(BaseModel):
    substitutions: Count
    insertions: Count
    deletions: Count
    errors: Count
    alignment: list[tuple[str | None, str | None]] = Field(description="[word said, word heard]; null where there is none.")


class ListErrors(BaseModel):
    reference: Count = Field(description="Words of the reference.")
    first: Errors = Field(description="Of the first hypothesis.")
    best: Errors = Field(description="Of the best one.")
    each: list[Count] = Field(description="Errors of each hypothesis.")


class RescoreAnswer(BaseModel):
    """score_k = acoustic_k + sum_lm factor (log_prob_k - oov_penalty oov_k) + word_penalty n_words_k."""

    model_config = ConfigDict(
        json_schema_extra=_example(
            {
                "id": "utt1",
                "best": "the market rose",
                "order": [0, 1],
                "hypotheses": HYPOTHESES,
                "scores": [-320.0, -324.4],
                "parts": [
                    {"acoustic": -310.2, "cnn": -8.0, "cnn OOV words": 0.0, "words": -1.8},
                    {"acoustic": -309.9, "cnn": -12.7, "cnn OOV words": 0.0, "words": -1.8},
                ],
                "lms": {"cnn": {"log_prob": [-16.0, -25.4], "oov": [0, 0]}},
                "acoustic": [-310.2, -309.9],
                "n_words": [3, 3],
                "errors": {
                    "reference": 3,
                    "first": {"substitutions": 0, "insertions": 0, "deletions": 0, "errors": 0, "alignment": SAME},
                    "best": {"substitutions": 0, "insertions": 0, "deletions": 0, "errors": 0, "alignment": SAME},
                    "each": [0, 1],
                },
            }
        )
    )
    id: str | None
    best: str
    order: list[Count] = Field(description="Numbers of the hypotheses from 0, best first.")
    hypotheses: list[str] = Field(description="As scored: words separated by one blank.")
    scores: list[float] = Field(description="Higher is better.")
    parts: list[dict[str, float]] = Field(description="What each term adds: they sum to the score.")
    lms: dict[str, ModelScores]
    acoustic: list[float]
    n_words: list[Count]
    words: list[dict[str, WordsOf]] | None = None
    errors: ListErrors | None = None


class ScoreAnswer(BaseModel):
    lms: dict[str, ModelScores]


class ExplainAnswer(BaseModel):
    words: list[dict[str, WordsOf]]


class ParsedList(BaseModel):
    id: str
    hypotheses: list[str]
    acoustic: list[float] | None = None
    scores: dict[str, list[float]]
    reference: str | None = None


class ParseAnswer(BaseModel):
    format: str
    lists: list[ParsedList]
    notes: list[str] = Field(description="What looks wrong.")


class ModelWeights(BaseModel):
    factor: float
    oov_penalty: float


class WeightsAnswer(BaseModel):
    acoustic: float
    word_penalty: float
    lms: dict[str, ModelWeights]


class LimitsAnswer(BaseModel):
    body: int = Field(description="Bytes of a request, or of a line of a stream.")
    hypotheses: int = Field(description="Of a list.")
    words: int = Field(description="Of a sentence.")
    concurrency: int = Field(description="Requests that a process takes at once; some of them wait.")


class RescorerAnswer(BaseModel):
    version: str
    sha256: str | None = Field(description="One hash of all that a score depends on.")
    mapping: str
    weights: WeightsAnswer
    limits: LimitsAnswer


class Example(BaseModel):
    title: str
    lists: list[ParsedList]


class ExamplesAnswer(BaseModel):
    examples: list[Example]


R = TypeVar("R", bound=Request)


def read(kind: type[R], body: bytes) -> R:
    """The request in these bytes, or a RequestError that says where it is wrong."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    if first["type"] == "json_invalid":
        raise NotJsonError(f"the request is not JSON in UTF-8: {first['msg'].removeprefix('Invalid JSON: ')}")
    known = ", ".join(kind.model_fields)
    remedy = {"extra_forbidden": f"the keys are {known}", "missing": f"the keys are {known}"}.get(first["type"], "")
    raise RequestError(f"{_place(first['loc'])}: {first['msg']}" + (f"; {remedy}" if remedy else ""))


def _place(location: tuple[Any, ...]) -> str:
    """hypotheses[2], as a reader would write it."""
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{str(part)[:80]}" for part in location)
    return path.removeprefix(".") or "the request"
