import pytest
import torch
from harness import random_batch, rng

from trflm.potentials.cnn.layers import half_offsets
from trflm.potentials.cnn.model import CNN, CNNConfig
from trflm.potentials.cnn.plain import plain_phi
from trflm.potentials.cnn.windows import Shape, WindowIndex, compiled_index, torch_index
from trflm.text import Batch

SHAPES = [Shape(10, 2, 3, 3), Shape(1, 1, 1, 1), Shape(4, 3, 2, 2), Shape(7, 2, 4, 1), Shape(5, 4, 3, 2)]


def similar_sentences(n: int, length: int, n_words: int, changes: int, seed: int = 0) -> Batch:
    """A sentence many times over, each time with some words replaced, and cut to a random length."""
    generator = rng(seed)
    words = torch.randint(n_words, (length,), generator=generator).repeat(n, 1)
    at = torch.randint(length, (n, changes), generator=generator)
    words.scatter_(1, at, torch.randint(n_words, (n, changes), generator=generator))
    lengths = torch.randint(1, length + 1, (n,), generator=generator)
    return Batch(words[torch.arange(length) < lengths[:, None]], lengths)


def windows_at(batch: Batch, reach: range) -> set[tuple[int, ...]]:
    """The distinct windows of these offsets, -1 beyond a sentence."""
    found = set()
    for ids in batch.ids_N.split(batch.lengths_B.tolist()):
        words = ids.tolist()
        for i in range(len(words)):
            found.add(tuple(words[i + o] if 0 <= i + o < len(words) else -1 for o in reach))
    return found


def widened(reach: range, width: int) -> range:
    more = half_offsets(width)
    return range(reach.start + more.start, reach.stop + more.stop - 1)


@pytest.mark.parametrize("shape", SHAPES)
def test_each_window_is_computed_once(shape):
    """The rows of every layer are its distinct windows, counted word by word; the bank may hold besides those around one place
    more of each sentence."""
    batch = similar_sentences(40, 25, 30, changes=3)
    rows = WindowIndex.of(batch, shape).rows
    pool = range(0)
    for k in range(1, shape.bank_width + 1):
        bank = half_offsets(k)
        pool = widened(bank, shape.pool_width)
        expected = len(windows_at(batch, bank))
        assert expected <= rows["bank"][k - 1] <= expected + len(batch) + 1
        assert rows["pool"][k - 1] == len(windows_at(batch, pool))
    for j in range(shape.stack_layers):
        pool = widened(pool, shape.stack_width)
        assert rows["stack"][j] == len(windows_at(batch, pool))


def cnn_of(shape: Shape) -> CNN:
    K, p, s, n = shape
    config = CNNConfig(
        4, 5, bank_width=K, bank_filters=3, pool_width=p, stack_layers=n, stack_width=s, stack_filters=4, init=0.5
    )
    return CNN(config, 30, rng()).double()


@pytest.mark.parametrize("shape", SHAPES)
def test_scores_are_those_of_plain_convolutions(shape, compiled):
    """float64: rounding alone differs (1e-12); a window mixed up with another differs in the first digits."""
    cnn = cnn_of(shape)
    for batch in (similar_sentences(60, 25, 30, changes=3), random_batch(30, [*range(1, 30), 1, 2, 1])):
        torch.testing.assert_close(cnn.score(batch), plain_phi(cnn, batch), rtol=1e-11, atol=1e-11)


@pytest.mark.usefixtures("numba")
@pytest.mark.parametrize("shape", SHAPES)
def test_compiled_loops_build_the_same_index(shape):
    """Number by number: both count in order of appearance."""
    for batch in (similar_sentences(60, 25, 30, changes=3), random_batch(30, [*range(1, 30), 1, 2, 1])):
        found, expected = compiled_index(batch, shape), torch_index(batch, shape)
        assert torch.equal(found.words_U, expected.words_U)
        assert torch.equal(found.top_N, expected.top_N)
        for layer, expected_layer in zip(tensors(found), tensors(expected), strict=True):
            assert layer.dtype == expected_layer.dtype == torch.int32
            assert torch.equal(layer, expected_layer)


def tensors(index: WindowIndex) -> list[torch.Tensor]:
    pool = [tensor for layer in index.pool for tensor in (layer.reads_pD, layer.widened_X)]
    return [*index.bank, *pool, *(x for layer in index.stack for x in (layer.reads_Ds, layer.widened_X))]


@pytest.mark.usefixtures("numba")
def test_stack_windows_beyond_64_bits_are_numbered_in_parts():
    """Three rows below 2^31: 93 bits. In 64 of them (0, b, c) and (4, b, c) would be one key. One sentence of 60 words made of
    four rows, so that most triples occur several times."""
    from trflm.speed.distinct_loops import number_stack

    row_N = torch.tensor([0, 4, 8, 7], dtype=torch.int32)[torch.randint(4, (60,), generator=rng())]
    first_N, end_N, number_N, place_N = (torch.full((60,), value, dtype=torch.int32) for value in (0, 60, 0, 0))
    first, end, like, number, place = (x.numpy() for x in (first_N, end_N, torch.arange(60), number_N, place_N))
    n = number_stack(row_N.numpy(), 2**31 - 1, first, end, like, -1, 3, number, place)
    padded = [-1, *row_N.tolist(), -1]
    triples = list(zip(padded, padded[1:], padded[2:], strict=False))
    assert n == len(set(triples))
    assert [triples[place_N[number]] for number in number_N.tolist()] == triples


def test_one_index_serves_all_models_of_a_shape_and_goes_with_the_batch():
    batch = random_batch(30, [5, 9, 2])
    index = WindowIndex.of(batch, SHAPES[0])
    assert WindowIndex.of(batch, SHAPES[0]) is index
    assert WindowIndex.of(batch, SHAPES[2]) is not index
    assert WindowIndex.of(Batch(batch.ids_N, batch.lengths_B), SHAPES[0]) is not index
