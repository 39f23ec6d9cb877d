"""What every language model offers. Evaluation and the command line know nothing else of a model.

Shapes: B sentences, N words in all.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from torch import Generator, Tensor

from trflm.errors import InputError
from trflm.ranges import Amount, Count, Seed, bounded
from trflm.seeds import generator
from trflm.text import Batch, Vocab

DRAWN_WORDS = 1 << 20  # of sentences whose length is given, fewer sentences are drawn at once
LONGEST_DRAWN = 20_000  # words of a sentence whose length is not given


@dataclass(frozen=True)
class Explanation:
    """log_prob of each sentence, split over its words: `batch.sum_words(word_N) + rest_B == log_prob`.

    For an n-gram or LSTM `word_N` is log p(word | words before) and `rest_B` the end token's; for a random field
    `word_N` is what each position adds to phi and `rest_B` is log pi_l - log Z_l.
    """

    batch: Batch
    word_N: Tensor
    rest_B: Tensor

    @property
    def log_prob_B(self) -> Tensor:
        return self.batch.sum_words(self.word_N) + self.rest_B


@dataclass(frozen=True)
class Origin:
    """Where a model came from."""

    path: Path | None = None  # it was loaded from
    unknown_types: int = 0  # how many words `<unk>` stood for in its training text; 0 if nobody counted


class LanguageModel(Protocol):
    """A model of whole sentences over a vocabulary."""

    vocab: Vocab
    origin: Origin

    @property
    def batch_free(self) -> bool:
        """Whether the score of a sentence is the same to the last bit whatever else is scored in the same call, by the way it
        is computed: looked up and added, not multiplied in matrices."""
        ...

    @property
    def normalised(self) -> bool:
        """Whether `log_prob` is exact. A random field's rests on estimates of log Z_l: a perplexity then needs an interval."""
        ...

    def log_prob(self, sentences: Batch | Sequence[str]) -> Tensor:
        """[B] natural log probability of each sentence, words outside the vocabulary taken as `<unk>`."""
        ...

    def explain(self, sentences: Batch | Sequence[str]) -> Explanation:
        """log_prob, split over the words."""
        ...

    def sample(self, n: Amount, *, seed: Seed = 1, length: Count | None = None, burn_in: Amount = 50) -> list[str]:
        """n independent sentences, all of `length` words if it is given; the same seed gives the same sentences. `burn_in`
        is how many sweeps a model that is sampled by Markov chains takes before each; others draw exactly."""
        ...

    def samples(self, n: Amount, *, seed: Seed = 1, length: Count | None = None, burn_in: Amount = 50) -> Iterator[str]:
        """The sentences of `sample` one after another, some hundred drawn at a time: memory does not grow with n."""
        ...

    def n_parameters(self) -> int:
        """How many numbers the model stores (the #param column of the paper's table)."""
        ...

    def cautions(self, batch: Batch) -> list[str]:
        """What a user should know of the scores of these sentences, each a clause that follows the name of their file."""
        ...

    def in_order(self, seed: int = 1) -> "Mapping[str, LanguageModel]":
        """The ways of reading sentences as one text in order that the model has, by the paper's names (section 5.1)."""
        ...


def default_oov_penalty(lm: LanguageModel) -> float:
    """What an unknown word costs if nobody says: log p(word) = log p(<unk>) - ln(types), with as many types as `<unk>` stood
    for in the training text; as the model has words, where that is not known. It depends on nothing but the model."""
    return math.log(max(lm.origin.unknown_types or len(lm.vocab), 1))


def check_ends(n_words: int) -> None:
    """A sentence that is being drawn word by word has so many: one that never ends is an InputError."""
    if n_words > LONGEST_DRAWN:
        raise InputError(
            f"a sentence of this model has not ended after {LONGEST_DRAWN:,} words: give the length of the sentences to draw"
        )


class Stored(Protocol):
    """What a run stores: a random field with its proposal, or a directed model."""

    @property
    def vocab(self) -> Vocab: ...

    def to_state(self) -> dict[str, Any]:
        """Nested dicts of tensors and numbers, for `files.tensors`."""
        ...

    def note(self) -> dict[str, Any]:
        """What else is to be known of it, as JSON."""
        ...

    def recall(self, note: Mapping[str, Any]) -> None:
        """Take from its `note` what would be computed anew, and might then differ in the last bit."""
        ...

    def fixed_parts(self) -> "Mapping[str, Stored]":
        """Models that it rests on and that never change, by the name of their file: they are stored once."""
        ...


class Sampled:
    """Sentences of a model that can draw some."""

    vocab: Vocab
    drawn_at_once = 500  # sentences

    def draw_some(self, n: int, rng: Generator, length: int | None, burn_in: int) -> Batch:
        raise NotImplementedError

    @bounded
    def samples(self, n: Amount, *, seed: Seed = 1, length: Count | None = None, burn_in: Amount = 50) -> Iterator[str]:
        return self._samples(n, generator(seed, "sample"), length, burn_in)

    @bounded
    def sample(self, n: Amount, *, seed: Seed = 1, length: Count | None = None, burn_in: Amount = 50) -> list[str]:
        return list(self.samples(n, seed=seed, length=length, burn_in=burn_in))

    def _samples(self, n: int, rng: Generator, length: int | None, burn_in: int) -> Iterator[str]:
        at_once = max(1, min(self.drawn_at_once, DRAWN_WORDS // (length or 1)))
        for done in range(0, n, at_once):
            yield from self.vocab.sentences(self.draw_some(min(at_once, n - done), rng, length, burn_in))


class Directed(Sampled):
    """What models that predict word after word have in common."""

    normalised = True
    origin = Origin()
    batch_free = False

    def explain(self, sentences: Batch | Sequence[str]) -> Explanation:
        raise NotImplementedError

    def log_prob(self, sentences: Batch | Sequence[str]) -> Tensor:
        return self.explain(sentences).log_prob_B

    def cautions(self, batch: Batch) -> list[str]:
        return []

    def in_order(self, seed: int = 1) -> Mapping[str, LanguageModel]:
        return {}

    def note(self) -> dict[str, Any]:
        return {}

    def recall(self, note: Mapping[str, Any]) -> None:
        pass

    def fixed_parts(self) -> Mapping[str, Stored]:
        return {}
