"""A quick start for a BLSTM potential: each direction learns, word by word, to be a language model that needs no softmax.

    s_f(w) = 2 f_{t-1} . e(w) + bias(w),   s_b(w) = 2 b_{t+1} . e(w) + bias(w),    so that  phi(x) = (sum_t s_f + sum_t s_b) / 2

Each score is taught log p(w | words before) (or after) by noise-contrastive estimation against k words of the unigram
distribution q, the same for all places of a step (Mnih and Teh 2012):

    ratio(w) = s(w) - log(k q(w)),      maximise  log sigmoid(ratio(x_t)) + sum_k log sigmoid(-ratio(w_k))

which makes exp(s) sum to about one over the words. phi is then the geometric mean of a forward and a backward model: every
place of a sentence teaches, where the classification of whole sentences has one bit a sentence to tell. log Z_l is not learned:
the scores of the field are those of this mean (log Z_l = log pi_l); go on with NCE or AugSA for the field itself.

On a `[reference]` phi is learned as without one, and after every epoch the field takes as much of each as chooses the words of
dev text best (`exponents`), from SHARES; without dev text it is SHARE. The two sum to one, as weights of a mean do.

Shapes: B sentences, R = N + B places of a direction, K words of noise, E embedding, V words.
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
from trflm.potentials.blstm import BLSTM, Embedding
from trflm.potentials.tilted import Tilted
from trflm.ranges import Count
from trflm.seeds import generator
from trflm.text import Batch
from trflm.text.batch import in_parts
from trflm.text.lengths import PI_FLOOR, draw_from_cdf

SHARE = 0.3  # of the reference; phi has the rest
SHARES = [0.05 * k for k in range(20)]


@dataclass(frozen=True)
class WordNCEConfig(DescentConfig):
    """[learner] kind = "word-nce": a start for a BLSTM potential."""

    batch: Count = 64  # sentences a step
    noise_words: Count = 1000  # k: words of noise that all places of a step share
    kind: Literal["word-nce"] = "word-nce"

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.batch, self.noise_words) < 1:
            raise ValueError("batch and noise_words must be at least 1")

    def build(self, context: Context) -> "WordNCE":
        potential = context.trf.potential
        if isinstance(potential, Tilted):
            potential = potential.potential
        if not (isinstance(potential, BLSTM) and isinstance(potential.inputs, Embedding)):
            raise InputError('learner.kind = "word-nce" starts a potential of kind "blstm", no other')
        batches = context.batches(self.batch, alike=True)
        return WordNCE(context.trf, potential, context.replacements, batches, self, context.shards)


class WordNCE(FieldLearner):
    """Trains the BLSTM potential of a TRF."""

    def __init__(
        self,
        trf: TRF,
        potential: BLSTM,
        replacements: Replacements,
        batches: ShuffledBatches,
        config: WordNCEConfig,
        shards: Shards = WHOLE,
    ) -> None:
        self.trf, self.potential, self.batches, self.config, self.shards = trf, potential, batches, config, shards
        self.replacements, self.dev_choice = replacements, DevChoice(replacements)
        self.tilted = trf.potential if isinstance(trf.potential, Tilted) else None
        if self.tilted:
            Exponents(SHARE, 1 - SHARE).set(self.tilted)
        text = batches.sentences
        counts = text.word_counts(potential.end + 1).double() + 1
        counts[potential.end] += len(text)
        counts[potential.start] += len(text)
        self.log_q = (counts / counts.sum()).log().to(trf.zeta)  # [V+2] of words and markers
        self.marker_bias = nn.Parameter(self.log_q[potential.start :].float())  # a constant of phi, which Z takes up
        with torch.no_grad():
            potential.bias.copy_(self.log_q[: potential.start])
        self.descent = Descent(potential, [self.marker_bias], config)

    def step(self, number: int, rng: torch.Generator) -> Metrics:
        def part_of(shard: Shard) -> Part:
            batch = self.batches.of_step(number, shard).to(self.trf.zeta.device)
            assert isinstance(self.descent.potential, BLSTM)
            loss = self.loss(self.descent.potential, batch, shard.rng, shard.rng)
            return Part(loss, batch.n_words + len(batch), {"loss": float(loss.detach())})

        metrics = self.shards.mean_gradient(self.descent.theta, rng, part_of)
        norm, rate = self.descent.step(number, number / self.steps_per_epoch)
        return {**metrics, "gradient_norm": norm, "lr": rate}

    def loss(self, potential: BLSTM, batch: Batch, noise_rng: torch.Generator, dropout_rng: torch.Generator | None) -> Tensor:
        """The mean over places and directions of the negative objective."""
        drawn_K = draw_from_cdf(self.log_q.exp().cumsum(0).cpu(), self.config.noise_words, noise_rng).to(batch.device)
        bias = torch.cat([potential.bias, self.marker_bias]) - (self.log_q + math.log(self.config.noise_words)).float()
        dtype = torch.bfloat16 if potential.forward_stack.train_in_bf16 else potential.embedding.dtype
        e_KE = F.embedding(drawn_K, potential.embedding).to(dtype)
        total, places = 0.0, 0
        for h_RE, symbol_R in potential.predictions(batch, dropout_rng):
            on_data = 2 * (h_RE * F.embedding(symbol_R, potential.embedding)).sum(1) + bias[symbol_R]
            on_noise = bias[drawn_K] + 2 * (h_RE.to(dtype) @ e_KE.T)
            total = total + F.softplus(-on_data).sum() + F.softplus(on_noise).sum()
            places += len(symbol_R)
        assert isinstance(total, Tensor)
        return total / places

    def evaluate(self, dev: Batch) -> Metrics:
        """Against the same noise every time, and as criterion how well the words of dev text are chosen among others."""
        known = self.usable(dev)
        with torch.no_grad():
            losses = [
                (self.loss(self.potential, part, generator(0, "dev"), None), part.n_words + len(part))
                for part in in_parts(known)
            ]
        loss = float(sum(loss * places for loss, places in losses)) / sum(places for _, places in losses)
        if not self.tilted:
            choice = self.dev_choice.of(known, self.trf)
            return {"dev_loss": loss, "dev_choice": choice, "criterion": choice}
        best, choice = take_best(self.trf, self.dev_choice, known, [Exponents(share, 1 - share) for share in SHARES])
        return {"dev_loss": loss, "share": best.share, "dev_choice": choice, "criterion": choice}

    def write_zeta(self) -> None:
        """log Z_l = log pi_l, less what the markers' biases would have added to phi."""
        factor = float(self.tilted.factor) if self.tilted else 1.0
        log_Z = self.trf.pi.clamp(min=PI_FLOOR).log() - factor * float(self.marker_bias.detach().sum()) / 2
        self.trf.zeta.copy_(log_Z - self.trf.log_Z1())
        self.trf.zeta[:2] = 0.0

    def state_dict(self) -> dict[str, Any]:
        self.write_zeta()
        return {
            "trf": self.trf.state_dict(),
            "marker_bias": self.marker_bias.detach(),
            "descent": self.descent.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.trf.load_state_dict(state["trf"])
        with torch.no_grad():
            self.marker_bias.copy_(state["marker_bias"])
        self.descent.load_state_dict(state["descent"])
