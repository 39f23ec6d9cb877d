"""Noise-contrastive estimation: learn phi and log Z_l by telling data from noise (DESIGN: the fast road).

    ratio(x) = log p(x) - log q(x) - log nu,        log p(x) = log pi_l + phi(x) - log Z_l
    maximise  mean_data log sigmoid(ratio) + nu * mean_noise log sigmoid(-ratio)

log Z_l is a free parameter of every length, started at l log V (exact for phi = 0). The noise density is one function,
used for data and noise alike.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trflm.learning.batches import ShuffledBatches
from trflm.learning.loop import Metrics, clip_gradient, known_lengths
from trflm.lms.unigram import Unigram
from trflm.seeds import generator
from trflm.text import Batch, pack
from trflm.trf import TRF


@dataclass(frozen=True)
class NCEConfig:
    batch: int = 100  # data sentences a step
    noise_ratio: int = 1  # nu: noise sentences for each sentence of data
    lr: float = 1e-3  # Adam, potential
    lr_log_Z: float = 1e-2  # Adam, log Z
    clip: float = 10.0  # greatest gradient norm

    def __post_init__(self) -> None:
        if self.batch < 1 or self.noise_ratio < 1:
            raise ValueError("batch and noise_ratio must be at least 1")
        if not (self.lr > 0 and self.lr_log_Z > 0 and self.clip > 0):
            raise ValueError("lr, lr_log_Z and clip must be positive")


class NCE:
    """Trains a TRF in place against a fixed noise distribution."""

    def __init__(self, trf: TRF, noise: Unigram, batches: ShuffledBatches, config: NCEConfig) -> None:
        self.trf, self.noise, self.batches, self.config = trf, noise, batches, config
        device = trf.zeta.device
        lengths = torch.arange(trf.max_length + 1, dtype=torch.float64, device=device)
        self.log_Z = nn.Parameter(lengths * math.log(len(trf.vocab)))  # [m+1]
        self.theta = list(trf.potential.parameters())
        self.optimiser = torch.optim.Adam(
            [{"params": self.theta, "lr": config.lr}, {"params": [self.log_Z], "lr": config.lr_log_Z}]
        )

    @property
    def steps_per_epoch(self) -> int:
        return self.batches.per_epoch

    def step(self, number: int, rng: torch.Generator) -> Metrics:
        return self.update(self.batches.of_step(number).to(self.trf.zeta.device), rng)

    def update(self, batch: Batch, rng: torch.Generator) -> Metrics:
        """One step from these sentences."""
        self.trf.potential.forget()  # what was scored since the last step (dev text) is to leave no trace
        noise = self.noise.draw(self.config.noise_ratio * len(batch), rng).to(batch.device)
        both = pack([batch, noise])
        loss, accuracy = self.loss(both, self.trf.potential(both).double(), len(batch))
        self.optimiser.zero_grad()
        loss.backward()
        gradient_norm = clip_gradient([*self.theta, self.log_Z], self.config.clip)
        self.optimiser.step()
        return {"loss": float(loss.detach()), "accuracy": accuracy, "gradient_norm": gradient_norm}

    def loss(self, both: Batch, phi_B: Tensor, n_data: int) -> tuple[Tensor, float]:
        """The negative objective, and how often data (the first n_data sentences) and noise are told apart."""
        ratio_B = self.ratio(both, phi_B)
        on_data, on_noise = ratio_B[:n_data], ratio_B[n_data:]
        loss = -F.logsigmoid(on_data).mean() - self.config.noise_ratio * F.logsigmoid(-on_noise).mean()
        accuracy = ((on_data > 0).double().mean() + (on_noise < 0).double().mean()) / 2
        return loss, float(accuracy)

    def ratio(self, batch: Batch, phi_B: Tensor) -> Tensor:
        """[B] log p(x) - log q(x) - log nu."""
        log_p_B = self.trf.pi[batch.lengths_B].log() + phi_B - self.log_Z[batch.lengths_B]
        return log_p_B - self.noise.log_prob(batch) - math.log(self.config.noise_ratio)

    def evaluate(self, dev: Batch) -> Metrics:
        """Loss and accuracy on dev against the same noise every time. Dev sentences of a length that training has not
        seen are left out: both densities are only floors there."""
        known = known_lengths(dev.to(self.log_Z.device), self.trf)
        noise = self.noise.draw(self.config.noise_ratio * len(known), generator(0, "dev"))
        both = pack([known, noise.to(known.device)])
        with torch.no_grad():
            loss, accuracy = self.loss(both, self.trf.phi(both), len(known))
        return {"dev_loss": float(loss), "dev_accuracy": accuracy, "criterion": -float(loss)}

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
