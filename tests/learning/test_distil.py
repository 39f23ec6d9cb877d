"""Distillation: copies that are wrong in a few places, and a student that comes to see the differences its teacher sees."""

import numpy as np
import pytest
import torch
from harness import random_batch, rng, tiny_vocab

from trflm.field.trf import TRF
from trflm.learning.batches import ShuffledBatches
from trflm.learning.copies import Copies, CopiesConfig, Group
from trflm.learning.distil import Distil, DistilConfig, Teacher, listwise
from trflm.learning.loop import training
from trflm.learning.replacements import Replacements
from trflm.lms.ngram import KneserNeyConfig, kneser_ney
from trflm.lms.unigram import Unigram
from trflm.potentials.cnn.model import CNN, CNNConfig
from trflm.potentials.tilted import Tilted
from trflm.sampling.exact import all_sentences
from trflm.text import Batch, empirical_pi

pytestmark = pytest.mark.filterwarnings("ignore:the .-grams of this text")  # too small for Kneser-Ney discounts

V, M = 4, 3
VOCAB = tiny_vocab(V)
TINY = CNNConfig(embedding=4, projection=4, bank_width=2, bank_filters=6, stack_layers=1, stack_filters=6, init=0.6)
DATA = random_batch(V, [1, 2, 3, 3, 3, 2] * 50, seed=3)
PI = empirical_pi(DATA.lengths_B)


def field(seed: int) -> TRF:
    return TRF(VOCAB, CNN(TINY, V, rng(seed)).double(), PI)


def distil(student: TRF, teacher: Teacher, **settings: object) -> Distil:
    usual = {"teachers": ("one",), "batch": 40, "lr": 1e-2, "weight_decay": 0.0, "warm_up": 5, "clip": 100.0}
    config = DistilConfig(**{**usual, **settings})  # type: ignore[arg-type]
    replacements = Replacements.estimate(VOCAB, DATA, Unigram.estimate(VOCAB, DATA, PI))
    copies = Copies(DATA, V, M, config)
    return Distil(student, teacher, copies, replacements, ShuffledBatches(DATA, config.batch, seed=1), config)


def everything() -> Group:
    """All sentences, as copies of one."""
    batch = all_sentences(V, M)
    return Group(batch, 1, torch.zeros(len(batch) - 1, dtype=torch.int64))


@pytest.mark.parametrize("loss", ["differences", "listwise"])
def test_a_student_of_the_teachers_family_recovers_it(loss: str):
    """From another readout and another constant a word, in which the loss is convex: the difference between any two sentences
    of whatever lengths comes to be the teacher's, to a thousandth of a nat; before, it was off by more than half a nat."""
    teacher, student = field(1), field(1)
    teacher.zeta[1:] += 0.7 * torch.arange(M)
    with torch.no_grad():
        readout = student.potential.get_parameter("readout")  # type: ignore[attr-defined]
        readout.copy_(torch.randn(readout.shape, generator=rng(2), dtype=torch.float64))
    learner = distil(student, Teacher([teacher]), loss=loss, temperature=2.0, beta=50.0)
    group = everything()
    teacher_B = learner.teacher.score(group.batch)
    learned = [learner.descent.potential.get_parameter("readout"), learner.slope]
    bfgs = torch.optim.LBFGS(learned, max_iter=200, line_search_fn="strong_wolfe", tolerance_change=1e-14)
    before = group.centred(learner.student(group.batch, None).detach() - teacher_B).abs().max()

    def closure() -> torch.Tensor:
        bfgs.zero_grad()
        value, _ = learner.loss(group, teacher_B, learner.student(group.batch, None))
        value.backward()
        return value

    bfgs.step(closure)  # type: ignore[arg-type]
    after = group.centred(learner.student(group.batch, None).detach() - teacher_B).abs().max()
    assert float(before) > 0.5
    assert float(after) < 1e-3


