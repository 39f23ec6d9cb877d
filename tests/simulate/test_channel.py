"""The channel against enumeration."""

from itertools import product

import numpy as np
import pytest

from trflm.simulate import channel as module
from trflm.simulate.channel import Channel, ChannelConfig
from trflm.simulate.phones import CONSONANTS, NUMBER, PHONES, VOWELS, distances

NOISY = ChannelConfig(substitution=0.3, insertion=0.1, deletion=0.2)


def test_distances_are_a_distance_and_know_what_sounds_alike() -> None:
    d = distances()
    assert d.shape == (39, 39)
    assert np.array_equal(d, d.T)
    assert (np.diag(d) == 0).all()
    assert (d + np.eye(39) > 0).all()

    def of(a: str, b: str) -> float:
        return d[NUMBER[a], NUMBER[b]]

    assert of("B", "P") < of("B", "K") < of("B", "AA")
    assert of("M", "N") < of("M", "S")
    assert of("IY", "IH") < of("IY", "AA")
    assert max(of(a, b) for a in VOWELS for b in VOWELS) < of("B", "AA")
    assert CONSONANTS.keys() | VOWELS.keys() == set(PHONES)


def test_substitutions_are_distributions() -> None:
    matrix = Channel(NOISY).substitution_PP
    np.testing.assert_allclose(matrix.sum(1), 1, rtol=1e-12)
    np.testing.assert_allclose(np.diag(matrix), 0.7)
    assert matrix[NUMBER["B"], NUMBER["P"]] > matrix[NUMBER["B"], NUMBER["S"]] > 0


def enumerated(channel: Channel, said: tuple[int, ...], heard: tuple[int, ...]) -> float:
    """P(heard | said), by the generative story told recursively."""
    c = channel.config
    total = 0.0
    if heard:
        total += c.insertion / len(module.PHONES) * enumerated(channel, said, heard[1:])
    if not said:
        return total + (1 - c.insertion if not heard else 0.0)
    total += (1 - c.insertion) * c.deletion * enumerated(channel, said[1:], heard)
    if heard:
        kept = (1 - c.deletion) * channel.substitution_PP[said[0], heard[0]]
        total += (1 - c.insertion) * kept * enumerated(channel, said[1:], heard[1:])
    return total


def test_the_forward_algorithm_is_the_sum_over_alignments() -> None:
    channel = Channel(NOISY)
    for said, heard in product([(), (1,), (1, 2, 3), (5, 5)], [(), (1,), (2, 3), (5, 1, 2, 3, 7)]):
        assert channel.likelihood(said, heard) == pytest.approx(enumerated(channel, said, heard), rel=1e-12)


def test_what_may_be_heard_sums_to_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PHONES", ("A", "B"))  # an alphabet small enough to enumerate
    monkeypatch.setattr(module, "distances", lambda: np.array([[0.0, 1.0], [1.0, 0.0]]))
    channel = Channel(ChannelConfig(substitution=0.3, insertion=0.05, deletion=0.2))
    total = sum(channel.likelihood((0, 1, 1), heard) for length in range(12) for heard in product((0, 1), repeat=length))
    assert total == pytest.approx(1, abs=1e-6)  # longer ones have nine inserted phones or more


def test_corruption_follows_the_likelihood() -> None:
    """20,000 draws: counts of the commonest outcomes within five standard errors."""
    channel, rng, said = Channel(NOISY), np.random.default_rng(1), (NUMBER["B"], NUMBER["IY"])
    n = 20_000
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(n):
        heard = tuple(channel.corrupt(said, rng))
        counts[heard] = counts.get(heard, 0) + 1
    for heard in sorted(counts, key=counts.__getitem__)[-10:]:
        p = channel.likelihood(said, heard)
        assert abs(counts[heard] - n * p) < 5 * np.sqrt(n * p * (1 - p))


@pytest.mark.parametrize("bad", [{"insertion": 1.0}, {"deletion": -0.1}, {"temperature": 0.0}])
def test_bad_settings_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        ChannelConfig(**bad)
