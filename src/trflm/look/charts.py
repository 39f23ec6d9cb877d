"""Curves and bars as SVG, with labelled axes; no scripts."""

import html
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from trflm.evaluation.figures import Figures

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 430, 220, 54, 14, 22, 40
POINTS = 400  # the most points of a curve
SERIES = 6  # look.css has so many colours and dashes
SMOOTH = 100  # a curve of more points that goes up and down is drawn as its running mean, the points behind it
TURNS = 0.1  # the share of points where it turns, from which on a curve goes up and down
LARGEST = 1e300  # what is not below cannot be drawn: nan, infinity, or differences would be
WIDE = 20.0  # a positive quantity that spans more than this factor is drawn on a logarithmic scale
BAR, GAP, NAMES, LETTER, BARS = 20, 9, 150, 7.2, 490


@dataclass(frozen=True)
class Axis:
    """Values along one side of a chart, from `start` to `end` pixels."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    @classmethod
    def of(cls, values: Sequence[float], start: float, end: float, log: bool = False, margin: float = 0.06) -> "Axis":
        low, high = (min(values), max(values)) if values else (0.0, 1.0)
        if log:
            low, high = math.log10(low), math.log10(high)
        room = margin * (high - low) if high - low > 1e-9 * max(abs(low), abs(high)) else 0.05 * abs(high) or 1.0
        return cls(low - room, high + room, start, end, log)

    def place(self, value: float) -> float:
        return self.start + (self.end - self.start) * ((math.log10(value) if self.log else value) - self.low) / (
            self.high - self.low
        )

    def ticks(self) -> list[float]:
        return log_ticks(self.low, self.high) if self.log else ticks(self.low, self.high)


def line_chart(
    title: str,
    lines: Mapping[str, Points],
    *,
    x_name: str,
    y_name: str,
    note: str = "",
    log_x: bool = False,
    log_y: bool | None = None,
    best: float | None = None,
) -> str:
    """Several curves in one chart, each by its name; none if there is no point. A line without points keeps its colour for
    it, so that a name has one colour in all charts of a page. `best` marks a place of the x axis. Without `log_y` the scale of
    y is logarithmic where the values ask for it."""
    kept = {name: finite(points) for name, points in lines.items()}
    every = [point for points in kept.values() for point in points]
    if not every:
        return ""
    ys = sorted(y for _, y in every)
    cut = len(ys) // 100  # the most extreme hundredth at either end may leave the chart: one outlier does not flatten the rest
    inner = ys[cut : len(ys) - cut]
    if log_y is None:
        log_y = inner[0] > 0 and inner[-1] > WIDE * inner[0]
    log_y, log_x = log_y and inner[0] > 0, log_x and min(x for x, _ in every) > 0
    across = Axis.of([x for x, _ in every], LEFT, WIDTH - RIGHT, log_x, margin=0.0)
    up = Axis.of(inner, HEIGHT - BOTTOM, TOP, log_y)

    y_name += ", log scale" if log_y else ""
    parts = [_grid(across, up), _names(x_name, y_name)]
    if best is not None:
        x = across.place(best)
        free = x > LETTER * len(y_name) + 30  # above the chart, unless the name of the axis stands there
        anchor = "end" if x > WIDTH - 40 else "middle" if free else "start"
        parts.append(
            f'<line class="best-epoch" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>'
            f'<text class="green" x="{x + 4 * (not free):.1f}" y="{TOP - 4 if free else HEIGHT - BOTTOM - 4}" '
            f'text-anchor="{anchor}">best</text>'
        )
    for number, points in enumerate(kept.values()):
        parts.append(_curve(points, across, up, number % SERIES))
    drawn = {name: number % SERIES for number, name in enumerate(kept) if kept[name]}
    last = f"<span>{_short(every[-1][1])}</span>" if len(drawn) == 1 else ""
    said = f'<p class="note">{html.escape(note)}</p>' if note else ""
    summary = f"{title}: {y_name} against {x_name}; " + "; ".join(
        _summary(name, points) for name, points in kept.items() if points
    )
    return (
        f"<figure><figcaption>{html.escape(title)}{last}</figcaption>{said}"
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(summary)}">{"".join(parts)}</svg>'
        f"{_key(drawn) if any(drawn) else ''}</figure>"
    )


def rate_bars(rates: Sequence[tuple[str, Figures, str]], oracle: float | None = None) -> str:
    """Word error rates: (name, figures, kind) one bar each with its interval; kind is model, several or baseline. What no
    rescoring can reach, the oracle, is a line."""
    most = max(figures.interval.high for _, figures, _ in rates) * 1.04 or 1.0
    names = max(NAMES, LETTER * max(len(name) for name, _, _ in rates) + 14)  # room for the longest name
    width, height = names + BARS, (BAR + GAP) * len(rates) + 40
    axis = Axis(0, most, names, width - 70)
    parts = []
    for tick in ticks(0, 100 * most):
        x = axis.place(tick / 100)
        parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height - 32}"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 17}" text-anchor="middle">{tick:g} %</text>')
    for number, (name, figures, kind) in enumerate(rates):
        middle = number * (BAR + GAP) + 4 + BAR / 2
        low, high = axis.place(figures.interval.low), axis.place(figures.interval.high)
        parts.append(f'<text class="ink" x="{names - 10}" y="{middle + 4:.1f}" text-anchor="end">{html.escape(name)}</text>')
        parts.append(
            f'<rect class="{kind}" x="{names}" y="{middle - BAR / 2}" width="{axis.place(figures.wer) - names:.1f}" '
            f'height="{BAR}" rx="3"/><path class="whisker" d="M{low:.1f} {middle}H{high:.1f}M{low:.1f} {middle - 4}v8'
            f'M{high:.1f} {middle - 4}v8"/>'
            f'<text class="ink" x="{high + 8:.1f}" y="{middle + 4:.1f}">{100 * figures.wer:.2f}</text>'
        )
    if oracle is not None:
        x = axis.place(oracle)
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height - 32}" class="oracle"/>'
            f'<text x="{x:.1f}" y="{height - 3}" text-anchor="middle" class="green">oracle {100 * oracle:.2f}</text>'
        )
    said = "; ".join(f"{name} {100 * figures.wer:.2f} %" for name, figures, _ in rates)
    return (
        f'<div class="scroll"><svg viewBox="0 0 {width} {height}" role="img" '
        f'style="min-width: {0.9 * width:.0f}px; max-width: {1.25 * width:.0f}px" '
        f'aria-label="word error rates with 95 % intervals: {html.escape(said)}">{"".join(parts)}</svg></div>'
    )


def finite(points: Points) -> list[tuple[float, float]]:
    """Those that can be drawn."""
    return [(x, y) for x, y in points if abs(x) < LARGEST and abs(y) < LARGEST]


def thin(points: Points) -> list[tuple[float, float]]:
    """At most POINTS of the points, the last among them."""
    every = max(math.ceil(len(points) / POINTS), 1)
    return [points[i] for i in sorted({*range(0, len(points), every), len(points) - 1})]


def running_mean(values: Sequence[float], window: int) -> list[float]:
    """The mean of the last `window` values at each place, of fewer at the start."""
    means, total = [], 0.0
    for i, value in enumerate(values):
        total += value - (values[i - window] if i >= window else 0.0)
        means.append(total / min(i + 1, window))
    return means


def turns(values: Sequence[float]) -> int:
    """How often they rise after they have fallen, or fall after they have risen."""
    signs = [after > before for before, after in pairwise(values) if after != before]
    return sum(one != other for one, other in pairwise(signs))


def ticks(low: float, high: float) -> list[float]:
    """Three to six round values in the range."""
    rough = (high - low) / 6
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough)
    return [step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten between 10^low and 10^high, with their double and fivefold where there are few."""
    factors = (1,) if high - low > 3 else (1, 2, 5)
    found = [10.0**power * f for power in range(math.floor(low), math.ceil(high) + 1) for f in factors]
    inside = [value for value in found if low <= math.log10(value) <= high]
    return inside[:: math.ceil(len(inside) / 7) or 1] or [10.0 ** ((low + high) / 2)]


