"""Rescore a stream of lists: read an utterance, write its result, forget it."""

import hashlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TypeVar

from trflm.deploy.journal import Entry, Journal
from trflm.deploy.rescorer import Rescorer
from trflm.errors import InputError
from trflm.evaluation.alignment import word_errors
from trflm.evaluation.formats.jsonl import to_json
from trflm.evaluation.nbest import NBestList
from trflm.evaluation.second_pass.one_list import ScoredList

T = TypeVar("T")
MOST_DIGITS = 6  # of the number of shards


@dataclass(frozen=True)
class Shard:
    """Every n-th list, beginning with the i-th: 1 <= i <= n."""

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text: str) -> "Shard":
        number, slash, of = text.partition("/")
        digits = slash and number.isdecimal() and of.isdecimal() and max(len(number), len(of)) <= MOST_DIGITS
        if not (digits and 1 <= int(number) <= int(of)):
            raise InputError(f"--shard {text}: write i/n with 1 <= i <= n, such as 3/8; n has at most {MOST_DIGITS} digits")
        return cls(int(number), int(of))

    def take(self, lists: Iterable[T]) -> Iterator[T]:
        return islice(lists, self.number - 1, None, self.of)


Tell = Callable[[int], None]
"""Is told how many utterances are done."""


def rescore_into(
    journal: Journal,
    rescorer: Rescorer,
    lists: Iterable[NBestList],
    references: Mapping[str, str] | None = None,
    scores: bool = False,
    tell: Tell = lambda done: None,
) -> None:
    """Rescore what the journal does not have yet. The lists are those of the whole job, from its first one."""
    lists = iter(lists)
    pass_over(journal, lists, references)
    for scored in rescorer.rescore(lists):
        journal.write(to_entry(scored, references, scores))
        tell(journal.done)


def pass_over(journal: Journal, lists: Iterator[NBestList], references: Mapping[str, str] | None) -> None:
    """The lists that the journal has already; they must be the ones that come."""
    for entry in journal.entries() if journal.done else ():
        nbest = next(lists, None)
        if nbest is None or nbest.utterance != entry.utterance:
            found = "the end of the lists" if nbest is None else f'utterance "{nbest.utterance}"'
            raise InputError(f'{journal.path}: has "{entry.utterance}" where {found} comes now; give the same lists')
        if entry.content != list_hash(nbest, said_of(nbest, references)):
            raise InputError(
                f'{journal.path}: has "{entry.utterance}" with other hypotheses, scores or reference than come now; '
                "give the same lists, or a new --out"
            )


def rescore_to_stdout(rescorer: Rescorer, lists: Iterable[NBestList], scores: bool, tell: Tell) -> int:
    """Lines `UTT words`, or with `scores` a JSON object each, at once; how many there were."""
    done = 0
    for done, scored in enumerate(_one_by_one(rescorer, lists), 1):
        sys.stdout.write(to_json(with_scores(scored)) if scores else f"{scored.nbest.utterance} {scored.best}".rstrip() + "\n")
        sys.stdout.flush()
        tell(done)
    return done


def _one_by_one(rescorer: Rescorer, lists: Iterable[NBestList]) -> Iterator[ScoredList]:
    """Nothing is read ahead: who waits for an answer before sending the next list gets it."""
    return (rescorer.scorer(nbest) for nbest in lists)


def said_of(nbest: NBestList, references: Mapping[str, str] | None) -> str | None:
    """What was said, if that is known; where there are references, every list has one."""
    if references is None:
        return nbest.reference
    if nbest.utterance not in references:
        raise InputError(f'utterance "{nbest.utterance}" has no reference; add it, or leave out --ref')
    return references[nbest.utterance]


def list_hash(nbest: NBestList, reference: str | None) -> str:
    """A hash of a list and of what was said."""
    content = hashlib.blake2b("\n".join((nbest.utterance, reference or "", *nbest.texts)).encode(), digest_size=8)
    for name in sorted(nbest.scores):
        content.update(name.encode() + nbest.scores[name].tobytes())
    return content.hexdigest()


def to_entry(scored: ScoredList, references: Mapping[str, str] | None, scores: bool) -> Entry:
    nbest = scored.nbest
    reference = said_of(nbest, references)
    entry = {
        "utterance": nbest.utterance,
        "content": list_hash(nbest, reference),
        "best": scored.best,
        "hypotheses": len(nbest),
        "oov": tuple(int(of.oov_K.sum()) for of in scored.lms.values()),
        "unknown": tuple(of.unknown for of in scored.lms.values()),
    }
    if scores:
        entry["record"] = with_scores(scored).to_record()
    if reference is not None:
        errors_K = word_errors(reference, nbest.texts)
        entry |= {
            "reference": reference,
            "first": nbest.texts[0],
            "oracle": nbest.texts[int(errors_K.argmin())],
        }
        entry["without_lm"] = nbest.texts[int(scored.acoustic_K.argmax())]
        if scored.best != nbest.texts[0]:
            entry["gains"] = scored.gains()
    return Entry(**entry)


def with_scores(scored: ScoredList) -> NBestList:
    """The list with one more score a model (`lm1`, `lm2`, ... in the order of the models) and the total."""
    nbest = scored.nbest
    added = {f"lm{k}": of.log_prob_K for k, of in enumerate(scored.lms.values(), 1)} | {"total": scored.score_K}
    if clash := added.keys() & nbest.scores.keys():
        raise InputError(
            f'utterance "{nbest.utterance}" has a score named {min(clash)!r} already; rename it, or leave out --scores'
        )
    return NBestList(nbest.utterance, nbest.texts, {**nbest.scores, **added}, nbest.reference)
