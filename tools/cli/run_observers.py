"""
The observers of `penstock-run --trace` and `--profile`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from penstock.tools.cli.run_output import RunOutput
from penstock.tools.driver.files import write_whole

if TYPE_CHECKING:
    from penstock.runtime.executors.executor import Executor
    from penstock.runtime.observe.chrome_trace import Trace
    from penstock.runtime.observe.metrics import CostObserver, Expense
    from penstock.tools.session.ranks import Ranks

HEAD = ("task", "op", "calls", "total ms", "%", "GFLOP/s", "GB/s")


class Watching:
    """
    A context in which the runs of an executor are observed, if a trace or a profile is
    wanted.

    The trace is written at the end of the block, also that of a failed run. Of several
    `ranks` that is one trace of all, but of a failed run each writes its own.
    """

    def __init__(
        self,
        executor: Executor,
        trace: Path | None,
        ranks: Ranks | None = None,
        *,
        profile: bool,
    ):
        self._path = trace
        self._ranks = ranks
        self._trace: Trace | None = None
        self._cost: CostObserver | None = None
        self._profile: tuple[list[str], list[dict[str, object]]] | None = None
        # Their modules are imported only where they are of use.
        if trace is not None:
            from penstock.runtime.observe.chrome_trace import Trace

            self._trace = executor.observers.attach(Trace())
        if profile:
            from penstock.runtime.observe.metrics import CostObserver

            self._cost = executor.observers.attach(CostObserver())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *ending: object) -> None:
        if self._cost is not None and kind is None:
            self._profile = self._profile_of(self._cost.expenses())
        if self._trace is None or self._path is None:
            return
        if self._ranks is None:
            write_whole(str(self._path), self._trace.to_json())
        elif kind is not None:
            write_whole(str(self._ranks.own_path(self._path)), self._trace.to_json())
        else:
            self._write_joined(self._trace, self._path, self._ranks)

    @staticmethod
    def _write_joined(trace: Trace, path: Path, ranks: Ranks) -> None:
        from penstock.runtime.observe.trace_of_ranks import (
            RankTrace,
            text_of,
            trace_of_ranks,
        )

        start = trace.start_ns + ranks.clock_offset()
        found = [RankTrace(*each) for each in ranks.values([trace.to_dict(), start])]
        if ranks.is_first:
            write_whole(str(path), text_of(trace_of_ranks(found)))

    def _profile_of(
        self, expenses: Sequence[Expense]
    ) -> tuple[list[str], list[dict[str, object]]]:
        """The lines and the facts of a profile, of all ranks if there are several."""
        lines, facts = profile_lines(expenses), [_facts(x) for x in expenses]
        if self._ranks is None:
            return lines, facts
        found = self._ranks.values([lines, facts])
        return (
            [
                line
                for rank, (of_rank, _) in enumerate(found)
                for line in (f"rank {rank}:", *of_rank)
            ],
            [
                {"rank": rank, **fact}
                for rank, (_, of_rank) in enumerate(found)
                for fact in of_rank
            ],
        )

    def report(self, output: RunOutput) -> None:
        """Report after the block what was seen."""
        if self._profile is not None:
            lines, facts = self._profile
            output.say(lines, {"profile": facts})
        if self._trace is not None:
            output.say(f"wrote {self._path}", {"wrote": [str(self._path)]})


def profile_lines(expenses: Sequence[Expense]) -> list[str]:
    """A table of the times of ops, and a line for all of them together."""
    whole = sum(expense.times.total for expense in expenses)
    rows = [HEAD, *(_row(expense, whole) for expense in expenses)]
    calls = sum(expense.calls for expense in expenses)
    rows.append(("all", "", str(calls), f"{whole / 1e6:.3f}", "100.0", "", ""))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(_cells(row, widths)).rstrip() for row in rows]


def _facts(expense: Expense) -> dict[str, object]:
    """A row of the profile as values for JSON; times are in nanoseconds."""
    return {
        "task": expense.task,
        "op": expense.op,
        "calls": expense.calls,
        "total_ns": expense.times.total,
        "flops": expense.flops,
        "bytes": expense.bytes,
    }


def _cells(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    """The cells of a row: words to the left, numbers to the right."""
    return [
        cell.ljust(width) if column < 2 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    ]


def _row(expense: Expense, whole: int) -> tuple[str, ...]:
    total = expense.times.total
    return (
        expense.task,
        expense.op,
        str(expense.calls),
        f"{total / 1e6:.3f}",
        f"{100 * total / whole:.1f}" if whole else "-",
        _rate_text(expense.gflops, expense.flops),
        _rate_text(expense.gbytes, expense.bytes),
    )


def _rate_text(rate: float | None, amount: int | None) -> str:
    return f"{rate:.2f}" if rate is not None and amount else "-"
