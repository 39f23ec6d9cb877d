"""JSON Lines: one utterance a line, any scores by name.

    {"utterance": "440c0201", "reference": "it rose", "hypotheses": [{"text": "it rose", "scores": {"acoustic": -10.5}}]}

`reference` may be missing. Other usual names of fields and of the acoustic score are understood, or given (`named`). Scores are
natural logs, higher is better.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from trflm.evaluation.formats.format import Format, Opening, scores_inside
from trflm.evaluation.formats.named import read_record, with_acoustic
from trflm.evaluation.formats.records import NotJsonError, assemble, parse_json
from trflm.evaluation.formats.seen import Seen
from trflm.evaluation.nbest import Finding, Kind, NBestList, Report, refuse
from trflm.files.reader import read_lines
from trflm.files.writer import write_text

BEGINNING = re.compile(r'\{"utterance": "([^"\\]+)", ')  # of a line that `to_json` wrote, but for names with signs in them
KEYS = {"utterance", "reference", "hypotheses"}


def read_jsonl(path: Path | str, report: Report = refuse, fields: Mapping[str, str] | None = None) -> Iterator[NBestList]:
    """The lists in order. Records with other fields than ours are read by `named`."""
    seen = Seen()
    for line in read_lines(path):
        where = f"{path}:{line.number}"
        nbest = list_of_line(where, line.text, report, fields)
        if nbest is not None and _is_new(nbest.utterance, where, line.number, seen, report):
            yield nbest


def lines_of_jsonl(path: Path | str) -> Iterator[tuple[str, str, str]]:
    """(utterance, where it stands, its line) of each list, for who reads the line elsewhere with `list_of_line`. The names are
    looked at here; of a line that begins as ours do, nothing else is."""
    seen = Seen()
    for line in read_lines(path):
        where, text, begins = f"{path}:{line.number}", line.text, BEGINNING.match(line.text)
        utterance = begins[1] if begins else ""
        if not begins:
            nbest = list_of_line(where, text)
            assert nbest is not None  # a fault is an InputError
            utterance, text = nbest.utterance, to_json(nbest)
        _is_new(utterance, where, line.number, seen, refuse)
        yield utterance, where, text


def list_of_line(where: str, text: str, report: Report = refuse, fields: Mapping[str, str] | None = None) -> NBestList | None:
    """The list of a line; None if there is none in it and `report` lets it pass."""
    try:
        return read_object(where, parse_json(text), report, fields)
    except NotJsonError as error:
        report(Finding(Kind.SYNTAX, where, f"not JSON: {error}; write one object a line"))
        return None


def _is_new(utterance: str, where: str, number: int, seen: Seen, report: Report) -> bool:
    if (first := seen.line_of(utterance)) is not None:
        report(Finding(Kind.DUPLICATE, where, f'utterance "{utterance}" was already on line {first}; remove one'))
        return False
    seen.add(utterance, number)
    return True


def read_object(where: str, record: Any, report: Report, fields: Mapping[str, str] | None = None) -> NBestList | None:
    """The list of one object; None if there is none in it and `report` lets it pass."""
    if fields or not _is_ours(record):
        return read_record(where, record, fields or {}, report)
    if problem := _fault(record):
        report(Finding(Kind.SYNTAX, where, problem))
        return None
    nbest = assemble(where, record["utterance"], record["hypotheses"], record.get("reference"), report)
    return None if nbest is None else with_acoustic(nbest)


def write_jsonl(lists: Iterable[NBestList], path: Path | str) -> None:
    """What `read_jsonl` reads back the same."""
    with write_text(path) as file:
        for nbest in lists:
            file.write(to_json(nbest))


def to_json(nbest: NBestList) -> str:
    """Its line."""
    return json.dumps(nbest.to_record(), ensure_ascii=False) + "\n"


def _is_ours(record: Any) -> bool:
    """Whether the record has our fields, and a score lies within `scores`."""
    if not isinstance(record, dict) or "utterance" not in record or "hypotheses" not in record:
        return False
    first = (record["hypotheses"] or [None])[0] if isinstance(record["hypotheses"], list) else None
    return record.keys() <= KEYS and (first is None or (isinstance(first, dict) and "scores" in first))


def _fault(record: Any) -> str | None:
    if not isinstance(record, dict) or not isinstance(record.get("utterance"), str):
        return 'there is no "utterance"; write {"utterance": NAME, "hypotheses": [...]}'
    if unknown := record.keys() - KEYS:
        return f"{min(unknown)!r} is not known here; the keys are {', '.join(sorted(KEYS))}"
    return None


def _looks(opening: Opening) -> bool:
    return opening.first.startswith("{") or opening.path.suffix == ".jsonl"


JSONL = Format("jsonl", _looks, scores_inside(read_jsonl), write_jsonl, read_with=read_jsonl)
