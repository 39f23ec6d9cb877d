"""What a model says of n-best lists, kept beside the results: a second run, or a combined row, does not score again."""

import contextlib
import hashlib
import json
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from trflm.evaluation.second_pass.files import ListFiles
from trflm.evaluation.second_pass.lists import ListSet, read_set
from trflm.evaluation.second_pass.scores import LMScores, score_lm
from trflm.files.writer import replacing
from trflm.language_model import LanguageModel
from trflm.text.mapping import parse_mapping


@dataclass(frozen=True, eq=False)
class NamedLists:
    """The dev or the test lists of a table."""

    name: str
    lists: ListSet
    hashed: str  # of the files and the mapping


def read_named(name: str, files: ListFiles, mapping: str) -> NamedLists:
    """Read strictly; anything wrong stops before a model is trained."""
    lists = read_set(files, parse_mapping(mapping))
    key = [*(file.sha256 for file in lists.files.values()), bool(files.costs), mapping]
    return NamedLists(name, lists, hashlib.sha256(json.dumps(key).encode()).hexdigest())


@dataclass(frozen=True, eq=False)
class Timed:
    """Scores, and how long they took."""

    scores: LMScores
    seconds: float


def scores_of(file: Path, model_hash: str, named: NamedLists, lm: LanguageModel, in_order: bool = False) -> Timed:
    """From the file, if it belongs to this model and these lists; else by scoring. `in_order`: scores depend on the order."""
    key = f"{model_hash} {named.hashed}"
    with contextlib.suppress(OSError, KeyError, ValueError, zipfile.BadZipFile), np.load(file) as stored:
        if str(stored["key"]) == key:
            types = frozenset(str(word) for word in stored["oov_types"])
            return Timed(LMScores(stored["log_prob_H"], stored["oov_H"], types), float(stored["seconds"]))
    started = time.perf_counter()
    scores = score_lm(named.lists.nbest, named.lists.sentences, lm, at_once=in_order)
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
