"""`trf sample`."""

from typing import Annotated

import tyro

from trflm.cli.options import Model, Threads, set_up
from trflm.ranges import Amount, Count, Seed


def sample(
    model: Model,
    *,
    n: Annotated[Count, tyro.conf.arg(name="n", aliases=["-n"], metavar="N", help="How many sentences.")] = 10,
    length: Annotated[Count | None, tyro.conf.arg(metavar="L", help="Sentences of L words only; else of any length.")] = None,
    seed: Annotated[Seed, tyro.conf.arg(metavar="S", help="The same seed gives the same sentences.")] = 1,
    burn_in: Annotated[Amount, tyro.conf.arg(metavar="B", help="Random fields: sweeps before a sentence is taken.")] = 50,
    threads: Threads = 0,
) -> None:
    """Draw sentences from a model, one a line.

    N-gram and LSTM models: word by word. Random fields: lengths come from the length distribution exactly, words by the
    Markov moves of training at that length. Each sentence has a chain of its own, started from the proposal, and is taken
    after B sweeps: no thinning is needed.
    """
    set_up(threads)
    from trflm.experiment.store import load_model

    for sentence in load_model(model).sample(n, seed=seed, length=length, burn_in=burn_in):
        print(sentence)
