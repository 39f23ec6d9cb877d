"""A reference that has not seen the sentence it scores, against one estimated by hand; and what a learner does with it."""

import pytest
import torch
from harness import rng, tiny_vocab

from trflm.field.trf import TRF
from trflm.learning.batches import ShuffledBatches
from trflm.learning.deleted import DeletedReference
from trflm.learning.nce import NCE, NCEConfig
from trflm.learning.replacements import Replacements
from trflm.lms.ngram import KneserNeyConfig, kneser_ney
from trflm.lms.unigram import Unigram
from trflm.potentials.cnn.model import CNN, CNNConfig
from trflm.potentials.tilted import Tilted
from trflm.text import Batch, empirical_pi

pytestmark = pytest.mark.filterwarnings("ignore:the .-grams of this text")  # too small for Kneser-Ney discounts

V, FOLDS = 5, 4
VOCAB = tiny_vocab(V)
TEXT = Batch(torch.randint(V, (240,), generator=rng(1)), torch.full((60,), 4))
TINY = CNNConfig(embedding=4, projection=4, bank_width=2, bank_filters=4, stack_layers=1, stack_filters=4, init=0.5)


def deleted(text: Batch = TEXT) -> DeletedReference:
    return DeletedReference.estimate(kneser_ney(text, VOCAB, KneserNeyConfig(order=3)), text, VOCAB, 3, FOLDS)


def test_each_sentence_is_scored_by_the_model_of_the_other_folds():
    reference = deleted()
    index_B = torch.tensor([0, 5, 6, 7, 59, 3])
    fold_B = reference.fold(index_B)
    assert fold_B.tolist() == [0, 1, 2, 3, 3, 3]
    found_B = reference.correction(TEXT.select(index_B), fold_B)
    whole = kneser_ney(TEXT, VOCAB, KneserNeyConfig(order=3))
    for i, found in zip(index_B.tolist(), found_B.tolist(), strict=True):
        others = torch.tensor([j for j in range(60) if j % FOLDS != i % FOLDS])
        model = kneser_ney(TEXT.select(others), VOCAB, KneserNeyConfig(order=3))
        one = TEXT.select(torch.tensor([i]))
        assert found == pytest.approx(float(model.log_prob(one)) - float(whole.log_prob(one)), abs=1e-9)
    assert float(found_B.mean()) < -0.3  # the whole model is too sure of its own text


def test_with_much_text_nothing_is_corrected():
    text = Batch(torch.randint(V, (80_000,), generator=rng(1)), torch.full((20_000,), 4))
    index_B = torch.arange(200)
    reference = deleted(text)
    assert float(reference.correction(text.select(index_B), reference.fold(index_B)).abs().mean()) < 0.05


def test_a_step_takes_the_reference_for_one_that_has_not_seen_its_sentences():
    """All sentences of a batch in one fold: their pairs are those of a field on the reference without it."""
    replacements = Replacements.estimate(VOCAB, TEXT, unigram := Unigram.estimate(VOCAB, TEXT, empirical_pi(TEXT.lengths_B)))
    reference, index_B = deleted(), torch.arange(2, 60, FOLDS)
    batch, noise = TEXT.select(index_B), Batch(torch.randint(V, (60,), generator=rng(2)), torch.full((15,), 4))

    def after_a_step(tilts, given: DeletedReference | None) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
        potential = Tilted(CNN(TINY, V, rng(3)), tilts)
        trf = TRF(VOCAB, potential, empirical_pi(TEXT.lengths_B))
        config = NCEConfig(batch=15, replacements=2)
        learner = NCE(trf, unigram, replacements, ShuffledBatches(TEXT, 15, seed=1), config, given)
        part = learner.part(batch, noise, rng(4), index_B)
        part.loss.backward()
        learner.optimiser.step()
        return part.metrics, {name: p.detach() for name, p in potential.named_parameters()}

    whole, parameters = after_a_step(reference.reference, reference)
    alone, _ = after_a_step(reference.without[2], None)
    plain, other_parameters = after_a_step(reference.reference, None)
    assert whole["replacement_loss"] == pytest.approx(alone["replacement_loss"], abs=1e-6)  # no noise, so all of it
    assert plain["replacement_loss"] != pytest.approx(alone["replacement_loss"], abs=1e-3)
    assert plain["loss"] < whole["loss"] - 0.1  # a reference that knows the sentences has an easy task
    assert any(not torch.equal(parameters[name], other_parameters[name]) for name in parameters)
