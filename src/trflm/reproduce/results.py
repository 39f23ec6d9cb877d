"""All rows of a table, one after another. results.json, results.md and report.html are renewed after every row, so an
interrupted run leaves what it has done, and the next one goes on from there.
"""

import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from trflm.errors import InputError, TrainingError
from trflm.evaluation.alignment import nbest_errors
from trflm.evaluation.oracle import oracle
from trflm.evaluation.wer import WordErrors, word_error_rate
from trflm.experiment.directory import provenance
from trflm.experiment.progress import Progress
from trflm.files.writer import write_text
from trflm.reproduce.markdown import markdown
from trflm.reproduce.models import NotAvailable, Source, check_recipes, ensure_model, metrics
from trflm.reproduce.page import page
from trflm.reproduce.plan import Plan, Row
from trflm.reproduce.row import Evaluation, Model, against
from trflm.reproduce.scores import Lists, read_set

CURVES = ("dev_log_likelihood", "dev_nll", "kl", "dev_perplexity", "dev_loss", "loss")


def reproduce(
    plan: Plan,
    rows: list[Row],
    data: Path,
    source: Source,
    seed: int,
    progress: Callable[[], Progress],
    perplexity_minutes: float = 0.0,
) -> dict[str, Any]:
    """Make the rows and write the tables into `source.out`; the results are returned as they are stored."""
    say = progress().say
    # 1. Everything that can be wrong is looked at before anything is trained.
    text = data / plan.text.test
    for file in (data / plan.text.train, data / plan.text.valid, text):
        if not file.exists():
            raise InputError(f"{file}: there is no such file; is --data right?")
    wanted = list(dict.fromkeys(name for row in rows for name in (row.models or (row.name,))))
    check_recipes(wanted, source)
    say("reading the n-best lists")
    dev, test = (
        read_set(name, data / of.nbest, data / of.acoustic, data / of.ref, of.costs, plan.text.mapping)
        for name, of in (("dev", plan.dev), ("test", plan.test))
    )
    if dev.hashed == test.hashed:
        raise InputError("the dev and the test lists are the same: weights are never tuned on the set that is reported")
    evaluation = Evaluation(dev, test, text, source.out / "scores", seed, say, perplexity_minutes)
    results: dict[str, Any] = {
        "title": plan.title,
        "about": plan.about,
        "baseline": plan.baseline,
        "seed": seed,
        "made": {**provenance(), "processor": platform.processor(), "date": time.strftime("%Y-%m-%d")},
        "lists": {lists.name: describe(lists) for lists in (dev, test)},
        "references": references(evaluation),
        "rows": [],
    }
    # 2. Row by row.
    source.out.mkdir(parents=True, exist_ok=True)
    models: dict[str, Model] = {}
    errors: dict[str, WordErrors] = {}
    for row in rows:
        record: dict[str, Any] = {"name": row.name, "label": row.label, "paper": vars(row.paper), "status": "done"}
        try:
            if row.models:
                found, errors[row.name] = _combined(row, models, evaluation, source, progress)
                record |= found
            else:
                run = ensure_model(row.name, source, progress())
                found, models[row.name], errors[row.name] = evaluation.single(row.name, run, row.name in plan.strategies)
                record |= {**found, "curves": curves(run)}
            if plan.baseline in errors and plan.baseline != row.name:
                record["against_baseline"] = against(evaluation, errors[plan.baseline], errors[row.name])
        except NotAvailable as reason:
            record |= {"status": "not available", "reason": str(reason)}
        except (TrainingError, InputError) as reason:  # one bad row does not cost the others
            record |= {"status": "failed", "reason": str(reason)}
        results["rows"].append(record)
        say(
            f"{row.name}: "
            + (f"WER {record['wer']['wer']:.2%}" if "wer" in record else f"{record['status']}: {record['reason']}")
        )
        write(results, source.out)
    return results


def _combined(
    row: Row, models: dict[str, Model], evaluation: Evaluation, source: Source, progress: Callable[[], Progress]
) -> tuple[dict[str, Any], WordErrors]:
    from trflm.experiment.store import load_model

    for name in row.models:
        if name not in models:
            run = ensure_model(name, source, progress())
            models[name] = evaluation.scored(name, run, load_model(run))
    return evaluation.combined([models[name] for name in row.models])


def describe(lists: Lists) -> dict[str, Any]:
    nbest = lists.nbest
    return {
        "utterances": len(nbest),
        "hypotheses": nbest.n_hypotheses,
        "words": sum(len(words.split()) for words in lists.references.values()),
        "oracle_by_depth": {str(depth): rate for depth, rate in oracle(nbest, lists.references).rates.items()},
    }


def references(evaluation: Evaluation) -> dict[str, Any]:
    """What every row is measured against: no language model, the order of the lists, the best there is in them."""
    nbest, said = evaluation.test.nbest, evaluation.test.references
    best = word_error_rate(nbest.transcripts(nbest.best(-nbest_errors(nbest, said))), said)
    rates = {"without LM": evaluation.without_lm, "first in the lists": evaluation.first, "oracle": best}
    return {name: evaluation.figures(errors) for name, errors in rates.items()}


def curves(run: Path) -> dict[str, list[tuple[float, float]]]:
    """quantity -> (epoch, value), the dev figures and the mean of a step's figures over each epoch; fig:plot of the paper."""
    found: dict[str, list[tuple[float, float]]] = {}
    rows = metrics(run)
    if len(rows) < 2:
        return {}
    for name in CURVES:
        by_epoch: dict[int, list[float]] = {}
        for row in rows:
            if name in row:
                by_epoch.setdefault(-int(-row["epoch"] // 1), []).append(row[name])
        if len(by_epoch) > 1:
            found[name] = [(epoch, sum(values) / len(values)) for epoch, values in sorted(by_epoch.items())]
    if "dev_log_likelihood" in found:
        found["dev_nll"] = [(epoch, -value) for epoch, value in found.pop("dev_log_likelihood")]
    return found


def write(results: dict[str, Any], out: Path) -> None:
    """results.json, results.md, report.html: each whole or not there."""
    with write_text(out / "results.json") as file:
        json.dump(results, file, indent=1)
        file.write("\n")
    with write_text(out / "results.md") as file:
        file.write(markdown(results))
    with write_text(out / "report.html") as file:
        file.write(page(results))
