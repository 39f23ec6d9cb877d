"""What a second pass did to a set of lists: word errors, which utterances changed, and which terms of the score decided."""

import html
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from trflm.deploy.finish import RESULT
from trflm.errors import InputError
from trflm.evaluation.alignment import align
from trflm.evaluation.changed import decisive_words
from trflm.evaluation.layout import pairs
from trflm.evaluation.second_pass.results import FIRST, MARK, ORACLE, RESCORED, WITHOUT_LM, Decision, SecondPassResult
from trflm.files.parse import parse_json
from trflm.files.reader import read_whole
from trflm.files.records import from_record, to_record
from trflm.look.charts import rate_bars
from trflm.look.page import figures, heading, page, section, settings, table
from trflm.look.words import error_columns, gain_table, signed, term_classes

MOST = 25  # utterances that are shown of each kind
OPEN = 3  # of which so many are open at first
MOST_WORDS = 12


def rescored_file(directory: Path) -> Path | None:
    """The result.json of a directory of `trf rescore`, if it is one."""
    return next((file for mark in ("", MARK) if (file := directory / f"{mark}{RESULT}").exists()), None)


def rescored_page(file: Path) -> str:
    try:
        found = from_record(SecondPassResult, parse_json(read_whole(file)))
        name = file.parent.resolve().name
        return page(f"Second pass: {name}", *sections(name, found))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
        raise InputError(f"{file}: damaged or not ours: {error!r}; make it again with trf rescore") from error


def sections(name: str, found: SecondPassResult) -> list[str]:
    lists = found.files.get("nbest")
    about = f"{found.utterances:,} utterances, {found.hypotheses:,} hypotheses"
    about += f" of {lists.path}" if lists else ""
    about += f" · rescorer {found.rescorer[:12]}" if found.rescorer else ""
    parts = [heading(f"Second pass: {name}", about)]
    if found.warning:
        parts.append(f'<p class="bad" role="note">{html.escape(found.warning[:1].upper() + found.warning[1:])}.</p>')
    if found.wer is None:
        parts.append(
            "<p>No references were given, so there are no word errors to show: <code>trf rescore --ref FILE</code>.</p>"
        )
    else:
        parts += [figures(of_rates(found)), section("Word error rate", bars(found), note=compared(found))]
    if found.changed is not None:
        parts += changes(found, found.changed)
    return [
        *parts,
        section("Weights", weights(found)),
        section("Made by", settings("files, weights and counts", summary(found))),
    ]


def of_rates(found: SecondPassResult) -> list[tuple[str, str, str]]:
    assert found.wer is not None
    wanted = {name: found.wer[name] for name in (FIRST, RESCORED, ORACLE) if name in found.wer}
    shown = [
        (
            name,
            f"{100 * of.wer:.2f} %",
            f"{of.errors:,} of {of.words:,} words: S {of.substitutions} · D {of.deletions} · I {of.insertions}",
        )
        for name, of in wanted.items()
    ]
    if len(wanted) == 3 and (possible := wanted[FIRST].errors - wanted[ORACLE].errors) > 0:
        share = (wanted[FIRST].errors - wanted[RESCORED].errors) / possible
        shown.append(
            ("of what the lists allow", f"{100 * share:.0f} %", "errors repaired, of those that a best choice would repair")
        )
    return shown


def bars(found: SecondPassResult) -> str:
    assert found.wer is not None
    kinds = {FIRST: "baseline", WITHOUT_LM: "baseline", RESCORED: "model"}
    rates = [(name, found.wer[name], kind) for name, kind in kinds.items() if name in found.wer]
    return rate_bars(rates, found.wer[ORACLE].wer if ORACLE in found.wer else None) if rates else ""


def compared(found: SecondPassResult) -> str:
    """Whether it is luck."""
    against = found.comparison
    if against is None:
        return ""
    said = f"Rescored against first in the lists: {signed(100 * against.difference)} points"
    said += f", 95 % between {signed(100 * against.interval.low)} and {signed(100 * against.interval.high)}"
    tests = [("bootstrap", against.p_bootstrap), ("matched pairs", against.p_matched_pairs)]
    told = [f"p = {p:.3f} by {name}" if p >= 0.001 else f"p < 0.001 by {name}" for name, p in tests if p is not None]
    return f"{said}; {', '.join(told)}." if told else f"{said}; too few utterances for a p-value. Bars have 95 % intervals."


