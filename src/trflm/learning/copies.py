"""Copies of sentences that are wrong in a few places, as the hypotheses of a recogniser are: words exchanged, put in, left out.

No density is needed: whoever learns from them compares scores of one model with those of another (`distil`). New words come
from the text: a word that follows the one before, or stands before the one after (a sentence's ends count), or any word of the
text. Of several such words the one that fits best between its neighbours is taken half of the time, by

    log (n(left, w) + u(w)) + log (n(w, right) + u(w)) - log n(w)

n the counts of the text and u the share of w in it; else the first. So copies are wrong in all degrees.

Shapes: B sentences, N words, R copies, E edits, J candidates for a new word, V words; number V stands for a sentence's end.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from trflm.ranges import Count, Share
from trflm.text import Batch, pack


@dataclass(frozen=True)
class CopiesConfig:
    copies: Count = 8  # copies of each sentence
    most_edits: Count = 3  # edits of a copy at most; at least 1
    again: Share = 0.5  # the probability of one more edit
    insertions: Share = 0.15  # the share of edits that put a word in
    deletions: Share = 0.15  # the share that leave one out; the others exchange one
    candidates: Count = 6  # new words to choose from

    def __post_init__(self) -> None:
        if min(self.copies, self.most_edits, self.candidates) < 1:
            raise ValueError("copies, most_edits and candidates must be at least 1")
        if not 0 <= self.again <= 1:
            raise ValueError(f"again = {self.again}: must be a probability")
        if min(self.insertions, self.deletions) < 0 or self.insertions + self.deletions > 1:
            raise ValueError("insertions and deletions are shares: not negative, and not above 1 together")


@dataclass(frozen=True)
class Group:
    """Sentences of the text, then copies of them; `source_R` says of which."""

    batch: Batch
    n_sources: int
    source_R: Tensor

    def copies(self) -> Batch:
        return self.batch.select(torch.arange(self.n_sources, len(self.batch), device=self.batch.device))

    def centred(self, value_B: Tensor) -> Tensor:
        """The value of each sentence and copy, less the mean of the sentence with all its copies."""
        group_B = torch.cat([torch.arange(self.n_sources, device=value_B.device), self.source_R.to(value_B.device)])
        total = value_B.new_zeros(self.n_sources).index_add(0, group_B, value_B)
        return value_B - (total / torch.bincount(group_B))[group_B]


class Copies:
    """Draws them by the words of a text and what stands beside what in it."""

    def __init__(self, text: Batch, n_words: int, max_length: int, config: CopiesConfig) -> None:
        self.config, self.max_length, self.n_words = config, max_length, n_words
        self.ids = text.ids_N.long().numpy()
        self.count_V = np.bincount(self.ids, minlength=n_words + 1)
        left, right = neighbours(self.ids, text.lengths_B.numpy(), n_words)
        self.after, self.before = Occurrences(left, n_words + 1), Occurrences(right, n_words + 1)
        keys = np.concatenate([left * (n_words + 1) + self.ids, (self.ids * (n_words + 1) + right)[right == n_words]])
        self.pair_keys, self.pair_counts = np.unique(keys, return_counts=True)

    def of(self, batch: Batch, rng: torch.Generator) -> Group:
        source_R = torch.arange(len(batch)).repeat_interleave(self.config.copies)
        copies = batch.select(source_R.to(batch.device))
        ids, lengths = copies.ids_N.cpu().numpy(), copies.lengths_B.cpu().numpy()
        random = np.random.default_rng(int(torch.randint(2**62, (), generator=rng)))
        number_R = 1 + (random.random((len(lengths), self.config.most_edits - 1)) < self.config.again).cumprod(1).sum(1)
        for k in range(self.config.most_edits):
            ids, lengths = self.edit(ids, lengths, np.flatnonzero(number_R > k), random)
        edited = Batch(torch.from_numpy(ids), torch.from_numpy(lengths)).to(batch.device)
        return Group(pack([batch.long(), edited]), len(batch), source_R)

    def edit(self, ids: np.ndarray, lengths: np.ndarray, at: np.ndarray, random: np.random.Generator) -> tuple[np.ndarray, ...]:
        """One edit in each of the sentences `at`, at a place drawn uniformly; a sentence that would be too long or empty has a
        word exchanged instead."""
        length, start = lengths[at], (lengths.cumsum() - lengths)[at]
        kind, share = random.random(len(at)), self.config.insertions
        inserts = (kind < share) & (length < self.max_length)
        deletes = (kind >= share) & (kind < share + self.config.deletions) & (length > 1)
        offset = (random.random(len(at)) * (length + inserts)).astype(np.int64)
        place = start + offset  # of the word to go, or before which one comes
        left = np.where(offset == 0, self.n_words, ids[place - 1])
        after = place + ~inserts
        right = np.where(after == start + length, self.n_words, ids[np.minimum(after, len(ids) - 1)])
        word = self.words_between(left, right, random)
        ids = ids.copy()
        exchanges = ~(inserts | deletes)
        ids[place[exchanges]] = word[exchanges]
        lengths = lengths.copy()
        lengths[at] += inserts.astype(np.int64) - deletes
        # All places are those of the sentences as they were.
        kept = np.ones(len(ids), bool)
        kept[place[deletes]] = False
        shifted = kept.cumsum() - kept  # where each word comes to stand
        where = np.append(shifted, kept.sum())[place[inserts]]
        return np.insert(ids[kept], where, word[inserts]), lengths

    def words_between(self, left_E: np.ndarray, right_E: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """[E] a word for each place."""
        n, J = len(left_E), self.config.candidates
        left_EJ, right_EJ = np.repeat(left_E[:, None], J, 1), np.repeat(right_E[:, None], J, 1)
        coin_EJ, share_EJ = random.random((2, n, J))
        occurrence_EJ = (share_EJ * len(self.ids)).astype(np.int64)
        for chosen_EJ, index, context_EJ in (
            (coin_EJ < 0.4, self.after, left_EJ),
            (coin_EJ > 0.6, self.before, right_EJ),
        ):
            found_EJ = index.draw(context_EJ, share_EJ)
            occurrence_EJ = np.where(chosen_EJ & (found_EJ >= 0), found_EJ, occurrence_EJ)
        word_EJ = self.ids[occurrence_EJ]
        share_of_word = self.count_V[word_EJ] / len(self.ids)
        fit_EJ = np.log(self.pairs(left_EJ, word_EJ) + share_of_word) + np.log(self.pairs(word_EJ, right_EJ) + share_of_word)
        best_E = np.where(random.random(n) < 0.5, (fit_EJ - np.log(share_of_word)).argmax(1), 0)
        return word_EJ[np.arange(n), best_E]

    def pairs(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """How often the text has the one word right after the other."""
        keys = left * (self.n_words + 1) + right
        place = np.minimum(np.searchsorted(self.pair_keys, keys), len(self.pair_keys) - 1)
        return np.where(self.pair_keys[place] == keys, self.pair_counts[place], 0)


class Occurrences:
    """Where in the text each context word has an occurrence beside it."""

    def __init__(self, context_N: np.ndarray, n_contexts: int) -> None:
        self.order_N = np.argsort(context_N, kind="stable")
        self.count = np.bincount(context_N, minlength=n_contexts)
        self.start = np.cumsum(self.count) - self.count

    def draw(self, context: np.ndarray, share: np.ndarray) -> np.ndarray:
        """The place of an occurrence for each context, `share` of the way through them; -1 where there is none."""
        place = self.start[context] + (share * self.count[context]).astype(np.int64)
        return np.where(self.count[context] > 0, self.order_N[np.minimum(place, len(self.order_N) - 1)], -1)


def neighbours(ids: np.ndarray, lengths: np.ndarray, end: int) -> tuple[np.ndarray, np.ndarray]:
    """[N] the words before and after each word, `end` beyond a sentence."""
    left, right = np.roll(ids, 1), np.roll(ids, -1)
    stop = lengths.cumsum()
    left[stop - lengths] = end
    right[stop - 1] = end
    return left, right
