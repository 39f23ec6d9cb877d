"""Adam on dense gradients, Adagrad on sparse ones."""

import copy

import torch
from harness import rng

from trflm.learning.adam import Adam
from trflm.learning.loop import clip_gradient

LR, DECAY, L2 = 0.1, 0.3, 0.2


def sparse(rows: list[int], values: list[float], n: int = 4) -> torch.Tensor:
    return torch.sparse_coo_tensor(torch.tensor([rows]), torch.tensor(values), (n,), check_invariants=False)


def one_row(start: float, gradients: list[float | None]) -> float:
    """The formula: Adagrad on the gradients there are, as if there were no others, with penalty and decay of every step."""
    value, total, since = start, 0.0, 0
    for g in gradients:
        since += 1
        if g is None:
            continue
        g += since * L2 * value
        total += g * g
        value = value * (1 - LR * DECAY) ** since - LR * g / (total**0.5 + 1e-8)
        since = 0
    return value


def test_dense_gradients_are_torchs_adamw_bit_for_bit():
    ours, theirs = (torch.nn.Parameter(torch.randn(5, 3, generator=rng(1))) for _ in range(2))
    a, b = Adam([ours], lr=LR, weight_decay=DECAY), torch.optim.AdamW([theirs], lr=LR, weight_decay=DECAY)
    for step in range(5):
        for parameter, optimiser in ((ours, a), (theirs, b)):
            parameter.grad = torch.randn(5, 3, generator=rng(step))
            optimiser.step()
    assert torch.equal(ours, theirs)


def test_a_row_of_every_gradient_is_as_torchs_adagrad_has_it():
    rows, dense = (torch.nn.Parameter(torch.ones(4)) for _ in range(2))
    both = [Adam([rows], lr=LR, l2=L2), torch.optim.Adagrad([dense], lr=LR, weight_decay=L2, eps=1e-8)]
    for step in range(5):
        g = torch.randn(4, generator=rng(step))
        rows.grad, dense.grad = sparse([0, 1, 2, 3], g.tolist()), g
        for optimiser in both:
            optimiser.step()
    torch.testing.assert_close(rows, dense, rtol=1e-5, atol=1e-6)


def test_rows_make_up_for_the_steps_they_missed():
    start = torch.tensor([1.0, -2.0, 0.5, 3.0])
    parameter = torch.nn.Parameter(start.clone())
    vars(parameter)["rate"] = 10.0
    optimiser = Adam([parameter], lr=LR / 10, weight_decay=DECAY, l2=L2)
    rows: list[list[float | None]] = [[0.3, -0.2, 0.5, 0.1], [None, 0.4, None, None], [None, 2.0, None, -1.0], [None] * 4]
    for step in range(4):
        here = [(row, g[step]) for row, g in enumerate(rows) if g[step] is not None]
        # The gradient of a row in two parts: it is to be coalesced.
        parameter.grad = sparse([r for r, _ in here] * 2, [float(g or 0) / 2 for _, g in here] * 2)
        optimiser.step()
    expected = torch.tensor([one_row(float(s), g) for s, g in zip(start, rows, strict=True)])
    torch.testing.assert_close(parameter.detach(), expected, rtol=1e-5, atol=1e-6)
    assert parameter[3] == start[3]  # never in a gradient


def test_a_saved_state_goes_on_bit_for_bit():
    def gradients(step: int) -> list[torch.Tensor]:
        rows = torch.randperm(40, generator=rng(step))[:9]
        return [sparse(rows.tolist(), torch.randn(9, generator=rng(step)).tolist(), 40), torch.randn(3, generator=rng(step))]

    def run(parameters: list[torch.nn.Parameter], optimiser: Adam, steps: range) -> None:
        for step in steps:
            for parameter, gradient in zip(parameters, gradients(step), strict=True):
                parameter.grad = gradient
            optimiser.step()

    whole = [torch.nn.Parameter(torch.ones(40)), torch.nn.Parameter(torch.ones(3))]
    optimiser = Adam(whole, lr=LR, weight_decay=DECAY, l2=L2)
    run(whole, optimiser, range(6))
    middle, state = copy.deepcopy(whole), copy.deepcopy(optimiser.state_dict())
    run(whole, optimiser, range(6, 12))
    resumed = Adam(middle, lr=LR)
    resumed.load_state_dict(state)
    run(middle, resumed, range(6, 12))
    for a, b in zip(whole, middle, strict=True):
        assert torch.equal(a, b)


def test_a_sparse_gradient_is_clipped_with_the_others():
    dense, rows = torch.nn.Parameter(torch.zeros(2)), torch.nn.Parameter(torch.zeros(4))
    dense.grad, rows.grad = torch.tensor([3.0, 0.0]), sparse([1, 3, 1], [1.0, 0.0, 3.0])
    assert abs(clip_gradient([dense, rows, torch.zeros(1)], 2.5) - 5.0) < 1e-6
    torch.testing.assert_close(dense.grad, torch.tensor([1.5, 0.0]))
    torch.testing.assert_close(rows.grad.to_dense(), torch.tensor([0.0, 2.0, 0.0, 0.0]))
