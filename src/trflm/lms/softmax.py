"""The output layer of the proposal LSTM: p(word | h), over the whole vocabulary or in two steps, class then word.

    full:   p(v | h) = softmax_v(W h + b)
    class:  p(v | h) = softmax_c(A h + d)[c(v)] * softmax_{v' in c(v)}(W h + b)[v]

With about sqrt(V) classes a draw costs two small softmaxes instead of one over V.

Shapes: R rows of h, T trials (each on a row), K classes, V words, H units.
"""

import math
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from trflm.lms.proposals.protocol import DRAW, draw_at
from trflm.speed import compiled
from trflm.speed.products import linear

FEW = 64  # trials of one class; the logits of more of them are one product


class Output(Protocol):
    def log_prob(self, h_RH: Tensor, word_R: Tensor) -> Tensor:
        """[R] log p(word | h), differentiable."""
        ...

    def choose(self, h_RH: Tensor, row_T: Tensor, given_T: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """(word_T, log_prob_T): a word for each trial from the distribution of its row, or the word that is given."""
        ...


class FullSoftmax(nn.Module):
    def __init__(self, n_units: int, n_words: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_words, n_units))
        self.bias = nn.Parameter(torch.empty(n_words))

    def log_prob(self, h_RH: Tensor, word_R: Tensor) -> Tensor:
        return -F.cross_entropy(linear(h_RH, self.weight, self.bias), word_R, reduction="none")

    @torch.no_grad()
    def choose(self, h_RH: Tensor, row_T: Tensor, given_T: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        log_prob_RV = linear(h_RH, self.weight, self.bias).log_softmax(1)
        level_T = torch.rand(len(row_T), generator=rng, dtype=torch.float64).to(row_T.device)
        word_T = choose_or_take(log_prob_RV, row_T, given_T, level_T)
        return word_T, log_prob_RV[row_T, word_T]


class ClassSoftmax(nn.Module):
    """Words are stored by class, so that a class is a slice of the weights."""

    class_V: Tensor  # the class of each word
    place_V: Tensor  # where each word stands in the order by class
    word_V: Tensor  # the word at each place

    def __init__(self, n_units: int, class_V: Tensor) -> None:
        super().__init__()
        sizes_K = torch.bincount(class_V)
        if int(sizes_K.min()) == 0:
            raise ValueError(f"class {int(sizes_K.argmin())} has no word; number the classes without gaps")
        word_V = torch.argsort(class_V, stable=True)
        self.register_buffer("class_V", class_V)
        self.register_buffer("word_V", word_V)
        self.register_buffer("place_V", torch.argsort(word_V))
        self.sizes = sizes_K.tolist()
        self.starts = (sizes_K.cumsum(0) - sizes_K).tolist()
        self.class_weight = nn.Parameter(torch.empty(len(self.sizes), n_units))
        self.class_bias = nn.Parameter(torch.empty(len(self.sizes)))
        self.weight = nn.Parameter(torch.empty(len(class_V), n_units))
        self.bias = nn.Parameter(torch.empty(len(class_V)))

    def log_prob(self, h_RH: Tensor, word_R: Tensor) -> Tensor:
        class_R = self.class_V[word_R]
        of_class_R = -F.cross_entropy(linear(h_RH, self.class_weight, self.class_bias), class_R, reduction="none")
        order_R, counts = self._by_class(class_R)
        place_R = self.place_V[word_R[order_R]] - self._starts_of(class_R[order_R])
        # Split once: the gradient of a split is one concatenation, that of every slice would be a whole matrix.
        by_class = zip(
            h_RH.index_select(0, order_R).split(counts), place_R.split(counts),
            self.weight.split(self.sizes), self.bias.split(self.sizes),
            strict=True,
        )  # fmt: skip
        parts = [
            -F.cross_entropy(linear(h_rH, weight, bias), place_r, reduction="none")
            for h_rH, place_r, weight, bias in by_class
            if len(h_rH)
        ]
        return of_class_R + torch.cat(parts)[torch.argsort(order_R)]

    @torch.no_grad()
    def choose(self, h_RH: Tensor, row_T: Tensor, given_T: Tensor, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        level_2T = torch.rand(2, len(row_T), generator=rng, dtype=torch.float64).to(row_T.device)
        of_class_RK = linear(h_RH, self.class_weight, self.class_bias).log_softmax(1)
        given_class_T = torch.where(given_T == DRAW, DRAW, self.class_V[given_T.clamp(min=0)])
        class_T = choose_or_take(of_class_RK, row_T, given_class_T, level_2T[0])

        order_T, counts = self._by_class(class_T)
        log_prob_TW = self._logits(h_RH.index_select(0, row_T[order_T]), counts).log_softmax(1)
        starts_T = self._starts_of(class_T[order_T])
        given_order_T = given_T[order_T]
        given_place_T = torch.where(given_order_T == DRAW, DRAW, self.place_V[given_order_T.clamp(min=0)] - starts_T)
        every_T = torch.arange(len(row_T), device=row_T.device)
        place_T = choose_or_take(log_prob_TW, every_T, given_place_T, level_2T[1, order_T])
        word_T = torch.empty_like(place_T).index_copy_(0, order_T, self.word_V[starts_T + place_T])
        return word_T, of_class_RK[row_T, class_T].index_add_(0, order_T, log_prob_TW[every_T, place_T])

    def _logits(self, h_TH: Tensor, counts: list[int]) -> Tensor:
        """[T, W] of the words of each row's class, -inf beyond it; the first counts[0] rows are of class 0, and so on."""
        logits_TW = h_TH.new_full((len(h_TH), max(self.sizes)), -math.inf)
        most, bounds = 0, [*self.starts, len(self.bias)]
        if compiled.usable(h_TH):
            from trflm.lms.softmax_loops import class_logits

            most, of_classes = FEW, [torch.tensor(x) for x in (counts, bounds)]
            class_logits(most, *(x.detach().numpy() for x in (h_TH, *of_classes, self.weight, self.bias, logits_TW)))
        first = 0
        for count, low, high in zip(counts, bounds, bounds[1:], strict=False):
            if count > most:
                h_tH, out = h_TH[first : first + count], logits_TW[first : first + count, : high - low]
                torch.addmm(self.bias[low:high], h_tH, self.weight[low:high].t(), out=out)
            first += count
        return logits_TW

    def _starts_of(self, class_T: Tensor) -> Tensor:
        return torch.tensor(self.starts, device=class_T.device)[class_T]

    def _by_class(self, class_T: Tensor) -> tuple[Tensor, list[int]]:
        """The order that sorts by class, and how many there are of each."""
        return torch.argsort(class_T, stable=True), torch.bincount(class_T, minlength=len(self.sizes)).tolist()


def choose_or_take(log_prob_RK: Tensor, row_T: Tensor, given_T: Tensor, level_T: Tensor) -> Tensor:
    """[T] an index drawn from the row of each trial, at its level (see `draw_at`), or the one that is given."""
    if compiled.usable(log_prob_RK):
        from trflm.lms import softmax_loops

        choice_T = torch.empty_like(row_T)
        softmax_loops.choose_or_take(*(x.numpy() for x in (log_prob_RK.exp(), row_T, given_T, level_T, choice_T)))
        return choice_T
    drawn = (given_T == DRAW).nonzero().squeeze(1)
    return given_T.index_copy(0, drawn, draw_at(log_prob_RK.index_select(0, row_T[drawn]), level_T[drawn]))


def equal_classes(count_V: Tensor, n_classes: int) -> Tensor:
    """[V] classes of equal size, the most frequent words in the first: what a proposal needs is speed, not meaning."""
    order_V = torch.argsort(count_V, descending=True, stable=True)
    n_words = len(count_V)
    class_V = torch.empty(n_words, dtype=torch.int64)
    class_V[order_V] = torch.arange(n_words) * min(n_classes, n_words) // n_words
    return class_V
