"""
Steps of training, ours and those of peers: time, memory, and the update alone.

A step computes the loss of a batch, all gradients, and the new weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.elementwise import best_rows
from benchmarks.harness import Opener, Race, race
from benchmarks.memory import planned_memory
from benchmarks.models import passes_between
from benchmarks.networks import TRAININGS
from benchmarks.report import Json, Section, Table
from benchmarks.speed import flops_of, race_section
from benchmarks.trainers import (
    BACKWARD,
    FORWARD,
    MOVED,
    OPENERS,
    STEP,
    UPDATERS,
    job_of,
    torch_peak,
    training_of,
)
from penstock.runtime.observe.metrics import CostObserver
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.session.session import Session

if TYPE_CHECKING:
    from penstock.runtime.observe.metrics import Expense

TEXT = """\
Milliseconds of a step of training in `f32` on one batch (the median and the extremes of
all rounds) and the ratio of a peer's time to ours: above 1, we are faster. The losses
of the first three steps agree to 1e-4 before anything is timed. The MLP has SGD, models
of language AdamW and 2,000 words, networks of convolutions momentum, images of 224 x
224 pixels, and batch norms without running statistics. PyTorch's optimizers are fused,
its LSTM is its own layer, and JAX is given the memory of what it updates. The target is
1.1 against the best peer for the MLP, 1.3 for GPT-2, 1.5 for the LSTM, and 1.0 against
PyTorch for convolutions."""

UPDATE = """\
The update alone is that of AdamW on 2^24 weights, which reads four arrays and writes
three. The copy moves as many bytes: its ratio is our share of the bandwidth of a copy,
and 0.9 is the target."""

MEMORY = """\
Memory in MB, without weights and what optimizers keep: ours as it is planned, and what
PyTorch has in a step at the fullest moment, the batch included. The target is a ratio
of PyTorch's to ours of 1.43, which is 0.7 the other way."""

PARTS = """\
Where a step on one thread is below its target, the loss alone and the loss with all
gradients are timed, and the slowest tasks of the step are listed, with calls of several
steps together."""

SLOWEST, PROFILED = 8, 5
"""The tasks that are listed, and the steps of which their times are taken."""


class Peaks(NamedTuple):
    """The bytes of a step at its fullest moment."""

    ours: int
    torch: int
    """PyTorch's; 0 where it is not installed."""


@dataclass
class Found:
    """All that is measured of trainings, by their names and numbers of threads."""

    races: dict[tuple[str, int], Race] = field(default_factory=dict)
    parts: dict[tuple[str, int], Race] = field(default_factory=dict)
    updates: dict[tuple[str, int], Race] = field(default_factory=dict)
    flops: dict[str, int] = field(default_factory=dict)
    peaks: dict[str, Peaks] = field(default_factory=dict[str, Peaks])
    expenses: dict[str, Sequence[Expense]] = field(default_factory=dict)

    def add_update(self, threads: Sequence[int], rounds: int) -> None:
        """Time the update alone."""
        for count in threads:
            openers: Mapping[str, Opener] = {
                name: partial(opener, count) for name, opener in UPDATERS.items()
            }
            self.updates["AdamW", count] = race(openers, rounds)

    def add(self, name: str, threads: Sequence[int], rounds: int) -> None:
        """Time a training; and the parts of its step, if it misses its target."""
        self.flops[name] = part_flops(name, STEP)
        planned = planned_memory(job_of(training_of(name), STEP).module)
        self.peaks[name] = Peaks(planned["peak"], apart(torch_peak, name))
        for count in threads:
            self.races[name, count] = race(openers_of(name, STEP, count), rounds)
        if not misses(name, self.races[name, threads[0]]):
            return
        for part in (FORWARD, BACKWARD):
            title = f"{name}: {part}"
            self.flops[title] = part_flops(name, part)
            openers = openers_of(name, part, threads[0], ("PyTorch eager",))
            self.parts[title, threads[0]] = race(openers, rounds)
        self.expenses[name] = expenses_of(name)

    def section(self, rounds: int) -> Section:
        """The section of all that was measured."""
        sections = [
            race_section(title, TEXT, kind, races, flops, rounds, rate)
            for title, kind, races, flops, rate in (
                ("Training", "case", self.races, self.flops, "GFLOP/s"),
                ("Parts", "part", self.parts, self.flops, "GFLOP/s"),
                ("Updates", "update", self.updates, {"AdamW": MOVED}, "GB/s"),
            )
        ]
        steps, parts, updates = sections
        header = "threads", "case", "best peer / Penstock"
        memory = "training", "ours MB", "PyTorch MB", "ratio"
        tables = [
            *steps.tables,
            Table(header, best_rows(self.races)),
            *updates.tables,
            Table(memory, [peak_row(*row) for row in self.peaks.items()]),
            *(parts.tables if self.parts else ()),
            *(expense_table(*row) for row in self.expenses.items()),
        ]
        data: Json = {each.title.lower(): each.data for each in sections}
        texts = [steps.text, UPDATE, MEMORY, *([PARTS] if self.parts else ())]
        return replace(
            steps,
            text="\n\n".join(texts),
            tables=tables,
            data=data,
            problems=[problem for each in sections for problem in each.problems],
        )


