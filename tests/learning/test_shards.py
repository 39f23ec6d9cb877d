"""A step cut into shards comes to the same parameters, bit for bit, by however many processes it is computed."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from harness import rng, same_state
from tiny_learners import KINDS, recipe_of
from torch import nn
from worlds import in_world

from trflm.errors import InputError
from trflm.learning.shards import Part, Shard, Shards, cover, fold
from trflm.seeds import generator
from trflm.speed.workers import Workers, workers

pytestmark = pytest.mark.filterwarnings("ignore:the .-grams of this text")
SHARDS, STEPS, HALF = 8, 3, 1

# What is not cut evenly by 8 is more likely to show a mistake.
MORE: dict[str, dict[str, Any]] = {
    **{kind: {"batch": 11} for kind in KINDS},
    "augsa": {"batch": 11, "chains": 9},
    "sgd": {"streams": 9},
    "adam": {"streams": 9},
}
OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "augsa with all options": (
        "augsa",
        {
            "batch": 11, "chains": 9, "weigh_trials": True, "expected_lengths": True, "zeta_follows": True, "average": 0.5,
            "balance_lengths": True, "data_proposal": 0.3, "adam_proposal": True,
        },
    ),
    "dnce with replacements": ("dnce", {"batch": 9, "replacements": 2, "alpha": 0.7}),
    "distil by differences": ("distil", {"batch": 9, "loss": "differences"}),
    "distil from drawn sentences": ("distil", {"batch": 0, "drawn": 9}),
}  # fmt: skip
SOME = ("augsa with all options", "nce", "cloze", "word-choice", "sgd")  # one of each way to use shards
CASES = {**{kind: (kind, MORE[kind]) for kind in KINDS}, **OPTIONS}


@pytest.fixture(scope="module")
def learners(tmp_path_factory):
    """(learner, dev text) of every case, at its start."""
    built = {}
    with pytest.MonkeyPatch.context() as patch:
        for name, (kind, keys) in CASES.items():
            directory = tmp_path_factory.mktemp("learner")
            patch.setenv("XDG_CACHE_HOME", str(directory))
            recipe = recipe_of(kind, directory, **keys)
            data = recipe.data.read()
            assert data.dev is not None
            built[name] = recipe.build(data, fresh=True), data.dev.sentences.long()
    return built


@pytest.fixture(scope="module")
def alone(learners):
    """What one process comes to: by name the states before and after each step, and the metrics of the steps."""
    starts = {name: copy.deepcopy(learner.state_dict()) for name, (learner, _) in learners.items()}
    found = trained(learners, starts)
    for name, start in starts.items():
        found[name][0][0] = start
    return found


def trained(learners, starts: dict[str, Any], first: int = 0, exact: bool = True):
    """Train each learner from a step on, in as many processes as torchrun's variables say; as in a run, the first process alone
    looks at dev text and makes checkpoints, which must leave no trace."""
    found = {}
    with workers("cpu") as team:
        for name, start in starts.items():
            learner, dev = learners[name]
            learner.shards, states, metrics = Shards(SHARDS, team, exact), {}, []
            learner.load_state_dict(copy.deepcopy(start))
            for number in range(first, STEPS):
                metrics.append(learner.step(number, generator(7, "step", number)))
                if team.first:
                    learner.evaluate(dev)
                if team.first or number == STEPS - 1:
                    states[number + 1] = copy.deepcopy(learner.state_dict())
            found[name] = states, metrics
    return found


@pytest.mark.parametrize(("size", "cases"), [(2, CASES), (4, CASES), (3, SOME)], ids=["2", "4", "3"])
def test_any_number_of_processes_comes_to_the_same_parameters_to_the_bit(size, cases, learners, alone, tmp_path):
    starts = {name: alone[name][0][0] for name in cases}
    for rank, found in enumerate(in_world(size, lambda rank: trained(learners, starts), tmp_path)):
        for name, (states, metrics) in found.items():
            expected_states, expected_metrics = alone[name]
            assert same_state(parameters(states[STEPS]), parameters(expected_states[STEPS])), (name, rank)
            if rank == 0:
                assert metrics == expected_metrics, name
                assert same_state(states[STEPS], expected_states[STEPS]), name


def parameters(state: dict[str, Any]) -> dict[str, Any]:
    """What every process has: the rest (zeta of learners that do not learn it, what dev text showed) is for the first alone."""
    of_first = ("trf", "mean", "log_Z1", "zeta_before")
    kept = {key: value for key, value in state.items() if key not in of_first}
    potential = {key: value for key, value in state.get("trf", {}).items() if key.startswith("potential.")}
    return {**kept, **{key: value for key, value in potential.items() if not key.endswith((".share", ".factor"))}}


def test_a_checkpoint_of_one_process_is_continued_by_two_and_the_other_way_round(learners, alone, tmp_path):
    starts = {name: alone[name][0][HALF] for name in SOME}
    found, _ = in_world(2, lambda rank: trained(learners, starts, HALF), tmp_path)
    for name in SOME:
        assert same_state(found[name][0][STEPS], alone[name][0][STEPS]), name
    again = trained(learners, {name: found[name][0][HALF + 1] for name in SOME}, HALF + 1)
    for name in SOME:
        assert same_state(again[name][0][STEPS], alone[name][0][STEPS]), name


def test_without_exact_three_processes_come_to_the_same_up_to_rounding_and_to_the_bit_when_repeated(learners, alone, tmp_path):
    some = {name: alone[name][0][0] for name in SOME[1:]}
    first, again = (in_world(3, lambda rank: trained(learners, some, exact=False), tmp_path)[0] for _ in range(2))
    for name in some:
        assert same_state(first[name][0][STEPS], again[name][0][STEPS]), name
        for one, other in zip(first[name][1], alone[name][1], strict=True):
            assert one == pytest.approx(other, rel=1e-3, abs=1e-5), name
    assert any(not same_state(first[name][0][STEPS], alone[name][0][STEPS]) for name in some)


# The sum itself.


def test_a_mean_over_shards_is_the_mean_over_all():
    """The gradient of a mean over things of which shards have different numbers, sparse rows among them, in float64."""
    weight, table = nn.Parameter(torch.randn(5, generator=rng(1)).double()), nn.Parameter(torch.zeros(7, 2).double())
    x_BK = torch.randn(21, 5, generator=rng(2)).double()
    rows_B = torch.randint(7, (21,), generator=rng(3))

    def loss_of(index: torch.Tensor) -> torch.Tensor:
        looked_up = nn.functional.embedding(rows_B[index], table, sparse=True).sum(1)
        return (torch.sin(x_BK[index] @ weight) + looked_up * index).mean()

    expected = torch.autograd.grad(loss_of(torch.arange(21)), (weight, table))

    def part_of(shard: Shard) -> Part:
        index = shard.of(torch.arange(21))
        return Part(loss_of(index), len(index), {"mean": float(index.double().mean())})

    for count in (1, 2, 8):
        metrics = Shards(count).mean_gradient([weight, table], rng(4), part_of)
        assert metrics["mean"] == pytest.approx(10.0)
        for parameter, gradient in zip((weight, table), expected, strict=True):
            assert parameter.grad is not None
            torch.testing.assert_close(parameter.grad.to_dense(), gradient.to_dense(), rtol=1e-12, atol=1e-12)


def test_parameters_that_share_a_gradient_have_their_own_sums():
    """Autograd gives one tensor for both; a parameter that the loss does not see has zeros."""
    one, other, unseen = (nn.Parameter(torch.zeros(3)) for _ in range(3))

    def loss_of(shard: Shard) -> tuple[torch.Tensor, int]:
        return ((one + other) * (2.0**shard.number)).sum(), shard.number

    for count in (2, 3, 8):
        assert Shards(count).sum_gradient([one, other, unseen], rng(), loss_of) == list(range(count))
        for parameter, expected in ((one, 2.0**count - 1), (other, 2.0**count - 1), (unseen, 0.0)):
            assert parameter.grad is not None
            assert parameter.grad.tolist() == [expected] * 3


def test_one_shard_is_the_step_as_a_whole():
    """The generator of the step itself, nothing drawn from it before, nothing forgotten, autograd's own gradient."""
    weight = nn.Parameter(torch.randn(9, generator=rng(1)))
    draw = rng(5)

    def loss_of(shard: Shard) -> tuple[torch.Tensor, int]:
        assert shard.rng is draw
        assert shard.span(100) == range(100)
        shard.begin(Unforgettable())
        return (weight * torch.randn(9, generator=shard.rng)).sigmoid().sum(), 3

    assert Shards(1).sum_gradient([weight], draw, loss_of) == [3]
    expected = torch.autograd.grad((weight * torch.randn(9, generator=rng(5))).sigmoid().sum(), weight)[0]
    assert weight.grad is not None
    assert torch.equal(weight.grad, expected)
    pool = Shard(0, 1, draw).generator(3, "noise", 4)
    assert torch.equal(torch.rand(5, generator=pool), torch.rand(5, generator=generator(3, "noise", 4)))


