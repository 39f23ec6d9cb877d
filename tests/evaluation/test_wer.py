"""WER against values worked out by hand, against sclite where it is installed, and the tests of significance."""

import math
import random
import re
import shutil
import subprocess
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from evaluation.nbest_cases import three_lists
from hypothesis import given, settings
from hypothesis import strategies as st

from trflm.errors import InputError
from trflm.evaluation import alignment
from trflm.evaluation.alignment import align, nbest_errors, word_errors
from trflm.evaluation.changed import changed_utterances, decisive_words
from trflm.evaluation.figures import Figures, figures
from trflm.evaluation.nbest import NBest
from trflm.evaluation.significance import bootstrap_interval, compare, matched_pairs
from trflm.evaluation.transcripts import read_transcripts, write_transcripts
from trflm.evaluation.wer import WordErrors, word_error_rate

SENTENCE = st.lists(st.sampled_from("abcd"), max_size=7).map(" ".join)


@pytest.mark.parametrize(
    ("reference", "hypothesis", "s", "d", "i"),
    [
        ("a b c", "a b c", 0, 0, 0),
        ("a b c", "a x c", 1, 0, 0),
        ("a b c", "a c", 0, 1, 0),
        ("a b c", "a b x c y", 0, 0, 2),
        ("a b c", "", 0, 3, 0),
        ("", "a", 0, 0, 1),
        ("a b", "b c", 0, 1, 1),  # two substitutions would be as many errors, but with no word right
        ("the cat sat", "cat sat on", 0, 1, 1),
        ("a b c d", "x b d e", 1, 1, 1),
    ],
)
def test_counts_by_hand(reference: str, hypothesis: str, s: int, d: int, i: int) -> None:
    found = align(reference, hypothesis)
    assert (found.substitutions, found.deletions, found.insertions) == (s, d, i)


@given(reference=SENTENCE, hypotheses=st.lists(SENTENCE, min_size=1, max_size=4))
@settings(max_examples=150)
def test_alignment_distance_and_plain_recursion_agree(reference: str, hypotheses: list[str]) -> None:
    def distance(a: list[str], b: list[str]) -> int:
        row = list(range(len(b) + 1))
        for i, word in enumerate(a):
            new = [i + 1]
            for j, other in enumerate(b):
                new.append(min(row[j] + (word != other), row[j + 1] + 1, new[j] + 1))
            row = new
        return row[-1]

    expected = [distance(reference.split(), hypothesis.split()) for hypothesis in hypotheses]
    assert word_errors(reference, hypotheses).tolist() == expected
    for hypothesis, errors in zip(hypotheses, expected, strict=True):
        found = align(reference, hypothesis)
        assert found.substitutions + found.deletions + found.insertions == errors
        heard = [[*gap, word] for gap, word in zip(found.inserted, [*found.heard, None], strict=True)]
        assert [word for part in heard for word in part if word is not None] == hypothesis.split()


def test_errors_of_whole_lists() -> None:
    references = {"a-1": "it rose again", "b": "the end", "c": "know"}
    assert nbest_errors(NBest.collect(three_lists()), references).tolist() == [1, 2, 2, 0, 1, 1]


def test_rate_and_its_faults() -> None:
    result = word_error_rate({"u": "a x c", "v": "b"}, {"u": "a b c d", "v": "b"})
    assert figures(result) == Figures(
        wer=2 / 5,
        errors=2,
        words=5,
        substitutions=1,
        deletions=1,
        insertions=0,
        utterances=2,
        sentence_error_rate=0.5,
        interval=bootstrap_interval(result),
    )
    with pytest.raises(InputError, match=r'ref: utterance "v" \(1 such\) is not in hyp; add'):
        word_error_rate({"u": "a"}, {"u": "a", "v": "b"}, "hyp", "ref")
    with pytest.raises(InputError, match=r'hyp: utterance "v" \(1 such\) is not in ref; add'):
        word_error_rate({"u": "a", "v": "b"}, {"u": "a"}, "hyp", "ref")
    with pytest.raises(InputError, match="the references have no words"):
        word_error_rate({"u": "a"}, {"u": ""})


