r"""ARPA files: against another reader of the format, in the styles of other tools, and malformed in every way."""

import gzip
import math
import warnings
from pathlib import Path

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trflm.errors import InputError
from trflm.lms.ngram import KneserNeyConfig, NGram, kneser_ney, read_arpa, write_arpa
from trflm.text import Batch, Vocab

LN10 = math.log(10)

# As SRILM writes: <s> at -99, no backoff where there is none to give, a blank line before \data\.
SRILM = """
\\data\\
ngram 1=5
ngram 2=4
ngram 3=2

\\1-grams:
-0.5\t</s>
-99\t<s>\t-0.3
-1.2\t<unk>
-0.7\ta\t-0.2
-0.9\tb\t-0.1

\\2-grams:
-0.4\t<s> a\t-0.15
-0.6\ta b\t-0.05
-0.8\ta </s>
-0.3\tb </s>

\\3-grams:
-0.2\t<s> a b
-0.1\ta b </s>

\\end\\
"""

# As KenLM and others: log10 p of <s> 0, a backoff everywhere, other blanks, a comment, <UNK>, n-grams that no sentence has.
OTHER = """made by hand
\\data\\
ngram 1 = 5
ngram  2=5
\\1-grams:
-1.2 <UNK> 0
0  <s>  -0.3
-0.5\t\t</s>\t0
 -0.7 a -0.2
-0.9 b -0.1\r
\\2-grams:
-0.4 <s> a 0
-0.6 a b 0
-0.8 a </s> 0
-0.3 b </s> 0
-0.1 </s> <s> 0
\\end\\
"""


def save(text: str, path: Path) -> Path:
    path.write_text(text, newline="")
    return path


@pytest.fixture(scope="module")
def model(text: Batch, vocab: Vocab) -> NGram:
    return kneser_ney(text, vocab, KneserNeyConfig(order=4, min_counts=(1, 1, 2)))


@pytest.mark.parametrize("name", ["lm.arpa", "lm.arpa.gz"])
def test_there_and_back(model: NGram, text: Batch, tmp_path: Path, name: str) -> None:
    write_arpa(model, tmp_path / name)
    back = read_arpa(tmp_path / name)
    assert back.vocab == model.vocab
    assert back.n_parameters() == model.n_parameters()
    torch.testing.assert_close(back.log_prob(text), model.log_prob(text))
    assert (tmp_path / name).read_bytes().startswith(b"\x1f\x8b") == name.endswith(".gz")


@pytest.mark.filterwarnings("ignore:the .-grams")
@pytest.mark.parametrize("order", [2, 3, 5])
def test_kenlm_reads_ours_and_scores_the_same(text: Batch, vocab: Vocab, tmp_path: Path, order: int) -> None:
    kenlm = pytest.importorskip("kenlm")
    lm = kneser_ney(text, vocab, KneserNeyConfig(order=order))
    write_arpa(lm, tmp_path / "lm.arpa")
    sentences = [*vocab.sentences(text.select(torch.arange(100))), "never seen w1 w2", "zebra w1", "w290 w3 w3 w3 w2"]
    theirs = kenlm.Model(str(tmp_path / "lm.arpa"))
    expected = torch.tensor([theirs.score(sentence, bos=True, eos=True) * LN10 for sentence in sentences])
    torch.testing.assert_close(lm.log_prob(sentences).float(), expected, rtol=1e-5, atol=1e-5)


def test_a_file_of_srilm_scores_as_in_kenlm(tmp_path: Path) -> None:
    kenlm = pytest.importorskip("kenlm")
    path = save(SRILM.lstrip(), tmp_path / "lm.arpa")
    theirs = kenlm.Model(str(path))
    sentences = ["a b", "a", "b b a", "zebra a b", "a a"]
    expected = torch.tensor([theirs.score(sentence, bos=True, eos=True) * LN10 for sentence in sentences])
    torch.testing.assert_close(read_arpa(path).log_prob(sentences).float(), expected, rtol=1e-5, atol=1e-5)


def test_another_style_is_the_same_model(tmp_path: Path) -> None:
    bigrams = SRILM.replace("ngram 3=2\n", "").replace("\\3-grams:\n-0.2\t<s> a b\n-0.1\ta b </s>\n", "")
    expected, other = (read_arpa(save(text, tmp_path / "lm.arpa")) for text in (bigrams, OTHER))
    sentences = ["a b", "a", "b b a", "zebra a b", "a a"]
    assert other.tables.n == 2
    torch.testing.assert_close(other.log_prob(sentences), expected.log_prob(sentences))


def test_a_score_by_hand(tmp_path: Path) -> None:
    lm = read_arpa(save(SRILM, tmp_path / "lm.arpa"))
    explanation = lm.explain(["a b", "b a"])
    # <s> a, <s> a b, a b </s>; then b after <s> by backoff, a after b by backoff, a </s>
    expected = torch.tensor([-0.4, -0.2, -0.3 - 0.9, -0.1 - 0.7]) * LN10
    torch.testing.assert_close(explanation.word_N.float(), expected)
    torch.testing.assert_close(explanation.rest_B.float(), torch.tensor([-0.1, -0.8]) * LN10)


