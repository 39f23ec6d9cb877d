"""N-best lists of a simulated recogniser: every sentence is said, goes through the channel and is searched for.

Everything random is a function of the seed and the number of the sentence, so the lists do not depend on how many processes
make them.
"""

import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import numpy as np

from trflm.errors import InputError
from trflm.evaluation.nbest import ACOUSTIC, LM, NBestList
from trflm.simulate.search import Recogniser

ATTEMPTS = 20  # to be heard at all
_recogniser: Recogniser | None = None  # of a worker process, inherited from the one that started it


def simulate(
    sentences: Sequence[Sequence[str]], recogniser: Recogniser, n: int, seed: int, prefix: str = "utt", jobs: int = 1
) -> Iterator[NBestList]:
    """A list of up to n hypotheses for each sentence, in order: scores `acoustic`, the true log likelihood, `lm`, the prior."""
    global _recogniser  # noqa: PLW0603
    tasks = [(number, tuple(words), n, seed, f"{prefix}{number + 1:04d}") for number, words in enumerate(sentences)]
    _recogniser = recogniser
    try:
        yield from map(_one, tasks[:1])  # compiles before processes are made
        if jobs > 1:
            with ProcessPoolExecutor(jobs, multiprocessing.get_context("fork")) as pool:
                try:
                    yield from pool.map(_one, tasks[1:], chunksize=4)
                finally:  # whoever stops before the end does not wait for the rest
                    pool.shutdown(wait=False, cancel_futures=True)
        else:
            yield from map(_one, tasks[1:])
    except BrokenProcessPool as error:
        raise ChildProcessError(
            "a process that searched has ended before its time (out of memory, or killed); nothing is written. "
            "Start again, with fewer processes: --jobs 1"
        ) from error
    finally:
        _recogniser = None


def _one(task: tuple[int, tuple[str, ...], int, int, str]) -> NBestList:
    number, words, n, seed, utterance = task
    recogniser = _recogniser
    assert recogniser is not None
    lexicon = recogniser.lexicon
    rng = np.random.default_rng([seed, number])
    for _ in range(ATTEMPTS):  # a very short sentence may be deleted whole: then it is said again
        found = recogniser.recognise(recogniser.channel.corrupt(lexicon.say(words, rng), rng), n)
        if found:
            texts = [" ".join(lexicon.words[word] for word in string.words) for string in found]
            scores = {ACOUSTIC: np.array([s.acoustic for s in found]), LM: np.array([s.prior for s in found])}
            return NBestList(utterance, texts, scores, " ".join(words))
    raise InputError(f"{' '.join(words)!r}: nothing of it was heard in {ATTEMPTS} attempts; make the channel less noisy")
