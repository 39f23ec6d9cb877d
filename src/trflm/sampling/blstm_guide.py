"""The forward half of the BLSTM potential, read word by word: known_t = sum_{i<=t} 2 f_{i-1} . e(x_i) + bias(x_i).

The backward half needs the words to come. Twice the forward one stands for both: word-wise NCE teaches each half to be log
p(x_i | the words on its side), see `learning.word_nce`.

Shapes: P prefixes, H units, E embedding.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from trflm.potentials.blstm import BLSTM


@dataclass(frozen=True)
class BLSTMGuideState:
    h: list[Tensor]  # of each layer [P, H]
    c: list[Tensor]
    known_P: Tensor

    def select(self, index: Tensor) -> "BLSTMGuideState":
        h, c = ([x.index_select(0, index) for x in rows] for rows in (self.h, self.c))
        return BLSTMGuideState(h, c, self.known_P[index])


class BLSTMGuide:
    lag = 0

    def __init__(self, blstm: BLSTM) -> None:
        self.blstm = blstm

    def start(self, n: int) -> BLSTMGuideState:
        config, e = self.blstm.config, self.blstm.embedding
        zeros = [e.new_zeros(n, config.units) for _ in range(config.layers)]
        known_P = torch.zeros(n, dtype=torch.float64, device=e.device)
        return self._read(BLSTMGuideState(zeros, zeros, known_P), torch.full((n,), self.blstm.start, device=e.device))

    @torch.no_grad()
    def step(self, state: BLSTMGuideState, words_Pt: Tensor) -> tuple[BLSTMGuideState, Tensor]:
        stack, word_P = self.blstm.forward_stack, words_Pt[:, -1]
        f_PE = state.h[-1] if stack.output is None else F.linear(state.h[-1], stack.output)
        term_P = 2 * (f_PE * F.embedding(word_P, self.blstm.embedding)).sum(1) + self.blstm.bias[word_P]
        state = self._read(BLSTMGuideState(state.h, state.c, state.known_P + term_P.double()), word_P)
        return state, state.known_P

    @torch.no_grad()
    def _read(self, state: BLSTMGuideState, word_P: Tensor) -> BLSTMGuideState:
        """The states after one more word or marker."""
        stack = self.blstm.forward_stack
        x, h, c = F.embedding(word_P, self.blstm.embedding), [], []
        for k, (w_input, w_recurrent, bias) in enumerate(zip(stack.input, stack.recurrent, stack.gate_bias, strict=True)):
            i, f, g, o = (F.linear(x, w_input, bias) + F.linear(state.h[k], w_recurrent)).chunk(4, 1)
            c.append(f.sigmoid() * state.c[k] + i.sigmoid() * g.tanh())
            x = o.sigmoid() * c[-1].tanh()
            h.append(x)
        return BLSTMGuideState(h, c, state.known_P)
