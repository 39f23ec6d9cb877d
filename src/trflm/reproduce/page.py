"""The results as one self-contained HTML page: rates with their intervals, the table, curves, and which words decided."""

import html
from pathlib import Path

from trflm.errors import InputError
from trflm.evaluation.second_pass.results import ORACLE
from trflm.files.parse import parse_json
from trflm.files.reader import read_whole
from trflm.files.records import from_record
from trflm.look import page as look
from trflm.look.charts import line_chart, rate_bars
from trflm.reproduce.examples import examples
from trflm.reproduce.markdown import main_table, notes, strategy_table
from trflm.reproduce.record import ModelRow, Results


def page(results: Results) -> str:
    """The whole page."""
    listed = "".join(f"<li>{html.escape(line)}</li>" for line in notes(results))
    strategies = strategy_table(results)
    return look.page(
        results.title,
        look.heading(results.title, results.about),
        look.section("Word error rate on test", rates(results)),
        look.section("The table", html_table(*main_table(results), best=best_label(results))),
        look.section("Three ways to rescore with an LSTM", html_table(*strategies) if strategies[1] else ""),
        examples(results),
        look.section("Curves", f'<div class="grid">{curves(results)}</div>'),
        look.section("How it was made", f'<ul class="note">{listed}</ul>'),
    )


def rates(results: Results) -> str:
    """A bar a row; the oracle is a line."""
    bars = [(name, figures, "baseline") for name, figures in results.references.items() if name != ORACLE]
    bars += [(row.label, row.wer, "model" if isinstance(row, ModelRow) else "several") for row in results.done]
    return rate_bars(bars, results.references[ORACLE].wer)


def results_page(directory: Path) -> str:
    """The page of the results that lie in a directory."""
    path = directory / "results.json"
    try:
        return page(from_record(Results, parse_json(read_whole(path))))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
        raise InputError(f"{path}: damaged or not ours: {error!r}; make it again with trf reproduce") from error


def best_label(results: Results) -> str:
    return min(results.done, key=lambda row: row.wer.wer).label if results.done else ""


def html_table(heading: list[str], rows: list[list[str]], best: str = "") -> str:
    def cell(text: str, is_best: bool) -> str:
        return f"<td{' class=best' if is_best else ''}>{html.escape(text.replace('**', ''))}</td>"

    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in heading)
    body = "".join(
        f"<tr{' class=reference' if row[0].startswith('(') else ''}>"
        + f'<th scope="row">{html.escape(row[0].replace("**", ""))}</th>'
        + "".join(cell(text, row[0] == best and "**" in text) for text in row[1:])
        + "</tr>"
        for row in rows
    )
    return (
        '<div class="scroll wide-table" tabindex="0" role="group" aria-label="results">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


TITLES = {
    "dev_nll": ("negative log-likelihood of dev", "nats a sentence"),
    "kl": ("KL divergence of the field from its proposal", "nats"),
    "dev_perplexity": ("dev perplexity", "perplexity"),
    "dev_loss": ("dev loss", "loss"),
    "loss": ("training loss", "loss"),
}


def curves(results: Results) -> str:
    """WER against the scale, the oracle by depth, and what each training recorded, by epoch."""
    parts = []
    scales = {
        row.label: [(x / row.weights.scale, 100 * y) for x, y in row.scale_curve]
        for row in results.models
        if row.weights.scale > 0
    }
    if scales:
        parts.append(line_chart("dev WER by scale of the LM", scales, x_name="scale; 1 is the tuned one", y_name="WER %"))
    depths = {
        name: [(float(depth), 100 * rate) for depth, rate in of.oracle_by_depth.items()] for name, of in results.lists.items()
    }
    parts.append(line_chart("oracle by depth of the lists", depths, x_name="hypotheses, log scale", y_name="WER %", log_x=True))
    for row in results.models:
        for name, points in row.curves.items():
            title, unit = TITLES[name]
            parts.append(line_chart(f"{row.label}: {title}", {"": points}, x_name="epoch", y_name=unit))
    return "".join(parts)
