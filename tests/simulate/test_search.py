"""The search against all strings of a tiny lexicon."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("numba")
from trflm.errors import InputError
from trflm.evaluation.nbest import NBestList
from trflm.simulate.arcs import ArcConfig
from trflm.simulate.channel import Channel, ChannelConfig
from trflm.simulate.exact import string_likelihoods
from trflm.simulate.lists import simulate
from trflm.simulate.phones import NUMBER
from trflm.simulate.prior import Prior
from trflm.simulate.pronunciations import Lexicon, read_pronunciations
from trflm.simulate.search import Recogniser, SearchConfig

DICTIONARY = "a AH\na(2) EY\nrose R OW Z\nrows R OW Z\nthe DH AH\nthe(2) DH IY\nroad R OW D\nowes OW Z\n"
TEXT = [["the", "rose"], ["a", "road"], ["the", "rows"], ["the", "rose", "a", "rose"], ["a", "rose", "owes"]]
WIDE = SearchConfig(
    width=4000, beam=1e9, scale=0.5, per_word=-0.1, deleted=4, arcs=ArcConfig(1e9, 1e9, 1000, missing=10, slack=10)
)
CHANNEL = Channel(ChannelConfig(substitution=0.3, insertion=0.05, deletion=0.1))


@pytest.fixture(scope="module")
def lexicon(tmp_path_factory: pytest.TempPathFactory) -> Lexicon:
    path: Path = tmp_path_factory.mktemp("dict") / "tiny.dict"
    path.write_text(DICTIONARY)
    return Lexicon.of((word for line in TEXT for word in line), read_pronunciations(path))


def phones(text: str) -> list[int]:
    return [NUMBER[phone] for phone in text.split()]


def test_string_likelihoods_sum_over_ways_to_say_it(lexicon: Lexicon) -> None:
    heard = phones("AH R OW D")
    strings = [tuple(lexicon.number[word] for word in text.split()) for text in ("a road", "the rose", "a", "a road a")]
    found = string_likelihoods(strings, np.array(heard), lexicon, CHANNEL)
    for string, likelihood in zip(strings, found, strict=True):
        ways = list(product(*(lexicon.ways[word] for word in string)))
        mean = np.mean([CHANNEL.likelihood([p for way in said for p in way], heard) for said in ways])
        assert likelihood == pytest.approx(mean, rel=1e-12)


@pytest.mark.parametrize("heard", ["R OW Z", "DH AH R OW", "AH"])
def test_a_wide_beam_finds_the_true_n_best(lexicon: Lexicon, heard: str) -> None:
    prior = Prior.estimate(lexicon, TEXT)
    found = Recogniser(lexicon, CHANNEL, prior, WIDE).recognise(phones(heard), 12)
    strings = [s for length in range(1, 5) for s in product(range(len(lexicon)), repeat=length)]
    acoustic = np.log(string_likelihoods(strings, np.array(phones(heard)), lexicon, CHANNEL))
    steer = np.array([0.5 * prior.sentence(s) - 0.1 * len(s) for s in strings])
    best = np.argsort(-(acoustic + steer), kind="stable")[:12]
    assert max(len(strings[k]) for k in best) < 4  # enumerating up to four words was enough
    scores = [f.acoustic + 0.5 * f.prior - 0.1 * len(f.words) for f in found]
    np.testing.assert_allclose(scores, (acoustic + steer)[best], rtol=1e-9)
    assert {f.words for f in found[:8]} <= {strings[k] for k in best}
    for f in found:
        assert f.acoustic == pytest.approx(acoustic[strings.index(f.words)], rel=1e-9)


def test_the_beams_own_probabilities_are_those_of_the_forward_algorithm(lexicon: Lexicon) -> None:
    """Before anything is computed again: alpha at the last place, all segmentations summed."""
    from trflm.simulate.arcs import find_arcs, look_ahead
    from trflm.simulate.beam import decode
    from trflm.simulate.search import words_of

    heard = np.array(phones("R OW Z"))
    prior = Prior.uniform(len(lexicon))
    arcs = find_arcs(heard, lexicon, CHANNEL, prior.unigram_W, look_ahead(lexicon.tree, prior.unigram_W), WIDE.arcs)
    beams, before, word = decode(3, arcs, prior.table(), (1.0, 0.0), 4000, 1e9, 3)
    size, _, numbers, _, alphas, _ = beams
    checked = 0
    for k in range(size[3]):
        string = words_of(int(numbers[3, k]), before, word)
        if len(string) in (1, 2):
            column = CHANNEL.start(3)[None]
            total = 0.0
            ways = list(product(*(lexicon.ways[w] for w in string)))
            for said in ways:
                alpha = column
                for phone in (p for way in said for p in way):
                    alpha = CHANNEL.advance(alpha, np.array([phone]), heard[None])
                total += alpha[0, 3] / len(ways)
            assert alphas[3, k] == pytest.approx(np.log(total), rel=1e-9)
            checked += 1
    assert checked == 6 + 36


def test_the_prior_is_the_kneser_ney_bigram(lexicon: Lexicon) -> None:
    prior = Prior.estimate(lexicon, TEXT)
    n = len(lexicon)
    for before in range(-1, n):
        total = sum(np.exp(prior.bigram(before, word)) for word in range(n)) + np.exp(prior.end(before))
        assert 0.9 < total < 1  # the rest is <unk>'s
    assert prior.bigram(-1, lexicon.number["a"]) > prior.bigram(-1, lexicon.number["owes"])


def test_lists_depend_on_the_seed_alone(lexicon: Lexicon) -> None:
    recogniser = Recogniser(lexicon, CHANNEL, Prior.estimate(lexicon, TEXT), SearchConfig(width=20))

    def key(lists: list[NBestList]) -> list:
        return [
            (x.utterance, tuple(x.texts), x.scores["acoustic"].tolist(), x.scores["lm"].tolist(), x.reference) for x in lists
        ]

    one = key(list(simulate(TEXT, recogniser, 5, seed=3)))
    assert key(list(simulate(TEXT, recogniser, 5, seed=3, jobs=2))) == one
    assert key(list(simulate(TEXT, recogniser, 5, seed=4))) != one
    assert [entry[-1] for entry in one] == [" ".join(words) for words in TEXT]
    assert one[0][0] == "utt0001"


def test_a_bad_dictionary_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bad.dict"
    path.write_text("a AH\nb QQ\n")
    with pytest.raises(InputError, match=r"bad.dict:2: 'QQ' is not a phone"):
        read_pronunciations(path)
    path.write_text("a\n")
    with pytest.raises(InputError, match=r"bad.dict:1: 'a' has no phones"):
        read_pronunciations(path)
