"""The CNN potential written as the paper draws it: sentences padded to a rectangle, conv1d, max_pool1d.

Slow and direct. Tests compare `CNN` with it and benchmarks measure against it; nothing else uses it.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from trflm.potentials.cnn.layers import half_offsets
from trflm.potentials.cnn.model import CNN
from trflm.text import Batch


def plain_phi(cnn: CNN, batch: Batch) -> Tensor:
    """phi_B by padded convolutions with the parameters of `cnn`."""
    return plain_features(cnn, batch).sum(2) @ cnn.readout + cnn.constant


def plain_contributions(cnn: CNN, batch: Batch) -> Tensor:
    """[N] what each position adds to phi, in the same way."""
    value_BL = plain_features(cnn, batch).transpose(1, 2) @ cnn.readout
    return value_BL[batch.sentence_N, batch.position_N] + (cnn.constant / batch.lengths_B)[batch.sentence_N]


def plain_features(cnn: CNN, batch: Batch) -> Tensor:
    """[B, d_s, L] the features of each position, zero beyond a sentence."""
    longest = int(batch.lengths_B.max())
    ids_BL = batch.ids_N.new_zeros(len(batch), longest)
    ids_BL[batch.sentence_N, batch.position_N] = batch.ids_N
    real_BL = torch.arange(longest, device=batch.device) < batch.lengths_B[:, None]
    mask_B1L = real_BL[:, None].to(cnn.embedding.dtype)

    e_BLE = F.embedding(ids_BL, cnn.embedding)
    y_BCL = F.linear(e_BLE, cnn.projection, cnn.projection_bias).relu().transpose(1, 2) * mask_B1L
    maps = []
    for k in range(1, cnn.config.bank_width + 1):
        first = k * (k - 1) // 2
        filters = cnn.bank[:, first : first + k].permute(2, 0, 1)  # [w, d_p, k]
        maps.append(half_conv1d(y_BCL, filters))
    f_BCL = torch.cat(maps, 1).relu() * mask_B1L
    reach = half_offsets(cnn.config.pool_width)
    h_BCL = F.max_pool1d(F.pad(f_BCL, (-reach.start, reach.stop - 1)), cnn.config.pool_width, stride=1) * mask_B1L
    layers = []
    for weight in cnn.stack:
        h_BCL = half_conv1d(h_BCL, weight.permute(2, 0, 1)).relu() * mask_B1L
        layers.append(h_BCL)
    total_BSL = sum(a[:, None] * layer for a, layer in zip(cnn.skip, layers, strict=True))
    assert isinstance(total_BSL, Tensor)
    return total_BSL.relu()


def half_conv1d(x_BCL: Tensor, filters: Tensor) -> Tensor:
    reach = half_offsets(filters.shape[2])
    return F.conv1d(F.pad(x_BCL, (-reach.start, reach.stop - 1)), filters)
