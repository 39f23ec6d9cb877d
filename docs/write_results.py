"""Write what shows results from the files in docs/results: results.md, the picture in it, and the table of the README.

`make results` runs this; a test sees that they are up to date. Text with figures in it is docs/results-about.md, where
{ROW.FIGURE} stands for a figure of a row.
"""

import html
import math
import re
from pathlib import Path
from typing import Any

from trflm.files.parse import parse_json
from trflm.reproduce.markdown import duration, table

DOCS = Path(__file__).parent
README = DOCS.parent / "README.md"
BEGIN, END = "<!-- results: made by make results -->", "<!-- end of results -->"

# row -> the side of benchmarks/rescoring.py that is a model of its size
SIDES = {
    "kn5": "KN5",
    "discrete-trf": "discrete",
    "discrete-trf-kn": "discrete",
    "lstm-200": "LSTM 2x200",
    "lstm-200-again": "LSTM 2x200",
    "lstm-200-fast": "LSTM 2x200",
    "lstm-650": "LSTM 2x650",
    "lstm-650-fast": "LSTM 2x650",
    "neural-trf-paper": "engine, 10 snapshots",
    "neural-trf": "engine, 10 snapshots",
    "trf-cloze": "engine, 1 snapshot",
    "trf-cloze-again": "engine, 1 snapshot",
    "trf-cloze-third": "engine, 1 snapshot",
    "trf-distil": "engine, 1 snapshot",
    "trf-cnn": "engine, 1 snapshot",
    "trf-cnn-kn": "engine, 1 snapshot",
    "trf-blstm-start": "BLSTM field",
    "trf-blstm-start-again": "BLSTM field",
    "trf-blstm-start-before": "BLSTM field",
    "trf-blstm-dnce": "BLSTM field",
    "trf-blstm-large": "BLSTM field, 512 units",
    "lstm-1500-fast": "LSTM 2x1500",
    "lstm-1500-grown": "LSTM 2x1500",
}
PAPER = {  # test perplexity and WER in table 2 of the paper, which are of other audio
    "kn5": ("141.2", "8.78"),
    "lstm-200": ("113.9", "7.96"),
    "lstm-650-fast": ("84.1", "7.66"),
    "lstm-1500-grown": ("78.7", "7.36"),
    "discrete-trf": (">= 130", "7.92"),
    "trf-cnn": (">= 37.4", "7.60"),
    "neural-trf": (">= 37.4", "7.60"),
}
PARTS = (  # a part of the training; the row that has it, the row that does not
    ("a teacher after the cloze", "trf-distil", "trf-cloze-third"),
    ("a better teacher, for longer", "trf-cnn", "trf-distil"),
    ("AugSA + JSA after that", "neural-trf", "trf-distil"),
    ("a share of KN5 as reference", "trf-cnn-kn", "trf-cnn"),
    ("dynamic NCE after word-wise NCE", "trf-blstm-dnce", "trf-blstm-start-before"),
    ("twice the units", "trf-blstm-large", "trf-blstm-start"),
)
CHOSEN = (
    "kn5",
    "discrete-trf",
    "lstm-200",
    "lstm-650-fast",
    "lstm-1500-grown",
    "trf-cnn",
    "trf-cnn-kn",
    "trf-blstm-start",
)  # of the README and the picture


def read(name: str) -> dict[str, Any]:
    return parse_json((DOCS / "results" / name).read_text(encoding="utf-8"))


