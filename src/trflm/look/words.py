"""Words, alignments and terms of scores as elements: the same that serve/static/draw.js makes in a browser, where a test holds
one against the other. Whatever is a word is escaped.
"""

import html
import math
from collections.abc import Iterable, Mapping, Sequence

Pair = tuple[str | None, str | None]  # words side by side; None where one side has none

ERRORS = {"S": "substituted", "D": "left out", "I": "put in"}


def signed(value: float, places: int = 2) -> str:
    """With its sign and a true minus."""
    if not math.isfinite(value):
        return "–"
    text = f"{abs(value):.{places}f}"
    return text if float(text) == 0 else ("−" if value < 0 else "+") + text


def plain(value: float, places: int = 2) -> str:
    return signed(value, places).replace("+", "")


def term_classes(lms: Iterable[str]) -> dict[str, str]:
    """name of a term -> class of its colour; the OOV words of a model have its colour, hatched."""
    found = {"acoustic": "t-acoustic", "words": "t-words"}
    for number, name in enumerate(lms):
        found[name] = f"t-lm{number % 5}"
        found[f"{name} OOV words"] = f"t-lm{number % 5} hatched"
    return found


def shades(values: Sequence[float], against: Sequence[float]) -> list[str]:
    """From what each word added to a class from far below (low4) to far above (high4) the mean of `against`."""
    mean = sum(against) / max(len(against), 1)
    spread = max((abs(value - mean) for value in against), default=0.0) or 1.0
    levels = [max(-4, min(4, math.floor(4 * (value - mean) / spread + 0.5))) for value in values]
    return [f"low{-level}" if level < 0 else f"high{level}" if level > 0 else "even" for level in levels]


def word_line(words: Sequence[str], added: Sequence[float], against: Sequence[float]) -> str:
    """A sentence whose words are coloured by what they added, the number under each."""
    items = (
        f'<li class="{shade}" title="{signed(value)} nats"><b>{html.escape(word)}</b><small>{signed(value, 1)}</small></li>'
        for word, value, shade in zip(words, added, shades(added, against), strict=True)
    )
    return f'<ol class="words">{"".join(items)}</ol>'


def side_by_side(pairs: Sequence[Pair], names: tuple[str, str], change: Sequence[float] | None = None) -> str:
    """Two sentences in columns, those that differ marked; `change` is what each column speaks for the second, in nats."""
    items = []
    for number, pair in enumerate(pairs):
        differs = pair[0] != pair[1]
        heard = f'<span class="hidden">{html.escape(_told(pair, names))}</span>' if differs else ""
        cells = "".join(_cell(word, ' aria-hidden="true"' if differs else "") for word in pair)
        under = f'<small title="what the column changes, in nats">{signed(change[number], 1)}</small>' if change else ""
        items.append(f'<li class="{"differs" if differs else ""}">{heard}{cells}{under}</li>')
    label = html.escape(f"{names[0]} above {names[1]}")
    return f'<ol class="columns" aria-label="{label}">{"".join(items)}</ol>'


def error_columns(pairs: Sequence[Pair]) -> str:
    """A hypothesis under its reference: S, D and I stand under the words they are."""
    items = []
    for pair in pairs:
        mark = "" if pair[0] == pair[1] else "I" if pair[0] is None else "D" if pair[1] is None else "S"
        said = f' role="img" aria-label="{ERRORS[mark]}" title="{ERRORS[mark]}"' if mark else ""
        items.append(f'<li class="{"wrong" if mark else ""}">{_cell(pair[0])}{_cell(pair[1])}<small{said}>{mark}</small></li>')
    return f'<ol class="columns errors" aria-label="reference above, hypothesis below">{"".join(items)}</ol>'


def gain_table(gains: Mapping[str, float], classes: Mapping[str, str]) -> str:
    """By how much each term speaks for a choice: bars from a middle line."""
    most = max((abs(gain) for gain in gains.values()), default=0.0) or 1e-9
    rows = "".join(
        f'<tr><th scope="row">{_swatch(classes.get(term))}{html.escape(term)}</th><td class="number">{signed(gain)}</td>'
        f'<td class="gain"><div class="balance {"against" if gain < 0 else "for"}" aria-hidden="true">'
        f'<i style="width: {50 * abs(gain) / most:.4g}%;"></i></div></td></tr>'
        for term, gain in gains.items()
    )
    total = f'<tr class="total"><th scope="row">score</th><td class="number">{signed(sum(gains.values()))}</td><td></td></tr>'
    head = (
        '<thead><tr><th scope="col">term, in nats</th><th scope="col" class="number">gained</th>'
        '<th scope="col"><span class="hidden">gained as a bar</span></th></tr></thead>'
    )
    return f'<div class="scroll"><table class="terms">{head}<tbody>{rows}{total}</tbody></table></div>'


def _cell(word: str | None, more: str = "") -> str:
    return f'<span class="{"nothing" if word is None else ""}"{more}>{"∅" if word is None else html.escape(word)}</span>'


def _swatch(kind: str | None) -> str:
    return f'<i class="swatch {kind}"></i>' if kind else ""


def _told(pair: Pair, names: tuple[str, str]) -> str:
    a, b = pair
    return f"{names[1]} adds {b}" if a is None else f"{names[1]} leaves out {a}" if b is None else f"{a} becomes {b}"
