"""The output layer's mean -log p(target) and its gradient: exact, or with sums over some of the words only.

    -log p(w | h) = log Z - s_w        s_v = h . W_v + b_v        Z = sum over all v of exp s_v

The estimate takes the F most frequent words and the target as they are, and of the others k drawn at random, each of which
stands for as many as there are to one drawn:

    Z^ = sum over frequent v of exp s_v + [target not frequent] exp s_target + (n / k) sum over drawn v != target of exp s_v

n and k count the words that are not frequent, all and drawn, without the target. Z^ is unbiased for each target, log Z^ a
little too small.

Shapes: N predictions, V words and the end, H units, F frequent words, K drawn ones.
"""

import math
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

ROWS_AT_ONCE = 128  # whose logits exist at a time: enough for a fast product, few enough to stay in the cache


def exact_loss(h_NH: Tensor, weight_VH: Tensor, bias_V: Tensor, target_N: Tensor, dtype: torch.dtype) -> Tensor:
    """The mean of log Z - s_target, differentiable, with products in `dtype`."""
    return _ExactLoss.apply(h_NH, weight_VH, bias_V, target_N, dtype)


class _ExactLoss(torch.autograd.Function):
    """Computes the gradient along with the loss, while the logits are at hand: (softmax - 1[target]) / N."""

    @staticmethod
    def forward(ctx, h_NH: Tensor, weight_VH: Tensor, bias_V: Tensor, target_N: Tensor, dtype: torch.dtype) -> Tensor:
        h, weight = h_NH.to(dtype), weight_VH.to(dtype)
        into_NV = h.new_empty(len(h), len(weight))
        into_bias_V, loss = torch.zeros_like(bias_V), bias_V.new_zeros(())
        for h_nH, target_n, into_nV in zip(*(x.split(ROWS_AT_ONCE) for x in (h, target_N, into_NV)), strict=True):
            logits_nV = (h_nH @ weight.t()).to(bias_V.dtype).add_(bias_V)
            target_logit_n1 = logits_nV.gather(1, target_n[:, None])
            log_total_n1 = logits_nV.logsumexp(1, keepdim=True)
            loss += (log_total_n1 - target_logit_n1).sum()
            p_nV = logits_nV.sub_(log_total_n1).exp_()
            p_nV.scatter_add_(1, target_n[:, None], p_nV.new_full((len(h_nH), 1), -1.0))
            into_bias_V += p_nV.sum(0)
            into_nV.copy_(p_nV)
        into_h, into_weight = into_NV @ weight, into_NV.t() @ h
        ctx.save_for_backward(*(x.to(h_NH.dtype) / len(h) for x in (into_h, into_weight, into_bias_V)))
        return loss / len(h)

    @staticmethod
    def backward(ctx, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return *(grads[0] * x for x in ctx.saved_tensors), None, None


@dataclass(frozen=True)
class SampledSoftmax:
    """The estimate above."""

    frequent_F: Tensor
    others_R: Tensor  # the words that are not frequent
    n_drawn: int

    @classmethod
    def by_count(cls, count_V: Tensor, n_frequent: int, n_drawn: int) -> "SampledSoftmax":
        order_V = torch.argsort(count_V, descending=True, stable=True)
        others_R = order_V[n_frequent:]
        return cls(order_V[:n_frequent], others_R, min(n_drawn, len(others_R)))

    def loss(
        self, h_NH: Tensor, weight_VH: Tensor, bias_V: Tensor, target_N: Tensor, dtype: torch.dtype, rng: Generator
    ) -> Tensor:
        """The mean of log Z^ - s_target, differentiable, with products in `dtype`; the same words are drawn for all."""
        drawn_K = self.others_R[torch.randperm(len(self.others_R), generator=rng)[: self.n_drawn].to(target_N.device)]
        target_logit_N = (h_NH * weight_VH[target_N]).sum(1) + bias_V[target_N]
        log_total_N = self.log_total(h_NH, weight_VH, bias_V, target_N, target_logit_N, drawn_K, dtype)
        return (log_total_N - target_logit_N).mean()

    def log_total(
        self, h_NH: Tensor, weight_VH: Tensor, bias_V: Tensor, target_N: Tensor, target_logit_N: Tensor, drawn_K: Tensor,
        dtype: torch.dtype,
    ) -> Tensor:  # fmt: skip
        """[N] log Z^."""
        F, n_others = len(self.frequent_F), len(self.others_R)
        words_C = torch.cat([self.frequent_F, drawn_K])
        logits_NC = (h_NH.to(dtype) @ weight_VH[words_C].to(dtype).t()).to(bias_V.dtype) + bias_V[words_C]
        is_frequent_N = torch.isin(target_N, self.frequent_F)
        is_target_NK = drawn_K == target_N[:, None]
        n_N = n_others - (~is_frequent_N).to(bias_V.dtype)
        k_N = len(drawn_K) - is_target_NK.sum(1)
        shift_NK = (n_N / k_N).log()[:, None].masked_fill(is_target_NK, -math.inf)
        target_N1 = target_logit_N.masked_fill(is_frequent_N, -math.inf)[:, None]
        return torch.cat([logits_NC[:, :F], logits_NC[:, F:] + shift_NK, target_N1], 1).logsumexp(1)
