import pytest
import torch
from harness import random_batch, rng
from torch import nn

from trflm.lms.proposals.lstm import LSTMProposal, LSTMProposalConfig
from trflm.recurrent.fast_recurrence import read_fast
from trflm.recurrent.recurrence import Recurrence, advance, next_states


def test_equals_torchs_lstm_forward_and_backward():
    """In float64 the two differ by rounding alone; sentences of all lengths, in no order, two of one word."""
    proposal = LSTMProposal(LSTMProposalConfig(units=7, classes=0, init=0.7), 9, rng=rng()).double()
    batch = random_batch(9, [3, 1, 8, 5, 8, 1, 2])
    inputs = proposal._input(
        torch.where(batch.position_N == 0, 9, batch.ids_N.roll(1)), batch.lengths_B[batch.sentence_N] - batch.position_N
    )
    parts = inputs.split(batch.lengths_B.tolist())
    theirs_NH = torch.cat([proposal.lstm(part[None])[0][0] for part in parts])
    theirs_c_BH = torch.cat([proposal.lstm(part[None])[1][1][0] for part in parts])
    mine_NH, c_NH = proposal._run(batch, batch.lengths_B)
    torch.testing.assert_close(mine_NH, theirs_NH, rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(c_NH[batch.starts_B + batch.lengths_B - 1], theirs_c_BH, rtol=1e-11, atol=1e-12)

    direction_NH = torch.randn(mine_NH.shape, generator=rng(1), dtype=torch.float64)
    parameters: list[nn.Parameter] = [proposal.embedding, *proposal.lstm.parameters()]
    mine = torch.autograd.grad((mine_NH * direction_NH).sum(), parameters)
    theirs = torch.autograd.grad((theirs_NH * direction_NH).sum(), parameters)
    for gradient, expected in zip(mine, theirs, strict=True):
        torch.testing.assert_close(gradient, expected, rtol=1e-10, atol=1e-12)


def states_and_gradients(dtype: torch.dtype) -> list[torch.Tensor]:
    """h, c and the gradients of gates and weights, for gates from the middle of tanh to where it is flat."""
    gates_N4H = torch.linspace(-80, 80, 10 * 4 * 37).view(10, 4 * 37)[:, torch.randperm(4 * 37, generator=rng(2))]
    weight_4HH = torch.randn(4 * 37, 37, generator=rng(3)) / 6
    given = [x.to(dtype).requires_grad_() for x in (gates_N4H, weight_4HH)]
    h_NH, c_NH = Recurrence.apply(*given, [4, 3, 2, 1])
    direction_NH = torch.randn(h_NH.shape, generator=rng(1)).to(dtype)
    return [h_NH, c_NH, *torch.autograd.grad((h_NH * direction_NH).sum(), given)]


def test_float32_is_near_float64(compiled):
    for mine, exact in zip(states_and_gradients(torch.float32), states_and_gradients(torch.float64), strict=True):
        torch.testing.assert_close(mine.double(), exact, rtol=1e-5, atol=3e-6)


RUNNING = [4, 3, 3, 1]  # of four texts, how many have a word at each time


def plain(gates_NG: torch.Tensor, weight_GH: torch.Tensor) -> torch.Tensor:
    return Recurrence.apply(gates_NG, weight_GH, RUNNING)[0]


def fast(gates_NG: torch.Tensor, weight_GH: torch.Tensor) -> torch.Tensor:
    zero_SH = weight_GH.new_zeros(RUNNING[0], weight_GH.shape[1])
    return read_fast(gates_NG, weight_GH, RUNNING, zero_SH, zero_SH)[0]


@pytest.mark.parametrize(
    ("products", "others", "off"), [(torch.float64, torch.float64, 1e-12), (torch.bfloat16, torch.float32, 0.01)]
)
def test_the_fast_way_is_the_plain_one(compiled, products, others, off):
    """But for the order of sums, and for rounding to the 8 bits of bf16."""
    gates_NG, weight_GH = torch.randn(11, 4 * 37, generator=rng(2)), torch.randn(4 * 37, 37, generator=rng(3)) / 6
    direction_NH = torch.randn(11, 37, generator=rng(1))
    found = []
    for read, gates_type, type_ in ((fast, products, others), (plain, torch.float64, torch.float64)):
        given = [gates_NG.to(gates_type).requires_grad_(), weight_GH.to(type_).requires_grad_()]
        h_NH = read(*given)
        found.append([h_NH.detach(), *torch.autograd.grad((h_NH * direction_NH.to(h_NH)).sum(), given)])
    for mine, expected in zip(*found, strict=True):
        assert float((mine.double() - expected).norm() / expected.norm()) < off


def test_states_that_share_parents_and_inputs(compiled):
    product_P4H, input_X4H, c_PH = (
        3 * torch.randn(size, generator=rng(k)) for k, size in enumerate([(3, 44), (5, 44), (3, 11)])
    )
    parent_R, input_R = torch.tensor([2, 0, 0, 1, 2, 2]), torch.tensor([4, 4, 0, 1, 1, 3])
    gates_R4H, c_R = product_P4H[parent_R].double() + input_X4H[input_R], c_PH[parent_R].double()
    h_RH, c_RH = torch.empty_like(c_R), torch.empty_like(c_R)
    advance(gates_R4H, c_R, c_RH, h_RH)
    for mine, exact in zip(next_states(product_P4H, parent_R, input_X4H, input_R, c_PH), (h_RH, c_RH), strict=True):
        torch.testing.assert_close(mine.double(), exact, rtol=0, atol=2e-6)


def test_what_is_not_a_number_is_passed_on(compiled):
    for gate in range(4):
        product_14H = torch.zeros(1, 4 * 9)
        product_14H[0, gate * 9 + 3] = torch.nan
        h_RH, _ = next_states(product_14H, torch.tensor([0]), torch.zeros(1, 4 * 9), torch.tensor([0]), torch.ones(1, 9))
        assert h_RH.isnan().nonzero().tolist() == [[0, 3]]