def systems() -> tuple[WordErrors, WordErrors]:
    """Two systems on 200 utterances of 10 words: A errs with probability 0.3 a word, B with 0.2, drawn together."""
    rng = np.random.default_rng(3)
    references, a, b = {}, {}, {}
    for number in range(200):
        words = [f"w{i}" for i in range(10)]
        draw = rng.random(10)
        references[f"u{number}"] = " ".join(words)
        a[f"u{number}"] = " ".join("x" if p < 0.3 else word for p, word in zip(draw, words, strict=True))
        b[f"u{number}"] = " ".join("x" if 0.05 < p < 0.25 else word for p, word in zip(draw, words, strict=True))
    return word_error_rate(a, references), word_error_rate(b, references)


def test_bootstrap_interval_has_the_binomial_width() -> None:
    a, _ = systems()
    interval = bootstrap_interval(a, seed=1)
    sd = math.sqrt(0.3 * 0.7 / 2000)  # words err independently here, so resampling utterances must find this spread
    assert interval.low < a.rate < interval.high
    assert interval.high - interval.low == pytest.approx(2 * 1.96 * sd, rel=0.15)  # 10 %: the spread of 200 utterances' own sd
    assert interval == bootstrap_interval(a, seed=1)
    assert interval != bootstrap_interval(a, seed=2)


def test_comparison_finds_a_difference_and_none_where_there_is_none() -> None:
    a, b = systems()
    better = compare(a, b)
    assert better.difference == pytest.approx(b.rate - a.rate)
    assert better.interval.low < better.difference < better.interval.high < 0
    assert better.p_bootstrap is not None
    assert better.p_matched_pairs is not None
    assert better.p_bootstrap < 0.001
    assert better.p_matched_pairs < 0.001
    worse = compare(b, a)
    assert (worse.z, worse.segments) == (-better.z, better.segments)
    same = compare(a, a)
    assert (same.difference, same.z, same.p_matched_pairs, same.p_bootstrap) == (0, 0, 1, 1)


def test_segments_of_the_matched_pairs_test_by_hand() -> None:
    references = {"u": "a b c d e f g h"}
    a = word_error_rate({"u": "x b c d x f x h"}, references)  # wrong at a, e and g; f alone does not part e from g
    b = word_error_rate({"u": "a b c d e f g h y"}, references)
    assert matched_pairs(a, b).tolist() == [-1, -1]  # {a}, {e f g h + y}: -2 + 1


def test_z_by_hand() -> None:
    """Segment gains -1, -1, -1, +1: mean -1/2, standard deviation 1, standard error 1/2, z = -1."""
    references = {f"u{i}": "a b c" for i in range(4)}
    a = word_error_rate({"u0": "x b c", "u1": "x b c", "u2": "x b c", "u3": "a b c"}, references)
    b = word_error_rate({"u0": "a b c", "u1": "a b c", "u2": "a b c", "u3": "a x c"}, references)
    result = compare(a, b)
    assert (result.segments, result.z) == (4, pytest.approx(-1))


def test_p_of_the_matched_pairs_by_hand() -> None:
    """20 segments, 15 of gain -1 and 5 of +1: mean -1/2, standard deviation sqrt(15/19), z = -1/2 / sqrt(15/19/20)."""
    references = {f"u{i}": "a b c" for i in range(20)}
    a = word_error_rate({f"u{i}": "x b c" if i < 15 else "a b c" for i in range(20)}, references)
    b = word_error_rate({f"u{i}": "a b c" if i < 15 else "a x c" for i in range(20)}, references)
    result = compare(a, b)
    z = -0.5 / math.sqrt(15 / 19 / 20)
    assert (result.segments, result.z) == (20, pytest.approx(z))
    assert result.p_matched_pairs == pytest.approx(math.erfc(-z / math.sqrt(2)))


def test_a_handful_of_utterances_has_no_p_value() -> None:
    """One utterance: every resample is that utterance, and any difference would be called certain."""
    references = {f"u{i}": "a b c" for i in range(19)}
    a = word_error_rate(dict.fromkeys(references, "x b c"), references)
    b = word_error_rate(references, references)
    result = compare(a, b)
    assert (result.p_bootstrap, result.p_matched_pairs) == (None, None)
    references["u19"] = "a b c"
    a = word_error_rate(dict.fromkeys(references, "x b c"), references)
    assert compare(a, word_error_rate(references, references)).p_bootstrap == pytest.approx(2 / 10_001)


