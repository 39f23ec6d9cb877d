"""The optimiser of all learners of a field: Adam where gradients are dense, Adagrad on the rows of sparse ones.

A parameter whose gradient is sparse (the weights of a discrete potential) is moved in the rows that the gradient has, and only
those are read: a step costs in proportion to them. Adagrad (Duchi et al. 2011) gives each row a rate that falls with what it
has seen, lr / sqrt(sum of its squared gradients): a feature that occurs once an epoch moves by about lr when it does, one that
occurs at every step comes to rest. At one rate for all, the noise of the frequent ones would drown what the rare ones learn.
Such rates are far larger than Adam's for a network beside it: a parameter may say by its attribute `rate` how many times.

Two ways to hold parameters down, each 0 if not asked for: `l2`, the penalty (l2 / 2) |theta|^2 as a part of the loss; and
`weight_decay`, a factor 1 - lr weight_decay a step (AdamW). What a row would have got of either in the steps it took no part
in, it gets when it next does.
"""

from typing import Any

import torch
from torch import Tensor


class Adam(torch.optim.AdamW):
    """torch's AdamW, bit for bit, for dense gradients without l2."""

    def __init__(
        self,
        params: Any,
        lr: float,
        weight_decay: float = 0.0,
        l2: float = 0.0,
        fused: bool | None = None,
        eps: float = 1e-8,
        momentum: float = 0.9,
    ) -> None:
        super().__init__(params, lr=lr, betas=(momentum, 0.999), weight_decay=weight_decay, fused=fused, eps=eps)
        for group in self.param_groups:
            group.setdefault("l2", l2)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        sparse = []
        for group in self.param_groups:
            group.setdefault("l2", 0.0)  # a state saved before there was one
            for parameter in group["params"]:
                if parameter.grad is not None and parameter.grad.is_sparse:
                    sparse.append((parameter, parameter.grad))
                    step_rows(parameter, parameter.grad.coalesce(), self.state[parameter], group)
                    parameter.grad = None
                elif parameter.grad is not None and group["l2"]:
                    parameter.grad.add_(parameter, alpha=group["l2"])
        super().step()
        for parameter, gradient in sparse:
            parameter.grad = gradient


def step_rows(parameter: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
    """One step of the rows of a coalesced gradient of a vector. `state` is brought up to date, and filled at the first step:
    `sum` of the squared gradients of each row, and the step in which it `last` took part."""
    if not state:
        state["step"] = torch.zeros(())
        state["sum"], state["last"] = torch.zeros_like(parameter), torch.zeros_like(parameter)
    state["step"] += 1
    row, g = gradient.indices()[0], gradient.values()
    value, since = parameter[row], state["step"] - state["last"][row]
    lr = group["lr"] * getattr(parameter, "rate", 1.0)
    if group["l2"]:
        g = g + group["l2"] * since * value
    if group["weight_decay"]:
        value *= (1 - lr * group["weight_decay"]) ** since
    total = state["sum"][row] + g.square()
    parameter[row] = value - lr * g / (total.sqrt() + group["eps"])
    state["sum"][row] = total
    state["last"][row] = state["step"]
