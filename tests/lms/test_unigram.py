import torch
from harness import check_language_model, check_proposal, random_pi, tiny_vocab

from trflm.lms.unigram import Unigram

UNIGRAM = Unigram(tiny_vocab(3), random_pi(4), torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64).log())


def test_is_a_language_model():
    check_language_model(UNIGRAM, 4)


def test_is_a_proposal():
    check_proposal(UNIGRAM, 3, 4)


def test_sentences_by_a_seed():
    assert [len(sentence.split()) for sentence in UNIGRAM.sample(3, seed=1, length=6)] == [6] * 3
    assert UNIGRAM.sample(20, seed=1) == UNIGRAM.sample(20, seed=1) != UNIGRAM.sample(20, seed=2)
