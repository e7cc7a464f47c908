"""
Times of the driver's steps: parsing, each pass with the passes inside of it, and
verification.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

_RULE = f"==={'-' * 73}==="
_TITLE = "... Execution time report ..."


@dataclass
class TimedStep:
    """A step, its seconds, and the steps inside of it in the order of their start."""

    name: str
    seconds: float = 0.0
    inner: dict[tuple[int, str], TimedStep] = field(
        default_factory=dict[tuple[int, str], "TimedStep"]
    )

    def step(self, name: str, position: int) -> TimedStep:
        """The step inside of this one that is called so, at a position."""
        return self.inner.setdefault((position, name), TimedStep(name))


class PassTimes:
    """
    The seconds spent in each step, in the order in which the steps first ran. A step
    that is measured while another one is, is inside of that.
    """

    def __init__(self) -> None:
        self._whole = TimedStep("total")
        self._open = [self._whole]
        self._start = perf_counter()

    @contextmanager
    def measure(self, name: str, position: int = -1) -> Generator[None]:
        """
        A context whose time is added to the step `name` at `position` of a pipeline.
        """
        step = self._open[-1].step(name, position)
        self._open.append(step)
        start = perf_counter()
        try:
            yield
        finally:
            step.seconds += perf_counter() - start
            self._open.pop()

    def table(self) -> str:
        """
        One line a step with its milliseconds and share, then the total; verification
        has one line for all times.
        """
        rows: dict[tuple[int, str], float] = {}
        for (position, name), step in self._whole.inner.items():
            key = (-1, name) if name == "verify" else (position, name)
            rows[key] = rows.get(key, 0.0) + step.seconds
        total = sum(rows.values())
        lines = [f"{'ms':>10} {'share':>6}  step"]
        for (_, name), seconds in rows.items():
            share = seconds / total if total else 0.0
            lines.append(f"{seconds * 1e3:10.2f} {share:6.1%}  {name}")
        return "\n".join((*lines, f"{total * 1e3:10.2f} {1:6.1%}  total"))

    def report(self, *, as_list: bool = False) -> str:
        """
        The report of `mlir-opt --mlir-timing`: a tree of all steps, or a list of them
        by name, longest first.
        """
        whole = self._finished()
        lines = _flat(whole) if as_list else _nested(whole, 0)
        rows = (
            f"  {seconds:8.4f} ({_share(seconds, whole):6.1%})  {name}"
            for name, seconds in (*lines, ("Total", whole.seconds))
        )
        head = f"  Total Execution Time: {whole.seconds:.4f} seconds"
        columns = "  ----Wall Time-----  ----Name----"
        title = _TITLE.center(len(_RULE)).rstrip()
        return "\n".join((_RULE, title, _RULE, head, "", columns, *rows))

    def by_name(self) -> list[tuple[str, float]]:
        """The seconds of all steps of each name, longest first."""
        return _flat(self._finished())

    def as_json(self) -> list[object]:
        """The report as values for JSON, with the fields that `mlir-opt` gives it."""
        whole = self._finished()
        rows = [_json_of(step, whole) for step in whole.inner.values()]
        return [*rows, _json_of(TimedStep("Total", whole.seconds), whole)]

    def json_text(self) -> str:
        """The report as JSON."""
        return json.dumps(self.as_json())

    def _finished(self) -> TimedStep:
        """All steps until now, with the time in none of them as the last one."""
        steps = dict(self._whole.inner)
        seconds = perf_counter() - self._start
        measured = sum(step.seconds for step in steps.values())
        steps[-1, "Rest"] = TimedStep("Rest", max(0.0, seconds - measured))
        return TimedStep("total", max(seconds, measured), steps)


def _share(seconds: float, whole: TimedStep) -> float:
    return seconds / whole.seconds if whole.seconds else 0.0


def _nested(step: TimedStep, depth: int) -> Iterator[tuple[str, float]]:
    for inner in step.inner.values():
        yield "  " * depth + inner.name, inner.seconds
        yield from _nested(inner, depth + 1)


def _flat(step: TimedStep) -> list[tuple[str, float]]:
    """The seconds of each name, longest first."""
    found: dict[str, float] = {}
    for name, seconds in _nested(step, 0):
        found[name.strip()] = found.get(name.strip(), 0.0) + seconds
    return sorted(found.items(), key=lambda row: -row[1])


def _json_of(step: TimedStep, whole: TimedStep) -> dict[str, object]:
    share = 100 * _share(step.seconds, whole)
    wall = {"duration": round(step.seconds, 6), "percentage": round(share, 1)}
    row: dict[str, object] = {"wall": wall, "name": step.name}
    if step.inner:
        row["passes"] = [_json_of(inner, whole) for inner in step.inner.values()]
    return row
