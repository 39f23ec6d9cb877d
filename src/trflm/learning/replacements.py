"""Hard negatives near the data: sentences with one word replaced, told apart from the data by conditional NCE.

A pair (x, x') comes from the data and a word w' ~ g(. | word before) put in place of w at a place drawn uniformly. Which of
the two was the data? The log odds are

    ratio = phi(x) - phi(x') + log g(w' | word before) - log g(w | word before),        maximise log sigmoid(ratio)

Both have the same length, so log Z_l plays no part. g is half unigram, half bigram: a bigram model of the training text is
not yet too sure of it, as longer n-grams are.

Shapes: B sentences, R pairs.
"""

import math
import warnings
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from trflm.field.trf import TRF
from trflm.lms.ngram import KneserNeyConfig, NGram, kneser_ney
from trflm.lms.unigram import Unigram
from trflm.seeds import generator
from trflm.text import Batch, Text, Vocab, pack

DEV_SENTENCES, DEV_WORDS = 1000, 10


@dataclass(frozen=True)
class Pairs:
    """Each sentence of `replaced` differs in a word at most from sentence `source_R` of the data."""

    source_R: Tensor
    replaced: Batch
    log_odds_R: Tensor  # log g(w') - log g(w)

    def ratio(self, phi_B: Tensor, phi_R: Tensor) -> Tensor:
        return phi_B[self.source_R] - phi_R + self.log_odds_R.to(phi_R)

    def loss(self, phi_B: Tensor, phi_R: Tensor) -> Tensor:
        return -F.logsigmoid(self.ratio(phi_B, phi_R)).mean()


class Replacements:
    """g(w | word before) = (unigram(w) + bigram(w | word before)) / 2, the bigram given that a word follows."""

    def __init__(self, unigram: Unigram, bigram: NGram) -> None:
        self.unigram, self.bigram = unigram, bigram

    @classmethod
    def estimate(cls, vocab: Vocab, text: Text, unigram: Unigram) -> "Replacements":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that a text is too small to estimate discounts is no matter for these draws
            return cls(unigram, kneser_ney(text, vocab, KneserNeyConfig(order=2)))

    def pairs(self, batch: Batch, n: int, rng: torch.Generator) -> Pairs:
        """n pairs for each sentence, each with a place of its own."""
        source_R = torch.arange(len(batch), device=batch.device).repeat_interleave(n)
        return self.at(batch, source_R, random_places(batch.lengths_B[source_R], rng), rng)

    def at(self, batch: Batch, source_R: Tensor, place_R: Tensor, rng: torch.Generator) -> Pairs:
        """Pairs whose words at these places are drawn anew."""
        sentences = batch.select(source_R)
        one_R = torch.ones_like(place_R)
        from_bigram, _ = self.bigram.draw_spans(sentences, place_R, one_R, rng)
        from_unigram = self.unigram.draw(len(source_R), rng, one_R.cpu()).to(batch.device)
        coin_R = torch.rand(len(source_R), generator=rng).to(batch.device) < 0.5
        ids_N = sentences.ids_N.clone()
        ids_N[sentences.starts_B + place_R] = torch.where(coin_R, from_bigram.ids_N, from_unigram.ids_N)
        replaced = Batch(ids_N, sentences.lengths_B)
        return Pairs(source_R, replaced, self._log_g(replaced, place_R) - self._log_g(sentences, place_R))

    def choices(self, batch: Batch, n: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
        """For every word of a batch ([N, n + 1] the word and n that g draws for its place, [N, n + 1] log g of each)."""
        first_N = batch.position_N == 0
        before_N = torch.where(first_N, self.bigram.tables.start, batch.ids_N.long().roll(1)).cpu()
        context_1W = before_N.repeat_interleave(n).numpy()[None]
        drawn_W = self.unigram.draw(1, rng, torch.tensor([context_1W.shape[1]])).ids_N
        coin_W = torch.rand(len(drawn_W), generator=rng) < 0.5
        from_bigram, _, _ = self.bigram.draw_words(context_1W[:, coin_W.numpy()], rng)
        drawn_W[coin_W] = torch.from_numpy(from_bigram)
        word_NA = torch.cat([batch.ids_N.long().cpu()[:, None], drawn_W.view(-1, n)], 1)
        _, _, bigram = self.bigram.extend(before_N.repeat_interleave(n + 1).numpy()[None], word_NA.flatten().numpy())
        unigram_NA = self.unigram.log_word_V[word_NA]
        log_g_NA = torch.logaddexp(torch.from_numpy(bigram).view_as(unigram_NA), unigram_NA) - math.log(2)
        return word_NA.to(batch.device), log_g_NA.to(batch.device)

    def _log_g(self, batch: Batch, place_B: Tensor) -> Tensor:
        """[B] log g of the words at these places."""
        bigram_B = self.bigram.log_span(batch, place_B, torch.ones_like(place_B)).double()
        unigram_B = self.unigram.log_word_V.to(batch.device)[batch.ids_N[batch.starts_B + place_B]]
        return torch.logaddexp(bigram_B, unigram_B) - math.log(2)


def random_places(lengths_R: Tensor, rng: torch.Generator) -> Tensor:
    """[R] a place of each sentence, uniform."""
    share_R = torch.rand(len(lengths_R), generator=rng, dtype=torch.float64).to(lengths_R.device)
    return (share_R * lengths_R).long()


@dataclass(frozen=True)
class Choice:
    """A measure of a potential that needs neither log Z nor the noise of its training: how well the word of the text is found
    among `words` that g drew for its place. log softmax of phi - log g is its log posterior if phi is right."""

    sentences: Batch
    pairs: Pairs
    words: int

    @classmethod
    def of(cls, text: Batch, replacements: Replacements, sentences: int, words: int, rng: torch.Generator) -> "Choice":
        some = text.select(torch.randperm(len(text), generator=rng)[:sentences].to(text.device))
        place_B = random_places(some.lengths_B, rng)
        source_R = torch.arange(len(some), device=text.device).repeat_interleave(words)
        return cls(some, replacements.at(some, source_R, place_B[source_R], rng), words)

    def log_prob(self, trf: TRF) -> float:
        return self.mean_log_prob_of(trf.phi(self.both()))

    def both(self) -> Batch:
        """The sentences, then those with a word replaced."""
        return pack([self.sentences, self.pairs.replaced])

    def mean_log_prob_of(self, phi_both: Tensor) -> float:
        return self.mean_log_prob(phi_both[: len(self.sentences)], phi_both[len(self.sentences) :])

    def mean_log_prob(self, phi_B: Tensor, phi_R: Tensor) -> float:
        """Mean over the sentences of the log-probability of the text's own word; -log(words + 1) for a guess."""
        against_BK = -self.pairs.ratio(phi_B, phi_R).view(-1, self.words)
        return -float(F.pad(against_BK, (1, 0)).logsumexp(1).mean())


class DevChoice:
    """The choice on dev text, the same at every evaluation: a criterion that can be compared between learners."""

    def __init__(self, replacements: Replacements) -> None:
        self.replacements = replacements
        self._choice: Choice | None = None

    def of(self, dev: Batch, trf: TRF) -> float:
        return self.on(dev).log_prob(trf)

    def on(self, dev: Batch) -> Choice:
        if self._choice is None:
            self._choice = Choice.of(dev, self.replacements, DEV_SENTENCES, DEV_WORDS, generator(0, "dev", 1))
        return self._choice
