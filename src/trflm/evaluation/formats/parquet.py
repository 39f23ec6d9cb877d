"""Parquet: one n-best list a row (`rows`), read bit by bit. Written with the columns of our JSON Lines:

utterance: string, reference: string, hypotheses: list<struct<text: string, scores: struct<NAME: double, ...>>>
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import Any

from trflm.errors import InputError
from trflm.evaluation.formats.format import Format, Opening, scores_inside
from trflm.evaluation.formats.rows import list_of_row
from trflm.evaluation.formats.seen import Seen
from trflm.evaluation.nbest import Finding, Kind, NBestList, Report, refuse
from trflm.files.reader import open_binary
from trflm.files.writer import replacing

MAGIC = "PAR1"
AT_ONCE = 256  # lists read, or written as one group


def read_parquet(path: Path | str, report: Report = refuse, fields: Mapping[str, str] | None = None) -> Iterator[NBestList]:
    """The lists in order."""
    if str(path) == "-" or str(path).endswith(".gz"):
        raise InputError(f"{path}: Parquet is read from its end; give a file that is not packed")
    arrow, parquet = _pyarrow(path)
    seen, number = Seen(), 0
    with open_binary(path) as file:
        try:
            for batch in parquet.ParquetFile(file).iter_batches(AT_ONCE):
                for row in batch.to_pylist():
                    number += 1
                    where = f"{path}: row {number}"
                    nbest = list_of_row(where, row, report, fields)
                    if nbest is None:
                        continue
                    if (first := seen.line_of(nbest.utterance)) is not None:
                        problem = f'utterance "{nbest.utterance}" was already in row {first}; remove one'
                        report(Finding(Kind.DUPLICATE, where, problem))
                        continue
                    seen.add(nbest.utterance, number)
                    yield nbest
        except (arrow.ArrowException, OSError) as error:
            raise InputError(f"{path}: the file is damaged or is not Parquet: {error}") from error


def write_parquet(lists: Iterable[NBestList], path: Path) -> None:
    """What `read_parquet` reads back the same. All lists have the scores of the first."""
    arrow, parquet = _pyarrow(path)
    lists = iter(lists)
    first = next(lists, None)
    names = [] if first is None else list(first.scores)
    hypothesis = {"text": arrow.string(), "scores": arrow.struct({name: arrow.float64() for name in names})}
    schema = arrow.schema(
        {"utterance": arrow.string(), "reference": arrow.string(), "hypotheses": arrow.list_(arrow.struct(hypothesis))}
    )
    every = _with_scores(chain([] if first is None else [first], lists), names)
    with replacing(path) as file, parquet.ParquetWriter(file, schema) as writer:
        while some := [nbest.to_record() for nbest in islice(every, AT_ONCE)]:
            writer.write_table(arrow.Table.from_pylist(some, schema))


def _with_scores(lists: Iterable[NBestList], names: list[str]) -> Iterator[NBestList]:
    for nbest in lists:
        if nbest.scores.keys() != set(names):
            own, first = ", ".join(nbest.scores) or "none", ", ".join(names) or "none"
            raise InputError(
                f'utterance "{nbest.utterance}" has the scores {own}, the first list {first}: a table has one set of them; '
                "write jsonl, which takes any"
            )
        yield nbest


def _pyarrow(path: Path | str) -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise InputError(f"{path}: Parquet needs pyarrow: pip install 'trflm[ray]', or convert to JSON Lines") from error
    return pyarrow, pyarrow.parquet


def _looks(opening: Opening) -> bool:
    return opening.text.startswith(MAGIC)


PARQUET = Format("parquet", _looks, scores_inside(read_parquet), write_parquet, read_with=read_parquet)
