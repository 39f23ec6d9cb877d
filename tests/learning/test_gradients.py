"""Every learner's step goes down the gradient of the loss it says it minimises: against sums over all that it may draw.

Three words, sentences of up to three: 39 sentences. The whole text is one batch, so that only what a learner draws is random.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, get_args, get_type_hints

import pytest
import torch
import torch.nn.functional as F
from harness import check_gradient, rng, sentence_numbers, tiny_vocab
from torch import Tensor

from trflm.field.trf import TRF
from trflm.kinds import Start
from trflm.learning import FIELD_LEARNERS, LSTM_LEARNERS
from trflm.learning.augsa import AugSA, AugSAConfig
from trflm.learning.batches import ShuffledBatches
from trflm.learning.cloze import Cloze, ClozeConfig
from trflm.learning.copies import Copies
from trflm.learning.distil import Distil, DistilConfig, Teacher
from trflm.learning.dnce import DNCE, DNCEConfig
from trflm.learning.lstm import AdamConfig, LSTMLearner, SGDConfig
from trflm.learning.nce import NCE, NCEConfig
from trflm.learning.replacements import Replacements
from trflm.learning.word_choice import WordChoice, WordChoiceConfig
from trflm.learning.word_nce import WordNCE, WordNCEConfig
from trflm.lms.lstm import LSTM, LSTMConfig
from trflm.lms.ngram import KneserNeyConfig, kneser_ney
from trflm.lms.proposals.lstm import LSTMProposal, LSTMProposalConfig
from trflm.lms.unigram import Unigram
from trflm.potentials.blstm import BLSTM, BLSTMConfig
from trflm.potentials.cnn.model import CNN, CNNConfig
from trflm.potentials.discrete import DiscreteConfig
from trflm.potentials.tilted import Tilted
from trflm.sampling.exact import Exact, all_sentences, log_likelihood
from trflm.text import Batch, empirical_pi, training_pi0
from trflm.text.lengths import draw_from_cdf

V, M = 3, 3
VOCAB = tiny_vocab(V)
ALL = all_sentences(V, M)
TEXT = ALL.select(draw_from_cdf((torch.rand(len(ALL), generator=rng(7), dtype=torch.float64) ** 4).cumsum(0), 80, rng(8)))
SHARE_S = torch.bincount(sentence_numbers(TEXT, V), minlength=len(ALL)).double() / len(TEXT)
PI = empirical_pi(TEXT.lengths_B)
UNIGRAM = Unigram.estimate(VOCAB, TEXT, PI)
REPLACEMENTS = Replacements.estimate(VOCAB, TEXT, UNIGRAM)
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    REFERENCE, BIGRAM = (kneser_ney(TEXT, VOCAB, KneserNeyConfig(order=order)) for order in (1, 2))
SHAPE = CNNConfig(embedding=4, projection=4, bank_width=2, bank_filters=4, stack_layers=1, stack_filters=4, init=1.0)
HUGE = 1e9  # a gradient norm that is never reached

Built = tuple[Any, Sequence[Tensor]]


def batches(seed: int) -> ShuffledBatches:
    return ShuffledBatches(TEXT, len(TEXT), seed)


def cnn() -> CNN:
    return CNN(SHAPE, V, rng(4))


def proposal() -> LSTMProposal:
    return LSTMProposal(LSTMProposalConfig(units=4, init=0.5), V, torch.tensor([0, 1, 1]), rng(2))


def augsa(seed: int) -> Built:
    """Chains that have the model's own distribution keep it in a step."""
    trf, pi0 = TRF(VOCAB, cnn(), PI), training_pi0(PI)
    config = AugSAConfig(batch=len(TEXT), chains=400, jump_range=2, block=2, trials=3)
    learner = AugSA(trf, proposal(), pi0, batches(seed), config, rng(seed))
    with torch.no_grad():
        exact = Exact.of(trf.potential, V, M)
    trf.zeta.copy_(exact.zeta)
    learner.chains = ALL.select(draw_from_cdf(exact.log_prob(pi0).exp().cumsum(0), config.chains, rng(1000 + seed)))
    return learner, learner.theta


def likelihood(learner: AugSA) -> Tensor:
    return -log_likelihood(learner.trf.potential, V, SHARE_S, PI)


def nce(seed: int) -> Built:
    config = NCEConfig(batch=len(TEXT), noise_ratio=2, clip=HUGE)
    learner = NCE(TRF(VOCAB, cnn(), PI), UNIGRAM, REPLACEMENTS, batches(seed), config)
    return learner, [*learner.theta, learner.log_Z]


def dnce(seed: int) -> Built:
    config = DNCEConfig(batch=len(TEXT), alpha=0.5, clip=HUGE)
    learner = DNCE(TRF(VOCAB, cnn(), PI), proposal(), REPLACEMENTS, batches(seed), config)
    return learner, [*learner.theta, learner.log_Z]


