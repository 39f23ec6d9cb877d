"""AugSA + JSA: the training algorithm of the paper (fig:AugSA).

Each step t, from K_D data sentences D and K_B persistent chains B advanced by TransMS:

    theta  += gamma_theta Adam{mean_D dphi - (1/K_B) sum_B (pi_l / pi0_l) dphi}    gamma_theta = 1 / (t + 10^4)  eq:uplambda
    zeta_l += min{gamma_zeta delta_l(B) / pi0_l, cap}, then zeta -= zeta_1         gamma_zeta = t^-0.2           eq:upzeta1, 2
    mu     += gamma_mu (1/K_B) sum_B dlog q                                        SGD, gradient clipped         eq:upmu

The cap and the clipping are not in the paper: with pi0_l near 1e-5 a single sample would move zeta_l by thousands.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from trflm.errors import InputError, TrainingError
from trflm.field.trf import TRF
from trflm.learning.adam import Adam
from trflm.learning.batches import ShuffledBatches
from trflm.learning.context import Context, FieldLearner
from trflm.learning.loop import Metrics, clip_gradient
from trflm.lms.proposals.lstm import LSTMProposal
from trflm.lms.proposals.protocol import draw_sentences_of
from trflm.sampling.chains import Chains, Target
from trflm.sampling.mixture import TransMSConfig, trans_ms
from trflm.text import Batch, pack, training_pi0
from trflm.text.lengths import draw_from_cdf

MEMORY = 0.99  # of the running averages
STUCK, STUCK_STEPS = 1e-3, 100  # an acceptance below 1e-3 for 100 steps in a row is a stuck sampler


@dataclass(frozen=True)
class AugSAConfig(TransMSConfig):
    """[learner] kind = "augsa": the paper's algorithm and settings."""

    batch: int = 1000  # K_D
    chains: int = 100  # K_B
    lr: float = 1.0  # gamma_theta = lr / (t + lr_delay)
    lr_delay: float = 1e4
    l2: float = 0.0  # penalty (l2 / 2) |theta|^2
    zeta_decay: float = 0.2  # gamma_zeta = t^-zeta_decay
    zeta_cap: float = 10.0  # greatest step of one zeta_l
    zeta_follows: bool = False  # move zeta with theta, to first order; see `_follow`
    calibration_steps: int = 0  # first steps in which theta rests, so that zeta and mu come to fit a model trained otherwise
    lr_proposal: float = 1.0  # gamma_mu
    clip_proposal: float = 5.0  # greatest gradient norm of mu
    kind: Literal["augsa"] = "augsa"

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.batch, self.chains) < 1 or self.calibration_steps < 0:
            raise ValueError("batch and chains must be at least 1, calibration_steps must not be negative")
        if min(self.lr, self.lr_delay, self.lr_proposal, self.l2) < 0 or not 0 <= self.zeta_decay <= 1:
            raise ValueError("lr, lr_delay, lr_proposal and l2 must not be negative, zeta_decay must be between 0 and 1")
        if not (self.zeta_cap > 0 and self.clip_proposal > 0):
            raise ValueError("zeta_cap and clip_proposal must be positive")

    def build(self, context: Context) -> "AugSA":
        pi0, batches = training_pi0(context.pi), context.batches(self.batch)
        return AugSA(context.trf, context.proposal, pi0, batches, self, context.rng(2))


