"""`trf rescore`: choose the best hypotheses with the help of language models."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from trflm.cli.lists import Lists, load_models, note, score_table
from trflm.cli.options import BF16, Quiet, Threads, set_up
from trflm.cli.wer import change_lines, comparison_line, figures, rate_line
from trflm.errors import InputError

if TYPE_CHECKING:
    from trflm.evaluation.nbest import NBest
    from trflm.evaluation.rescore import Rescored, ScoreTable
    from trflm.evaluation.weights import TunedWeights, Weights

TUNED_HERE = "tuned on the set that is reported: these figures are too good"
MARK = "tuned-on-this-set."  # begins the name of every file written in that case


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
    from trflm.evaluation.nbest import NBest
    from trflm.evaluation.rescore import Rescored, require_acoustic
    from trflm.evaluation.transcripts import match_utterances, read_transcripts
    from trflm.evaluation.weights import Weights, for_models, load_weights
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
    tuned = None if weights is None else load_weights(weights)
    mapping = mapping if tuned is None else tuned.mapping
    parse_mapping(mapping)
    tuned_here = tuned is not None and _tuned_here(tuned, lists, ref, force)
    references = None if ref is None else read_transcripts(ref)
    nbest = NBest.collect(lists.read())
    require_acoustic(nbest)
    if references is not None:
        match_utterances(nbest.utterances, references, str(lists.nbest), str(ref))
    chosen = None if tuned is None else for_models(tuned, lm, str(weights))
    models = load_models(lm, bf16)

    with write_directory(out) as directory:
        table = score_table(nbest, models, mapping, quiet)
        if chosen is None:
            assert scale is not None
            penalty = table.default_oov_penalty if oov_penalty is None else oov_penalty
            chosen = Weights(dict.fromkeys(lm, 1 / len(lm)), scale, word_penalty, penalty)
        rescored = Rescored(table, chosen, table.combine(chosen))
        record = _describe(lists, ref, table, chosen, mapping)
        lines: list[str] = []
        if references is not None:
            lines = _report(rescored, references, record, seed, changes)
        if tuned_here:
            record = {"warning": TUNED_HERE, **record}
            lines = [f"{TUNED_HERE}: {line}" for line in lines]
        _write(directory, MARK if tuned_here else "", rescored, record, scores)
    print("\n".join(lines or [f"{out}: best hypotheses of {len(nbest)} utterances"]))


def _tuned_here(tuned: "TunedWeights", lists: Lists, ref: Path | None, force: bool) -> bool:
    from trflm.evaluation.weights import same_files

    same = same_files(tuned, {"nbest": lists.nbest, **({} if ref is None else {"ref": ref})})
    if same and not force:
        raise InputError(f"{same[0]}: the weights were tuned on this very file; report on another set, or say --force")
    if same:
        note(f"{same[0]}: {TUNED_HERE}")
    return bool(same)


def _describe(lists: Lists, ref: Path | None, table: "ScoreTable", weights: "Weights", mapping: str) -> dict[str, Any]:
    from trflm.evaluation.weights import content_hash

    files = {**lists.files(), **({} if ref is None else {"ref": ref})}
    nbest = table.nbest
    return {
        "files": {role: {"path": str(path), "sha256": content_hash(path)} for role, path in files.items()},
        "weights": asdict(weights),
        "mapping": mapping,
        "utterances": len(nbest),
        "hypotheses": nbest.n_hypotheses,
        "oov_words_per_hypothesis": {name: float(scores.oov_H.mean()) for name, scores in table.lms.items()},
        "oov_types": {name: len(scores.oov_types) for name, scores in table.lms.items()},
    }


def _report(rescored: "Rescored", references: dict[str, str], record: dict[str, Any], seed: int, count: int) -> list[str]:
    """Word errors before and after into the record, and as lines to print."""
    from trflm.evaluation.alignment import nbest_errors
    from trflm.evaluation.changes import changes
    from trflm.evaluation.significance import compare
    from trflm.evaluation.wer import word_error_rate

    nbest = rescored.table.nbest
    starts_U = nbest.hyp_starts_U1[:-1]
    choices = {
        "first in the lists": starts_U,
        "without LM": nbest.best(rescored.table.acoustic_H),
        "rescored": rescored.chosen_U,
        "oracle": nbest.best(-nbest_errors(nbest, references)),
    }
    errors = {name: word_error_rate(nbest.transcripts(chosen_U), references) for name, chosen_U in choices.items()}
    record["wer"] = {name: figures(result, seed) for name, result in errors.items()}
    comparison = asdict(compare(errors["first in the lists"], errors["rescored"], seed))
    record["rescored against first in the lists"] = comparison
    found = changes(errors["first in the lists"], errors["rescored"])
    place = {utterance: u for u, utterance in enumerate(nbest.utterances)}
    record["changed"] = []
    for change in found:
        u = place[change.utterance]
        before, now = rescored.parts(int(starts_U[u])), rescored.parts(int(rescored.chosen_U[u]))
        gains = {term: now[term] - before[term] for term in now}  # the terms that decided, in nats
        record["changed"].append({**asdict(change), "score_gains": gains})
    rates = [rate_line(name, figure) for name, figure in record["wer"].items()]
    return [*rates, f"rescored against first in the lists: {comparison_line(comparison)}", *change_lines(found, count)]


def _write(directory: Path, mark: str, rescored: "Rescored", record: dict[str, Any], scores: bool) -> None:
    from trflm.evaluation.formats import write_jsonl
    from trflm.evaluation.transcripts import write_transcripts
    from trflm.files.writer import write_text

    write_transcripts(rescored.best(), directory / f"{mark}best.txt")
    if scores:
        write_jsonl(_with_scores(rescored), directory / f"{mark}scores.jsonl.gz")
        record["scores"] = {f"lm{k}": name for k, name in enumerate(rescored.table.lms, 1)}
    with write_text(directory / f"{mark}result.json") as file:
        json.dump(record, file, indent=2)
        file.write("\n")


def _with_scores(rescored: "Rescored") -> "NBest":
    """The lists with one more score a model (`lm1`, `lm2`, ... or as the lists named them) and the total."""
    added = {f"lm{k}": scores.log_prob_H for k, scores in enumerate(rescored.table.lms.values(), 1)}
    nbest = rescored.table.nbest
    return replace(nbest, scores={**nbest.scores, **added, "total": rescored.score_H})
