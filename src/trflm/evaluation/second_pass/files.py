"""Which files a set of lists is in, and how they are read."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from trflm.evaluation.formats import AUTO, format_of, read_lists
from trflm.evaluation.nbest import NBestList, Report, refuse
from trflm.evaluation.weights import FileContent, content_hash
from trflm.files.remote import is_address


@dataclass(frozen=True)
class ListFiles:
    """The files of a set of lists."""

    nbest: Path | str  # a string is an address such as s3://bucket/lists.jsonl
    scores: Mapping[str, Path | str] = field(default_factory=dict)  # name -> score file of a Kaldi archive
    costs: tuple[str, ...] = ()  # the scores that are costs
    ref: Path | str | None = None  # what was said
    format: str = AUTO
    fields: Mapping[str, str] = field(default_factory=dict)  # names of fields in JSON

    @cached_property
    def contents(self) -> dict[str, FileContent]:
        """role (nbest, ref, the name of a score) -> path and hash of the content, empty for stdin. Each is hashed once."""
        files = {"nbest": self.nbest, **self.scores, **({} if self.ref is None else {"ref": self.ref})}
        return {role: FileContent(str(path), "" if str(path) == "-" else content_hash(path)) for role, path in files.items()}

    def absolute(self) -> "ListFiles":
        """The same for a process with another working directory."""
        full = {path: path if is_address(path) else Path(path).resolve() for path in (self.nbest, *self.scores.values())}
        ref = self.ref if self.ref is None or is_address(self.ref) else Path(self.ref).resolve()
        return replace(self, nbest=full[self.nbest], scores={name: full[path] for name, path in self.scores.items()}, ref=ref)

    @property
    def format_name(self) -> str:
        return format_of(self.nbest).name if self.format == AUTO else self.format

    def read(self, report: Report = refuse) -> Iterator[NBestList]:
        """The lists, one utterance at a time."""
        return read_lists(self.nbest, self.scores, self.costs, report, self.format, self.fields)
