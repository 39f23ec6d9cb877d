"""AugSA + JSA: the training algorithm of the paper (fig:AugSA).

Each step t, from K_D data sentences D and K_B persistent chains B advanced by TransMS:

    theta  += gamma_theta Adam{mean_D dphi - (1/K_B) sum_B (pi_l / pi0_l) dphi}    gamma_theta = 1 / (t + 10^4)  eq:uplambda
    zeta_l += min{gamma_zeta delta_l(B) / pi0_l, cap}, then zeta -= zeta_1         gamma_zeta = t^-0.2           eq:upzeta1, 2
    mu     += gamma_mu (1/K_B) sum_B dlog q                                        SGD, gradient clipped         eq:upmu

The cap and the clipping are not in the paper: with pi0_l near 1e-5 a single sample would move zeta_l by thousands. Nor is what
has a default of 0 or false in `AugSAConfig`: docs/math.md has its equations, docs/training.md says what each brings.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from trflm.errors import InputError
from trflm.field.snapshots import TrainedField
from trflm.field.trf import TRF
from trflm.learning.adam import Adam
from trflm.learning.average import MeanField
from trflm.learning.balance import balanced
from trflm.learning.batches import ShuffledBatches
from trflm.learning.context import Context, FieldLearner
from trflm.learning.loop import Metrics, clip_gradient
from trflm.learning.replacements import DevChoice
from trflm.learning.shards import WHOLE, Shard, Shards
from trflm.learning.start import StartConfig, estimate_zeta, start_chains, teach
from trflm.learning.watch import STUCK, lengths_in_tens, stop_if_stuck, stop_if_zeta_runs_away
from trflm.learning.zeta import FlowSteps, ZetaSteps, follow, two_stage
from trflm.lms.proposals.lstm import LSTMProposal
from trflm.lms.proposals.protocol import draw_sentences_of
from trflm.potentials.cnn.network import scoring_in_bf16
from trflm.potentials.protocol import training_in_bf16
from trflm.ranges import Count, NotNegative, Positive, Share, Steps
from trflm.sampling.autocorrelation import beyond_length, integrated_autocorrelation, recent
from trflm.sampling.chains import Chains, MoveInfo, Target, Weighted
from trflm.sampling.mixture import trans_ms
from trflm.speed.bf16 import has_bf16
from trflm.text import Batch, pack, training_pi0
from trflm.text.lengths import draw_from_cdf, strata_from_cdf

MEMORY = 0.99  # of the running averages
HISTORY = 100  # steps over which the autocorrelation of phi is taken
RECENT = 0.9  # memory of the acceptance that decides whether the proposal is refreshed


@dataclass(frozen=True)
class AugSAConfig(StartConfig):
    """[learner] kind = "augsa": the paper's algorithm and settings."""

    batch: Count = 1000  # K_D: sentences of text a step
    chains: Count = 100  # K_B: Markov chains
    lr: Positive = 1.0  # gamma_theta = lr / (t + lr_delay)
    lr_delay: NotNegative = 1e4  # steps
    l2: NotNegative = 0.0  # penalty (l2 / 2) |theta|^2
    warm_up: Steps = 0  # first steps of theta, in which its rate rises along a line
    epsilon: Positive = 1e-8  # of Adam: gradients well below it make steps in proportion to their size, so 1 is plain descent
    momentum: Share = 0.9  # the share of the gradients before in a step of Adam
    balance_lengths: bool = False  # weigh data and chains such that their lengths are as pi has them; see `balance`
    average: Share = 0.0  # the share that a running mean of theta and zeta keeps in a step; 0: no mean
    zeta_decay: NotNegative = 0.2  # gamma_zeta = t^-zeta_decay
    zeta_first_stage: Steps = 0  # steps after which gamma_zeta goes on as 1/t; 0: never
    zeta_cap: Positive = 10.0  # greatest step of one zeta_l
    zeta_smooth: NotNegative = 0.0  # mass of pi0 between knots of a smooth zeta; 0: every length for itself; see `zeta`
    expected_lengths: bool = False  # move zeta by the probability of each length within reach instead of a count
    zeta_flows: bool = False  # move zeta by what flows between lengths, however many chains each has: no swinging; see `zeta`
    zeta_follows: bool = False  # move zeta with theta, to first order; see `zeta.follow`
    calibration_steps: Steps = 0  # first steps in which theta rests, so that zeta and mu come to fit a model trained otherwise
    lr_proposal: NotNegative = 1.0  # gamma_mu
    clip_proposal: Positive = 5.0  # greatest gradient norm of mu
    adam_proposal: bool = False  # Adam in place of SGD; then lr_proposal is to be a thousandth or so
    data_proposal: Share = 0.0  # the share of the data in what mu learns from
    refresh_below: Share = 0.0  # while fewer Markov moves than this are accepted, mu takes more steps; 0: never
    refresh_steps: Count = 10  # so many more, of chains and data of the step
    bf16: bool = False  # the sampler and the gradient of theta multiply in bf16, if this CPU has instructions for it
    dev_choice: bool = False  # report the criterion of the other learners too
    kind: Literal["augsa"] = "augsa"

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.batch, self.chains) < 1 or min(self.calibration_steps, self.warm_up, self.zeta_first_stage) < 0:
            raise ValueError(
                "batch and chains must be at least 1, calibration_steps, warm_up and zeta_first_stage must not be negative"
            )
        if min(self.lr, self.lr_delay, self.lr_proposal, self.l2) < 0 or not 0 <= self.zeta_decay <= 1:
            raise ValueError("lr, lr_delay, lr_proposal and l2 must not be negative, zeta_decay must be between 0 and 1")
        if not (self.zeta_cap > 0 and self.clip_proposal > 0):
            raise ValueError("zeta_cap and clip_proposal must be positive")
        if not (self.epsilon > 0 and 0 <= self.average < 1 and 0 <= self.zeta_smooth < 1 and 0 <= self.data_proposal <= 1):
            raise ValueError("epsilon must be positive; average, zeta_smooth and data_proposal must be from 0 to 1")
        if not 0 <= self.refresh_below < 1 or self.refresh_steps < 1:
            raise ValueError("refresh_below must be from 0 up and below 1, refresh_steps at least 1")
        if not 0 <= self.momentum < 1:
            raise ValueError("momentum must be from 0 up and below 1")
        if self.hold_lengths and not self.zeta_flows:
            raise ValueError("hold_lengths needs zeta_flows = true: lengths that never change cannot be counted")

    def build(self, context: Context) -> "AugSA":
        pi0, batches = training_pi0(context.pi), context.batches(self.batch)
        trf, proposal, notes = context.trf, context.proposal, []
        if context.fresh and self.teach_epochs and not (context.given and context.given.has_proposal):
            teach(proposal, context.text, self.teach_epochs, context.seed)
        if context.fresh and self.zeta_draws:
            notes.append(estimate_zeta(context.rng(4), trf, proposal, self.zeta_draws))
        context.shards.check_divides(self.chains, "learner.chains")
        learner = AugSA(trf, proposal, pi0, batches, self, context.rng(2), context.shards)
        if context.fresh and (self.burn_in or self.chains_at_data):
            lengths_C = learner.chains.lengths_B
            learner.chains = start_chains(context.rng(5), trf, proposal, lengths_C, context.sample, self)
        learner.notes = notes
        if self.dev_choice:
            learner.dev_choice = DevChoice(context.replacements)
        return learner


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
        shards: Shards = WHOLE,
    ) -> None:
        self.trf, self.proposal, self.batches, self.config, self.shards = trf, proposal, batches, config, shards
        self.pi0 = pi0.to(trf.zeta)
        self.target = Target(trf, self.pi0)
        self.theta = list(trf.potential.parameters())
        self.in_bf16 = config.bf16 and has_bf16()
        lr = config.lr / (1 + config.lr_delay)
        self.adam = Adam(self.theta, lr=lr, l2=config.l2, eps=config.epsilon, momentum=config.momentum)
        optimiser = torch.optim.Adam if config.adam_proposal else torch.optim.SGD
        self.of_mu = optimiser(proposal.parameters(), lr=config.lr_proposal)
        self.zeta_steps = ZetaSteps(self.pi0, config.zeta_cap, config.zeta_smooth)
        self.flow_steps = FlowSteps(self.pi0, config.zeta_cap, config.zeta_smooth) if config.zeta_flows else None
        self.mean = MeanField(trf, config.average) if config.average else None
        self.dev_choice: DevChoice | None = None
        self.t = 0
        draw_lengths = strata_from_cdf if config.hold_lengths else draw_from_cdf
        lengths_C = draw_lengths(pi0.cumsum(0).cpu(), config.chains, rng).to(trf.zeta.device)
        self.chains = draw_sentences_of(proposal, lengths_C, rng)
        self.phi_TC = self.pi0.new_zeros(0, config.chains)  # of the last steps
        self.length_share = self.pi0.clone()  # running shares of the lengths of the chains
        self.move_acceptance = 1.0  # running mean of the last steps
        self.stuck_jumps = self.stuck_moves = 0  # steps in a row in which next to none was accepted
        self.zeta_before = trf.zeta.clone()  # at the last evaluation
        self.log_Z1 = trf.log_Z1()  # of the last evaluation; the KL estimate uses it

    def step(self, number: int, rng: torch.Generator) -> Metrics:
        return self.update(self.batches.of_step(number).to(self.trf.zeta.device), rng)

    def update(self, batch: Batch, rng: torch.Generator) -> Metrics:
        """One step from these sentences."""
        self.t += 1
        self.trf.potential.forget()  # what was scored since the last step (dev text, log Z_1) is to leave no trace
        chains, info = joined(self.shards.map(rng, self._advance))
        self.chains = chains.batch
        lengths_C = self.chains.lengths_B
        zeta_C = self.trf.zeta[lengths_C]
        phi_C, gradient_norm = self._update_theta(batch, rng, chains, info["move"].expected)
        kl_part_C = phi_C - self.log_Z1 - zeta_C
        zeta_step = self._update_zeta(lengths_C, info["jump"])
        log_q_C = self._update_mu(batch, rng)
        jumps, moves = info["jump"].acceptance, info["move"].acceptance
        self._refresh_mu(batch, rng, moves)
        self.phi_TC = recent(self.phi_TC, phi_C, HISTORY)
        if self.mean is not None:
            self._update_mean(self.mean)

        share = self._share(lengths_C)
        self.length_share = MEMORY * self.length_share + (1 - MEMORY) * share
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

    def _advance(self, shard: Shard) -> tuple[Chains, dict[str, MoveInfo]]:
        """One iteration of TransMS on the chains of a shard."""
        shard.begin(self.trf.potential, self.proposal.input_gates)
        with scoring_in_bf16(self.trf, self.in_bf16):
            return trans_ms(shard.rng, Chains(own(shard, self.chains)), self.target, self.proposal, self.config)

    def _update_theta(
        self, data: Batch, rng: torch.Generator, chains: Chains, expected: Weighted | None = None
    ) -> tuple[Tensor, float]:
        """eq:uplambda; phi of the chains before the update, and the norm of the gradient."""
        config = self.config
        drawn, weight_C = self._drawn(expected)
        weight_D = weight_C.new_full((len(data),), 1 / len(data))
        if config.balance_lengths:
            mean_length = float((self.trf.pi * torch.arange(len(self.trf.pi), device=weight_C.device)).sum())
            weight_C = balanced(weight_C, drawn.lengths_B, mean_length)
            weight_D = balanced(weight_D, data.lengths_B, mean_length)

        def loss_of(shard: Shard) -> tuple[Tensor, Tensor]:
            """The shard's part of the sum over data and chains, and phi of its chains."""
            shard.begin(self.trf.potential)
            some = own(shard, data)
            weight_B = torch.cat([-shard.of(weight_D), shard.of(weight_C)])
            phi_B = self.trf.potential(pack([some, own(shard, drawn)]), shard.rng)
            return (weight_B.to(phi_B) * phi_B).sum(), phi_B.detach()[len(some) :].double()

        with training_in_bf16(self.trf, self.in_bf16):
            phi_drawn = torch.cat(self.shards.sum_gradient(self.theta, rng, loss_of))
        norm = clip_gradient(self.theta, math.inf)
        phi_C = phi_drawn if expected is None else self._phi_of(chains)
        steps = self.t - config.calibration_steps
        if steps > 0:
            warm = min(1.0, steps / (config.warm_up + 1))
            self.adam.param_groups[0]["lr"] = config.lr / (self.t + config.lr_delay) * warm
            self.adam.step()
            if config.zeta_follows:
                follow(self.trf, self.chains, phi_C)
        return phi_C, norm

    def _drawn(self, expected: Weighted | None) -> tuple[Batch, Tensor]:
        """The sentences that stand for the field, and their weights: the chains, or what was expected of them."""
        share_l = self._share(self.chains.lengths_B) if self.config.hold_lengths else self.pi0
        importance = self.trf.pi / share_l
        if expected is None:
            return self.chains, importance[self.chains.lengths_B] / len(self.chains)
        return expected.batch, importance[expected.batch.lengths_B] * expected.weight_B

    def _phi_of(self, chains: Chains) -> Tensor:
        """From what the sampler knows."""
        return chains.log_density(self.target) - (self.target.log_pi0 - self.trf.zeta)[chains.batch.lengths_B]

    def _update_zeta(self, lengths_C: Tensor, jump: MoveInfo | None = None) -> float:
        """eq:upzeta1, eq:upzeta2; the greatest change of a zeta_l."""
        gamma = two_stage(self.t, self.config.zeta_decay, self.config.zeta_first_stage)
        if self.flow_steps is not None and jump is not None and jump.reach_kl is not None:
            change = self.flow_steps.step(gamma, jump.reach_kl)
        elif self.config.expected_lengths and jump is not None and jump.length_share is not None:
            change = self.zeta_steps.step(gamma, jump.length_share)
        else:
            change = self.zeta_steps.step(gamma, self._share(lengths_C))
        self.trf.zeta[1:] += change
        return float(change.abs().max())

    def _update_mu(self, data: Batch, rng: torch.Generator) -> Tensor:
        """eq:upmu; log q of the words of each chain before the update."""

        def loss_of(shard: Shard) -> tuple[Tensor, Tensor]:
            chains, text = own(shard, self.chains), own(shard, data)
            log_q_C = self.proposal.log_q(chains)
            loss, share = -log_q_C.mean(), self.config.data_proposal
            if share:
                some = text.select(torch.arange(min(len(text), len(chains)), device=text.device))
                loss = (1 - share) * loss - share * self.proposal.log_q(some).mean()
            return loss * (len(chains) / len(self.chains)), log_q_C.detach()

        log_q_C = torch.cat(self.shards.sum_gradient(list(self.proposal.parameters()), rng, loss_of))
        clip_gradient(self.proposal.parameters(), self.config.clip_proposal)
        self.of_mu.step()
        return log_q_C

    def _refresh_mu(self, data: Batch, rng: torch.Generator, accepted: float) -> None:
        """The proposal has fallen behind the field: more steps, each with sentences of the data in another order."""
        kept = RECENT if self.t > 1 else 0.0
        self.move_acceptance = kept * self.move_acceptance + (1 - kept) * accepted
        if self.move_acceptance < self.config.refresh_below:
            for _ in range(self.config.refresh_steps):
                self._update_mu(data.select(torch.randperm(len(data), generator=rng).to(data.device)), rng)

    def _update_mean(self, mean: MeanField) -> None:
        """While theta rests there is nothing to average over."""
        steps = self.t - self.config.calibration_steps
        if steps > 0:
            mean.update(self.trf, steps)
        else:
            mean.follow(self.trf)

    def _share(self, lengths_C: Tensor) -> Tensor:
        """[m+1] delta_l(B): the share of each length among the chains."""
        return torch.bincount(lengths_C, minlength=len(self.pi0)).to(self.pi0) / len(lengths_C)

    def _watch(self) -> None:
        """Stop a run that has gone wrong while its last good checkpoint is near."""
        if self.trf.max_length > 1:
            stop_if_stuck({"Markov moves": self.stuck_moves, "jumps": self.stuck_jumps})
        stop_if_zeta_runs_away(self.trf, self.config.zeta_cap)

    def evaluate(self, dev: Batch) -> Metrics:
        """Mean dev log-likelihood a sentence, with pi and the zeta of this moment; lengths training has not seen left out."""
        self.log_Z1 = self.trf.log_Z1()
        known, scored = self.usable(dev), self.model.trf
        log_likelihood = float(scored.log_prob(known).mean())
        drift = float((self.trf.zeta - self.zeta_before).abs().max())
        self.zeta_before = self.trf.zeta.clone()
        tens = lengths_in_tens(self.length_share, self.pi0)
        lengths = {f"chains_{low}_{high}": share for low, high, share in tens}
        held = self.config.hold_lengths
        tau = integrated_autocorrelation(beyond_length(self.phi_TC, self.chains.lengths_B) if held else self.phi_TC)
        metrics = {
            "dev_log_likelihood": log_likelihood,
            "log_Z1": self.log_Z1,
            "zeta_drift": drift,
            "autocorrelation": tau,
            "effective_chains": len(self.chains) / tau,
            **lengths,
        }
        if self.mean is not None:
            metrics["dev_log_likelihood_now"] = float(self.trf.log_prob(known).mean())
        if self.dev_choice is not None:
            metrics["dev_choice"] = self.dev_choice.of(known, scored)
        return {**metrics, "criterion": log_likelihood}

    @property
    def model(self) -> TrainedField:
        """The field of now, or its mean over the steps."""
        return TrainedField(self.trf if self.mean is None else self.mean.trf, self.proposal)

    @property
    def sampled_by(self) -> LSTMProposal:
        return self.proposal

    def state_dict(self) -> dict[str, Any]:
        return {
            "trf": self.trf.state_dict(),
            "proposal": self.proposal.state_dict(),
            "adam": self.adam.state_dict(),
            "sgd": self.of_mu.state_dict(),
            "chains": {"ids": self.chains.ids_N, "lengths": self.chains.lengths_B},
            "length_share": self.length_share,
            "t": self.t,
            "move_acceptance": self.move_acceptance,
            "stuck_jumps": self.stuck_jumps,
            "stuck_moves": self.stuck_moves,
            "zeta_before": self.zeta_before,
            "log_Z1": self.log_Z1,
            "phi": self.phi_TC,
            **({} if self.mean is None else {"mean": self.mean.trf.state_dict()}),
            **({} if self.flow_steps is None or self.flow_steps.mean_mm is None else {"flows": self.flow_steps.mean_mm}),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        device = self.trf.zeta.device
        was, now = (part.get("output.class_V") for part in (state["proposal"], self.proposal.state_dict()))
        if was is not None and now is not None and not torch.equal(was, now.cpu()):
            raise InputError("the word classes of the proposal are not those the run was started with; give the old ones")
        self.trf.load_state_dict(state["trf"])
        self.proposal.load_state_dict(state["proposal"])
        self.adam.load_state_dict(state["adam"])
        self.of_mu.load_state_dict(state["sgd"])
        self.chains = Batch(state["chains"]["ids"], state["chains"]["lengths"]).to(device)
        self.length_share = state["length_share"].to(device)
        self.phi_TC = state.get("phi", self.phi_TC).to(device)  # a state saved before there was one has none
        if self.mean is not None:
            self.mean.trf.load_state_dict(state["mean"])
        if self.flow_steps is not None and "flows" in state:
            self.flow_steps.mean_mm = state["flows"].to(device)
        self.zeta_before = state["zeta_before"].to(device)
        self.move_acceptance = state.get("move_acceptance", self.move_acceptance)  # a state saved before there was one has none
        self.stuck_jumps, self.stuck_moves = state["stuck_jumps"], state["stuck_moves"]
        self.t, self.log_Z1 = state["t"], state["log_Z1"]


def own(shard: Shard, sentences: Batch) -> Batch:
    """Those of a shard."""
    if shard.count == 1:
        return sentences
    return sentences.select(shard.of(torch.arange(len(sentences), device=sentences.device)))


def joined(parts: Sequence[tuple[Chains, dict[str, MoveInfo]]]) -> tuple[Chains, dict[str, MoveInfo]]:
    """The chains of all shards, and what their moves came to."""
    if len(parts) == 1:
        return parts[0]
    chains = [one for one, _ in parts]
    n = sum(len(one.batch) for one in chains)
    known = [one.log_p_C for one in chains if one.log_p_C is not None]
    log_p_C = torch.cat(known) if len(known) == len(chains) else None
    infos = {name: joined_info([(info[name], len(one.batch) / n) for one, info in parts]) for name in parts[0][1]}
    return Chains(pack([one.batch for one in chains]), log_p_C), infos


def joined_info(parts: Sequence[tuple[MoveInfo, float]]) -> MoveInfo:
    """Of (info, the share of the chains) of each shard."""
    reaches = [info.reach_kl for info, _ in parts if info.reach_kl is not None]
    expected = [(info.expected, share) for info, share in parts if info.expected is not None]
    return MoveInfo(
        sum(info.tried for info, _ in parts),
        sum(info.accepted for info, _ in parts),
        torch.stack(reaches).sum(0) if reaches else None,
        Weighted(pack([one.batch for one, _ in expected]), torch.cat([one.weight_B * share for one, share in expected]))
        if expected
        else None,
    )
