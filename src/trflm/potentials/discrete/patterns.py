"""Which features a discrete field has: patterns of words (w) and word classes (c), chosen by a short specification.

    w, c        n-grams of orders 1 to 4
    ws, cs      skip n-grams inside a window of four: x_x, x__x, xx_x, x_xx (_ is any word)
    wsh, csh    bigrams with a gap of 3 or of 4 words
    tied        word and class bigrams with one weight for all gaps of 5 to 8 words
    cpw         a word after 1 to 3 classes

as in Wang, Ou and Tan 2017, whose notation for one pattern is kept: `w[2]-[1]w[1]` is two words, a gap of one, a word.
"""

import difflib
from dataclasses import dataclass

from trflm.errors import InputError

MOST_SYMBOLS = 4


@dataclass(frozen=True)
class Pattern:
    """Symbols at fixed places: `symbols[k]` ("w" or "c") stands at `places[k]`, counted from the last one. A tied pattern has
    several lists of places, which share their weights."""

    symbols: str
    gaps: tuple[tuple[int, ...], ...]  # each a list of places, rising, the last 0

    @property
    def order(self) -> int:
        return len(self.symbols)

    @property
    def name(self) -> str:
        """In the authors' notation."""
        text, run, places = "", 1, self.gaps[0]
        for k, symbol in enumerate(self.symbols):
            gap = places[k + 1] - places[k] - 1 if k + 1 < len(places) else -1
            if gap == 0 and self.symbols[k + 1] == symbol:
                run += 1
                continue
            text += f"{symbol}[{run}]"
            run = 1
            if gap > 0:
                most = max(-tied[0] for tied in self.gaps) - 1
                text += f"-[{gap}]" if len(self.gaps) == 1 else f"-[{gap}:{most}]"
        return text


def _ngrams(symbol: str) -> list[Pattern]:
    return [Pattern(symbol * n, (tuple(range(1 - n, 1)),)) for n in range(1, MOST_SYMBOLS + 1)]


def _skips(symbol: str) -> list[Pattern]:
    return [Pattern(symbol * len(places), (places,)) for places in ((-2, 0), (-3, 0), (-3, -2, 0), (-3, -1, 0))]


def _long_skips(symbol: str) -> list[Pattern]:
    return [Pattern(symbol * 2, ((-4, 0),)), Pattern(symbol * 2, ((-5, 0),))]


FAMILIES: dict[str, list[Pattern]] = {
    "w": _ngrams("w"),
    "c": _ngrams("c"),
    "ws": _skips("w"),
    "cs": _skips("c"),
    "wsh": _long_skips("w"),
    "csh": _long_skips("c"),
    "tied": [Pattern(symbol * 2, tuple((-gap - 1, 0) for gap in range(5, 9))) for symbol in "wc"],
    "cpw": [Pattern("c" * n + "w", (tuple(range(-n, 1)),)) for n in range(1, MOST_SYMBOLS)],
}


def parse_features(specification: str) -> tuple[Pattern, ...]:
    """The patterns of "w+c+ws+...", in the order of the specification."""
    patterns: list[Pattern] = []
    for name in (part.strip() for part in specification.split("+")):
        if name not in FAMILIES:
            close = difflib.get_close_matches(name, FAMILIES, n=1, cutoff=0.3)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise InputError(
                f'features = "{specification}": {name!r} is no feature type; join some of {", ".join(FAMILIES)} by +{hint}'
            )
        if any(pattern in patterns for pattern in FAMILIES[name]):
            raise InputError(f'features = "{specification}": {name!r} is there twice; leave one out')
        patterns += FAMILIES[name]
    return tuple(patterns)
