import torch
from harness import random_batch, rng
from torch import nn

from trflm.lms.lstm_proposal import LSTMProposal, LSTMProposalConfig


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
