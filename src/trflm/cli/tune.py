"""`trf tune`: find the weights of the second pass on a development set."""

from pathlib import Path
from typing import Annotated, Any

import tyro

from trflm.cli.lists import Lists, load_models, note, score_table
from trflm.cli.options import BF16, Quiet, Threads, set_up
from trflm.cli.wer import figures, rate_line
from trflm.errors import InputError


def tune(
    lists: Annotated[Lists, tyro.conf.arg(name="")],
    ref: Path,
    lm: tyro.conf.UseAppendAction[list[str]],
    out: Path,
    *,
    mapping: str = "none",
    oov_penalty: float | None = None,
    folds: int = 0,
    seed: int = 0,
    bf16: BF16 = False,
    threads: Threads = 0,
    quiet: Quiet = False,
) -> None:
    """Tune scale, word penalty, OOV penalty and interpolation weights for the fewest word errors.

    score = acoustic + scale * sum_k weight_k * (LM_k - OOV penalty * OOV words) + word penalty * words

    Args:
        ref: What was said, lines `UTT word word ...`.
        lm: A model (run directory, saved model, ARPA file), or score:NAME for a score that the lists carry. Repeatable.
        out: Where the weights go (JSON), for `trf rescore --weights`.
        mapping: How recognised words become the models' words: none, ptb, or steps such as lower,clitics,table=FILE.
        oov_penalty: Fix the penalty of a word unknown to a model (natural log) instead of tuning it.
        folds: Also cross-validate over this number of folds: the honest figure where there is no second set.
        seed: Of the bootstrap interval.
    """
    set_up(threads)
    from trflm.evaluation.alignment import nbest_errors
    from trflm.evaluation.nbest import NBest
    from trflm.evaluation.rescore import require_acoustic
    from trflm.evaluation.transcripts import match_utterances, read_transcripts
    from trflm.evaluation.tune import cross_validate
    from trflm.evaluation.tune import tune as search
    from trflm.evaluation.weights import TunedWeights, content_hash
    from trflm.evaluation.wer import word_error_rate
    from trflm.text.mapping import parse_mapping

    # Everything is looked at before anything is scored.
    parse_mapping(mapping)
    if not out.parent.is_dir() or out.is_dir():
        raise InputError(f"{out}: cannot be written; give a file in a directory that exists")
    references = read_transcripts(ref)
    nbest = NBest.collect(lists.read())
    require_acoustic(nbest)
    match_utterances(nbest.utterances, references, str(lists.nbest), str(ref))
    if folds and not 2 <= folds <= len(nbest):
        raise InputError(f"--folds {folds}: give between 2 and the {len(nbest)} utterances, or 0 for none")
    files = {**lists.files(), "ref": ref}
    tuned_on = {role: {"path": str(path), "sha256": content_hash(path)} for role, path in files.items()}
    models = load_models(lm, bf16)

    errors_H = nbest_errors(nbest, references)
    acoustic_H = nbest.scores["acoustic"]
    if errors_H[nbest.best(acoustic_H)].sum() > errors_H[nbest.best(-acoustic_H)].sum():
        note(
            f"{lists.nbest}: the lowest acoustic scores lead to fewer errors than the highest; "
            "are they costs (--acoustic-is-cost)?"
        )
    table = score_table(nbest, models, mapping, quiet)
    tuned = search(table, references, oov_penalty)

    def rate(chosen_U: Any) -> dict[str, Any]:
        return figures(word_error_rate(nbest.transcripts(chosen_U), references), seed)

    dev = rate(nbest.best(table.combine(tuned.weights)))
    validated: dict[str, Any] = {}
    if folds:
        validated = {"folds": folds, **rate(cross_validate(table, references, folds, oov_penalty).chosen_U)}
    TunedWeights(tuned.weights, mapping, dev, tuned_on, tuned.scale_curve, validated).save(out)

    print(rate_line("without LM", rate(nbest.best(acoustic_H))))
    print(rate_line("tuned (on this set)", dev))
    if folds:
        print(rate_line(f"cross-validated ({folds} folds)", validated))
    weights = tuned.weights
    print(f"scale {weights.scale:.4g}, word penalty {weights.word_penalty:.4g}, OOV penalty {weights.oov_penalty:.4g}")
    for name, weight in weights.lms.items():
        print(f"weight {weight:.3f}  {name}")
