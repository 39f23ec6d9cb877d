"""Train on more text than should be in memory: made-up text in many files, the vocabulary, packing, a few hundred steps of
cloze learning, resuming; how fast, and how much memory.

    python benchmarks/large_text.py --words 100000000 --directory /tmp/large [--json FILE] [--minutes 2]

The words are drawn from a Markov chain over a Zipf law: half of them from the law itself, half from the same law over a
shuffled vocabulary that depends on the word before. Memory is read from /proc (Linux): `peak` is the peak resident set.
"""

import argparse
import gzip
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np

FILES, LONGEST = 20, 40


def words_of(size: int) -> np.ndarray:
    """`size` different made-up words of a length as usual in text."""
    syllables = np.array([c + v for c in "bdfghklmnprstvz" for v in "aeiou"])
    number, words = np.arange(size), np.full(size, "", dtype=object)
    for _ in range(3):
        number, last = np.divmod(number, len(syllables))
        words = words + np.where((number > 0) | (words == ""), syllables[last], "")
    return np.array([f"{word}{k % 7 or ''}" if k >= len(syllables) else word for k, word in enumerate(words)])


def write_file(path: Path, n_words: int, vocabulary: np.ndarray, seed: int) -> None:
    rng = np.random.default_rng(seed)
    V, B = len(vocabulary), 10_000
    law = np.cumsum(1 / (np.arange(V) + 2.7))
    law /= law[-1]
    multiplier = 2 * np.arange(V) + 1  # odd, hence a shuffle of 0 .. 2^k - 1; V is a power of two
    written = 0
    with gzip.open(path, "wt", 1) if path.suffix == ".gz" else open_text(path) as file:
        while written < n_words:
            lengths = np.minimum(1 + rng.geometric(1 / 19, B), LONGEST)
            ids = np.empty((B, LONGEST), np.int64)
            before = np.zeros(B, np.int64)
            for i in range(LONGEST):
                drawn = np.searchsorted(law, rng.random(B))
                before = ids[:, i] = np.where(rng.random(B) < 0.5, drawn, (drawn * multiplier[before] + 77 * before) % V)
            file.writelines(
                " ".join(line[:n]) + "\n" for line, n in zip(vocabulary[ids].tolist(), lengths.tolist(), strict=True)
            )
            written += int(lengths.sum())


def open_text(path: Path):
    if path.suffix == ".zst":
        import zstandard

        return zstandard.open(path, "wt")
    return open(path, "w")


def make_text(directory: Path, n_words: int, size: int) -> None:
    """FILES files: plain, .gz and .zst by turns; and some dev text."""
    directory.mkdir(parents=True, exist_ok=True)
    vocabulary = words_of(size)
    for number in range(FILES):
        path = directory / f"part-{number:02d}.txt{('', '.gz', '.zst')[number % 3]}"
        if not path.exists():
            partial = path.with_name(f"partial{path.suffix}")
            write_file(partial, n_words // FILES, vocabulary, number)
            partial.rename(path)
    write_file(directory / "valid.txt", 20_000, vocabulary, FILES)


class Watched:
    """A command, its time, and the most memory it had, in megabytes: in all, and what no file stands behind."""

    def __init__(self, command: list[str], log: Path) -> None:
        started = time.monotonic()
        self.rss = self.anonymous = 0.0
        self.curve: list[tuple[float, float]] = []
        with open(log, "w") as out:
            process = subprocess.Popen(command, stderr=out, stdout=out)
            watching = threading.Thread(target=self._watch, args=(process, started))
            watching.start()
            self.status = process.wait()
            watching.join()
        self.seconds = time.monotonic() - started

    def _watch(self, process: "subprocess.Popen[bytes]", started: float) -> None:
        while process.poll() is None:
            try:
                lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
            except OSError:
                return
            values = {
                name: int(rest.split()[0]) / 1000 for name, _, rest in (line.partition(":") for line in lines) if "kB" in rest
            }
            self.rss = max(self.rss, values.get("VmHWM", 0.0))
            self.anonymous = max(self.anonymous, values.get("RssAnon", 0.0))
            self.curve.append((round(time.monotonic() - started, 1), values.get("VmRSS", 0.0)))
            time.sleep(0.2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--words", type=int, default=100_000_000)
    parser.add_argument("--vocabulary", type=int, default=1 << 16, help="different words of the text, a power of two")
    parser.add_argument("--directory", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=2.0, help="of training")
    parser.add_argument("--set", action="append", default=[], help="of the recipe, as for trf train")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    make_text(arguments.directory, arguments.words, arguments.vocabulary)
    recipe = arguments.directory / "recipe.toml"
    recipe.write_text(RECIPE)
    os.environ["XDG_CACHE_HOME"] = str(arguments.directory / "cache")
    results = {}
    run = arguments.directory / f"run-{int(time.time())}"
    train = [sys.executable, "-m", "trflm", "train", "--threads", "1", "--quiet"]
    overrides = [part for value in arguments.set for part in ("--set", value)]
    first = [str(recipe), "--out", str(run), "--set", f"run.minutes={arguments.minutes}", *overrides]
    again = ["--resume", str(run), "--set", f"run.minutes={arguments.minutes + 0.5}"]
    for name, command in (("from nothing", first), ("resumed", again)):
        watched = Watched([*train, *command], arguments.directory / "log.txt")
        if watched.status:
            raise SystemExit(f"{name}: status {watched.status}\n{(arguments.directory / 'log.txt').read_text()}")
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        results[name] = {
            "seconds": round(watched.seconds, 1), "peak MB": round(watched.rss),
            "peak MB without files": round(watched.anonymous), "steps": rows[-1]["step"],
            "curve": watched.curve[:: max(len(watched.curve) // 40, 1)],
        }  # fmt: skip
        print(name, {key: value for key, value in results[name].items() if key != "curve"})
    print((run / "train.log").read_text())
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1) + "\n")


RECIPE = """
[data]
train = "part-*"
valid = "valid.txt"
vocab_size = 20000

[model]
kind = "cnn"
embedding = 64
projection = 64
bank_width = 5
bank_filters = 32
stack_filters = 32

[reference]
order = 1

[learner]
kind = "cloze"
batch = 64

[run]
epochs = 1
"""

if __name__ == "__main__":
    main()
