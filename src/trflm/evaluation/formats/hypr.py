"""HypR and the like: one JSON array with an object for each utterance (its fields: `named`)."""

from collections.abc import Iterator, Mapping
from pathlib import Path

from trflm.evaluation.formats.format import Format, read_only, scores_inside
from trflm.evaluation.formats.named import read_record
from trflm.evaluation.formats.records import elements
from trflm.evaluation.formats.seen import Seen
from trflm.evaluation.nbest import Finding, Kind, NBestList, Report, refuse


def read_hypr(path: Path | str, report: Report = refuse, fields: Mapping[str, str] | None = None) -> Iterator[NBestList]:
    """The lists in order."""
    seen = Seen()
    for line, value in elements(path):
        nbest = read_record(f"{path}:{line}", value, fields or {}, report)
        if nbest is None:
            continue
        if (before := seen.line_of(nbest.utterance)) is not None:
            problem = f'utterance "{nbest.utterance}" was already on line {before}; remove one'
            report(Finding(Kind.DUPLICATE, f"{path}:{line}", problem))
            continue
        seen.add(nbest.utterance, line)
        yield nbest


HYPR = Format("hypr", lambda opening: opening.first.startswith("["), scores_inside(read_hypr), read_only, read_with=read_hypr)