def openers_of(
    name: str, part: str, threads: int, peers: Sequence[str] = tuple(OPENERS)
) -> Mapping[str, Opener]:
    """The opener of ours, and of peers, on a part of a step."""
    first = next(iter(OPENERS))
    return {
        contender: partial(opener, name, part, threads)
        for contender, opener in OPENERS.items()
        if contender == first or contender in peers
    }


def misses(name: str, found: Race) -> bool:
    """Whether a training is slower than its target against its peers."""
    training = training_of(name)
    peers = [
        ratio
        for result in found.results[1:]
        if not training.peers or result.name in training.peers
        if (ratio := found.ratio(result)) is not None
    ]
    return bool(peers) and min(peers) < training.target


def part_flops(name: str, part: str) -> int:
    """The arithmetic operations of a part of a step."""
    compiler, passes = installed_compiler()
    model = job_of(training_of(name), part)
    text = passes_between(None, "job-add-updates")
    run_pipeline(compiler, passes, model.module, text)
    return flops_of(model)


def apart(function: Callable[[str], int], name: str) -> int:
    """A number that a process of its own finds; 0 without a package that it needs."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        try:
            return pool.submit(function, name).result()
        except ImportError:
            return 0


def expenses_of(name: str) -> Sequence[Expense]:
    """The times of all tasks of steps on one thread, the slowest first."""
    training = training_of(name)
    x, labels = training.drawn_batch()
    inputs = {"x": x, "labels": labels}
    with Session(job_of(training, STEP), threads=1) as session:
        session.run(inputs)
        observer = session.executor.observers.attach(CostObserver())
        for _ in range(PROFILED):
            session.run(inputs)
        found = observer.expenses()
    return sorted(found, key=lambda expense: -expense.times.total)


def expense_table(name: str, expenses: Sequence[Expense]) -> Table:
    """The slowest tasks of a training, in milliseconds a step."""
    whole = sum(expense.times.total for expense in expenses)
    rows = [
        (
            f"`{expense.task}`",
            f"`{expense.op}`",
            f"{expense.times.total / PROFILED / 1e6:.3f}",
            f"{expense.times.total / whole:.1%}",
            "" if not expense.flops else f"{expense.gflops or 0:.1f}",
        )
        for expense in expenses[:SLOWEST]
    ]
    rows.append(("all", "", f"{whole / PROFILED / 1e6:.3f}", "100.0%", ""))
    return Table((name, "op", "ms", "share", "GFLOP/s"), rows)


def peak_row(name: str, peaks: Peaks) -> Sequence[str]:
    """The memory of a training, and how often ours goes into what PyTorch takes."""
    sizes = [f"{size / 1e6:.1f}" if size else "not installed" for size in peaks]
    return name, *sizes, f"{peaks.torch / peaks.ours:.2f}" if peaks.torch else ""


def training(
    threads: Sequence[int], rounds: int, names: Sequence[str] = tuple(TRAININGS)
) -> Section:
    """Time trainings with each number of threads, and look at their memory."""
    found = Found()
    found.add_update(threads, rounds)
    for name in names:
        found.add(name, threads, rounds)
    return found.section(rounds)
