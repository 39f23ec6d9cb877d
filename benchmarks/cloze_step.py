"""One step of cloze learning at the paper's size: done plainly, and our way.

Plainly: conv1d, forward and backward, on 50 sentences of about one length at a time, which wastes next to nothing on padding
(its best case). Our way: the bank from tables of the batch's words, the stack by minimal filtering. All sides run the same
learner on the same copies from the same start; only the potential differs.

    cloze-vs-plain          as the recipes of PTB learn, with bf16 = true, against conv1d in fp32
    cloze-vs-plain-in-bf16  the same against conv1d in bf16 (torch.autocast)
    cloze-in-fp32-vs-plain  both in fp32

On a CPU without bf16 the recipes learn in fp32, so the first is the last and the second is left out.
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
from trflm.speed.bf16 import has_bf16
from trflm.text import UNK, Batch, Vocab, empirical_pi

AT_ONCE = 50  # sentences convolved in one rectangle


class PlainCNN(CNN):
    """The potential by conv1d, on sentences sorted by length."""

    dtype: torch.dtype | None = None  # of its products, if it is not that of the parameters

    def contributions(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        value_N = batch.ids_N.new_zeros(batch.n_words, dtype=torch.float32)
        for index in torch.argsort(batch.lengths_B, stable=True).split(AT_ONCE):
            part = batch.select(index)
            place = batch.starts_B[index][part.sentence_N] + part.position_N
            with torch.autocast("cpu", self.dtype, enabled=self.dtype is not None):
                value_n = plain_contributions(self, part)
            value_N = value_N.index_copy(0, place, value_n.float())
        return value_N


class PlainCNN16(PlainCNN):
    dtype = torch.bfloat16


def learner(text: Batch, vocab: Vocab, cnn: type[CNN], bf16: bool = False) -> Cloze:
    pi = empirical_pi(text.lengths_B)
    potential = cnn(CNNConfig(), len(vocab), torch.Generator().manual_seed(0))
    tilted = Tilted(potential, kneser_ney(text, vocab, KneserNeyConfig(order=1)))
    start_flat(tilted)
    replacements = Replacements.estimate(vocab, text, Unigram.estimate(vocab, text, pi))
    config = ClozeConfig(bf16=bf16)
    return Cloze(TRF(vocab, tilted, pi), replacements, ShuffledBatches(text, config.batch, seed=1), config)


def main() -> None:
    parsed = arguments(__doc__ or "")
    text, n_words, source = training_text(parsed.data, 5000)
    vocab = Vocab([UNK, *(f"w{i}" for i in range(1, n_words))])
    learners = {"our way in fp32": learner(text, vocab, CNN), "plainly": learner(text, vocab, PlainCNN)}
    if has_bf16():
        learners |= {"our way in bf16": learner(text, vocab, CNN, True), "plainly in bf16": learner(text, vocab, PlainCNN16)}
    words = learners["plainly"].batches.of_step(1).n_words
    print(f"{ClozeConfig.batch} sentences, {words} words ({source}), a quarter of them replaced; {n_words} words known")
    first = {name: side.step(0, torch.Generator().manual_seed(1))["loss"] for name, side in learners.items()}  # to warm up
    assert max(first.values()) - min(first.values()) < 1e-4, first

    sides = {name: functools.partial(step, side) for name, side in learners.items()}
    seconds = interleaved(sides, rounds=3 if parsed.quick else 9)
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    print(", ".join(f"{name} {words / value:,.0f} words a second" for name, value in medians.items()))
    settings = {"sentences": ClozeConfig.batch, "words": words, "source": source, "vocabulary": n_words}
    ours = medians.get("our way in bf16", medians["our way in fp32"])
    ratios = {"cloze-vs-plain": medians["plainly"] / ours}
    if has_bf16():
        ratios["cloze-vs-plain-in-bf16"] = medians["plainly in bf16"] / ours
    report(parsed, settings, seconds, ratios | {"cloze-in-fp32-vs-plain": medians["plainly"] / medians["our way in fp32"]})


def step(side: Cloze) -> None:
    side.step(1, torch.Generator().manual_seed(2))


if __name__ == "__main__":
    main()
