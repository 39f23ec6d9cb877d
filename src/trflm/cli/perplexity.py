"""`trf perplexity`."""

import json
import math
import sys
from typing import TYPE_CHECKING, Annotated

import tyro

from trflm.cli.options import Model, Quiet, Threads, set_up
from trflm.errors import InputError
from trflm.ranges import Amount, NotNegative, Seed

if TYPE_CHECKING:
    from trflm.evaluation.perplexity import Perplexity


def perplexity(
    model: Model,
    text: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TEXT", help="One sentence a line; - is stdin.")],
    *,
    minutes: Annotated[NotNegative, tyro.conf.arg(metavar="X", help="Random fields: work at most so long.")] = 20.0,
    gap: Annotated[str, tyro.conf.arg(metavar="SHARE", help="Random fields: stop when the interval is as narrow.")] = "2%",
    method: Annotated[
        str, tyro.conf.arg(metavar="HOW", help="Random fields: smc (sequential Monte Carlo), ais (annealed) or is (plain).")
    ] = "smc",
    check: Annotated[
        str,
        tyro.conf.arg(
            metavar="HOW", help="Random fields: another method that checks the first; its first round is always made."
        ),
    ] = "none",
    burn_in: Annotated[
        Amount, tyro.conf.arg(metavar="B", help="Random fields: sweeps before a sentence is taken as a sample.")
    ] = 10,
    preserve: Annotated[
        bool, tyro.conf.arg(help="LSTM: read the text in order, the state carried on from sentence to sentence.")
    ] = False,
    as_json: Annotated[bool, tyro.conf.arg(name="json", help="One JSON object.")] = False,
    seed: Annotated[Seed, tyro.conf.arg(metavar="S", help="Of the random numbers.")] = 1,
    threads: Threads = 0,
    quiet: Quiet = False,
) -> None:
    """Print the perplexity of a text: exp(-log p / (words + sentences)), the ends of sentences counted.

    A number for n-gram and LSTM models. An LSTM starts every sentence from the zero state, unless --preserve: then it reads
    the text as in training (by 20 streams), which is how the literature reports it.

    An interval for a random field, whose normalising constants are estimated. That the perplexity is at least the lower end is
    proven, but for a chance of 5 %, however short the work was. The upper end is proven for exact samples of the field only;
    the samples are those of Markov chains, so it is a diagnostic. With snapshots it is the mean of their perplexities. With
    --check a second method gets a quarter of the time; both are printed, and whether they agree. Ctrl-C prints what is known so
    far. The last line is `perplexity LOW HIGH`.
    """
    set_up(threads)
    from trflm.evaluation.effort import Effort
    from trflm.evaluation.perplexity import perplexity as measure
    from trflm.experiment.store import load_model
    from trflm.sampling.estimators import by_kind
    from trflm.text import read_corpus

    try:
        effort = Effort(minutes, share(gap), burn_in, seed=seed)
    except ValueError as error:
        raise InputError(f"--minutes, --gap, --burn-in, --seed: {error}") from error
    lm = load_model(model)
    if preserve:
        if "preserve" not in lm.in_order():
            raise InputError(f"{model}: --preserve is for LSTM models; leave it out")
        lm = lm.in_order()["preserve"]
    corpus = read_corpus(text, lm.vocab)
    if not quiet:
        warn_about(corpus, lm)
    watch, say = (show, tell) if not quiet else (lambda so_far: None, lambda line: None)
    found = measure(
        lm,
        corpus.sentences.long(),
        by_kind(method),
        effort,
        watch,
        say,
        None if check == "none" else by_kind(check, "--check"),
    )
    row = {**(exact_rows(found) if lm.normalised else field_rows(found)), "unk": corpus.unknown_words}
    if as_json:
        print(json.dumps({**row, "low": found.low, "high": found.high, "how": found.how, **check_rows(found)}))
    else:
        width = max(10, *map(len, row))
        for name, value in row.items():
            print(f"{name:<{width}}  {value:.3f}" if isinstance(value, float) else f"{name:<{width}}  {value}")
        if not lm.normalised:
            print(explanation(found))
        print(f"perplexity {found.low:.3f} {found.high:.3f}")
    if found.interrupted:
        sys.exit(130)


def share(text: str) -> float:
    """2% or 0.02."""
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise InputError(f"--gap {text}: give a share such as 2% or 0.02; 0 works on as long as --minutes allows")
    return value


def exact_rows(found: "Perplexity") -> dict[str, object]:
    rows = {"perplexity": found.perplexity, "log_prob": found.log_prob}
    return {**rows, "sentences": found.sentences, "words": found.words}


def field_rows(found: "Perplexity") -> dict[str, object]:
    return {
        "at least": found.low,
        "at most": found.high,
        "estimate": found.estimate,
        "by its own zeta": found.perplexity,
        "sentences": found.sentences,
        "words": found.words,
        "counted": found.words + found.sentences,
        "lengths never seen": list(found.unseen),
        "rounds": found.rounds,
        "minutes": found.minutes,
        "burn-in": found.burn_in,
        "closing": found.closing,
    }


def check_rows(found: "Perplexity") -> dict[str, object]:
    if (other := found.check) is None:
        return {}
    rows = {"low": other.low, "high": other.high, "estimate": other.estimate, "rounds": other.rounds, "how": other.how}
    return {"check": {**rows, "agrees": not found.disagrees}}


def explanation(found: "Perplexity") -> str:
    """What is proven, and what is not."""
    if found.is_exact:
        return "exact: all sentences of these lengths were summed over"
    parts = [
        f"method: {found.how}",
        f"proposal: {found.pulled} sweeps of learning to follow the field" if found.pulled else "proposal: as it was trained",
        "at least: proven, but for a chance of 5 %",
        f"at most: a diagnostic; proven if the samples after {found.burn_in} sweeps were exact",
    ]
    if found.closing is not None:
        parts.append(f"the ends come together as work^{found.closing:.2f}")
    if (other := found.check) is not None:
        verdict = "THEY DISAGREE, one of the two is wrong; give both more --minutes" if found.disagrees else "they agree"
        parts.append(f"checked by {other.how}: {other.low:.3f} to {other.high:.3f}, estimate {other.estimate:.3f}; {verdict}")
    if found.unseen:
        parts.append(f"lengths never seen in training, with pi floored: {', '.join(map(str, found.unseen))}")
    if found.interrupted:
        parts.append("interrupted: what was known by then")
    return "\n".join(parts)


def show(found: "Perplexity") -> None:
    """Progress: the interval as it narrows."""
    print(
        f"{found.minutes:6.2f} min  round {found.rounds}  perplexity {found.low:.2f} to {found.high:.2f} "
        f"({100 * found.gap:.1f} %)  estimate {found.estimate:.2f}  by its own zeta {found.perplexity:.2f}",
        file=sys.stderr,
        flush=True,
    )


def tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def warn_about(corpus, lm) -> None:
    """What the figures rest on that a user should know of."""
    unknown, words = corpus.unknown_words, corpus.sentences.n_words
    if corpus.empty_lines:
        print(f"trf: {corpus.path}: {corpus.empty_lines} empty lines skipped", file=sys.stderr)
    if unknown:
        print(f"trf: {corpus.path}: {unknown} of {words} words are not in the vocabulary: scored as <unk>", file=sys.stderr)
    for caution in lm.cautions(corpus.sentences):
        print(f"trf: {corpus.path}: {caution}", file=sys.stderr)
