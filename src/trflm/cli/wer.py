"""`trf wer`: word error rate with counts, interval and tests."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from trflm.cli.lists import note
from trflm.errors import InputError

if TYPE_CHECKING:
    from trflm.evaluation.changed import Change
    from trflm.evaluation.figures import Figures
    from trflm.evaluation.significance import Comparison
    from trflm.evaluation.wer import WordErrors


ENOUGH = 20  # utterances, below which no p-value is given
NOTHING = "***"


def wer(
    hyp: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="HYP")],
    ref: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="REF")],
    *,
    against: Path | None = None,
    format: str = "auto",
    unit: Literal["word", "char"] = "word",
    align: bool = False,
    changes: int = 0,
    seed: int = 0,
    resamples: int = 10_000,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Word error rate of recognised text: counts, bootstrap interval and, against another system, paired tests.

    Args:
        hyp: Recognised text.
        ref: What was said.
        format: kaldi (UTT word word ...), trn (word word ... (utt)), plain (line by line); auto: told by the files.
        unit: What is counted: words, or characters (then the rate is a CER).
        align: Print every utterance with errors, word under word.
        against: Another system's text; the tests tell whether HYP is better than it.
        changes: With --against, show the words that decided in this many of the most and least improved utterances.
        seed: Of the bootstrap.
        resamples: Of the bootstrap.
        as_json: Print JSON instead of a table.
    """
    from trflm.evaluation.changed import changed_utterances
    from trflm.evaluation.figures import figures
    from trflm.evaluation.significance import compare
    from trflm.evaluation.told import AUTO, FORMS, in_characters, read_told, tell
    from trflm.evaluation.wer import word_error_rate
    from trflm.files.records import to_record

    if resamples < 1:
        raise InputError(f"--resamples {resamples}: give at least 1")
    if changes and against is None:
        raise InputError("--changes needs --against OTHER_HYP to compare with")
    if format not in FORMS:
        raise InputError(f"--format {format}: give one of {', '.join(FORMS)}")
    files = [ref, hyp, *([] if against is None else [against])]
    form = tell(files) if format == AUTO else format
    if format == AUTO:
        note(f"{hyp}, {ref}: read as {form} (--format says otherwise)")

    def read(path: Path) -> dict[str, str]:
        found = read_told(path, form)
        return in_characters(found) if unit == "char" else found

    references = read(ref)
    ours = word_error_rate(read(hyp), references, str(hyp), str(ref))
    our_figures = figures(ours, seed, resamples)
    record = {"hyp": str(hyp), "ref": str(ref), **to_record(our_figures)}
    rate = "CER" if unit == "char" else "WER"
    lines = [*(alignment_lines(ours) if align else []), rate_line(str(hyp), our_figures, rate)]
    if against is not None:
        theirs = word_error_rate(read(against), references, str(against), str(ref))
        their_figures = figures(theirs, seed, resamples)
        comparison, found = compare(theirs, ours, seed, resamples), changed_utterances(theirs, ours)
        record["against"] = {"hyp": str(against), **to_record(their_figures)}
        record |= {"comparison": to_record(comparison), "changed": to_record(found)}
        if our_figures.utterances < ENOUGH:
            record["comparison"] |= {"p_bootstrap": None, "p_matched_pairs": None}
        lines += [rate_line(str(against), their_figures, rate), comparison_line(comparison, our_figures.utterances)]
        lines += change_lines(found, changes)
    print(json.dumps(record, indent=2) if as_json else "\n".join(lines))


def alignment_lines(errors: "WordErrors") -> list[str]:
    """The utterances with errors: what was said above what was heard, *** where there is nothing."""
    lines: list[str] = []
    for utterance, alignment in zip(errors.utterances, errors.alignments, strict=True):
        pairs: list[tuple[str, str]] = []
        for place in range(len(alignment.reference) + 1):
            pairs += [(NOTHING, word) for word in alignment.inserted[place]]
            if place < len(alignment.reference):
                pairs.append((alignment.reference[place], alignment.heard[place] or NOTHING))
        if any(said != heard for said, heard in pairs):
            widths = [max(len(said), len(heard)) for said, heard in pairs]
            for title, row in [("said ", 0), ("heard", 1)]:
                text = " ".join(pair[row].ljust(width) for pair, width in zip(pairs, widths, strict=True))
                lines.append(f"{utterance} {title} {text}".rstrip())
    return lines


def rate_line(name: str, of: "Figures", rate: str = "WER") -> str:
    return (
        f"{name}: {rate} {of.wer:.2%} [{of.interval.low:.2%}, {of.interval.high:.2%}]"
        f"  {of.errors} / {of.words} words"
        f"  S {of.substitutions} D {of.deletions} I {of.insertions}"
        f"  {of.utterances} utterances, {of.sentence_error_rate:.1%} with errors"
    )


def comparison_line(comparison: "Comparison", utterances: int) -> str:
    interval = comparison.interval
    difference = f"difference {comparison.difference:+.2%} [{interval.low:+.2%}, {interval.high:+.2%}]"
    if utterances < ENOUGH:
        return f"{difference}  no test: {utterances} utterances are too few (at least {ENOUGH})"
    return (
        f"{difference}"
        f"  paired bootstrap {_p(comparison.p_bootstrap)}"
        f"  matched pairs z = {comparison.z:+.2f}, {_p(comparison.p_matched_pairs)}"
        f" ({comparison.segments} segments)"
    )


def _p(value: float) -> str:
    return f"p = {value:.4f}" if value >= 0.0001 else "p < 0.0001"


def change_lines(found: "Sequence[Change]", count: int) -> list[str]:
    """The words that decided, in the most improved utterances and the worst harmed."""
    from trflm.evaluation.changed import NOTHING as NONE
    from trflm.evaluation.changed import decisive_words

    if not count:
        return []
    better, worse = [c for c in found if c.gain > 0], [c for c in found if c.gain < 0]
    lines = [f"{len(better)} utterances better, {len(worse)} worse, {len(found) - len(better) - len(worse)} only different"]
    for title, some in [("better", better[:count]), ("worse", worse[::-1][:count])]:
        for change in some:
            lines.append(f"{title}: {change.utterance}  {change.errors_a} -> {change.errors_b} errors")
            for part in change.differences:
                said, before, after = (text or NONE for text in (part.reference, part.a, part.b))
                lines.append(f"    said: {said} | before: {before} | now: {after}")
    repaired, broken = decisive_words(found)
    for title, words in [("words repaired", repaired), ("words broken", broken)]:
        lines.append(f"{title}: " + (", ".join(f"{word} {times}" for word, times in words.most_common(count)) or NONE))
    return lines
