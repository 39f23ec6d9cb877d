"""Word embeddings to start from, by word2vec (gensim): CBOW with negative sampling, as the word2vec tool does by default."""

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from trflm.errors import InputError
from trflm.files.cache import Tensors, cached
from trflm.text.packed import Text


def word2vec(text: Text, n_words: int, size: int, seed: int) -> tuple[Tensor, Tensor]:
    """(words_U, vector_UE): a vector for each word that occurs in the text. The same text and seed give the same vectors.

    They are computed once and kept in the cache.
    """
    vectors = cached(f"word2vec size={size} seed={seed}", text.content(), lambda: train_word2vec(text, size, seed))
    assert int(vectors["words"].max()) < n_words
    return vectors["words"], vectors["vectors"]


def train_word2vec(text: Text, size: int, seed: int) -> Tensors:
    try:
        from gensim.models import Word2Vec
    except ImportError as error:
        raise InputError("model.word2vec needs gensim: pip install 'trflm[word2vec]', or set model.word2vec = false") from error

    model = Word2Vec(Sentences(text), vector_size=size, window=5, min_count=1, epochs=5, workers=1, seed=seed)
    words_U = torch.from_numpy(np.array(model.wv.index_to_key, dtype=np.int64))
    return {"words": words_U, "vectors": torch.from_numpy(np.array(model.wv.vectors, dtype=np.float32))}


class Sentences:
    """The sentences of a text as lists of word numbers, as often as they are gone through."""

    def __init__(self, text: Text) -> None:
        self.text = text

    def __iter__(self) -> Iterator[list[int]]:
        for part in self.text.parts():
            yield from (ids.tolist() for ids in part.ids_N.split(part.lengths_B.tolist()))
