"""All rows of a table, one after another. results.json, results.md and report.html are renewed after every row, so an
interrupted run leaves what it has done, and the next one goes on from there.
"""

import json
import platform
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from trflm.errors import InputError, TrainingError
from trflm.evaluation.oracle import oracle
from trflm.evaluation.second_pass.lists import ListSet
from trflm.evaluation.second_pass.results import FIRST, ORACLE, WITHOUT_LM
from trflm.experiment.directory import provenance
from trflm.experiment.progress import Progress
from trflm.files.records import to_record
from trflm.files.writer import write_text
from trflm.reproduce.markdown import markdown
from trflm.reproduce.models import NotAvailable, Source, check_recipes, ensure_model, seed_name, unfinished
from trflm.reproduce.page import page
from trflm.reproduce.plan import Plan, Row
from trflm.reproduce.record import ListFacts, Made, MissingRow, Results, RowResult
from trflm.reproduce.row import Evaluation
from trflm.reproduce.scores import read_named
from trflm.speed.bf16 import has_bf16


def reproduce(
    plan: Plan,
    rows: list[Row],
    data: Path,
    source: Source,
    seed: int,
    progress: Callable[[], Progress],
    perplexity_minutes: float = 0.0,
    bf16: bool = False,
) -> Results:
    """Make the rows and write the tables into `source.out`; the results are returned as they are stored. With `bf16` lists are
    scored with products in bf16, where the CPU can; `made.machine` says so."""
    say = progress().say
    # 1. Everything that can be wrong is looked at before anything is trained.
    text = data / plan.text.test
    for file in (data / plan.text.train, data / plan.text.valid, text):
        if not file.exists():
            raise InputError(f"{file}: there is no such file; is --data right?")
    wanted = list(dict.fromkeys(name for row in rows for name in (row.models or (row.name,))))
    check_recipes(wanted, source)
    say("reading the n-best lists")
    dev, test = (read_named(name, of.files(data), plan.text.mapping) for name, of in (("dev", plan.dev), ("test", plan.test)))
    if dev.hashed == test.hashed:
        raise InputError("the dev and the test lists are the same: weights are never tuned on the set that is reported")
    keep, bf16 = source.out / "scores", bf16 and has_bf16()
    evaluation = Evaluation(dev, test, text, keep, seed, plan.baseline, plan.rival, say, perplexity_minutes, bf16)
    base, made = evaluation.baselines, provenance()
    if bf16:
        made["machine"] = f"{made['machine']}, lists scored in bf16"
    results = Results(
        title=plan.title,
        about=plan.about,
        baseline=plan.baseline,
        rival=plan.rival,
        seed=seed,
        made=Made(**made, processor=platform.processor(), date=time.strftime("%Y-%m-%d")),
        lists={named.name: facts(named.lists) for named in (dev, test)},
        references={
            WITHOUT_LM: evaluation.figures(base.without_lm),
            FIRST: evaluation.figures(base.first),
            ORACLE: evaluation.figures(base.oracle),
        },
    )
    # 2. Row by row.
    source.out.mkdir(parents=True, exist_ok=True)
    for row in rows:
        result = make_row(row, plan, evaluation, source, progress)
        results = replace(results, rows=(*results.rows, result))
        missing = isinstance(result, MissingRow)
        say(f"{row.name}: " + (f"{result.status}: {result.reason}" if missing else f"WER {result.wer.wer:.2%}"))
        write(results, source.out)
    return results


def make_row(row: Row, plan: Plan, evaluation: Evaluation, source: Source, progress: Callable[[], Progress]) -> RowResult:
    """Train what is missing, and measure. One bad row does not cost the others: it says what is wrong."""
    try:
        for name in row.models or (row.name,):
            if name not in evaluation.models:
                evaluation.add(name, ensure_model(name, source, progress()))
        for seed in row.seeds:
            with suppress(NotAvailable):  # one run is a row already
                run = ensure_model(row.name, source, progress(), seed)
                if unfinished(run) is None:
                    evaluation.add(seed_name(row.name, seed), run)
        return evaluation.combined(row) if row.models else evaluation.single(row, row.name in plan.strategies)
    except NotAvailable as reason:
        return MissingRow(name=row.name, label=row.label, paper=row.paper, status="not available", reason=str(reason))
    except (TrainingError, InputError) as reason:
        return MissingRow(name=row.name, label=row.label, paper=row.paper, status="failed", reason=str(reason))


def facts(lists: ListSet) -> ListFacts:
    return ListFacts(
        utterances=len(lists.nbest),
        hypotheses=lists.nbest.n_hypotheses,
        words=sum(len(words.split()) for words in lists.references.values()),
        oracle_by_depth={str(depth): rate for depth, rate in oracle(lists.nbest, lists.references).rates.items()},
    )


def write(results: Results, out: Path) -> None:
    """results.json, results.md, report.html: each whole or not there."""
    with write_text(out / "results.json") as file:
        json.dump(to_record(results), file, indent=1)
        file.write("\n")
    with write_text(out / "results.md") as file:
        file.write(markdown(results))
    with write_text(out / "report.html") as file:
        file.write(page(results))
