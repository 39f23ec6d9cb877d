"""Lists to try, of sentences of our own. Where a rescorer weighs a score that lists carry, they carry it."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from trflm.deploy.rescorer import Rescorer
from trflm.evaluation.second_pass.scores import FirstPass


class Heard(NamedTuple):
    text: str
    acoustic: float
    lm: float  # of the recogniser's own small language model, made up


class Said(NamedTuple):
    title: str
    id: str
    reference: str
    heard: tuple[Heard, ...]


SAID = (
    Said(
        "A farmer at the market",
        "farmer",
        "the farmer sold the horse at the market",
        (
            Heard("the farmer sold the house at the market", -212.4, -19.8),
            Heard("the farmer sold the horse at the market", -212.9, -20.6),
            Heard("the farmer soled the horse at the market", -212.1, -24.9),
            Heard("the farmers old the horse at the market", -212.0, -27.3),
            Heard("a farmer sold the horse at the market", -214.0, -21.2),
            Heard("the farmer sold the horse that the market", -213.7, -24.0),
        ),
    ),
    Said(
        "Prices in the news",
        "prices",
        "shares of the company rose five percent",
        (
            Heard("chairs of the company rose five percent", -168.3, -22.7),
            Heard("shares of the company rose five percent", -168.8, -20.1),
            Heard("shares of the company rows five percent", -168.5, -24.8),
            Heard("shares of a company rose five percent", -169.9, -20.9),
            Heard("shares of the company arose five percent", -169.4, -25.5),
        ),
    ),
    Said(
        "Words that sound alike",
        "alike",
        "she knew that the night would be long",
        (
            Heard("she new that the knight would be long", -187.0, -29.9),
            Heard("she knew that the night would belong", -187.6, -24.6),
            Heard("she knew that the night would be long", -187.9, -21.3),
            Heard("she knew that the knight would be long", -187.5, -23.8),
            Heard("she knew that the night wood be long", -187.7, -27.0),
            Heard("sheen you that the night would be long", -188.2, -33.1),
        ),
    ),
)


def examples(rescorer: Rescorer) -> dict[str, Any]:
    needed = [model.name for model in rescorer.models.values() if isinstance(model, FirstPass)]
    return {"examples": [{"title": said.title, "lists": [_to_list(said, needed)]} for said in SAID]}


def _to_list(said: Said, needed: Iterable[str]) -> dict[str, Any]:
    return {
        "id": said.id,
        "hypotheses": [heard.text for heard in said.heard],
        "acoustic": [heard.acoustic for heard in said.heard],
        "scores": {name: [heard.lm for heard in said.heard] for name in needed},
        "reference": said.reference,
    }
