"""
Curves of scalars as pictures: `penstock-view runs/loss.jsonl -o loss.html`.

Each scalar of a log is an SVG picture: steps go from left to right, values from the
bottom to the top. A long log keeps the smallest and the largest value of each of some
hundred parts, so that no peak is lost. Values that are no finite numbers leave a gap,
and are counted below the picture.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from math import floor, inf, isfinite, log10
from typing import NamedTuple, TypeAlias

from penstock.tools.data.scalars import Row, ScalarLog
from penstock.tools.reports.page.assemble import Page, beside

WIDTH, HEIGHT = 1000.0, 260.0
"""The units of a plot from the first step to the last, and of all its values."""

LEFT, BOTTOM = 84.0, 26.0
"""The units beside a plot for the numbers of its axes."""

MOST_PARTS = 500
"""The parts of a long log that have two points each."""

Y_TICKS, X_TICKS = 5, 8

Points: TypeAlias = Sequence[tuple[int, float]]
Lines: TypeAlias = Iterator[str]


class Scale(NamedTuple):
    """From values of an axis to units of a picture: `low` is at 0, `high` at `size`."""

    low: float
    high: float
    size: float

    def at(self, value: float) -> float:
        """The place of a value."""
        return (value - self.low) / (self.high - self.low) * self.size

    def ticks(self, count: int) -> list[float]:
        """Round values of the axis, about so many."""
        step = round_step((self.high - self.low) / count)
        first = -floor(-self.low / step)
        numbers = range(first, floor(self.high / step) + 1)
        return [number * step for number in numbers]


def round_step(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is no smaller."""
    unit = 10.0 ** floor(log10(least))
    return next(unit * x for x in (1, 2, 5, 10) if unit * x >= least * (1 - 1e-9))


def scale_of(values: Sequence[float], size: float) -> Scale:
    """The scale of an axis that has all values; equal ones are in its middle."""
    low, high = min(values), max(values)
    if low == high:
        room = abs(low) / 2 or 0.5
        low, high = low - room, high + room
    return Scale(low, high, size)


def curves_in(rows: Sequence[Row]) -> dict[str, Points]:
    """The steps and values of each scalar, by its name."""
    found: dict[str, list[tuple[int, float]]] = {}
    for step, scalars in rows:
        for name, value in scalars.items():
            found.setdefault(name, []).append((step, value))
    return dict(sorted(found.items()))


def thinned(points: Points) -> Points:
    """At most two points, the lowest and the highest, for each part of many."""
    if len(points) <= 2 * MOST_PARTS:
        return points
    found: list[tuple[int, float]] = []
    for part in range(MOST_PARTS):
        start = len(points) * part // MOST_PARTS
        end = len(points) * (part + 1) // MOST_PARTS
        inside = sorted(points[start:end], key=lambda point: point[1])
        found += sorted({inside[0], inside[-1]})
    return found


def page_of(log: ScalarLog) -> str:
    """The whole page of a log. Raises DataError if it cannot be read."""
    curves = curves_in(log.read())
    title = f"Scalars of {log.path.name}"
    views = [line for curve in curves.items() for line in figure_lines(*curve)]
    return Page(
        title=title,
        heading=escape(title),
        header=[],
        views=views or ["<p>There are no scalars yet.</p>"],
        data={},
        styles=beside(__file__, "curves.css"),
        scripts=[],
    ).text()


def figure_lines(name: str, points: Points) -> Lines:
    """The picture of a scalar, and its numbers."""
    finite = [(step, value) for step, value in points if isfinite(value)]
    yield f'<figure class="curve"><h2>{escape(name)}</h2>'
    if finite:
        label = f"{name} over {len(points)} steps"
        box = f"{-LEFT} -10 {WIDTH + LEFT + 40} {HEIGHT + BOTTOM + 10}"
        yield f'<svg viewBox="{box}" role="img" aria-label="{escape(label)}">'
        yield from plot_lines(points, finite)
        yield "</svg>"
    yield f"<p>{escape(numbers_of(points, finite))}</p></figure>"


def numbers_of(points: Points, finite: Points) -> str:
    """The last value, the extremes and how many are no numbers, as text."""
    step, last = points[-1]
    texts = [f"last {last:.6g} at step {step}"]
    if finite:
        low, high = (f(finite, key=lambda point: point[1]) for f in (min, max))
        texts.append(f"lowest {low[1]:.6g} at step {low[0]}")
        texts.append(f"highest {high[1]:.6g} at step {high[0]}")
    if odd := len(points) - len(finite):
        texts.append(f"{odd} of {len(points)} values are no finite numbers")
    return ", ".join(texts)


def plot_lines(points: Points, finite: Points) -> Lines:
    """The axes and the curve."""
    x = scale_of([float(step) for step, _ in points], WIDTH)
    y = scale_of([value for _, value in finite], HEIGHT)
    for value in y.ticks(Y_TICKS):
        at = f"{HEIGHT - y.at(value):.1f}"
        yield f'<line x1="0" x2="{WIDTH}" y1="{at}" y2="{at}"/>'
        yield f'<text class="y" x="-8" y="{at}">{value:.6g}</text>'
    for value in x.ticks(X_TICKS):
        if value == round(value):
            place = f'x="{x.at(value):.1f}" y="{HEIGHT + 18}"'
            yield f'<text class="x" {place}>{round(value)}</text>'
    for part in parts_of(points):
        yield curve_line([(x.at(step), HEIGHT - y.at(v)) for step, v in part])


def parts_of(points: Points) -> Iterator[Points]:
    """The runs of points between those that are no finite numbers."""
    part: list[tuple[int, float]] = []
    for step, value in (*points, (0, inf)):
        if isfinite(value):
            part.append((step, value))
        elif part:
            yield thinned(part)
            part = []


def curve_line(places: Sequence[tuple[float, float]]) -> str:
    """A line through places; one alone is a dot."""
    if len(places) == 1:
        ((x, y),) = places
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
    text = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline points="{text}"/>'
