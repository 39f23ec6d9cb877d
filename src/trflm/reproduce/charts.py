"""Charts as SVG: no scripts, nothing fetched."""

import html
import math
from collections.abc import Mapping, Sequence

from trflm.evaluation.second_pass.results import ORACLE
from trflm.experiment.curves import ticks
from trflm.reproduce.record import ModelRow, Results

COLOURS = ("--a", "--b", "--c", "--d", "--e", "--f")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 430, 200, 46, 12, 10, 26
BAR, GAP, NAMES = 20, 9, 190
LETTER = 7  # width of one, about


def wer_bars(results: Results) -> str:
    """One bar a row, with its interval; what no rescoring can reach, the oracle, is a line."""
    bars = [(name, figures, "--f") for name, figures in results.references.items() if name != ORACLE]
    bars += [(row.label, row.wer, "--a" if isinstance(row, ModelRow) else "--d") for row in results.done]
    oracle = results.references[ORACLE].wer
    most = max(figures.interval.high for _, figures, _ in bars) * 1.04
    names = max(NAMES, LETTER * max(len(name) for name, _, _ in bars) + 20)  # room for the longest name
    width, height = 900, (BAR + GAP) * len(bars) + 34

    def x(rate: float) -> float:
        return names + (width - names - 70) * rate / most

    parts = []
    for tick in ticks(0, 100 * most):
        parts.append(f"<line class='axis' x1='{x(tick / 100):.1f}' x2='{x(tick / 100):.1f}' y1='0' y2='{height - 28}'/>")
        parts.append(f"<text x='{x(tick / 100):.1f}' y='{height - 12}' text-anchor='middle'>{tick:g} %</text>")
    for number, (name, figures, colour) in enumerate(bars):
        y = number * (BAR + GAP) + 4
        low, high = figures.interval.low, figures.interval.high
        middle = y + BAR / 2
        parts.append(f"<text class='ink' x='{names - 10}' y='{middle + 4:.1f}' text-anchor='end'>{html.escape(name)}</text>")
        parts.append(
            f"<rect x='{names}' y='{y}' width='{x(figures.wer) - names:.1f}' height='{BAR}' rx='3' "
            f"style='fill:var({colour});opacity:.75'/>"
            f"<line class='whisker' x1='{x(low):.1f}' x2='{x(high):.1f}' y1='{middle}' y2='{middle}'/>"
            + "".join(
                f"<line class='whisker' x1='{x(v):.1f}' x2='{x(v):.1f}' y1='{middle - 4}' y2='{middle + 4}'/>"
                for v in (low, high)
            )
            + f"<text class='ink' x='{x(high) + 8:.1f}' y='{middle + 4:.1f}'>{100 * figures.wer:.2f}</text>"
        )
    parts.append(
        f"<line x1='{x(oracle):.1f}' x2='{x(oracle):.1f}' y1='0' y2='{height - 28}' class='oracle'/>"
        f"<text x='{x(oracle):.1f}' y='{height - 1}' text-anchor='middle' class='green'>oracle {100 * oracle:.1f}</text>"
    )
    return f"<svg viewBox='0 0 {width} {height}' role='img' aria-label='word error rates'>{''.join(parts)}</svg>"


def line_chart(title: str, lines: Mapping[str, Sequence[tuple[float, float]]], x_name: str = "", log_x: bool = False) -> str:
    """Several curves in one chart, each by its name."""
    points = [point for line in lines.values() for point in line if all(map(math.isfinite, point))]
    if not points:
        return ""

    def across(value: float) -> float:
        return math.log(value) if log_x else value

    left, right = min(across(x) for x, _ in points), max(across(x) for x, _ in points)
    low, high = min(y for _, y in points), max(y for _, y in points)
    margin = 0.06 * (high - low) or max(abs(high), 1.0) * 0.05
    low, high, right = low - margin, high + margin, right if right > left else left + 1

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            LEFT + (WIDTH - LEFT - RIGHT) * (across(x) - left) / (right - left),
            TOP + (HEIGHT - TOP - BOTTOM) * (high - y) / (high - low),
        )

    parts = []
    for tick in ticks(low, high):
        y = TOP + (HEIGHT - TOP - BOTTOM) * (high - tick) / (high - low)
        parts.append(f"<line class='axis' x1='{LEFT}' x2='{WIDTH - RIGHT}' y1='{y:.1f}' y2='{y:.1f}'/>")
        parts.append(f"<text x='{LEFT - 6}' y='{y + 4:.1f}' text-anchor='end'>{tick:.4g}</text>")
    labels = sorted({x for x, _ in points}) if log_x else ticks(left, right)
    for label in labels[:: max(len(labels) // 6, 1)]:
        parts.append(f"<text x='{place(label, low)[0]:.1f}' y='{HEIGHT - 8}' text-anchor='middle'>{label:g}</text>")
    if x_name:
        parts.append(f"<text x='{WIDTH - RIGHT}' y='{HEIGHT - 8}' text-anchor='end'>{html.escape(x_name)}</text>")
    for number, line in enumerate(lines.values()):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (place(*point) for point in line))
        parts.append(f"<polyline class='curve' style='stroke:var({COLOURS[number % len(COLOURS)]})' points='{path}'/>")
    key = "".join(
        f"<b style='color:var({COLOURS[i % len(COLOURS)]})'>{html.escape(name)}</b>" for i, name in enumerate(lines) if name
    )
    return (
        f"<figure><figcaption>{html.escape(title)}</figcaption>"
        f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' role='img' aria-label='{html.escape(title)}'>{''.join(parts)}</svg>"
        f"<div class='key'>{key}</div></figure>"
    )
