"""The weights of features, by their numbers, with a gradient that holds those features alone.

Shapes: K features, F occurrences.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from trflm.speed import compiled


def take_rows(weight_K: Tensor, feature_F: Tensor) -> Tensor:
    """weight_K[feature_F], with a sparse gradient."""
    value_F = _TakeRows.apply(weight_K, feature_F)
    assert isinstance(value_F, Tensor)
    return value_F


class _TakeRows(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight_K: Tensor, feature_F: Tensor) -> Tensor:
        ctx.save_for_backward(feature_F)
        ctx.n_features = len(weight_K)
        return weight_K.index_select(0, feature_F)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        return sparse_sum(ctx.saved_tensors[0], gradients[0], ctx.n_features), None


def sparse_sum(feature_F: Tensor, value_F: Tensor, n_features: int) -> Tensor:
    """[K] sparse: the sum of the values of each feature that occurs. torch would sort all F occurrences to coalesce them; with
    the compiled loop the distinct ones are left to sort."""
    if compiled.usable(value_F):
        from trflm.potentials.discrete.features_loops import sum_rows

        row, total = np.empty(len(feature_F), np.int64), np.empty(len(feature_F), value_F.numpy().dtype)
        n = sum_rows(feature_F.numpy(), value_F.contiguous().numpy(), np.zeros(n_features, np.int32), row, total)
        feature_F, value_F = torch.from_numpy(row[:n]), torch.from_numpy(total[:n])
    return torch.sparse_coo_tensor(feature_F[None], value_F, (n_features,), check_invariants=False)
