"""Noise-contrastive estimation: learn phi and log Z_l by telling data from noise (docs/math.md).

    ratio(x) = log p(x) - log q(x) - log nu,        log p(x) = log pi_l + phi(x) - log Z_l
    maximise  mean_data log sigmoid(ratio) + nu * mean_noise log sigmoid(-ratio)

log Z_l is a free parameter of every length, started at the TRF's own log Z_1 + zeta_l. The noise density is one function,
used for data and noise alike. Optionally a term of conditional NCE is added: sentences with one word replaced, which are wrong
in one place only as the hypotheses of a recogniser are (`replacements`).
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trflm.field.trf import TRF
from trflm.learning.adam import Adam
from trflm.learning.batches import ShuffledBatches
from trflm.learning.context import Context, FieldLearner
from trflm.learning.deleted import DeletedReference
from trflm.learning.loop import Metrics, clip_gradient
from trflm.learning.replacements import DevChoice, Replacements
from trflm.learning.schedules import falling
from trflm.learning.shards import WHOLE, Part, Shard, Shards
from trflm.lms.noise import Noise
from trflm.ranges import Amount, Count, NotNegative, Positive, Share
from trflm.seeds import generator
from trflm.text import Batch, pack

POOL = 20  # steps whose noise is drawn at once


@dataclass(frozen=True)
class NCESettings:
    """What NCE with fixed and with learning noise have in common."""

    batch: Count = 100  # data sentences a step
    noise_ratio: Count = 1  # nu: noise sentences for each sentence of data
    replacements: Amount = 0  # sentences with a word replaced, for each sentence of data
    replacement_weight: NotNegative = 1.0  # weight of the loss of those sentences
    lr: Positive = 1e-3  # learning rate of the potential (Adam)
    constant_epochs: Amount = 0  # epochs before the learning rates fall
    decay: Share = 1.0  # the factor of the learning rates in each epoch after
    lr_log_Z: Positive = 1e-2  # learning rate of log Z (Adam)
    weight_decay: NotNegative = 0.0  # of the potential, decoupled
    l2: NotNegative = 0.0  # penalty (l2 / 2) |theta|^2 in the loss
    clip: Positive = 10.0  # greatest gradient norm

    def __post_init__(self) -> None:
        if self.batch < 1 or self.noise_ratio < 1:
            raise ValueError("batch and noise_ratio must be at least 1")
        if min(self.replacements, self.replacement_weight, self.weight_decay, self.l2, self.constant_epochs) < 0:
            raise ValueError("replacements, replacement_weight, weight_decay, l2 and constant_epochs must not be negative")
        if not (self.lr > 0 and self.lr_log_Z > 0 and self.clip > 0 and 0 < self.decay <= 1):
            raise ValueError("lr, lr_log_Z and clip must be positive, decay must be above 0 and at most 1")


@dataclass(frozen=True)
class NCEConfig(NCESettings):
    """[learner] kind = "nce": the noise is that of [noise]."""

    kind: Literal["nce"] = "nce"

    def build(self, context: Context) -> "NCE":
        batches, deleted, shards = context.batches(self.batch), context.deleted, context.shards
        return NCE(context.trf, context.noise, context.replacements, batches, self, deleted, shards)


class NCE(FieldLearner):
    """Trains a TRF in place against a fixed noise distribution."""

    def __init__(
        self,
        trf: TRF,
        noise: Noise,
        replacements: Replacements,
        batches: ShuffledBatches,
        config: NCESettings,
        deleted: DeletedReference | None = None,
        shards: Shards = WHOLE,
    ) -> None:
        self.trf, self.noise, self.replacements, self.batches, self.config = trf, noise, replacements, batches, config
        self.deleted, self.shards = deleted, shards
        self.log_Z = nn.Parameter(trf.log_Z1() + trf.zeta)  # [m+1]
        self.theta = list(trf.potential.parameters())
        self.optimiser = Adam(
            [
                {"params": self.theta, "lr": config.lr, "weight_decay": config.weight_decay, "l2": config.l2},
                {"params": [self.log_Z], "lr": config.lr_log_Z},
            ],
            lr=config.lr,
        )
        self.dev_choice = DevChoice(replacements)
        self._pools: dict[int, tuple[int, Batch]] = {}  # of a shard: the number of the pool, and its noise

    def step(self, number: int, rng: torch.Generator) -> Metrics:
        fall = falling(self.config.decay, self.config.constant_epochs, number // self.steps_per_epoch)
        for group, lr in zip(self.optimiser.param_groups, (self.config.lr, self.config.lr_log_Z), strict=True):
            group["lr"] = lr * fall

        def part_of(shard: Shard) -> Part:
            batch = self.batches.of_step(number, shard).to(self.trf.zeta.device)
            drawn = self.noise_of(number, len(batch), shard).to(batch.device)
            return self.part(batch, drawn, shard.rng, self.batches.index_of_step(number, shard))

        metrics = self.shards.mean_gradient([*self.theta, self.log_Z], rng, part_of)
        metrics["gradient_norm"] = clip_gradient([*self.theta, self.log_Z], self.config.clip)
        self.optimiser.step()
        return metrics

    def noise_of(self, number: int, n_data: int, shard: Shard) -> Batch:
        """The noise of a step. It never changes, so that of several steps is drawn at once, which is cheaper."""
        pool, place = divmod(number, POOL)
        n = self.config.noise_ratio * n_data
        if shard.number not in self._pools or self._pools[shard.number][0] != pool:
            self._pools[shard.number] = (pool, self.noise.draw(POOL * n, shard.generator(self.batches.seed, "noise", pool)))
        return self._pools[shard.number][1].select(torch.arange(place * n, (place + 1) * n))

    def part(self, batch: Batch, drawn: Batch, rng: torch.Generator, index_B: Tensor) -> Part:
        """The loss on these sentences of data, which are those of `index_B` in the text, and of noise."""
        self.trf.potential.forget()  # what was scored since the last step (dev text) is to leave no trace
        noise = self._known(drawn)
        pairs = self.replacements.pairs(batch, self.config.replacements, rng) if self.config.replacements else None
        positive = self.labelled_data(batch, rng)
        parts = [positive, noise, pairs.replaced] if pairs else [positive, noise]
        phi_B = self.trf.potential(pack(parts), rng).double()
        if self.deleted:
            fold_B = self.deleted.fold(index_B).to(phi_B.device)
            phi_B[: len(batch)] += self.deleted.correction(batch, fold_B)
            if pairs:
                phi_B[-len(pairs.replaced) :] += self.deleted.correction(pairs.replaced, fold_B[pairs.source_R])
        phi_both, phi_R = phi_B.split([len(positive) + len(noise), len(phi_B) - len(positive) - len(noise)])
        loss, accuracy = self.loss(pack([positive, noise]), phi_both, len(positive))
        metrics: Metrics = {"loss": float(loss.detach()), "accuracy": accuracy}
        if pairs:
            pair_loss = pairs.loss(phi_B, phi_R)
            metrics["replacement_loss"] = float(pair_loss.detach())
            loss = loss + self.config.replacement_weight * pair_loss
        return Part(loss, len(batch), metrics)

    def labelled_data(self, batch: Batch, rng: torch.Generator) -> Batch:
        """The sentences that are to be taken for data."""
        return batch

    def _known(self, noise: Batch) -> Batch:
        """Noise of a length that the TRF gives no probability is told from data for certain, and teaches nothing."""
        return noise.select((~self.trf.unseen(noise.lengths_B)).nonzero().squeeze(1))

    def loss(self, both: Batch, phi_B: Tensor, n_data: int) -> tuple[Tensor, float]:
        """The negative objective, and how often data (the first n_data sentences) and noise are told apart.

        Noise of unknown lengths was left out of `both`; it counts in the mean with its loss of 0.
        """
        ratio_B = self.ratio(both, phi_B)
        on_data, on_noise = ratio_B[:n_data], ratio_B[n_data:]
        drawn = self.config.noise_ratio * n_data
        loss = -F.logsigmoid(on_data).mean() - self.config.noise_ratio * F.logsigmoid(-on_noise).sum() / drawn
        accuracy = ((on_data > 0).double().mean() + 1 - (on_noise >= 0).double().sum() / drawn) / 2
        return loss, float(accuracy)

    def ratio(self, batch: Batch, phi_B: Tensor) -> Tensor:
        """[B] log p(x) - log q(x) - log nu."""
        log_p_B = self.trf.pi[batch.lengths_B].log() + phi_B - self.log_Z[batch.lengths_B]
        return log_p_B - self.noise.log_prob(batch) - math.log(self.config.noise_ratio)

    def evaluate(self, dev: Batch) -> Metrics:
        """Against the same noise every time: loss and accuracy, and as criterion how well the words of dev text are chosen
        among others, which can be compared between learners. Dev sentences of a length that training has not seen are left
        out: both densities are only floors there."""
        known = self.usable(dev)
        noise = self._known(self.noise.draw(self.config.noise_ratio * len(known), generator(0, "dev")).to(known.device))
        both = pack([known, noise])
        with torch.no_grad():
            loss, accuracy = self.loss(both, self.trf.phi(both), len(known))
        choice = self.dev_choice.of(known, self.trf)
        return {"dev_loss": float(loss), "dev_accuracy": accuracy, "dev_choice": choice, "criterion": choice}

    def write_zeta(self) -> None:
        """zeta_l = log Z_l (learned) - log Z_1 (exact), so that the TRF scores with the learned log Z_l; lengths without a
        training sentence, whose log Z_l nothing has moved, lie on the line between their neighbours."""
        zeta = (self.log_Z.detach() - self.trf.log_Z1()).cpu().numpy()
        zeta[:2] = 0.0
        seen = np.union1d([1], self.trf.pi.cpu().numpy().nonzero()[0])
        lengths = np.arange(1, len(zeta))
        zeta[1:] = np.interp(lengths, seen, zeta[seen])
        self.trf.zeta.copy_(torch.from_numpy(zeta))

    def state_dict(self) -> dict[str, Any]:
        self.write_zeta()
        return {"trf": self.trf.state_dict(), "log_Z": self.log_Z.detach(), "optimiser": self.optimiser.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.trf.load_state_dict(state["trf"])
        with torch.no_grad():
            self.log_Z.copy_(state["log_Z"])
        self.optimiser.load_state_dict(state["optimiser"])
