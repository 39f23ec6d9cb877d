"""Tune scale, word penalty, OOV penalty and interpolation weights for least word errors on a development set.

Everything is scored once; after that a setting costs a matrix product and an arg-max. A coarse grid, in units taken from
the scores themselves, finds where to start; from its best points exact line searches follow, one weight after another,
until no weight helps. No randomness anywhere: the same lists give the same weights.

Shapes: U utterances, K hypotheses of one utterance, L language models, G settings, F = 2 + 2 L features.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from trflm.errors import InputError
from trflm.evaluation.alignment import nbest_errors
from trflm.evaluation.line_search import StepFunction, errors_along
from trflm.evaluation.nbest import TIE
from trflm.evaluation.second_pass.combine import ScoreTable
from trflm.evaluation.weights import Weights

SCALE_GRID = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0)  # times the ratio of acoustic to LM spread
WORD_GRID = (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0)  # word penalty over scale, in nats
OOV_GRID = (0.0, 0.5, 1.0, 1.3)  # times the default penalty
MIX_GRID = (0.1, 0.3, 0.5, 0.7, 0.9)  # share of one language model against another
SCALE_LIMIT, WORD_LIMIT, OOV_LIMIT = 20.0, 30.0, 4.0  # how far line searches go, in the same units
STARTS = 4  # grid points from which line searches begin
ROUNDS = 20  # at most, over all weights
CURVE_POINTS = 81
CHUNK = 256  # settings evaluated at once


@dataclass(frozen=True)
class Setting:
    """A point of the search: score = acoustic + sum_k factor_k (LM_k - oov_penalty OOV_k) + word_penalty words."""

    factors: tuple[float, ...]  # [L] scale * weight_k
    word_penalty: float
    oov_penalty: float

    @property
    def scale(self) -> float:
        return sum(self.factors)

    def rescaled(self, scale: float) -> "Setting":
        """Another scale at the same interpolation."""
        share = 1 / len(self.factors)
        return replace(self, factors=tuple(scale * (f / self.scale if self.scale else share) for f in self.factors))


@dataclass(frozen=True, eq=False)
class Tuned:
    """The weights found, their errors on the tuning set, and WER as a function of the scale."""

    weights: Weights
    errors: int
    words: int
    scale_curve: list[tuple[float, float]]

    @property
    def rate(self) -> float:
        return self.errors / self.words


class Search:
    """The tuning set in the form the search wants: one [F, K] block of features and one [K] of errors an utterance."""

    def __init__(self, table: ScoreTable, references: Mapping[str, str], utterances: Sequence[int] | None = None) -> None:
        nbest = table.nbest
        missing = [name for name in nbest.utterances if name not in references]
        if missing:
            raise InputError(f'utterance "{missing[0]}" has no reference ({len(missing)} such); add it or drop its list')
        chosen = range(len(nbest)) if utterances is None else utterances
        scores = list(table.lms.values())
        features_FH = np.stack(
            [nbest.acoustic_H, nbest.lengths_H, *(s.log_prob_H for s in scores), *(-s.oov_H for s in scores)]
        ).astype(np.float64)
        errors_H = nbest_errors(nbest, references)
        spans = [slice(*nbest.hyp_starts_U1[u : u + 2]) for u in chosen]
        self.features = [np.ascontiguousarray(features_FH[:, span]) for span in spans]
        self.errors = [errors_H[span] for span in spans]
        self.words = sum(len(references[nbest.utterances[u]].split()) for u in chosen)
        self.names = list(table.lms)
        self.oov_unit = table.default_oov_penalty
        self.knows_all = not any(s.oov_H.any() for s in scores)
        self.scale_unit = self._scale_unit()

    def _scale_unit(self) -> float:
        """The scale at which acoustic and language model scores spread equally within the lists."""
        n_lms = len(self.names)
        acoustic = np.median([f[0].std() for f in self.features])
        lm = np.median([f[2 : 2 + n_lms].mean(0).std() for f in self.features])
        return float(acoustic / lm) if acoustic > 0 and lm > 0 else 1.0

    def coefficients(self, settings: Sequence[Setting]) -> np.ndarray:
        """[G, F] what each feature is multiplied by."""
        return np.array([(1.0, s.word_penalty, *s.factors, *(f * s.oov_penalty for f in s.factors)) for s in settings])

    def errors_of(self, settings: Sequence[Setting]) -> np.ndarray:
        """[G] word errors of each setting, equal scores judged as rescoring judges them."""
        total_G = np.zeros(len(settings), np.int64)
        for start in range(0, len(settings), CHUNK):
            part = slice(start, start + CHUNK)
            coefficients_GF = self.coefficients(settings[part])
            for features_FK, errors_K in zip(self.features, self.errors, strict=True):
                score_GK = coefficients_GF @ features_FK
                total_G[part] += errors_K[(score_GK >= score_GK.max(1, keepdims=True) - TIE).argmax(1)]
        return total_G

    def along(self, at_zero: Setting, at_one: Setting, low: float, high: float) -> StepFunction:
        """Errors on the straight line of coefficients through two settings, as a function of t: 0 and 1 are the two."""
        zero_F, one_F = self.coefficients([at_zero, at_one])
        direction_F = one_F - zero_F
        lines = ((zero_F @ f, direction_F @ f, e) for f, e in zip(self.features, self.errors, strict=True))
        return errors_along(lines, low, high)

    def grid(self, oov_penalty: float | None, equal: bool = False) -> Iterator[Setting]:
        """Where to begin."""
        n_lms = len(self.names)
        if oov_penalty is not None:
            penalties: Sequence[float] = (oov_penalty,)
        elif self.knows_all:
            penalties = (self.oov_unit,)
        else:
            penalties = tuple(unit * self.oov_unit for unit in OOV_GRID)
        mixtures = [(1 / n_lms,) * n_lms] if equal else _mixtures(n_lms)
        for unit, per_word, penalty, mix in product(SCALE_GRID, WORD_GRID, penalties, mixtures):
            scale = unit * self.scale_unit
            yield Setting(tuple(scale * share for share in mix), per_word * scale, penalty)

    def moves(self, setting: Setting, free_oov: bool, equal: bool) -> Iterator[tuple[Setting, Setting, float, float]]:
        """The lines searched from a setting: two settings on each (t = 0 and t = 1) and how far t goes."""
        unit, scale = self.scale_unit, max(setting.scale, 0.1 * self.scale_unit)
        yield setting.rescaled(0.0), setting.rescaled(1.0), 0.0, SCALE_LIMIT * unit
        if setting.scale > 0:  # the language side as a whole, penalty and all
            whole = replace(setting.rescaled(1.0), word_penalty=setting.word_penalty / setting.scale)
            yield replace(setting.rescaled(0.0), word_penalty=0.0), whole, 0.0, SCALE_LIMIT * unit
        yield replace(setting, word_penalty=0.0), replace(setting, word_penalty=1.0), -WORD_LIMIT * scale, WORD_LIMIT * scale
        if free_oov and not self.knows_all and setting.scale > 0:
            limit = OOV_LIMIT * max(self.oov_unit, 1.0)
            yield replace(setting, oov_penalty=0.0), replace(setting, oov_penalty=1.0), 0.0, limit
        if len(setting.factors) > 1 and not equal:
            for k in range(len(setting.factors)):
                without = (*setting.factors[:k], 0.0, *setting.factors[k + 1 :])
                with_one = (*setting.factors[:k], 1.0, *setting.factors[k + 1 :])
                yield replace(setting, factors=without), replace(setting, factors=with_one), 0.0, SCALE_LIMIT * unit

    def descend(self, setting: Setting, free_oov: bool, equal: bool = False) -> tuple[Setting, int]:
        """Exact line searches, each time the best of all lines, until none has fewer errors."""
        errors = int(self.errors_of([setting])[0])
        for _ in range(ROUNDS):
            reached = []
            for zero, one, low, high in self.moves(setting, free_oov, equal):
                steps = self.along(zero, one, low, high)
                reached.append(_between(zero, one, steps.middle_of_least()))
            errors_G = self.errors_of(reached)
            best = int(errors_G.argmin())
            if errors_G[best] >= errors:
                break
            setting, errors = reached[best], int(errors_G[best])
        return setting, errors


def tune(
    table: ScoreTable,
    references: Mapping[str, str],
    oov_penalty: float | None = None,
    utterances: Sequence[int] | None = None,
    equal: bool = False,
) -> Tuned:
    """The weights of fewest word errors on these utterances (all if not said). An OOV penalty that is given stays. With
    `equal` all models have the same weight, as in the paper's combinations; scale and penalties are tuned all the same."""
    search = Search(table, references, utterances)
    if search.words == 0:
        raise InputError("the references have no words; tune on utterances in which something was said")
    grid = list(search.grid(oov_penalty, equal))
    order = np.argsort(search.errors_of(grid), kind="stable")[:STARTS]
    ends = [search.descend(grid[start], free_oov=oov_penalty is None, equal=equal) for start in order]
    setting, errors = min(ends, key=lambda end: end[1])
    weights = Weights.from_factors(search.names, setting.factors, setting.word_penalty, setting.oov_penalty)
    return Tuned(weights, errors, search.words, _scale_curve(search, setting))


