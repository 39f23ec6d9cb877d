"""JSON as ESPnet and mlm-scoring write it. Their `score` is our acoustic score; other scores lie under `scores`.

ESPnet:       {"utts": {UTT: {"output": [{"rec_text": "it rose<eos>", "score": -1.5, "text": "it rose"}, ...]}}}
mlm-scoring:  {UTT: {"ref": "it rose", "hyp_1": {"text": "it rose", "score": -1.5}, "hyp_2": ...}}
"""

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from trflm.errors import InputError
from trflm.evaluation.formats.format import Format, Opening, scores_inside
from trflm.evaluation.formats.records import Member, assemble, members
from trflm.evaluation.formats.seen import Seen
from trflm.evaluation.nbest import ACOUSTIC, Finding, Kind, NBestList, Report, refuse
from trflm.files.writer import write_text

END = "<eos>"
WORD_START = "▁"  # how sentence pieces mark a blank
HYP = re.compile(r"hyp_([0-9]{1,9})")


def read_json(path: Path | str, report: Report = refuse) -> Iterator[NBestList]:
    """The lists of a file of either kind, in order."""
    seen = Seen()
    for member in members(path, inside="utts"):
        where = f"{path}:{member.line}"
        if (before := seen.line_of(member.key)) is not None:
            problem = f'utterance "{member.key}" was already on line {before}; remove one'
            report(Finding(Kind.DUPLICATE, where, problem))
            continue
        seen.add(member.key, member.line)
        if not isinstance(member.value, dict):
            report(Finding(Kind.SYNTAX, where, f'"{member.key}" is not an object; give its hypotheses in braces'))
            continue
        if "output" in member.value:
            records, reference = _espnet(member.value["output"])
        else:
            records, reference = _mlm(where, member, report)
        nbest = assemble(where, member.key, records, reference, report)
        if nbest is not None:
            yield nbest


def write_mlm(lists: Iterable[NBestList], path: Path | str) -> None:
    """The form of mlm-scoring."""

    def utterance(nbest: NBestList) -> dict[str, Any]:
        hypotheses = {f"hyp_{rank}": {"text": text, **scores} for rank, (text, scores) in enumerate(_rows(nbest), 1)}
        return hypotheses if nbest.reference is None else {"ref": nbest.reference, **hypotheses}

    _write(path, "{", ((nbest.utterance, utterance(nbest)) for nbest in lists), "}")


def write_espnet(lists: Iterable[NBestList], path: Path | str) -> None:
    """The form of ESPnet."""

    def utterance(nbest: NBestList) -> dict[str, Any]:
        reference = {} if nbest.reference is None else {"text": nbest.reference}
        return {"output": [{"rec_text": text + END, **scores, **reference} for text, scores in _rows(nbest)]}

    _write(path, '{"utts": {', ((nbest.utterance, utterance(nbest)) for nbest in lists), "}}")


def _espnet(output: Any) -> tuple[list[Any], Any]:
    output = output if isinstance(output, list) else []
    reference = output[0].get("text") if output and isinstance(output[0], dict) else None
    records = []
    for entry in output:
        if isinstance(entry, dict) and isinstance(entry.get("rec_text"), str):
            text = entry["rec_text"].strip().removesuffix(END).replace(WORD_START, " ")
            entry = {**entry, "text": text}
        elif isinstance(entry, dict):
            entry = {key: value for key, value in entry.items() if key != "text"}  # that one is the reference
        records.append(_record(entry))
    return records, reference


def _mlm(where: str, member: Member, report: Report) -> tuple[list[Any], Any]:
    ranked: dict[int, Any] = {}
    for key, value in member.value.items():
        match = HYP.fullmatch(key)
        if match:
            ranked[int(match[1])] = value
        elif key != "ref":
            report(Finding(Kind.SYNTAX, where, f'"{member.key}" has the key {key!r}; name hypotheses hyp_1, hyp_2, ...'))
    for expected, rank in enumerate(sorted(ranked), 1):
        if rank != expected:
            problem = f'"{member.key}" has hyp_{rank} where hyp_{expected} is missing; number hypotheses without gaps'
            report(Finding(Kind.RANK, where, problem))
            break
    return [_record(ranked[rank]) for rank in sorted(ranked)], member.value.get("ref")


def _record(entry: Any) -> Any:
    """{"text", "score", "scores"} -> {"text", "scores"}, whatever else there is left out."""
    if not isinstance(entry, dict):
        return entry
    extra = entry.get("scores", {})
    if "score" not in entry or not isinstance(extra, dict):
        return {"text": entry.get("text")}
    return {"text": entry.get("text"), "scores": {ACOUSTIC: entry["score"], **extra}}


def _rows(nbest: NBestList) -> Iterator[tuple[str, dict[str, Any]]]:
    if ACOUSTIC not in nbest.scores:
        raise InputError(f'utterance "{nbest.utterance}" has no {ACOUSTIC} score, which this format needs; add one')
    columns = {name: values.tolist() for name, values in nbest.scores.items()}
    acoustic = columns.pop(ACOUSTIC)
    for rank, text in enumerate(nbest.texts):
        extra = {name: column[rank] for name, column in columns.items()}
        yield text, {"score": acoustic[rank], **({"scores": extra} if extra else {})}


def _write(path: Path | str, opening: str, utterances: Iterable[tuple[str, dict[str, Any]]], closing: str) -> None:
    with write_text(path) as file:
        file.write(opening)
        for number, (name, value) in enumerate(utterances):
            separator = "," if number else ""
            file.write(f"{separator}\n{json.dumps(name, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}")
        file.write(f"\n{closing}\n")


UTTS = re.compile(r'\s*\{\s*"utts"\s*:')
NAMED = re.compile(r'\s*\{\s*("[^"]*"\s*:\s*\{|\})')  # an object of objects


def _looks_mlm(opening: Opening) -> bool:
    return NAMED.match(opening.text) is not None or opening.path.suffix == ".json"


# One reader tells the two apart by content.
ESPNET = Format("espnet", lambda opening: UTTS.match(opening.text) is not None, scores_inside(read_json), write_espnet)
MLM = Format("mlm", _looks_mlm, scores_inside(read_json), write_mlm)
