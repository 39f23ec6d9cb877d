"""The fields all n-best formats share: utterance names, words, scores. Each check says what is wrong, or nothing."""

import math
import re

SCORE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")  # also good as a file name


def parse_score(text: str) -> float | None:
    """A finite decimal number, or None: no `nan`, `inf`, digit groups or other scripts' digits, which float() would take."""
    if not text.isascii() or "_" in text:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def clean(text: str) -> str:
    """Words separated by one blank."""
    return " ".join(text.split())


def name_fault(name: str) -> str | None:
    """Why this cannot name an utterance."""
    if name.split() != [name]:
        return f"{name!r} cannot name an utterance; use a name without blanks"
    return encoding_fault(name)


def encoding_fault(text: str) -> str | None:
    """Why this text cannot be written as UTF-8 (half a surrogate pair, which JSON can spell)."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            return f"{text[error.start]!r} is half a character; write the text as plain UTF-8"
    return None
