"""A step cut into shards, so that several processes can share it and the result does not depend on how many they are.

The recipe fixes S shards (run.shards). Shard s has its slice of the batch, its share of the chains and its own randomness, a
function of (seed, step, s). A process computes the shards that are its own, one after another. Gradients are added up along one
binary tree over the shards,

    g(a, b) = g(a, m) + g(m, b),   m = (a + b) // 2,   g(s, s + 1) = the gradient of shard s

whoever computes which node: floating-point sums depend on their order, and this one is always the same. So 1, 2, 4, ...
processes come to the same parameters, bit for bit (of one kind of CPU, with one number of threads). With run.exact = false a
process adds up its own nodes and the backend the rest, in an order that depends on the number of processes.

One shard is the step as a whole: the randomness and the arithmetic of a learner that knows nothing of shards.

Shapes: S shards, P parameters in all, R nodes.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import torch
from torch import Tensor

from trflm.errors import InputError
from trflm.learning.loop import Metrics
from trflm.seeds import generator
from trflm.speed.workers import ALONE, Workers

T = TypeVar("T")
Node = tuple[int, int]  # the shards from a up to, not including, b


class Keeps(Protocol):
    """A potential, or a table that keeps what was computed before."""

    def forget(self) -> None: ...


@dataclass(frozen=True)
class Shard:
    """One of `count` equal parts of a step."""

    number: int
    count: int
    rng: torch.Generator

    def span(self, n: int) -> range:
        """Which of n things are its own."""
        return range(n * self.number // self.count, n * (self.number + 1) // self.count)

    def of(self, things: Tensor) -> Tensor:
        """Its slice of a row of things."""
        span = self.span(len(things))
        return things[span.start : span.stop]

    def begin(self, *kept: Keeps) -> None:
        """What these have kept of other shards is to leave no trace: another process may have had none of it."""
        if self.count > 1:
            for one in kept:
                one.forget()

    def generator(self, seed: int, stream: str, number: int) -> torch.Generator:
        """Randomness that several steps share."""
        return generator(seed, stream, number) if self.count == 1 else generator(seed, stream, number, self.number)


@dataclass(frozen=True)
class Part:
    """What a shard has to say of a step: a mean loss, over how much, and what a person wants to see of it, means as well."""

    loss: Tensor
    weight: float
    metrics: Metrics


class Shards:
    """Those of a step; the ones of this process are computed by it."""

    def __init__(self, count: int = 1, workers: Workers = ALONE, exact: bool = True) -> None:
        if workers.size > count:
            raise InputError(
                f"{workers.size} processes, but run.shards = {count}: a process needs a shard at least; start at most {count} "
                "processes, or a new run with --set run.shards=N"
            )
        self.count, self.workers, self.exact = count, workers, exact

    def check_divides(self, n: int, key: str) -> None:
        """Every shard needs something to do."""
        if n < self.count:
            raise InputError(f"{key} = {n} cannot be cut into run.shards = {self.count} shards; raise it, or set fewer shards")

    def of_rank(self, rank: int) -> range:
        return range(self.count * rank // self.workers.size, self.count * (rank + 1) // self.workers.size)

    def own(self, rng: torch.Generator) -> list[Shard]:
        """The shards of this process, each with its own randomness, which follows from that of the step."""
        if self.count == 1:
            return [Shard(0, 1, rng)]
        seeds = torch.randint(2**62, (self.count,), generator=rng).tolist()
        return [Shard(s, self.count, torch.Generator().manual_seed(seeds[s])) for s in self.of_rank(self.workers.rank)]

    def map(self, rng: torch.Generator, work: Callable[[Shard], T]) -> list[T]:
        """[S] what every shard comes to, whoever computed it. Small things."""
        return self.workers.all_of([work(shard) for shard in self.own(rng)])

    def mean_gradient(self, parameters: Sequence[Tensor], rng: torch.Generator, part_of: Callable[[Shard], Part]) -> Metrics:
        """Gives each parameter the gradient of the mean loss, sum_s w_s loss_s / sum_s w_s; the means of the metrics."""
        parameters = [parameter for parameter in parameters if parameter.requires_grad]
        if self.count == 1:
            part = part_of(self.own(rng)[0])
            descend(parameters, part.loss)
            return part.metrics
        rows: list[tuple[float, Metrics]] = []

        def gradient_of(shard: Shard) -> "Gradient":
            part = part_of(shard)
            rows.append((part.weight, part.metrics))
            return Gradient.of(parameters, part.loss * part.weight)

        total = self._sum(rng, gradient_of)
        every = self.workers.all_of(rows)
        total.scaled(1 / sum(weight for weight, _ in every)).give(parameters)
        return mean(every)

    def mean_metrics(self, rng: torch.Generator, part_of: Callable[[Shard], Part]) -> Metrics:
        """The means of the metrics alone."""
        with torch.no_grad():
            parts = [part_of(shard) for shard in self.own(rng)]
        return mean(self.workers.all_of([(part.weight, part.metrics) for part in parts]))

    def sum_gradient(
        self, parameters: Sequence[Tensor], rng: torch.Generator, loss_of: Callable[[Shard], tuple[Tensor, T]]
    ) -> list[T]:
        """Gives each parameter the gradient of sum_s loss_s; [S] what else every shard comes to, as in `map`."""
        parameters = [parameter for parameter in parameters if parameter.requires_grad]
        if self.count == 1:
            loss, result = loss_of(self.own(rng)[0])
            descend(parameters, loss)
            return [result]
        results: list[T] = []

        def gradient_of(shard: Shard) -> "Gradient":
            loss, result = loss_of(shard)
            results.append(result)
            return Gradient.of(parameters, loss)

        self._sum(rng, gradient_of).give(parameters)
        return self.workers.all_of(results)

    def _sum(self, rng: torch.Generator, gradient_of: Callable[[Shard], "Gradient"]) -> "Total":
        shards = {shard.number: shard for shard in self.own(rng)}
        whole, sparse = (0, self.count), []

        def node(low: int, high: int) -> list[Tensor]:
            """Of shards of this process."""
            if high - low == 1:
                gradient = gradient_of(shards[low])
                sparse.append(gradient.sparse)
                return gradient.dense
            middle = (low + high) // 2
            left, right = node(low, middle), node(middle, high)
            if middle - low == 1:  # what autograd gives may share memory: it is not written over
                return [one + other for one, other in zip(left, right, strict=True)]
            return [one.add_(other) for one, other in zip(left, right, strict=True)]

        nodes = [list(cover(whole, self.of_rank(rank))) for rank in range(self.workers.size)]
        own_RP = [vectors_of(node(*one), self.workers.size) for one in nodes[self.workers.rank]]
        if self.exact:
            every = [one for of_rank in nodes for one in of_rank]
            counts = [len(of_rank) for of_rank in nodes]
            dense = [
                self.workers.sum_rows(rows_nP, counts, lambda at: fold(whole, dict(zip(every, at, strict=True))))
                for rows_nP in zip(*own_RP, strict=True)
            ]
        else:
            dense = [self.workers.add(torch.stack(rows_nP).sum(0)) for rows_nP in zip(*own_RP, strict=True)]
        return Total(dense, concatenated(self.workers.all_of(sparse) if any(sparse) else []))


WHOLE = Shards()  # a step that is not cut


def cover(node: Node, own: range) -> Iterator[Node]:
    """The largest nodes of the tree that lie in a process's shards, from left to right."""
    low, high = node
    if own.start <= low and high <= own.stop:
        yield node
    elif low < own.stop and own.start < high:
        middle = (low + high) // 2
        yield from cover((low, middle), own)
        yield from cover((middle, high), own)


