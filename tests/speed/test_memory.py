"""A large text loads at close to 4 bytes a word: measured by the kernel in a fresh process."""

import subprocess
import sys

PROBE = """
import resource, sys, torch
from trflm.text import UNK, Vocab, read_corpus
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
vocab = Vocab([UNK, *(f"w{i}" for i in range(100))])
read_corpus(sys.argv[2], vocab)
before = peak()
corpus = read_corpus(sys.argv[1], vocab)
print((peak() - before) / corpus.sentences.n_words)
"""


def test_bytes_a_word(tmp_path):
    line = " ".join(f"w{i % 100}" for i in range(25)) + "\n"
    (tmp_path / "small.txt").write_text(line)
    (tmp_path / "large.txt").write_text(line * 400_000)
    command = [sys.executable, "-c", PROBE, str(tmp_path / "large.txt"), str(tmp_path / "small.txt")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 6  # 4 for the words, 8/25 for the lengths, and the room an array grows into
