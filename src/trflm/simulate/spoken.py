"""Written English as it is said: lower case, numbers in words, no punctuation; sentences one by one."""

import re
from collections.abc import Iterator

ONES = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = ["zero", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
ORDINAL = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
SENTENCE_END = re.compile(r"(?<=[a-z0-9)\"'][.!?])[\"')]*\s+(?=[\"'(]?[A-Z])")
ABBREVIATION = re.compile(r"(?:\b(?:Mr|Mrs|Dr|St|vs|etc|ca|Jr|Sr|No|e\.g|i\.e|cf|al|approx)|\b[A-Za-z])\.$")
TOKEN = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:st|nd|rd|th|s)?|[^\W\d_]+(?:'[^\W\d_]+)*|[^\s\w]+|\S")
DROPPED = set("\"'()[].,;:!?-–—‘’“”…/")


def sentences(paragraph: str) -> Iterator[str]:
    """The sentences of a paragraph, as written."""
    open_part = ""
    for part in SENTENCE_END.split(paragraph):
        open_part = f"{open_part} {part}".strip()
        if not ABBREVIATION.search(open_part):
            yield open_part
            open_part = ""
    if open_part:
        yield open_part


def spoken(sentence: str) -> list[str] | None:
    """Its words as they are said, or None if it holds something that is not plain English (symbols, formulas)."""
    words: list[str] = []
    for token in TOKEN.findall(sentence.replace("’", "'").replace("%", " percent ").replace("&", " and ")):
        if token[0].isdigit():
            said = say_number(token)
            if said is None:
                return None
            words += said
        elif token[0].isalpha():
            if not token.isascii():
                return None
            words.append(token.lower())
        elif not set(token) <= DROPPED:
            return None
    return words


def say_number(text: str) -> list[str] | None:
    """`1984` nineteen eighty four, `3.5` three point five, `2nd` second, `1990s` nineteen nineties; None if it is too long."""
    digits = re.match(r"[\d,]+", text)
    assert digits is not None
    whole, rest = digits[0].replace(",", ""), text[digits.end() :]
    if len(whole) > 9 or len(rest) > 6:
        return None
    is_year = len(whole) == 4 and "," not in digits[0] and whole[0] in "12" and whole[1:3] != "00"
    said = _year(int(whole)) if is_year else _cardinal(int(whole))
    if rest.startswith("."):
        return [*said, "point", *(ONES[int(digit)] for digit in rest[1:])]
    if rest == "s":
        last = said[-1]
        return [*said[:-1], f"{last[:-1]}ies" if last.endswith("y") else f"{last}s"]
    if rest:
        last = said[-1]
        ordinal = ORDINAL.get(last) or (f"{last[:-1]}ieth" if last.endswith("y") else f"{last}th")
        return [*said[:-1], ordinal]
    return said


def _year(year: int) -> list[str]:
    century, rest = divmod(year, 100)
    if rest == 0:
        return [*_cardinal(century), "hundred"]
    return [*_cardinal(century), *(["oh"] if rest < 10 else []), *_cardinal(rest)]


def _cardinal(number: int) -> list[str]:
    for size, name in ((1_000_000, "million"), (1_000, "thousand"), (100, "hundred")):
        if number >= size:
            many, rest = divmod(number, size)
            return [*_cardinal(many), name, *(_cardinal(rest) if rest else [])]
    if number < 20:
        return [ONES[number]]
    tens, ones = divmod(number, 10)
    return [TENS[tens], *([ONES[ones]] if ones else [])]
