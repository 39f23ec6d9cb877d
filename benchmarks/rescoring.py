"""Scoring a 1000-best list: the engine with one and ten snapshots, plain conv1d, LSTMs at their best and unbatched, KN5; and
the engine with BLSTM fields and with a discrete one.

In each round every side scores the same list, the shortest sides three times; the next round takes the next list. All
models have the paper's sizes and random weights, 10,000 words. Every call starts cold: nothing is kept from list to list.
The plain side convolves in buckets of 100 sentences by length, its best; the LSTMs compute each distinct prefix once
(`lms.lstm`), or one sentence at a time (50 of them, and the time is scaled to the list). The largest LSTMs take part in the
first rounds only. The discrete field has all features of the paper's set that KN5's text has, with 200 classes by frequency.
Turning text into word numbers is not timed.
"""

import statistics
from collections.abc import Callable, Sequence

import numpy as np
import torch
from lists import Lists, made_up_vocab, make_lists
from measure import arguments, clock, report
from torch import Tensor

from trflm.field.engine import Engine
from trflm.field.trf import TRF
from trflm.lms.lstm import LARGE, LSTM, MEDIUM, SMALL, LSTMConfig
from trflm.lms.ngram import kneser_ney
from trflm.potentials.blstm import BLSTM, BLSTMConfig
from trflm.potentials.cnn.model import CNN, CNNConfig
from trflm.potentials.cnn.plain import plain_phi
from trflm.potentials.cnn.score import window_shape
from trflm.potentials.cnn.windows import WindowIndex
from trflm.potentials.discrete import Alphabet, Discrete, DiscreteConfig, count_features
from trflm.text import Batch, Vocab
from trflm.text.classes import frequency_classes

BUCKET = 100  # sentences convolved at once
ALONE = 50  # sentences that the unbatched LSTM is timed on
LARGEST = "LSTM 2x1500", "LSTM 2x200, one sentence at a time", "LSTM 2x200, 200,000 words"
LARGE_VOCABULARY = 200_000
SHORT, REPEATS = (
    ("engine", "KN5", "discrete"),
    3,
)  # sides so short that a round has the median of several runs, in turn with each other

Side = Callable[[Batch], object]


def main() -> None:
    parsed = arguments(__doc__ or "")
    lists = make_lists(parsed.data, n_lists=4 if parsed.quick else 10)
    fields = random_fields(lists.vocab, 10)
    sides: dict[str, Side] = {
        "engine, 1 snapshot": engine(fields[:1]),
        "engine, 1 snapshot, 200,000 words": enlarged(engine(random_fields(made_up_vocab(LARGE_VOCABULARY), 1))),
        "engine, 10 snapshots": engine(fields),
        "plain conv1d": lambda batch: plain(fields[0], batch),
        "BLSTM field": engine([blstm_field(lists.vocab, 256)]),
        "BLSTM field, 512 units": engine([blstm_field(lists.vocab, 512)]),
        "LSTM 2x200": lstm(lists.vocab, SMALL),
        "LSTM 2x650": lstm(lists.vocab, MEDIUM),
        "LSTM 2x1500": lstm(lists.vocab, LARGE),
        "LSTM 2x200, one sentence at a time": one_by_one(lstm(lists.vocab, SMALL)),
        "KN5": kneser_ney(lists.text, lists.vocab).log_prob,
        "discrete": engine([discrete_field(lists)]),
    }
    if not parsed.quick:
        sides["LSTM 2x200, 200,000 words"] = enlarged(lstm(made_up_vocab(LARGE_VOCABULARY), SMALL))
    print(describe(lists))
    check(fields, lists.lists[0])
    seconds = rounds(sides, lists.lists, 4 if parsed.quick else 10, 1 if parsed.quick else 2)
    ratios = {
        "engine-vs-plain": times(seconds, "plain conv1d"),
        "engine-vs-lstm-200": times(seconds, "LSTM 2x200"),
        "engine-vs-lstm-650": times(seconds, "LSTM 2x650"),
        "engine-vs-lstm-1500": times(seconds, "LSTM 2x1500"),
        "engine-vs-lstm-200-unbatched": times(seconds, "LSTM 2x200, one sentence at a time"),
        "discrete-vs-lstm-200": times(seconds, "LSTM 2x200") / times(seconds, "discrete"),
        "kn5-vs-engine": 1 / times(seconds, "KN5"),
        "ten-vs-one": times(seconds, "engine, 10 snapshots"),
        "vocab-200k-vs-10k": times(seconds, "engine, 1 snapshot, 200,000 words"),
    }
    report(parsed, {"source": lists.source, **counts(lists.lists)}, seconds, ratios)


def random_fields(vocab: Vocab, n: int) -> list[TRF]:
    pi = torch.full((101,), 0.01, dtype=torch.float64)
    fields = [TRF(vocab, CNN(CNNConfig(), len(vocab), torch.Generator().manual_seed(seed)), pi) for seed in range(n)]
    for field in fields:
        field.remember_log_Z1(0.0)
    return fields


