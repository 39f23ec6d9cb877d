"""The combined score is the formula, each distinct sentence is scored once, and unknown words cost their penalty."""

import math

import numpy as np
import pytest
import torch
from evaluation.nbest_cases import three_lists
from evaluation.toy_lm import UnigramLM

from trflm.errors import InputError
from trflm.evaluation.nbest import TIE, NBest, NBestList
from trflm.evaluation.second_pass import scores as scores_module
from trflm.evaluation.second_pass.combine import Rescored, ScoreTable, rescore
from trflm.evaluation.second_pass.one_list import ScoredList
from trflm.evaluation.second_pass.scores import FirstPass, distinct_sentences, score_lm
from trflm.evaluation.weights import Weights
from trflm.text.mapping import parse_mapping


def test_formula_by_hand() -> None:
    nbest = NBest.collect(three_lists())  # "it rose", "it rows", "rose" | "the end" | "no", "know it"
    sentences = distinct_sentences(nbest)
    one = UnigramLM({"it": -1.0, "rose": -2.0, "the": -0.5, "no": -4.0}, unknown=-3.0)
    two = UnigramLM({"it": -0.25, "end": -0.5}, unknown=-0.75)
    table = ScoreTable(nbest, {"one": score_lm(nbest, sentences, one), "two": score_lm(nbest, sentences, two)})
    assert table.lms["one"].oov_H.tolist() == [0, 1, 0, 1, 0, 1]
    assert table.lms["two"].oov_types == {"rose", "rows", "the", "no", "know"}
    weights = Weights({"one": 0.75, "two": 0.25}, scale=2.0, word_penalty=0.5, oov_penalty=10.0)
    # "it rose": -3 + 2 * (0.75 * (-3 - 0) + 0.25 * (-1 - 10)) + 0.5 * 2
    # "it rows": -2.5 + 2 * (0.75 * (-4 - 10) + 0.25 * (-1 - 10)) + 0.5 * 2
    expected = [-3 + 2 * (-2.25 - 2.75) + 1, -2.5 + 2 * (-10.5 - 2.75) + 1]
    np.testing.assert_allclose(table.combine(weights)[:2], expected, rtol=1e-14)
    assert table.default_oov_penalty == math.log(6)  # rose rows the no know end: unknown to one or the other


@pytest.mark.parametrize("threads", [1, 2])
def test_each_distinct_sentence_is_scored_once_and_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch, threads: int) -> None:
    lists = [NBestList(f"u{i}", ["a b", "b a", "a b", f"c{i}"], {"acoustic": np.zeros(4)}) for i in range(5)]
    nbest = NBest.collect(lists)
    lm = UnigramLM({"a": -1.0, "b": -2.0})
    sentences = distinct_sentences(nbest)
    assert sentences.texts == ["a b", "b a", "c0", "c1", "c2", "c3", "c4"]
    whole = score_lm(nbest, sentences, lm)
    assert lm.asked == [7]
    monkeypatch.setattr(scores_module, "CHUNK_WORDS", 5 * threads)
    done: list[int] = []
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(threads)
        parts = score_lm(nbest, sentences, lm, done.append)
    finally:
        torch.set_num_threads(before)
    assert sorted(lm.asked[1:]) == [3, 4]  # 5 words of the first utterance, then the 4 that remain
    assert done == [3, 7]
    assert parts.log_prob_H.tolist() == whole.log_prob_H.tolist()


def test_rescore_from_python_and_mapped_text() -> None:
    nbest = NBest.collect([NBestList("u", ["it isn't", "it is aunt"], {"acoustic": np.array([-1.0, 0.0])})])
    lm = UnigramLM({"it": -1.0, "is": -1.0, "n't": -1.0})
    plain, mapped = rescore(nbest, {lm: 1.0}), rescore(nbest, {lm: 1.0}, mapping=parse_mapping("clitics"))
    assert plain.weights.penalty_of("lm1") == math.log(4)  # as many as the model has words, for want of a count
    assert plain.score_H.tolist() == pytest.approx([-1 - 2 - math.log(4), 0 - 3 - math.log(4)])
    assert mapped.score_H.tolist() == pytest.approx([-1 - 3, 0 - 3 - math.log(4)])
    assert plain.best() == {"u": "it isn't"}
    assert plain.parts(1) == {"acoustic": 0.0, "lm1": -3.0, "lm1 OOV words": -math.log(4), "words": 0.0}
    assert sum(plain.parts(0).values()) == pytest.approx(plain.score_H[0])
    assert rescore(nbest, {lm: 0.0}).best() == {"u": "it is aunt"}
    assert rescore(nbest, {lm: 0.0}, word_penalty=-5.0).best() == {"u": "it isn't"}


def test_a_winner_does_not_hang_on_the_last_bit() -> None:
    """Two hypotheses that a model cannot tell apart, with rounding in favour of the second; the third is truly worse."""
    nbest = NBestList("u", ["an emu", "a gnu", "a"], {"acoustic": np.array([-3.0, -3.0 + 3e-5, -3.1])})
    scored = ScoredList(nbest, {}, Weights({}, 1.0))
    assert (scored.best, scored.order) == ("an emu", [0, 1, 2])
    assert Rescored(ScoreTable(NBest.collect([nbest]), {}), Weights({}, 1.0)).best() == {"u": "an emu"}
    better = NBestList("u", nbest.texts, {"acoustic": np.array([-3.0, -3.0 + 2 * TIE, -3.1])})
    assert ScoredList(better, {}, Weights({}, 1.0)).order == [1, 0, 2]
    assert Rescored(ScoreTable(NBest.collect([better]), {}), Weights({}, 1.0)).best() == {"u": "a gnu"}


def test_the_first_pass_model_is_one_more_model() -> None:
    nbest = NBest.collect([NBestList("u", ["a", "b"], {"acoustic": np.zeros(2), "lm": np.array([-2.0, -1.0])})])
    table = ScoreTable(nbest, {"first": FirstPass("lm").scores(nbest)})
    assert table.combine(Weights({"first": 1.0}, 3.0, oov_penalty=9.0)).tolist() == [-6.0, -3.0]
    assert table.default_oov_penalty == 0.0
    with pytest.raises(InputError, match="have no score 'am'; they have acoustic, lm"):
        FirstPass("am").scores(nbest)


def test_faults() -> None:
    nbest = NBest.collect([NBestList("u", ["a"], {"lm": np.zeros(1)})])
    with pytest.raises(InputError, match=r"have the scores lm, and none is named acoustic; .* --acoustic-name NAME"):
        rescore(nbest, {})
    broken = UnigramLM({"a": math.nan})
    with pytest.raises(InputError, match="gives 'a' no finite log probability"):
        score_lm(nbest, distinct_sentences(nbest), broken)
