"""What the benchmarks share: interleaved rounds, medians, the ratio lines and the JSON file."""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import torch

from trflm.experiment.directory import provenance
from trflm.speed.memory import keep_freed_memory
from trflm.text import Batch, Vocab, read_corpus


def arguments(description: str, more: Callable[[argparse.ArgumentParser], object] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="end within 45 s on 2 cores")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write settings, medians and ratios here")
    parser.add_argument("--data", type=Path, metavar="DIR", help="a directory with train.txt or train.txt.gz; else made up")
    parser.add_argument("--threads", type=int, default=2)
    if more is not None:
        more(parser)
    parsed = parser.parse_args()
    torch.set_num_threads(parsed.threads)
    keep_freed_memory()
    return parsed


def clock() -> Callable[[], float]:
    """With one thread the time this process has on a core, which other processes disturb least; with more, the wall clock."""
    return time.process_time if torch.get_num_threads() == 1 else time.perf_counter


def interleaved(
    sides: Mapping[str, Callable[[], object]], rounds: int, warm_up: bool = True, now: Callable[[], float] | None = None
) -> dict[str, list[float]]:
    """Seconds of each side in each round: one after the other, round after round, after one round to warm up."""
    now = now or clock()
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(-1 if warm_up else 0, rounds):
        for name, work in sides.items():
            start = now()
            work()
            if number >= 0:
                seconds[name].append(now() - start)
    return seconds


def report(parsed: argparse.Namespace, settings: dict, seconds: dict[str, list[float]], ratios: dict[str, float]) -> None:
    """Medians, then one `ratio LABEL VALUE` line each as the last lines of stdout; the same to --json."""
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    for name, values in seconds.items():
        print(f"{name:32s} median {medians[name]:.4f} s   (of {len(values)}: {min(values):.4f} to {max(values):.4f})")
    for label, value in ratios.items():
        print(f"ratio {label} {value:.2f}")
    if parsed.json:
        machine = {**provenance(), "processor": platform.processor() or platform.machine(), "threads": torch.get_num_threads()}
        content = {"ratios": ratios, "settings": settings, "medians": medians, "seconds": seconds, "machine": machine}
        parsed.json.write_text(json.dumps(content, indent=1) + "\n")


def training_text(data: Path | None, n_sentences: int) -> tuple[Batch, int, str]:
    """(sentences, vocabulary size, where from): a real text, or one with the lengths and word frequencies of PTB."""
    if data is None:
        return *ptb_like(n_sentences), "made up, PTB-like"
    path = next((p for p in (data / "train.txt", data / "train.txt.gz") if p.exists()), None)
    if path is None:
        raise SystemExit(f"{data}: there is no train.txt or train.txt.gz")
    vocab = Vocab.from_text([path])
    sentences = read_corpus(path, vocab).sentences
    chosen = torch.randperm(len(sentences), generator=torch.Generator().manual_seed(0))[:n_sentences]
    return sentences.select(chosen), len(vocab), f"{path.parent.name}/{path.name}"


def ptb_like(n_sentences: int, n_words: int = 10_000) -> tuple[Batch, int]:
    """Lengths with PTB's mean 21 and spread 10; words by Zipf's law, so that 500 sentences have about 2,700 distinct ones."""
    rng = np.random.default_rng(0)
    lengths = np.clip(np.round(rng.gamma(4.4, 4.8, n_sentences)), 1, 82).astype(np.int64)
    frequency = 1.0 / (np.arange(n_words) + 2.7) ** 1.0
    ids = rng.choice(n_words, lengths.sum(), p=frequency / frequency.sum())
    return Batch(torch.from_numpy(ids), torch.from_numpy(lengths)), n_words