@pytest.mark.parametrize("loss", ["words", "differences"])
def test_steps_bring_the_student_to_the_teacher(loss: str):
    """A student on a unigram reference, random at first, explains all but a twentieth of an n-gram teacher's differences on
    sentences of which it saw other copies."""
    ngram = kneser_ney(DATA, VOCAB, KneserNeyConfig(order=2))
    shape = CNNConfig(embedding=8, projection=8, bank_width=3, bank_filters=8, stack_layers=2, stack_filters=8, init=0.4)
    tilted = Tilted(CNN(shape, V, rng(4)), kneser_ney(DATA, VOCAB, KneserNeyConfig(order=1)))
    learner = distil(TRF(VOCAB, tilted, PI), Teacher([ngram]), loss=loss, constant_epochs=10, lr_epochs=20)
    before = learner.evaluate(DATA)
    for _ in training(learner, None, epochs=20, seed=1):
        pass
    after = learner.evaluate(DATA)
    assert before["dev_explained"] < 0.85
    assert after["dev_explained"] > 0.95
    assert after["dev_loss"] < before["dev_loss"] / 2
    learner.write_zeta()  # the field has what was learned of the lengths
    some = DATA.select((DATA.lengths_B > 1).nonzero().squeeze(1))
    with torch.no_grad():
        student_B = learner.trf.phi(some) + learner.norm(some)
    torch.testing.assert_close(learner.trf.log_prob(some), student_B)


def test_teachers_are_mixed_by_their_weights():
    one, two, batch = field(1), field(2), random_batch(V, [1, 2, 3])
    expected = 0.25 * one.log_prob(batch) + 0.5 * two.log_prob(batch)
    torch.testing.assert_close(Teacher([one, two], [0.25, 0.5]).score(batch), expected)
    torch.testing.assert_close(Teacher([one, two]).score(batch), (one.log_prob(batch) + two.log_prob(batch)) / 2)


def test_a_teacher_of_weight_0_is_not_asked():
    silent = kneser_ney(DATA, VOCAB, KneserNeyConfig(order=2))
    silent.explain = silent.log_prob = None  # type: ignore[assignment, method-assign]
    teacher, batch = Teacher([field(1), silent], [2.0, 0.0]), random_batch(V, [1, 2, 3])
    torch.testing.assert_close(teacher.score(batch), 2 * field(1).log_prob(batch))
    torch.testing.assert_close(batch.sum_words(teacher.word_scores(batch)), teacher.score(batch))


def test_words_add_up_to_sentences():
    """On both sides, the ends and log Z_l included: who agrees on the words agrees on the sentences."""
    reference = kneser_ney(DATA, VOCAB, KneserNeyConfig(order=1))
    tilted = Tilted(CNN(TINY, V, rng(3)).double(), reference)
    tilted.factor.fill_(0.6)
    teacher = Teacher([field(1), kneser_ney(DATA, VOCAB, KneserNeyConfig(order=2))], [0.3, 0.9])
    learner = distil(TRF(VOCAB, tilted, PI), teacher, share=0.4)
    assert float(tilted.share) == 0.4
    batch = random_batch(V, [1, 2, 3, 3])
    torch.testing.assert_close(batch.sum_words(teacher.word_scores(batch)), teacher.score(batch))
    torch.testing.assert_close(learner.student(batch, None).detach(), learner.trf.log_prob(batch))
    loss, explained = learner.word_loss(torch.tensor([0.0, 2.0, 4.0]), torch.tensor([0.0, 3.0, 8.0]))
    assert float(loss) == pytest.approx((0 + 0.25 + 3) / 3)  # beta 2: 1 / (2 * 2), and 4 - 2 / 2
    assert explained == pytest.approx(1 - (17 / 3) / (8 / 3))


