"""From a recipe to the objects it names: which class each kind makes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from trflm.config import (
    AugSALearner,
    BLSTMModel,
    CNNBLSTMModel,
    CNNModel,
    FieldRecipe,
    LSTMProposalSection,
    LSTMRecipe,
    MixedModel,
    PotentialModel,
    Recipe,
)
from trflm.learning.augsa import AugSA
from trflm.learning.batches import ShuffledBatches
from trflm.learning.lstm import LSTMLearner
from trflm.learning.nce import NCE
from trflm.lms.lstm import LSTM
from trflm.lms.lstm_proposal import LSTMProposal
from trflm.lms.softmax import equal_classes
from trflm.lms.unigram import Unigram
from trflm.potentials.blstm import BLSTM
from trflm.potentials.cnn import CNN
from trflm.potentials.cnn_blstm import cnn_blstm
from trflm.potentials.mixed import Mixed
from trflm.potentials.protocol import Potential
from trflm.seeds import generator
from trflm.text import Batch, Corpus, Vocab, empirical_pi, read_corpus, training_pi0
from trflm.text.cache import cached
from trflm.text.classes import exchange_classes, read_classes
from trflm.text.word2vec import word2vec
from trflm.trf import TRF


@dataclass(frozen=True)
class Data:
    """The text of a recipe, read."""

    vocab: Vocab
    train: Corpus
    dev: Corpus | None

    @classmethod
    def read(cls, recipe: Recipe) -> "Data":
        data = recipe.data
        if data.vocab:
            vocab = Vocab.from_list(data.vocab)
        else:
            vocab = Vocab.from_text([data.train], size=data.vocab_size or None, min_count=data.min_count)
        train = read_corpus(data.train, vocab, data.max_length or None)
        return cls(vocab, train, read_corpus(data.valid, vocab) if data.valid else None)


def build_trf(model: PotentialModel, vocab: Vocab, pi: Tensor, rng: torch.Generator | None = None) -> TRF:
    """A random field with fresh parameters."""
    return TRF(vocab, build_potential(model, len(vocab), rng), pi)


def build_potential(model: PotentialModel, n_words: int, rng: torch.Generator | None = None) -> CNN | BLSTM | Mixed:
    match model:
        case CNNModel():
            return CNN(model, n_words, rng)
        case BLSTMModel():
            return BLSTM(model, n_words, rng)
        case CNNBLSTMModel():
            return cnn_blstm(model, n_words, rng)
        case MixedModel():
            return Mixed([build_potential(part, n_words, rng) for part in model.parts])


def proposal_classes(section: LSTMProposalSection, data: Data) -> Tensor | None:
    """[V] the classes of the proposal's output, numbered without gaps; None for a full softmax."""
    text, n_words = data.train.sentences, len(data.vocab)
    if section.classes_file:
        class_V = read_classes(section.classes_file, data.vocab)
    elif not section.classes:
        return None
    elif section.exchange:
        n = min(section.classes, n_words)
        found = cached(f"exchange {n}/{n_words}", text, lambda: {"class": exchange_classes(text, n_words, n).class_V})
        class_V = found["class"]
    else:
        class_V = equal_classes(torch.bincount(text.ids_N, minlength=n_words), section.classes)
    return torch.unique(class_V, return_inverse=True)[1]


Learner = AugSA | NCE | LSTMLearner


def build_learner(recipe: FieldRecipe | LSTMRecipe, data: Data, fresh: bool) -> Learner:
    """The learner at its start. Unless `fresh`, what only a start needs (word2vec) is left out: a checkpoint follows."""
    if isinstance(recipe, LSTMRecipe):
        lstm = LSTM(data.vocab, recipe.model, generator(recipe.run.seed, "init")).to(recipe.run.device)
        return LSTMLearner(lstm, data.train.sentences, recipe.learner)
    return build_field_learner(recipe, data, fresh)


def build_field_learner(recipe: FieldRecipe, data: Data, fresh: bool) -> AugSA | NCE:
    text, seed, device = data.train.sentences, recipe.run.seed, recipe.run.device
    pi = empirical_pi(text.lengths_B)
    trf = build_trf(recipe.model, data.vocab, pi, generator(seed, "init"))
    if fresh:
        start_embeddings(trf.potential, recipe.model, text, seed)
    trf = trf.to(device)
    batches = ShuffledBatches(text, recipe.learner.batch, seed)
    if isinstance(recipe.learner, AugSALearner):
        class_V = proposal_classes(recipe.proposal, data)
        proposal = LSTMProposal(recipe.proposal, len(data.vocab), class_V, generator(seed, "init", 1)).to(device)
        return AugSA(trf, proposal, training_pi0(pi), batches, recipe.learner, generator(seed, "init", 2))
    return NCE(trf, Unigram.estimate(data.vocab, text, pi), batches, recipe.learner)


def start_embeddings(potential: Potential, model: PotentialModel, text: Batch, seed: int) -> None:
    """Where the recipe asks for it, words of the text start from word2vec; other words keep their random start."""
    if isinstance(model, MixedModel):
        assert isinstance(potential, Mixed)
        for part, part_model in zip(potential.parts, model.parts, strict=True):
            start_embeddings(part, part_model, text, seed)
    elif model.word2vec:
        assert isinstance(potential, CNN | BLSTM)
        words_U, vector_UE = word2vec(text, len(potential.embedding), model.embedding, seed)
        with torch.no_grad():
            potential.embedding[words_U] = vector_UE
