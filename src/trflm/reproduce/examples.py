"""Utterances that a second pass repaired, and some that it broke, with the words that decided."""

import html

from trflm.evaluation.alignment import align
from trflm.reproduce.record import Example, Results, WordScores

BETTER, WORSE = 4, 2
TALLEST = 44  # pixels


def examples(results: Results) -> str:
    """From the best of the single models."""
    rows = [row for row in results.models if row.changed]
    if not rows:
        return ""
    row = min(rows, key=lambda row: row.wer.wer)
    better = [change for change in row.changed if change.gain > 0]
    worse = [change for change in row.changed if change.gain < 0][::-1]
    picked = [*better[:BETTER], *worse[:WORSE]]
    cards = "".join(card(change, row.label) for change in picked)
    words = "Bars: what the model gives each word where the two differ; the taller, the likelier it finds it there."
    return (
        f"<h2>Which words decided</h2><p class='note'>{html.escape(row.label)} against the recogniser's own first choice: "
        f"the most improved utterances, then the worst harmed. {words}</p>{cards}"
    )


def card(change: Example, label: str) -> str:
    gains = ", ".join(f"{html.escape(term)} {gain:+.1f}" for term, gain in change.score_gains.items() if abs(gain) >= 0.05)
    return (
        f"<div class='card'><h3>{change.errors_a} &rarr; {change.errors_b} errors "
        f"<span class='note'>{html.escape(change.utterance)}; nats gained: {gains}</span></h3>"
        f"<div class='said'><span class='who'>said</span>{html.escape(change.reference)}</div>"
        f"<div><span class='who'>before</span>{marked(change.reference, change.before)}</div>"
        f"<div><span class='who'>now</span>{marked(change.reference, change.now)}</div>"
        f"{why(change)}</div>"
    )


def marked(reference: str, hypothesis: str) -> str:
    """The hypothesis with its wrong words marked."""
    alignment = align(reference, hypothesis)
    parts: list[str] = []
    for place in range(len(alignment.reference) + 1):
        parts += [f"<span class='wrong'>{html.escape(word)}</span>" for word in alignment.inserted[place]]
        if place == len(alignment.reference):
            break
        word = alignment.heard[place]
        if word is None:
            parts.append("<span class='wrong'>&#9251;</span>")
        elif word == alignment.reference[place]:
            parts.append(html.escape(word))
        else:
            parts.append(f"<span class='wrong'>{html.escape(word)}</span>")
    return " ".join(parts)


def why(change: Example) -> str:
    """What the model gave each word, before and now: the stretch in which the two hypotheses differ, a word either side."""
    if change.words is None:
        return ""
    before, now = change.words
    head = 0
    while head < min(len(before), len(now)) and before[head][0] == now[head][0]:
        head += 1
    tail = 0
    while tail < min(len(before), len(now)) - head and before[-1 - tail][0] == now[-1 - tail][0]:
        tail += 1
    first = max(head - 1, 0)
    stretches = [before[first : len(before) - max(tail - 1, 0)], now[first : len(now) - max(tail - 1, 0)]]
    values = [value for stretch in stretches for _, value in stretch]
    low, high = min(values), max(values)

    def tall(value: float) -> float:
        return 4 + TALLEST * (value - low) / ((high - low) or 1)

    def drawn(stretch: WordScores, who: str, colour: str) -> str:
        bars = "".join(
            f"<div class='word' title='{value:+.2f} nats'><i style='height:{tall(value):.0f}px;background:var({colour})'></i>"
            f"<span>{html.escape(word)}</span></div>"
            for word, value in stretch
        )
        return f"<div class='why'><span class='who'>{who}</span>{bars}</div>"

    return drawn(stretches[0], "before", "--bad") + drawn(stretches[1], "now", "--good")
