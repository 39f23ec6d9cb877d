"""Texts on disk: the same sentences as in memory, in an order that follows from seed and epoch, and no damage unnoticed."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
import torch
from harness import random_batch, rng

from trflm.errors import InputError
from trflm.experiment.data import DataConfig, files_of
from trflm.learning import batches as batching
from trflm.learning.batches import ShuffledBatches
from trflm.learning.shards import Shard
from trflm.text import Batch, PackedText, Vocab, read_corpus
from trflm.text import packed as packing
from trflm.text.corpus import DistinctWords, content_of, pack_corpus
from trflm.text.packed import Damaged, Tally, open_packed, write_packed
from trflm.text.word_counts import count_words

V, BLOCK, WINDOW = 50, 40, 4


@pytest.fixture
def text(tmp_path, monkeypatch) -> tuple[PackedText, Batch]:
    """A text of many small blocks, and the same in memory."""
    monkeypatch.setattr(packing, "BLOCK_WORDS", BLOCK)
    monkeypatch.setattr(batching, "WINDOW_BLOCKS", WINDOW)
    lengths = torch.randint(1, 9, (240,), generator=rng(1)).tolist()
    whole = random_batch(V, lengths)
    write_packed(tmp_path / "text.packed", in_pieces(whole), V, lambda: Tally(1, 2, 3, 4))
    return open_packed(tmp_path / "text.packed"), whole


def in_pieces(whole: Batch):
    """(ids, lengths) of 3 sentences at a time."""
    for index in torch.arange(len(whole)).split(3):
        piece = whole.select(index)
        yield piece.ids_N.numpy(), piece.lengths_B.numpy()


def sentences_of(batch: Batch) -> list[tuple[int, ...]]:
    return [tuple(ids.tolist()) for ids in batch.ids_N.split(batch.lengths_B.tolist())]


def test_a_packed_text_is_the_text(text):
    packed, whole = text
    assert packed.n_blocks > 20
    assert (len(packed), packed.n_words, packed.tally) == (len(whole), whole.n_words, Tally(1, 2, 3, 4))
    assert sentences_of(packed.whole()) == sentences_of(whole)
    assert packed.whole().ids_N.dtype == torch.int32
    assert torch.equal(packed.word_counts(V + 2), whole.word_counts(V + 2))
    assert torch.equal(packed.length_counts(), whole.length_counts())
    index = torch.tensor([len(whole) - 1, 0, 77, 3, 77])
    assert sentences_of(packed.select(index)) == sentences_of(whole.select(index))
    drawn = packed.some(20, rng(2))
    assert len(drawn) == 20
    assert set(sentences_of(drawn)) <= set(sentences_of(whole))
    assert sorted(sentences_of(packed.some(10**6, rng(2)))) == sorted(sentences_of(whole))


def test_a_large_vocabulary_takes_four_bytes_a_word(tmp_path):
    ids = np.array([70_000, 3, 65_536], np.int64)
    write_packed(tmp_path / "a", [(ids, np.array([2, 1]))], 70_001, Tally)
    assert open_packed(tmp_path / "a").whole().ids_N.tolist() == ids.tolist()


def epoch_of(of: ShuffledBatches, epoch: int) -> list[tuple[int, ...]]:
    first = epoch * of.per_epoch
    return [one for step in range(first, first + of.per_epoch) for one in sentences_of(of.of_step(step))]


def test_the_order_is_a_function_of_seed_and_epoch_and_an_epoch_has_every_sentence_once(text):
    packed, whole = text
    of = ShuffledBatches(packed, 7, seed=3)
    first, second = epoch_of(of, 0), epoch_of(of, 1)
    left_out = len(whole) - 7 * of.per_epoch
    assert left_out < 7
    for epoch in range(2):
        numbers = torch.cat([of.index_of_step(step) for step in range(epoch * of.per_epoch, (epoch + 1) * of.per_epoch)])
        assert len(set(numbers.tolist())) == len(whole) - left_out
        assert sentences_of(whole.select(numbers)) == epoch_of(of, epoch)
    assert first != second
    assert epoch_of(ShuffledBatches(packed, 7, seed=3), 1) == second  # whatever was asked for before
    assert sentences_of(ShuffledBatches(packed, 7, seed=3).of_step(of.per_epoch + 5)) == second[5 * 7 : 6 * 7]
    assert epoch_of(ShuffledBatches(packed, 7, seed=4), 0) != first


def test_shards_of_a_batch_are_its_slices(text):
    of = ShuffledBatches(text[0], 7, seed=3)
    together = [one for s in range(3) for one in sentences_of(of.of_step(4, Shard(s, 3, rng())))]
    assert together == sentences_of(of.of_step(4))


def test_sentences_wander_far_and_one_window_is_in_memory_at_a_time(text, monkeypatch):
    """The blocks of a window come from all over the text. Of windows that are cut at multiples of the batch, 5 blocks or 6 are
    touched where 4 fit."""
    packed, whole = text
    read: list[int] = []
    block = PackedText.block
    monkeypatch.setattr(PackedText, "block", lambda self, k: read.append(k) or block(self, k))
    of = ShuffledBatches(packed, 7, seed=3)
    of.of_step(0)
    assert WINDOW <= len(read) <= WINDOW + 2
    numbers = of.index_of_step(0).double() / len(whole)
    assert float(numbers.max() - numbers.min()) > 0.2
    epoch_of(of, 0)
    assert len(read) < packed.n_blocks + 2 * packed.n_blocks // WINDOW + 2  # each once, and those at the cuts twice


@pytest.mark.parametrize("alike", [False, True])
def test_a_text_of_one_window_is_shuffled_as_in_memory(text, monkeypatch, alike):
    monkeypatch.setattr(batching, "WINDOW_BLOCKS", 1000)
    packed, whole = text
    one, other = (ShuffledBatches(of, 7, seed=3, alike=alike) for of in (packed, whole))
    for epoch in range(2):
        assert epoch_of(one, epoch) == epoch_of(other, epoch)


def test_damage_in_a_block_is_noticed_when_it_is_opened_and_when_it_is_read(text):
    packed, _ = text
    place = int(packed._place_K1[3]) + 5
    with open(packed.path, "r+b") as file:
        file.seek(place)
        byte = file.read(1)
        file.seek(place)
        file.write(bytes([byte[0] ^ 1]))
    packed.block(2)
    with pytest.raises(Damaged, match=rf"text.packed: damaged in block 3 of {packed.n_blocks}; remove it"):
        packed.block(3)
    with pytest.raises(Damaged, match="not what was written"):
        open_packed(packed.path)


@pytest.mark.parametrize("left", [0, 5, 200, -1])
def test_a_file_that_was_cut_off_is_damaged(text, left):
    path = text[0].path
    os.truncate(path, left if left >= 0 else path.stat().st_size - 1)
    with pytest.raises(Damaged):
        open_packed(path)


# From files.

LINES = ["a b c", "", "c c d <unk> e", "a", "this one is longer than all of the others", "b a"]


def several_files(directory: Path) -> list[str]:
    """The lines, in a plain file, a .gz and a .zst."""
    zstandard = pytest.importorskip("zstandard")
    parts = ["\n".join(LINES[low : low + 2]) + "\n" for low in (0, 2, 4)]
    (directory / "part-0.txt").write_text(parts[0])
    (directory / "part-1.txt.gz").write_bytes(gzip.compress(parts[1].encode()))
    (directory / "part-2.txt.zst").write_bytes(zstandard.compress(parts[2].encode()))
    (directory / "whole.txt").write_text("".join(parts))
    return files_of(str(directory / "part-*"))


def test_plain_gz_and_zst_files_of_a_pattern_are_one_text(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files = several_files(tmp_path)
    assert [Path(file).name for file in files] == ["part-0.txt", "part-1.txt.gz", "part-2.txt.zst"]
    vocab = Vocab(["<unk>", "a", "b", "c"])
    expected = read_corpus(tmp_path / "whole.txt", vocab, 7)
    for read in (read_corpus(files, vocab, 7), pack_corpus(files, vocab, content_of(files), 7)):
        assert sentences_of(read.sentences.whole()) == sentences_of(expected.sentences)
        for count in ("empty_lines", "too_long", "unknown_words", "unknown_types"):
            assert getattr(read, count) == getattr(expected, count) > 0
        assert read.path == f"{files[0]} and 2 more"
    assert Vocab.from_text(files) == Vocab.from_text([tmp_path / "whole.txt"])


def test_a_packed_text_is_found_again_by_content_and_made_anew_where_it_is_damaged(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    files, vocab = several_files(tmp_path), Vocab(["<unk>", "a", "b"])
    first = pack_corpus(files, vocab, content_of(files)).sentences
    monkeypatch.setattr("trflm.text.corpus.write_packed", lambda *arguments: pytest.fail("packed again"))
    assert pack_corpus(files, vocab, content_of(files)).sentences.digest == first.digest
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    first.path.write_bytes(b"nothing")
    again = pack_corpus(files, vocab, content_of(files)).sentences
    assert (again.path, again.digest) == (first.path, first.digest)
    assert len(first) == 5  # who has it open still has the whole
    Path(files[0]).write_text("b b\n")
    assert pack_corpus(files, vocab, content_of(files)).sentences.path != first.path


def test_a_recipe_streams_what_is_above_its_limit_and_has_the_same_data(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    several_files(tmp_path)
    pattern = str(tmp_path / "part-*")
    streamed, held = (DataConfig(train=pattern, min_count=2, stream_above=above).read() for above in (0, 500))
    assert isinstance(streamed.train.sentences, PackedText)
    assert isinstance(held.train.sentences, Batch)
    assert streamed.vocab == held.vocab
    assert sentences_of(streamed.train.sentences.whole()) == sentences_of(held.train.sentences)


@pytest.mark.parametrize(
    ("name", "message"),
    [("nothing-*", "no file has such a name"), ("nothing", "there is no such file"), ("", "is a directory; name its files")],
)
def test_files_that_are_not_there_are_named(tmp_path, name, message):
    with pytest.raises(InputError, match=message):
        files_of(os.path.join(tmp_path, name))


def test_an_empty_text_is_refused_from_the_cache_too(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "text").write_text("too many words\n\n")
    for _ in range(2):
        with pytest.raises(InputError, match="no sentence to read; all 1 are longer than max_length = 2"):
            pack_corpus([str(tmp_path / "text")], Vocab(["<unk>"]), "content", 2)


def test_a_full_disk_is_named_with_a_remedy(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"the packed text cannot be written.*2 bytes a word.*XDG_CACHE_HOME"):
        write_packed(tmp_path / "file" / "text", [], 5, Tally)


def test_words_are_counted_exactly_in_bounded_memory(tmp_path):
    files = [tmp_path / "1", tmp_path / "2"]
    files[0].write_text("b a b\nzoë c\n")
    files[1].write_text("a b <unk> d\n" * 3)
    expected = {"b": 5, "a": 4, "zoë": 1, "c": 1, "<unk>": 3, "d": 3}
    assert dict(count_words(files)) == expected
    assert dict(count_words(files, at_once=1)) == expected  # a file on disk for every piece that was read


def test_unknown_words_beyond_what_is_held_are_estimated():
    """With 1 in 8 of 20,000 words held, the standard error is 2 %; three of them."""
    words = [f"word{k}" for k in range(20_000)]
    few, many = DistinctWords(), DistinctWords(most=4000)
    for low in range(0, len(words), 100):
        few.update([*words[low : low + 100], "<unk>"])
        many.update([*words[low : low + 100], *words[:50]])
    assert few.number() == 20_000
    assert many.level >= 2
    assert len(many.words) <= 4000
    assert many.number() == pytest.approx(20_000, rel=0.06)
