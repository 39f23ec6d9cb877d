"""[data]: the text of a recipe and its vocabulary, as the recipe names them and as they are read."""

from dataclasses import dataclass
from pathlib import Path

from trflm.errors import InputError
from trflm.kinds import PathName
from trflm.text import Corpus, Vocab, read_corpus


@dataclass(frozen=True)
class DataConfig:
    """[data]: the text and the vocabulary."""

    train: PathName = ""  # the training text, one sentence a line
    valid: PathName = ""  # dev text; none if empty
    vocab: PathName = ""  # a word list; if empty the vocabulary is made from train
    vocab_size: int = 0  # keep the most frequent words, <unk> included; 0: all
    min_count: int = 1  # keep words seen at least this often
    max_length: int = 0  # longer sentences are left out of training; 0: the longest there is

    def __post_init__(self) -> None:
        if not self.train:
            raise ValueError("train is missing: give the training text, for instance --set data.train=FILE")
        if min(self.vocab_size, self.max_length) < 0 or self.min_count < 1:
            raise ValueError("vocab_size and max_length must not be negative, min_count must be at least 1")
        if self.vocab and (self.vocab_size or self.min_count != 1):
            raise ValueError("vocab is a fixed word list: leave out vocab_size and min_count")

    def read(self) -> "Data":
        for key, file in (("train", self.train), ("valid", self.valid), ("vocab", self.vocab)):
            if file and not Path(file).exists():
                raise InputError(
                    f"data.{key} = {file!r}: there is no such file, neither beside the recipe nor from the working directory; "
                    f"give yours by --set data.{key}=FILE"
                )
        if self.vocab:
            vocab = Vocab.from_list(self.vocab)
        else:
            vocab = Vocab.from_text([self.train], size=self.vocab_size or None, min_count=self.min_count)
        train = read_corpus(self.train, vocab, self.max_length or None)
        return Data(vocab, train, read_corpus(self.valid, vocab) if self.valid else None)


@dataclass(frozen=True)
class Data:
    """The text of a recipe, read."""

    vocab: Vocab
    train: Corpus
    dev: Corpus | None
