"""Weights of sentences such that their lengths are as pi has them (calibration weights of survey sampling).

The gradient of phi is about proportional to a sentence's length, so most of the noise in

    mean_D dphi - (1/K_B) sum_B (pi_l / pi0_l) dphi

may come from data and chains having other lengths than one another, by chance. What lengths they should have is known. So the
weights w of each side become w (a + b l), with a and b such that they sum to 1 and the mean length is that of pi. Not exactly
unbiased: like any ratio estimate it has a bias of the order of 1 / (number of sentences).

Shapes: B sentences.
"""

from torch import Tensor


def balanced(weight_B: Tensor, lengths_B: Tensor, mean_length: float) -> Tensor:
    """[B] float64. Where all lengths are one, the weights only come to sum to 1."""
    w_B, l_B = weight_B.double(), lengths_B.double()
    l_B = l_B - mean_length
    one, first, second = float(w_B.sum()), float((w_B * l_B).sum()), float((w_B * l_B.square()).sum())
    determinant = one * second - first**2
    if determinant <= 1e-9 * max(one * second, 1e-12):
        return w_B / one
    return w_B * (second - first * l_B) / determinant
