"""Memory as the kernel measures it in a fresh process: a large text at close to 4 bytes a word; freed blocks stay or go; a long
sentence leaves none that cannot be used again."""

import subprocess
import sys

import pytest

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


FREED = """
import numpy as np
from pathlib import Path
from trflm.speed.memory import keep_freed_memory, returning_freed_memory

def held():
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
    before = resident()
    arrays = [np.ones(10_000_000 + i) for i in range(3)]
    del arrays
    return (resident() - before) / 80e6

assert keep_freed_memory()
with returning_freed_memory():
    print(held())
print(held())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="mallopt of glibc")
def test_freed_blocks_are_kept_but_where_they_would_add_up():
    done = subprocess.run([sys.executable, "-c", FREED], capture_output=True, text=True, check=True)
    returned, kept = map(float, done.stdout.split())
    assert abs(returned) < 0.1
    assert kept > 2.9  # blocks of 80 MB


LONG = """
import resource
import torch
import trflm.lms.lstm.model
import trflm.text.batch
from trflm.lms.lstm.model import LSTM, LSTMConfig
from trflm.speed.memory import keep_freed_memory
from trflm.text import Batch, Vocab

keep_freed_memory()
trflm.text.batch.SCORING_WORDS = trflm.lms.lstm.model.SCORING_WORDS = piece = 8192
rng = torch.Generator().manual_seed(1)
lstm = LSTM(Vocab(["<unk>", "a", "b"]), LSTMConfig(embedding=64, hidden=64, layers=2), rng)

def peak(pieces):
    n = pieces * piece
    lstm.explain(Batch(torch.randint(3, (n,), generator=rng), torch.tensor([n])))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

print(-peak(3) + peak(120))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="malloc of glibc")
def test_a_sentence_read_in_pieces_takes_the_memory_of_one_piece():
    """A piece takes 8 MB for the gates of a layer and 2 MB for its states; what was small and stayed between them cost up to
    4 MB a piece. The words take 16 MB."""
    done = subprocess.run([sys.executable, "-c", LONG], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 80e6
