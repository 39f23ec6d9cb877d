"""A grown LSTM gives the probabilities of the small one, and its new units learn; in runs, by --init."""

from dataclasses import replace

import pytest
import torch
from commands import TINY_LSTM, TINY_TEXT, metrics, tiny_recipe, trf

import trflm
from trflm.errors import InputError
from trflm.experiment.store import given_by
from trflm.files.tensors import load_state
from trflm.lms.lstm import LSTM, LSTMConfig, Preserve, grown, streams, train_step, windows
from trflm.text import Vocab

VOCAB = Vocab(["<unk>", *"abcdef"])
SENTENCES = ["a b c", "a b d", "a", "f f f f f f f", "a b c d e", "zebra a", "e d c b a"]
SIZES = {  # (embedding, hidden) of the small one and of the large one
    "tied": ((6, 6), (11, 11)),
    "untied": ((6, 6), (11, 11)),
    "embedding alone": ((4, 7), (9, 7)),
    "hidden alone": ((7, 4), (7, 13)),
    "unlike sizes become alike": ((3, 5), (8, 8)),
    "alike sizes become unlike": ((5, 5), (7, 12)),
}


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def small_and_fresh(sizes: str, layers: int) -> tuple[LSTM, LSTM]:
    """Large numbers, so that a unit in a wrong place is seen."""
    config = LSTMConfig(layers=layers, tied=sizes == "tied", init=0.8)
    configs = (replace(config, embedding=embedding, hidden=hidden) for embedding, hidden in SIZES[sizes])
    small, fresh = (LSTM(VOCAB, config, seeded(seed)).double() for seed, config in enumerate(configs))
    return small, fresh


def large_of(sizes: str, layers: int = 2) -> tuple[LSTM, LSTM]:
    small, large = small_and_fresh(sizes, layers)
    large.load_state_dict(grown(small.state_dict(), large))
    return small, large


@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("sizes", SIZES)
def test_a_grown_lstm_gives_the_probabilities_of_the_small_one(sizes: str, layers: int) -> None:
    """In float64, whose sums of some ten terms agree to 1e-13."""
    small, large = large_of(sizes, layers)
    for a, b in ((small, large), (Preserve(small), Preserve(large))):
        torch.testing.assert_close(a.explain(SENTENCES).word_N, b.explain(SENTENCES).word_N, rtol=0, atol=1e-12)
        torch.testing.assert_close(a.explain(SENTENCES).rest_B, b.explain(SENTENCES).rest_B, rtol=0, atol=1e-12)
    assert large.n_parameters() > small.n_parameters()


@pytest.mark.parametrize("sizes", SIZES)
def test_new_units_are_random_and_differ(sizes: str) -> None:
    """What leads into them is what the fresh model had."""
    small, fresh = small_and_fresh(sizes, 2)
    state, n_old, n_new = grown(small.state_dict(), fresh), small.config.hidden, fresh.config.hidden
    for name, value in fresh.state_dict().items():
        if name.startswith("layers."):
            for block, fresh_block in zip(state[name].split(n_new), value.split(n_new), strict=True):
                assert torch.equal(block[n_old:], fresh_block[n_old:])
    new_embedding = (state["embedding.weight"] - fresh.embedding.weight)[:, small.config.embedding :]
    assert sizes == "tied" or not new_embedding.any()


@pytest.mark.parametrize("sizes", SIZES)
def test_every_new_number_learns_by_the_second_step(sizes: str) -> None:
    """In float64, where the first changes of what is 0 are not lost."""
    _, large = large_of(sizes)
    before = {name: value.clone() for name, value in large.state_dict().items()}
    symbol_TS = streams(VOCAB.batch(SENTENCES * 9), large.end, 4)
    optimizer, state = torch.optim.SGD(large.parameters(), lr=0.1), large.zero_state(4)
    for window in list(windows(symbol_TS, 9))[:2]:
        state, _ = train_step(large, optimizer, window, state, seeded(1), clip=1.0)
    for name, value in large.state_dict().items():
        assert bool((value != before[name]).all()), name


