r"""ARPA files, the common format of n-gram models. Base-10 logarithms exist in this file only.

    \data\
    ngram 1=COUNT
    ngram 2=COUNT

    \1-grams:
    LOG10_PROB WORD [LOG10_BACKOFF]

    \2-grams:
    LOG10_PROB WORD WORD

    \end\

Conventions among the tools that write it, all of them read here: any blanks separate the fields; text before `\data\` is a
comment; a missing backoff is 0; the probability of `<s>` is -99 or 0 and means nothing; `<UNK>` is `<unk>`; a model without
`<unk>` gives unknown words the log10 probability -100, with a warning. N-grams with `<s>` after a word or `</s>` before one
can never occur in a sentence and are left out.

Shapes: G n-grams of one order k.
"""

import math
import warnings
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from trflm.errors import InputError
from trflm.files.reader import Line, read_lines
from trflm.files.writer import write_text
from trflm.lms.ngram.model import NGram
from trflm.lms.ngram.tables import NOT_STORED, Order, Tables
from trflm.text.vocab import UNK, Vocab

START, END = "<s>", "</s>"
LN10 = math.log(10)
LOG10_NOTHING = -99.0  # how the format writes probability 0
LOG10_NO_UNK = -100.0


def write_arpa(model: NGram, path: Path | str) -> None:
    """Write the model; what `read_arpa` reads back scores the same to 8 digits."""
    tables, n = model.tables, model.tables.n
    for marker in (START, END):
        if marker in model.vocab:
            raise InputError(f"the vocabulary has {marker!r} as a word, but in an ARPA file it marks sentences; rename it")
    words = [*model.vocab.words, START, END]
    with write_text(path) as file:
        file.write("\\data\\\n")
        file.writelines(f"ngram {k}={len(order)}\n" for k, order in enumerate(tables.orders, 1))
        context_texts = [""]
        for k, order in enumerate(tables.orders, 1):
            parent_G, last_G = np.divmod(order.key_G, tables.n_symbols)
            texts = [context_texts[p] + words[w] for p, w in zip(parent_G.tolist(), last_G.tolist(), strict=True)]
            probs = np.maximum(order.log_prob_G / LN10, LOG10_NOTHING).tolist()
            file.write(f"\n\\{k}-grams:\n")
            if k < n:
                backoffs = np.maximum(order.log_backoff_G / LN10, LOG10_NOTHING).tolist()
                file.writelines(f"{p:.8g}\t{text}\t{b:.8g}\n" for p, text, b in zip(probs, texts, backoffs, strict=True))
                context_texts = [f"{text} " for text in texts]
            else:
                file.writelines(f"{p:.8g}\t{text}\n" for p, text in zip(probs, texts, strict=True))
        file.write("\n\\end\\\n")


def read_arpa(path: Path | str) -> NGram:
    """Read a model of any order; its vocabulary is the unigrams, in the order of the file after `<unk>`."""
    lines = (line for line in read_lines(path) if line.text.strip())
    counts, line = _read_header(path, lines)
    index: dict[str, int] = {}
    vocab, symbol_of = Vocab([UNK]), np.empty(0, np.int64)
    orders: list[Order] = []
    for k, count in enumerate(counts, 1):
        if line.text.strip() != f"\\{k}-grams:":
            raise InputError(f"{path}:{line.number}: expected the section \\{k}-grams: but found {line.text.strip()!r}")
        section, line = _read_section(path, lines, line, k, index)
        if len(section.line_numbers) != count:
            raise InputError(
                f"{path}:{line.number}: the section \\{k}-grams: holds {len(section.line_numbers)} n-grams, "
                f"but \\data\\ announces {count}; the file was cut or edited"
            )
        if k == 1:
            vocab, symbol_of = _number_words(path, index)
            orders.append(_unigrams(section, symbol_of, len(vocab)))
        else:
            orders.append(_longer_ngrams(path, section, k, Tables(len(vocab), orders), symbol_of))
    if line.text.strip() != "\\end\\":
        raise InputError(f"{path}:{line.number}: expected \\end\\ but found {line.text.strip()!r}")
    for line in lines:
        raise InputError(f"{path}:{line.number}: {line.text.strip()!r} after \\end\\; remove it")
    return NGram(vocab, Tables(len(vocab), orders))


@dataclass
class _Section:
    """The entries of one section as they are in the file. G entries of order k."""

    name: str
    line_numbers: array = field(default_factory=lambda: array("q"))  # G
    log10_prob: array = field(default_factory=lambda: array("d"))  # G
    file_ids: array = field(default_factory=lambda: array("q"))  # G * k, numbered as the unigrams of the file
    log10_backoff: array = field(default_factory=lambda: array("d"))  # G


def _read_header(path: Path | str, lines: Iterator[Line]) -> tuple[list[int], Line]:
    """The counts of `\\data\\` and the line after them."""
    if not any(line.text.strip() == "\\data\\" for line in lines):
        raise InputError(f"{path}: there is no \\data\\ line; this is not an ARPA file")
    counts: list[int] = []
    for line in lines:
        text = line.text.strip()
        if text.startswith("\\"):
            if not counts:
                raise InputError(f"{path}:{line.number}: \\data\\ announces no n-grams; expected 'ngram 1=COUNT'")
            return counts, line
        name, _, count = text.partition("=")
        if name.split() != ["ngram", str(len(counts) + 1)] or not count.strip().isdecimal():
            raise InputError(f"{path}:{line.number}: in \\data\\: {text!r} is not 'ngram {len(counts) + 1}=COUNT'")
        counts.append(int(count[:18]))
    raise InputError(f"{path}: the file ends in \\data\\; it was cut short")


