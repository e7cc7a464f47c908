"""The run of a comparison: subjects in turn, variants in turns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, cast

from penstock.lowering.algorithms.packing.registry import PackingError
from penstock.tools.reports.compare.lifetimes import packed, read_problem, warm_up
from penstock.tools.reports.compare.measuring import Failure, difference
from penstock.tools.reports.compare.table import METRICS, Comparison
from penstock.tools.reports.compare.variants import JobFile, Variant
from penstock.tools.reports.compare.worker import Worker

if TYPE_CHECKING:
    from penstock.runtime.loading.initializers import Array

TOLERANCE = 1e-4
"""Relative differences of outputs from which on the table has a note."""

PLANNER_METRICS = ("memory", "compile-time")
"""The metrics of memory planners on lifetimes, which are no program."""

Tell = Callable[[str], None]
"""Is told what is measured next."""


def compare_jobs(
    variants: Sequence[Variant],
    files: Sequence[JobFile],
    metrics: Sequence[str],
    *,
    rounds: int,
    seconds: float,
    tell: Tell,
) -> Comparison:
    """
    The metrics of files under each variant. Runs take turns: in each of the rounds a
    variant runs for so many seconds, and the time is the median over all rounds.
    """
    names = [variant.name for variant in variants]
    found = Comparison(names, [METRICS[name] for name in metrics])
    with ExitStack() as stack:
        workers = [stack.enter_context(Worker(x.options)) for x in variants]
        for file in files:
            tell(file.name)
            facts = [_facts(worker.ask("compile", file)) for worker in workers]
            if "time" in metrics:
                _add_times(workers, facts, rounds, seconds)
                found.notes += _differences(file, names, workers, facts)
            found.add(file.name, facts)
    return found


def _facts(answer: object) -> dict[str, float] | str:
    if isinstance(answer, Failure):
        return answer.text
    return cast("dict[str, float]", answer)


def _add_times(
    workers: Sequence[Worker],
    facts: list[dict[str, float] | str],
    rounds: int,
    seconds: float,
) -> None:
    """Add the time of a run to the metrics of each variant that compiled."""
    for number, worker in enumerate(workers):
        if isinstance(facts[number], dict) and isinstance(
            failed := worker.ask("load"), Failure
        ):
            facts[number] = failed.text
    times: list[list[float]] = [[] for _ in workers]
    for _ in range(rounds):
        for number, worker in enumerate(workers):
            if isinstance(facts[number], dict):
                answer = worker.ask("run", seconds)
                if isinstance(answer, Failure):
                    facts[number] = answer.text
                else:
                    times[number] += cast("list[float]", answer)
    for number, each in enumerate(facts):
        if isinstance(each, dict):
            each["time"] = median(times[number])


def _differences(
    file: JobFile,
    names: Sequence[str],
    workers: Sequence[Worker],
    facts: Sequence[dict[str, float] | str],
) -> list[str]:
    """Notes on variants whose outputs are not those of the first one."""
    if isinstance(facts[0], str):
        return []
    expected = cast("dict[str, Array]", workers[0].ask("outputs"))
    notes: list[str] = []
    for number in range(1, len(workers)):
        if isinstance(facts[number], str):
            continue
        outputs = cast("dict[str, Array]", workers[number].ask("outputs"))
        error = difference(outputs, expected)
        if not error <= TOLERANCE:
            notes.append(
                f"{file.name}: outputs of {names[number]} differ by {error:.3g} from "
                f"those of {names[0]}"
            )
    return notes


BOUND = "bound"
"""The first column of planners: live bytes at the fullest step."""


def compare_planners(
    planners: Sequence[str],
    problems: Sequence[tuple[str, Path]],
    tell: Tell,
    metrics: Sequence[str] = PLANNER_METRICS,
) -> Comparison:
    """
    The peaks of memory planners on problems, against the bound that no layout is below,
    and the seconds that they take, or one of these.
    """
    found = Comparison([BOUND, *planners], [METRICS[name] for name in metrics])
    for planner in planners:
        # A planner that is broken says so at each problem.
        with suppress(PackingError):
            warm_up(planner)
    for name, path in problems:
        tell(name)
        problem = read_problem(path)
        row: list[dict[str, float] | str] = [{"memory": problem.bound}]
        for planner in planners:
            try:
                peak, seconds = packed(problem, planner)
                row.append({"memory": peak, "compile-time": seconds})
            except PackingError as error:
                row.append(str(error))
        found.add(name, row)
    return found