class Figures:
    """All rows, with how long their model takes for a list, and the perplexity of fields."""

    def __init__(self) -> None:
        self.table = read("ptb.json")
        self.rows: dict[str, dict[str, Any]] = {row["name"]: row for row in self.table["rows"]}
        self.medians: dict[str, float] = read("rescoring_one_core.json")["medians"]
        self.intervals = {field["row"]: field for field in read("perplexity.json")["fields"] if "row" in field}

    def seconds(self, name: str) -> float | None:
        return self.medians[SIDES[name]] if name in SIDES else None

    def named(self, key: str) -> str:
        """The figure that {ROW.FIGURE} stands for."""
        name, _, figure = key.rpartition(".")
        references = {"first": "first in the lists", "without": "without LM", "oracle": "oracle"}
        if name in references:
            return percent(self.table["references"][references[name]])
        row = self.rows[name]
        shown = {
            "wer": lambda: percent(row["wer"]),
            "label": lambda: row["label"],
            "seconds": lambda: duration(self.seconds(name)),
            "perplexity": lambda: self.perplexity(name),
            "parameters": lambda: millions(row),
            "kn5": lambda: difference(row.get("against_baseline")),
        }
        return shown[figure]()

    def cells(self, name: str) -> dict[str, str]:
        """A row of the large table, by its columns."""
        row = self.rows[name]
        paper = PAPER.get(name, ("", ""))
        return {
            "model": row["label"] + (f" (not finished: {row['unfinished']})" if "unfinished" in row else ""),
            "test perplexity": self.perplexity(name),
            "dev WER %": f"{100 * row['dev_wer']:.2f}",
            "wsj92 WER %": f"**{percent(row['wer'])}**",
            "95 %": interval(row["wer"]),
            "against KN5": difference(row.get("against_baseline")),
            "parameters": millions(row),
            "training": duration(row.get("training_seconds")),
            "a list": duration(self.seconds(name)),
            "paper: PPL, WER": ", ".join(filter(None, paper)),
        }

    def perplexity(self, name: str) -> str:
        found = self.rows[name].get("perplexity")
        if found is not None:
            return f"{found.get('preserve', found['reset']):.1f}"
        field = self.intervals.get(name) or self.rows[name].get("perplexity_interval")
        return f"{field['low']:.1f} to {field['high']:.1f}" if field else ""


def percent(figures: dict[str, Any]) -> str:
    return f"{100 * figures['wer']:.2f}"


def interval(figures: dict[str, Any]) -> str:
    found = figures.get("interval")
    return f"[{100 * found['low']:.1f}, {100 * found['high']:.1f}]" if found else ""


def difference(comparison: dict[str, Any] | None) -> str:
    """With the p of matched pairs."""
    if comparison is None:
        return ""
    p = comparison["p_matched_pairs"]
    return f"{100 * comparison['difference']:+.2f} (p {'< 0.001' if p < 0.001 else f'= {p:.3f}'})"


def millions(row: dict[str, Any]) -> str:
    return f"{row['parameters'] / 1e6:.2f} M" if "parameters" in row else ""


def chosen(figures: Figures, names: tuple[str, ...] | list[str], columns: tuple[str, ...] = ()) -> str:
    """A table of these rows, and of these columns (all if not said)."""
    cells = [figures.cells(name) for name in names]
    heading = list(columns or cells[0])
    return table(heading, [[row[column] for column in heading] for row in cells])


