import contextlib
import gzip

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trflm.errors import InputError
from trflm.text import UNK, Vocab, read_corpus

VOCAB = Vocab([UNK, "a", "b"])


def test_counts_what_happened(tmp_path):
    path = tmp_path / "t.txt"
    path.write_text("a b\n\n   \nb b b b\nx a <unk>\n")
    corpus = read_corpus(path, VOCAB, max_length=3)
    assert corpus.sentences.ids_N.tolist() == [1, 2, 0, 1, 0]
    assert (corpus.empty_lines, corpus.too_long, corpus.unknown_words) == (2, 1, 2)
    assert corpus.sentences.ids_N.dtype == torch.int32
    assert "2 empty lines skipped, 1 over-long sentences left out" in corpus.summary()


def test_gz_windows_line_ends_and_byte_order_mark(tmp_path):
    (tmp_path / "t.txt.gz").write_bytes(gzip.compress(b"\xef\xbb\xbfa b\r\nb"))
    corpus = read_corpus(tmp_path / "t.txt.gz", VOCAB)
    assert corpus.sentences.ids_N.tolist() == [1, 2, 2]
    assert corpus.unknown_words == 0


def test_bad_utf8_names_line_and_byte_offset(tmp_path):
    path = tmp_path / "t.txt"
    path.write_bytes(b"a b\n\xc3\xa4 a\na \xff b\n")
    with pytest.raises(InputError, match=r"t\.txt:3: byte 0xff at offset 11 is not UTF-8; convert"):
        read_corpus(path, VOCAB)


def test_a_truncated_archive_is_an_input_error(tmp_path):
    whole = gzip.compress(b"a b\n" * 10_000)
    (tmp_path / "t.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="damaged"):
        read_corpus(tmp_path / "t.gz", VOCAB)


@pytest.mark.parametrize("content", ["", "\n\n", "a a a a\n"])
def test_nothing_to_read_is_said(tmp_path, content):
    (tmp_path / "t").write_text(content)
    with pytest.raises(InputError, match="no sentence"):
        read_corpus(tmp_path / "t", VOCAB, max_length=3)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"nowhere\.txt: cannot be read: No such file"):
        read_corpus(tmp_path / "nowhere.txt", VOCAB)


@given(st.binary(max_size=200), st.booleans())
def test_any_bytes_are_read_or_refused_with_a_message(tmp_path_factory, content, packed):
    path = tmp_path_factory.mktemp("any") / ("t.gz" if packed else "t.txt")
    path.write_bytes(content)
    with contextlib.suppress(InputError):
        assert read_corpus(path, VOCAB).sentences.n_words > 0


@given(st.lists(st.lists(st.sampled_from(["a", "b", "c"]), max_size=6), min_size=1))
def test_words_come_back_in_order(tmp_path_factory, sentences):
    path = tmp_path_factory.mktemp("order") / "t.txt"
    path.write_text("".join(" ".join(words) + "\n" for words in sentences))
    kept = [words for words in sentences if words]
    if not kept:
        return
    expected = [" ".join(word if word in VOCAB else UNK for word in words) for words in kept]
    assert VOCAB.sentences(read_corpus(path, VOCAB).sentences) == expected