def test_without_unk_unknown_words_are_all_but_impossible(tmp_path: Path) -> None:
    text = SRILM.replace("-1.2\t<unk>\n", "").replace("1=5", "1=4")
    with pytest.warns(UserWarning, match="has no <unk>"):
        lm = read_arpa(save(text, tmp_path / "lm.arpa"))
    torch.testing.assert_close(lm.explain(["a zebra"]).word_N[1].float() / LN10, torch.tensor(-100 - 0.2 - 0.15))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("\\data\\", "data", r"lm.arpa: there is no \\data\\ line"),
        ("ngram 2=4", "ngram 3=4", r"lm.arpa:4: in \\data\\: 'ngram 3=4' is not 'ngram 2=COUNT'"),
        ("ngram 2=4", "ngram 2=-4", r"lm.arpa:4: in \\data\\"),
        ("ngram 2=4", "ngram 2=5", r"lm.arpa:20: the section \\2-grams: holds 4 n-grams, but \\data\\ announces 5"),
        ("\\2-grams:", "\\3-grams:", r"lm.arpa:14: expected the section \\2-grams: but found '\\\\3-grams:'"),
        ("-0.6\ta b\t-0.05", "-0.6 a b c d", r"lm.arpa:16: in \\2-grams: '-0.6 a b c d' has 5 fields"),
        ("-0.6\ta b\t-0.05", "-0.6 a", r"lm.arpa:16: in \\2-grams: '-0.6 a' has 2 fields"),
        ("-0.6\ta b\t-0.05", "-0.6 a b c", r"lm.arpa:16: in \\2-grams: could not convert string to float: 'c'"),
        ("-0.6\ta b\t-0.05", "-0.6 a c", r"lm.arpa:16: in \\2-grams: the word 'c' is not among the 1-grams"),
        ("-0.6\ta b\t-0.05", "0.6 a b", r"lm.arpa:16: in \\2-grams: 0.6 as log10 probability"),
        ("-0.6\ta b\t-0.05", "nan a b", r"lm.arpa:16: in \\2-grams: nan as log10 probability"),
        ("-0.6\ta b\t-0.05", "-0.6 a </s>", r"lm.arpa:17: in \\2-grams: this n-gram was already on line 16"),
        ("-0.6\ta b\t-0.05", "-0.6 b a", r"lm.arpa:22: in \\3-grams: the first 2 words of this n-gram are not"),
        ("-0.9\tb", "-0.9\ta", r"lm.arpa:12: in \\1-grams: the word 'a' is listed twice"),
        ("-99\t<s>\t-0.3\n", "-99\tc\n", r"lm.arpa: <s> is not among the 1-grams"),
        ("\\end\\\n", "", r"lm.arpa: the file ends in \\3-grams: without \\end\\"),
        ("\\end\\\n", "\\4-grams:\n", r"lm.arpa:24: expected \\end\\ but found"),
        ("\\end\\\n", "\\end\\\nmore", r"lm.arpa:25: 'more' after \\end\\"),
    ],
)  # fmt: skip
def test_malformed_files_name_line_and_section(old: str, new: str, message: str, tmp_path: Path) -> None:
    assert old in SRILM
    with pytest.raises(InputError, match=message):
        read_arpa(save(SRILM.replace(old, new, 1), tmp_path / "lm.arpa"))


def test_a_damaged_archive(model: NGram, tmp_path: Path) -> None:
    (tmp_path / "lm.arpa.gz").write_bytes(gzip.compress(SRILM.encode())[:-20])
    with pytest.raises(InputError, match="damaged"):
        read_arpa(tmp_path / "lm.arpa.gz")


def test_a_vocabulary_that_holds_a_marker_cannot_be_written(tmp_path: Path) -> None:
    vocab = Vocab(["<unk>", "<s>"])
    with pytest.warns(UserWarning, match="too few"):
        lm = kneser_ney(vocab.batch(["<s>"]), vocab, KneserNeyConfig(order=1))
    with pytest.raises(InputError, match="rename it"):
        write_arpa(lm, tmp_path / "lm.arpa")


EDITS = st.lists(
    st.tuples(
        st.sampled_from(["drop line", "repeat line", "swap lines", "replace field", "insert text"]),
        st.integers(0, 10_000),
        st.integers(0, 10_000),
        st.one_of(
            st.sampled_from(
                ["", "-0.5", "0.5", "nan", "-inf", "inf", "1e999", "<s>", "</s>", "<unk>", "a", "\\end\\", "\\data\\"]
            ),
            st.sampled_from(
                ["\\1-grams:", "\\2-grams:", "\\-grams:", "ngram 1=5", "ngram 2=" + "9" * 5000, "²", "1_0", "\x00"]
            ),
            st.text(max_size=4),
        ),
    ),
    min_size=1,
    max_size=5,
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=EDITS, source=st.sampled_from([SRILM, OTHER]))
def test_whatever_happens_to_a_file_only_input_errors_come_out(
    edits: list[tuple[str, int, int, str]], source: str, tmp_path: Path
) -> None:
    lines = source.split("\n")
    for edit, i, j, text in edits:
        i, j = i % len(lines), j % len(lines)
        if edit == "drop line" and len(lines) > 1:
            del lines[i]
        elif edit == "repeat line":
            lines.insert(j, lines[i])
        elif edit == "swap lines":
            lines[i], lines[j] = lines[j], lines[i]
        elif edit == "insert text":
            lines[i] = lines[i][:j] + text + lines[i][j:]
        elif fields := lines[i].split():
            fields[j % len(fields)] = text
            lines[i] = " ".join(fields)
    path = tmp_path / "lm.arpa"
    path.write_bytes("\n".join(lines).encode("utf-8", "surrogatepass"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            lm = read_arpa(path)
        except InputError:
            return
    assert lm.log_prob(["a b", "zebra"]).shape == (2,)
