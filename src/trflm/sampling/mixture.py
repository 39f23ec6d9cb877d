"""TransMS: trans-dimensional mixture sampling (section 4.2 of the paper). One iteration is a local jump, then a Markov move.

A move takes chains and gives chains, so a mixture is a list of moves: add one to `TransMSConfig.moves`, and it is tried too.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import torch

from trflm.lms.proposals.protocol import Proposal
from trflm.ranges import Amount, Count
from trflm.sampling.chains import Chains, MoveInfo, Target
from trflm.sampling.gibbs import block_gibbs
from trflm.sampling.jump import local_jump
from trflm.sampling.window import window_jump


class Move(Protocol):
    """A transition of every chain that leaves the target invariant."""

    def __call__(self, rng: torch.Generator, chains: Chains, target: Target, proposal: Proposal) -> tuple[Chains, MoveInfo]: ...


@dataclass(frozen=True)
class TransMSConfig:
    jump_range: Count = 5  # r: lengths a jump may go; the paper says "wider" than 1 without a number
    block: Count = 5  # s: words that the Markov move draws anew at a time
    trials: Count = 10  # M: trials for each such block
    window: Amount = 0  # lengths that a jump chooses among at once (`window_jump`); 0: the paper's local jump
    hold_lengths: bool = False  # jumps are tried and none is taken: what they would have done moves zeta, the lengths stay
    weigh_trials: bool = False  # whether the Markov move keeps what was expected of it; see `gibbs`

    def __post_init__(self) -> None:
        if min(self.jump_range, self.block, self.trials) < 1 or self.window < 0:
            raise ValueError("jump_range, block and trials must be at least 1, window must not be negative")

    def moves(self) -> Mapping[str, Move]:
        jump: Move = partial(local_jump, jump_range=self.jump_range)
        if self.window:
            jump = partial(window_jump, width=self.window)
        return {
            "jump": partial(held, jump) if self.hold_lengths else jump,
            "move": partial(block_gibbs, block=self.block, trials=self.trials, weigh_trials=self.weigh_trials),
        }


def held(jump: Move, rng: torch.Generator, chains: Chains, target: Target, proposal: Proposal) -> tuple[Chains, MoveInfo]:
    """The chains as they were, and what the jump would have done: each chain then samples p_l for its own l."""
    _, info = jump(rng, chains, target, proposal)
    return chains, info


def trans_ms(
    rng: torch.Generator, chains: Chains, target: Target, proposal: Proposal, config: TransMSConfig
) -> tuple[Chains, dict[str, MoveInfo]]:
    """One iteration of every chain: every move once, in order."""
    infos: dict[str, MoveInfo] = {}
    for name, move in config.moves().items():
        chains, infos[name] = move(rng, chains, target, proposal)
    return chains, infos