def test_differences_by_hand():
    """Two groups of two: errors 1 and 4 between their members, so +-0.5 and +-2 from the middle; beta 1."""
    learner = distil(field(1), Teacher([field(2)]), loss="differences", beta=1.0)
    batch = random_batch(V, [2, 2, 2, 2])
    group = Group(batch, 2, torch.tensor([0, 1]))
    teacher_B, student_B = torch.tensor([1.0, 5.0, -1.0, 2.0]), torch.tensor([3.0, 5.0, 0.0, 6.0])
    loss, explained = learner.loss(group, teacher_B, student_B)
    assert float(loss) == pytest.approx((2 * 0.5 * 0.25 + 2 * 1.5) / 4)
    assert explained == pytest.approx(1 - (2 * 0.25 + 2 * 4) / (2 * 1 + 2 * 2.25))
    teacher_GK, student_GK = torch.tensor([[1.0, -1.0], [5.0, 2.0]]), torch.tensor([[3.0, 0.0], [5.0, 6.0]])
    p, q = teacher_GK.softmax(1), student_GK.softmax(1)
    torch.testing.assert_close(listwise(group, teacher_B, student_B), (p * (p / q).log()).sum(1).mean())


def text_of_pairs() -> Batch:
    """Words 1 and 2 always stand before 3; 0 ends a sentence."""
    return Batch(torch.tensor([1, 3, 0] * 50 + [2, 3, 0] * 50), torch.full((100,), 3))


def test_copies_are_edited_in_a_few_places():
    """Each is at most three edits from its source; a word put in or left out as often as asked."""
    config = CopiesConfig(copies=50, most_edits=1, insertions=0.3, deletions=0.2)
    batch = random_batch(V, [2, 3, 4, 4] * 25, seed=1)
    group = Copies(DATA, V, 6, config).of(batch, rng(3))
    assert group.n_sources == len(batch)
    assert VOCAB.sentences(group.batch)[: len(batch)] == VOCAB.sentences(batch)
    copies = group.batch.select(torch.arange(len(batch), len(group.batch)))
    longer = copies.lengths_B - batch.lengths_B[group.source_R]
    assert abs(float((longer == 1).double().mean()) - 0.3) < 0.03
    assert abs(float((longer == -1).double().mean()) - 0.2) < 0.03
    assert int(longer.abs().max()) == 1
    sources, edited = VOCAB.sentences(batch), VOCAB.sentences(copies)
    for source, text in zip(group.source_R.tolist(), edited, strict=True):
        assert distance(sources[source].split(), text.split()) <= 1


def distance(a: list[str], b: list[str]) -> int:
    """Levenshtein's."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


def test_no_copy_is_empty_or_too_long():
    config = CopiesConfig(copies=20, most_edits=3, insertions=0.5, deletions=0.5)
    group = Copies(DATA, V, M, config).of(random_batch(V, [1, 3] * 20), rng(5))
    assert int(group.batch.lengths_B.min()) >= 1
    assert int(group.batch.lengths_B.max()) <= M


def test_new_words_fit_their_neighbours():
    """Between the start and 3 the text has 1 and 2 only: chosen from many, hardly anything else is taken half of the time."""
    text = text_of_pairs()
    copies = Copies(text, V, 6, CopiesConfig(candidates=20))
    start, three = np.full(4000, V), np.full(4000, 3)
    share = np.bincount(copies.words_between(start, three, np.random.default_rng(0)), minlength=V) / 4000
    assert share[1] + share[2] > 0.85
    assert 0.02 < share[0] + share[3] < 0.15  # the first of the candidates is any word of the text in a fifth of the draws
    assert (copies.pairs(np.array([V, 1, 3, 0, 0, 2]), np.array([1, 3, 0, V, 1, 0])) == [50, 50, 100, 100, 0, 0]).all()


def test_a_step_is_a_function_of_its_generator():
    group = [Copies(DATA, V, M, CopiesConfig()).of(DATA, rng(9)) for _ in range(2)]
    assert torch.equal(group[0].batch.ids_N, group[1].batch.ids_N)
    other = Copies(DATA, V, M, CopiesConfig()).of(DATA, rng(10))
    assert VOCAB.sentences(other.batch) != VOCAB.sentences(group[0].batch)
