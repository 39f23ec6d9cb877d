"""The CNN potential read word by word: what each position adds to phi, as soon as its window of words is complete.

Every layer looks some places to the right (`half_offsets`), so its value at a position is known so many words later; the
layers' delays add up to `lag` (9 for the paper's network). Only one position a layer is new with each word: 0.6 M
multiply-adds a word at the paper's size. Before the first word every layer is zero, as beyond any end of a sentence.

Shapes: P prefixes, t words, K*w channels of the bank, s offsets of a stack layer, S its channels.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from trflm.potentials.cnn.layers import half_offsets
from trflm.potentials.cnn.model import CNN


@dataclass(frozen=True)
class CNNGuideState:
    """The last rows of every layer that later positions read, oldest first."""

    bank: list[Tensor]  # [P, K*w]
    products: list[list[Tensor]]  # of each stack layer: [P, s*S] its input times its filters
    outputs: list[list[Tensor]]  # of each stack layer: [P, S] until the last layer has come as far
    known_P: Tensor

    def select(self, index: Tensor) -> "CNNGuideState":
        def rows(tensors: list[Tensor]) -> list[Tensor]:
            return [x.index_select(0, index) for x in tensors]

        return CNNGuideState(
            rows(self.bank), [rows(x) for x in self.products], [rows(x) for x in self.outputs], self.known_P[index]
        )


class CNNGuide:
    def __init__(self, cnn: CNN) -> None:
        self.cnn, config = cnn, cnn.config
        self.bank_delay = half_offsets(config.bank_width).stop - 1
        self.pool_delay = half_offsets(config.pool_width).stop - 1
        self.stack_delay = half_offsets(config.stack_width).stop - 1
        self.lag = self.bank_delay + self.pool_delay + config.stack_layers * self.stack_delay

    def start(self, n: int) -> CNNGuideState:
        config, zeros = self.cnn.config, self.cnn.embedding.new_zeros
        s, S, layers = config.stack_width, config.stack_filters, config.stack_layers
        return CNNGuideState(
            [zeros(n, config.bank_width * config.bank_filters)] * config.pool_width,
            [[zeros(n, s * S)] * s for _ in range(layers)],
            [[zeros(n, S)] * ((layers - j - 1) * self.stack_delay + 1) for j in range(layers)],
            torch.zeros(n, dtype=torch.float64, device=self.cnn.embedding.device) + self.cnn.constant.double().item(),
        )

    @torch.no_grad()
    def step(self, state: CNNGuideState, words_Pt: Tensor) -> tuple[CNNGuideState, Tensor]:
        cnn, config, at = self.cnn, self.cnn.config, words_Pt.shape[1] - 1  # `at`: the position that a layer has come to
        # 1. Bank and pooling. Positions before the first word are zero in every layer.
        at -= self.bank_delay
        bank = [*state.bank[1:], self._bank(words_Pt, at) if at >= 0 else torch.zeros_like(state.bank[0])]
        at -= self.pool_delay
        h_PC = torch.zeros_like(bank[0])
        if at >= 0:
            for row_PC in bank:
                h_PC = torch.maximum(h_PC, row_PC)
        # 2. The stack.
        products, outputs = [], []
        for weight, rows, kept in zip(cnn.stack, state.products, state.outputs, strict=True):
            rows = [*rows[1:], h_PC @ weight.flatten(1) if at >= 0 else torch.zeros_like(rows[0])]
            at -= self.stack_delay
            h_PC = torch.zeros_like(kept[0])
            if at >= 0:
                S = config.stack_filters
                for offset, row in enumerate(rows):
                    h_PC = h_PC + row[:, offset * S : (offset + 1) * S]
                h_PC = torch.relu(h_PC)
            products.append(rows)
            outputs.append([*kept[1:], h_PC])
        # 3. What the position adds to phi; the oldest output of every layer is that of this position.
        known_P = state.known_P
        if at >= 0:
            total_PS = torch.stack([a_S * kept[0] for a_S, kept in zip(cnn.skip, outputs, strict=True)]).sum(0)
            known_P = known_P + (torch.relu(total_PS) @ cnn.readout).double()
        return CNNGuideState(bank, products, outputs, known_P), known_P

    def _bank(self, words_Pt: Tensor, at: int) -> Tensor:
        """[P, K*w] the bank at one position: sums of table rows (see `cnn`)."""
        cnn, (P, t) = self.cnn, words_Pt.shape
        places = [at + o for _, o in cnn.offsets]
        low = max(min(places), 0)
        words_U, which = torch.unique(words_Pt[:, low:], return_inverse=True)
        table, slot_U = cnn.word_table.of(cnn, words_U)
        slot_PW = slot_U[which].view(P, t - low)
        none_P = torch.zeros_like(slot_PW[:, 0])  # row 0 of the table is zero
        pairs = len(cnn.offsets)
        row_Pp = torch.stack([slot_PW[:, i - low] * pairs + p if i >= 0 else none_P for p, i in enumerate(places)], 1)
        ends = torch.arange(1, cnn.config.bank_width + 1).cumsum(0)  # width k has k pairs
        starts = torch.cat([ends.new_zeros(1), ends[:-1]]) + pairs * torch.arange(P)[:, None]
        f = F.embedding_bag(row_Pp.view(-1), table, starts.view(-1).to(row_Pp.device), mode="sum")
        return f.view(P, -1)
