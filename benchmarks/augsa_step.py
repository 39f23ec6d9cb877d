"""One step of AugSA + JSA at the paper's size (K_D 1000, K_B 100, M 10, s 5): done plainly, and our way.

Plainly: conv1d on 100 sentences of about one length at a time, which wastes next to nothing on padding (its best case),
torch's LSTM with a full softmax, every trial drawn and evaluated whole. Plainly, unsorted: the same on sentences as they come,
padded to the longest of 100; both in fp32. Our way: tables, class-factored softmax, shared prefixes, each distinct window once;
in bf16 where the CPU has it, as recipes/ptb/neural-trf.toml asks for, and in fp32. All sides run the same learner from the same
start; only potential, proposal and precision differ.

    step-vs-plain           our way as the recipe has it, against the plain side on sorted sentences
    step-vs-plain-fp32      the same, both in fp32
    step-vs-plain-unsorted  our way as the recipe has it, against the plain side on sentences as they come
"""

import functools
import resource
import statistics

import torch
from measure import arguments, interleaved, report, training_text
from torch import Tensor
from torch.nn.utils.rnn import pack_sequence, unpack_sequence

from trflm.field.trf import TRF
from trflm.learning.augsa import AugSA, AugSAConfig
from trflm.learning.batches import ShuffledBatches
from trflm.lms.proposals.lstm import LSTMProposal, LSTMProposalConfig, LSTMState
from trflm.lms.proposals.protocol import Span
from trflm.lms.softmax import ClassSoftmax, equal_classes
from trflm.potentials.cnn.model import CNN, CNNConfig
from trflm.potentials.cnn.plain import plain_phi
from trflm.speed.bf16 import has_bf16
from trflm.text import UNK, Batch, Vocab, empirical_pi, training_pi0

AT_ONCE = 100  # sentences convolved in one rectangle


class PlainCNN(CNN):
    """The potential by conv1d, on sentences sorted by length."""

    def forward(self, batch: Batch, rng: torch.Generator | None = None) -> Tensor:
        order = self.order(batch)
        phi_B = torch.cat([plain_phi(self, batch.select(index)) for index in order.split(AT_ONCE)])
        return phi_B[torch.argsort(order)]

    def score(self, batch: Batch) -> Tensor:
        with torch.no_grad():
            return self(batch)

    def order(self, batch: Batch) -> Tensor:
        return torch.argsort(batch.lengths_B, stable=True)


class Unsorted(PlainCNN):
    """The potential by conv1d, on sentences as they come."""

    def order(self, batch: Batch) -> Tensor:
        return torch.arange(len(batch))


class PlainProposal(LSTMProposal):
    """Every trial is a row of its own from its first word on."""

    @torch.no_grad()
    def propose(self, rng: torch.Generator, state: LSTMState, given_CMs: Tensor, span_C: Tensor, remaining_C: Tensor) -> Span:
        C, M, s = given_CMs.shape
        every = torch.arange(C * M)
        state, given_Ts = state.select(torch.arange(C).repeat_interleave(M)), given_CMs.reshape(C * M, s)
        inside_Ts = torch.arange(s) < span_C.repeat_interleave(M)[:, None]
        words_Ts, log_q_T = torch.zeros_like(given_Ts), torch.zeros(C * M, dtype=torch.float64)
        for t in range(int(span_C.max())):
            h_TH, c_TH = self._plain_step(state, (remaining_C.repeat_interleave(M) - t).clamp(min=1))
            word_T, log_prob_T = self.output.choose(h_TH, every, given_Ts[:, t], rng)
            words_Ts[:, t] = word_T * inside_Ts[:, t]
            log_q_T += log_prob_T.double() * inside_Ts[:, t]
            state = LSTMState.apart(h_TH, c_TH, word_T)
        return Span(words_Ts.view(C, M, s), log_q_T.view(C, M), state, every.view(C, M))

    def _plain_step(self, state: LSTMState, remaining_R: Tensor) -> tuple[Tensor, Tensor]:
        w_ih, w_hh, b_ih, b_hh = self.lstm.all_weights[0]
        return torch.lstm_cell(self._input(state.last_R, remaining_R), (state.h_PH, state.c_PH), w_ih, w_hh, b_ih, b_hh)

    def _run(self, batch: Batch, length_B: Tensor) -> tuple[Tensor, Tensor]:
        """By torch's own LSTM on a packed sequence. Of c only the last of each sentence is known, and read."""
        by_sentence = list(self._inputs(batch, length_B).split(batch.lengths_B.tolist()))
        h, (_, c_1BH) = self.lstm(pack_sequence(by_sentence, enforce_sorted=False))
        h_NH = torch.cat(unpack_sequence(h))
        ends_B = batch.starts_B + batch.lengths_B - 1
        return h_NH, torch.zeros_like(h_NH).index_copy(0, ends_B, c_1BH[0].detach())


