"""The flat structure holds what the lists hold, and arg-max is stable."""

import numpy as np
import pytest
from evaluation.nbest_cases import nbest_lists, same, three_lists
from hypothesis import given, settings

from trflm.errors import InputError
from trflm.evaluation.nbest import NBest, NBestList


@given(lists=nbest_lists())
@settings(max_examples=50)
def test_collected_lists_come_back(lists: list[NBestList]) -> None:
    nbest = NBest.collect(lists)
    assert same(list(nbest), lists)
    assert nbest.lengths_H.sum() == len(nbest.ids_N)


def test_best_is_the_first_of_equals() -> None:
    nbest = NBest.collect(three_lists())
    assert nbest.best(nbest.scores["acoustic"]).tolist() == [1, 3, 4]
    assert nbest.transcripts(np.array([1, 3, 4])) == {"a-1": "it rows", "b": "the end", "c": "no"}


def test_first_keeps_the_head_of_each_list() -> None:
    nbest = NBest.collect(three_lists()).first(2)
    assert list(nbest.texts()) == ["it rose", "it rows", "the end", "no", "know it"]
    assert nbest.scores["acoustic"].tolist() == [-3.0, -2.5, -1.0, -1.0, -1.0]
    assert nbest.depths_U.tolist() == [2, 1, 2]


def test_faults_of_a_set() -> None:
    first = three_lists()[0]
    with pytest.raises(InputError, match="there is no n-best list"):
        NBest.collect([])
    with pytest.raises(InputError, match="give every utterance the same scores"):
        NBest.collect([first, NBestList("z", ["x"], {})])
    with pytest.raises(InputError, match="has no score 'lm'; it has acoustic"):
        first.negated(["lm"])
