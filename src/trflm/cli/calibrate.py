"""`trf calibrate`."""

import sys
from pathlib import Path
from typing import Annotated

import tyro

from trflm.cli.options import Model, Quiet, Threads, set_up
from trflm.cli.perplexity import share, tell
from trflm.errors import InputError
from trflm.ranges import NotNegative, Seed


def calibrate(
    model: Model,
    *,
    out: Annotated[Path, tyro.conf.arg(metavar="DIR", help="Where the calibrated model goes; it must not be there yet.")],
    minutes: Annotated[NotNegative, tyro.conf.arg(metavar="X", help="Work at most so long.")] = 20.0,
    gap: Annotated[str, tyro.conf.arg(metavar="SHARE", help="Stop when perplexity is known as narrowly.")] = "2%",
    method: Annotated[
        str, tyro.conf.arg(metavar="HOW", help="smc (sequential Monte Carlo), ais (annealed) or is (plain).")
    ] = "smc",
    seed: Annotated[Seed, tyro.conf.arg(metavar="S", help="Of the random numbers.")] = 1,
    threads: Threads = 0,
    quiet: Quiet = False,
) -> None:
    """Write a random field with zeta from estimates of its normalising constants.

    A learner such as NCE leaves log Z_l where its loss does not feel it. The copy in DIR differs in zeta alone: sentences
    of one length keep their order, those of different lengths become comparable. Printed for every length of training:
    words, zeta as it was, zeta as it is now (of the last field, if there are snapshots).
    """
    set_up(threads)
    from trflm.evaluation.calibrate import calibrate as measure
    from trflm.evaluation.effort import Effort
    from trflm.experiment.calibrated import refuse_existing, write_calibrated
    from trflm.experiment.store import load_model
    from trflm.field.snapshots import FieldModel
    from trflm.sampling.estimators import by_kind

    try:
        effort = Effort(minutes, share(gap), seed=seed)
    except ValueError as error:
        raise InputError(f"--minutes, --gap, --seed: {error}") from error
    refuse_existing(out)
    lm = load_model(model)
    if not isinstance(lm, FieldModel):
        raise InputError(f"{model}: is normalised already; only a random field can be calibrated")

    def show(rounds: int, gaps: list[float]) -> None:
        if not quiet:
            tell(f"round {rounds}  perplexity known to {100 * max(gaps):.1f} %")

    found = measure(lm, by_kind(method), effort, show, (lambda line: None) if quiet else tell)
    how = {"how": found.how, "rounds": found.rounds, "minutes": found.minutes, "gaps": found.gaps, "seed": seed}
    write_calibrated(model, out, found.zetas, how)
    last = lm.fields[-1]
    for length in range(1, last.max_length + 1):
        if last.pi[length] > 0:
            print(f"{length}\t{float(last.zeta[length]):.3f}\t{float(found.zetas[-1][length]):.3f}")
    if found.interrupted:
        sys.exit(130)
