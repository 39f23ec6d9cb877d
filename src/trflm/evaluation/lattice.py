"""Word lattices, and their exact distinct n-best lists.

A lattice is an acyclic graph of words with scores. The n best distinct word strings are found by A*: strings grow from the
start, the best first, where best is the score so far plus the best there is from here to the end. That is computed
backwards, so it is exact, and the first string that reaches the end is the best. Paths with the same words are one
string: it is the set of places it may be at, each with its best score, so that no string comes twice.

Because what lies ahead is known exactly, every string that waits will end with just the score it waits with, and no two of
them end alike. So the n-th best score of those that were ever left waiting is one that n strings reach: nothing below it is
kept, and of the arcs of a node, best first, only those down to it are looked at.
"""

import heapq
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from trflm.errors import InputError

SLACK = 1e-9  # of a score, for rounding: the same path summed in another order


class Arc(NamedTuple):
    """From node to node with a word ("" for none), an acoustic and a language model score, natural logs."""

    start: int
    end: int
    word: str
    acoustic: float = 0.0
    lm: float = 0.0


@dataclass
class Lattice:
    utterance: str
    arcs: list[Arc] = field(default_factory=list)
    start: int = 0
    finals: dict[int, tuple[float, float]] = field(default_factory=dict)  # node -> (acoustic, lm) of ending there

    def arcs_from(self) -> dict[int, list[Arc]]:
        """node -> the arcs that leave it."""
        out: dict[int, list[Arc]] = {}
        for arc in self.arcs:
            if arc.start in out:
                out[arc.start].append(arc)
            else:
                out[arc.start] = [arc]
        return out

    def has_lm(self) -> bool:
        """Whether any path has a language model score."""
        return any(arc.lm for arc in self.arcs) or any(lm for _, lm in self.finals.values())

    def in_order(self, out: dict[int, list[Arc]]) -> list[int]:
        """The nodes that can be reached, each before those its arcs lead to. A circle is an InputError."""
        order: list[int] = []
        done: dict[int, bool] = {self.start: False}  # False while on the way
        stack = [(self.start, iter(out.get(self.start, ())))]
        while stack:
            node, arcs = stack[-1]
            for arc in arcs:
                if arc.end not in done:
                    done[arc.end] = False
                    stack.append((arc.end, iter(out.get(arc.end, ()))))
                    break
                if not done[arc.end]:
                    raise InputError(f'lattice "{self.utterance}": node {arc.end} lies on a circle; lattices are acyclic')
            else:
                done[node] = True
                order.append(node)
                stack.pop()
        return order[::-1]


@dataclass(frozen=True)
class Sentence:
    """A word string with the scores of its best path."""

    words: tuple[str, ...]
    acoustic: float
    lm: float


class Step(NamedTuple):
    """From a node over arcs without words to the end of one with a word, or without one to the end of the lattice."""

    reach: float  # score of these arcs and of the best way on to the end
    place: int  # the word and where it ends, as a number; END
    score: float
    acoustic: float
    lm: float


END = 0  # the place of a string that has ended
Spelling = tuple["Spelling", str] | None  # a string: what stands before its last word, and that word
Way = tuple[float, float, float]  # score, acoustic, lm of the best path with some words to some place


