import torch
from harness import check_expected_gradient, check_potential, random_batch, random_pi, rng

from trflm.potentials.blstm import BLSTM, BLSTMConfig
from trflm.potentials.cnn.model import CNN, CNNConfig
from trflm.potentials.mixed import Mixed


def small(n_words: int, dropout: float = 0.0) -> Mixed:
    config = CNNConfig(4, 4, bank_width=3, bank_filters=3, stack_layers=2, stack_filters=4, init=0.5, dropout=dropout)
    cnn = CNN(config, n_words, rng(1))
    return Mixed([cnn, BLSTM(BLSTMConfig(embedding=5, units=4, init=0.5, dropout=dropout), n_words, rng(2))]).double()


def test_is_a_potential():
    check_potential(small(9), n_words=9, longest=14)


def test_expected_gradient():
    check_expected_gradient(small(3), 3, random_pi(3))


def test_is_the_sum_of_its_parts_with_and_without_dropout():
    mixed = small(9, dropout=0.5)
    batch = random_batch(9, [4, 1, 9])
    cnn, blstm = mixed.parts
    torch.testing.assert_close(mixed(batch), cnn(batch) + blstm(batch))
    torch.testing.assert_close(mixed.score(batch), cnn(batch) + blstm(batch))
    one, other = rng(3), rng(3)
    torch.testing.assert_close(mixed(batch, one), cnn(batch, other) + blstm(batch, other))


def test_forgets_what_its_parts_keep():
    mixed = small(9)
    mixed.score(random_batch(9, [5]))
    cnn = mixed.parts[0]
    assert isinstance(cnn, CNN)
    assert cnn.word_table.used > 0
    mixed.forget()
    assert cnn.word_table.used == 0