def _curve(points: list[tuple[float, float]], across: Axis, up: Axis, series: int) -> str:
    if not points:
        return ""
    points = [(x, y) for x, y in points if not up.log or y > 0]
    if len(points) <= SMOOTH or turns([y for _, y in points]) < TURNS * len(points):
        dots = "".join(f'<circle class="s{series}" r="2.4" cx="{x:.1f}" cy="{y:.1f}"/>' for x, y in _placed(points, across, up))
        return _polyline(f"curve s{series}", points, across, up) + (dots if len(points) <= 40 else "")
    means = running_mean([y for _, y in points], max(len(points) // 50, 1))
    smooth = list(zip([x for x, _ in points], means, strict=True))
    return _polyline(f"curve raw s{series}", points, across, up) + _polyline(f"curve s{series}", smooth, across, up)


def _polyline(kind: str, points: Points, across: Axis, up: Axis) -> str:
    placed = " ".join(f"{x:.1f},{y:.1f}" for x, y in _placed(thin(points), across, up))
    return f'<polyline class="{kind}" points="{placed}"/>'


def _placed(points: Points, across: Axis, up: Axis) -> list[tuple[float, float]]:
    """Pixels; what lies beyond the scale stays at its edge."""
    return [(across.place(x), min(max(up.place(y), TOP), HEIGHT - BOTTOM)) for x, y in points]


def _grid(across: Axis, up: Axis) -> str:
    parts = []
    for tick in up.ticks():
        y = up.place(tick)
        parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(tick)}</text>')
    for tick in across.ticks():
        x = across.place(tick)
        parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM + 4}"/>')
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{_short(tick)}</text>')
    return "".join(parts)


def _names(x_name: str, y_name: str) -> str:
    """What the axes measure."""
    middle = (LEFT + WIDTH - RIGHT) / 2
    return (
        f'<text class="axis-name" x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{html.escape(x_name)}</text>'
        f'<text class="axis-name" x="2" y="11">{html.escape(y_name)}</text>'
    )


def _key(series: Mapping[str, int]) -> str:
    items = (
        f'<li><svg viewBox="0 0 26 8" aria-hidden="true"><path class="curve s{i}" d="M0 4H26"/></svg>{html.escape(name)}</li>'
        for name, i in series.items()
    )
    return f'<ul class="key">{"".join(items)}</ul>'


def _summary(name: str, points: Points) -> str:
    (first, from_), (last, to) = points[0], points[-1]
    return f"{name + ' ' if name else ''}from {_short(from_)} at {_short(first)} to {_short(to)} at {_short(last)}"


def _short(value: float) -> str:
    if 0 < abs(value) < 1e-3:
        mantissa, exponent = f"{value:.3e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return f"{value:,.0f}" if abs(value) >= 10_000 and abs(value) < 1e7 else f"{value:.4g}"
