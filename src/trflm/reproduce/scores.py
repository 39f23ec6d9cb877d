"""What a model says of n-best lists, kept beside the results: a second run, or a combined row, does not score again."""

import contextlib
import hashlib
import json
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trflm.evaluation.nbest import NBest
from trflm.evaluation.rescore import LMScores, Sentences, distinct_sentences, require_acoustic, score_lm
from trflm.evaluation.transcripts import match_utterances, read_transcripts
from trflm.evaluation.weights import content_hash
from trflm.files.writer import replacing
from trflm.language_model import LanguageModel
from trflm.text.mapping import parse_mapping


@dataclass(frozen=True, eq=False)
class Lists:
    """A set of n-best lists with what was said, all of it read and checked."""

    name: str
    nbest: NBest
    references: dict[str, str]
    sentences: Sentences
    hashed: str  # of the files and the mapping


def read_set(name: str, nbest: Path, acoustic: Path, ref: Path, costs: bool, mapping: str) -> Lists:
    """Read strictly; anything wrong stops before a model is trained."""
    from trflm.evaluation.formats import read_nbest

    references = read_transcripts(ref)
    lists = read_nbest(nbest, acoustic, acoustic_is_cost=costs)
    require_acoustic(lists)
    match_utterances(lists.utterances, references, str(nbest), str(ref))
    key = [content_hash(nbest), content_hash(acoustic), content_hash(ref), costs, mapping]
    hashed = hashlib.sha256(json.dumps(key).encode()).hexdigest()
    return Lists(name, lists, references, distinct_sentences(lists, parse_mapping(mapping)), hashed)


@dataclass(frozen=True, eq=False)
class Timed:
    """Scores, and how long they took."""

    scores: LMScores
    seconds: float


def scores_of(file: Path, model_hash: str, lists: Lists, lm: LanguageModel, in_order: bool = False) -> Timed:
    """From the file, if it belongs to this model and these lists; else by scoring. `in_order`: scores depend on the order."""
    key = f"{model_hash} {lists.hashed}"
    with contextlib.suppress(OSError, KeyError, ValueError, zipfile.BadZipFile), np.load(file) as stored:
        if str(stored["key"]) == key:
            types = frozenset(str(word) for word in stored["oov_types"])
            return Timed(LMScores(stored["log_prob_H"], stored["oov_H"], types), float(stored["seconds"]))
    started = time.perf_counter()
    scores = score_lm(lists.nbest, lists.sentences, lm, at_once=in_order)
    seconds = time.perf_counter() - started
    file.parent.mkdir(parents=True, exist_ok=True)
    with replacing(file) as content:
        np.savez_compressed(
            content,
            key=np.array(key),
            log_prob_H=scores.log_prob_H,
            oov_H=scores.oov_H,
            oov_types=np.array(sorted(scores.oov_types), dtype=str),
            seconds=np.array(seconds),
        )
    return Timed(scores, seconds)


def model_hash(run: Path) -> str:
    """Of the model, of the snapshots it averages and of the reference it tilts."""
    files = [*sorted(run.glob("*.safetensors")), *sorted((run / "snapshots").glob("*.safetensors"))]
    files = [file for file in files if file.name != "training.safetensors"]
    return hashlib.sha256(" ".join(content_hash(file) for file in files).encode()).hexdigest()
