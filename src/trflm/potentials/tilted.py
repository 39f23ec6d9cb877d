"""A reference distribution: p(l, x) = pi_l p_ref(x)^a exp(s phi(x)) / Z_l (exponential tilting), with p_ref an n-gram model.

To everything else it is one more potential, a log p_ref(x) + s phi(x), whose first part is fixed. Order 1 is a unigram model,
5 the usual Kneser-Ney model. With phi = 0, Z_l is the share of sentences of length l in the reference: `log_lengths`.
The factor s is 1 unless a learner finds a better one: a cloze-trained phi counts what two words have to do with one another
from both sides (`learning.cloze`). The share a is 1 too, unless `learning.distil` is told of less: a sparse n-gram model is as
often wrong as right about what it has not seen, and phi cannot see where.

Shapes: B sentences, N words in all, m the longest sentence of training.
"""

from typing import Any

import torch
from torch import Tensor, nn

from trflm.language_model import LanguageModel
from trflm.potentials.protocol import Potential
from trflm.speed.devices import device_of
from trflm.text import Batch


class Tilted(nn.Module):
    """a log p_ref(x) + s phi(x). Only phi has parameters; the reference is saved beside the model, once."""

    factor: Tensor  # s, float64
    share: Tensor  # a, float64

    def __init__(self, potential: Potential, reference: LanguageModel) -> None:
        super().__init__()
        self.potential = potential
        self.reference = reference
        self.register_buffer("factor", torch.ones((), dtype=torch.float64))
        self.register_buffer("share", torch.ones((), dtype=torch.float64))
        self.register_load_state_dict_pre_hook(as_old_models_had_it)

    def forward(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        phi_B = self.potential(batch, rng)
        return float(self.factor) * phi_B + float(self.share) * self.reference.log_prob(batch).to(phi_B)

    def contributions(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        """[N] the reference's end of a sentence goes to its last word."""
        explanation = self.reference.explain(batch)
        phi_N = self.potential.contributions(batch.to(device_of(self.potential)), rng)
        end_N = torch.where(batch.remaining_N == 0, explanation.rest_B[batch.sentence_N], 0.0)
        return float(self.factor) * phi_N + float(self.share) * (explanation.word_N + end_N).to(phi_N.dtype).to(phi_N.device)

    def score(self, batch: Batch) -> Tensor:
        """The reference is looked up on the CPU, wherever the potential is."""
        phi_B = self.potential.score(batch.to(device_of(self.potential)))
        log_ref_B = self.reference.log_prob(batch).to(phi_B.dtype).to(phi_B.device)
        return float(self.factor) * phi_B + float(self.share) * log_ref_B

    def forget(self) -> None:
        self.potential.forget()


def as_old_models_had_it(module: nn.Module, state: dict[str, Any], prefix: str, *_: object) -> None:
    """Models that were saved before there were a factor and a share had neither."""
    for name in ("factor", "share"):
        state.setdefault(f"{prefix}{name}", torch.ones((), dtype=torch.float64))


def log_lengths(lengths_B: Tensor, max_length: int) -> Tensor:
    """[m+1] log of the share of each length among draws of the reference, half a draw added to each; entry 0 is 0."""
    counts = torch.bincount(lengths_B.clamp(max=max_length + 1), minlength=max_length + 2).double() + 0.5
    share = (counts / (len(lengths_B) + 0.5 * max_length))[: max_length + 1].log()
    share[0] = 0.0
    return share