class AugSA(FieldLearner):
    """Trains a TRF and its proposal in place."""

    def __init__(
        self,
        trf: TRF,
        proposal: LSTMProposal,
        pi0: Tensor,
        batches: ShuffledBatches,
        config: AugSAConfig,
        rng: torch.Generator,
    ) -> None:
        self.trf, self.proposal, self.batches, self.config = trf, proposal, batches, config
        self.pi0 = pi0.to(trf.zeta)
        self.target = Target(trf, self.pi0)
        self.theta = list(trf.potential.parameters())
        self.adam = Adam(self.theta, lr=config.lr / (1 + config.lr_delay), l2=config.l2)
        self.sgd = torch.optim.SGD(proposal.parameters(), lr=config.lr_proposal)
        self.t = 0
        lengths_C = draw_from_cdf(pi0.cumsum(0).cpu(), config.chains, rng).to(trf.zeta.device)
        self.chains = draw_sentences_of(proposal, lengths_C, rng)
        self.length_share = self.pi0.clone()  # running shares of the lengths of the chains
        self.stuck_jumps = self.stuck_moves = 0  # steps in a row in which next to none was accepted
        self.zeta_before = trf.zeta.clone()  # at the last evaluation
        self.log_Z1 = trf.log_Z1()  # of the last evaluation; the KL estimate uses it

    def step(self, number: int, rng: torch.Generator) -> Metrics:
        return self.update(self.batches.of_step(number).to(self.trf.zeta.device), rng)

    def update(self, batch: Batch, rng: torch.Generator) -> Metrics:
        """One step from these sentences."""
        self.t += 1
        self.trf.potential.forget()  # what was scored since the last step (dev text, log Z_1) is to leave no trace
        chains, info = trans_ms(rng, Chains(self.chains), self.target, self.proposal, self.config)
        self.chains = chains.batch
        lengths_C = self.chains.lengths_B
        zeta_C = self.trf.zeta[lengths_C]
        phi_C, gradient_norm = self._update_theta(batch, rng)
        kl_part_C = phi_C - self.log_Z1 - zeta_C
        zeta_step = self._update_zeta(lengths_C)
        log_q_C = self._update_mu()

        share = self._share(lengths_C)
        self.length_share = MEMORY * self.length_share + (1 - MEMORY) * share
        jumps, moves = info["jump"].acceptance, info["move"].acceptance
        self.stuck_jumps = self.stuck_jumps + 1 if jumps < STUCK else 0
        self.stuck_moves = self.stuck_moves + 1 if moves < STUCK else 0
        self._watch()
        return {
            "jump_acceptance": jumps,
            "move_acceptance": moves,
            "kl": float((kl_part_C - log_q_C).mean()),
            "length_distance": float((self.length_share - self.pi0).abs().sum() / 2),
            "zeta_step": zeta_step,
            "gradient_norm": gradient_norm,
            "log_q": float(log_q_C.mean()),
        }

    def _update_theta(self, data: Batch, rng: torch.Generator) -> tuple[Tensor, float]:
        """eq:uplambda; phi of the chains before the update, and the norm of the gradient."""
        both = pack([data, self.chains])
        weight_C = (self.trf.pi / self.pi0)[self.chains.lengths_B] / len(self.chains)
        weight_B = torch.cat([weight_C.new_full((len(data),), -1 / len(data)), weight_C])
        phi_B = self.trf.potential(both, rng)
        self.adam.zero_grad()
        (weight_B.to(phi_B) * phi_B).sum().backward()
        norm = clip_gradient(self.theta, math.inf)
        phi_C = phi_B.detach()[len(data) :].double()
        if self.t > self.config.calibration_steps:
            self.adam.param_groups[0]["lr"] = self.config.lr / (self.t + self.config.lr_delay)
            self.adam.step()
            if self.config.zeta_follows:
                self._follow(phi_C)
        return phi_C, norm

    def _follow(self, phi_before_C: Tensor) -> None:
        """d log Z_l = E_{p_l}[d phi]: what the step of theta added to phi a word, by a line through the chains, goes into zeta.

        Not in the paper. Early in training phi moves by more a step than zeta's own steps can follow; the chains then all
        move to longer or shorter sentences, which pushes phi the other way, and the two swing against each other.
        """
        change_C = self.trf.phi(self.chains) - phi_before_C
        length_C = self.chains.lengths_B.double()
        spread = length_C - length_C.mean()
        a_word = (spread * change_C).sum() / spread.square().sum().clamp(min=1e-9)
        self.trf.zeta[1:] += a_word * torch.arange(self.trf.max_length, device=a_word.device)

    def _update_zeta(self, lengths_C: Tensor) -> float:
        """eq:upzeta1, eq:upzeta2; the greatest change of a zeta_l."""
        share = self._share(lengths_C)
        gamma = self.t**-self.config.zeta_decay
        step = (gamma * share[1:] / self.pi0[1:]).clamp(max=self.config.zeta_cap)
        change = step - step[0]
        self.trf.zeta[1:] += change
        return float(change.abs().max())

    def _update_mu(self) -> Tensor:
        """eq:upmu; log q of the words of each chain before the update."""
        log_q_C = self.proposal.log_q(self.chains)
        self.sgd.zero_grad()
        (-log_q_C.mean()).backward()
        clip_gradient(self.proposal.parameters(), self.config.clip_proposal)
        self.sgd.step()
        return log_q_C.detach()

    def _share(self, lengths_C: Tensor) -> Tensor:
        """[m+1] delta_l(B): the share of each length among the chains."""
        return torch.bincount(lengths_C, minlength=len(self.pi0)).to(self.pi0) / len(lengths_C)

    def _watch(self) -> None:
        """Stop a run that has gone wrong while its last good checkpoint is near."""
        for what, steps in (("Markov moves", self.stuck_moves), ("jumps", self.stuck_jumps)):
            if steps >= STUCK_STEPS and self.trf.max_length > 1:
                raise TrainingError(
                    f"the sampler is stuck: for {steps} steps fewer than {STUCK:.1%} of the {what} were accepted. The proposal "
                    "does not follow the model: lower learner.lr, or raise learner.trials or learner.lr_proposal. What was "
                    "saved before is kept"
                )
        a_word = self.trf.zeta[2:] / torch.arange(1, self.trf.max_length, device=self.trf.zeta.device)
        most = 10 * math.log(len(self.trf.vocab) + 1) + self.config.zeta_cap
        if len(a_word) and float(a_word.abs().max()) > most:
            raise TrainingError(
                f"zeta runs away: it has grown to {float(a_word.abs().max()):.0f} a word (log V is "
                f"{math.log(len(self.trf.vocab)):.1f}). Lower learner.lr or learner.zeta_cap. What was saved before is kept"
            )

    def evaluate(self, dev: Batch) -> Metrics:
        """Mean dev log-likelihood a sentence, with pi and the zeta of this moment; lengths training has not seen left out."""
        self.log_Z1 = self.trf.log_Z1()
        log_likelihood = float(self.trf.log_prob(self.usable(dev)).mean())
        drift = float((self.trf.zeta - self.zeta_before).abs().max())
        self.zeta_before = self.trf.zeta.clone()
        lengths = {f"chains_{low}_{high}": share for low, high, share in self.lengths_against_pi0()}
        return {
            "dev_log_likelihood": log_likelihood,
            "log_Z1": self.log_Z1,
            "zeta_drift": drift,
            **lengths,
            "criterion": log_likelihood,
        }

    def lengths_against_pi0(self) -> list[tuple[int, int, float]]:
        """The histogram of the chains' lengths, in tens: (from, to, running share over pi0's share). 1 is as it should be."""
        m = self.trf.max_length
        bins = [(low, min(low + 9, m)) for low in range(1, m + 1, 10)]
        sums = [(low, high, self.length_share[low : high + 1].sum(), self.pi0[low : high + 1].sum()) for low, high in bins]
        return [(low, high, float(chains / expected)) for low, high, chains, expected in sums]

    @property
    def sampled_by(self) -> LSTMProposal:
        return self.proposal

    def state_dict(self) -> dict[str, Any]:
        return {
            "trf": self.trf.state_dict(),
            "proposal": self.proposal.state_dict(),
            "adam": self.adam.state_dict(),
            "sgd": self.sgd.state_dict(),
            "chains": {"ids": self.chains.ids_N, "lengths": self.chains.lengths_B},
            "length_share": self.length_share,
            "t": self.t,
            "stuck_jumps": self.stuck_jumps,
            "stuck_moves": self.stuck_moves,
            "zeta_before": self.zeta_before,
            "log_Z1": self.log_Z1,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        device = self.trf.zeta.device
        was, now = (part.get("output.class_V") for part in (state["proposal"], self.proposal.state_dict()))
        if was is not None and now is not None and not torch.equal(was, now.cpu()):
            raise InputError("the word classes of the proposal are not those the run was started with; give the old ones")
        self.trf.load_state_dict(state["trf"])
        self.proposal.load_state_dict(state["proposal"])
        self.adam.load_state_dict(state["adam"])
        self.sgd.load_state_dict(state["sgd"])
        self.chains = Batch(state["chains"]["ids"], state["chains"]["lengths"]).to(device)
        self.length_share = state["length_share"].to(device)
        self.zeta_before = state["zeta_before"].to(device)
        self.stuck_jumps, self.stuck_moves = state["stuck_jumps"], state["stuck_moves"]
        self.t, self.log_Z1 = state["t"], state["log_Z1"]
