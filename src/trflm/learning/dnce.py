"""Dynamic NCE (Wang and Ou 2018): the noise is an LSTM that keeps learning from the data, and a share of its own sentences
is labelled data.

    p is taught the mixture  alpha p_data + (1 - alpha) q,      q maximises  mean_data log q

As q comes near the data, so does the mixture, and telling the two apart stays hard: few noise sentences are enough. A q that
learns from nothing moves by tens of nats a sentence in its first epoch, faster than phi can follow: `noise_epochs` lets it
learn alone first.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch

from trflm.field.trf import TRF
from trflm.learning.batches import ShuffledBatches
from trflm.learning.context import Context
from trflm.learning.deleted import DeletedReference
from trflm.learning.loop import Metrics, clip_gradient
from trflm.learning.nce import NCE, NCESettings
from trflm.learning.replacements import Replacements
from trflm.learning.shards import WHOLE, Part, Shard, Shards
from trflm.lms.noise import ProposalNoise
from trflm.lms.proposals.lstm import LSTMProposal
from trflm.ranges import Amount, NotNegative, Positive, Share
from trflm.text import Batch, pack


@dataclass(frozen=True)
class DNCEConfig(NCESettings):
    """[learner] kind = "dnce": the noise is the LSTM of [proposal]."""

    alpha: Share = 0.5  # share of data among the sentences labelled data; 1: no noise among them
    lr_noise: NotNegative = 1e-3  # learning rate of the noise LSTM (Adam); 0 leaves it as it is
    clip_noise: Positive = 5.0  # greatest gradient norm of the mean log q a sentence
    noise_epochs: Amount = 0  # first epochs in which only the noise learns
    kind: Literal["dnce"] = "dnce"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.alpha <= 1 or min(self.lr_noise, self.noise_epochs) < 0 or self.clip_noise <= 0:
            raise ValueError("alpha must be above 0 and at most 1, lr_noise and noise_epochs not negative, clip_noise positive")

    def build(self, context: Context) -> "DNCE":
        batches = context.batches(self.batch)
        return DNCE(context.trf, context.proposal, context.replacements, batches, self, context.deleted, context.shards)


class DNCE(NCE):
    """Trains a TRF and its noise in place."""

    config: DNCEConfig

    def __init__(
        self,
        trf: TRF,
        proposal: LSTMProposal,
        replacements: Replacements,
        batches: ShuffledBatches,
        config: DNCEConfig,
        deleted: DeletedReference | None = None,
        shards: Shards = WHOLE,
    ) -> None:
        super().__init__(trf, ProposalNoise(proposal, trf.pi), replacements, batches, config, deleted, shards)
        self.proposal = proposal
        self.noise_optimiser = torch.optim.Adam(proposal.parameters(), lr=config.lr_noise)

    def step(self, number: int, rng: torch.Generator) -> Metrics:
        if number < self.config.noise_epochs * self.steps_per_epoch:
            return self.update_noise(number, rng)
        return {**super().step(number, rng), **self.update_noise(number, rng)}

    def update_noise(self, number: int, rng: torch.Generator) -> Metrics:
        """A step of q towards the data."""

        def part_of(shard: Shard) -> Part:
            log_q_B = self.proposal.log_q(self.batches.of_step(number, shard).to(self.trf.zeta.device))
            return Part(-log_q_B.mean(), len(log_q_B), {"log_q": float(log_q_B.detach().mean())})

        if not self.config.lr_noise:
            return self.shards.mean_metrics(rng, part_of)
        metrics = self.shards.mean_gradient(list(self.proposal.parameters()), rng, part_of)
        clip_gradient(self.proposal.parameters(), self.config.clip_noise)
        self.noise_optimiser.step()
        return metrics

    def noise_of(self, number: int, n_data: int, shard: Shard) -> Batch:
        """Drawn from the noise of this moment."""
        shard.begin(self.proposal.input_gates)
        return self.noise.draw(self.config.noise_ratio * (n_data + self._n_own(n_data)), shard.rng)

    def labelled_data(self, batch: Batch, rng: torch.Generator) -> Batch:
        own = self._n_own(len(batch))
        return pack([batch, self.noise.draw(own, rng)]) if own else batch

    def _n_own(self, n_data: int) -> int:
        """Sentences of the noise among those labelled data: (1 - alpha) / alpha of the data."""
        return round((1 - self.config.alpha) / self.config.alpha * n_data)

    @property
    def sampled_by(self) -> LSTMProposal:
        return self.proposal

    def state_dict(self) -> dict[str, Any]:
        parts = {"proposal": self.proposal.state_dict(), "noise_optimiser": self.noise_optimiser.state_dict()}
        return {**super().state_dict(), **parts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self.proposal.load_state_dict(state["proposal"])
        self.noise_optimiser.load_state_dict(state["noise_optimiser"])
