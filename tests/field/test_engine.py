import functools
import gc

import pytest
import torch
from harness import check_language_model, random_batch, random_pi, rng, tiny_vocab

from trflm.field.engine import Engine
from trflm.field.snapshots import FieldModel
from trflm.field.trf import TRF
from trflm.lms.ngram import KneserNeyConfig, kneser_ney
from trflm.lms.unigram import Unigram
from trflm.potentials.cnn.model import CNN, CNNConfig
from trflm.potentials.cnn.plain import plain_phi
from trflm.potentials.cnn.windows import _known
from trflm.potentials.mixed import Mixed
from trflm.potentials.tilted import Tilted
from trflm.sampling.draw import FieldSampler
from trflm.sampling.exact import Exact
from trflm.sampling.mixture import TransMSConfig
from trflm.speed.threads import in_threads
from trflm.text import Batch
from trflm.text import batch as batch_module
from trflm.text.batch import in_parts, pack

SMALL = CNNConfig(embedding=6, projection=5, bank_width=4, bank_filters=3, stack_layers=2, stack_filters=4, init=0.5)


def fields(n: int, n_words: int = 40, max_length: int = 30, config: CNNConfig = SMALL) -> list[TRF]:
    pi = random_pi(max_length)
    return [TRF(tiny_vocab(n_words), CNN(config, n_words, rng(seed)), pi) for seed in range(n)]


def cnn(field: TRF) -> CNN:
    assert isinstance(field.potential, CNN)
    return field.potential


def plain_log_prob(field: TRF, batch):
    with torch.no_grad():
        return plain_phi(cnn(field), batch).double() + field.log_norm(batch.lengths_B)


def test_is_the_plain_model_at_the_papers_size():
    """float32, 1e-4 as promised; three snapshots, sentences beyond the longest of training among them."""
    three = fields(3, config=CNNConfig())
    batch = random_batch(40, [*range(1, 36), 1, 1])
    expected = torch.stack([plain_log_prob(field, batch) for field in three])
    engine = Engine(three)
    torch.testing.assert_close(engine.log_probs(batch), expected, rtol=0, atol=1e-4)
    torch.testing.assert_close(engine.log_prob(batch), expected.mean(0), rtol=0, atol=1e-4)


def test_a_model_of_one_field_is_the_exact_one():
    (field,) = fields(1, n_words=3, max_length=4)
    field.double()
    with torch.no_grad():
        exact = Exact.of(field.potential, 3, 4)
    field.zeta[1:] = exact.log_Z[1:] - exact.log_Z[1]
    check_language_model(FieldModel([field], FieldSampler(Unigram(field.vocab, field.pi, torch.zeros(3)), TransMSConfig())), 4)


def test_many_sentences_are_scored_in_parts_that_share_their_index(monkeypatch):
    """Parts are made once, and each serves all snapshots: a part is not cut again."""
    monkeypatch.setattr(batch_module, "SCORING_WORDS", 50)
    two = fields(2)
    batch = random_batch(40, [7, 30, 12, 9, 29, 3, 1, 30, 30, 2])
    parts = list(in_parts(batch))
    assert len(parts) > 2
    assert all(list(in_parts(part)) == [part] for part in parts)
    assert torch.equal(pack(parts).ids_N, batch.ids_N)
    expected = torch.stack([plain_log_prob(field, batch) for field in two]).mean(0)
    torch.testing.assert_close(Engine(two).log_prob(batch), expected, rtol=0, atol=1e-4)
    assert Engine(two).log_prob(batch.select(torch.arange(0))).shape == (0,)


@pytest.mark.parametrize("n_fields", [1, 4])
def test_threads_change_nothing(n_fields, torch_threads):
    """Neither a snapshot for each thread nor, if there is only one, a part of its layers. Forty words, a hundred times
    each: the table is computed beside the index."""
    batch, some = random_batch(40, [9, 12, 4, 30] * 80), fields(n_fields)
    expected = Engine(some).log_probs(batch)
    torch_threads(3)
    for field in some:
        field.potential.forget()
    found = Engine(some).log_probs(Batch(batch.ids_N, batch.lengths_B))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-6)


