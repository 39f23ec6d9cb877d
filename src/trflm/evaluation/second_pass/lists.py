"""Lists that can be rescored, with what was said: all of it read and checked before anything is scored."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from trflm.evaluation.nbest import NBest, check_acoustic
from trflm.evaluation.second_pass.files import ListFiles
from trflm.evaluation.second_pass.scores import Sentences, distinct_sentences
from trflm.evaluation.transcripts import match_utterances, read_transcripts
from trflm.evaluation.weights import FileContent
from trflm.text.mapping import TextMapping


@dataclass(frozen=True, eq=False)
class ListSet:
    """N-best lists, what was said, and the mapping to the words of language models."""

    nbest: NBest
    mapping: TextMapping = ()
    references: Mapping[str, str] = field(default_factory=dict)  # utterance -> its words; empty if they are not known
    files: Mapping[str, FileContent] = field(default_factory=dict)  # role -> what was read; empty if it was no file

    def __post_init__(self) -> None:
        check_acoustic(self.nbest.scores, "the n-best lists have")

    @cached_property
    def sentences(self) -> Sentences:
        return distinct_sentences(self.nbest, self.mapping)


def read_set(files: ListFiles, mapping: TextMapping = ()) -> ListSet:
    """Read strictly. With a reference file every utterance has a list and a reference, or it is an InputError; without one
    references are those that the lists carry."""
    nbest = NBest.collect(files.read())
    references = nbest.references if files.ref is None else read_transcripts(files.ref)
    if files.ref is not None:
        match_utterances(nbest.utterances, references, str(files.nbest), str(files.ref))
    return ListSet(nbest, mapping, references, files.contents)