def told_apart(learner: NCE) -> Tensor:
    """Data (of dynamic NCE: and as many sentences of the noise) against nu times as much noise, all of it summed."""
    nu = learner.config.noise_ratio
    noise_S = learner.noise.log_prob(ALL).double().exp()
    assert abs(float(noise_S.sum()) - 1) < 1e-4
    data_S = (SHARE_S + noise_S) / 2 if isinstance(learner, DNCE) else SHARE_S
    log_p_S = PI.log()[ALL.lengths_B] + learner.trf.potential(ALL).double() - learner.log_Z[ALL.lengths_B]
    ratio_S = log_p_S - (nu * noise_S).log()
    return -(data_S * F.logsigmoid(ratio_S) + nu * noise_S * F.logsigmoid(-ratio_S)).sum()


def word_nce(seed: int) -> Built:
    potential = BLSTM(BLSTMConfig(embedding=4, units=4, init=0.5), V, rng(1))
    config = WordNCEConfig(batch=len(TEXT), noise_words=40, clip=HUGE)
    learner = WordNCE(TRF(VOCAB, potential, PI), potential, REPLACEMENTS, batches(seed), config)
    return learner, learner.descent.theta


def words_told_apart(learner: WordNCE) -> Tensor:
    """In each direction, the symbol that is there against k of the unigram's, all of them summed."""
    total, places = torch.zeros(()), 0
    log_kq = (learner.log_q + math.log(learner.config.noise_words)).float()
    potential = learner.descent.potential
    assert isinstance(potential, BLSTM)
    bias = torch.cat([potential.bias, learner.marker_bias])
    for h_RE, symbol_R in potential.predictions(TEXT, None):
        ratio_RW = 2 * h_RE @ potential.embedding.T + bias - log_kq
        on_data = F.logsigmoid(ratio_RW.gather(1, symbol_R[:, None])).sum()
        total, places = total - on_data - (log_kq.exp() * F.logsigmoid(-ratio_RW)).sum(), places + len(symbol_R)
    return total / places


def cloze(seed: int) -> Built:
    trf = TRF(VOCAB, Tilted(cnn(), REFERENCE), PI)
    learner = Cloze(trf, REPLACEMENTS, batches(seed), ClozeConfig(batch=len(TEXT), rate=0.3, clip=HUGE))
    return learner, learner.descent.theta


def words_told_from_replaced(learner: Cloze) -> Tensor:
    """Every copy y of every sentence x, with the probability of each word's being kept or replaced."""
    r, q_V = learner.config.rate, UNIGRAM.log_word_V.exp()
    potential, total = learner.descent.potential, torch.zeros((), dtype=torch.float64)
    for length in range(1, M + 1):
        words_Sl = ALL.select((ALL.lengths_B == length).nonzero().squeeze(1)).ids_N.view(-1, length)
        share_X = SHARE_S[ALL.lengths_B == length]
        same_XYl = words_Sl[:, None] == words_Sl[None]
        kept_XYl, drawn_XYl = (1 - r) * same_XYl, r * q_V[words_Sl].expand(same_XYl.shape)
        either_XYl = kept_XYl + drawn_XYl
        y = Batch(words_Sl.flatten(), torch.full((len(words_Sl),), length))
        u_N = REFERENCE.explain(y).word_N
        ratio_N = potential.contributions(y) + learner.task.bias + u_N - q_V.log()[y.ids_N] - math.log(r / (1 - r))
        for i in range(length):
            others_XY = torch.cat([either_XYl[..., :i], either_XYl[..., i + 1 :]], -1).prod(-1)
            ratio_Y = ratio_N.view(-1, length)[:, i]
            at_i_XY = kept_XYl[..., i] * F.logsigmoid(ratio_Y) + drawn_XYl[..., i] * F.logsigmoid(-ratio_Y)
            total = total - (share_X[:, None] * others_XY * at_i_XY).sum()
    return total / float((SHARE_S * ALL.lengths_B).sum())


def distil(seed: int) -> Built:
    """One copy of each sentence, with one word exchanged for the first candidate."""
    config = DistilConfig(
        teachers=("bigram",), batch=len(TEXT), copies=1, most_edits=1, candidates=1, insertions=0, deletions=0, clip=HUGE
    )  # fmt: skip
    teacher = Teacher([BIGRAM])
    learner = Distil(TRF(VOCAB, cnn(), PI), teacher, Copies(TEXT, V, M, config), REPLACEMENTS, batches(seed), config)
    return learner, learner.descent.theta


