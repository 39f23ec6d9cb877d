"""What the JSON formats share: strict parsing, and a checked list made of `{"text": ..., "scores": {...}}` records."""

import json
import math
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from trflm.errors import InputError
from trflm.evaluation.formats.fields import SCORE_NAME, clean, encoding_fault, name_fault
from trflm.evaluation.nbest import Finding, Kind, NBestList, Report
from trflm.files.reader import read_lines

BLANKS = " \t\r\n"


class NotJsonError(ValueError):
    """Text that is not strict JSON."""


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise NotJsonError(f"the key {twice!r} stands twice in one object")
    return record


def _no_constant(name: str) -> NoReturn:
    raise NotJsonError(f"{name} is not a number of JSON")


DECODER = json.JSONDecoder(object_pairs_hook=_distinct, parse_constant=_no_constant)


def parse_json(text: str) -> Any:
    """Strict JSON: no key twice, no NaN. Everything else is NotJsonError."""
    try:
        return DECODER.decode(text)
    except RecursionError as error:
        raise NotJsonError("nested too deeply") from error
    except ValueError as error:
        raise NotJsonError(str(error)) from error


def assemble(where: str, utterance: str, records: Any, reference: Any, report: Report) -> NBestList | None:
    """The list of one utterance from its records, best first; None if nothing is left of it."""
    if fault := name_fault(utterance):
        report(Finding(Kind.SYNTAX, where, fault))
        return None
    if reference is not None and (not isinstance(reference, str) or encoding_fault(reference)):
        report(Finding(Kind.SYNTAX, where, f'the reference of "{utterance}" is not text; write a string'))
        reference = None
    if not isinstance(records, list) or not records:
        report(Finding(Kind.EMPTY, where, f'utterance "{utterance}" has no hypotheses; leave it out'))
        return None
    names = list(records[0]["scores"]) if _record_fault(records[0]) is None else []
    same, good = set(names), []
    for rank, record in enumerate(records, 1):
        fault = _record_fault(record)
        if fault is not None:
            report(Finding(Kind.SYNTAX, where, f'hypothesis {rank} of "{utterance}": {fault}'))
        elif record["scores"].keys() != same:
            problem = f"has the scores {sorted(record['scores'])}, not {sorted(names)}; give all hypotheses the same"
            report(Finding(Kind.SCORE, where, f'hypothesis {rank} of "{utterance}" {problem}'))
        else:
            good.append(record)
    if not good:
        return None
    scores = {name: np.array([float(record["scores"][name]) for record in good]) for name in names}
    return NBestList(
        utterance, [clean(record["text"]) for record in good], scores, None if reference is None else clean(reference)
    )


def _record_fault(record: Any) -> str | None:
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        return f"{_short(record)} has no text"
    if fault := encoding_fault(record["text"]):
        return fault
    scores = record.get("scores")
    if not isinstance(scores, dict):
        return f"{_short(record)} has no scores"
    for name, value in scores.items():
        if not _names_score(name):
            return f"{name!r} cannot name a score; use letters, digits, dots, dashes"
        if not _is_number(value):
            return f"the score {name!r} is {_short(value)}; write one finite number"
    return None


@lru_cache
def _names_score(name: str) -> bool:
    return SCORE_NAME.fullmatch(name) is not None


def _is_number(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False


def _short(value: Any) -> str:
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."


class Member(NamedTuple):
    line: int
    key: str
    value: Any


def members(path: Path | str, inside: str) -> Iterator[Member]:
    """The members of the one object in a JSON file (of its member `inside` if that comes first), read bit by bit.

    Memory is bounded by the largest member if the file has line ends, as pretty-printed files do.
    """
    scanner = _Scanner(path)
    scanner.expect("{")
    closing = "}"
    if scanner.peek() != "}":
        key = scanner.value("a key")
        if key == inside:
            scanner.expect(":")
            scanner.expect("{")
            closing = "}}"
            key = None if scanner.peek() == "}" else scanner.value("a key")
        while key is not None:
            line = scanner.line
            if not isinstance(key, str):
                raise InputError(f"{path}:{line}: {_short(key)} cannot be a key; write utterance names in quotes")
            scanner.expect(":")
            yield Member(line, key, scanner.value(f'the value of "{key}"'))
            if scanner.peek() != ",":
                break
            scanner.expect(",")
            key = scanner.value("a key")
    for brace in closing:
        scanner.expect(brace)
    if rest := scanner.peek():
        raise InputError(f"{path}:{scanner.line}: {rest!r} follows the end of the object; remove it")


def elements(path: Path | str) -> Iterator[tuple[int, Any]]:
    """(line, value) of each element of the one array in a JSON file, read bit by bit as `members` does."""
    scanner = _Scanner(path)
    scanner.expect("[")
    while scanner.peek() not in ("]", ""):
        line = scanner.line
        yield line, scanner.value("an element")
        if scanner.peek() != ",":
            break
        scanner.expect(",")
    scanner.expect("]")
    if rest := scanner.peek():
        raise InputError(f"{path}:{scanner.line}: {rest!r} follows the end of the array; remove it")


class _Scanner:
    """A cursor over a JSON file that holds only what is being parsed."""

    def __init__(self, path: Path | str) -> None:
        self.path = path
        self.lines = read_lines(path)
        self.text = ""
        self.at = 0
        self.line = 1  # the line of the cursor

    def _more(self, size: int) -> bool:
        """Read on until at least `size` characters lie ahead; whether anything came."""
        parts = [self.text[self.at :]]
        ahead = len(parts[0])
        came = False
        while ahead < size:
            line = next(self.lines, None)
            if line is None:
                break
            parts.append(line.text + "\n")
            ahead += len(parts[-1])
            came = True
        self.text, self.at = "".join(parts), 0
        return came

    def _move(self, to: int) -> None:
        self.line += self.text.count("\n", self.at, to)
        self.at = to

    def peek(self) -> str:
        """The next character that is not blank; empty at the end."""
        while True:
            to = self.at
            while to < len(self.text) and self.text[to] in BLANKS:
                to += 1
            self._move(to)
            if to < len(self.text):
                return self.text[to]
            if not self._more(1):
                return ""

    def expect(self, character: str) -> None:
        found = self.peek()
        if found != character:
            raise InputError(
                f"{self.path}:{self.line}: expected {character!r}, found {found or 'the end'!r}; is this JSON whole?"
            )
        self._move(self.at + 1)

    def value(self, what: str) -> Any:
        """The JSON value at the cursor."""
        self.peek()
        while True:
            try:
                value, end = DECODER.raw_decode(self.text, self.at)
            except json.JSONDecodeError as error:
                if self._more(2 * (len(self.text) - self.at) + 1):  # perhaps it only goes on: doubling keeps this linear
                    continue
                line = self.line + self.text.count("\n", self.at, error.pos)
                raise InputError(f"{self.path}:{line}: {what} is not JSON: {error.msg}; is the file whole?") from error
            except RecursionError as error:
                raise InputError(f"{self.path}:{self.line}: {what} is nested too deeply") from error
            except ValueError as error:
                raise InputError(f"{self.path}:{self.line}: {what} is not JSON: {error}") from error
            self._move(end)
            return value
