"""The channel: what becomes of the phones that were said, as a generative model whose likelihood is computed exactly.

Before every phone, and at the end, phones that nobody said may be inserted, one after another with probability `insertion`
each, any phone as likely as another. The phone itself is deleted with probability `deletion`; if not, it is heard as phone b
with probability S[a, b]: as itself, or with probability `substitution` as another, the likelier the nearer:

    S[a, a] = 1 - substitution,     S[a, b] = substitution * exp(-distance(a, b) / temperature) / sum_b'

P(heard | said) sums over all alignments (the forward algorithm); over all that may be heard it sums to one.

Shapes: P phones, J heard phones (J1 = J + 1 places between them), R rows computed side by side.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from trflm.simulate.phones import PHONES, distances


@dataclass(frozen=True)
class ChannelConfig:
    """How noisy the channel is."""

    substitution: float = 0.2
    insertion: float = 0.02
    deletion: float = 0.03
    temperature: float = 0.35  # of the distance; the higher, the more alike all confusions

    def __post_init__(self) -> None:
        for name in ("substitution", "insertion", "deletion"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(f"{name} = {getattr(self, name)}: must be a probability below 1")
        if not self.temperature > 0:
            raise ValueError(f"temperature = {self.temperature}: must be positive")


class Channel:
    """Phones in, phones out."""

    def __init__(self, config: ChannelConfig) -> None:
        self.config = config

    @cached_property
    def substitution_PP(self) -> np.ndarray:
        """[P, P] S[a, b]: a, if it was not deleted, is heard as b. Rows sum to one."""
        near = np.exp(-distances() / self.config.temperature)
        np.fill_diagonal(near, 0.0)
        matrix = self.config.substitution * near / near.sum(1, keepdims=True)
        np.fill_diagonal(matrix, 1 - self.config.substitution)
        return matrix

    def corrupt(self, said: Sequence[int], rng: np.random.Generator) -> list[int]:
        """What is heard of these phones."""
        heard: list[int] = []
        for phone in [*said, None]:
            while rng.random() < self.config.insertion:
                heard.append(int(rng.integers(len(PHONES))))
            if phone is not None and rng.random() >= self.config.deletion:
                heard.append(int(rng.choice(len(PHONES), p=self.substitution_PP[phone])))
        return heard

    def start(self, n_heard: int) -> np.ndarray:
        """[J1] the forward column before any phone: nothing has been heard."""
        column = np.zeros(n_heard + 1)
        column[0] = 1.0
        return column

    def advance(self, alpha_RJ1: np.ndarray, phone_R: np.ndarray, heard_RJ: np.ndarray) -> np.ndarray:
        """[R, J1] one more phone was said. alpha[r, j] is the probability that what was said so far is heard as the first j
        phones, and heard[r] what was heard in row r.
        """
        config = self.config
        inserted = config.insertion / len(PHONES)
        beta = (
            alpha_RJ1.copy()
        )  # insertions before the phone, beta_j = alpha_j + inserted beta_(j-1): 1, 2, 4, ... of them at once
        for step in (2**k for k in range((alpha_RJ1.shape[1] - 1).bit_length())):
            beta[:, step:] += inserted**step * beta[:, :-step]
        after = config.deletion * beta
        after[:, 1:] += (1 - config.deletion) * self.substitution_PP[phone_R[:, None], heard_RJ] * beta[:, :-1]
        return (1 - config.insertion) * after

    def tail(self, n: int) -> float:
        """The probability that the last n heard phones were inserted at the end."""
        return (1 - self.config.insertion) * (self.config.insertion / len(PHONES)) ** n

    def finish(self, alpha_RJ1: np.ndarray) -> np.ndarray:
        """[R] the probability of all that was heard: what is left must have been inserted at the end."""
        return alpha_RJ1 @ np.array([self.tail(n) for n in reversed(range(alpha_RJ1.shape[1]))])

    def likelihood(self, said: Sequence[int], heard: Sequence[int]) -> float:
        """P(heard | said)."""
        alpha = self.start(len(heard))[None]
        heard_RJ = np.array(heard, np.int64)[None]
        for phone in said:
            alpha = self.advance(alpha, np.array([phone]), heard_RJ)
        return float(self.finish(alpha)[0])
