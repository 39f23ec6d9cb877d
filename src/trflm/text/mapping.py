"""From the words of a recogniser to the words of a language model, step by step.

A step is a small frozen object that takes a list of words and returns a list of words, never changing the one it was
given; a mapping is a tuple of steps, applied in order. No step makes a sentence empty. Word errors are always counted on
the recogniser's own words: a mapping decides only what a language model is shown.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Protocol

from trflm.errors import InputError
from trflm.files.reader import read_lines


class Step(Protocol):
    def touches(self, words: Iterable[str]) -> bool:
        """Whether there is anything to do in sentences of these words: if not, the step returns each as it is."""
        ...

    def __call__(self, words: list[str]) -> list[str]: ...


TextMapping = tuple[Step, ...]


def apply(mapping: TextMapping, words: Sequence[str]) -> list[str]:
    """The words after every step."""
    return apply_to_all(mapping, [list(words)])[0]


def apply_to_all(mapping: TextMapping, sentences: Sequence[list[str]]) -> Sequence[list[str]]:
    """Each sentence after every step. The hypotheses of a list share most words, so a step is asked once for all of them
    whether it has anything to do."""
    met = set().union(*sentences)
    for step in mapping:
        if step.touches(met):
            sentences = [step(words) for words in sentences]
            met = set().union(*sentences)
    return sentences


@dataclass(frozen=True)
class LowerCase:
    """`The U. S.` -> `the u. s.`"""

    def touches(self, words: Iterable[str]) -> bool:
        joined = "".join(words)
        return joined != joined.lower()

    def __call__(self, words: list[str]) -> list[str]:
        return [word.lower() for word in words]


@dataclass(frozen=True)
class Table:
    """Replace stretches of words by others, the longest entry first: (("and company", "& co."), ...)."""

    entries: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        for old, new in self.entries:
            if not old.split() or not new.split():
                raise InputError(f"the table entry {old!r} -> {new!r} has an empty side; give at least one word on each")

    @cached_property
    def _by_first(self) -> dict[str, list[tuple[list[str], list[str]]]]:
        found: dict[str, list[tuple[list[str], list[str]]]] = {}
        for old, new in sorted(self.entries, key=lambda entry: -len(entry[0].split())):
            found.setdefault(old.split()[0], []).append((old.split(), new.split()))
        return found

    def touches(self, words: Iterable[str]) -> bool:
        return not self._by_first.keys().isdisjoint(words)

    def __call__(self, words: list[str]) -> list[str]:
        if not self.touches(words):
            return words
        mapped: list[str] = []
        at = 0
        while at < len(words):
            for old, new in self._by_first.get(words[at], ()):
                if words[at : at + len(old)] == old:
                    mapped += new
                    at += len(old)
                    break
            else:
                mapped.append(words[at])
                at += 1
        return mapped

    @classmethod
    def from_file(cls, path: Path | str) -> "Table":
        """One entry a line: the recogniser's words, a tab, the language model's words."""
        entries: dict[str, tuple[str, int]] = {}
        for line in read_lines(path):
            old, _, new = (" ".join(part.split()) for part in line.text.partition("\t"))
            if not old or not new:
                raise InputError(f"{path}:{line.number}: {line.text!r} is not an entry; write `old words<TAB>new words`")
            if old in entries:
                raise InputError(f"{path}:{line.number}: {old!r} was already on line {entries[old][1]}; remove one")
            entries[old] = (new, line.number)
        return cls(tuple((old, new) for old, (new, _) in entries.items()))


@dataclass(frozen=True)
class Clitics:
    """Split as the Penn Treebank does: `didn't` -> `did n't`, `company's` -> `company 's`, `viewers'` -> `viewers '`."""

    def touches(self, words: Iterable[str]) -> bool:
        return "'" in "".join(words)

    def __call__(self, words: list[str]) -> list[str]:
        if not self.touches(words):
            return words
        return [part for word in words for part in _split_clitic(word)]


WORDS_REMEMBERED = 1 << 16  # lists of hypotheses repeat few words very often
CLITIC = re.compile(r"(.*[^'])('(?:s|m|d|re|ve|ll)|n't|')", re.IGNORECASE)


@lru_cache(WORDS_REMEMBERED)
def _split_clitic(word: str) -> tuple[str, ...]:
    match = CLITIC.fullmatch(word)
    return (word,) if match is None else (match[1], match[2])


@dataclass(frozen=True)
class Initials:
    """Join spelled letters: `u. s.` -> `u.s.` if that is one of `dotted`, otherwise `i. b. m.` -> `ibm`.

    A single initial (`john f. smith`) stays as it is. Case is left as it is, `dotted` holds lower-case forms.
    """

    dotted: frozenset[str]

    def touches(self, words: Iterable[str]) -> bool:
        return any(map(_is_letter, words))

    def __call__(self, words: list[str]) -> list[str]:
        if not self.touches(words):
            return words
        mapped: list[str] = []
        run: list[str] = []
        for word in [*words, ""]:
            if _is_letter(word):
                run.append(word)
                continue
            if len(run) > 1:
                joined = "".join(run)
                mapped.append(joined if joined.lower() in self.dotted else joined.replace(".", ""))
            else:
                mapped += run
            run = []
            if word:
                mapped.append(word)
        return mapped


@lru_cache(WORDS_REMEMBERED)
def _is_letter(word: str) -> bool:
    return len(word) == 2 and word[1] == "." and word[0].isalpha()


SMALL = frozenset(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])
LARGE = frozenset(
    {"ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"}
    | {"twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"}
)
WITHIN = frozenset({"hundred", "thousand", "point", "oh"})  # part of a number, but only after its beginning
DIGITS = re.compile(r"[0-9][0-9,.]*")


@dataclass(frozen=True)
class Numbers:
    """A number becomes one class token: `nineteen eighty seven` -> `N`, `two point five million` -> `N million`.

    A lone `zero` to `nine` stays a word, as newspapers print it, unless one of `units` follows (`five percent`).
    """

    token: str
    units: frozenset[str]

    def touches(self, words: Iterable[str]) -> bool:
        return any(map(_starts_number, words))

    def __call__(self, words: list[str]) -> list[str]:
        if not self.touches(words):
            return words
        mapped: list[str] = []
        at = 0
        while at < len(words):
            end = _number_end(words, at)
            follows = words[end] if end < len(words) else ""
            if end == at or (end == at + 1 and words[at] in SMALL and follows not in self.units):
                mapped.append(words[at])
                at += 1
            else:
                mapped.append(self.token)
                at = end
        return mapped


@lru_cache(WORDS_REMEMBERED)
def _starts_number(word: str) -> bool:
    return word in SMALL or word in LARGE or DIGITS.fullmatch(word) is not None or _is_hyphenated(word)


def _is_hyphenated(word: str) -> bool:
    tens, dash, unit = word.partition("-")
    return bool(dash) and tens in LARGE and unit in SMALL


def _number_end(words: list[str], start: int) -> int:
    """Where the number that starts here ends; `start` itself if none does."""
    if not _starts_number(words[start]):
        return start
    end = start + 1
    while end < len(words):
        if _starts_number(words[end]) or words[end] in WITHIN:
            end += 1
        elif words[end] == "and" and words[end - 1] in WITHIN and end + 1 < len(words) and _starts_number(words[end + 1]):
            end += 2  # `one hundred and five`
        else:
            break
    return end - 1 if words[end - 1] in {"point", "oh"} else end  # `the one point he made`


DOLLAR = frozenset({"dollar", "dollars"})


@dataclass(frozen=True)
class Dollars:
    """Amounts as printed: `N million dollars` -> `$ N million`. Works on what `Numbers` left."""

    token: str
    multiples: frozenset[str]

    def touches(self, words: Iterable[str]) -> bool:
        return not DOLLAR.isdisjoint(words)

    def __call__(self, words: list[str]) -> list[str]:
        if not self.touches(words):
            return words
        mapped: list[str] = []
        for word in words:
            amount = self._amount(mapped) if word in DOLLAR else None
            if amount is None:
                mapped.append(word)
            else:
                mapped.insert(amount, "$")
        return mapped

    def _amount(self, words: list[str]) -> int | None:
        """Where the amount starts that these words end in; None if they end in none."""
        start = len(words)
        while start and words[start - 1] in self.multiples:
            start -= 1
        return start - 1 if start and words[start - 1] == self.token else None


MULTIPLES = frozenset({"million", "billion", "trillion"})
PTB_NUMBER = "N"
PTB_ABBREVIATIONS = (
    ("and company", "& co."),
    ("cannot", "can not"),
    ("corporation", "corp."),
    ("corporation's", "corp. 's"),
    ("doctor", "dr."),
    ("incorporated", "inc."),
    ("incorporated's", "inc. 's"),
    ("mister", "mr."),
    ("per cent", "percent"),
    ("representative", "rep."),
    ("senator", "sen."),
)
PTB_DOTTED = frozenset(
    {"u.s.", "u.k.", "n.j.", "s.a.", "p.m.", "n.y.", "a.m.", "d.c.", "n.v.", "n.c.", "u.s.s.r.", "u.n.", "u.s.a.", "s.c."}
    | {"n.m.", "n.h.", "r.i.", "l.a."}
)

PENN_TREEBANK: TextMapping = (
    LowerCase(),
    Table(PTB_ABBREVIATIONS),
    Clitics(),
    Initials(PTB_DOTTED),
    Numbers(PTB_NUMBER, MULTIPLES | {"percent", "dollars", "dollar", "cents"}),
    Dollars(PTB_NUMBER, MULTIPLES),
    Table((("percent", PTB_NUMBER),)),
)
"""Recognised text with spelled-out numbers as the 10,000-word Penn Treebank prints it: `up five percent` -> `up N N`."""

STEPS: dict[str, TextMapping] = {
    "none": (),
    "ptb": PENN_TREEBANK,
    "lower": (LowerCase(),),
    "clitics": (Clitics(),),
    "initials": (Initials(PTB_DOTTED),),
    "numbers": (Numbers(PTB_NUMBER, MULTIPLES | {"percent"}),),
    "dollars": (Dollars(PTB_NUMBER, MULTIPLES),),
}


def parse_mapping(names: str) -> TextMapping:
    """A mapping by name, as a recipe or flag gives it: `ptb`, `lower,clitics`, `table=words.tsv,lower`."""
    mapping: TextMapping = ()
    for name in names.split(","):
        if name.startswith("table="):
            mapping += (Table.from_file(name.removeprefix("table=")),)
        elif name in STEPS:
            mapping += STEPS[name]
        else:
            raise InputError(f"text mapping: {name!r} is not a step; choose from {', '.join(STEPS)}, table=FILE")
    return mapping
