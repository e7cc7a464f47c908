"""
The table of a comparison: a row for each subject and metric, a column for each variant,
and the ratio of each to the first one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import geometric_mean
from typing import NamedTuple

from penstock.tools.session.report import size_text


class Metric(NamedTuple):
    """A number to compare, of which less is better, and its text for a person."""

    name: str
    text_of: Callable[[float], str]
    explanation: str


def seconds_text(seconds: float) -> str:
    """A time as a person reads it, such as `1.53 ms`."""
    for unit, scale in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} us"


def _bytes_text(number: float) -> str:
    return size_text(round(number))


def _count_text(number: float) -> str:
    return f"{number:.0f}"


METRICS = {
    metric.name: metric
    for metric in (
        Metric("memory", _bytes_text, "peak of activations in all memories"),
        Metric("bound", _bytes_text, "live bytes at the fullest step of the plan"),
        Metric("weights", _bytes_text, "variables as they lie in memory"),
        Metric("tasks", _count_text, "actors of the program"),
        Metric("kernels", _count_text, "different kernels of the program"),
        Metric("bytes-moved", _bytes_text, "read and written by kernels"),
        Metric("compile-time", seconds_text, "passes, without machine code"),
        Metric("time", seconds_text, "median of the runs of one iteration"),
    )
}
"""All metrics by name."""

DEFAULT_METRICS = ("memory", "tasks", "kernels", "bytes-moved", "compile-time", "time")


class Cell(NamedTuple):
    """A measured number, or the reason why there is none."""

    value: float | None
    error: str = ""


@dataclass
class Comparison:
    """
    The numbers of variants, by subject and metric: `cells[subject][metric][variant]`.
    Ratios are to the first variant.
    """

    variants: Sequence[str]
    metrics: Sequence[Metric]
    cells: dict[str, dict[str, list[Cell]]] = field(
        default_factory=dict[str, dict[str, list[Cell]]]
    )
    notes: list[str] = field(default_factory=list[str])

    def add(self, subject: str, found: Sequence[Mapping[str, float] | str]) -> None:
        """Add the numbers of a subject, or the error, for each variant."""
        self.cells[subject] = {
            metric.name: [
                Cell(None, x) if isinstance(x, str) else Cell(x.get(metric.name))
                for x in found
            ]
            for metric in self.metrics
        }

    @property
    def errors(self) -> list[str]:
        """The subjects that a variant failed on, with the reason."""
        lines = {
            f"{subject}, {variant}: {cell.error}": None
            for subject, rows in self.cells.items()
            for cells in rows.values()
            for variant, cell in zip(self.variants, cells, strict=True)
            if cell.error
        }
        return list(lines)

    def ratios(self, metric: str, variant: int) -> list[float]:
        """The ratios of a variant to the first one, of subjects that have both."""
        pairs = (
            (rows[metric][0].value, rows[metric][variant].value)
            for rows in self.cells.values()
        )
        return [value / first for first, value in pairs if first and value]

    def mean_ratio(self, metric: str, variant: int) -> float | None:
        """The geometric mean of the ratios, if there are some."""
        ratios = self.ratios(metric, variant)
        return geometric_mean(ratios) if ratios else None

    def text(self) -> str:
        """The table as lines of text, a block for each metric."""
        blocks = [_aligned(self.rows(metric)) for metric in self.metrics]
        return "\n\n".join("\n".join(lines) for lines in blocks)

    def rows(self, metric: Metric) -> list[list[str]]:
        """The texts of a metric: a header, a row for each subject, the means."""
        first, *others = self.variants
        header = [metric.name, first]
        for name in others:
            header += [name, "ratio"]
        rows = [header]
        for subject, found in self.cells.items():
            rows.append([subject, *_cell_texts(metric, found[metric.name])])
        if len(self.cells) > 1:
            rows.append(["geometric mean", "", *self._means(metric.name)])
        return rows

    def _means(self, metric: str) -> Iterable[str]:
        for number in range(1, len(self.variants)):
            mean = self.mean_ratio(metric, number)
            yield ""
            yield "" if mean is None else ratio_text(mean)

    def as_json(self) -> dict[str, object]:
        """The numbers, and the means of the ratios; null where there is none."""
        return {
            "variants": list(self.variants),
            "metrics": {x.name: x.explanation for x in self.metrics},
            "subjects": {
                subject: {name: [cell.value for cell in x] for name, x in rows.items()}
                for subject, rows in self.cells.items()
            },
            "ratios": {
                metric.name: [
                    self.mean_ratio(metric.name, number)
                    for number in range(len(self.variants))
                ]
                for metric in self.metrics
            },
            "errors": self.errors,
            "notes": self.notes,
        }


def _cell_texts(metric: Metric, cells: Sequence[Cell]) -> Iterable[str]:
    first = cells[0].value
    for number, cell in enumerate(cells):
        yield "failed" if cell.error else _value_text(metric, cell.value)
        if number:
            if first and cell.value is not None:
                yield ratio_text(cell.value / first)
            else:
                yield ""


def _value_text(metric: Metric, value: float | None) -> str:
    return "-" if value is None else metric.text_of(value)


def ratio_text(ratio: float) -> str:
    """A ratio to the first variant, such as `0.873 x`."""
    return f"{ratio:.3f} x"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