def changes(found: SecondPassResult, changed: Sequence[Decision]) -> list[str]:
    better = [change for change in changed if change.gain > 0]
    worse = [change for change in changed if change.gain < 0][::-1]
    even = [change for change in changed if change.gain == 0]
    counts = (
        f"In {len(changed):,} of {found.utterances:,} utterances another hypothesis than the first of the list was chosen: "
        f"{len(better):,} have fewer errors, {len(worse):,} more, {len(even):,} as many."
    )
    classes = term_classes(found.weights.lms)
    parts = [
        section("Which terms decided", deciding(changed, classes), note=f"{counts} {TERMS}"),
        section("Which words", words(changed)),
    ]
    for title, some in (("Repaired", better), ("Broken", worse), ("Changed, with as many errors", even)):
        more = f"The {MOST} of the largest change, of {len(some):,}." if len(some) > MOST else ""
        parts.append(section(title, *(card(change, classes, k < OPEN) for k, change in enumerate(some[:MOST])), note=more))
    return parts


TERMS = (
    "A term decided a change if it spoke most for the new choice. Terms that decide many changes for the worse have too large "
    "a weight, or a model that does not fit the text."
)


def deciding(changed: Sequence[Decision], classes: dict[str, str]) -> str:
    """Of each term in how many changes it spoke most for the choice, and how those came out."""
    terms = list(dict.fromkeys(term for change in changed for term in change.score_gains))
    by_term: dict[str, list[Decision]] = {term: [] for term in terms}
    for change in changed:
        if change.score_gains:
            by_term[decisive(change)].append(change)
    rows = []
    for term in terms:
        some, gains = by_term[term], [change.score_gains.get(term, 0.0) for change in changed]
        if not any(gains):
            continue
        counts = [sum(change.gain > 0 for change in some), sum(change.gain < 0 for change in some)]
        saved = sum(change.gain for change in some)
        rows.append([term, f"{len(some):,}", *(f"{n:,}" for n in counts), signed(-saved, 0), signed(sum(gains) / len(gains))])
    head = ["term", "decided", "for the better", "for the worse", "errors more or less", "mean gain over all changes, nats"]
    return table(head, rows, range(1, len(head)), "which terms decided") if rows else ""


def decisive(change: Decision) -> str:
    """The term that spoke most for the choice."""
    return max(change.score_gains, key=lambda term: change.score_gains[term])


def words(changed: Sequence[Decision]) -> str:
    repaired, broken = decisive_words(changed)

    def listed(title: str, counts: Counter[str]) -> str:
        if not counts:
            return ""
        some = ", ".join(f"{html.escape(word)} ({n})" for word, n in counts.most_common(MOST_WORDS))
        return f"<p>{title}: {some}</p>"

    return listed("Right now and not before, most often", repaired) + listed("Right before and not now, most often", broken)


def card(change: Decision, classes: dict[str, str], is_open: bool) -> str:
    """An utterance: both hypotheses under the reference, and by how much each term spoke for the choice."""
    if change.reference is not None:
        shown = "".join(
            f'<h4 class="note">said above, {who} below</h4>{error_columns(pairs(align(change.reference, text or "")))}'
            for who, text in (("first of the list", change.before), ("now", change.now))
        )
    else:  # made before texts were kept
        shown = "".join(
            f"<p>said {html.escape(d.reference) or '∅'}: {html.escape(d.a) or '∅'} → {html.escape(d.b) or '∅'}</p>"
            for d in change.differences
        )
    kind = "good" if change.gain > 0 else "bad" if change.gain < 0 else "soft"
    gains = {term: gain for term, gain in change.score_gains.items() if abs(gain) >= 0.005}
    about = change.utterance + (f" · {decisive(change)} decided" if change.score_gains else "")
    return (
        f'<details class="card"{" open" if is_open else ""}><summary><span class="{kind}">{change.errors_a} → '
        f'{change.errors_b} errors</span> <span class="note">{html.escape(about)}</span></summary>'
        f"{shown}{gain_table(gains, classes)}</details>"
    )


def weights(found: SecondPassResult) -> str:
    rows = [
        [name, f"{factor:.4g}", f"{found.weights.penalty_of(name):.4g}", f"{found.oov_words_per_hypothesis.get(name, 0):.3f}",
         f"{found.oov_types.get(name, 0):,}"]
        for name, factor in zip(found.weights.lms, found.weights.factors, strict=True)
    ]  # fmt: skip
    head = ["model", "factor", "OOV penalty, nats", "unknown words a hypothesis", "distinct unknown words"]
    said = f"Word penalty {found.weights.word_penalty:.4g} nats a word; text mapping {found.mapping}."
    return table(head, rows, range(1, len(head)), "weights") + f'<p class="note">{html.escape(said)}</p>'


def summary(found: SecondPassResult) -> dict[str, object]:
    """All of result.json but what is shown above."""
    record = to_record(found)
    return {key: value for key, value in record.items() if key not in ("changed", "wer")}