class Unforgettable:
    def forget(self) -> None:
        raise AssertionError("asked to forget")


def test_shards_have_randomness_of_their_own():
    drawn = Shards(8).map(rng(1), lambda shard: float(torch.rand(1, generator=shard.rng)))
    assert len(set(drawn)) == 8
    pools = {float(torch.rand(1, generator=Shard(s, 8, rng()).generator(3, "noise", 4))) for s in range(8)}
    assert len(pools) == 8


@pytest.mark.parametrize("count", [1, 2, 5, 8, 13])
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
def test_the_nodes_of_all_processes_are_the_shards_once_each_and_fold_to_the_same_sum(count, size):
    if size > count:
        with pytest.raises(InputError, match=rf"{size} processes, but run.shards = {count}.*at most {count}"):
            Shards(count, Workers(0, size))
        return
    row = {(s, s + 1): torch.randn(3, generator=rng(s)) for s in range(count)}
    expected = fold((0, count), row)
    nodes = [node for rank in range(size) for node in cover((0, count), Shards(count, Workers(rank, size)).of_rank(rank))]
    assert [s for low, high in nodes for s in range(low, high)] == list(range(count))
    assert torch.equal(fold((0, count), {node: fold(node, row) for node in nodes}), expected)
    assert all(len(list(Shard(s, count, rng()).span(100))) in (100 // count, 100 // count + 1) for s in range(count))


@pytest.mark.parametrize(("kind", "key"), [("nce", "batch"), ("augsa", "chains"), ("sgd", "streams"), ("distil", "drawn")])
def test_what_cannot_be_cut_is_said(kind, key, tmp_path: Path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    recipe = recipe_of(kind, tmp_path, **{"batch": 20, key: 3} if kind != "sgd" else {key: 3})
    with pytest.raises(InputError, match=rf"learner.{key} = 3 cannot be cut into run.shards = 8 shards"):
        recipe.build(recipe.data.read(), fresh=True, shards=Shards(8))
