"""A step of an LSTM's training: as torch does it, and by the options of recipes/ptb/lstm-*-fast.toml.

    ratio bf16-HIDDEN VALUE        seconds of the plain step over those with `bf16` (larger is better)
    ratio sampled-HIDDEN VALUE     over those with `bf16` and the sampled softmax

20 streams of 35 steps, two layers, tied, Adam; all three sides from the same parameters, interleaved.
"""

import copy
import itertools
import statistics
from collections.abc import Callable

from measure import arguments, interleaved, report, training_text

from trflm.learning.lstm import AdamConfig, LSTMLearner
from trflm.lms.lstm import LSTM, LSTMConfig
from trflm.seeds import generator
from trflm.text import Batch, Vocab

SIDES = {
    "plain": AdamConfig(streams=20, window=35),
    "bf16": AdamConfig(streams=20, window=35, bf16=True),
    "sampled": AdamConfig(streams=20, window=35, bf16=True, sampled_epochs=1_000),
}


def main() -> None:
    parsed = arguments(__doc__ or "")
    text, n_words, source = training_text(parsed.data, 3_000)
    vocab = Vocab(["<unk>", *(f"w{i}" for i in range(1, n_words))])
    seconds: dict[str, list[float]] = {}
    ratios: dict[str, float] = {}
    for hidden in (200, 650) if parsed.quick else (200, 650, 1500):
        lstm = LSTM(vocab, LSTMConfig(hidden, hidden, 2, dropout=0.4, init=0.05, tied=True), generator(1, "init"))
        sides = {f"{side} {hidden}": steps(copy.deepcopy(lstm), text, config) for side, config in SIDES.items()}
        measured = interleaved(sides, 2 if parsed.quick else 7)
        medians = {name: statistics.median(values) for name, values in measured.items()}
        seconds.update(measured)
        ratios |= {f"{side}-{hidden}": medians[f"plain {hidden}"] / medians[f"{side} {hidden}"] for side in ("bf16", "sampled")}
    report(parsed, {"text": source, "streams": 20, "window": 35}, seconds, ratios)


def steps(lstm: LSTM, text: Batch, config: AdamConfig) -> Callable[[], object]:
    """One step after the other."""
    learner, numbers = LSTMLearner(lstm, text, config), itertools.count()

    def step() -> object:
        number = next(numbers)
        return learner.step(number, generator(1, "step", number))

    return step


if __name__ == "__main__":
    main()
