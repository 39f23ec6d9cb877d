"""N-best lists in and out. A new format is a file with its `Format`, and a line here."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from trflm.errors import InputError
from trflm.evaluation.formats.espnet import ESPNET, MLM, read_json, write_espnet, write_mlm
from trflm.evaluation.formats.espnet2 import ESPNET2
from trflm.evaluation.formats.format import Format, Opening
from trflm.evaluation.formats.hypr import HYPR
from trflm.evaluation.formats.jsonl import JSONL, read_jsonl, write_jsonl
from trflm.evaluation.formats.kaldi import KALDI, read_kaldi, write_kaldi
from trflm.evaluation.formats.named import with_acoustic
from trflm.evaluation.formats.nemo import NEMO
from trflm.evaluation.formats.parquet import PARQUET
from trflm.evaluation.formats.srilm import SRILM, read_srilm, write_srilm
from trflm.evaluation.nbest import ACOUSTIC, NBest, NBestList, Report, refuse

__all__ = [
    "read_json",
    "read_jsonl",
    "read_kaldi",
    "read_lists",
    "read_nbest",
    "read_srilm",
    "write_espnet",
    "write_jsonl",
    "write_kaldi",
    "write_mlm",
    "write_srilm",
]

AUTO = "auto"
FORMATS = (  # the first that matches the content reads it
    PARQUET,
    ESPNET2,
    SRILM,
    NEMO,
    HYPR,
    ESPNET,
    MLM,
    JSONL,
    KALDI,
)


def format_of(path: Path | str) -> Format:
    """The format that the content of a file or directory looks like."""
    opening = Opening.of(path)
    return next(known for known in FORMATS if known.matches(opening))


def format_named(name: str) -> Format:
    """The format of this name, or InputError."""
    for known in FORMATS:
        if known.name == name:
            return known
    raise InputError(f"{name!r} is not a format of n-best lists; give one of {', '.join(sorted(f.name for f in FORMATS))}")


def read_lists(
    path: Path | str,
    scores: Mapping[str, Path | str],
    costs: Iterable[str] = (),
    report: Report = refuse,
    format: str = AUTO,
    fields: Mapping[str, str] | None = None,
) -> Iterator[NBestList]:
    """The lists of a file, one utterance at a time, in the format of this name or, by default, in the one that its content
    looks like. `scores` are the score files of a Kaldi archive, `costs` names the scores that are costs.
    """
    found = format_of(path) if format == AUTO else format_named(format)
    if scores and not found.score_files:
        raise InputError(f"{path}: this format has its scores inside; leave out {', '.join(map(str, scores.values()))}")
    fields = dict(fields or {})
    acoustic = fields.get(ACOUSTIC)
    if set(fields) - {ACOUSTIC} and found.read_with is None:
        raise InputError(f"{path}: lists of the format {found.name} have no fields to name; leave out --field")
    lists = found.read_with(path, report, fields) if found.read_with and fields else found.read(path, scores, report)
    if acoustic is not None:
        lists = (_renamed(nbest, acoustic) for nbest in lists)
    names = tuple(costs)
    return (nbest.negated(names) for nbest in lists) if names else lists


def _renamed(nbest: NBestList, acoustic: str) -> NBestList:
    if acoustic not in nbest.scores and ACOUSTIC not in nbest.scores:
        known = ", ".join(nbest.scores) or "none"
        raise InputError(f'utterance "{nbest.utterance}" has no score {acoustic!r}; it has {known}')
    return with_acoustic(nbest, acoustic)


def read_nbest(
    path: Path | str,
    acoustic: Path | str | None = None,
    *,
    acoustic_is_cost: bool = False,
    scores: Mapping[str, Path | str] | None = None,
    costs: Iterable[str] = (),
    format: str = AUTO,
    fields: Mapping[str, str] | None = None,
) -> NBest:
    """All lists of a file in memory: `read_nbest("nbest.txt", acoustic="ac.txt")`.

    Args:
        path: N-best lists; .gz is unpacked.
        acoustic: The file of acoustic scores of a Kaldi archive: natural logs, higher is better.
        acoustic_is_cost: The acoustic scores are costs: lower is better.
        scores: Further score files of a Kaldi archive, by the name each gets.
        costs: Names of further scores that are costs.
        format: kaldi, srilm, jsonl, parquet, espnet, espnet2, mlm, nemo, hypr; auto looks at the content.
        fields: Names of fields in JSON: {"utterance": "utt_id", "acoustic": "am_score"}.
    """
    files = {} if acoustic is None else {ACOUSTIC: acoustic}
    negated = [ACOUSTIC, *costs] if acoustic_is_cost else costs
    return NBest.collect(read_lists(path, {**files, **(scores or {})}, negated, refuse, format, fields))