def words_as_the_teachers(learner: Distil) -> Tensor:
    """Every exchange of a word at every place: by what stands after the one before, before the one after, or anywhere."""
    follows = torch.zeros(V + 1, V + 1, dtype=torch.float64)  # [left, right], V beyond the ends
    for words in TEXT.ids_N.split(TEXT.lengths_B.tolist()):
        padded = F.pad(words, (1, 1), value=V)
        follows.index_put_((padded[:-1], padded[1:]), torch.ones((), dtype=torch.float64), accumulate=True)
    count_V = torch.bincount(TEXT.ids_N, minlength=V).double()
    copies, weights = [], []
    for words in TEXT.ids_N.split(TEXT.lengths_B.tolist()):
        padded = F.pad(words, (1, 1), value=V)
        for i in range(len(words)):
            after, before = follows[padded[i], :V], follows[:V, padded[i + 2]]
            p_V = 0.4 * after / after.sum() + 0.4 * before / before.sum() + 0.2 * count_V / count_V.sum()
            for w in range(V):
                copies.append(words.clone().index_fill(0, torch.tensor(i), w))
                weights.append(p_V[w] / len(words))
    batch = Batch(torch.cat(copies), torch.tensor([len(copy) for copy in copies]))
    teacher = learner.teacher.models[0].explain(batch)
    wanted_N = teacher.word_N + torch.where(batch.remaining_N == 0, teacher.rest_B[batch.sentence_N], 0.0)
    norm_B = (learner.trf.log_norm(batch.lengths_B) + learner.slope * batch.lengths_B) / batch.lengths_B
    off_N = learner.descent.potential.contributions(batch) + norm_B[batch.sentence_N] - wanted_N
    loss_N = torch.where(off_N.abs() < 2, off_N.square() / 4, off_N.abs() - 1)
    return (torch.stack(weights)[batch.sentence_N] * loss_N).sum() / TEXT.n_words


def word_choice(seed: int) -> Built:
    potential = DiscreteConfig(features="w+c+ws+cs", classes=2).build(Start(VOCAB, TEXT, rng(1), fresh=True))
    with torch.no_grad():
        for parameter in potential.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=rng(3)))
    config = WordChoiceConfig(batch=len(TEXT), words=1, clip=HUGE)
    learner = WordChoice(TRF(VOCAB, potential, PI), potential, REPLACEMENTS, batches(seed), config)
    return learner, list(potential.parameters())


def words_chosen(learner: WordChoice) -> Tensor:
    """The word of the text against one other, all others summed: phi of both sentences, and g of both words."""
    total = torch.zeros((), dtype=torch.float64)
    for words in TEXT.ids_N.split(TEXT.lengths_B.tolist()):
        for i in range(len(words)):
            variants = words.repeat(V, 1)
            variants[:, i] = torch.arange(V)
            batch = Batch(variants.flatten(), torch.full((V,), len(words)))
            place, one = torch.full((V,), i), torch.ones(V, dtype=torch.int64)
            g_V = (REPLACEMENTS.bigram.log_span(batch, place, one).double().exp() + UNIGRAM.log_word_V.exp()) / 2
            assert abs(float(g_V.sum()) - 1) < 1e-5
            s_V = learner.potential(batch).double() - g_V.log()
            total = total - (g_V * F.logsigmoid(s_V[words[i]] - s_V)).sum()
    return total / TEXT.n_words


def lstm(config: SGDConfig | AdamConfig) -> Built:
    model = LSTM(VOCAB, LSTMConfig(embedding=4, hidden=4, layers=1, init=0.5, dropout=0.0), rng(1))
    return LSTMLearner(model, TEXT, config), list(model.parameters())


def symbols_in_order(learner: LSTMLearner) -> Tensor:
    """-log p of each symbol of the first window, read one by one after the end of a sentence."""
    model, total = learner.lstm, torch.zeros(())
    before, state = model.end, model.zero_state(1)
    symbols = [w for words in TEXT.ids_N.split(TEXT.lengths_B.tolist()) for w in (*words.tolist(), model.end)]
    for symbol in symbols[:WINDOW]:
        h, state = model.read(torch.tensor([[before]]), state, None)
        p_V = model.logits(h).flatten().exp()
        total, before = total - (p_V[symbol] / p_V.sum()).log(), symbol
    return total / WINDOW


WINDOW = 20
LEARNERS: dict[str, tuple[Callable[[int], Built], Callable[[Any], Tensor], int]] = {  # with the number of seeds
    "augsa": (augsa, likelihood, 100),
    "nce": (nce, told_apart, 100),
    "dnce": (dnce, told_apart, 100),
    "word-nce": (word_nce, words_told_apart, 300),
    "cloze": (cloze, words_told_from_replaced, 300),
    "distil": (distil, words_as_the_teachers, 100),
    "word-choice": (word_choice, words_chosen, 300),
    "sgd": (lambda _: lstm(SGDConfig(streams=1, window=WINDOW, clip=HUGE)), symbols_in_order, 1),
    "adam": (lambda _: lstm(AdamConfig(streams=1, window=WINDOW, clip=HUGE)), symbols_in_order, 1),
}
KINDS = [get_args(get_type_hints(config)["kind"])[0] for config in (*FIELD_LEARNERS, *LSTM_LEARNERS)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_mean_gradient_of_a_step_is_that_of_the_enumerated_loss(kind):
    build, loss, draws = LEARNERS[kind]
    check_gradient(build, loss, draws)