def random_pair(rng: random.Random) -> tuple[str, str]:
    """A reference and a hypothesis of few different words, so that many alignments are equally short."""
    words = [rng.choice("abcd") for _ in range(rng.randrange(40))]
    heard = [word if rng.random() > 0.2 else rng.choice("abcd") for word in words if rng.random() > 0.15]
    return " ".join(words), " ".join(heard if rng.random() > 0.3 else [rng.choice("abcd") for _ in range(rng.randrange(40))])


def test_alignment_in_linear_memory_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(1)
    for number in range(200):
        reference, hypothesis = random_pair(rng)
        whole = align(reference, hypothesis)
        with monkeypatch.context() as patch:
            patch.setattr(alignment, "MOST_CELLS", (0, 3, 20)[number % 3])
            assert align(reference, hypothesis) == whole


def test_a_long_utterance_is_aligned_in_little_memory() -> None:
    """2,000 words against 2,000: the table would have 4 million cells, some 150 MB of lists and numbers."""
    rng = random.Random(2)
    words = [str(rng.randrange(300)) for _ in range(2000)]
    heard = [word if rng.random() > 0.1 else "x" for word in words]
    tracemalloc.start()
    found = align(" ".join(words), " ".join(heard))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found.substitutions == heard.count("x")
    assert peak < 10e6


def test_changes_say_which_words_decided() -> None:
    references = {"u": "the market rose today", "v": "no change", "w": "it fell"}
    a = word_error_rate({"u": "the market rows to day", "v": "no change", "w": "it fell"}, references)
    b = word_error_rate({"u": "the market rose today", "v": "no change", "w": "it felt"}, references)
    first, second = changed_utterances(a, b)
    assert (first.utterance, first.gain, second.utterance, second.gain) == ("u", 3, "w", -1)
    (difference,) = first.differences
    assert (difference.reference, difference.a, difference.b) == ("rose today", "rows to day", "rose today")
    repaired, broken = decisive_words([first, second])
    assert (dict(repaired), dict(broken)) == ({"rose": 1, "today": 1}, {"fell": 1})


def test_transcripts_come_back_and_faults_are_named(tmp_path: Path) -> None:
    transcripts = {"u": "a b", "v": ""}
    write_transcripts(transcripts, tmp_path / "t.txt.gz")
    assert read_transcripts(tmp_path / "t.txt.gz") == transcripts
    for text, message in [
        ("u a\nu b\n", '2: utterance "u" was already on line 1'),
        ("u a\n\n", "2: the line is empty"),
        ("", "no t"),
    ]:
        (tmp_path / "t.txt").write_text(text)
        with pytest.raises(InputError, match=message):
            read_transcripts(tmp_path / "t.txt")


@pytest.mark.skipif(not shutil.which("sctk"), reason="sclite (Debian package sctk) is not installed")
def test_sclite_counts_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    vocabulary = [f"w{i}" for i in range(12)]
    references, hypotheses = {}, {}
    for number in range(60):
        words = list(rng.choice(vocabulary, rng.integers(3, 12)))
        references[f"s_{number}"] = " ".join(words)
        for _ in range(rng.integers(0, 3)):
            place = int(rng.integers(0, len(words)))
            words[place : place + int(rng.integers(0, 2))] = list(rng.choice(vocabulary, rng.integers(0, 3)))
            words = words or ["w0"]
        hypotheses[f"s_{number}"] = " ".join(words)
    for name, transcripts in [("ref", references), ("hyp", hypotheses)]:
        (tmp_path / name).write_text("".join(f"{words} ({utterance})\n" for utterance, words in transcripts.items()))
    arguments = "sctk sclite -i rm -r ref trn -h hyp trn -o rsum -O . -n out"
    subprocess.run(arguments.split(), cwd=tmp_path, check=True, capture_output=True)
    match = re.search(r"\| Sum .*", (tmp_path / "out.raw").read_text())
    assert match is not None
    counts = [int(field) for field in match[0].replace("|", " ").split()[1:]]
    result = figures(word_error_rate(hypotheses, references))
    names = ["utterances", "words", None, "substitutions", "deletions", "insertions", "errors"]
    assert {name: counts[place] for place, name in enumerate(names) if name} == {
        name: getattr(result, name) for name in names if name
    }
