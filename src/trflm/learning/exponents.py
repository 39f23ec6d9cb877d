"""How much of its reference, and how much of phi: the exponents of a tilted field, chosen on dev text.

    p(l, x) = pi_l p_ref(x)^a exp(s phi(x)) / Z_l

A phi that was not taught beside the reference (`word-nce`), or counts some things twice (`cloze`), is worth most with a and s
other than 1. Those are taken that choose the words of dev text best among others (`replacements.Choice`, the criterion of most
learners): both parts are computed once, and enter with all pairs of exponents that are tried.
"""

from collections.abc import Sequence
from typing import NamedTuple

from trflm.field.trf import TRF
from trflm.learning.replacements import DevChoice
from trflm.potentials.tilted import Tilted
from trflm.text import Batch


class Exponents(NamedTuple):
    share: float  # a
    factor: float  # s

    def set(self, tilted: Tilted) -> None:
        tilted.share.fill_(self.share)
        tilted.factor.fill_(self.factor)


def take_best(trf: TRF, dev_choice: DevChoice, dev: Batch, candidates: Sequence[Exponents]) -> tuple[Exponents, float]:
    """Give the field the best of these: (it, the dev choice with it)."""
    tilted = trf.potential
    assert isinstance(tilted, Tilted)
    choice = dev_choice.on(dev)
    both = choice.both()
    Exponents(1.0, 1.0).set(tilted)
    reference_B = tilted.reference.log_prob(both).double()
    phi_B = trf.phi(both) - reference_B
    values = [choice.mean_log_prob_of(one.share * reference_B + one.factor * phi_B) for one in candidates]
    value, best = max(zip(values, candidates, strict=True), key=lambda pair: pair[0])
    best.set(tilted)
    return best, value
