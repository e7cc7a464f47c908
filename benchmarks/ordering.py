"""
The bytes that an order of tasks can save: the live bytes of the source order, of the
order that `plan-order-tasks` finds, and a limit that no order is below.

    python benchmarks/run.py --only ordering
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import geometric_mean
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp

from benchmarks.models import example_models, light_models, passes_between
from benchmarks.report import Section, Table
from penstock.dialects.plan import PlanOp
from penstock.lowering.algorithms.ordering.problem import Problem, Task, Value, peak_of
from penstock.lowering.algorithms.ordering.strategies import early_order, memory_order
from penstock.lowering.analysis.task_order import TaskOrder
from penstock.lowering.plan.ordering_problem import PlanProblem
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.session.report import size_text

TEXT = """\
Live bytes at the fullest step, without variables: in the source order; with freeing
tasks as early as they can run (`early-updates`); as `plan-order-tasks` finds them; and
the least that is known to be needed in every order: where the last column is 1, no
order needs less than the one that was found."""

################################################################################
# Generated jobs                                                               #
################################################################################


@dataclass
class JobBuilder:
    """Makes the tasks of a job one after the other."""

    values: list[Value] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)

    def add(self, reads: Sequence[int], *sizes: int) -> int:
        """Add a task that makes values of so many bytes; the first of them."""
        first = len(self.values)
        self.values.extend(map(Value, sizes))
        made = tuple(range(first, len(self.values)))
        self.tasks.append(Task(tuple(dict.fromkeys(reads)), made))
        return first

    def problem(self) -> Problem:
        """The job so far."""
        return Problem(self.values, self.tasks)


class Layer(NamedTuple):
    """The values and widths of a layer that its backward pass needs."""

    value: int
    sum: int
    skipped: int | None
    width: int
    width_before: int


def training(layers: int, seed: int, batch: int = 64) -> Problem:
    """
    A training step of a perceptron of random widths, two in five layers of which also
    add what a random earlier layer made, with all updates at the end.
    """
    rng = random.Random(seed)
    job = JobBuilder()
    made: list[tuple[int, int]] = [(job.add((), 4 * batch * 256), 256)]
    saved: list[Layer] = []
    for index in range(layers):
        (value, before), width = made[-1], rng.choice((64, 128, 256, 512, 1024))
        total = job.add((value,), 4 * batch * width)
        result = job.add((total,), 4 * batch * width)
        skipped = rng.randrange(index) if index > 2 and rng.random() < 0.4 else None
        if skipped is not None:
            side = job.add((made[skipped + 1][0],), 4 * batch * width)
            result = job.add((result, side), 4 * batch * width)
        made.append((result, width))
        saved.append(Layer(value, total, skipped, width, before))
    _backward(job, saved, batch, job.add((made[-1][0],), 4 * batch * made[-1][1]))
    return job.problem()


def _backward(
    job: JobBuilder, saved: Sequence[Layer], batch: int, gradient: int
) -> None:
    """Add the backward pass from the gradient of the last layer on, and updates."""
    arriving: dict[int, list[int]] = {len(saved) - 1: [gradient]}
    weights: list[int] = []
    for index in reversed(range(len(saved))):
        layer = saved[index]
        gradient, *others = arriving[index]
        for other in others:
            gradient = job.add((gradient, other), 4 * batch * layer.width)
        if layer.skipped is not None:
            side = job.add((gradient,), 4 * batch * saved[layer.skipped].width)
            arriving.setdefault(layer.skipped, []).append(side)
        inner = job.add((gradient, layer.sum), 4 * batch * layer.width)
        if index:
            below = job.add((inner,), 4 * batch * layer.width_before)
            arriving.setdefault(index - 1, []).append(below)
        size = 4 * layer.width * layer.width_before
        weights.append(job.add((layer.value, inner), size))
    for weight in weights:
        job.add((weight,))


def tangle(tasks: int, seed: int, reach: int = 30) -> Problem:
    """Tasks that read up to three random values of those made not long before."""
    rng = random.Random(seed)
    job = JobBuilder()
    for task in range(tasks):
        count = rng.choice((0, 1, 1, 2, 2, 3)) if task else 0
        first = max(0, task - reach)
        reads = {rng.randrange(first, task) for _ in range(count)}
        job.add(sorted(reads), 256 * rng.choice((1, 2, 4, 8, 16, 64)))
    return job.problem()


def training_jobs() -> Iterator[tuple[str, Problem]]:
    """Training steps of all sizes with their names."""
    for layers in (4, 8, 16, 40, 130, 400, 1300):
        problem = training(layers, seed=layers)
        yield f"training, {len(problem.tasks)} tasks", problem


def tangles() -> Iterator[tuple[str, Problem]]:
    """Tangles of all sizes with their names."""
    for tasks in (20, 100, 1000, 3000, 10_000):
        yield f"tangle, {tasks} tasks", tangle(tasks, seed=tasks)


################################################################################
# Models                                                                       #
################################################################################


def models() -> Iterator[tuple[str, Problem]]:
    """The plans of the models at hand."""
    for name, module in (*light_models(), *example_models()):
        yield name, plan_problem(module)


def plan_problem(module: ModuleOp) -> Problem:
    """The tasks of a module's plan, as they come out of the standard pipeline."""
    compiler, passes = installed_compiler()
    run_pipeline(compiler, passes, module, passes_between(None, "convert-job-to-plan"))
    (plan,) = (op for op in module.body.block.ops if isinstance(op, PlanOp))
    return PlanProblem(TaskOrder(plan), in_place=False).problem


################################################################################
# Report                                                                       #
################################################################################


def figures(problem: Problem) -> dict[str, int | float]:
    """The bytes that orders of a problem need, and the time it took to find them."""
    source, early = (
        peak_of(problem, o) for o in (problem.source, early_order(problem))
    )
    start = time.perf_counter()
    order, limit = memory_order(problem)
    seconds = time.perf_counter() - start
    return {
        "tasks": len(problem.tasks),
        "source": source,
        "early": early,
        "found": peak_of(problem, order),
        "limit": limit,
        "seconds": seconds,
    }


def row(name: str, found: Mapping[str, int | float]) -> list[str]:
    """The cells of one job."""
    source = found["source"]
    return [
        name,
        size_text(int(source)),
        f"{found['early'] / source:.3f}",
        f"{found['found'] / source:.3f}",
        f"{found['limit'] / source:.3f}",
        f"{found['seconds']:.2f} s",
        f"{found['found'] / found['limit']:.3f}",
    ]


def ordering() -> Section:
    """Order the tasks of models and of generated jobs."""
    data: dict[str, dict[str, int | float]] = {}
    rows: list[list[str]] = []
    for group, jobs in (
        ("models", models()),
        ("training", training_jobs()),
        ("tangles", tangles()),
    ):
        found = {name: figures(problem) for name, problem in jobs}
        rows += [row(name, each) for name, each in found.items()]
        rows.append(mean_row(f"geometric mean of {group}", [*found.values()]))
        data |= found
    header = "job", "source", "early", "found", "limit", "time", "found / limit"
    return Section("Order", TEXT, [Table(header, rows)], data)


def mean_row(name: str, found: Sequence[Mapping[str, int | float]]) -> list[str]:
    """The geometric means of what is a ratio in `row`."""
    ratios = [
        geometric_mean([each[key] / each["source"] for each in found])
        for key in ("early", "found", "limit")
    ]
    above = geometric_mean([each["found"] / each["limit"] for each in found])
    return [name, "", *(f"{ratio:.3f}" for ratio in ratios), "", f"{above:.3f}"]
