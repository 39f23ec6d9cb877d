"""Which files a set of lists is in, and how they are read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from trflm.evaluation.formats import AUTO, read_lists
from trflm.evaluation.nbest import NBestList, Report, refuse
from trflm.evaluation.weights import FileContent, content_hash


@dataclass(frozen=True)
class ListFiles:
    """The files of a set of lists."""

    nbest: Path
    scores: Mapping[str, Path] = field(default_factory=dict)  # name -> score file of a Kaldi archive
    costs: tuple[str, ...] = ()  # the scores that are costs
    ref: Path | None = None  # what was said
    format: str = AUTO
    fields: Mapping[str, str] = field(default_factory=dict)  # names of fields in JSON

    @cached_property
    def contents(self) -> dict[str, FileContent]:
        """role (nbest, ref, the name of a score) -> path and hash of the content, empty for stdin. Each is hashed once."""
        files = {"nbest": self.nbest, **self.scores, **({} if self.ref is None else {"ref": self.ref})}
        return {role: FileContent(str(path), "" if str(path) == "-" else content_hash(path)) for role, path in files.items()}

    def read(self, report: Report = refuse) -> Iterator[NBestList]:
        """The lists, one utterance at a time."""
        return read_lists(self.nbest, self.scores, self.costs, report, self.format, self.fields)