def learner(text: Batch, vocab: Vocab, cnn: type[CNN], proposal: type[LSTMProposal], classes: int, bf16: bool = False) -> AugSA:
    rng = torch.Generator().manual_seed(0)
    pi = empirical_pi(text.lengths_B)
    class_V = equal_classes(torch.bincount(text.ids_N, minlength=len(vocab)), classes) if classes else None
    q = proposal(LSTMProposalConfig(classes=classes), len(vocab), class_V, rng)
    start_at_unigram(q, text)
    trf = TRF(vocab, cnn(CNNConfig(), len(vocab), rng), pi)
    return AugSA(trf, q, training_pi0(pi), ShuffledBatches(text, AugSAConfig.batch, seed=1), AugSAConfig(bf16=bf16), rng)


def start_at_unigram(proposal: LSTMProposal, text: Batch) -> None:
    """A proposal that draws words as often as the text has them: where the first epoch of training brings it."""
    output = proposal.output
    share_V = torch.bincount(text.ids_N, minlength=proposal.n_words).float() + 1
    with torch.no_grad():
        if isinstance(output, ClassSoftmax):
            output.bias.copy_(share_V[output.word_V].log())
            output.class_bias.copy_(torch.zeros(len(output.sizes)).index_add(0, output.class_V, share_V).log())
        else:
            output.bias.copy_(share_V.log())


def main() -> None:
    parsed = arguments(__doc__ or "")
    text, n_words, source = training_text(parsed.data, 5000)
    vocab = Vocab([UNK, *(f"w{i}" for i in range(1, n_words))])
    data = text.select(torch.arange(1000))
    print(f"1000 sentences of data, {data.n_words} words ({source}); 100 chains, 10 trials, blocks of 5, {n_words} words known")
    rng = torch.Generator().manual_seed(1)
    learners = {"our way": learner(text, vocab, CNN, LSTMProposal, classes=100, bf16=True)}
    learners["our way"].update(data, rng)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    learners["our way, fp32"] = learner(text, vocab, CNN, LSTMProposal, classes=100)
    learners["our way, fp32"].update(data, rng)
    learners["plainly"] = learner(text, vocab, PlainCNN, PlainProposal, classes=0)
    learners["plainly, unsorted"] = learner(text, vocab, Unsorted, PlainProposal, classes=0)
    for name in () if parsed.quick else ("plainly", "plainly, unsorted"):
        learners[name].update(data, rng)  # each side has had one step to warm up

    sides = {name: functools.partial(side.update, data, rng) for name, side in learners.items()}
    seconds = interleaved(sides, rounds=1 if parsed.quick else 5, warm_up=False)
    print(f"peak memory of our step: {peak:.2f} GB")
    settings = {"bf16": has_bf16(), "words": data.n_words, "source": source, "vocabulary": n_words, "peak_GB": round(peak, 2)}
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    ratios = {
        "step-vs-plain-unsorted": medians["plainly, unsorted"] / medians["our way"],
        "step-vs-plain-fp32": medians["plainly"] / medians["our way, fp32"],
        "step-vs-plain": medians["plainly"] / medians["our way"],
    }
    report(parsed, settings, seconds, ratios)


if __name__ == "__main__":
    main()