class _Search:
    """The steps from each node, made when it is first asked for, under one weighting of the scores."""

    def __init__(self, lattice: Lattice, lm_scale: float, word_penalty: float) -> None:
        self.lm_scale, self.word_penalty = lm_scale, word_penalty
        self.finals, self.out = lattice.finals, lattice.arcs_from()
        self.ahead = self._best_to_end(lattice)
        self.numbers: dict[tuple[str, int], int] = {}  # (word, node) -> place
        self.places: list[tuple[str, int]] = [
            ("", lattice.start)
        ]  # its inverse; END has no node, the first string begins there
        self.steps: dict[int, list[Step]] = {}

    def _best_to_end(self, lattice: Lattice) -> dict[int, float]:
        """node -> the best score from it to an end; nodes without a way there are not in it."""
        best: dict[int, float] = {}
        lm_scale, word_penalty = self.lm_scale, self.word_penalty
        for node in reversed(lattice.in_order(self.out)):
            top = -math.inf
            if node in self.finals:
                acoustic, lm = self.finals[node]
                top = acoustic + lm_scale * lm
            for _, end, word, acoustic, lm in self.out.get(node, ()):
                if end in best:
                    value = acoustic + lm_scale * lm + best[end]
                    if word:
                        value += word_penalty
                    if value > top:
                        top = value
            if top > -math.inf:
                best[node] = top
        return best

    def steps_from(self, node: int) -> list[Step]:
        """Best first."""
        if node not in self.steps:
            self.steps[node] = self._steps(node)
        return self.steps[node]

    def _steps(self, node: int) -> list[Step]:
        best: dict[int, Step] = {}
        for at, (so_far, acoustic, lm) in self._silent_ways(node).items():
            if at in self.finals:
                more, more_lm = self.finals[at]
                total = so_far + more + self.lm_scale * more_lm
                if END not in best or total > best[END].score:
                    best[END] = Step(total, END, total, acoustic + more, lm + more_lm)
            for _, end, word, more, more_lm in self.out.get(at, ()):
                if word and end in self.ahead:
                    total = so_far + more + self.lm_scale * more_lm + self.word_penalty
                    place = self._place(word, end)
                    if place not in best or total > best[place].score:
                        best[place] = Step(total + self.ahead[end], place, total, acoustic + more, lm + more_lm)
        return sorted(best.values(), reverse=True)

    def _silent_ways(self, node: int) -> dict[int, Way]:
        """The nodes that can be reached by arcs without words, this one too, by the best way to each."""
        found: dict[int, Way] = {node: (0.0, 0.0, 0.0)}
        todo = [node]
        while todo:
            at = todo.pop()
            so_far, acoustic, lm = found[at]
            for _, end, word, more, more_lm in self.out.get(at, ()):
                if not word and end in self.ahead:
                    total = so_far + more + self.lm_scale * more_lm
                    if end not in found or total > found[end][0]:
                        found[end] = total, acoustic + more, lm + more_lm
                        todo.append(end)
        return found

    def _place(self, word: str, node: int) -> int:
        place = self.numbers.get((word, node))
        if place is None:
            place = self.numbers[word, node] = len(self.places)
            self.places.append((word, node))
        return place


class _Floor:
    """The score below which nothing is among the n best: the n-th best of the strings that wait or have ended."""

    def __init__(self, n: int, first: float) -> None:
        self.n, self.highest = n, [first]
        self.value, self.slack = -math.inf, SLACK * (1 + abs(first))

    def add(self, value: float) -> None:
        if len(self.highest) < self.n:
            heapq.heappush(self.highest, value)
        elif value > self.highest[0]:
            heapq.heapreplace(self.highest, value)
        if len(self.highest) == self.n:
            self.value = self.highest[0] - self.slack


def nbest(lattice: Lattice, n: int, lm_scale: float = 1.0, word_penalty: float = 0.0) -> Iterator[Sentence]:
    """The n best distinct word strings, by falling acoustic + lm_scale * lm + word_penalty * words of their best paths."""
    search = _Search(lattice, lm_scale, word_penalty)
    if lattice.start not in search.ahead:
        raise InputError(f'lattice "{lattice.utterance}": no path leads from its start to an end')
    first = search.ahead[lattice.start]
    floor = _Floor(n, first)
    places, steps, steps_from = search.places, search.steps, search.steps_from
    number = 0
    heap: list[tuple[float, int, Spelling, dict[int, Way]]] = [(-first, number, None, {END: (0.0, 0.0, 0.0)})]
    while heap and n > 0:
        _, _, spelling, ways = heapq.heappop(heap)
        if END in ways and number:
            n -= 1
            yield Sentence(_words(spelling), *ways[END][1:])
            continue
        # 1. The best way to every place that one more word leads to, if it may be among the n best.
        reached: dict[int, Way] = {}
        reaches: dict[int, float] = {}
        lowest = floor.value
        for place, (so_far, acoustic, lm) in ways.items():
            node = places[place][1]
            for reach, to, score, more, more_lm in steps[node] if node in steps else steps_from(node):
                total = so_far + reach
                if total < lowest:
                    break
                if to not in reaches or total > reaches[to]:
                    reaches[to] = total
                    reached[to] = so_far + score, acoustic + more, lm + more_lm
        # 2. Places by word: each word makes one longer string.
        longer: dict[str, dict[int, Way]] = {}
        values: dict[str, float] = {}
        for to, way in reached.items():
            word = places[to][0] if to else ""
            if word in longer:
                longer[word][to] = way
                values[word] = max(values[word], reaches[to])
            else:
                longer[word], values[word] = {to: way}, reaches[to]
        # 3. The best of them takes the place of the string it came from among those that wait; the others are new.
        for rank, (value, word) in enumerate(sorted(((v, w) for w, v in values.items()), reverse=True)):
            if rank:
                floor.add(value)
            if value >= floor.value:
                number += 1
                heapq.heappush(heap, (-value, number, (spelling, word) if word else spelling, longer[word]))


def _words(spelling: Spelling) -> tuple[str, ...]:
    words: list[str] = []
    while spelling is not None:
        spelling, word = spelling
        words.append(word)
    return tuple(reversed(words))
