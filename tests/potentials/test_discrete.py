"""The discrete potential against a dictionary of features, sentence by sentence and symbol by symbol."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from harness import check_expected_gradient, check_potential, random_batch, random_pi, rng, tiny_vocab

from trflm.errors import InputError
from trflm.field.engine import Engine
from trflm.field.trf import TRF, initial_zeta
from trflm.potentials.discrete import Alphabet, Discrete, DiscreteConfig, Features, count_features
from trflm.potentials.discrete.patterns import FAMILIES, parse_features
from trflm.sampling.exact import Exact
from trflm.text import Batch

V = 7
CLASS_V = torch.tensor([0, 1, 2, 0, 1, 2, 2])
ALL = "+".join(FAMILIES)
LENGTHS = [*range(1, 14), 1, 2, 3, 12]

# Each type written out by hand: lists of symbols and their distances from the last one.
BY_HAND = {
    "w": ["w0", "w1 w0", "w2 w1 w0", "w3 w2 w1 w0"],
    "c": ["c0", "c1 c0", "c2 c1 c0", "c3 c2 c1 c0"],
    "ws": ["w2 w0", "w3 w0", "w3 w2 w0", "w3 w1 w0"],
    "cs": ["c2 c0", "c3 c0", "c3 c2 c0", "c3 c1 c0"],
    "wsh": ["w4 w0", "w5 w0"],
    "csh": ["c4 c0", "c5 c0"],
    "tied": ["w6 w0|w7 w0|w8 w0|w9 w0", "c6 c0|c7 c0|c8 c0|c9 c0"],
    "cpw": ["c1 w0", "c2 c1 w0", "c3 c2 c1 w0"],
}


def occurrences(words: list[int], types: list[str]):
    """(feature, the words it covers) of one sentence, the slow way."""
    marked = ["<s>", *words, "</s>"]
    for name in types:
        for pattern in BY_HAND[name]:
            for gaps in pattern.split("|"):
                parts = [(part[0], int(part[1:])) for part in gaps.split()]
                for last in range(len(marked)):
                    places = [last - distance for _, distance in parts]
                    if places[0] < 0:
                        continue
                    symbols = [marked[place] for place in places]
                    covered = [place - 1 for place, symbol in zip(places, symbols, strict=True) if isinstance(symbol, int)]
                    if covered:
                        read = [
                            int(CLASS_V[s]) if kind == "c" and isinstance(s, int) else s
                            for (kind, _), s in zip(parts, symbols, strict=True)
                        ]
                        yield (pattern, *read), covered


def rows_of(batch: Batch) -> list[list[int]]:
    return [part.tolist() for part in batch.ids_N.split(batch.lengths_B.tolist())]


def alphabet() -> Alphabet:
    return Alphabet(V, CLASS_V)


def a_potential(types: str, text: Batch, min_counts: tuple[int, ...] = (1,), seed: int = 1) -> Discrete:
    config = DiscreteConfig(features=types, min_counts=min_counts)
    potential = Discrete(config, V, count_features(text, config.patterns, alphabet(), min_counts)).double()
    torch.nn.init.normal_(potential.weight, generator=rng(seed))
    return potential


@pytest.mark.parametrize("types", [*FAMILIES, ALL])
def test_equals_a_dictionary(types, compiled):
    text, other = random_batch(V, LENGTHS * 3, seed=1), random_batch(V, LENGTHS, seed=2)
    names = types.split("+")
    potential = a_potential(types, text)
    potential.start_as_unigram(text)
    count_V = 1 + torch.bincount(text.ids_N, minlength=V).double()
    b_V = (V * count_V / count_V.sum()).log().tolist()
    weight_of = {decoded(potential.features, k): weight for k, weight in enumerate(potential.weight.tolist())}
    assert weight_of.keys() == {feature for row in rows_of(text) for feature, _ in occurrences(row, names)}

    phi, share, last, touching = [], [], [], []
    for row in rows_of(other):
        found = [(weight_of.get(feature, 0.0), covered) for feature, covered in occurrences(row, names)]
        phi.append(sum(weight for weight, _ in found) + sum(b_V[w] for w in row))
        share += [b_V[w] + sum(weight / len(covered) for weight, covered in found if i in covered) for i, w in enumerate(row)]
        last += [b_V[w] + sum(weight for weight, covered in found if i == max(covered)) for i, w in enumerate(row)]
        touching += [b_V[w] + sum(weight for weight, covered in found if i in covered) for i, w in enumerate(row)]
    for value, expected in (
        (potential(other), phi),
        (potential.score(other), phi),
        (potential.contributions(other), share),
        (potential.touching(other), touching),
    ):
        torch.testing.assert_close(value.detach(), torch.tensor(expected, dtype=torch.float64), rtol=1e-10, atol=1e-10)
    potential.config = replace(potential.config, to_last=True)
    torch.testing.assert_close(
        potential.contributions(other).detach(), torch.tensor(last, dtype=torch.float64), rtol=1e-10, atol=1e-10
    )


def decoded(features: Features, k: int) -> tuple:
    """(pattern, symbols) of a feature, in the notation of BY_HAND."""
    p = int((features.first_P1 <= k).sum()) - 1
    pattern, key, symbols = features.patterns[p], int(features.key_K[k]), []
    for symbol in reversed(pattern.symbols):
        base = V + 2 if symbol == "w" else 5
        key, digit = divmod(key, base)
        symbols.append({base - 2: "<s>", base - 1: "</s>"}.get(digit, digit))
    gaps = "|".join(
        " ".join(f"{symbol}{-offset}" for symbol, offset in zip(pattern.symbols, gap, strict=True)) for gap in pattern.gaps
    )
    return (gaps, *reversed(symbols))


def test_is_a_potential(compiled):
    check_potential(a_potential(ALL, random_batch(V, LENGTHS)), n_words=V, longest=14)


def test_expected_gradient(compiled):
    text = random_batch(3, [1, 2, 3, 3, 3], seed=3)
    config = DiscreteConfig(features="w+cs+c")
    features = count_features(text, config.patterns, Alphabet(3, torch.tensor([0, 1, 1])), (1,))
    potential = Discrete(config, 3, features).double()
    torch.nn.init.normal_(potential.weight, generator=rng(1))
    check_expected_gradient(potential, 3, random_pi(3))


def test_touching_is_all_of_phi_that_depends_on_a_word():
    """phi(x) - touching_i(x) is the same whatever word stands at place i; contributions do not have this."""
    potential = a_potential(ALL, random_batch(V, LENGTHS * 2))
    base = random_batch(V, [12], seed=5)
    place = 4
    every = Batch(base.ids_N.repeat(V), torch.full((V,), 12))
    every.ids_N[torch.arange(V) * 12 + place] = torch.arange(V)
    rest = potential(every) - potential.touching(every).view(V, 12)[:, place]
    assert float((rest - rest[0]).abs().max().detach()) < 1e-10
    rest = potential(every) - potential.contributions(every).view(V, 12)[:, place]
    assert float((rest - rest[0]).abs().max().detach()) > 0.1


@pytest.mark.parametrize("types", [*FAMILIES, ALL])
def test_alternatives_are_what_touches_a_word_put_in_a_place(types, compiled):
    potential = a_potential(types, random_batch(V, LENGTHS * 3))
    potential.start_as_unigram(random_batch(V, LENGTHS * 3))
    batch = random_batch(V, [1, 2, 3, 12], seed=5)
    word_NA = torch.randint(V, (batch.n_words, 3), generator=rng(6))
    value_NA = potential.alternatives(batch, word_NA)
    for n in range(batch.n_words):
        for a in range(3):
            ids = batch.ids_N.clone()
            ids[n] = word_NA[n, a]
            expected = potential.touching(Batch(ids, batch.lengths_B))[n]
            torch.testing.assert_close(value_NA[n, a], expected, rtol=1e-10, atol=1e-10)


def test_cut_offs_count_occurrences_by_order():
    text = random_batch(V, LENGTHS * 2, seed=4)
    counted = Counter(feature for row in rows_of(text) for feature, _ in occurrences(row, ["w", "ws"]))
    features = count_features(text, parse_features("w+ws"), alphabet(), (1, 2, 3))
    kept = {decoded(features, k) for k in range(len(features))}
    assert kept == {f for f, count in counted.items() if count >= (1, 2, 3, 3)[len(f) - 2]}
    assert 0 < len(kept) < len(counted)


def test_counting_in_shares_changes_nothing(monkeypatch):
    text = random_batch(V, LENGTHS * 5, seed=6)
    whole = count_features(text, parse_features(ALL), alphabet(), (1, 2))
    monkeypatch.setattr("trflm.text.batch.SCORING_WORDS", 50)
    shares = count_features(text, parse_features(ALL), alphabet(), (1, 2), at_once=37)
    assert torch.equal(whole.key_K, shares.key_K)
    assert torch.equal(whole.first_P1, shares.first_P1)


def test_a_unigram_start_has_the_probabilities_of_its_counts():
    text = random_batch(V - 1, [4, 5, 1])  # word V - 1 does not occur
    potential = Discrete(DiscreteConfig(features="c"), V, count_features(text, parse_features("c"), alphabet(), (1,))).double()
    potential.start_as_unigram(text)
    count_V = torch.bincount(text.ids_N, minlength=V).double() + 1
    words = Batch(torch.arange(V), torch.ones(V, dtype=torch.int64))
    torch.testing.assert_close(potential(words).detach().exp(), V * count_V / count_V.sum())
    with torch.no_grad():
        zeta = Exact.of(potential, V, 3).zeta
    torch.testing.assert_close(initial_zeta(3, V), zeta)  # so a fresh field starts with the right log Z_l


def test_a_file_brings_its_features_along():
    potential = a_potential("w+c+tied", random_batch(V, LENGTHS))
    other = random_batch(V, LENGTHS, seed=9)
    loaded = Discrete(potential.config, V).double()
    assert torch.equal(loaded(other), torch.zeros(len(other), dtype=torch.float64))
    loaded.load_state_dict(potential.state_dict())
    assert torch.equal(loaded(other), potential(other))
    assert torch.equal(loaded.score(other), potential.score(other))

    another = a_potential("w+c+tied", random_batch(V, LENGTHS, seed=8))
    with pytest.raises(RuntimeError, match="features or word classes are not those"):
        another.load_state_dict(potential.state_dict())


def test_names_are_the_authors():
    names = [pattern.name for pattern in parse_features("w+cs+wsh+tied+cpw")]
    assert names[:4] == ["w[1]", "w[2]", "w[3]", "w[4]"]
    assert names[4:8] == ["c[1]-[1]c[1]", "c[1]-[2]c[1]", "c[2]-[1]c[1]", "c[1]-[1]c[2]"]
    assert names[8:] == ["w[1]-[3]w[1]", "w[1]-[4]w[1]", "w[1]-[5:8]w[1]", "c[1]-[5:8]c[1]", "c[1]w[1]", "c[2]w[1]", "c[3]w[1]"]


def test_errors_name_the_remedy():
    with pytest.raises(InputError, match="'skip' is no feature type; join some of w, c,"):
        DiscreteConfig(features="w+skip")
    with pytest.raises(InputError, match="'w' is there twice"):
        DiscreteConfig(features="w+c+w")
    with pytest.raises(ValueError, match="none has an order of 1"):
        DiscreteConfig(features="ws", order=1)
    with pytest.raises(ValueError, match="min_counts"):
        DiscreteConfig(min_counts=(0,))
    with pytest.raises(InputError, match=r"no feature occurs as often as min_counts = \[1000\]"):
        count_features(random_batch(V, LENGTHS), parse_features("w"), alphabet(), (1000,))
    with pytest.raises(InputError, match=r"w\[4\] of 200,000 words.*at most 55,10.*model.order = 3"):
        count_features(random_batch(V, LENGTHS), parse_features("w"), Alphabet(200_000, torch.empty(0)), (1,))


def test_the_engine_scores_snapshots_as_the_plain_field_does(compiled):
    pi = random_pi(14)
    fields = [TRF(tiny_vocab(V), a_potential(ALL, random_batch(V, LENGTHS), seed=seed), pi) for seed in (1, 2)]
    batch = random_batch(V, LENGTHS * 4, seed=3)
    expected = torch.stack([field.potential(batch).detach() + field.log_norm(batch.lengths_B) for field in fields])
    torch.testing.assert_close(Engine(fields).log_probs(batch), expected, rtol=1e-10, atol=1e-10)
