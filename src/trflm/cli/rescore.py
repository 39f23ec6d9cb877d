"""`trf rescore`: choose the best hypotheses with the help of language models."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from trflm.cli.lists import Lists, load_models, note, tell
from trflm.cli.options import BF16, Quiet, Threads, set_up
from trflm.cli.wer import change_lines, comparison_line, rate_line
from trflm.errors import InputError

if TYPE_CHECKING:
    from trflm.evaluation.second_pass.results import SecondPassResult


def rescore(
    lists: Annotated[Lists, tyro.conf.arg(name="")],
    lm: tyro.conf.UseAppendAction[list[str]],
    out: Path,
    *,
    scale: float | None = None,
    weights: Path | None = None,
    ref: Path | None = None,
    word_penalty: float = 0.0,
    oov_penalty: float | None = None,
    mapping: str = "none",
    scores: bool = False,
    changes: int = 0,
    force: bool = False,
    seed: int = 0,
    bf16: BF16 = False,
    threads: Threads = 0,
    quiet: Quiet = False,
) -> None:
    """Rescore n-best lists with language models and write the best hypothesis of each utterance.

    score = acoustic + scale * sum_k weight_k * (LM_k - OOV penalty * OOV words) + word penalty * words

    Args:
        lm: A model (run directory, saved model, ARPA file), or score:NAME for a score that the lists carry. Repeatable.
        out: A new directory: best.txt, result.json, and scores.jsonl.gz with --scores.
        scale: Weight of the language models, shared equally by several. Or give --weights.
        weights: What `trf tune` wrote: scale, penalties, interpolation weights and text mapping.
        ref: What was said; with it word error rates are reported.
        word_penalty: With --scale: added for every word (natural log).
        oov_penalty: With --scale: taken off for every word unknown to a model; ln of the unknown word types if not given.
        mapping: With --scale: how recognised words become the models' words: none, ptb, lower,clitics,table=FILE, ...
        scores: Also write every hypothesis with all its scores.
        changes: With --ref, show the words that decided in this many of the most and least improved utterances.
        force: Report on the very set the weights were tuned on; every output is marked.
        seed: Of the bootstrap interval.
    """
    set_up(threads)
    from trflm.deploy.rescorer import content_of
    from trflm.evaluation.second_pass.combine import Rescored, default_weights, score_table, silent
    from trflm.evaluation.second_pass.lists import read_set
    from trflm.evaluation.second_pass.results import TUNED_HERE, result, write_result
    from trflm.evaluation.weights import for_models, load_weights
    from trflm.files.writer import write_directory
    from trflm.text.mapping import parse_mapping

    # Everything is looked at before anything is scored.
    if (scale is None) == (weights is None):
        raise InputError("give either --scale X or --weights FILE")
    if weights is not None and (word_penalty or oov_penalty is not None or mapping != "none"):
        raise InputError(
            f"--weights {weights}: holds penalties and mapping; leave out --word-penalty, --oov-penalty, --mapping"
        )
    if changes and ref is None:
        raise InputError("--changes needs --ref to count errors with")
    files = lists.files(ref)
    tuned = None if weights is None else load_weights(weights)
    models = load_models(lm, bf16)
    if tuned is None:
        assert scale is not None
        chosen, same = default_weights(models, [scale / len(lm)] * len(lm), word_penalty, oov_penalty), []
    else:
        chosen, mapping = for_models(tuned, dict.fromkeys(lm) | content_of(models), str(weights)), tuned.mapping
        same = tuned.same_content(files.contents)
    if same and not force:
        raise InputError(f"{same[0]}: the weights were tuned on this very file; report on another set, or say --force")
    if same:
        note(f"{same[0]}: {TUNED_HERE}")
    read = read_set(files, parse_mapping(mapping))

    with write_directory(out) as directory:
        table = score_table(read, models, silent if quiet else tell)
        rescored = Rescored(table, chosen)
        found = result(rescored, read, mapping, bool(same), seed)
        write_result(found, rescored, directory, scores)
    print("\n".join(result_lines(found, changes)) or f"{out}: best hypotheses of {found.utterances} utterances")


def result_lines(found: "SecondPassResult", changes: int) -> list[str]:
    """Word errors before and after, and the utterances that changed most; each line carries the warning, if there is one."""
    if found.wer is None or found.comparison is None or found.changed is None:
        return []
    lines = [
        *(rate_line(name, figures) for name, figures in found.wer.items()),
        f"rescored against first in the lists: {comparison_line(found.comparison)}",
        *change_lines(found.changed, changes),
    ]
    return [f"{found.warning}: {line}" for line in lines] if found.warning else lines
