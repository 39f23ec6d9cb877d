"""TransMS: trans-dimensional mixture sampling (section 4.2 of the paper). One iteration is a local jump, then a Markov move."""

from dataclasses import dataclass

import torch

from trflm.lms.proposals.protocol import Proposal
from trflm.sampling.chains import Chains, Target
from trflm.sampling.gibbs import MoveInfo, block_gibbs
from trflm.sampling.jump import JumpInfo, local_jump
from trflm.text import Batch


@dataclass(frozen=True)
class TransMSConfig:
    jump_range: int = 5  # r; the paper says "wider" than 1 without a number
    block: int = 5  # s
    trials: int = 10  # M

    def __post_init__(self) -> None:
        if min(self.jump_range, self.block, self.trials) < 1:
            raise ValueError("jump_range, block and trials must be at least 1")


@dataclass(frozen=True)
class TransMSInfo:
    jump: JumpInfo
    move: MoveInfo


def trans_ms(
    rng: torch.Generator, sentences: Batch, target: Target, proposal: Proposal, config: TransMSConfig
) -> tuple[Chains, TransMSInfo]:
    """One iteration of every chain, from these sentences."""
    chains, jump = local_jump(rng, sentences, target, proposal, config.jump_range)
    chains, move = block_gibbs(rng, chains, target, proposal, config.block, config.trials)
    return chains, TransMSInfo(jump, move)
