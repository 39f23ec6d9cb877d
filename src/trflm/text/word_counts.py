"""How often each word occurs in texts of any size, in one pass and bounded memory, exactly.

When more than `at_once` different words are held, they go to a temporary file in alphabetical order; in the end all such files
are merged.
"""

import heapq
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from pathlib import Path

from trflm.files.reader import read_blocks, read_lines

AT_ONCE = 2_000_000  # different words: some 400 MB


def count_words(paths: Iterable[Path | str], at_once: int = AT_ONCE) -> Iterator[tuple[str, int]]:
    """(word, how often) for every word of the texts, once each, in no order that matters."""
    with tempfile.TemporaryDirectory(prefix="trflm-") as directory:
        runs: list[Path] = []
        counts: Counter[str] = Counter()
        for path in paths:
            for text in read_blocks(path):
                counts.update(text.split())
                if len(counts) > at_once:
                    runs.append(write_run(Path(directory) / str(len(runs)), counts))
                    counts.clear()
        if not runs:
            yield from counts.items()
            return
        runs.append(write_run(Path(directory) / str(len(runs)), counts))
        counts.clear()
        for word, same in groupby(heapq.merge(*map(read_run, runs)), key=itemgetter(0)):
            yield word, sum(count for _, count in same)


def write_run(path: Path, counts: Counter[str]) -> Path:
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{word} {counts[word]}\n" for word in sorted(counts))
    return path


def read_run(path: Path) -> Iterator[tuple[str, int]]:
    for line in read_lines(path):
        word, count = line.text.rsplit(" ", 1)
        yield word, int(count)
