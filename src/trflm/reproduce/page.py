"""The results as one self-contained HTML page: rates with their intervals, the table, curves, and which words decided."""

import html
from pathlib import Path

from trflm.errors import InputError
from trflm.files.parse import parse_json
from trflm.files.records import from_record
from trflm.reproduce.charts import line_chart, wer_bars
from trflm.reproduce.examples import examples
from trflm.reproduce.markdown import main_table, notes, strategy_table
from trflm.reproduce.record import Results

STYLE = """
:root { color-scheme: light dark; --ink: #1d2433; --soft: #69748c; --line: #dfe3ec; --page: #fbfbfd; --card: #fff;
  --a: #2f6fde; --b: #c2571a; --c: #2c8a57; --d: #8a4fc0; --e: #b0305c; --f: #6b7280; --good: #1f8a4c; --bad: #c0392b; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9f0; --soft: #98a2b8; --line: #353c4c; --page: #171a21;
  --card: #1e222b; --a: #7aa8ff; --b: #f0a36b; --c: #6fcf9b; --d: #c59bf0; 
  --e: #f08cae; --f: #9aa3b2; --good: #6fcf9b; --bad: #f08c7a; } }
* { box-sizing: border-box; }
body { font: 15px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 940px; margin: 2.2rem auto;
  padding: 0 1.2rem; }
h1 { font-size: 1.7rem; margin: 0 0 .3rem; } h2 { font-size: 1.15rem; margin: 2.4rem 0 .7rem; }
h3 { font-size: 1rem; margin: 0; }
.soft, .note { color: var(--soft); } .note { font-size: .88rem; } p { margin: .4rem 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; font-size: .9rem; }
td, th { padding: .32rem .7rem .32rem 0; text-align: left; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 600; color: var(--soft); font-size: .82rem; } td.best { font-weight: 700; color: var(--good); }
tr.reference td { color: var(--soft); }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(410px, 1fr)); gap: 1.4rem; }
figure { margin: 0; } figcaption { font-weight: 600; font-size: .92rem; margin-bottom: .2rem; }
svg { width: 100%; height: auto; display: block; }
svg text { font-size: 11px; fill: var(--soft); } svg text.ink { fill: var(--ink); font-size: 12.5px; }
.axis { stroke: var(--line); } .whisker { stroke: var(--ink); stroke-width: 1.4; opacity: .65; }
.curve { fill: none; stroke-width: 1.9; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: .9rem 1.1rem; margin: .8rem 0; }
.card .said { font-size: 1.02rem; } .who { display: inline-block; width: 4.2rem; color: var(--soft); font-size: .82rem; }
.right { color: var(--good); font-weight: 600; }
.wrong { color: var(--bad); font-weight: 600; text-decoration: underline wavy 1px; }
.why { display: flex; flex-wrap: wrap; gap: .3rem; align-items: flex-end; margin-top: .6rem; font-size: .78rem; }
.word { text-align: center; }
.word i { display: block; width: 100%; border-radius: 2px; opacity: .8; } .word span { padding: 0 .1rem; }
.oracle { stroke: var(--c); stroke-width: 2; stroke-dasharray: 5 4; } svg text.green { fill: var(--c); }
.key { font-size: .82rem; color: var(--soft); margin-top: .2rem; } .key b { font-weight: 600; margin-right: .9rem; }
"""


def page(results: Results) -> str:
    """The whole page."""
    title = html.escape(results.title)
    sections = [
        f"<h1>{title}</h1><p class='soft'>{html.escape(results.about)}</p>",
        f"<h2>Word error rate on test</h2>{wer_bars(results)}",
        f"<h2>The table</h2>{html_table(*main_table(results), best=best_label(results))}",
    ]
    heading, rows = strategy_table(results)
    if rows:
        sections.append(f"<h2>Three ways to rescore with an LSTM</h2>{html_table(heading, rows)}")
    sections.append(examples(results))
    sections.append(f"<h2>Curves</h2><div class='grid'>{curves(results)}</div>")
    listed = "".join(f"<li>{html.escape(line)}</li>" for line in notes(results))
    sections.append(f"<h2>How it was made</h2><ul class='note'>{listed}</ul>")
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
        f"<title>{title}</title><style>{STYLE}</style>{''.join(sections)}</html>\n"
    )


def results_page(directory: Path) -> str:
    """The page of the results that lie in a directory."""
    path = directory / "results.json"
    try:
        return page(from_record(Results, parse_json(path.read_text(encoding="utf-8"))))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: damaged or not ours: {error!r}; make it again with trf reproduce") from error


def best_label(results: Results) -> str:
    return min(results.done, key=lambda row: row.wer.wer).label if results.done else ""


def html_table(heading: list[str], rows: list[list[str]], best: str = "") -> str:
    def cell(text: str, is_best: bool) -> str:
        return f"<td{' class=best' if is_best else ''}>{html.escape(text.replace('**', ''))}</td>"

    head = "".join(f"<th>{html.escape(name)}</th>" for name in heading)
    body = "".join(
        f"<tr{' class=reference' if row[0].startswith('(') else ''}>"
        + "".join(cell(text, row[0] == best and "**" in text) for text in row)
        + "</tr>"
        for row in rows
    )
    return f"<div class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


TITLES = {
    "dev_nll": "negative log-likelihood of dev, a sentence",
    "kl": "KL divergence of the field from its proposal",
    "dev_perplexity": "dev perplexity",
    "dev_loss": "dev loss",
    "loss": "training loss",
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
        parts.append(line_chart("dev WER % against the scale of the LM (1: tuned)", scales))
    depths = {
        name: [(float(depth), 100 * rate) for depth, rate in of.oracle_by_depth.items()] for name, of in results.lists.items()
    }
    parts.append(line_chart("oracle WER % by depth of the lists", depths, log_x=True))
    for row in results.models:
        for name, points in row.curves.items():
            parts.append(line_chart(f"{row.label}: {TITLES[name]}", {"": points}, x_name="epoch"))
    return "".join(parts)
