"""How an LSTM's memory passes from one sentence to the next in rescoring: the three strategies of the paper, section 5.1.

reset     every sentence starts from the zero state: `LSTM` itself.
preserve  a sentence starts from the state in which the one before it ended: scores depend on the order of the sentences.
shuffle   preserve, after the sentences have been put in random order.

Shapes: B sentences, S streams, T steps.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor

from trflm.language_model import Directed, Explanation
from trflm.text import Batch

if TYPE_CHECKING:
    from trflm.lms.lstm.model import LSTM

STEPS_AT_ONCE = 512  # between which only the state is kept


class Preserve(Directed):
    """A language model that reads the sentences it is given as one text, in order, from the zero state.

    One stream reads sentence after sentence. More streams are faster: the sentences are cut into that many runs of about equal
    size, read side by side, so that only the first sentence of each run starts from the zero state.
    """

    def __init__(self, lstm: "LSTM", n_streams: int = 1) -> None:
        self.vocab = lstm.vocab
        self.lstm = lstm
        self.n_streams = n_streams

    def n_parameters(self) -> int:
        return self.lstm.n_parameters()

    def draw_some(self, n: int, rng: Generator, length: int | None, burn_in: int) -> Batch:
        return self.lstm.draw(n, rng, length)

    @torch.no_grad()
    def explain(self, sentences: Batch | Sequence[str]) -> Explanation:
        lstm = self.lstm
        batch = lstm.vocab.batch(sentences).to(lstm.output_bias.device)
        if not len(batch):
            return lstm.explain(batch)
        # 1. The text: the words of each sentence and its end, each predicted after reading the one before.
        text = concatenate(batch, lstm.end)
        is_end = text == lstm.end
        previous = torch.cat([text.new_tensor([lstm.end]), text[:-1]])
        # 2. Streams, cut at ends of sentences, padded at the right.
        cuts = self._cuts(batch)
        symbol_TS, target_TS = (
            torch.nn.utils.rnn.pad_sequence(list(part.split(cuts)), padding_value=lstm.end) for part in (previous, text)
        )
        # 3. Read on and on.
        state, columns = lstm.zero_state(len(cuts)), []
        for symbol, target in zip(symbol_TS.split(STEPS_AT_ONCE), target_TS.split(STEPS_AT_ONCE), strict=True):
            h_TSH, state = lstm.read(symbol, state)
            row = torch.arange(symbol.numel(), device=text.device)
            log_prob, _ = lstm.edge_log_probs(h_TSH.flatten(0, 1), row, target.flatten())
            columns.append(log_prob.view_as(symbol))
        log_prob_TS = torch.cat(columns)
        log_prob = torch.cat([log_prob_TS[:n, s] for s, n in enumerate(cuts)])
        return Explanation(batch, log_prob[~is_end], log_prob[is_end])

    def _cuts(self, batch: Batch) -> list[int]:
        """How many symbols each stream has, in whole sentences."""
        ends_B = (batch.lengths_B + 1).cumsum(0)
        stream_B = ((ends_B - 1) * self.n_streams).div(ends_B[-1:], rounding_mode="floor")
        sizes_S = torch.zeros(self.n_streams, dtype=torch.int64, device=ends_B.device)
        sizes_S.index_add_(0, stream_B, batch.lengths_B + 1)
        return [size for size in sizes_S.tolist() if size]


class Shuffle(Directed):
    """Preserve on the sentences in random order: what neighbours in a list tell each other is lost. One seed, one order."""

    def __init__(self, preserve: Preserve, seed: int) -> None:
        self.vocab = preserve.vocab
        self.preserve = preserve
        self.seed = seed

    def n_parameters(self) -> int:
        return self.preserve.n_parameters()

    def draw_some(self, n: int, rng: Generator, length: int | None, burn_in: int) -> Batch:
        return self.preserve.draw_some(n, rng, length, burn_in)

    def explain(self, sentences: Batch | Sequence[str]) -> Explanation:
        batch = self.vocab.batch(sentences).to(self.preserve.lstm.output_bias.device)
        order_B = torch.randperm(len(batch), generator=Generator().manual_seed(self.seed)).to(batch.device)
        shuffled = self.preserve.explain(batch.select(order_B))
        rank_B = order_B.argsort()  # where each sentence went
        at_N = shuffled.batch.starts_B[rank_B][batch.sentence_N] + batch.position_N
        return Explanation(batch, shuffled.word_N[at_N], shuffled.rest_B[rank_B])


def concatenate(batch: Batch, end: int) -> Tensor:
    """[N + B] the words of all sentences, each sentence followed by the end symbol."""
    text = batch.ids_N.new_full((batch.n_words + len(batch),), end, dtype=torch.int64)
    text[torch.arange(batch.n_words, device=batch.device) + batch.sentence_N] = batch.ids_N.long()
    return text