def _read_section(path: Path | str, lines: Iterator[Line], title: Line, k: int, index: dict[str, int]) -> tuple[_Section, Line]:
    """The entries below `title`, and the line that starts the next section."""
    section = _Section(title.text.strip())
    for line in lines:
        if line.text.startswith("\\"):
            _check_logarithms(path, section)
            return section, line
        fields = line.text.split()
        try:
            if not k + 1 <= len(fields) <= k + 2:
                raise ValueError(
                    f"{line.text.strip()!r} has {len(fields)} fields; expected LOG10_PROB, {k} words, [LOG10_BACKOFF]"
                )
            section.line_numbers.append(line.number)
            section.log10_prob.append(float(fields[0]))
            section.log10_backoff.append(float(fields[-1]) if len(fields) == k + 2 else 0.0)
            if k == 1 and index.setdefault(fields[1], len(index)) < len(section.line_numbers) - 1:
                raise ValueError(f"the word {fields[1]!r} is listed twice; remove one")
            section.file_ids.extend([index[word] for word in fields[1 : k + 1]])
        except KeyError as error:
            raise InputError(f"{path}:{line.number}: in {section.name} the word {error} is not among the 1-grams") from None
        except ValueError as error:
            raise InputError(f"{path}:{line.number}: in {section.name} {error}") from None
    raise InputError(f"{path}: the file ends in {section.name} without \\end\\; it was cut short")


def _check_logarithms(path: Path | str, section: _Section) -> None:
    log10_prob_G, log10_backoff_G = np.array(section.log10_prob), np.array(section.log10_backoff)
    wrong = np.flatnonzero(~((log10_prob_G <= 0) & (log10_backoff_G < np.inf)))  # NaN is wrong too
    if len(wrong):
        raise InputError(
            f"{path}:{section.line_numbers[wrong[0]]}: in {section.name} {log10_prob_G[wrong[0]]:g} as log10 probability with "
            f"{log10_backoff_G[wrong[0]]:g} as log10 backoff; a probability is at most 1, a backoff finite"
        )


def _number_words(path: Path | str, index: dict[str, int]) -> tuple[Vocab, np.ndarray]:
    """The vocabulary of the unigrams, and the symbol that each unigram of the file is."""
    for marker in (START, END):
        if marker not in index:
            raise InputError(f"{path}: {marker} is not among the 1-grams; a model of sentences needs it (add '-99 {START}')")
    unk = "<UNK>" if "<UNK>" in index and UNK not in index else UNK
    if unk not in index:
        warnings.warn(f"{path}: has no {UNK}; words it does not know get log10 probability {LOG10_NO_UNK:g}", stacklevel=3)
    vocab = Vocab([UNK, *(word for word in index if word not in (unk, START, END))])
    symbols = {**vocab.index, unk: 0, START: len(vocab), END: len(vocab) + 1}
    return vocab, np.array([symbols[word] for word in index])


def _unigrams(section: _Section, symbol_of: np.ndarray, n_words: int) -> Order:
    log_prob_G = np.full(n_words + 2, LOG10_NO_UNK * LN10)
    log_prob_G[symbol_of] = np.array(section.log10_prob) * LN10
    log_prob_G[n_words] = -np.inf  # nothing is ever followed by the start of a sentence
    log_backoff_G = np.zeros(n_words + 2)
    log_backoff_G[symbol_of] = np.array(section.log10_backoff) * LN10
    return Order(np.arange(n_words + 2), log_prob_G, log_backoff_G)


def _longer_ngrams(path: Path | str, section: _Section, k: int, shorter: Tables, symbol_of: np.ndarray) -> Order:
    """The k-grams by rising key, given the orders below."""
    symbol_Gk = symbol_of[np.array(section.file_ids, np.int64).reshape(-1, k)]
    context_G = symbol_Gk[:, 0]
    for j in range(1, k - 1):
        context_G = shorter.find(j + 1, context_G, symbol_Gk[:, j])
    occurs_G = (symbol_Gk[:, 1:] != shorter.start).all(1) & (symbol_Gk[:, :-1] != shorter.end).all(1)
    missing = np.flatnonzero(occurs_G & (context_G == NOT_STORED))
    if len(missing):
        raise InputError(
            f"{path}:{section.line_numbers[missing[0]]}: in {section.name} the first {k - 1} words of this n-gram are not "
            f"among the {k - 1}-grams; every n-gram needs its context"
        )
    row = np.flatnonzero(occurs_G)
    key = context_G[row] * shorter.n_symbols + symbol_Gk[row, -1]
    sort = np.argsort(key, kind="stable")
    row, key = row[sort], key[sort]
    twice = np.flatnonzero(np.diff(key) == 0)
    if len(twice):
        first, second = (section.line_numbers[row[twice[0] + i]] for i in (0, 1))
        raise InputError(f"{path}:{second}: in {section.name} this n-gram was already on line {first}; remove one")
    return Order(key, np.array(section.log10_prob)[row] * LN10, np.array(section.log10_backoff)[row] * LN10)