def blstm_field(vocab: Vocab, units: int) -> TRF:
    """With 256 units of the size of recipes/ptb/trf-blstm-start.toml, with 512 of that of trf-blstm-large.toml."""
    potential = BLSTM(BLSTMConfig(embedding=units, units=units), len(vocab), torch.Generator().manual_seed(0))
    field = TRF(vocab, potential, torch.full((101,), 0.01, dtype=torch.float64))
    field.remember_log_Z1(0.0)
    return field


def discrete_field(lists: Lists) -> TRF:
    V = len(lists.vocab)
    alphabet = Alphabet(V, frequency_classes(lists.text, V, 200))
    config = DiscreteConfig()
    potential = Discrete(config, V, count_features(lists.text, config.patterns, alphabet, config.min_counts))
    torch.nn.init.normal_(potential.weight, std=0.1, generator=torch.Generator().manual_seed(0))
    field = TRF(lists.vocab, potential, torch.full((101,), 0.01, dtype=torch.float64))
    field.remember_log_Z1(0.0)
    return field


def engine(fields: Sequence[TRF]) -> Side:
    score = Engine(fields)

    def side(batch: Batch) -> Tensor:
        for field in fields:
            field.potential.forget()
        return score.log_prob(Batch(batch.ids_N, batch.lengths_B))  # a new batch: its index is built anew

    return side


def plain(field: TRF, batch: Batch) -> Tensor:
    assert isinstance(field.potential, CNN)
    order = torch.argsort(batch.lengths_B, stable=True)
    with torch.no_grad():
        phi_B = torch.cat([plain_phi(field.potential, batch.select(index)) for index in order.split(BUCKET)])
    return phi_B[torch.argsort(order)].double() + field.log_norm(batch.lengths_B)


def lstm(vocab: Vocab, config: LSTMConfig) -> Side:
    return LSTM(vocab, config, torch.Generator().manual_seed(0)).log_prob


def one_by_one(side: Side) -> Side:
    def alone(batch: Batch) -> None:
        for b in range(ALONE):
            side(batch.select(torch.tensor([b * len(batch) // ALONE])))

    return alone


def enlarged(side: Side) -> Side:
    """The same list in a vocabulary 20 times as large: its words spread over all of it."""
    return lambda batch: side(Batch(batch.ids_N * 20, batch.lengths_B))


def rounds(sides: dict[str, Side], lists: Sequence[Batch], n: int, n_largest: int) -> dict[str, list[float]]:
    """Seconds a list of each side: side after side, round after round; the first round of all but the largest warms up."""
    now = clock()
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(-1, n):
        batch = lists[number % len(lists)]
        taken: dict[str, list[float]] = {}
        for repeat in range(REPEATS):
            for name, side in sides.items():
                if (name in LARGEST and not 0 <= number < n_largest) or (repeat and not name.startswith(SHORT)):
                    continue
                start = now()
                side(batch)
                taken.setdefault(name, []).append(now() - start)
        for name, values in taken.items():
            if number >= 0:
                seconds[name].append(statistics.median(values) * (len(batch) / ALONE if "one sentence" in name else 1))
    return seconds


def times(seconds: dict[str, list[float]], name: str) -> float:
    """How many times the engine's time (one snapshot): the ratio of medians over the lists that this side scored."""
    return statistics.median(seconds[name]) / statistics.median(seconds["engine, 1 snapshot"][: len(seconds[name])])


def check(fields: list[TRF], batch: Batch) -> None:
    """Both sides compute the same."""
    worst = float((Engine(fields[:1]).log_prob(batch) - plain(fields[0], batch)).abs().max())
    print(f"largest difference of engine and plain conv1d: {worst:.1e}")
    assert worst < 1e-4


def counts(lists: Sequence[Batch]) -> dict:
    """Means over the lists: sentences, positions, distinct words and windows, multiply-adds in units of 10^9."""
    config = CNNConfig()
    every = [WindowIndex.of(batch, window_shape(config)).rows for batch in lists]
    mean = {name: np.mean([rows[name] for rows in every], 0) for name in every[0]}
    product = config.bank_filters * config.stack_width * config.stack_filters / 1e9
    pairs = sum(range(1, config.bank_width + 1))
    word = (config.embedding * config.projection + pairs * config.projection * config.bank_filters) / 1e9
    below = [*mean["pool"], *mean["stack"][:-1]]
    plain_position = word + product * (config.bank_width + config.stack_layers - 1)
    return {
        "sentences": float(np.mean([len(batch) for batch in lists])),
        **{name: [round(float(value)) for value in values] for name, values in mean.items()},
        "multiply_adds_plain": round(float(mean["positions"][0] * plain_position), 2),
        "multiply_adds_engine": round(float(mean["words"][0] * word + sum(below) * product), 2),
    }


def describe(lists: Lists) -> str:
    mean = counts(lists.lists)
    return (
        f"{len(lists.lists)} lists ({lists.source}): {mean['sentences']:.0f} sentences, {mean['positions'][0]} positions, "
        f"{mean['words'][0]} words, {mean['bank'][-1]} / {mean['pool'][-1]} / {mean['stack']} distinct windows; "
        f"{mean['multiply_adds_plain']} G multiply-adds plainly, {mean['multiply_adds_engine']} G by the engine"
    )


if __name__ == "__main__":
    main()
