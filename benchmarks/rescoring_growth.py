"""How the time for one n-best list grows with its depth, the vocabulary and the length of sentences; with --plot as a picture.

Engine with one snapshot, plain conv1d and LSTM 2x200 (each distinct prefix once) on made-up lists, random weights.
The list is the same whatever the vocabulary: its words are spread over all of it.
"""

import argparse
import json
import statistics
from pathlib import Path

import numpy as np
import torch
from lists import made_up, made_up_vocab
from measure import clock
from rescoring import Side, engine, lstm, plain, random_fields

from trflm.experiment.directory import provenance
from trflm.lms.lstm import SMALL
from trflm.speed.memory import keep_freed_memory
from trflm.text import Batch, Vocab

DEPTHS, LENGTHS, VOCABULARIES = (10, 30, 100, 300, 1000, 3000, 10_000), (5, 10, 20, 40), (10_000, 30_000, 100_000, 200_000)
DEPTH, LENGTH = 1000, 18


def sides(vocab: Vocab) -> dict[str, Side]:
    fields = random_fields(vocab, 1)
    return {
        "engine": engine(fields),
        "plain conv1d": lambda batch: plain(fields[0], batch),
        "LSTM 2x200": lstm(vocab, SMALL),
    }


def measure(cases: dict[int, tuple[dict[str, Side], Batch]], rounds: int) -> dict[str, list[float]]:
    """Medians, one for each case; all cases and sides once in every round, after one round to warm up."""
    now, seconds = clock(), {}
    for number in range(-1, rounds):
        for value, (models, batch) in cases.items():
            for name, side in models.items():
                start = now()
                side(batch)
                if number >= 0:
                    seconds.setdefault(name, {}).setdefault(value, []).append(now() - start)
    return {name: [statistics.median(values[value]) for value in cases] for name, values in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where the figures go")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="an .svg or .png; needs matplotlib")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parsed = parser.parse_args()
    torch.set_num_threads(parsed.threads)
    keep_freed_memory()
    rng, models = np.random.default_rng(0), sides(made_up_vocab(VOCABULARIES[0]))
    one = made_up(rng, LENGTH, DEPTH)
    large = {size: sides(made_up_vocab(size)) for size in VOCABULARIES}
    spread = {size: Batch(one.ids_N * (size // VOCABULARIES[0]), one.lengths_B) for size in VOCABULARIES}
    curves = {
        "hypotheses": measure({n: (models, made_up(rng, LENGTH, n)) for n in DEPTHS}, parsed.rounds),
        "words a sentence": measure({n: (models, made_up(rng, n, DEPTH)) for n in LENGTHS}, parsed.rounds),
        "vocabulary": measure({n: (large[n], spread[n]) for n in VOCABULARIES}, parsed.rounds),
    }
    at = {"hypotheses": DEPTHS, "words a sentence": LENGTHS, "vocabulary": VOCABULARIES}
    content = {"at": at, "seconds": curves, "machine": {**provenance(), "threads": parsed.threads}}
    parsed.json.write_text(json.dumps(content, indent=1) + "\n")
    for quantity, found in curves.items():
        print(quantity, *at[quantity], sep="\t")
        for name, values in found.items():
            print(name, *(f"{value:.4f}" for value in values), sep="\t")
    if parsed.plot:
        draw(content, parsed.plot)


def draw(content: dict, path: Path) -> None:
    """Three panels, logarithmic both ways, one scale of seconds."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.5, 3.4), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    colours = {"engine": "#1b6ca8", "plain conv1d": "#d1495b", "LSTM 2x200": "#edae49"}
    for panel, (quantity, found) in zip(panels, content["seconds"].items(), strict=True):
        for name, values in found.items():
            panel.loglog(content["at"][quantity], values, "o-", label=name, color=colours[name], markersize=4)
        ticks = content["at"][quantity][:: 2 if quantity == "hypotheses" else 1]
        panel.set_xticks(ticks, [f"{n // 1000}k" if n >= 10_000 else f"{n:,}" for n in ticks])
        panel.minorticks_off()
        panel.set_xlabel(quantity)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("seconds for a list")
    panels[0].legend(frameon=False)
    figure.savefig(path)


if __name__ == "__main__":
    main()
