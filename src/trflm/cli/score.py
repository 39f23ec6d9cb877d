"""`trf score`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import tyro

from trflm.cli.options import BF16, Device, Model, Quiet, Text, Threads, set_up

if TYPE_CHECKING:
    from trflm.language_model import LanguageModel

AT_ONCE = 1024  # lines of a file; of a pipe, as many as have come


def score(
    model: Model,
    text: Text = "-",
    *,
    per_word: Annotated[bool, tyro.conf.arg(help="Also what each word and the rest (end, length) add; they sum up.")] = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json", help="One JSON object a sentence.")] = False,
    bf16: BF16 = False,
    device: Device = "cpu",
    threads: Threads = 0,
    quiet: Quiet = False,
) -> None:
    """Print the natural-log probability of each sentence: one line for every line of the text, as soon as it is read.

    An empty line gets a line too, with the score of a sentence without words: ln 0.00001 = -11.512925.
    """
    set_up(threads)
    from trflm.experiment.store import load_model

    lm = load_model(model, bf16, device)
    counts = Counts()
    for lines in pieces(text):
        for line in score_lines(lm, lines, per_word, as_json, counts):
            sys.stdout.write(line + "\n")
        sys.stdout.flush()
    if not quiet:
        counts.warn(text)
    if not counts.lines:
        from trflm.errors import InputError

        raise InputError(f"{text}: there is no sentence to read")


class Counts:
    """What the scores rest on that a user should know of."""

    def __init__(self) -> None:
        self.lines = self.empty = self.words = self.unknown = 0
        self.cautions: dict[str, int] = {}

    def warn(self, text: str) -> None:
        if self.empty:
            print(f"trf: {text}: {self.empty} empty lines, scored as sentences without words", file=sys.stderr)
        if self.unknown:
            print(
                f"trf: {text}: {self.unknown} of {self.words} words are not in the vocabulary: scored as <unk>", file=sys.stderr
            )
        for caution, count in self.cautions.items():
            print(f"trf: {text}: {count} {caution}", file=sys.stderr)


def pieces(text: str) -> Iterator[list[str]]:
    """The lines of a text, some at a time. Of stdin what has come is not kept waiting for what may follow."""
    from trflm.files.reader import available_lines, read_lines

    if text == "-":
        yield from ([line.text for line in some] for some in available_lines())
        return
    some: list[str] = []
    for line in read_lines(text):
        some.append(line.text)
        if len(some) == AT_ONCE:
            yield some
            some = []
    yield some


def score_lines(lm: LanguageModel, lines: list[str], per_word: bool, as_json: bool, counts: Counts) -> Iterator[str]:
    """A line of output for each."""
    from trflm.evaluation.second_pass.scores import EMPTY_LOG_PROB

    texts = [line for line in lines if line.split()]
    counts.lines, counts.empty = counts.lines + len(lines), counts.empty + len(lines) - len(texts)
    rows = iter(())
    if texts:
        batch = lm.vocab.batch(texts)
        counts.words, counts.unknown = counts.words + batch.n_words, counts.unknown + int((batch.ids_N == 0).sum())
        for caution in lm.cautions(batch):
            count, _, rest = caution.partition(" ")
            counts.cautions[rest] = counts.cautions.get(rest, 0) + int(count)
        rows = explained(lm, batch, per_word, as_json) if per_word or as_json else plain(lm, batch)
    for line in lines:
        if line.split():
            yield next(rows)
        elif as_json:
            row = {"log_prob": EMPTY_LOG_PROB, "n_words": 0, "n_unk": 0}
            yield json.dumps({**row, **({"words": [], "word_scores": [], "rest": EMPTY_LOG_PROB} if per_word else {})})
        else:
            yield "\t".join([f"{EMPTY_LOG_PROB:.6f}"] * (2 if per_word else 1))


def plain(lm: LanguageModel, batch) -> Iterator[str]:
    return (f"{value:.6f}" for value in lm.log_prob(batch).tolist())


def explained(lm: LanguageModel, batch, per_word: bool, as_json: bool) -> Iterator[str]:
    explanation = lm.explain(batch)
    total_B = (batch.sum_words(explanation.word_N) + explanation.rest_B).tolist()
    by_sentence = explanation.word_N.split(batch.lengths_B.tolist())
    for b, (ids, values) in enumerate(zip(batch.ids_N.split(batch.lengths_B.tolist()), by_sentence, strict=True)):
        rest = float(explanation.rest_B[b])
        if as_json:
            words = lm.vocab.decode(ids.tolist()).split()
            row = {"log_prob": total_B[b], "n_words": len(words), "n_unk": int((ids == 0).sum())}
            if per_word:
                row |= {"words": words, "word_scores": values.tolist(), "rest": rest}
            yield json.dumps(row, ensure_ascii=False)
        else:
            yield "\t".join([f"{total_B[b]:.6f}", *(f"{value:.6f}" for value in values.tolist()), f"{rest:.6f}"])