@pytest.mark.parametrize("tied", [False, True])
def test_one_as_large_is_taken_as_it_is(tied: bool) -> None:
    small, fresh = (LSTM(VOCAB, LSTMConfig(6, 6, 2, tied=tied), seeded(seed)) for seed in (1, 2))
    state = grown(small.state_dict(), fresh)
    assert all(torch.equal(state[name], value) for name, value in small.state_dict().items())
    assert list(state) == list(small.state_dict())


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (LSTMConfig(9, 8), "it has embedding = 9, hidden = 8, layers = 2, tied = false, [model] has embedding = 8, hidden = 8"),
        (LSTMConfig(8, 9), "it has embedding = 8, hidden = 9"),
        (LSTMConfig(4, 4, 3), "hidden = 4, layers = 3, tied = false, [model]"),
        (LSTMConfig(4, 4, 1), "hidden = 4, layers = 1, tied = false, [model]"),
        (LSTMConfig(4, 4, 2, tied=True), "hidden = 4, layers = 2, tied = true, [model]"),
    ],
)
def test_one_that_does_not_fit_is_refused(config: LSTMConfig, said: str) -> None:
    small, fresh = (LSTM(VOCAB, c, seeded(1)) for c in (config, LSTMConfig(8, 8, 2)))
    with pytest.raises(InputError) as error:
        grown(small.state_dict(), fresh)
    assert said in str(error.value)
    assert "start from an LSTM with the same layers and tied, and no larger embedding and hidden" in str(error.value)


def test_one_whose_parts_do_not_fit_together_is_refused() -> None:
    small, fresh = (LSTM(VOCAB, LSTMConfig(size, size, 2), seeded(1)) for size in (4, 8))
    state = small.state_dict()
    for wrong in ({"output_bias": torch.zeros(3)}, {"layers.1.weight_ih_l0": torch.zeros(16, 3)}, {"more": torch.zeros(1)}):
        with pytest.raises(RuntimeError):
            grown(state | wrong, fresh)
    for wrong in ({}, {"embedding.weight": 3}, {"layers.0.weight_hh_l0": torch.zeros(4)}):
        with pytest.raises(InputError):
            grown({**state, **wrong} if wrong else {}, fresh)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory):
    directory = tmp_path_factory.mktemp("grown")
    trained = trf("train", tiny_recipe(directory, TINY_LSTM), "--quiet", "--set", "run.epochs=5", "--out", directory / "small")
    assert trained.returncode == 0, trained.stderr
    return directory


LARGER = ("--set", "model.embedding=9", "--set", "model.hidden=10")


@pytest.mark.parametrize("more", [(), ("--set", "run.shards=2")])
def test_a_run_starts_from_a_smaller_one_and_goes_on_without_it(runs, tmp_path, more) -> None:
    """A step this small leaves the probabilities where they were; a run that goes on never asks for the other again."""
    small, recipe = runs / "small", tiny_recipe(tmp_path, TINY_LSTM)
    train = ("train", recipe, "--quiet", *LARGER, *more, "--set", "learner.lr=1e-9", "--set", "run.seed=2")
    for name, epochs in (("whole", 2), ("part", 1)):
        done = trf(*train, "--set", f"run.epochs={epochs}", "--init", small, "--out", tmp_path / name)
        assert done.returncode == 0, done.stderr
    before, after = (trflm.load(path).log_prob(TINY_TEXT.splitlines()) for path in (small, tmp_path / "part"))
    torch.testing.assert_close(before, after, rtol=0, atol=1e-4)
    config = tmp_path / "part" / "config.json"
    config.write_text(config.read_text().replace(str(small), str(tmp_path / "gone")))
    done = trf("train", "--resume", tmp_path / "part", "--quiet", "--set", "run.epochs=2")
    assert done.returncode == 0, done.stderr
    files = [tmp_path / name / "model.safetensors" for name in ("whole", "part")]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert metrics(tmp_path / "whole") == metrics(tmp_path / "part")


def test_a_run_from_one_as_large_takes_over_its_bits(runs, tmp_path) -> None:
    from trflm.experiment.recipe import LSTMRecipe, read_recipe

    recipe = read_recipe(tiny_recipe(tmp_path, TINY_LSTM), [f"run.init={runs / 'small'}"])
    assert isinstance(recipe, LSTMRecipe)
    lstm = recipe.build(recipe.data.read(), fresh=True).model
    assert isinstance(lstm, LSTM)
    given = load_state(runs / "small" / "model.safetensors")[0]["lstm"]
    assert all(torch.equal(value, given[name]) for name, value in lstm.state_dict().items())
    assert given_by(runs / "small", lstm.vocab).state.keys() == {"lstm"}


def test_a_run_from_a_larger_one_says_what_to_do(runs, tmp_path) -> None:
    recipe = tiny_recipe(tmp_path, TINY_LSTM)
    done = trf("train", recipe, "--set", "model.hidden=5", "--init", runs / "small", "--out", tmp_path / "run", "--quiet")
    assert done.returncode == 2
    file = runs / "small" / "model.safetensors"
    assert f"{file}: does not fit the [model] of this recipe: it has embedding = 6, hidden = 6" in done.stderr
    assert "start from an LSTM with the same layers" in done.stderr
