"""Tuning finds what a fine grid finds or better, the same every time, and cross-validation never sees its own fold."""

import numpy as np
import pytest

from trflm.errors import InputError
from trflm.evaluation.nbest import TIE, NBest, NBestList
from trflm.evaluation.second_pass.combine import ScoreTable
from trflm.evaluation.second_pass.scores import LMScores
from trflm.evaluation.tune import Search, Setting, cross_validate, tune
from trflm.evaluation.weights import Weights


def made_up(seed: int = 0, utterances: int = 60, lms: int = 2) -> tuple[ScoreTable, dict[str, str]]:
    """Lists in which the right words have the better acoustic and LM scores, all with noise; LM units are 4 times smaller."""
    rng = np.random.default_rng(seed)
    references, lists, log_prob, oov = {}, [], [], []
    for u in range(utterances):
        words = [f"w{i}" for i in rng.integers(0, 50, 8)]
        references[f"u{u}"] = " ".join(words)
        texts, acoustic = [], []
        for _ in range(20):
            wrong = rng.random(8) < 0.3
            unknown = wrong & (rng.random(8) < 0.3)
            heard = [
                f"o{u}" if o else f"x{i}" if w else word
                for i, (word, w, o) in enumerate(zip(words, wrong, unknown, strict=True))
            ]
            heard += ["y"] * int(rng.integers(0, 3))
            texts.append(" ".join(heard))
            acoustic.append(-4 * wrong.sum() + rng.normal(0, 12))
            log_prob.append([-wrong.sum() + 3 * unknown.sum() - len(heard) + rng.normal(0, 1.5) for _ in range(lms)])
            oov.append(unknown.sum())
        lists.append(NBestList(f"u{u}", texts, {"acoustic": np.array(acoustic)}))
    scores_LH = np.array(log_prob).T
    types = frozenset(f"o{u}" for u in range(utterances))
    table = {f"lm{k}": LMScores(scores_LH[k], np.array(oov), types) for k in range(lms)}
    return ScoreTable(NBest.collect(lists), table), references


def errors(table: ScoreTable, references: dict[str, str], weights: Weights) -> int:
    search = Search(table, references)
    return int(search.errors_of([Setting(weights.factors, weights.word_penalty, weights.oov_penalty)])[0])


def test_search_and_combine_are_the_same_formula() -> None:
    table, references = made_up()
    weights = Weights({"lm0": 0.3, "lm1": 0.7}, 2.5, -1.5, 2.0)
    chosen_U = table.nbest.best(table.combine(weights))
    search = Search(table, references)
    by_table = np.concatenate(search.errors)[chosen_U].sum()
    assert errors(table, references, weights) == by_table


def test_a_tie_is_no_win() -> None:
    """At scale 0.2 the two differ by rounding only, which rescoring does not count: the first of the list would stay."""
    acoustic_K, log_prob_K = np.array([-0.0, -1.0]), np.array([-7.0, -2.0])
    nbest = NBest.collect([NBestList(f"u{u}", ["it rows", "it rose"], {"acoustic": acoustic_K}) for u in range(6)])
    table = ScoreTable(nbest, {"lm": LMScores(np.tile(log_prob_K, 6), np.zeros(12), frozenset())})
    references = {f"u{u}": "it rose" for u in range(6)}
    assert errors(table, references, Weights({"lm": 1.0}, 0.2 + 1e-9)) == 6
    tuned = tune(table, references)
    chosen_U = table.nbest.best(table.combine(tuned.weights), TIE)
    assert tuned.errors == np.concatenate(Search(table, references).errors)[chosen_U].sum() == 0


def test_tuning_beats_a_fine_grid_and_says_its_errors() -> None:
    table, references = made_up()
    tuned = tune(table, references)
    assert tuned.errors == errors(table, references, tuned.weights)
    assert sum(tuned.weights.lms.values()) == pytest.approx(1)
    search = Search(table, references)
    grid = [
        Setting((a, b), wp, p)
        for a in np.linspace(0, 8, 9)
        for b in np.linspace(0, 8, 9)
        for wp in np.linspace(-8, 8, 9)
        for p in np.linspace(0, 6, 7)
    ]
    assert tuned.errors <= search.errors_of(grid).min()
    assert tuned.weights == tune(table, references).weights


def test_equal_weights_stay_equal_and_the_rest_is_tuned() -> None:
    table, references = made_up()
    equal = tune(table, references, equal=True)
    assert equal.weights.lms == {"lm0": 0.5, "lm1": 0.5}
    search = Search(table, references)
    grid = [
        Setting((a, a), wp, p) for a in np.linspace(0, 8, 33) for wp in np.linspace(-8, 8, 17) for p in np.linspace(0, 6, 13)
    ]
    assert equal.errors <= search.errors_of(grid).min()
    assert equal.errors >= tune(table, references).errors


def test_one_model_and_a_penalty_that_stays() -> None:
    table, references = made_up(lms=1)
    fixed = tune(table, references, oov_penalty=0.0)
    free = tune(table, references)
    assert fixed.weights.oov_penalty == 0.0
    assert free.errors < fixed.errors  # the made-up model rewards unknown words by 3 nats each
    assert free.weights.oov_penalty > 1.0


def test_scale_curve_passes_through_the_tuned_point() -> None:
    table, references = made_up()
    tuned = tune(table, references)
    scales, rates = np.array(tuned.scale_curve).T
    assert scales[0] == 0.0
    assert scales[-1] == pytest.approx(3 * tuned.weights.scale)
    third = len(scales) // 3
    assert scales[third] == pytest.approx(tuned.weights.scale, rel=0.05)
    assert min(rates) >= tuned.rate  # no other scale is better, or the line search would have gone there
    without = Weights(tuned.weights.lms, 0.0, tuned.weights.word_penalty, 0.0)
    assert rates[0] == pytest.approx(errors(table, references, without) / tuned.words)


def test_cross_validation_tunes_without_the_fold_it_chooses_in() -> None:
    table, references = made_up(utterances=12)
    result = cross_validate(table, references, folds=3)
    assert len(result.folds) == 3
    for fold in range(3):
        others = [u for u in range(12) if u % 3 != fold]
        weights = tune(table, references, utterances=others).weights
        assert result.folds[fold] == weights
        best_U = table.nbest.best(table.combine(weights))
        assert result.chosen_U[fold::3].tolist() == best_U[fold::3].tolist()
        broken = {name: ("z z z" if int(name[1:]) % 3 == fold else text) for name, text in references.items()}
        assert tune(table, broken, utterances=others).weights == weights  # its references play no part


def test_faults() -> None:
    table, references = made_up(utterances=3)
    with pytest.raises(InputError, match="give between 2 and the number"):
        cross_validate(table, references, folds=4)
    with pytest.raises(InputError, match='utterance "u0" has no reference'):
        tune(table, {})
    with pytest.raises(InputError, match="the references have no words"):
        tune(table, dict.fromkeys(references, ""))
