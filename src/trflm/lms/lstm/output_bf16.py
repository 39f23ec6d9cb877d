"""The output layer with products in bf16, some words at a time, so that weights and logits pass through the cache once.

    log sum_v exp(h . W_v + b_v)                     by blocks of words, each with its greatest logit
    log p(w | h) = h . W_w + b_w - log sum           the first in fp32, of rounded factors

Shapes: P states, E edges, H units, V words and the end.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from trflm.speed import compiled

ROWS, WORDS = 512, 1024  # of a product
ALIKE = 64  # the rows are a multiple of it: products are prepared for their sizes, so they should come back


class Output16:
    """The layer as it is now."""

    def __init__(self, weight_VH: Tensor, bias_V: Tensor) -> None:
        self.weight_VH, self.bias_V = weight_VH.detach().bfloat16(), bias_V.detach()

    @staticmethod
    def applies(like: Tensor) -> bool:
        return like.dtype == torch.float32 and compiled.usable(like)

    def log_totals(self, h_PH: Tensor) -> Tensor:
        """[P] log sum_v exp(logit)."""
        from trflm.lms.lstm.output_loops import add_words

        h = F.pad(h_PH.bfloat16(), (0, 0, 0, -len(h_PH) % ALIKE))
        most, total = torch.full((len(h),), -torch.inf), torch.zeros(len(h))
        for rows, *sums in zip(*(x.split(ROWS) for x in (h, most, total)), strict=True):
            for weight, bias in zip(self.weight_VH.split(WORDS), self.bias_V.split(WORDS), strict=True):
                add_words(bits(rows @ weight.t()), *(x.numpy() for x in (bias, *sums)))
        return (most + total.log())[: len(h_PH)]

    def logits(self, h_PH: Tensor, from_E: Tensor, symbol_E: Tensor) -> Tensor:
        """[E] of a symbol after a state."""
        h_EH, weight_EH = h_PH.bfloat16().index_select(0, from_E), self.weight_VH.index_select(0, symbol_E)
        return (h_EH.float() * weight_EH.float()).sum(1) + self.bias_V[symbol_E]

    def draw(self, h_PH: Tensor, level_D: Tensor, end: bool) -> Tensor:
        """[D] a symbol after each of the first states, by inversion at levels in [0, 1); with `end` it may be the end."""
        from trflm.lms.lstm.output_loops import draw_words

        symbol_D, bias_V = torch.empty(len(level_D), dtype=torch.int64), self.bias_V if end else self.bias_V[:-1]
        z_DV = bits(h_PH.bfloat16() @ self.weight_VH.t())[: len(level_D)]
        draw_words(z_DV, bias_V.numpy(), level_D.numpy(), symbol_D.numpy())
        return symbol_D


def bits(x: Tensor) -> np.ndarray:
    """The 16 bits of each number."""
    return x.view(torch.uint16).numpy()
