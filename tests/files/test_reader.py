"""Packed files and files elsewhere, read like any other; what is damaged is an error that names the file."""

import gzip
import sys

import pytest

from trflm.errors import InputError
from trflm.files import remote
from trflm.files.reader import open_binary, read_blocks, read_lines
from trflm.files.remote import exists, is_address, located, put_files

TEXT = "".join(f"line {k} ä\n" for k in range(20_000))


@pytest.fixture
def zstandard():
    return pytest.importorskip("zstandard")


def packed(zstandard) -> bytes:
    """Several frames, as `cat a.zst b.zst` and pzstd make them."""
    raw = TEXT.encode()
    return b"".join(zstandard.compress(raw[low : low + 100_000]) for low in range(0, len(raw), 100_000))


def test_zst_is_read_frame_after_frame(zstandard, tmp_path):
    (tmp_path / "a.zst").write_bytes(packed(zstandard))
    assert "".join(line.text + "\n" for line in read_lines(tmp_path / "a.zst")) == TEXT
    assert "".join(read_blocks(tmp_path / "a.zst")) == TEXT


@pytest.mark.parametrize("read", [read_lines, read_blocks])
def test_a_zst_that_ends_in_a_frame_or_is_none_is_damaged(zstandard, tmp_path, read):
    (tmp_path / "a.zst").write_bytes(packed(zstandard)[:-3])
    with pytest.raises(InputError, match=r"a.zst.*(damaged|cannot be read on).*in the middle of a frame"):
        list(read(tmp_path / "a.zst"))
    (tmp_path / "a.zst").write_bytes(b"no such thing")
    with pytest.raises(InputError, match=r"a.zst.*damaged"):
        list(read(tmp_path / "a.zst"))


def test_without_zstandard_its_package_is_named(tmp_path, monkeypatch):
    (tmp_path / "a.zst").write_bytes(b"")
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(InputError, match=r"pip install 'trflm\[zst\]'"):
        list(read_lines(tmp_path / "a.zst"))


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_blocks_are_whole_lines(tmp_path, size):
    text = "\ufeffa b\nc\n\nlonger than a block\nno end"
    (tmp_path / "text").write_text(text)
    blocks = list(read_blocks(tmp_path / "text", size))
    assert "".join(blocks) == text[1:]
    assert all(block.endswith("\n") for block in blocks[:-1])


def test_bad_utf8_in_a_block_has_its_line_and_place(tmp_path):
    (tmp_path / "text").write_bytes(b"good\n" * 4 + b"b\xffd\n")
    with pytest.raises(InputError, match=r"text:5: byte 0xff at offset 21 is not UTF-8"):
        list(read_blocks(tmp_path / "text", 4))


# Elsewhere.


@pytest.fixture
def memory():
    fsspec = pytest.importorskip("fsspec")
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()


def test_an_address_is_read_written_and_looked_at(memory, tmp_path):
    assert is_address("s3://bucket/file")
    assert not is_address("file")
    assert located("memory://a") == "memory://a"
    with memory.open("/there/text.gz", "wb") as file:
        file.write(gzip.compress(b"a b\nc\n"))
    assert [line.text for line in read_lines("memory://there/text.gz")] == ["a b", "c"]
    (tmp_path / "one").write_bytes(b"1")
    (tmp_path / "two").write_bytes(b"22")
    assert not exists("memory://out/results")
    put_files([tmp_path / "two", tmp_path / "one"], "memory://out/results/")
    assert exists("memory://out/results")
    with open_binary("memory://out/results/two") as file:
        assert file.read() == b"22"


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("memory://nowhere", "memory://nowhere: cannot be read"),
        ("nosuch://a", "nosuch://a: cannot be read: Protocol not known: nosuch"),
    ],
)
def test_an_address_that_leads_nowhere_is_one_message(memory, address, message):
    with pytest.raises(InputError, match=message) as found:
        list(read_lines(address))
    assert "\n" not in str(found.value)


def test_an_address_that_cannot_be_reached_is_one_message(memory):
    with pytest.raises(InputError, match="nosuch://a: cannot be reached: Protocol not known: nosuch"):
        exists("nosuch://a")


def test_without_fsspec_its_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(InputError, match="s3://bucket/a: needs fsspec"):
        remote.open_address("s3://bucket/a")
