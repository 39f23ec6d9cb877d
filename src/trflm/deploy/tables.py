"""Batches of a table in, the same with results out: a class that Ray Data makes once in each of its workers and then calls.

    lists = ray.data.read_text("s3://bucket/lists/*.jsonl")            # or read_parquet; one n-best list a row
    found = lists.map_batches(trflm.ray.Rescorer, fn_constructor_args=["second-pass"], concurrency=8)
    found.write_parquet("s3://bucket/results")                         # or write_json

Nothing here knows Ray: a batch is a pyarrow.Table, a pandas.DataFrame or a dictionary of numpy arrays.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow
import torch

from trflm.deploy import rescorer
from trflm.deploy.journal import to_line
from trflm.deploy.stream import to_entry
from trflm.errors import InputError
from trflm.evaluation.formats.jsonl import list_of_line
from trflm.evaluation.formats.rows import list_of_row
from trflm.evaluation.nbest import NBestList
from trflm.evaluation.second_pass.one_list import ScoredList

FOUND = {
    "best": pyarrow.string(),
    "order": pyarrow.list_(pyarrow.int64()),
    "score": pyarrow.list_(pyarrow.float64()),
}


class Rescorer:
    """Rescore batches of n-best lists, one list a row; for `ray.data.Dataset.map_batches`.

    A row has the columns `utterance` and `hypotheses` (each a text with its scores) as our Parquet and JSON Lines have them, or
    one column `text`, a line of JSON Lines as `ray.data.read_text` gives it. All its columns are kept, and these are added:

        best     the words of the best hypothesis
        order    the hypotheses, best first; they count from 0, as they were given
        score    the score of each hypothesis, as given; higher is better

    Args:
        directory: What `trf tune --out DIR` wrote, on a disk that every worker sees.
        threads: CPU threads of a worker. Give `map_batches` the same as `num_cpus`.
        sha256: If given, the directory must still be the one that had this hash (`trflm.Rescorer.load(directory).sha256`).
        device: Where networks compute; with "cuda", give `map_batches` num_gpus=1.
    """

    def __init__(self, directory: Path | str, *, threads: int = 1, sha256: str | None = None, device: str = "cpu") -> None:
        torch.set_num_threads(threads)
        self.rescorer = rescorer.Rescorer.load(directory, device=device)
        if sha256 not in (None, self.rescorer.sha256):
            raise InputError(f"{directory}: is another rescorer on this machine than where the job was started; copy it again")

    def __call__(self, batch: Any) -> pyarrow.Table:
        rows = batch.to_pylist() if isinstance(batch, pyarrow.Table) else list(_rows(batch))
        table = batch if isinstance(batch, pyarrow.Table) else pyarrow.Table.from_pylist(rows)
        found = [self._found(scored) for scored in self.scored(rows)]
        for name, kind in FOUND.items():
            if name in table.column_names:
                raise InputError(f"the rows have a column {name!r} already; rename or drop it")
            table = table.append_column(name, pyarrow.array([row[name] for row in found], kind))
        return table

    def scored(self, rows: list[dict[str, Any]]) -> Iterator[ScoredList]:
        """Each list scored by itself, in order."""
        return self.rescorer.rescore(map(self.list_of, rows))

    @staticmethod
    def list_of(row: dict[str, Any]) -> NBestList:
        nbest = list_of_row(f'row of utterance "{row.get("utterance", "?")}"', row)
        assert nbest is not None  # a fault is an InputError
        return nbest

    @staticmethod
    def _found(scored: ScoredList) -> dict[str, Any]:
        return {"best": scored.best, "order": scored.order, "score": scored.score_K.tolist()}


class JournalRescorer(Rescorer):
    """The same for `trf rescore --ray`: rows (number, where, text, said) in, (number, line of the journal) out.

    `text` is a line of JSON Lines, `where` says which; `said` is the reference of a file beside the lists, null where there is
    none; `scores` as in `to_entry`.
    """

    def __init__(self, directory: Path | str, *, threads: int, sha256: str | None, referenced: bool, scores: bool) -> None:
        super().__init__(directory, threads=threads, sha256=sha256)
        self.referenced, self.scores = referenced, scores

    @staticmethod
    def list_of(row: dict[str, Any]) -> NBestList:
        nbest = list_of_line(row["where"], row["text"])
        assert nbest is not None
        return nbest

    def __call__(self, batch: pyarrow.Table) -> pyarrow.Table:
        rows = batch.to_pylist()
        lines = []
        for row, scored in zip(rows, self.scored(rows), strict=True):
            said = {scored.nbest.utterance: row["said"]} if self.referenced and row["said"] is not None else {}
            lines.append(to_line(to_entry(scored, said if self.referenced else None, self.scores)))
        return pyarrow.table({"number": batch["number"], "line": pyarrow.array(lines, pyarrow.string())})


def _rows(batch: Any) -> Iterator[dict[str, Any]]:
    """Of a data frame or a dictionary of columns."""
    names = list(batch)
    for values in zip(*(batch[name] for name in names), strict=True):
        yield dict(zip(names, values, strict=True))
