"""Which form transcripts have is told from their content, or asked for; never guessed wrongly."""

from pathlib import Path

import pytest

from trflm.errors import InputError
from trflm.evaluation.layout import laid_out, pairs
from trflm.evaluation.transcript_formats import as_characters, is_name, read_alike
from trflm.evaluation.wer import word_error_rate


@pytest.fixture
def files(tmp_path: Path):
    def write(*texts: str) -> list[Path]:
        paths = [tmp_path / f"{name}.txt" for name in ("hyp", "ref", "against")[: len(texts)]]
        for path, text in zip(paths, texts, strict=True):
            path.write_text(text, encoding="utf-8")
        return paths

    return write


WORDS = ["the", "a", "and", "he", "she", "it", "of", "to", "in", "we", "they", "you", "one", "two"]


@pytest.mark.parametrize(
    ("hyp", "ref", "form", "first"),
    [
        ("u2 b\nu1 a c\n", "u1 a\nu2 b\n", "kaldi", {"u2": "b", "u1": "a c"}),
        ("440c0201 it fell\n", "440c0201 it felt\n", "kaldi", {"440c0201": "it fell"}),
        ("1089-134686-0000 HE HOPED\n", "1089-134686-0000 HE HOPPED\n", "kaldi", {"1089-134686-0000": "HE HOPED"}),
        ("a c (spk_u1)\n(spk_u2)\n", ";; a comment\na (spk_u1)\n\nb (spk_u2)\n", "trn", {"spk_u1": "a c", "spk_u2": ""}),
        ("u1 a c\n", "a (u1)\n", "kaldi and trn", {"u1": "a c"}),
        ("it fell\nit rose\n\n", "it felt\nit rose\nyes\n", "plain", {"line 1": "it fell", "line 2": "it rose", "line 3": ""}),
        ("15 miles\n20 men\n15 miles\n", "15 miles\n20 men\n50 miles\n", "plain", {"line 1": "15 miles", "line 2": "20 men"}),
        # Ten words of their own that nobody says: names, though they look like words.
        ("".join(f"{w} x\n" for w in WORDS), "".join(f"{w} y\n" for w in WORDS[::-1]), "kaldi", {"the": "x"}),
    ],
)
def test_the_form_is_told_from_the_content(files, hyp, ref, form, first):
    (read, _), found = read_alike(files(hyp, ref))
    assert found == form
    assert {name: read[name] for name in first} == first


@pytest.mark.parametrize(
    ("hyp", "ref"),
    [
        ("hello word\ngood morning\n", "hello world\ngood morning\n"),  # said, though each line begins in a way of its own
        ("15 miles\n20 men\n", "15 miles\n20 man\n"),
        ("a x\nb y\n", "a x\nb z\n"),
        ("".join(f"{w} the\n" for w in WORDS), "".join(f"{w} the\n" for w in WORDS)),  # "the" is said
    ],
)
def test_what_cannot_be_told_is_asked(files, hyp, ref):
    paths = files(hyp, ref)
    with pytest.raises(InputError, match="say --format kaldi or --format plain"):
        read_alike(paths)
    (plain_hyp, plain_ref), _ = read_alike(paths, "plain")
    (kaldi_hyp, kaldi_ref), _ = read_alike(paths, "kaldi")
    plain, kaldi = word_error_rate(plain_hyp, plain_ref), word_error_rate(kaldi_hyp, kaldi_ref)
    assert plain.words == kaldi.words + len(plain.utterances)


@pytest.mark.parametrize(
    ("hyp", "ref", "form", "message"),
    [
        ("u1 a\nu1 b\nu2 c\nu3 d\nu4 e\nu5 f\n", "u1 a\n", "auto", r'hyp\.txt:2: utterance "u1" was already on line 1'),
        ("a (u1)\nb (u2)\nc (u3)\nd (u4)\ne (u4)\n", "a (u1)\n", "auto", r'hyp\.txt:5: utterance "u4" was already on line 4'),
        ("it fell\nit rose\n", "it fell\nit\nit\n", "auto", "neither names .* nor equal numbers of lines"),
        (
            "it fell\nit rose\n",
            "u2 it rose\nu1 it fell\n",
            "auto",
            r"ref\.txt: lines begin with names .* those of .*hyp\.txt do not",
        ),
        ("it fell\n", "it fell\nit rose\n", "plain", r"ref\.txt: 2 lines, but .*hyp\.txt has 1"),
        ("it fell\n", "it fell\n", "trn", r"hyp\.txt:1: does not end with \(UTT\)"),
        ("{ a / b } (u1)\n", "a (u1)\n", "auto", r"hyp\.txt:1: alternatives .* cannot be scored"),
        ("u1 a\n\n", "u1 a\n", "kaldi", r"hyp\.txt:2: the line is empty"),
        ("", "", "auto", "there is no transcript in it"),
        ("u1 a\n", "u1 a\n", "stm", "--format stm: give auto, kaldi, trn, plain"),
    ],
)
def test_what_is_wrong_is_named(files, hyp, ref, form, message):
    with pytest.raises(InputError, match=message):
        read_alike(files(hyp, ref), form)


@pytest.mark.parametrize(
    ("word", "yes"),
    [
        ("u1", True),
        ("spk_a", True),
        ("4k0c0301", True),
        ("hello", False),
        ("15", False),
        ("15th", False),
        ("twenty-one", False),
    ],
)
def test_names_and_words(word, yes):
    assert is_name(word) is yes


def test_characters_leave_out_blanks_and_join_accents():
    assert as_characters({"u": "ab  c"}) == {"u": "a b c"}
    assert as_characters({"u": "e\u0301"}) == {"u": "\u00e9"}
    errors = word_error_rate(as_characters({"u": "今天 天汽"}), as_characters({"u": "今天天气"}))
    assert (errors.errors, errors.words) == (1, 4)


def test_an_alignment_is_laid_out():
    errors = word_error_rate({"u": "the hat sat down", "v": "b"}, {"u": "the cat on sat", "v": "b"})
    assert list(laid_out(errors)) == [
        "u: S 1 D 1 I 1",
        "  said   the cat on  sat ****",
        "  heard  the *** hat sat down",
        "             D   S       I",
    ]
    assert pairs(errors.alignments[0])[-2:] == [("sat", "sat"), (None, "down")]


def test_long_utterances_and_wide_characters_stay_in_columns():
    words = "word " * 60
    long = list(laid_out(word_error_rate({"u": words + "end"}, {"u": words})))
    assert max(map(len, long)) <= 110
    assert sum(line.startswith("  said") for line in long) == 4
    wide = list(laid_out(word_error_rate({"u": "天 b"}, {"u": "天"})))
    assert wide[1:] == ["  said   天 *", "  heard  天 b", "            I"]
