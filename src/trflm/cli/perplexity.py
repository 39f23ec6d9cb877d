"""`trf perplexity`."""

import json
from typing import Annotated

import tyro

from trflm.cli.options import Model, Quiet, Threads, set_up
from trflm.cli.score import warn_about
from trflm.errors import InputError


def perplexity(
    model: Model,
    text: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TEXT", help="One sentence a line; - is stdin.")],
    *,
    preserve: Annotated[
        bool, tyro.conf.arg(help="LSTM: read the text in order, the state carried on from sentence to sentence.")
    ] = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json", help="One JSON object.")] = False,
    threads: Threads = 0,
    quiet: Quiet = False,
) -> None:
    """Print the perplexity of a text: exp(-log p / (words + sentences)), the ends of sentences counted.

    Exact for n-gram and LSTM models. An LSTM starts every sentence from the zero state, unless --preserve: then it reads
    the text as in training (by 20 streams), which is how the literature reports it.
    """
    set_up(threads)
    from trflm.evaluation.perplexity import perplexity as measure
    from trflm.experiment.store import load_model
    from trflm.text import read_corpus

    lm = load_model(model)
    if not lm.normalised:
        raise InputError(
            f"{model}: a random field is normalised by an estimate only, and an interval for its perplexity is not available "
            "yet; give an n-gram or LSTM model, or compare by word error rates"
        )
    if preserve:
        if "preserve" not in lm.in_order():
            raise InputError(f"{model}: --preserve is for LSTM models; leave it out")
        lm = lm.in_order()["preserve"]
    corpus = read_corpus(text, lm.vocab)
    if not quiet:
        warn_about(corpus, lm)
    measured = measure(lm, corpus.sentences.long())
    row = {
        "perplexity": measured.perplexity,
        "log_prob": measured.log_prob,
        "sentences": measured.sentences,
        "words": measured.words,
        "unk": corpus.unknown_words,
    }
    if as_json:
        print(json.dumps(row))
    else:
        for name, value in row.items():
            print(f"{name:<10}  {value:.3f}" if isinstance(value, float) else f"{name:<10}  {value}")
