"""From a recipe to the learner it names, at its start: fresh, or from the model of another run."""

from pathlib import Path

import torch
from torch import Tensor

from trflm.errors import InputError
from trflm.experiment.data import Data, build_trf
from trflm.experiment.recipe import (
    AugSALearner,
    DNCELearner,
    FieldRecipe,
    LSTMProposalSection,
    LSTMRecipe,
    MixedModel,
    NGramNoise,
    PotentialModel,
    TrainedNoise,
    UnigramNoise,
    WordNCELearner,
)
from trflm.experiment.store import load_model, vocab_hash
from trflm.field.trf import TRF
from trflm.files.cache import cached
from trflm.files.tensors import load_state
from trflm.learning.augsa import AugSA
from trflm.learning.batches import ShuffledBatches
from trflm.learning.deleted import DeletedReference
from trflm.learning.dnce import DNCE
from trflm.learning.lstm import LSTMLearner
from trflm.learning.nce import NCE
from trflm.learning.replacements import Replacements
from trflm.learning.word_nce import WordNCE
from trflm.lms.lstm import LSTM
from trflm.lms.ngram import KneserNeyConfig, NGram, kneser_ney
from trflm.lms.noise import ModelNoise, Noise
from trflm.lms.proposals.lstm import LSTMProposal
from trflm.lms.softmax import equal_classes
from trflm.lms.unigram import Unigram
from trflm.potentials.blstm import BLSTM, Embedding
from trflm.potentials.cnn.model import CNN
from trflm.potentials.mixed import Mixed
from trflm.potentials.protocol import Potential
from trflm.potentials.tilted import Tilted, log_lengths
from trflm.seeds import generator
from trflm.text import Batch, empirical_pi, training_pi0
from trflm.text.classes import exchange_classes, read_classes
from trflm.text.word2vec import word2vec

REFERENCE_DRAWS = 20_000  # sentences whose lengths give the start of zeta under a reference

FieldLearner = AugSA | NCE | WordNCE


def build_learner(recipe: FieldRecipe | LSTMRecipe, data: Data, fresh: bool) -> FieldLearner | LSTMLearner:
    """The learner at its start. Unless `fresh`, what only a start needs (word2vec, another run) is left out: a checkpoint
    follows."""
    if isinstance(recipe, LSTMRecipe):
        lstm = LSTM(data.vocab, recipe.model, generator(recipe.run.seed, "init"))
        if fresh and recipe.run.init:
            take(lstm, Path(recipe.run.init), data, "lstm")
        return LSTMLearner(lstm.to(recipe.run.device), data.train.sentences, recipe.learner)
    return build_field_learner(recipe, data, fresh)


def build_field_learner(recipe: FieldRecipe, data: Data, fresh: bool) -> FieldLearner:
    text, seed, device, config = data.train.sentences, recipe.run.seed, recipe.run.device, recipe.learner
    pi = empirical_pi(text.lengths_B)
    reference = estimate_ngram(data, recipe.reference.order) if recipe.reference.order else None
    trf = build_trf(recipe.model, data.vocab, pi, reference, generator(seed, "init"))
    if fresh:
        start_embeddings(trf.potential, recipe.model, text, seed)
    if fresh and recipe.run.init:
        take(trf, Path(recipe.run.init), data, "trf")
    elif fresh and reference:
        start_zeta(trf, reference, generator(seed, "init", 3))
    trf = trf.to(device)
    batches = ShuffledBatches(text, config.batch, seed, alike=isinstance(config, WordNCELearner))
    unigram = Unigram.estimate(data.vocab, text, pi)
    deleted = None
    if reference and recipe.reference.folds and not isinstance(config, AugSALearner):  # to AugSA a reference is a constant
        deleted = DeletedReference.estimate(reference, text, data.vocab, recipe.reference.order, recipe.reference.folds)

    if isinstance(config, AugSALearner | DNCELearner):
        class_V = proposal_classes(recipe.proposal, data)
        proposal = LSTMProposal(recipe.proposal, len(data.vocab), class_V, generator(seed, "init", 1))
        if fresh and recipe.run.init:
            take(proposal, Path(recipe.run.init), data, "proposal", "lstm")
        proposal = proposal.to(device)
        if isinstance(config, AugSALearner):
            return AugSA(trf, proposal, training_pi0(pi), batches, config, generator(seed, "init", 2))
        return DNCE(trf, proposal, Replacements.estimate(data.vocab, text, unigram), batches, config, deleted)
    replacements = Replacements.estimate(data.vocab, text, unigram)
    if isinstance(config, WordNCELearner):
        if not (isinstance(trf.potential, BLSTM) and isinstance(trf.potential.inputs, Embedding)):
            raise InputError('learner.kind = "word-nce" starts a potential of kind "blstm" without a reference, no other')
        return WordNCE(trf, trf.potential, replacements, batches, config)
    return NCE(trf, build_noise(recipe.noise, data, unigram, reference), replacements, batches, config, deleted)


