"""Is it better, or luck? Bootstrap intervals and two tests between systems that heard the same utterances.

Utterances are drawn with replacement (Bisani and Ney, 2004); the matched-pairs test splits utterances into segments whose
errors may be taken as independent (Gillick and Cox, 1989; MAPSSWE of the NIST tools).

Shapes: U utterances, R resamples.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trflm.evaluation.alignment import Alignment
from trflm.evaluation.wer import WordErrors
from trflm.ranges import Count, Seed, Share, bounded

CHUNK = 4_000_000  # numbers held at once while resampling
FEWEST = 20  # utterances of a bootstrap, segments of a matched-pairs test, that a p-value can rest on
GOOD_RUN = 2  # correct words of both systems in a row that end a segment


@dataclass(frozen=True)
class Interval:
    low: float
    high: float
    level: float = 0.95


@dataclass(frozen=True)
class Comparison:
    """System B against system A: a negative difference means that B has the lower rate."""

    difference: float  # WER of B - WER of A
    interval: Interval
    p_bootstrap: float | None  # two-sided; None of fewer than FEWEST utterances
    segments: int
    z: float
    p_matched_pairs: float | None  # two-sided; None of fewer than FEWEST segments


@bounded
def bootstrap_interval(errors: WordErrors, seed: Seed = 0, resamples: Count = 10_000, level: Share = 0.95) -> Interval:
    """Percentile interval of the rate over resampled utterances."""
    drawn = np.concatenate(list(_resampled_rates(errors.words_U, errors.errors_U[:, None], seed, resamples)))
    return _percentiles(drawn[:, 0], level)


@bounded
def compare(a: WordErrors, b: WordErrors, seed: Seed = 0, resamples: Count = 10_000, level: Share = 0.95) -> Comparison:
    """Paired bootstrap and matched-pairs test of B against A, on the same references."""
    assert a.utterances == b.utterances, "both systems are measured on the same references"
    both = np.stack([a.errors_U, b.errors_U], 1)
    drawn = np.concatenate(list(_resampled_rates(a.words_U, both, seed, resamples)))
    difference_R = drawn[:, 1] - drawn[:, 0]
    # The smaller tail, doubled; one more in each count keeps p above zero, as a finite number of draws must.
    tail = min((difference_R <= 0).sum(), (difference_R >= 0).sum())
    p = min(1.0, 2 * (int(tail) + 1) / (resamples + 1))
    gains = matched_pairs(a, b)
    z = _z(gains)
    interval, p_pairs = _percentiles(difference_R, level), math.erfc(abs(z) / math.sqrt(2))
    return Comparison(
        difference=b.rate - a.rate,
        interval=interval,
        p_bootstrap=p if len(a.utterances) >= FEWEST else None,
        segments=len(gains),
        z=z,
        p_matched_pairs=p_pairs if len(gains) >= FEWEST else None,
    )


def matched_pairs(a: WordErrors, b: WordErrors) -> np.ndarray:
    """Errors of B minus errors of A in every segment in which either has one."""
    pairs = zip(a.alignments, b.alignments, strict=True)
    return np.array([gain for first, second in pairs for gain in _segment_gains(first, second)], np.int64)


def _segment_gains(a: Alignment, b: Alignment) -> Iterator[int]:
    """Segments end where both systems get GOOD_RUN words in a row right with nothing inserted between."""
    gain, dirty, run = 0, False, 0
    for place, word in enumerate(a.reference):
        inserted_a, inserted_b = len(a.inserted[place]), len(b.inserted[place])
        if inserted_a or inserted_b:
            gain, dirty, run = gain + inserted_b - inserted_a, True, 0
        wrong_a, wrong_b = a.heard[place] != word, b.heard[place] != word
        if wrong_a or wrong_b:
            gain, dirty, run = gain + wrong_b - wrong_a, True, 0
        else:
            run += 1
        if run >= GOOD_RUN and dirty:
            yield gain
            gain, dirty = 0, False
    last_a, last_b = len(a.inserted[-1]), len(b.inserted[-1])
    if dirty or last_a or last_b:
        yield gain + last_b - last_a


def _z(gains: np.ndarray) -> float:
    """Mean over its standard error; 0 where the systems do not differ."""
    if len(gains) < 2 or not gains.any():
        return 0.0
    spread = gains.std(ddof=1)
    if spread == 0:
        return math.copysign(math.inf, gains[0])
    return float(gains.mean() / (spread / math.sqrt(len(gains))))


def _resampled_rates(words_U: np.ndarray, errors_US: np.ndarray, seed: int, resamples: int) -> Iterator[np.ndarray]:
    """[R, S] rates of S systems on the same resampled utterances, some at a time."""
    rng = np.random.default_rng(seed)
    n = len(words_U)
    for start in range(0, resamples, step := max(1, CHUNK // n)):
        times_RU = rng.multinomial(n, np.full(n, 1 / n), size=min(step, resamples - start)).astype(np.float64)
        yield times_RU @ errors_US / np.maximum(times_RU @ words_U, 1)[:, None]


def _percentiles(values: np.ndarray, level: float) -> Interval:
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), level)
