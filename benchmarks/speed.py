"""The time of a run: Penstock and its peers in turns, and the parts of our time."""

from __future__ import annotations

import ctypes
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.contenders import openers
from benchmarks.harness import NOT_INSTALLED, Race, Result, race
from benchmarks.report import Json, Section, Table
from benchmarks.sessions import imported_model
from benchmarks.workloads import WORKLOADS
from penstock.dialects.launch import ActorOp, CallOp, ProgramOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.walk import outermost
from penstock.runtime.core.io_kernels import KernelFunction
from penstock.runtime.executors.executor import Executor, check_inputs, point
from penstock.runtime.loading.initializers import Array
from penstock.tools.session.session import Model, Session

SPEED = """\
Milliseconds of a run (the median and the extremes of all rounds) and the ratio of a
peer's time to ours: above 1, we are faster. Each contender has a process of its own and
as many threads as the others. They take turns, and their outputs agree to 1e-4 of the
largest value before anything is timed."""

PROFILE = """\
The tasks of a run, made one after the other by one thread: the slowest ones with their
kernels (medians), and the others together."""


def flops_of(model: Model) -> int:
    """The arithmetic operations of one run of a job, as its ops count them."""
    return sum(op.flops() for op in outermost(model.module, TensorOp))


def speed(threads: Sequence[int], rounds: int) -> Section:
    """Time all workloads with each number of threads."""
    races = {
        (name, count): race(openers(name, count), rounds)
        for name in WORKLOADS
        for count in threads
    }
    flops = {
        name: flops_of(imported_model(make().model)) for name, make in WORKLOADS.items()
    }
    return race_section("Speed", SPEED, "workload", races, flops, rounds)


def race_section(
    title: str,
    text: str,
    kind: str,
    races: Mapping[tuple[str, int], Race],
    flops: Mapping[str, int],
    rounds: int,
    rate: str = "GFLOP/s",
) -> Section:
    """
    The section of races, by the names of the workloads and the numbers of threads. The
    rate is of what `flops` counts.
    """
    disturbed = sum(result.disturbed for result in races.values())
    if disturbed:
        text += (
            f" In {disturbed} of {rounds * len(races)} rounds the machine was not idle."
        )
    header = kind, "threads", "contender", "ms", "range", "ratio", rate
    rows = [
        row
        for (name, count), found in races.items()
        for row in race_rows(name, count, found, flops[name])
    ]
    problems = [
        f"{name}, {count} threads: {result.name}: {result.problem}"
        for (name, count), found in races.items()
        for result in found.results
        if is_failure(result)
    ]
    data = [
        {kind: name, "threads": count, **race_data(found)}
        for (name, count), found in races.items()
    ]
    return Section(title, text, [Table(header, rows)], data, problems)


def is_failure(result: Result) -> bool:
    """Whether a contender has no times though it is installed."""
    return result.problem is not None and not result.problem.startswith(NOT_INSTALLED)


def race_rows(name: str, threads: int, found: Race, flops: int) -> list[list[str]]:
    """The lines of a workload: times of each contender, or why there are none."""
    return [
        [name, str(threads), result.name, *result_cells(result, found, flops)]
        for result in found.results
    ]


def result_cells(
    result: Result, found: Race, flops: int, units: float = 1e3
) -> list[str]:
    """The time in so many units a second, its range, the ratio, and the rate."""
    if result.problem is not None:
        return ["no result" if is_failure(result) else "not installed", "", "", ""]
    ratio = found.ratio(result)
    low, high = min(result.seconds), max(result.seconds)
    return [
        f"{result.median * units:.3f}",
        f"{low * units:.3f}-{high * units:.3f}",
        "" if ratio is None or result is found.results[0] else f"{ratio:.2f}",
        f"{flops / result.median / 1e9:.1f}",
    ]


def race_data(found: Race) -> dict[str, Json]:
    """The figures of a race."""
    return {
        "disturbed_rounds": found.disturbed,
        "contenders": [
            {
                "name": result.name,
                "seconds": result.seconds,
                "ratio": found.ratio(result),
                "problem": result.problem,
            }
            for result in found.results
        ],
    }


################################################################################
# Kernel by kernel                                                             #
################################################################################


@dataclass(frozen=True)
class Step:
    """One call of an actor: its task, and how to make it again."""

    task: str
    call: Callable[[], int]


def steps_of(executor: Executor) -> list[Step]:
    """The calls of one act of all actors, in the order of the program."""
    tables = executor.program.tables
    layout, rows = tables.layout, tables.rows

    def step(task: str, index: int) -> Step:
        kernel = KernelFunction(int(layout.kernel[index]))
        words = ctypes.c_int64(rows.ctypes.data + 8 * int(layout.row[index]))
        return Step(task, lambda: kernel(words, 0, 1))

    return [
        step(actor.name, call)
        for index, actor in enumerate(tables.actors)
        for call in range(layout.call_start[index], layout.call_start[index + 1])
    ]


def task_seconds(
    executor: Executor, inputs: Mapping[str, Array], rounds: int
) -> dict[str, float]:
    """
    The median seconds of each task's calls, slowest first.

    The program must have one stream and single slots, so that its tasks can run in the
    order in which it lists them.
    """
    program = executor.program
    fed = check_inputs(program.inputs, inputs)
    out = executor.run(inputs)
    steps = steps_of(executor)
    seconds: dict[str, list[float]] = {step.task: [] for step in steps}
    for _ in range(rounds):
        point(program.inputs.values(), [fed])
        point(program.outputs.values(), [out])
        for step in steps:
            start = time.perf_counter()
            step.call()
            seconds[step.task].append(time.perf_counter() - start)
    found = {task: statistics.median(values) for task, values in seconds.items()}
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def profile(rounds: int, shown: int = 6) -> Section:
    """The slowest tasks of the larger workloads."""
    tables: list[Table] = []
    data: dict[str, Json] = {}
    for name in ("squeezenet", "encoder"):
        workload = WORKLOADS[name]()
        with Session(imported_model(workload.model)) as session:
            found = task_seconds(session.executor, workload.inputs, rounds)
            kernels = kernels_of(session.program)
        tables.append(profile_table(name, found, kernels, shown))
        data[name] = found
    return Section("Slowest tasks", PROFILE, tables, data)


def kernels_of(program: ProgramOp) -> dict[str, str]:
    """The names of the kernels that each task calls."""
    return {
        actor.sym_name.data: ", ".join(
            call.kernel.root_reference.data
            for call in actor.body.block.ops
            if isinstance(call, CallOp)
        )
        for actor in program.body.block.ops
        if isinstance(actor, ActorOp)
    }


def profile_table(
    name: str, seconds: Mapping[str, float], kernels: Mapping[str, str], shown: int
) -> Table:
    """The slowest tasks, then the sum of the others and of all."""
    total = sum(seconds.values())
    slowest = list(seconds.items())[:shown]
    rest = total - sum(spent for _, spent in slowest)
    lines = [(f"`{task}`", f"`{kernels[task]}`", spent) for task, spent in slowest]
    lines += [("others", "", rest), ("all", "", total)]
    rows = [
        (task, kernel, f"{spent * 1e3:.3f}", f"{spent / total:.0%}")
        for task, kernel, spent in lines
    ]
    return Table((name, "kernel", "ms", "share"), rows)