def fold(node: Node, rows: dict[Node, Tensor]) -> Tensor:
    """The sum of a node from those that are known."""
    if node in rows:
        return rows[node]
    low, high = node
    middle = (low + high) // 2
    return fold((low, middle), rows) + fold((middle, high), rows)


def mean(every: Sequence[tuple[float, Metrics]]) -> Metrics:
    """Of weighted metrics."""
    if len(every) == 1:
        return every[0][1]
    total = sum(weight for weight, _ in every)
    return {name: sum(weight * metrics[name] for weight, metrics in every) / total for name in every[0][1]}


def descend(parameters: Sequence[Tensor], loss: Tensor) -> None:
    for parameter in parameters:
        parameter.grad = None
    loss.backward()


Rows = dict[int, tuple[Tensor, Tensor]]  # number of a parameter -> (rows, values) of its sparse gradient


@dataclass(frozen=True)
class Gradient:
    """Of one shard. `dense`: of each parameter that has no sparse one, zeros where the loss does not see it."""

    dense: list[Tensor]
    sparse: Rows

    @classmethod
    def of(cls, parameters: Sequence[Tensor], loss: Tensor) -> "Gradient":
        dense: list[Tensor] = []
        sparse: Rows = {}
        for number, grad in enumerate(torch.autograd.grad(loss, parameters, allow_unused=True)):
            if grad is not None and grad.is_sparse:
                grad = grad.coalesce()
                sparse[number] = grad.indices(), grad.values()
            else:
                dense.append(torch.zeros_like(parameters[number]) if grad is None else grad)
        return cls(dense, sparse)


def vectors_of(dense: Sequence[Tensor], multiple: int) -> list[Tensor]:
    """One vector for each type of numbers, with zeros at the end up to a multiple of so many."""
    vectors = []
    for dtype in types_of(dense):
        parts = [one.flatten() for one in dense if one.dtype == dtype]
        missing = -sum(map(len, parts)) % multiple
        vectors.append(torch.cat([*parts, parts[0].new_zeros(missing)]))
    return vectors


def types_of(tensors: Sequence[Tensor]) -> list[torch.dtype]:
    return sorted({tensor.dtype for tensor in tensors}, key=str)


@dataclass(frozen=True)
class Total:
    """The gradient of all shards: `dense` as `vectors_of` has it."""

    dense: list[Tensor]
    sparse: Rows

    def scaled(self, factor: float) -> "Total":
        for vector in (*self.dense, *(values for _, values in self.sparse.values())):
            vector.mul_(factor)
        return self

    def give(self, parameters: Sequence[Tensor]) -> None:
        """Each parameter its own part."""
        dense = [parameter for number, parameter in enumerate(parameters) if number not in self.sparse]
        for dtype, vector in zip(types_of(dense), self.dense, strict=True):
            some, start = [parameter for parameter in dense if parameter.dtype == dtype], 0
            for parameter in some:
                parameter.grad = vector[start : start + parameter.numel()].view_as(parameter)
                start += parameter.numel()
        for number, (index, values) in self.sparse.items():
            shape = parameters[number].shape
            parameters[number].grad = torch.sparse_coo_tensor(index, values, shape, check_invariants=False).coalesce()


def concatenated(every: Sequence[Rows]) -> Rows:
    """The rows of all shards in their order; who makes a gradient of them adds up those of one number."""
    return {
        number: (torch.cat([rows[number][0] for rows in every], 1), torch.cat([rows[number][1] for rows in every]))
        for number in (every[0] if every else {})
    }
