"""`trf wer`: word error rate with counts, interval and tests."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from trflm.errors import InputError

if TYPE_CHECKING:
    from trflm.evaluation.changed import Change
    from trflm.evaluation.figures import Figures
    from trflm.evaluation.significance import Comparison


def wer(
    hyp: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="HYP")],
    ref: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="REF")],
    *,
    against: Path | None = None,
    changes: int = 0,
    seed: int = 0,
    resamples: int = 10_000,
    as_json: Annotated[bool, tyro.conf.arg(name="json")] = False,
) -> None:
    """Word error rate of recognised text: counts, bootstrap interval and, against another system, paired tests.

    Args:
        hyp: Recognised text, lines `UTT word word ...`.
        ref: What was said, lines `UTT word word ...`.
        against: Another system's text; the tests tell whether HYP is better than it.
        changes: With --against, show the words that decided in this many of the most and least improved utterances.
        seed: Of the bootstrap.
        resamples: Of the bootstrap.
        as_json: Print JSON instead of a table.
    """
    from trflm.evaluation.changed import changed_utterances
    from trflm.evaluation.figures import figures
    from trflm.evaluation.significance import compare
    from trflm.evaluation.transcripts import read_transcripts
    from trflm.evaluation.wer import word_error_rate
    from trflm.files.records import to_record

    if resamples < 1:
        raise InputError(f"--resamples {resamples}: give at least 1")
    if changes and against is None:
        raise InputError("--changes needs --against OTHER_HYP to compare with")
    references = read_transcripts(ref)
    ours = word_error_rate(read_transcripts(hyp), references, str(hyp), str(ref))
    our_figures = figures(ours, seed, resamples)
    record = {"hyp": str(hyp), "ref": str(ref), **to_record(our_figures)}
    lines = [rate_line(str(hyp), our_figures)]
    if against is not None:
        theirs = word_error_rate(read_transcripts(against), references, str(against), str(ref))
        their_figures = figures(theirs, seed, resamples)
        comparison, found = compare(theirs, ours, seed, resamples), changed_utterances(theirs, ours)
        record["against"] = {"hyp": str(against), **to_record(their_figures)}
        record |= {"comparison": to_record(comparison), "changed": to_record(found)}
        lines += [rate_line(str(against), their_figures), comparison_line(comparison), *change_lines(found, changes)]
    print(json.dumps(record, indent=2) if as_json else "\n".join(lines))


def rate_line(name: str, of: "Figures") -> str:
    return (
        f"{name}: WER {of.wer:.2%} [{of.interval.low:.2%}, {of.interval.high:.2%}]"
        f"  {of.errors} / {of.words} words"
        f"  S {of.substitutions} D {of.deletions} I {of.insertions}"
        f"  {of.utterances} utterances, {of.sentence_error_rate:.1%} with errors"
    )


def comparison_line(comparison: "Comparison") -> str:
    interval = comparison.interval
    return (
        f"difference {comparison.difference:+.2%} [{interval.low:+.2%}, {interval.high:+.2%}]"
        f"  paired bootstrap {_p(comparison.p_bootstrap)}"
        f"  matched pairs z = {comparison.z:+.2f}, {_p(comparison.p_matched_pairs)}"
        f" ({comparison.segments} segments)"
    )


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
