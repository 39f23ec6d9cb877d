"""Small trained models of each kind, and lists for them; made once for all tests."""

import random
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import numpy as np
from commands import TINY_BLSTM, TINY_LSTM, TINY_NGRAM, TINY_RECIPE, tiny_recipe

from trflm.evaluation.nbest import NBestList
from trflm.experiment.progress import progress
from trflm.experiment.recipe import read_recipe
from trflm.experiment.run import run_recipe

RECIPES = {"cnn": TINY_RECIPE, "blstm": TINY_BLSTM, "lstm": TINY_LSTM, "ngram": TINY_NGRAM}
SIXTEEN = [f"model.{size}=16" for size in ("embedding", "projection", "bank_filters", "stack_filters")]
"""Sizes at which a row of a product is the same to the bit among few and among many (docs/rescoring.md)."""
WORDS = ["the", "a", "cat", "dog", "bird", "ran", "sat", "emu"]  # the last one is in no vocabulary


@cache
def model(kind: str) -> Path:
    """The run directory of a trained model: the same for all who ask, so nobody changes it."""
    place = Path(mkdtemp())
    overrides = [*([] if kind == "ngram" else ["run.epochs=2"]), *(SIXTEEN if kind == "cnn" else [])]
    run_recipe(read_recipe(tiny_recipe(place, RECIPES[kind]), overrides), place / kind, False, progress(True))
    return place / kind


def some_lists(count: int, depth: int = 6, seed: int = 0) -> list[NBestList]:
    """Lists whose hypotheses differ in a word or two, some unknown, one without any word."""
    rng = random.Random(seed)
    lists = []
    for u in range(count):
        said = [rng.choice(WORDS) for _ in range(rng.randint(2, 7))]
        texts = []
        for _ in range(depth):
            heard = list(said)
            heard[rng.randrange(len(heard))] = rng.choice(WORDS)
            texts.append(" ".join(heard))
        if u % 5 == 0:
            texts[-1] = ""
        acoustic = np.array([round(rng.uniform(-20, -10), 3) for _ in texts])
        lists.append(NBestList(f"utt{u:03}", texts, {"acoustic": acoustic}))
    return lists
