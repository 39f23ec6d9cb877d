"""From a recipe to its text and its random field: which class each kind of potential makes."""

from dataclasses import dataclass

import torch
from torch import Tensor

from trflm.experiment.recipe import BLSTMModel, CNNBLSTMModel, CNNModel, MixedModel, PotentialModel, Recipe
from trflm.field.trf import TRF
from trflm.lms.ngram import NGram
from trflm.potentials.blstm import BLSTM
from trflm.potentials.cnn.model import CNN
from trflm.potentials.cnn_blstm import cnn_blstm
from trflm.potentials.mixed import Mixed
from trflm.potentials.tilted import Tilted
from trflm.text import Corpus, Vocab, read_corpus


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


def build_trf(
    model: PotentialModel, vocab: Vocab, pi: Tensor, reference: NGram | None = None, rng: torch.Generator | None = None
) -> TRF:
    """A random field with fresh parameters."""
    potential = build_potential(model, len(vocab), rng)
    return TRF(vocab, Tilted(potential, reference) if reference else potential, pi)


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
