"""Pseudo-likelihood by choices: every word of the text is to be found among words drawn for its place (ranking NCE).

    s_i(w) = phi(x with w at place i),      g(w | word before) half unigram, half bigram (`replacements`)
    maximise  mean_i log [exp(s_i(x_i) - log g(x_i)) / sum_{w in x_i, w_1 .. w_K} exp(s_i(w) - log g(w))],     w_k ~ g

which is largest when exp(s_i) is proportional to p(x_i | all other words), for any K (Ma and Collins 2018): the conditionals of
the field, so in a log-linear field their weights, without a sum over the vocabulary and without log Z_l. Every place of a
sentence teaches. A potential has to tell what alternatives for its words are worth (`Discrete.alternatives`).

log Z_l is not learned. With q the bigram model of sentences of length l, E_q[phi - log q] <= log Z_l <= E_p[phi - log q]; zeta
is a line through the middle of the two, text standing in for p: a start for learners that need log Z_l.

Shapes: B sentences, N words in all, K drawn words for each, A = K + 1 words to choose among, the text's own first.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from trflm.errors import InputError
from trflm.field.trf import TRF
from trflm.learning.adam import Adam
from trflm.learning.batches import ShuffledBatches
from trflm.learning.context import Context, FieldLearner
from trflm.learning.loop import Metrics, clip_gradient
from trflm.learning.replacements import DevChoice, Replacements
from trflm.learning.schedules import falling
from trflm.learning.shards import WHOLE, Part, Shard, Shards
from trflm.potentials.discrete import Discrete
from trflm.ranges import Amount, Count, NotNegative, Positive, Share
from trflm.seeds import generator
from trflm.text import Batch, pack

ZETA_SENTENCES = 2000  # of the text and as many of the bigram model, for zeta


@dataclass(frozen=True)
class WordChoiceConfig:
    """[learner] kind = "word-choice": pseudo-likelihood, for a discrete potential."""

    batch: Count = 100  # sentences a step
    words: Count = 10  # K: words drawn for each place; the text's own is to be found among them
    lr: Positive = 1e-2  # learning rate (Adam)
    constant_epochs: Amount = 0  # epochs before the learning rate falls
    decay: Share = 1.0  # its factor of each epoch after
    l2: NotNegative = 0.0  # penalty (l2 / 2) |theta|^2 in the loss
    clip: Positive = 10.0  # greatest gradient norm of the mean loss a word
    kind: Literal["word-choice"] = "word-choice"

    def __post_init__(self) -> None:
        if min(self.batch, self.words) < 1 or min(self.l2, self.constant_epochs) < 0:
            raise ValueError("batch and words must be at least 1, l2 and constant_epochs not negative")
        if not (self.lr > 0 and self.clip > 0 and 0 < self.decay <= 1):
            raise ValueError("lr and clip must be positive, decay must be above 0 and at most 1")

    def build(self, context: Context) -> "WordChoice":
        potential = context.trf.potential
        if not isinstance(potential, Discrete):
            raise InputError('learner.kind = "word-choice" is for a potential of kind "discrete" without a reference, no other')
        return WordChoice(context.trf, potential, context.replacements, context.batches(self.batch), self, context.shards)


class WordChoice(FieldLearner):
    """Trains the discrete potential of a TRF in place."""

    def __init__(
        self,
        trf: TRF,
        potential: Discrete,
        replacements: Replacements,
        batches: ShuffledBatches,
        config: WordChoiceConfig,
        shards: Shards = WHOLE,
    ) -> None:
        self.trf, self.potential, self.batches, self.config, self.shards = trf, potential, batches, config, shards
        self.replacements, self.dev_choice = replacements, DevChoice(replacements)
        self.optimiser = Adam(potential.parameters(), lr=config.lr, l2=config.l2)

    def step(self, number: int, rng: torch.Generator) -> Metrics:
        epoch = number // self.steps_per_epoch
        lr = self.config.lr * falling(self.config.decay, self.config.constant_epochs, epoch)
        self.optimiser.param_groups[0]["lr"] = lr

        def part_of(shard: Shard) -> Part:
            batch = self.batches.of_step(number, shard).to(self.trf.zeta.device)
            loss, accuracy = self.loss(batch, shard.rng)
            return Part(loss, batch.n_words, {"loss": float(loss.detach()), "accuracy": accuracy})

        metrics = self.shards.mean_gradient(list(self.potential.parameters()), rng, part_of)
        norm = clip_gradient(self.potential.parameters(), self.config.clip)
        self.optimiser.step()
        return {**metrics, "gradient_norm": norm, "lr": lr}

    def loss(self, batch: Batch, rng: torch.Generator) -> tuple[Tensor, float]:
        """The mean over the words of the negative objective, and how often the text's word comes first."""
        word_NA, log_g_NA = self.replacements.choices(batch, self.config.words, rng)
        log_p_NA = (self.potential.alternatives(batch, word_NA) - log_g_NA).log_softmax(1)
        return -log_p_NA[:, 0].mean(), float((log_p_NA.argmax(1) == 0).double().mean())

    def evaluate(self, dev: Batch) -> Metrics:
        choice = self.dev_choice.of(self.usable(dev), self.trf)
        return {"dev_choice": choice, "criterion": choice}

    def write_zeta(self) -> None:
        """zeta_l = a (l - 1), a by least squares."""
        text, bigram = self.batches.sentences, self.replacements.bigram
        some = text.some(ZETA_SENTENCES, generator(0, "dev"))
        both = pack([some, bigram.draw(len(some), generator(0, "dev", 1), some.lengths_B)]).to(self.trf.zeta.device)
        log_q_B = bigram.log_span(both, torch.zeros_like(both.lengths_B), both.lengths_B)
        above_1_B = both.lengths_B - 1
        log_Z_B = self.trf.phi(both) - log_q_B - self.trf.log_Z1()
        slope = (above_1_B * log_Z_B).sum() / above_1_B.square().sum().clamp(min=1)
        self.trf.zeta[1:] = slope * torch.arange(self.trf.max_length, device=slope.device)

    def state_dict(self) -> dict[str, Any]:
        self.write_zeta()
        return {"trf": self.trf.state_dict(), "optimiser": self.optimiser.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.trf.load_state_dict(state["trf"])
        self.optimiser.load_state_dict(state["optimiser"])
