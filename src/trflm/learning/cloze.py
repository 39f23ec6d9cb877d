"""Cloze learning: every word of a sentence with some words replaced is told to be the text's own, or not.

The idea is that of Electric (Clark et al. 2020), here for the potential of a random field that tilts a unigram model u:

    phi(x) = sum_i c_i(x),     p(l, x) = pi_l u(x) exp(s phi(x)) / Z_l

In a copy y of a sentence of the text, each word is replaced with probability r by a word drawn from q. The log odds that the
word at i is the text's own are

    ratio_i = c_i(y) + b + log u(y_i) - log q(y_i) - log(r / (1 - r))

and the loss is the mean cross-entropy over all words of the copies: one bit for every word of a pass, where the learners of
whole sentences have one a sentence. At its minimum c_i + b + log u is log p(x_i | the words around it, each replaced with
probability r), which for r -> 0 is the exact conditional of the text. c_i has to see its own word. With the readout begun at 0
(`start_flat`) the loss starts at chance. b is one number, the constant of phi counted per word; the field has it in log Z_l.

sum_i log p(x_i | rest) is a pseudo-log-likelihood: what two words have to do with one another is counted from both sides. So
the field takes phi with a factor s. After every epoch it is set to the one that chooses the words of dev text best among others
(`exponents`), from FACTORS; without dev text it is FACTOR. log Z_l is not
learned: it is set such that log p(x) = log u(x) + s (phi(x) + b l). Go on with NCE or AugSA for the field itself.

Shapes: B sentences, N words in all, V words in the vocabulary.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trflm.errors import InputError
from trflm.field.trf import TRF
from trflm.learning.batches import ShuffledBatches
from trflm.learning.context import Context, FieldLearner
from trflm.learning.descent import Descent, DescentConfig
from trflm.learning.exponents import Exponents, take_best
from trflm.learning.loop import Metrics
from trflm.learning.replacements import DevChoice, Replacements
from trflm.learning.shards import WHOLE, Part, Shard, Shards
from trflm.potentials.protocol import Potential
from trflm.potentials.tilted import Tilted
from trflm.ranges import Count, Share
from trflm.seeds import generator
from trflm.text import Batch
from trflm.text.batch import in_parts
from trflm.text.lengths import PI_FLOOR, draw_from_cdf

FACTOR = 0.6
FACTORS = [0.05 * k for k in range(4, 25)]  # 0.2 to 1.2


@dataclass(frozen=True)
class ClozeConfig(DescentConfig):
    """[learner] kind = "cloze"."""

    batch: Count = 200  # sentences a step
    rate: Share = 0.25  # r: the share of words that are replaced
    kind: Literal["cloze"] = "cloze"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch < 1 or not 0 < self.rate < 1:
            raise ValueError("batch must be at least 1, rate must be between 0 and 1")

    def build(self, context: Context) -> "Cloze":
        if context.reference_config.order != 1:
            raise InputError('learner.kind = "cloze" learns on a unigram reference: set reference.order = 1')
        assert isinstance(context.trf.potential, Tilted)
        if context.fresh and not context.given:
            start_flat(context.trf.potential)
        return Cloze(context.trf, context.replacements, context.batches(self.batch), self, context.shards)


class Cloze(FieldLearner):
    """Trains the potential of a TRF that tilts a unigram model."""

    def __init__(
        self,
        trf: TRF,
        replacements: Replacements,
        batches: ShuffledBatches,
        config: ClozeConfig,
        shards: Shards = WHOLE,
    ) -> None:
        assert isinstance(trf.potential, Tilted)
        self.trf, self.tilted, self.batches, self.config, self.shards = trf, trf.potential, batches, config, shards
        Exponents(1.0, FACTOR).set(self.tilted)
        self.replacements, self.dev_choice = replacements, DevChoice(replacements)
        self.task = ClozeTask(self.tilted, replacements, config.rate)
        self.descent = Descent(self.tilted.potential, [self.task.bias], config)

    def step(self, number: int, rng: torch.Generator) -> Metrics:
        def part_of(shard: Shard) -> Part:
            self.descent.potential.forget()
            batch = self.batches.of_step(number, shard).to(self.trf.zeta.device)
            loss, accuracy = self.task.loss(self.descent.potential, batch, shard.rng, shard.rng)
            return Part(loss, batch.n_words, {"loss": float(loss.detach()), "accuracy": accuracy})

        metrics = self.shards.mean_gradient(self.descent.theta, rng, part_of)
        norm, rate = self.descent.step(number, number / self.steps_per_epoch)
        return {**metrics, "gradient_norm": norm, "lr": rate}

    def evaluate(self, dev: Batch) -> Metrics:
        """On the same copies every time; and the factor that chooses best among other words."""
        known = self.usable(dev)
        losses = []
        with torch.no_grad():
            for number, part in enumerate(in_parts(known)):
                loss, _ = self.task.loss(self.tilted.potential, part, generator(0, "dev", number), None)
                losses.append(float(loss) * part.n_words)
        best, choice = take_best(self.trf, self.dev_choice, known, [Exponents(1.0, factor) for factor in FACTORS])
        return {"dev_loss": sum(losses) / known.n_words, "factor": best.factor, "dev_choice": choice, "criterion": choice}

    def write_zeta(self) -> None:
        """log Z_l = log pi_l - s b l; log Z_1 is exact."""
        lengths = torch.arange(len(self.trf.zeta), device=self.trf.zeta.device)
        log_Z = self.trf.pi.clamp(min=PI_FLOOR).log() - float(self.tilted.factor) * float(self.task.bias.detach()) * lengths
        self.trf.zeta.copy_(log_Z - self.trf.log_Z1())
        self.trf.zeta[:2] = 0.0

    def state_dict(self) -> dict[str, Any]:
        self.write_zeta()
        return {"trf": self.trf.state_dict(), "bias": self.task.bias.detach(), "descent": self.descent.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.trf.load_state_dict(state["trf"])
        with torch.no_grad():
            self.task.bias.copy_(state["bias"])
        self.descent.load_state_dict(state["descent"])


class ClozeTask:
    """The copies, and the loss on them."""

    def __init__(self, tilted: Tilted, replacements: Replacements, rate: float) -> None:
        self.rate = rate
        self.log_q_V = replacements.unigram.log_word_V  # of data and noise alike
        self.cdf_V = self.log_q_V.exp().cumsum(0).cpu()
        every = torch.arange(len(self.log_q_V))
        words = tilted.reference.explain(Batch(every, torch.ones_like(every)))
        self.offset_V = (words.word_N - self.log_q_V.cpu() - math.log(rate / (1 - rate))).float()  # log u - log q - log odds
        self.bias = nn.Parameter(torch.zeros((), device=tilted.factor.device))  # b

    def copies(self, batch: Batch, rng: torch.Generator) -> tuple[Batch, Tensor]:
        """(y, [N] which words are still the text's own). A word that is replaced by itself counts as replaced."""
        own_N = torch.rand(batch.n_words, generator=rng) >= self.rate
        drawn_N = draw_from_cdf(self.cdf_V, batch.n_words, rng)
        own_N, drawn_N = own_N.to(batch.device), drawn_N.to(batch.device)
        return Batch(torch.where(own_N, batch.ids_N.long(), drawn_N), batch.lengths_B), own_N

    def ratio(self, potential: Potential, copy: Batch, rng: torch.Generator | None) -> Tensor:
        """[N] the log odds that a word is the text's own."""
        return potential.contributions(copy, rng) + self.bias + self.offset_V.to(copy.device)[copy.ids_N]

    def loss(
        self, potential: Potential, batch: Batch, noise_rng: torch.Generator, dropout_rng: torch.Generator | None
    ) -> tuple[Tensor, float]:
        """The mean cross-entropy a word, and the share of words that were told right."""
        copy, own_N = self.copies(batch, noise_rng)
        ratio_N = self.ratio(potential, copy, dropout_rng)
        loss = F.binary_cross_entropy_with_logits(ratio_N, own_N.to(ratio_N))
        return loss, float(((ratio_N > 0) == own_N).double().mean())


def start_flat(potential: nn.Module) -> None:
    """phi = 0 where a potential ends in a readout: its parameters `readout` and `constant` become 0."""
    with torch.no_grad():
        for name, parameter in potential.named_parameters():
            if name.split(".")[-1] in ("readout", "constant"):
                parameter.zero_()
