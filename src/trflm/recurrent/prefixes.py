"""The distinct prefixes of a batch, as a tree: what a left-to-right model has to compute, each prefix once.

The hypotheses of an n-best list share most of their beginnings, so there are far fewer distinct prefixes than words.

Shapes: B sentences, N words in all, P distinct prefixes, A sentences that are long enough.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from trflm.text import Batch

ROOT = 0  # the empty prefix


@dataclass(frozen=True, eq=False)
class PrefixTree:
    """Prefixes by rising length, those of one length by rising parent: `parent_P` never falls."""

    parent_P: Tensor  # the prefix without its last word; the root's is the root
    word_P: Tensor  # the last word; of no meaning at the root
    sizes: list[int]  # how many prefixes have 0, 1, 2, ... words
    prefix_N: Tensor  # the prefix that ends in each word of the batch


def prefix_tree(batch: Batch, n_words: int) -> PrefixTree:
    """Grown by one word at a time, for all sentences at once."""
    root = torch.full((1,), ROOT, device=batch.device)
    parents, words, sizes, total = [root], [root], [1], 1
    prefix_N = torch.empty(batch.n_words, dtype=torch.int64, device=batch.device)
    long_enough_A = torch.arange(len(batch), device=batch.device)
    here_A = torch.full((len(batch),), ROOT, device=batch.device)  # the prefix each sentence has reached
    for t in range(int(batch.lengths_B.max()) if len(batch) else 0):
        still_A = batch.lengths_B[long_enough_A] > t
        long_enough_A, here_A = long_enough_A[still_A], here_A[still_A]
        at_A = batch.starts_B[long_enough_A] + t
        key, which_A = torch.unique(here_A * n_words + batch.ids_N[at_A], return_inverse=True)
        parents.append(key // n_words)
        words.append(key % n_words)
        here_A = which_A + total
        prefix_N[at_A] = here_A
        sizes.append(len(key))
        total += len(key)
    return PrefixTree(torch.cat(parents), torch.cat(words), sizes, prefix_N)
