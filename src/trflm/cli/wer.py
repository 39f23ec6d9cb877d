"""`trf wer`: word error rate with counts, interval and tests."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from trflm.errors import InputError

if TYPE_CHECKING:
    from trflm.evaluation.changes import Change
    from trflm.evaluation.wer import WordErrors


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
    from trflm.evaluation.changes import changes as all_changes
    from trflm.evaluation.significance import compare
    from trflm.evaluation.transcripts import read_transcripts
    from trflm.evaluation.wer import word_error_rate

    if resamples < 1:
        raise InputError(f"--resamples {resamples}: give at least 1")
    if changes and against is None:
        raise InputError("--changes needs --against OTHER_HYP to compare with")
    references = read_transcripts(ref)
    ours = word_error_rate(read_transcripts(hyp), references, str(hyp), str(ref))
    record = {"hyp": str(hyp), "ref": str(ref), **figures(ours, seed, resamples)}
    lines = [rate_line(str(hyp), record)]
    if against is not None:
        theirs = word_error_rate(read_transcripts(against), references, str(against), str(ref))
        other = figures(theirs, seed, resamples)
        comparison = asdict(compare(theirs, ours, seed, resamples))
        found = all_changes(theirs, ours)
        record |= {"against": {"hyp": str(against), **other}, "comparison": comparison, "changed": [asdict(c) for c in found]}
        lines += [rate_line(str(against), other), comparison_line(comparison), *change_lines(found, changes)]
    print(json.dumps(record, indent=2) if as_json else "\n".join(lines))


def figures(errors: "WordErrors", seed: int = 0, resamples: int = 10_000) -> dict[str, Any]:
    """Counts, rate and interval as JSON holds them."""
    from trflm.evaluation.significance import bootstrap_interval

    return {**errors.summary(), "interval": asdict(bootstrap_interval(errors, seed, resamples))}


def rate_line(name: str, record: dict[str, Any]) -> str:
    interval = record["interval"]
    return (
        f"{name}: WER {record['wer']:.2%} [{interval['low']:.2%}, {interval['high']:.2%}]"
        f"  {record['errors']} / {record['words']} words"
        f"  S {record['substitutions']} D {record['deletions']} I {record['insertions']}"
        f"  {record['utterances']} utterances, {record['sentence_error_rate']:.1%} with errors"
    )


def comparison_line(comparison: dict[str, Any]) -> str:
    interval = comparison["interval"]
    return (
        f"difference {comparison['difference']:+.2%} [{interval['low']:+.2%}, {interval['high']:+.2%}]"
        f"  paired bootstrap {_p(comparison['p_bootstrap'])}"
        f"  matched pairs z = {comparison['z']:+.2f}, {_p(comparison['p_matched_pairs'])}"
        f" ({comparison['segments']} segments)"
    )


def _p(value: float) -> str:
    return f"p = {value:.4f}" if value >= 0.0001 else "p < 0.0001"


def change_lines(found: "list[Change]", count: int) -> list[str]:
    """The words that decided, in the most improved utterances and the worst harmed."""
    from trflm.evaluation.changes import NOTHING, decisive_words

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
