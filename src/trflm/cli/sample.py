"""`trf sample`."""

import sys
import time
from typing import Annotated

import tyro

from trflm.cli.options import Model, Quiet, Threads, set_up
from trflm.ranges import Amount, Count, Seed

EVERY, STEP = 10.0, 50  # seconds between two lines on progress, and sentences: those drawn together come together
SHOWN_AFTER = 1.0  # seconds that a sentence waits for others to be written with


def sample(
    model: Model,
    *,
    n: Annotated[Count, tyro.conf.arg(name="n", aliases=["-n"], metavar="N", help="How many sentences.")] = 10,
    length: Annotated[Count | None, tyro.conf.arg(metavar="L", help="Sentences of L words only; else of any length.")] = None,
    seed: Annotated[Seed, tyro.conf.arg(metavar="S", help="The same seed gives the same sentences.")] = 1,
    burn_in: Annotated[Amount, tyro.conf.arg(metavar="B", help="Random fields: sweeps before a sentence is taken.")] = 50,
    threads: Threads = 0,
    quiet: Quiet = False,
) -> None:
    """Draw sentences from a model, one a line, each written soon after it is drawn.

    N-gram and LSTM models: word by word. Random fields: lengths come from the length distribution exactly, words by the
    Markov moves of training at that length. Each sentence has a chain of its own, started from the proposal, and is taken
    after B sweeps: no thinning is needed. Where the sentences do not go to a terminal, standard error says how far it is.
    """
    set_up(threads)
    from trflm.experiment.progress import clock
    from trflm.experiment.store import load_model

    told = not quiet and not sys.stdout.isatty()
    started = written = said = time.monotonic()
    for number, sentence in enumerate(load_model(model).samples(n, seed=seed, length=length, burn_in=burn_in), 1):
        print(sentence)
        now = time.monotonic()
        if now - written > SHOWN_AFTER:
            written = now
            sys.stdout.flush()
        if told and number % STEP == 0 and now - said > EVERY:
            said = now
            left = clock((now - started) / number * (n - number))
            print(f"{number:,} of {n:,} sentences, {left} left", file=sys.stderr)