def results_page() -> str:
    """docs/results.md."""
    figures = Figures()
    about = (DOCS / "results-about.md").read_text(encoding="utf-8")
    parts = [re.sub(r"\{([^}\s]+)\}", lambda found: figures.named(found[1]), about)]
    parts += ["## All rows\n", chosen(figures, list(figures.rows))]
    parts.append(
        "Perplexity is of the test text, ends of sentences counted; an LSTM reads it in order; of a field it is an interval "
        "([math.md](math.md)). 95 %: bootstrap over utterances. p: matched pairs. A list: the time on one core for the "
        "hypotheses of a 1000-best list, measured side by side on models of the same size "
        "([figures](results/rescoring_one_core.json)).\n"
    )
    strategies = [row for row in figures.rows.values() if "strategies" in row]
    ways = ("preserve", "reset", "shuffle")
    lines = [
        [row["label"], *(f"{percent(row['strategies'][way])} {interval(row['strategies'][way])}" for way in ways)]
        for row in strategies
    ]
    parts += ["## What an LSTM remembers of the sentence before (table 1 of the paper)\n", table(["LSTM", *ways], lines)]
    equal = [row for row in figures.rows.values() if "equal" in row]
    if equal:
        lines = [[row["label"], percent(row["wer"]), f"{percent(row['equal'])} {interval(row['equal'])}"] for row in equal]
        parts += ["## Tuned and equal weights\n", table(["models", "tuned on dev", "equal, as in the paper"], lines)]
    if any("seeds" in row for row in figures.rows.values()):
        parts += ["## Several seeds\n", seeds(figures)]
    parts += [
        "## What the text mapping and the OOV penalty are worth\n",
        ablations(figures),
        "Each variant tuned anew on dev; wsj92 (and dev) WER %. By `docs/ablate.py`.\n",
        "## What parts of the training are worth\n",
        trained_otherwise(figures),
        "One seed each; wsj92 (and dev) WER %, by rows of the large table and by `docs/ablate.py --training`.\n",
        "## Where each row comes from\n",
        table(["row", "seed", "commit", "date", ""], [*map(source, figures.rows.values())]),
    ]
    return "\n".join(parts)


def ablations(figures: Figures) -> str:
    """A column a variant, from `ablate.py`."""
    found: dict[str, dict[str, dict[str, float]]] = read("ablations.json")["rows"]
    variants = list(next(iter(found.values())))
    lines = [
        [figures.rows[name]["label"], *(f"{100 * of[v]['wsj92']:.2f} ({100 * of[v]['dev']:.2f})" for v in variants)]
        for name, of in found.items()
    ]
    return table(["model", *variants], lines)


def trained_otherwise(figures: Figures) -> str:
    """A line for each part: a row that has it, and the row or the run that has not."""
    lines = [(what, figures.rows[name], errors_of(figures.rows[other])) for what, name, other in PARTS]
    for run in read("ablations.json")["training"]:
        lines.append((run["what"], figures.rows[run["row"]], f"{100 * run['wsj92']:.2f} ({100 * run['dev']:.2f})"))
    return table(
        ["part", "of", "with it", "without it"], [[what, row["label"], errors_of(row), other] for what, row, other in lines]
    )


def errors_of(row: dict[str, Any]) -> str:
    return f"{percent(row['wer'])} ({100 * row['dev_wer']:.2f})"


def seeds(figures: Figures) -> str:
    """How much is chance: recipes that were run with several seeds."""
    lines = []
    for row in figures.rows.values():
        if "seeds" in row:
            runs = [row, *row["seeds"].values()]
            dev, test = (
                [100 * rate for rate in rates] for rates in zip(*((r["dev_wer"], r["wer"]["wer"]) for r in runs), strict=True)
            )
            shown = [f"{sum(rates) / len(rates):.2f} ({', '.join(f'{rate:.2f}' for rate in rates)})" for rates in (dev, test)]
            against = ", ".join(difference(run.get("against_baseline")) or "not tested" for run in runs)
            lines.append([row["label"], *shown, against])
    return table(["model", "dev WER %: mean (seed 1, 2, ...)", "wsj92 WER %", "each against KN5"], lines)


def source(row: dict[str, Any]) -> list[str]:
    made = row["made"]
    return [f"`{row['name']}`", str(row["seed"]), made["commit"] or "not kept", made["date"], row.get("note", made["machine"])]


def readme() -> str:
    """The README with its table renewed."""
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    columns = ("model", "test perplexity", "wsj92 WER %", "against KN5", "training", "a list")
    figures = Figures()
    shown = chosen(figures, [name for name in CHOSEN if name in figures.rows], columns)
    return f"{before}{BEGIN}\n{shown}{END}{rest.split(END)[1]}"


WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 400, 60, 30, 24, 52
COLOURS = {"kn5": "#6b7280", "lstm": "#c2571a", "trf": "#2f6fde", "discrete": "#2c8a57"}
FIRST, LAST = 0.0015, 3.0  # seconds
TIMES = (
    (0.002, "2 ms"),
    (0.005, "5 ms"),
    (0.01, "10 ms"),
    (0.02, "20 ms"),
    (0.05, "50 ms"),
    (0.1, "0.1 s"),
    (0.2, "0.2 s"),
    (0.5, "0.5 s"),
    (1, "1 s"),
    (2, "2 s"),
)


LABEL_LEFT = (
    "trf-cnn",
    "trf-cnn-kn",
    "lstm-200",
    "lstm-650-fast",
    "lstm-1500-grown",
)  # their labels stand on the left of their points, where there is room
LABEL_ABOVE = ("lstm-1500-grown",)  # and this one a little higher, for the sake of a neighbour


def picture() -> str:
    """docs/wer-speed.svg: word error rate against seconds a list, the better the further down and to the left."""
    figures = Figures()
    points = [
        (name, figures.seconds(name) or 1.0, 100 * figures.rows[name]["wer"]["wer"]) for name in CHOSEN if name in figures.rows
    ]
    low, high = math.floor(2 * min(y for *_, y in points) - 0.4) / 2, math.ceil(2 * max(y for *_, y in points) + 0.2) / 2

    def across(seconds: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * math.log(seconds / FIRST) / math.log(LAST / FIRST)

    def down(rate: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - rate) / (high - low)

    parts = [f"<rect width='{WIDTH}' height='{HEIGHT}' fill='#fff'/>"]
    for tick in range(math.ceil(low), math.floor(high) + 1):
        parts.append(f"<line x1='{LEFT}' x2='{WIDTH - RIGHT}' y1='{down(tick):.1f}' y2='{down(tick):.1f}' stroke='#e3e6ee'/>")
        parts.append(f"<text x='{LEFT - 8}' y='{down(tick) + 4:.1f}' text-anchor='end' fill='#69748c'>{tick} %</text>")
    for seconds, text in TIMES:
        parts.append(
            f"<line x1='{across(seconds):.1f}' x2='{across(seconds):.1f}' y1='{TOP}' y2='{HEIGHT - BOTTOM}' stroke='#eef0f5'/>"
        )
        parts.append(
            f"<text x='{across(seconds):.1f}' y='{HEIGHT - BOTTOM + 18}' text-anchor='middle' fill='#69748c'>{text}</text>"
        )
    for name, seconds, rate in points:
        x, y = across(seconds), down(rate)
        colour = COLOURS[name.split("-")[0]]
        left = name in LABEL_LEFT
        anchor = "end" if left else "start"
        label = html.escape(figures.rows[name]["label"].partition(",")[0])  # how it was trained is in the table
        at = y - 12 if name in LABEL_ABOVE else y + 4
        parts.append(f"<circle cx='{x:.1f}' cy='{y:.1f}' r='6' fill='{colour}'/>")
        parts.append(
            f"<text x='{x + (-11 if left else 11):.1f}' y='{at:.1f}' text-anchor='{anchor}' fill='#1d2433'>"
            f"{label} <tspan fill='#69748c'>{rate:.2f}</tspan></text>"
        )
    parts.append(
        f"<text x='{(LEFT + WIDTH - RIGHT) / 2}' y='{HEIGHT - 10}' text-anchor='middle' fill='#1d2433'>"
        "time for a 1000-best list, one core</text>"
        f"<text x='{LEFT}' y='{TOP - 8}' fill='#1d2433'>word errors on wsj92 (lower left is better)</text>"
    )
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {HEIGHT}' "
        f"font-family='system-ui, sans-serif' font-size='13' role='img' "
        f"aria-label='word error rate against seconds a list'>{''.join(parts)}</svg>\n"
    )


PAGES = {DOCS / "results.md": results_page, DOCS / "wer-speed.svg": picture, README: readme}

if __name__ == "__main__":
    for path, page in PAGES.items():
        path.write_text(page(), encoding="utf-8")
        print(path)