@dataclass(frozen=True, eq=False)
class CrossValidated:
    """What tuning promises for utterances it has not seen."""

    chosen_U: np.ndarray  # the hypothesis chosen for each utterance, by weights tuned on the other folds
    folds: list[Weights]


def cross_validate(
    table: ScoreTable, references: Mapping[str, str], folds: int, oov_penalty: float | None = None
) -> CrossValidated:
    """Tune on all folds but one, choose in that one, for each. Utterance u is in fold u mod `folds`."""
    n = len(table.nbest)
    if not 2 <= folds <= n:
        raise InputError(f"{folds} folds of {n} utterances: give between 2 and the number of utterances")
    chosen_U = np.empty(n, np.int64)
    found = []
    for fold in range(folds):
        tuned = tune(table, references, oov_penalty, [u for u in range(n) if u % folds != fold])
        chosen_U[fold::folds] = table.nbest.best(table.combine(tuned.weights), TIE)[fold::folds]
        found.append(tuned.weights)
    return CrossValidated(chosen_U, found)


def _between(zero: Setting, one: Setting, t: float) -> Setting:
    """The setting at t on the line of two settings that differ in one kind of weight."""
    return Setting(
        tuple(a + t * (b - a) for a, b in zip(zero.factors, one.factors, strict=True)),
        zero.word_penalty + t * (one.word_penalty - zero.word_penalty),
        zero.oov_penalty + t * (one.oov_penalty - zero.oov_penalty),
    )


def _mixtures(n_lms: int) -> list[tuple[float, ...]]:
    """Interpolations to start from: each model alone, all equally, every pair at several shares."""
    alone = [tuple(float(k == i) for k in range(n_lms)) for i in range(n_lms)]
    pairs = []
    for i, j in product(range(n_lms), repeat=2):
        if i < j:
            for share in MIX_GRID:
                pairs.append(tuple(share if k == i else 1 - share if k == j else 0.0 for k in range(n_lms)))
    equal = [(1 / n_lms,) * n_lms] if n_lms > 2 else []
    return alone + pairs + equal


def _scale_curve(search: Search, setting: Setting) -> list[tuple[float, float]]:
    """WER against the scale, the other weights as tuned, from no language model to three times the tuned scale."""
    high = 3 * (setting.scale or search.scale_unit)
    steps = search.along(setting.rescaled(0.0), setting.rescaled(1.0), 0.0, high)
    points = np.linspace(0, high, CURVE_POINTS)
    return [(float(point), float(errors / search.words)) for point, errors in zip(points, steps.at(points), strict=True)]
