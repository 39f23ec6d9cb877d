"""`trf wer`: word error rate with counts, interval and tests."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from trflm.errors import InputError
from trflm.ranges import Amount, Count, Seed

if TYPE_CHECKING:
    from trflm.evaluation.changed import Change
    from trflm.evaluation.figures import Figures
    from trflm.evaluation.significance import Comparison


def wer(
    hyp: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="HYP")],
    ref: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="REF")],
    *,
    against: Path | None = None,
    form: Annotated[Literal["auto", "kaldi", "trn", "plain"], tyro.conf.arg(name="format")] = "auto",
    unit: Literal["word", "char"] = "word",
    align: bool = False,
    changes: Amount = 0,
    seed: Seed = 0,
    resamples: Count = 10_000,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
    quiet: bool = False,
) -> None:
    """Word error rate of recognised text: counts, bootstrap interval and, against another system, paired tests.

    Args:
        hyp: Recognised text.
        ref: What was said.
        against: Another system's text; the tests tell whether HYP is better than it.
        form: kaldi: lines `UTT word ...`; trn (sclite): lines `word ... (UTT)`; plain: the n-th lines belong together.
            auto looks at the files and says what it found; what cannot be told for certain is asked for.
        unit: char counts characters, blanks left out: the character error rate.
        align: Also print each utterance with errors laid along its reference.
        changes: With --against, show the words that decided in this many of the most and least improved utterances.
        seed: Of the bootstrap.
        resamples: Of the bootstrap.
        as_json: Print JSON instead of a table.
        quiet: Print results only.
    """
    from trflm.evaluation.changed import changed_utterances
    from trflm.evaluation.figures import figures
    from trflm.evaluation.layout import laid_out, pairs
    from trflm.evaluation.significance import compare
    from trflm.evaluation.transcript_formats import as_characters, read_alike
    from trflm.evaluation.wer import word_error_rate
    from trflm.files.records import to_record

    if changes and against is None:
        raise InputError("--changes needs --against OTHER_HYP to compare with")
    read, found_form = read_alike([hyp, ref, *([against] if against is not None else [])], form)
    if form == "auto" and not quiet:
        print(f"trf: read as {found_form} ({EXAMPLES[found_form]}); give --format if that is wrong", file=sys.stderr)
    if unit == "char":
        read = [as_characters(some) for some in read]
    ours = word_error_rate(read[0], read[1], str(hyp), str(ref))
    our_figures = figures(ours, seed, resamples)
    record = {"hyp": str(hyp), "ref": str(ref), "format": found_form, "unit": unit, **to_record(our_figures)}
    lines = [rate_line(str(hyp), our_figures, unit)]
    if against is not None:
        theirs = word_error_rate(read[2], read[1], str(against), str(ref))
        their_figures = figures(theirs, seed, resamples)
        comparison, found = compare(theirs, ours, seed, resamples), changed_utterances(theirs, ours)
        record["against"] = {"hyp": str(against), **to_record(their_figures)}
        record |= {"comparison": to_record(comparison), "changed": to_record(found)}
        lines += [rate_line(str(against), their_figures, unit), comparison_line(comparison), *change_lines(found, changes)]
    if align:
        record["alignments"] = dict(zip(ours.utterances, map(pairs, ours.alignments), strict=True))
        lines += ["", *laid_out(ours)]
    print(json.dumps(record, indent=2) if as_json else "\n".join(lines))


EXAMPLES = {
    "kaldi": "lines `UTT word ...`",
    "trn": "lines `word ... (UTT)`",
    "plain": "line by line",
    "kaldi and trn": "lines `UTT word ...` and `word ... (UTT)`",
}


def rate_line(name: str, of: "Figures", unit: str = "word") -> str:
    from trflm.evaluation.significance import FEWEST

    rate, words = ("WER", "words") if unit == "word" else ("CER", "characters")
    enough = of.utterances >= FEWEST
    interval = f" [{of.interval.low:.2%}, {of.interval.high:.2%}]" if enough else " (too few utterances for an interval)"
    return (
        f"{name}: {rate} {of.wer:.2%}{interval}"
        f"  {of.errors} / {of.words} {words}"
        f"  S {of.substitutions} D {of.deletions} I {of.insertions}"
        f"  {of.utterances} utterances, {of.sentence_error_rate:.1%} with errors"
    )


def comparison_line(comparison: "Comparison") -> str:
    """The difference, and the tests that have enough to go by."""
    interval = comparison.interval
    line = f"difference {comparison.difference:+.2%}"
    if comparison.p_bootstrap is not None:
        line += f" [{interval.low:+.2%}, {interval.high:+.2%}]  paired bootstrap {_p(comparison.p_bootstrap)}"
    else:
        line += "  too few utterances for a bootstrap test"
    if comparison.p_matched_pairs is not None:
        return (
            f"{line}  matched pairs z = {comparison.z:+.2f}, {_p(comparison.p_matched_pairs)} ({comparison.segments} segments)"
        )
    return f"{line}, too few segments with errors for a matched-pairs test ({comparison.segments})"


def _p(value: float) -> str:
    return f"p = {value:.4f}" if value >= 0.0001 else "p < 0.0001"


def change_lines(found: "Sequence[Change]", count: int) -> list[str]:
    """The words that decided, in the most improved utterances and the worst harmed."""
    from trflm.evaluation.changed import NOTHING, decisive_words

    if not count:
        return []
    better, worse = [c for c in found if c.gain > 0], [c for c in found if c.gain < 0]
    lines = [f"{len(better)} utterances better, {len(worse)} worse, {len(found) - len(better) - len(worse)} only different"]
    for title, some in [("better", better[:count]), ("worse", worse[::-1][:count])]:
        for change in some:
            lines.append(f"{title}: {change.utterance}  {change.errors_a} -> {change.errors_b} errors")
            for part in change.differences:
                said, before, after = (text or NOTHING for text in (part.reference, part.a, part.b))
                lines.append(f"    said: {said} | before: {before} | now: {after}")
    repaired, broken = decisive_words(found)
    for title, words in [("words repaired", repaired), ("words broken", broken)]:
        lines.append(f"{title}: " + (", ".join(f"{word} {times}" for word, times in words.most_common(count)) or NOTHING))
    return lines
