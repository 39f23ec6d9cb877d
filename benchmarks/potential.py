"""The potential, forward and backward, on 500 sentences at the paper's size: table and shift against conv1d.

The conv1d side gets its best case: sentences bucketed by length so that padding stays under 10 %.
"""

import statistics

import torch
from measure import arguments, interleaved, report, training_text

from trflm.potentials.cnn.model import CNN, CNNConfig
from trflm.potentials.cnn.plain import plain_phi
from trflm.text import Batch

MOST_PADDING = 0.10


def buckets(batch: Batch) -> tuple[list[Batch], float]:
    """The batch by length, in the fewest parts whose padding is under 10 % in all; and that padding."""
    order = torch.argsort(batch.lengths_B, stable=True)
    for n_parts in range(1, len(batch) + 1):
        parts = [batch.select(index) for index in torch.tensor_split(order, n_parts)]
        padded = sum(len(part) * int(part.lengths_B.max()) for part in parts)
        if padded <= batch.n_words / (1 - MOST_PADDING):
            return parts, 1 - batch.n_words / padded
    raise AssertionError("one sentence a part has no padding")


def main() -> None:
    parsed = arguments(__doc__ or "")
    batch, n_words, source = training_text(parsed.data, 500)
    parts, padding = buckets(batch)
    cnn = CNN(CNNConfig(), n_words, torch.Generator().manual_seed(0))
    distinct = len(batch.ids_N.unique())
    print(f"{len(batch)} sentences, {batch.n_words} words, {distinct} distinct ({source})")
    print(f"conv1d: {len(parts)} buckets, padding {padding:.1%}")

    def table() -> None:
        cnn.zero_grad()
        cnn(batch).sum().backward()

    def conv() -> None:
        cnn.zero_grad()
        for part in parts:
            plain_phi(cnn, part).sum().backward()

    def table_forward() -> None:
        with torch.no_grad():
            cnn(batch)

    def conv_forward() -> None:
        with torch.no_grad():
            for part in parts:
                plain_phi(cnn, part)

    sides = {"table and shift": table, "conv1d": conv, "table, forward": table_forward, "conv1d, forward": conv_forward}
    seconds = interleaved(sides, rounds=5 if parsed.quick else 15)
    median = {name: statistics.median(values) for name, values in seconds.items()}
    ratios = {
        "potential-vs-conv": median["conv1d"] / median["table and shift"],
        "potential-forward-vs-conv": median["conv1d, forward"] / median["table, forward"],
    }
    settings = {"sentences": len(batch), "words": batch.n_words, "distinct": distinct, "source": source, "padding": padding}
    report(parsed, settings, seconds, ratios)


if __name__ == "__main__":
    main()
