"""The content of an n-best file in, its lists out, by the readers of `trf nbest`.

The readers read files, so the content is laid into a directory that is made for the request and removed after it. Of the name
that a request gives only harmless letters are kept, and only as the name of that file: nothing else is ever opened.
"""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trflm.errors import InputError, printable
from trflm.evaluation.check import ENOUGH, SUSPICIONS, check
from trflm.evaluation.formats import format_of, read_lists
from trflm.evaluation.nbest import ACOUSTIC, NBestList, Report
from trflm.evaluation.transcript_formats import READERS, is_trn
from trflm.files.reader import read_lines
from trflm.serve.errors import RequestError
from trflm.serve.messages import ParseRequest

MOST_NOTES = 20


def parse(request: ParseRequest) -> dict[str, Any]:
    """Its format, its lists, and what looks wrong with them."""
    with tempfile.TemporaryDirectory(prefix="trf-serve-") as made:
        directory = Path(made)
        try:
            return _parse(request, directory)
        except InputError as error:
            raise RequestError(printable(re.sub(rf"{re.escape(made)}/\d/", "", str(error)))) from error


def safe_name(name: str | None) -> str:
    """The last part of a name without anything that could lead elsewhere, or make a reader unpack."""
    last = re.split(r"[/\\]", name or "")[-1].removesuffix(".gz")
    return re.sub(r"[^A-Za-z0-9_.-]", "_", last)[-100:].lstrip(".-") or "nbest.txt"


def _parse(request: ParseRequest, directory: Path) -> dict[str, Any]:
    path = _write(directory, safe_name(request.name), request.text)
    scores = {} if request.acoustic is None else {ACOUSTIC: _write(directory, "acoustic", request.acoustic)}
    costs = (ACOUSTIC,) if request.acoustic_is_cost else ()
    format = format_of(path)

    def read(report: Report) -> Iterator[NBestList]:
        return read_lists(path, scores, costs, report, format.name)

    lists = list(read_lists(path, scores, costs, format=format.name))
    said = {nbest.utterance: nbest.reference for nbest in lists if nbest.reference is not None}
    notes: list[str] = []
    if request.references is not None:
        given = _references(_write(directory, "references", request.references))
        names = {nbest.utterance for nbest in lists}
        notes += _missing(names - given.keys(), "no reference") + _missing(given.keys() - names, "a reference, but no list")
        said |= given
    if not lists:
        raise RequestError("there is no n-best list in the text; give at least one")
    found = check(path.name, read, said if said and len(lists) >= ENOUGH else None, MOST_NOTES)
    notes += [finding.message.replace("say --acoustic-is-cost", "mark them as costs") for finding in found.findings
              if finding.kind in SUSPICIONS]  # fmt: skip
    return {
        "format": format.name,
        "lists": [to_answer(nbest, said.get(nbest.utterance)) for nbest in lists],
        "notes": [printable(note, 500) for note in notes[:MOST_NOTES]],
    }


def to_answer(nbest: NBestList, reference: str | None) -> dict[str, Any]:
    """The list as a request to rescore has it."""
    columns = {name: values.tolist() for name, values in nbest.scores.items()}
    answer: dict[str, Any] = {"id": nbest.utterance, "hypotheses": list(nbest.texts)}
    if ACOUSTIC in columns:
        answer[ACOUSTIC] = columns.pop(ACOUSTIC)
    answer["scores"] = columns
    if reference is not None:
        answer["reference"] = reference
    return answer


def _write(directory: Path, name: str, text: str) -> Path:
    """A file of its own folder: two contents never have one name."""
    folder = directory / f"{len(list(directory.iterdir()))}"
    folder.mkdir()
    path = folder / name
    path.write_text(text, encoding="utf-8", newline="")
    return path


def _references(path: Path) -> dict[str, str]:
    lines = list(read_lines(path))
    return READERS["trn" if is_trn(lines) else "kaldi"](path.name, lines)


def _missing(names: set[str], what: str) -> list[str]:
    if not names:
        return []
    return [f'utterance "{min(names)}"' + (f" and {len(names) - 1} more have {what}" if len(names) > 1 else f" has {what}")]
