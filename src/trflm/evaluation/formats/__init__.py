"""N-best lists in and out: one file a format, and the one place that tells formats apart by name."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from trflm.errors import InputError
from trflm.evaluation.formats.espnet import read_json, write_espnet, write_mlm
from trflm.evaluation.formats.jsonl import read_jsonl, write_jsonl
from trflm.evaluation.formats.kaldi import read_kaldi, write_kaldi
from trflm.evaluation.formats.srilm import read_srilm, write_srilm
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


def read_lists(
    path: Path | str, scores: Mapping[str, Path | str], costs: Iterable[str] = (), report: Report = refuse
) -> Iterator[NBestList]:
    """The lists of a file, one utterance at a time: a directory is SRILM, `.jsonl` JSON Lines, `.json` ESPnet or
    mlm-scoring, anything else a Kaldi archive with its score files `scores`. `costs` names the scores that are costs.
    """
    suffix = Path(str(path).removesuffix(".gz")).suffix
    if Path(path).is_dir():
        reader = read_srilm
    elif suffix == ".jsonl":
        reader = read_jsonl
    elif suffix == ".json":
        reader = read_json
    else:
        reader = None
    if reader is not None and scores:
        raise InputError(f"{path}: this format has its scores inside; leave out {', '.join(map(str, scores.values()))}")
    lists = read_kaldi(path, scores, report) if reader is None else reader(path, report)
    names = tuple(costs)
    return (nbest.negated(names) for nbest in lists) if names else lists


def read_nbest(
    path: Path | str,
    acoustic: Path | str | None = None,
    *,
    acoustic_is_cost: bool = False,
    scores: Mapping[str, Path | str] | None = None,
    costs: Iterable[str] = (),
) -> NBest:
    """All lists of a file in memory: `read_nbest("nbest.txt", acoustic="ac.txt")`."""
    files = {} if acoustic is None else {ACOUSTIC: acoustic}
    negated = [ACOUSTIC, *costs] if acoustic_is_cost else costs
    return NBest.collect(read_lists(path, {**files, **(scores or {})}, negated))
