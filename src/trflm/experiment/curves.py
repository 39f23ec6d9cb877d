"""A run as one self-contained HTML page: what it was, and its curves. No scripts, nothing fetched: the charts are SVG."""

import html
import math
from pathlib import Path
from typing import Any

from trflm.errors import InputError
from trflm.experiment.store import read_config
from trflm.files.parse import parse_json

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 420, 190, 58, 10, 8, 24
POINTS = 400  # the most points of a curve
NOT_CURVES = {"step", "epoch", "seconds", "criterion"}

STYLE = """
:root { color-scheme: light dark; --ink: #1d2433; --soft: #69748c; --line: #d5dae4; --page: #fbfbfd; --curve: #2f6fde; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e9f0; --soft: #98a2b8; --line: #353c4c; --page: #171a21; --curve: #7aa8ff; } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); max-width: 920px; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
.soft { color: var(--soft); }
.grid { display: grid; grid-template-columns: repeat(auto-fill, minmax(400px, 1fr)); gap: 1.2rem; }
figure { margin: 0; } figcaption { font-weight: 600; } figcaption span { float: right; font-weight: 400; color: var(--soft); }
svg { width: 100%; height: auto; } svg text { font-size: 11px; fill: var(--soft); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { padding: .15rem .9rem .15rem 0; text-align: left; vertical-align: top; border-bottom: 1px solid var(--line); }
.axis { stroke: var(--line); } .raw { fill: none; stroke: var(--curve); opacity: .25; }
.smooth { fill: none; stroke: var(--curve); stroke-width: 1.8; } .dot { fill: var(--curve); }
"""


def run_report(run: Path) -> str:
    """The page of a run directory."""
    config = read_config(run / "config.json")
    rows = read_metrics(run / "metrics.jsonl")
    last = rows[-1]
    hours = last.get("seconds", 0.0) / 3600
    head = f"step {last['step']:,}, epoch {last['epoch']:.2f}, {hours:.2f} hours of training"
    names = [name for name in dict.fromkeys(key for row in rows for key in row) if name not in NOT_CURVES]
    dev = [name for name in names if name not in rows[0]]
    charts = "".join(curve(name, rows) for name in [*dev, *(name for name in names if name not in dev)])
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(run.name)}</title><style>{STYLE}</style>'
        f'<h1>{html.escape(run.name)}</h1><p class="soft">{head}</p><div class="grid">{charts}</div>'
        f"<h2>Made by</h2>{table(flat(config))}</html>\n"
    )


def read_metrics(path: Path) -> list[dict[str, Any]]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}") from error
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = parse_json(line)
            numbers = {name: float(value) for name, value in row.items()}
            rows.append({**numbers, "step": int(row["step"]), "epoch": float(row["epoch"])})
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            if number < len(lines):  # the last line may be one that a running training is writing
                raise InputError(f"{path}:{number}: not a line of metrics: {error!r}") from error
    if not rows:
        raise InputError(f"{path}: no step has been recorded yet; let trf train go on for a while")
    return rows


def curve(name: str, rows: list[dict[str, Any]]) -> str:
    """One chart: a quantity against steps, its values and their running mean; single values (dev) as dots."""
    points = [(float(row["step"]), float(row[name])) for row in rows if name in row and math.isfinite(row[name])]
    if not points:
        return ""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    sparse = len(xs) < len(rows) / 2
    low, high = span_of(ys)
    right = max(float(rows[-1]["step"]), 1.0)

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + (WIDTH - LEFT - RIGHT) * x / right, TOP + (HEIGHT - TOP - BOTTOM) * (high - y) / (high - low)

    parts = []
    for tick in ticks(low, high):
        _, y = place(0, tick)
        parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{tick:.4g}</text>')
    for step in (0, right / 2, right):
        x, _ = place(step, low)
        anchor = {0: "start", right: "end"}.get(step, "middle")
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 6}" text-anchor="{anchor}">{step:,.0f}</text>')
    if sparse:
        parts.append(polyline("smooth", [place(x, y) for x, y in zip(xs, ys, strict=True)]))
        parts += [f'<circle class="dot" r="2.2" cx="{x:.1f}" cy="{y:.1f}"/>' for x, y in map(place, *thin(xs, ys))]
    else:
        parts.append(polyline("raw", [place(x, y) for x, y in zip(*thin(xs, ys), strict=True)]))
        smooth = running_mean(ys, max(len(ys) // 50, 1))
        parts.append(polyline("smooth", [place(x, y) for x, y in zip(*thin(xs, smooth), strict=True)]))
    title = html.escape(name.replace("_", " "))
    return (
        f"<figure><figcaption>{title}<span>{ys[-1]:.5g}</span></figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title} against steps">{"".join(parts)}</svg></figure>'
    )


def polyline(kind: str, points: list[tuple[float, float]]) -> str:
    return f'<polyline class="{kind}" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in points)}"/>'


def thin(xs: list[float], ys: list[float]) -> tuple[list[float], list[float]]:
    """At most POINTS of the points, the last among them."""
    every = max(math.ceil(len(xs) / POINTS), 1)
    keep = sorted({*range(0, len(xs), every), len(xs) - 1})
    return [xs[i] for i in keep], [ys[i] for i in keep]


def running_mean(ys: list[float], window: int) -> list[float]:
    """The mean of the last `window` values at each place, of fewer at the start."""
    means, total = [], 0.0
    for i, y in enumerate(ys):
        total += y - (ys[i - window] if i >= window else 0.0)
        means.append(total / min(i + 1, window))
    return means


def span_of(ys: list[float]) -> tuple[float, float]:
    """The range to draw: all but the most extreme hundredth at either end, so that one outlier does not flatten the curve."""
    ordered = sorted(ys)
    cut = len(ordered) // 100
    low, high = ordered[cut], ordered[-1 - cut]
    margin = 0.05 * (high - low) or max(abs(high), 1.0) * 0.05
    return low - margin, high + margin


def ticks(low: float, high: float) -> list[float]:
    """Three to six round values in the range."""
    rough = (high - low) / 4
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough)
    first = math.ceil(low / step)
    return [step * i for i in range(first, math.floor(high / step) + 1)]


def flat(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested settings as `section.key`."""
    pairs: dict[str, Any] = {}
    for key, value in config.items():
        pairs |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return pairs


def table(values: dict[str, Any]) -> str:
    cells = (f"<tr><td>{html.escape(name)}</td><td>{html.escape(str(value))}</td></tr>" for name, value in values.items())
    return f"<table>{''.join(cells)}</table>"
