"""One step of cloze learning at the paper's size: done plainly, and our way.

Plainly: conv1d, forward and backward, on 100 sentences of about one length at a time, which wastes next to nothing on padding
(its best case). Our way: the bank from tables of the batch's words, the stack by minimal filtering. Both sides run the same
learner on the same copies from the same start; only the potential differs.
"""

import functools
import statistics

import torch
from measure import arguments, interleaved, report, training_text
from torch import Tensor

from trflm.field.trf import TRF
from trflm.learning.batches import ShuffledBatches
from trflm.learning.cloze import Cloze, ClozeConfig, start_flat
from trflm.learning.replacements import Replacements
from trflm.lms.ngram import KneserNeyConfig, kneser_ney
from trflm.lms.unigram import Unigram
from trflm.potentials.cnn.model import CNN, CNNConfig
from trflm.potentials.cnn.plain import plain_contributions
from trflm.potentials.tilted import Tilted
from trflm.text import UNK, Batch, Vocab, empirical_pi

AT_ONCE = 100  # sentences convolved in one rectangle


class PlainCNN(CNN):
    """The potential by conv1d, on sentences sorted by length."""

    def contributions(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        value_N = batch.ids_N.new_zeros(batch.n_words, dtype=torch.float32)
        for index in torch.argsort(batch.lengths_B, stable=True).split(AT_ONCE):
            part = batch.select(index)
            place = batch.starts_B[index][part.sentence_N] + part.position_N
            value_N = value_N.index_copy(0, place, plain_contributions(self, part))
        return value_N


def learner(text: Batch, vocab: Vocab, cnn: type[CNN]) -> Cloze:
    pi = empirical_pi(text.lengths_B)
    potential = cnn(CNNConfig(), len(vocab), torch.Generator().manual_seed(0))
    tilted = Tilted(potential, kneser_ney(text, vocab, KneserNeyConfig(order=1)))
    start_flat(tilted)
    replacements = Replacements.estimate(vocab, text, Unigram.estimate(vocab, text, pi))
    return Cloze(TRF(vocab, tilted, pi), replacements, ShuffledBatches(text, ClozeConfig.batch, seed=1), ClozeConfig())


def main() -> None:
    parsed = arguments(__doc__ or "")
    text, n_words, source = training_text(parsed.data, 5000)
    vocab = Vocab([UNK, *(f"w{i}" for i in range(1, n_words))])
    learners = {"our way": learner(text, vocab, CNN), "plainly": learner(text, vocab, PlainCNN)}
    words = learners["our way"].batches.of_step(1).n_words
    print(f"{ClozeConfig.batch} sentences, {words} words ({source}), a quarter of them replaced; {n_words} words known")
    first = {name: side.step(0, torch.Generator().manual_seed(1))["loss"] for name, side in learners.items()}  # to warm up
    assert abs(first["our way"] - first["plainly"]) < 1e-4, first

    sides = {name: functools.partial(step, side) for name, side in learners.items()}
    seconds = interleaved(sides, rounds=3 if parsed.quick else 9)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    print(", ".join(f"{name} {words / value:,.0f} words a second" for name, value in medians.items()))
    settings = {"sentences": ClozeConfig.batch, "words": words, "source": source, "vocabulary": n_words}
    report(parsed, settings, seconds, {"cloze-vs-plain": medians["plainly"] / medians["our way"]})


def step(side: Cloze) -> None:
    side.step(1, torch.Generator().manual_seed(2))


if __name__ == "__main__":
    main()
