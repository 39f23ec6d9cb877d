"""`trf tune`: find the weights of the second pass on a development set."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import tyro

from trflm.cli.doctor import examined, warn
from trflm.cli.lists import Lists, load_models, note, tell
from trflm.cli.options import BF16, Device, File, Quiet, Threads, set_up
from trflm.cli.wer import rate_line
from trflm.errors import InputError
from trflm.ranges import Amount, Seed, Weight


def tune(
    lists: Annotated[Lists, tyro.conf.arg(name="")],
    lm: tyro.conf.UseAppendAction[list[str]],
    out: Path,
    *,
    ref: File | None = None,
    mapping: str = "none",
    oov_penalty: Weight | None = None,
    folds: Amount = 0,
    seed: Seed = 0,
    bf16: BF16 = False,
    device: Device = "cpu",
    threads: Threads = 0,
    quiet: Quiet = False,
) -> None:
    """Tune scale, word penalty, OOV penalty and interpolation weights for the fewest word errors.

    score = acoustic + scale * sum_k weight_k * (LM_k - OOV penalty * OOV words) + word penalty * words

    Args:
        ref: What was said, lines `UTT word word ...`; not needed if the lists carry it.
        lm: A model (run directory, saved model, ARPA file), or score:NAME for a score that the lists carry. Repeatable.
        out: A new directory for `trf rescore --rescorer`: models, weights, mapping. FILE.json: the weights alone.
        mapping: How recognised words become the models' words: none, ptb, or steps such as lower,clitics,table=FILE.
        oov_penalty: Fix the penalty of a word unknown to a model (natural log) instead of tuning it.
        folds: Also cross-validate over this number of folds: the honest figure where there is no second set.
        seed: Of the bootstrap interval.
    """
    set_up(threads)
    from trflm.deploy.rescorer import content_of, save_tuned
    from trflm.evaluation.figures import figures
    from trflm.evaluation.second_pass.combine import score_table, silent
    from trflm.evaluation.second_pass.lists import read_set
    from trflm.evaluation.second_pass.results import Baselines, tune_weights
    from trflm.text.mapping import parse_mapping

    # Everything is looked at before anything is scored.
    weights_only = out.suffix == ".json"
    if not out.absolute().parent.is_dir() or (out.exists() and (not weights_only or out.is_dir())):
        raise InputError(f"{out}: cannot be written; give a new name in a directory that exists")
    read = read_set(lists.files(ref), parse_mapping(mapping))
    if missing := [name for name in read.nbest.utterances if name not in read.references]:
        raise InputError(
            f"{lists.nbest}: {len(missing)} of {len(read.nbest)} utterances carry no reference, {missing[0]} is the first; "
            "say what was said by --ref"
        )
    if folds and not 2 <= folds <= len(read.nbest):
        raise InputError(f"--folds {folds}: give between 2 and the {len(read.nbest)} utterances, or 0 for none")
    models = load_models(lm, bf16, device)
    warn(lists.nbest, examined(read.nbest, models, mapping, lists.acoustic_is_cost, read.mapping, read.references))

    table = score_table(read, models, silent if quiet else tell)
    tuned = tune_weights(table, read, models, mapping, oov_penalty, folds, seed)
    tuned = replace(tuned, models=content_of(models))
    if weights_only:
        tuned.save(out)
    else:
        save_tuned(out, models, tuned)

    print(rate_line("without LM", figures(Baselines(read).without_lm, seed)))
    print(rate_line("tuned (on this set)", tuned.dev))
    if tuned.cross_validation is not None:
        print(rate_line(f"cross-validated ({folds} folds)", tuned.cross_validation.figures))
    weights = tuned.weights
    print(f"scale {weights.scale:.4g}, word penalty {weights.word_penalty:.4g}")
    for name, weight in weights.lms.items():
        print(f"weight {weight:.3f}, OOV penalty {weights.penalty_of(name):.4g}  {name}")
    how = f"--lm ... --weights {out}" if weights_only else f"--rescorer {out}"
    if not quiet:
        note(f"now rescore another set: trf rescore {how} --nbest ... --out DIR")
