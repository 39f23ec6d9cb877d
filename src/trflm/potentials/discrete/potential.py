"""The discrete potential of Wang, Ou and Tan (2015, 2017): phi(x) = sum of the weights of the features that occur in x.

    phi(x) = sum_i b(x_i) + sum_k lambda_k f_k(x),      f_k(x) how often feature k occurs in x

so the log-likelihood of the field is concave in lambda. Gradients are sparse: a step costs in proportion to the features that
occur (`learning.adam` moves those weights alone). The weights lambda start at 0.

b is not learned: it is 0, or, if the recipe wants a unigram start, log(V u(w)) with the unigram shares u(w) ~ 1 + count of the
training text. With lambda = 0 the field is then that unigram model, and Z_l = V^l, as it is for phi = 0. A penalty on lambda
holds the field near the unigram model, and not near one in which all words are alike.

Shapes: as in `features`; U words of an occurrence, at most 4.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Generator, Tensor, nn

from trflm.kinds import PathName, Start
from trflm.potentials.discrete.alternatives import find_alternatives
from trflm.potentials.discrete.counting import count_features
from trflm.potentials.discrete.features import Alphabet, Features, Found, Places
from trflm.potentials.discrete.patterns import MOST_SYMBOLS, Pattern, parse_features
from trflm.potentials.discrete.rows import take_rows
from trflm.ranges import Count, NGramOrder, Positive
from trflm.text import Batch, Text, Vocab
from trflm.text.classes import cached_exchange, read_classes


@dataclass(frozen=True)
class DiscreteConfig:
    """[model] kind = "discrete": a log-linear random field of word and class features, which are taken from the training text.

    `min_counts`, from order 1 up: features that occur less often are left out; the last value holds for all orders above.
    """

    features: str = "w+c+ws+cs+wsh+csh+tied"  # kinds of features (see potentials/discrete/patterns.py)
    order: NGramOrder = MOST_SYMBOLS  # features of more symbols are left out
    min_counts: tuple[Count, ...] = (1,)  # how often a feature must occur, from order 1 up; the last holds for all above
    unigram: bool = True  # start as a unigram model; say false under a [reference], which is one or better
    classes: Count = 200  # so many classes of words, by bigram exchange on the training text
    classes_file: PathName = ""  # lines `word class`; then `classes` plays no part
    to_last: bool = False  # a feature counts for the last word it covers; else for all of them in equal shares
    rate: Positive = 1.0  # its weights are moved at so many times learner.lr (by Adagrad, see learning/adam.py)
    kind: Literal["discrete"] = "discrete"

    def __post_init__(self) -> None:
        if not 1 <= self.order <= MOST_SYMBOLS:
            raise ValueError(f"order = {self.order}: must be from 1 to {MOST_SYMBOLS}")
        if not self.patterns:
            raise ValueError(f'features = "{self.features}": none has an order of {self.order} or less')
        if not 1 <= len(self.min_counts) <= MOST_SYMBOLS or min(self.min_counts) < 1:
            raise ValueError(f"min_counts = {list(self.min_counts)}: give 1 to {MOST_SYMBOLS} numbers from 1 up")
        if not self.rate > 0:
            raise ValueError(f"rate = {self.rate}: must be positive")
        if self.classes < 1:
            raise ValueError(f"classes = {self.classes}: must be at least 1")

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        return tuple(pattern for pattern in parse_features(self.features) if pattern.order <= self.order)

    def build(self, start: Start) -> "Discrete":
        """With the features of the text if there is one; else without any, for a file to be loaded into."""
        V, text = len(start.vocab), start.text
        if text is None:
            return Discrete(self, V)
        alphabet = Alphabet(V, self.word_classes(start.vocab, text))
        potential = Discrete(self, V, count_features(text, self.patterns, alphabet, self.min_counts))
        if start.fresh and self.unigram:
            potential.start_as_unigram(text)
        return potential

    def word_classes(self, vocab: Vocab, text: Text) -> Tensor:
        """[V], or empty if no feature has classes."""
        if not any("c" in pattern.symbols for pattern in self.patterns):
            return torch.empty(0, dtype=torch.int64)
        if self.classes_file:
            return read_classes(self.classes_file, vocab)
        return cached_exchange(text, len(vocab), self.classes)


class Discrete(nn.Module):
    """phi(x) of a packed batch. Without features, as it is made for a file to be loaded into, phi is 0."""

    key_K: Tensor
    first_P1: Tensor
    class_V: Tensor
    start_V: Tensor  # b

    def __init__(self, config: DiscreteConfig, n_words: int, features: Features | None = None) -> None:
        super().__init__()
        self.config, self.n_words = config, n_words
        self.weight = nn.Parameter(torch.empty(0))
        for name in ("key_K", "first_P1", "class_V"):
            self.register_buffer(name, torch.empty(0, dtype=torch.int64))
        self.register_buffer("start_V", torch.zeros(n_words))
        empty = Features(
            config.patterns,
            Alphabet(n_words, self.class_V),
            self.key_K,
            torch.zeros(len(config.patterns) + 1, dtype=torch.int64),
        )
        self.take(features or empty)

    def take(self, features: Features) -> None:
        """Have these features from now on, with weights of 0. The parameter is a new one: do it before an optimiser has it."""
        self.key_K, self.first_P1, self.class_V = features.key_K, features.first_P1, features.alphabet.class_V
        self.weight = nn.Parameter(self.weight.new_zeros(len(features)))
        vars(self.weight)["rate"] = self.config.rate  # the optimiser reads it
        self._features = features

    @property
    def features(self) -> Features:
        """Over the tensors of this module, wherever they were moved to."""
        if self._features.key_K is not self.key_K:
            alphabet = Alphabet(self.n_words, self.class_V)
            self._features = Features(self.config.patterns, alphabet, self.key_K, self.first_P1)
        return self._features

    def start_as_unigram(self, text: Text) -> None:
        """b(w) = log(V u(w)), u(w) ~ 1 + count."""
        log_u_V = text.word_counts(self.n_words).double().log1p().log_softmax(0)
        self.start_V.copy_(log_u_V + math.log(self.n_words))

    def forward(self, batch: Batch, rng: Generator | None = None) -> Tensor:
        """phi_B."""
        value_F, found, places = self._occurrences(batch)
        sum_M = value_F.new_zeros(len(places.position_M)).index_add(0, found.place_F, value_F)
        return sum_places(batch, sum_M) + batch.sum_words(self.start_V[batch.ids_N])

    @torch.no_grad()
    def score(self, batch: Batch) -> Tensor:
        """phi_B without gradient: each distinct n-gram is looked up once."""
        sum_M = self.features.sums(self.features.alphabet.read(batch), self.weight.detach())
        return sum_places(batch, sum_M) + batch.sum_words(self.start_V[batch.ids_N])

    def contributions(self, batch: Batch, rng: Generator | None = None) -> Tensor:
        """[N] each feature's weight goes in equal shares to the words it covers (markers get none), or to the last of them."""
        value_F, found, places = self._occurrences(batch)
        word_FU, is_word_FU = self._words_of(found, places, batch)
        if self.config.to_last:
            last_F = torch.where(is_word_FU, word_FU, 0).amax(1)
            return self.start_V[batch.ids_N].index_add(0, last_F, value_F)
        return self._to_words(value_F / is_word_FU.sum(1), word_FU, is_word_FU, batch)

    def touching(self, batch: Batch) -> Tensor:
        """[N] the sum of the weights of all features that cover a word: what of phi depends on it. As a function of x_i alone
        it is phi(x) but for a constant, so p(x_i | the other words) is proportional to its exp: the score of pseudo-likelihood.
        The sum over i counts a feature once for each of its words and is not phi."""
        value_F, found, places = self._occurrences(batch)
        return self._to_words(value_F, *self._words_of(found, places, batch), batch)

    def alternatives(self, batch: Batch, word_NA: Tensor) -> Tensor:
        """[N, A] what `touching` would be at each word if another word stood there, in its place alone; differentiable."""
        features = self.features
        feature_F, row_F = find_alternatives(features, features.alphabet.read(batch), word_NA)
        value_F = take_rows(self.weight, feature_F)
        return self.start_V[word_NA] + value_F.new_zeros(word_NA.numel()).index_add(0, row_F, value_F).view(word_NA.shape)

    def forget(self) -> None:
        """Nothing is kept that depends on the weights."""

    def _occurrences(self, batch: Batch) -> tuple[Tensor, Found, Places]:
        places = self.features.alphabet.read(batch)
        found = self.features.find(places)
        return take_rows(self.weight, found.feature_F), found, places

    def _words_of(self, found: Found, places: Places, batch: Batch) -> tuple[Tensor, Tensor]:
        """([F, 4] the words that each occurrence covers, [F, 4] which of them there are)."""
        columns = self.features.columns
        offset_J4 = torch.from_numpy(columns.offset_J4).to(batch.device)
        there_J4 = torch.from_numpy(columns.base_J4 > 0).to(batch.device)
        place_FU = found.place_F[:, None] + offset_J4[found.column_F]
        word_M = torch.full_like(places.position_M, -1)
        word_M[places.place_N] = torch.arange(batch.n_words, device=batch.device)
        word_FU = word_M[place_FU]
        return word_FU.clamp(min=0), there_J4[found.column_F] & (word_FU >= 0)

    def _to_words(self, value_F: Tensor, word_FU: Tensor, is_word_FU: Tensor, batch: Batch) -> Tensor:
        value_FU = value_F[:, None] * is_word_FU
        return self.start_V[batch.ids_N].index_add(0, word_FU.flatten(), value_FU.flatten())

    def _load_from_state_dict(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, state_dict: dict[str, Any], prefix: str, *arguments: Any
    ) -> None:
        """An empty potential takes the features of the file; one that has features loads weights of the same features only."""
        names = ("key_K", "first_P1", "class_V")
        if all(prefix + name in state_dict for name in names):
            key_K, first_P1, class_V = (state_dict[prefix + name].to(self.weight.device) for name in names)
            if not len(self.key_K) and len(first_P1) == len(self.config.patterns) + 1:
                self.take(Features(self.config.patterns, Alphabet(self.n_words, class_V), key_K, first_P1))
            elif not all(torch.equal(*pair) for pair in ((key_K, self.key_K), (class_V, self.class_V))):
                arguments[-1].append("its features or word classes are not those of this recipe and text")
                return
        super()._load_from_state_dict(state_dict, prefix, *arguments)


def sum_places(batch: Batch, sum_M: Tensor) -> Tensor:
    """[M] -> [B] the sum over each sentence with its markers."""
    index_B = torch.arange(len(batch), device=batch.device)
    sentence_M = torch.repeat_interleave(index_B, batch.lengths_B.long() + 2, output_size=len(sum_M))
    return sum_M.new_zeros(len(batch)).index_add(0, sentence_M, sum_M)
