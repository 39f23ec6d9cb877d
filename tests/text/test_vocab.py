import pytest
import torch

from trflm.errors import InputError
from trflm.text import UNK, Batch, Vocab


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("b a a\nc b a <unk>\n\nd b\n")
    return path


def test_from_text_is_ordered_by_count_then_word(text):
    assert Vocab.from_text([text]).words == (UNK, "a", "b", "c", "d")


def test_size_counts_unk(text):
    assert Vocab.from_text([text], size=3).words == (UNK, "a", "b")
    assert Vocab.from_text([text], size=1).words == (UNK,)


def test_min_count(text):
    assert Vocab.from_text([text], min_count=2).words == (UNK, "a", "b")


def test_list_round_trip(tmp_path):
    vocab = Vocab([UNK, "zwei", "ä", "'s"])
    path = tmp_path / "vocab.txt"
    path.write_text(vocab.to_text(), encoding="utf-8")
    assert Vocab.from_list(path) == vocab


def test_a_list_without_unk_gets_it_first(tmp_path):
    (tmp_path / "v").write_text("x\ny\n")
    assert Vocab.from_list(tmp_path / "v").words == (UNK, "x", "y")


@pytest.mark.parametrize(
    ("content", "message"), [("a\nb c\n", "v:2: 'b c' is not one word"), ("a\nb\na\n", "v:3: 'a' was already")]
)
def test_a_bad_list_names_the_line(tmp_path, content, message):
    (tmp_path / "v").write_text(content)
    with pytest.raises(InputError, match=message):
        Vocab.from_list(tmp_path / "v")


def test_strings_to_batch_and_back():
    vocab = Vocab([UNK, "a", "b"])
    batch = vocab.batch(["a b", "nobody a a"])
    assert batch.ids_N.tolist() == [1, 2, 0, 1, 1]
    assert batch.lengths_B.tolist() == [2, 3]
    assert vocab.sentences(batch) == ["a b", "<unk> a a"]
    assert vocab.batch(batch) is batch


def test_an_empty_sentence_is_refused():
    with pytest.raises(InputError, match="sentence 1 has no words"):
        Vocab([UNK, "a"]).batch(["a", "  "])


def test_select_repeats_and_reorders():
    batch = Batch(torch.tensor([1, 2, 3, 4, 5, 6], dtype=torch.int32), torch.tensor([1, 3, 2]))
    chosen = batch.select(torch.tensor([2, 0, 2, 1]))
    assert chosen.ids_N.tolist() == [5, 6, 1, 5, 6, 2, 3, 4]
    assert chosen.lengths_B.tolist() == [2, 1, 2, 3]
    assert chosen.ids_N.dtype == torch.int64
    assert chosen.sentence_N.tolist() == [0, 0, 1, 2, 2, 3, 3, 3]
    assert chosen.position_N.tolist() == [0, 1, 0, 0, 1, 0, 1, 2]
    assert chosen.remaining_N.tolist() == [1, 0, 0, 1, 0, 2, 1, 0]


@pytest.mark.parametrize("lengths", [[2, 0, 1], [2, 2]])
def test_a_batch_that_does_not_add_up_is_refused(lengths):
    with pytest.raises(ValueError, match=r"at least one word|add up"):
        Batch(torch.tensor([1, 2, 3]), torch.tensor(lengths))