def test_one_engine_may_be_asked_by_many_threads(torch_threads):
    """They share its word tables, which start anew in between because they may keep three words only."""
    two = fields(2)
    engine = Engine(two, table_bytes=2 * 4 * cnn(two[0]).bank[0].nbytes)
    batches = [random_batch(40, [3, 1, 2, 5], seed) for seed in range(60)]
    torch_threads(4)
    found = list(in_threads([functools.partial(engine.log_probs, batch) for batch in batches]))
    for batch, log_prob_FB in zip(batches, found, strict=True):
        expected = torch.stack([plain_log_prob(field, batch) for field in two])
        torch.testing.assert_close(log_prob_FB, expected, rtol=0, atol=1e-5)


def test_what_is_kept_between_calls_is_bounded():
    """Tables larger than their share are dropped, indices go with their batches."""
    gc.collect()
    known = len(_known)  # of batches that are in use elsewhere
    three = fields(3)
    row = cnn(three[0]).bank[0].nbytes
    for field in three:
        field.log_Z1()  # scores all words
        field.potential.forget()
    engine = Engine(three, table_bytes=3 * 20 * row)
    engine.log_prob(random_batch(10, [9, 9]))
    assert all(len(cnn(field).word_table.rows) > 1 for field in three)
    engine.log_prob(random_batch(40, [30, 30, 30]))
    assert all(cnn(field).word_table.rows.nbytes <= 20 * row for field in three)
    gc.collect()
    assert len(_known) == known


@pytest.mark.filterwarnings("ignore:the 1-grams")
def test_a_reference_is_scored_once_for_all_snapshots(monkeypatch):
    """And the result is that of each field by itself: the n-gram model has its float32 rounding (1e-5) only."""
    vocab, text = tiny_vocab(40), random_batch(40, [30] * 100)
    reference = kneser_ney(text, vocab, KneserNeyConfig(order=1))
    calls = []
    score = reference.log_prob
    monkeypatch.setattr(reference, "log_prob", lambda sentences: calls.append(1) or score(sentences))
    tilted = [TRF(vocab, Tilted(cnn(field), reference), field.pi) for field in fields(3)]
    batch = random_batch(40, [9, 5, 14], seed=3)
    expected = torch.stack([field.log_prob(batch) for field in tilted])
    calls.clear()
    torch.testing.assert_close(Engine(tilted).log_probs(batch), expected, rtol=0, atol=1e-4)
    assert len(calls) == 1


def test_the_parts_of_a_mixed_potential_share_one_index():
    vocab, batch = tiny_vocab(40), random_batch(40, [9, 5, 14])
    mixed = TRF(vocab, Mixed([cnn(field) for field in fields(2)]), random_pi(30))
    with torch.no_grad():
        phi_B = sum(plain_phi(cnn(field), batch) for field in fields(2))
    torch.testing.assert_close(Engine([mixed]).log_prob(batch), phi_B + mixed.log_norm(batch.lengths_B), rtol=0, atol=1e-4)
    assert len(_known[batch][0]) == 1


class LengthPotential(torch.nn.Module):
    """No CNN: phi = -theta * l."""

    def __init__(self) -> None:
        super().__init__()
        self.theta = torch.nn.Parameter(torch.tensor(0.7))

    def forward(self, batch, rng=None):
        return -self.theta * batch.lengths_B

    score = forward

    def contributions(self, batch, rng=None):
        return -self.theta.expand(batch.n_words)

    def forget(self) -> None:
        pass


def test_any_other_potential_is_scored_by_itself():
    field = TRF(tiny_vocab(5), LengthPotential(), random_pi(6))
    batch = random_batch(5, [1, 4, 6])
    expected = field.log_norm(batch.lengths_B) - 0.7 * batch.lengths_B
    torch.testing.assert_close(Engine([field]).log_prob(batch), expected, rtol=0, atol=1e-6)


def test_bf16_rounds_a_little_and_only_where_it_is_asked_for():
    """bf16 has 8 bits: factors are off by 1/256 at most, and the errors of a sum are not all of one sign."""
    (field,) = fields(1, config=CNNConfig(init=0.3))
    batch = random_batch(40, [20] * 30)
    engine = Engine([field])
    exact = engine.log_prob(batch)
    assert engine.use_bf16(anyway=True)
    rounded = engine.log_prob(batch)
    error, spread = (rounded - exact).std(), exact.std()
    assert 0 < error < 0.02 * spread
    cnn(field).score_in_bf16 = False
    assert torch.equal(engine.log_prob(batch), exact)
