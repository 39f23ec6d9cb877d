"""Utterances that a second pass repaired, and some that it broke, with the words that decided."""

import html
from collections.abc import Iterable

from trflm.evaluation.alignment import align
from trflm.evaluation.layout import pairs
from trflm.look.page import section
from trflm.look.words import error_columns, gain_table, side_by_side, term_classes, word_line
from trflm.reproduce.record import Example, Results

BETTER, WORSE = 4, 2


def examples(results: Results) -> str:
    """From the best of the single models."""
    rows = [row for row in results.models if row.changed]
    if not rows:
        return ""
    row = min(rows, key=lambda row: row.wer.wer)
    better = [change for change in row.changed if change.gain > 0]
    worse = [change for change in row.changed if change.gain < 0][::-1]
    note = (
        f"{row.label} against the recogniser's own first choice: the most improved utterances, then the worst harmed. Words "
        "are coloured by what the model gives them: red and underlined below the mean, green above it. Numbers are nats."
    )
    picked = (card(change, row.weights.lms) for change in (*better[:BETTER], *worse[:WORSE]))
    return section("Which words decided", *picked, note=note)


def card(change: Example, lms: Iterable[str]) -> str:
    kind = "good" if change.gain > 0 else "bad"
    heard = "".join(
        f'<h4 class="note">said above, {who} below</h4>{error_columns(pairs(align(change.reference, text)))}'
        for who, text in (("before", change.before), ("now", change.now))
    )
    gains = {term: gain for term, gain in change.score_gains.items() if abs(gain) >= 0.005}
    return (
        f'<article class="card"><h3><span class="{kind}">{change.errors_a} → {change.errors_b} errors</span> '
        f'<span class="note">{html.escape(change.utterance)}</span></h3>{heard}{why(change)}'
        f"{gain_table(gains, term_classes(lms))}</article>"
    )


def why(change: Example) -> str:
    """The two hypotheses as the model saw them, and what it gave each word."""
    if change.words is None:
        return ""
    before, now = ([word for word, _ in of] for of in change.words)
    worth = [[value for _, value in of] for of in change.words]
    aligned = pairs(align(" ".join(before), " ".join(now)))
    lines = "".join(
        f'<div class="heard"><span class="who">{who}</span>{word_line(words, added, [*worth[0], *worth[1]])}</div>'
        for who, words, added in (("before", before, worth[0]), ("now", now, worth[1]))
    )
    return (
        f'<h4 class="note">where they differ, and by how much each place speaks for the new one</h4>'
        f"{side_by_side(aligned, ('before', 'now'), _changes(aligned, *worth))}"
        f'<h4 class="note">what the model gives each word</h4>{lines}'
    )


def _changes(aligned: list[tuple[str | None, str | None]], before: list[float], now: list[float]) -> list[float]:
    """What each column adds, more now than before."""
    a, b = iter(before), iter(now)
    return [(0.0 if new is None else next(b)) - (0.0 if old is None else next(a)) for old, new in aligned]
