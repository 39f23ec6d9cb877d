"""Words to phones: the dictionary file, and a lexicon as a tree whose words share the beginnings of their pronunciations.

Shapes: W words, T nodes of the tree.
"""

import importlib.util
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from trflm.errors import InputError
from trflm.files.reader import read_lines
from trflm.simulate.phones import NUMBER

VARIANT = re.compile(r"\(\d+\)$")  # `read(2)`: another way to say the word before
Pronunciations = dict[str, tuple[tuple[int, ...], ...]]  # word -> its ways to say it


def default_dictionary() -> Path:
    """cmudict-en-us.dict of the pocketsphinx package (which is not imported)."""
    spec = importlib.util.find_spec("pocketsphinx")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "model" / "en-us" / "cmudict-en-us.dict"
        if path.exists():
            return path
    raise InputError(
        "there is no pronunciation dictionary: pip install 'trflm[demo]' (pocketsphinx has one), or give --dict FILE"
    )


def read_pronunciations(path: Path | str) -> Pronunciations:
    """Lines `word PHONE PHONE ...`; further ways to say a word as `word(2) ...`."""
    found: dict[str, list[tuple[int, ...]]] = {}
    for line in read_lines(path):
        fields = line.text.split()
        if not fields:
            continue
        if len(fields) == 1:
            raise InputError(f"{path}:{line.number}: {fields[0]!r} has no phones; write `word PHONE PHONE ...`")
        for phone in fields[1:]:
            if phone not in NUMBER:
                raise InputError(f"{path}:{line.number}: {phone!r} is not a phone; the phones are {', '.join(NUMBER)}")
        ways = found.setdefault(VARIANT.sub("", fields[0]), [])
        said = tuple(NUMBER[phone] for phone in fields[1:])
        if said not in ways:
            ways.append(said)
    if not found:
        raise InputError(f"{path}: there is no pronunciation in it; write lines `word PHONE PHONE ...`")
    return {word: tuple(ways) for word, ways in found.items()}


class Tree(NamedTuple):
    """Pronunciations that begin alike share nodes. Node 0 is the root; nodes lie level by level, children side by side."""

    phone_T: np.ndarray  # of the root: -1
    first_child_T1: np.ndarray  # the children of node t: first_child[t] up to first_child[t + 1]
    first_end_T1: np.ndarray  # the pronunciations that end at node t: first_end[t] up to first_end[t + 1] of what follows
    word_E: np.ndarray
    share_E: np.ndarray  # 1 / (ways to say the word)


@dataclass(frozen=True, eq=False)
class Lexicon:
    """The words a recogniser knows. A word's ways to say it are equally likely."""

    words: tuple[str, ...]
    ways: tuple[tuple[tuple[int, ...], ...], ...]  # [W] of each word
    number: Mapping[str, int]
    tree: Tree

    @classmethod
    def of(cls, words: Iterable[str], pronunciations: Pronunciations) -> "Lexicon":
        """Of the words that have a pronunciation, in order."""
        known = tuple(dict.fromkeys(word for word in words if word in pronunciations))
        if not known:
            raise InputError("none of the words has a pronunciation; is the text in lower case?")
        ways = tuple(pronunciations[word] for word in known)
        return cls(known, ways, {word: i for i, word in enumerate(known)}, build_tree(ways))

    def __len__(self) -> int:
        return len(self.words)

    def say(self, words: Sequence[str], rng: np.random.Generator) -> list[int]:
        """The phones of a sentence, a way to say each word drawn at random."""
        phones: list[int] = []
        for word in words:
            ways = self.ways[self.number[word]]
            phones.extend(ways[int(rng.integers(len(ways)))])
        return phones


def build_tree(ways: Sequence[Sequence[Sequence[int]]]) -> Tree:
    """The tree of all ways to say the words."""
    entries = sorted((tuple(way), word) for word, of_word in enumerate(ways) for way in of_word)
    nodes = sorted({way[:k] for way, _ in entries for k in range(len(way) + 1)}, key=lambda node: (len(node), node))
    number = {node: i for i, node in enumerate(nodes)}
    parent_T = np.array([number[node[:-1]] for node in nodes[1:]], np.int64)
    entries.sort(key=lambda entry: (len(entry[0]), entry))
    end_E = np.array([number[way] for way, _ in entries], np.int64)
    edges = np.arange(len(nodes) + 1)
    return Tree(
        np.array([node[-1] if node else -1 for node in nodes], np.int64),
        1 + np.searchsorted(parent_T, edges),
        np.searchsorted(end_E, edges),
        np.array([word for _, word in entries], np.int64),
        np.array([1 / len(ways[word]) for _, word in entries]),
    )
