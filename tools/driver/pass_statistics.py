"""
Statistics of passes: ops before and after each, and the counts that a pass gives
itself (`penstock.dialects.utils.pass_events.count`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from xdsl.dialects.builtin import ModuleOp

from penstock.dialects.utils.pass_events import counting
from penstock.tools.driver.instrumentation import PassInstrumentation, Step

_RULE = f"==={'-' * 73}==="
_TITLE = "... Pass statistics report ..."
BEFORE, AFTER = "ops before", "ops after"


@dataclass
class Row:
    """The statistics of one pass of a pipeline."""

    name: str
    counts: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, what: str, number: int) -> None:
        """Add to a statistic."""
        self.counts[what] = self.counts.get(what, 0) + number


class PassStatistics(PassInstrumentation):
    """The statistics of all passes that have run, by their positions."""

    def __init__(self) -> None:
        self._rows: dict[tuple[int, str], Row] = {}
        self._counting = ExitStack()

    def before_pass(self, step: Step, module: ModuleOp) -> None:
        row = self._rows.setdefault((step.position, step.name), Row(step.name))
        row.add(BEFORE, _size(module))
        self._counting.enter_context(counting(row.add))

    def after_pass(self, step: Step, module: ModuleOp) -> None:
        self._counting.close()
        self._rows[step.position, step.name].add(AFTER, _size(module))

    def after_failure(self, step: Step, module: ModuleOp) -> None:
        self._counting.close()

    def rows(self, *, merged: bool = False) -> list[Row]:
        """The rows in the order of the pipeline, or one a name in that of names."""
        if not merged:
            return list(self._rows.values())
        found: dict[str, Row] = {}
        for row in self._rows.values():
            into = found.setdefault(row.name, Row(row.name))
            for what, number in row.counts.items():
                into.add(what, number)
        return [found[name] for name in sorted(found)]

    def report(self, *, as_list: bool = False) -> str:
        """The report of `mlir-opt --mlir-pass-statistics`."""
        title = _TITLE.center(len(_RULE)).rstrip()
        lines = _lines(self.rows(merged=as_list))
        return "\n".join((_RULE, title, _RULE, *lines))

    def as_json(self, *, as_list: bool = False) -> list[Mapping[str, object]]:
        """The report as values for JSON."""
        rows = self.rows(merged=as_list)
        return [{"pass": row.name, "statistics": row.counts} for row in rows]

    def json_text(self, *, as_list: bool = False) -> str:
        """The report as JSON."""
        return json.dumps(self.as_json(as_list=as_list))


def _size(module: ModuleOp) -> int:
    """The number of ops of a module, without itself."""
    return sum(1 for _ in module.walk()) - 1


def _lines(rows: Sequence[Row]) -> Iterator[str]:
    for row in rows:
        yield f"'{row.name}' Pass"
        width = max((len(str(number)) for number in row.counts.values()), default=0)
        for what, number in row.counts.items():
            yield f"  (S) {number:{width}} {what}"
