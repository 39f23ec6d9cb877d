"""`trf score`."""

import json
import sys
from typing import Annotated

import tyro

from trflm.cli.options import BF16, Model, Quiet, Text, Threads, set_up


def score(
    model: Model,
    text: Text = "-",
    *,
    per_word: Annotated[bool, tyro.conf.arg(help="Also what each word and the rest (end, length) add; they sum up.")] = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json", help="One JSON object a sentence.")] = False,
    bf16: BF16 = False,
    threads: Threads = 0,
    quiet: Quiet = False,
) -> None:
    """Print the natural-log probability of each sentence, one a line."""
    set_up(threads)
    from trflm.experiment.store import load_model
    from trflm.text import read_corpus

    lm = load_model(model, bf16)
    corpus = read_corpus(text, lm.vocab)
    if not quiet:
        warn_about(corpus, lm)
    batch = corpus.sentences.long()
    if not (per_word or as_json):
        sys.stdout.writelines(f"{value:.6f}\n" for value in lm.log_prob(batch).tolist())
        return
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
            print(json.dumps(row, ensure_ascii=False))
        else:
            print(f"{total_B[b]:.6f}", *(f"{value:.6f}" for value in values.tolist()), f"{rest:.6f}", sep="\t")


def warn_about(corpus, lm) -> None:
    """What the scores rest on that a user should know of."""
    unknown, words = corpus.unknown_words, corpus.sentences.n_words
    if corpus.empty_lines:
        print(f"trf: {corpus.path}: {corpus.empty_lines} empty lines skipped", file=sys.stderr)
    if unknown:
        print(f"trf: {corpus.path}: {unknown} of {words} words are not in the vocabulary: scored as <unk>", file=sys.stderr)
    for caution in lm.cautions(corpus.sentences):
        print(f"trf: {corpus.path}: {caution}", file=sys.stderr)
