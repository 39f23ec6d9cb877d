"""Dropout drawn from a given generator, so that a resumed training repeats it bit for bit."""

import torch
from torch import Generator, Tensor


def dropout(x: Tensor, share: float, rng: Generator | None) -> Tensor:
    """Each number becomes 0 with probability `share`, the others grow by 1 / (1 - share). Nothing happens without `rng`."""
    if rng is None or share == 0:
        return x
    keep = torch.empty(x.shape, dtype=x.dtype, device=rng.device).bernoulli_(1 - share, generator=rng).to(x.device)
    return x * keep.div_(1 - share)


def check_share(share: float) -> None:
    if not 0 <= share < 1:
        raise ValueError(f"dropout = {share}: must be a probability below 1")