def build_noise(
    section: UnigramNoise | NGramNoise | TrainedNoise, data: Data, unigram: Unigram, reference: NGram | None
) -> Noise:
    match section:
        case UnigramNoise():
            return unigram
        case NGramNoise():
            same = reference is not None and reference.tables.n == section.order
            return ModelNoise(reference if same and reference else estimate_ngram(data, section.order))
        case TrainedNoise():
            model = load_model(section.model)
            if not isinstance(model, NGram | LSTM):
                raise InputError(f"noise.model = {section.model!r}: give the run of an n-gram or LSTM model")
            if model.vocab.words != data.vocab.words:
                raise InputError(
                    f"noise.model = {section.model!r}: has another vocabulary than this run; train it on this text"
                )
            return ModelNoise(model)


def estimate_ngram(data: Data, order: int) -> NGram:
    return kneser_ney(data.train.sentences, data.vocab, KneserNeyConfig(order=order))


def start_zeta(trf: TRF, reference: NGram, rng: torch.Generator) -> None:
    """log Z_l for phi = 0: the shares of the lengths in the reference."""
    log_Z = log_lengths(reference.draw(REFERENCE_DRAWS, rng).lengths_B, trf.max_length)
    trf.zeta[2:] = log_Z[2:] - trf.log_Z1()


def take(module: torch.nn.Module, run: Path, data: Data, *names: str) -> None:
    """Give the module the parameters that the model of `run` has under these names; a proposal that it lacks stays fresh."""
    file = run / "model.safetensors"
    if not file.exists():
        raise InputError(f"{run}: there is no model to start from; give the directory of a run that has reached a checkpoint")
    state, note = load_state(file)
    if note.get("vocab") != vocab_hash(data.vocab):
        raise InputError(f"{run}: knows other words than this run; --init needs a model that was trained on the same text")
    for name in names:
        if name not in state:
            if names[0] == "proposal":
                return
            raise InputError(f"{file}: is the model of another kind of run; --init needs one of the same [model]")
        state = state[name]
    try:
        module.load_state_dict(state)
    except RuntimeError as error:
        section = "[proposal]" if names[0] == "proposal" else "[model] and [reference]"
        raise InputError(f"{file}: does not fit the {section} of this recipe: {' '.join(str(error).split())}") from error


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


def start_embeddings(potential: Potential, model: PotentialModel, text: Batch, seed: int) -> None:
    """Where the recipe asks for it, words of the text start from word2vec; other words keep their random start."""
    if isinstance(potential, Tilted):
        start_embeddings(potential.potential, model, text, seed)
    elif isinstance(model, MixedModel):
        assert isinstance(potential, Mixed)
        for part, part_model in zip(potential.parts, model.parts, strict=True):
            start_embeddings(part, part_model, text, seed)
    elif model.word2vec:
        assert isinstance(potential, CNN | BLSTM)
        words_U, vector_UE = word2vec(text, len(potential.embedding), model.embedding, seed)
        with torch.no_grad():
            potential.embedding[words_U] = vector_UE
