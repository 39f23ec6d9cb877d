"""Lists in JSON by other names than ours: the fields of an utterance are found by usual names, or by those that are given.

    {"utt_id": "u1", "ref": "it rose", "hyps": ["it rose", "it rows"], "am_score": [-1.5, -1.2], "lm_score": [-9.0, -11.0]}
    {"id": "u1", "nbest": [{"text": "it rose", "score": -1.5}, ...]}

Every list of numbers as long as the hypotheses is a score, every number beside a hypothesis' text too.
"""

from collections.abc import Mapping
from typing import Any

from trflm.evaluation.formats.records import assemble
from trflm.evaluation.nbest import ACOUSTIC, Finding, Kind, NBestList, Report

NAMES = {
    "utterance": ("utterance", "utt_id", "utt", "name", "id", "key", "audio_filepath"),
    "hypotheses": ("hypotheses", "hyps", "hyp", "nbest", "n_best", "candidates"),
    "text": ("text", "hyp", "pred_text", "transcript", "words", "sentence"),
    "reference": ("reference", "ref", "text", "transcript", "target"),
}
ACOUSTIC_NAMES = (
    ACOUSTIC,
    "acoustic_score",
    "am_score",
    "ac_score",
    "am",
    "ac",
    "asr_score",
    "att_score",
    "ctc_score",
    "score",
)


def find(record: Mapping[str, Any], role: str, fields: Mapping[str, str]) -> str | None:
    """The key that has this role: the one that was given, or the first usual one that is there."""
    if role in fields:
        return fields[role] if fields[role] in record else None
    return next((name for name in NAMES[role] if name in record), None)


def _missing(role: str, record: Mapping[str, Any], fields: Mapping[str, str]) -> str:
    known = ", ".join(record) or "none"
    if role in fields:
        return f"there is no field {fields[role]!r} for the {role}, only {known}; give the name of one"
    return f"no field is the {role} (there are {known}); say which: --field {role}=NAME"


def read_record(where: str, record: Any, fields: Mapping[str, str], report: Report) -> NBestList | None:
    """The list of one utterance; None if there is none in it."""
    if not isinstance(record, dict):
        report(Finding(Kind.SYNTAX, where, "is not an object; write one for each utterance"))
        return None
    keys = {role: find(record, role, fields) for role in ("utterance", "hypotheses", "reference")}
    for role in ("utterance", "hypotheses"):
        if keys[role] is None:
            report(Finding(Kind.SYNTAX, where, _missing(role, record, fields)))
            return None
    hypotheses = record[keys["hypotheses"]]
    hypotheses = hypotheses if isinstance(hypotheses, list) else []
    columns = {
        key: values
        for key, values in record.items()
        if key != keys["hypotheses"]
        and isinstance(values, list)
        and len(values) == len(hypotheses)
        and all(map(_number, values))
    }
    rows = []
    for rank, entry in enumerate(hypotheses):
        beside = {name: values[rank] for name, values in columns.items()}
        if isinstance(entry, dict):
            text = find(entry, "text", fields)
            if text is None:
                report(Finding(Kind.SYNTAX, where, f"hypothesis {rank + 1}: {_missing('text', entry, fields)}"))
                continue
            inner = entry.get("scores")
            numbers = {k: v for k, v in entry.items() if _number(v)} | (inner if isinstance(inner, dict) else {})
            rows.append({"text": entry[text], "scores": {**beside, **numbers}})
        else:
            rows.append({"text": entry, "scores": beside})
    reference = record.get(keys["reference"]) if keys["reference"] not in (None, keys["hypotheses"]) else None
    nbest = assemble(where, str(record[keys["utterance"]]), rows, reference, report)
    return None if nbest is None else with_acoustic(nbest, fields.get(ACOUSTIC))


def with_acoustic(nbest: NBestList, name: str | None = None) -> NBestList:
    """Its acoustic score under that name: the one called `name`, or the first of the usual names."""
    if name is None:
        name = next((known for known in ACOUSTIC_NAMES if known in nbest.scores), None)
    if name is None or name == ACOUSTIC or name not in nbest.scores:
        return nbest
    scores = {ACOUSTIC if key == name else key: values for key, values in nbest.scores.items() if key != ACOUSTIC}
    return NBestList(nbest.utterance, nbest.texts, scores, nbest.reference)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
