"""Adam for all learners; gradients may be sparse.

A parameter whose gradient is sparse (the weights of a discrete potential) is moved in the rows that the gradient has, and only
those are read: a step costs in proportion to them. Each row has a clock of its own, the number of steps it took part in, for
Adam's averages and their correction; so a feature that occurs for the first time makes a step of lr, however late it comes.

Two ways to hold parameters down, each 0 if not asked for: `l2`, the penalty (l2 / 2) |theta|^2 as a part of the loss, whose
gradient goes through Adam's averages with the rest; and `weight_decay`, a factor 1 - lr weight_decay a step (AdamW). What a row
would have got of either in the steps it took no part in, it gets when it next does.
"""

from typing import Any

import torch
from torch import Tensor


class Adam(torch.optim.AdamW):
    """torch's AdamW, bit for bit, for dense gradients without l2."""

    def __init__(self, params: Any, lr: float, weight_decay: float = 0.0, l2: float = 0.0) -> None:
        super().__init__(params, lr=lr, weight_decay=weight_decay)
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
    `count` is the clock of each row, `last` the step it last took part in."""
    if not state:
        state["step"] = torch.zeros(())
        for name in ("exp_avg", "exp_avg_sq", "count", "last"):
            state[name] = torch.zeros_like(parameter)
    state["step"] += 1
    (beta1, beta2), lr = group["betas"], group["lr"]
    row, g, value = gradient.indices()[0], gradient.values(), parameter[gradient.indices()[0]]
    since = state["step"] - state["last"][row]
    if group["l2"]:
        g = g + group["l2"] * since * value
    if group["weight_decay"]:
        value *= (1 - lr * group["weight_decay"]) ** since
    count = state["count"][row] + 1
    average = state["exp_avg"][row].lerp(g, 1 - beta1)
    square = state["exp_avg_sq"][row].lerp(g.square(), 1 - beta2)
    value -= lr * (average / (1 - beta1**count)) / ((square / (1 - beta2**count)).sqrt() + group["eps"])
    for name, new in (("count", count), ("exp_avg", average), ("exp_avg_sq", square)):
        state[name][row] = new
    state["last"][row] = state["step"]
    parameter[row] = value
