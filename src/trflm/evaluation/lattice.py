"""Word lattices, and their exact distinct n-best lists.

A lattice is an acyclic graph of words with scores. The n best distinct word strings are found by A*: strings grow from the
start, the best first, where best is the score so far plus the best there is from here to the end. That is computed
backwards, so it is exact, and the first string that reaches the end is the best. Paths with the same words are one
string: it is the set of nodes it may be at, each with its best score, so that no string comes twice.
"""

import heapq
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from trflm.errors import InputError


@dataclass(frozen=True)
class Arc:
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

    def best_to_end(self, lm_scale: float, word_penalty: float) -> dict[int, float]:
        """node -> the best score from it to an end. A circle is an InputError."""
        out: dict[int, list[Arc]] = {}
        for arc in self.arcs:
            out.setdefault(arc.start, []).append(arc)
        best: dict[int, float] = {}
        for node in reversed(self._in_order(out)):
            values = [score(arc, lm_scale, word_penalty) + best[arc.end] for arc in out.get(node, []) if arc.end in best]
            if node in self.finals:
                acoustic, lm = self.finals[node]
                values.append(acoustic + lm_scale * lm)
            if values:
                best[node] = max(values)
        return best

    def _in_order(self, out: dict[int, list[Arc]]) -> list[int]:
        """The nodes that can be reached, each before those its arcs lead to."""
        order: list[int] = []
        state: dict[int, int] = {self.start: 1}  # 1 on the way, 2 done
        stack = [(self.start, iter(out.get(self.start, [])))]
        while stack:
            node, arcs = stack[-1]
            for arc in arcs:
                if arc.end not in state:
                    state[arc.end] = 1
                    stack.append((arc.end, iter(out.get(arc.end, []))))
                    break
                if state[arc.end] == 1:
                    raise InputError(f'lattice "{self.utterance}": node {arc.end} lies on a circle; lattices are acyclic')
            else:
                state[node] = 2
                order.append(node)
                stack.pop()
        return order[::-1]


def score(arc: Arc, lm_scale: float, word_penalty: float) -> float:
    return arc.acoustic + lm_scale * arc.lm + (word_penalty if arc.word else 0.0)


@dataclass(frozen=True)
class Sentence:
    """A word string with the scores of its best path."""

    words: tuple[str, ...]
    acoustic: float
    lm: float


State = dict[int, tuple[float, float, float]]  # node -> (score so far, acoustic, lm) of the best path with these words


def nbest(lattice: Lattice, n: int, lm_scale: float = 1.0, word_penalty: float = 0.0) -> Iterator[Sentence]:
    """The n best distinct word strings, by falling acoustic + lm_scale * lm + word_penalty * words of their best paths."""
    ahead = lattice.best_to_end(lm_scale, word_penalty)
    if lattice.start not in ahead:
        raise InputError(f'lattice "{lattice.utterance}": no path leads from its start to an end')
    out: dict[int, list[Arc]] = {}
    for arc in lattice.arcs:
        if arc.end in ahead:
            out.setdefault(arc.start, []).append(arc)

    def silent_closure(state: State) -> State:
        """Also the nodes that arcs without words lead to."""
        todo = list(state)
        while todo:
            node = todo.pop()
            so_far, acoustic, lm = state[node]
            for arc in out.get(node, []):
                if not arc.word:
                    reached = so_far + score(arc, lm_scale, word_penalty), acoustic + arc.acoustic, lm + arc.lm
                    if reached[0] > state.get(arc.end, (-math.inf,))[0]:
                        state[arc.end] = reached
                        todo.append(arc.end)
        return state

    number = itertools.count()
    heap: list[tuple[float, int, tuple[str, ...], State | None, Sentence | None]] = []

    def push(words: tuple[str, ...], state: State) -> None:
        value = max(so_far + ahead[node] for node, (so_far, _, _) in state.items())
        heapq.heappush(heap, (-value, next(number), words, state, None))

    push((), {lattice.start: (0.0, 0.0, 0.0)})
    while heap and n > 0:
        _, _, words, state, found = heapq.heappop(heap)
        if found is not None:
            n -= 1
            yield found
            continue
        assert state is not None
        following: dict[str, State] = {}
        ending: tuple[float, Sentence] | None = None
        for node, (so_far, acoustic, lm) in silent_closure(state).items():
            if node in lattice.finals:
                more, more_lm = lattice.finals[node]
                total = so_far + more + lm_scale * more_lm
                if ending is None or total > ending[0]:
                    ending = total, Sentence(words, acoustic + more, lm + more_lm)
            for arc in out.get(node, []):
                if arc.word:
                    reached = so_far + score(arc, lm_scale, word_penalty), acoustic + arc.acoustic, lm + arc.lm
                    there = following.setdefault(arc.word, {})
                    if reached[0] > there.get(arc.end, (-math.inf,))[0]:
                        there[arc.end] = reached
        if ending is not None:
            heapq.heappush(heap, (-ending[0], next(number), words, None, ending[1]))
        for word, there in following.items():
            push((*words, word), there)
