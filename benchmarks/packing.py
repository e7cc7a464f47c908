"""
The heights and times of packing: on problems from files, and on models.

    python benchmarks/run.py --only packing [--data FOLDER] [--seconds 10]
"""

from __future__ import annotations

import statistics
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from benchmarks.compiling import StepTimes
from benchmarks.memory import memory_of
from benchmarks.models import exported_models, light_models, passes_between
from benchmarks.packers import (
    PEER,
    Result,
    installed_peer,
    others,
    packed,
    warm_up,
)
from benchmarks.report import Json, Section, Table
from penstock.dialects.regst import ChunkOp
from penstock.lowering.algorithms.packing import Budget, Lifetime, Problem
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.reports.compare.lifetimes import read_problem
from penstock.tools.reports.memory import Register, reports_of

TEXT = """\
Peaks of layouts over the bound, the live bytes at the fullest step, which no layout is
below; and seconds on one core, with what is compiled once an installation left out.
`best` is what `regst-plan-memory` uses: rules, then branch and bound; `default` is its
default budget of steps. The others are single algorithms: `size`, the default of
OneFlow, `lifetime`, `volume`, `conflicts` and `time line`, which it has or had;
`insert` opens gaps, `local` is a search of up to a second. Buffers are shuffled, as
their order may give the answer away."""

CAPACITY = 1 << 20
"""The bytes that the instances of MiniMalloc are known to fit into."""

TOLD_SECONDS = 60.0
"""When a search gives up that is told the capacity."""

SHORT, LONG, MANY = 0.9, 9.0, 1000
"""
The seconds that a search has for graphs of up to `MANY` buffers, and for larger ones,
which may take 1 and 10 seconds in all.
"""

PLANNER = "regst-plan-memory"

NO_ORDER = frozenset(("plan-order-tasks", "regst-alias-registers"))
"""Without these, tasks come in the order of the model, and nothing is in place."""

NO_FUSION = NO_ORDER | {
    *("op-split-pads", "op-fuse-elementwise", "op-fuse-epilogues", "op-fuse-rows"),
}
"""Without these, each op of the model is a task, too."""


@dataclass
class Found:
    """The parts of the section that are put together."""

    tables: list[Table] = field(default_factory=list[Table])
    notes: list[str] = field(default_factory=list[str])
    data: dict[str, Json] = field(default_factory=dict[str, Json])
    problems: list[str] = field(default_factory=list[str])
    of_source: list[float] = field(default_factory=list[float])
    """The peak of each model over that of its ops in their order."""


def packing(data: Path, seconds: float) -> Section:
    """
    Pack what is at hand. `data` has the folders `minimalloc` and `training` of
    problems, as `read_problem` takes them; `seconds` is for a search that is told
    nothing.
    """
    warm_up()
    found = Found()
    for name, add in (("minimalloc", add_minimalloc), ("training", add_training)):
        paths = sorted((data / name).glob("*.csv"))
        if paths:
            add(found, paths, seconds)
        else:
            found.notes.append(f"No problems of `{name}` in {data}.")
    add_models(found, "ONNX's light models", light_models(), seconds)
    add_models(found, "exported models", exported_models(), seconds)
    note_gains(found)
    if installed_peer(seconds) is None:
        found.notes.append(f"{PEER} is not installed.")
    text = "\n\n".join([TEXT, *found.notes])
    return Section("Packing", text, found.tables, found.data, found.problems)


################################################################################
# Problems from files                                                          #
################################################################################


def add_minimalloc(found: Found, paths: Sequence[Path], seconds: float) -> None:
    """The instances of MiniMalloc, with a search that is told the capacity or not."""
    rows: list[list[str]] = []
    ratios: dict[str, list[float]] = {}
    total = 0.0
    for path in paths:
        problem, name = read_problem(path), path.name.partition(".")[0]
        told = packed(problem, "best", Budget(seconds=TOLD_SECONDS, capacity=CAPACITY))
        if told.peak > CAPACITY:
            found.problems.append(f"{name}: {told.peak} bytes, more than {CAPACITY}")
        total += told.seconds
        results = {
            f"best, {seconds:g} s": packed(problem, "best", Budget(seconds=seconds)),
            **others(problem, seconds),
        }
        keep(ratios, problem, results)
        row = [str(len(problem.sizes)), f"{problem.bound / CAPACITY:.3f}"]
        rows.append([name, *row, f"{told.seconds:.2f}", *ratio_cells(problem, results)])
        found.data[f"minimalloc {name}"] = figures(problem, {"told": told, **results})
    header = "MiniMalloc", "buffers", "bound / capacity", "told s", *ratios
    total_row = ["total", "", "", f"{total:.2f}", *[""] * len(ratios)]
    rows += [total_row, *mean_rows(ratios, 3)]
    found.tables.append(Table(header, rows))


def add_training(found: Found, paths: Sequence[Path], seconds: float) -> None:
    """Lifetimes of training graphs."""
    rows: list[list[str]] = []
    ratios: dict[str, list[float]] = {}
    for path in paths:
        problem = read_problem(path)
        results, limit = searched(problem)
        results |= others(problem, min(seconds, limit))
        keep(ratios, problem, results)
        took = f"{results['best'].seconds:.2f}"
        cells = ratio_cells(problem, results)
        rows.append([path.stem, str(len(problem.sizes)), took, *cells])
        found.data[f"training {path.stem}"] = figures(problem, results)
    header = "training graph", "buffers", "best s", *ratios
    found.tables.append(Table(header, [*rows, *mean_rows(ratios, 2)]))


def searched(problem: Problem) -> tuple[dict[str, Result], float]:
    """
    The results of `best` by default and in the seconds that a graph has; and these.
    """
    limit = SHORT if len(problem.sizes) <= MANY else LONG
    return {
        "default": packed(problem, "best"),
        "best": packed(problem, "best", Budget(seconds=limit)),
    }, limit


################################################################################
# Models                                                                       #
################################################################################


def add_models(
    found: Found,
    group: str,
    models: Iterable[tuple[str, ModuleOp]],
    seconds: float,
) -> None:
    """Models, as they come out of the standard pipeline."""
    rows: list[list[str]] = []
    ratios: dict[str, list[float]] = {}
    of_source: list[float] = []
    of_plain: list[float] = []
    for name, module in models:
        source, plain = (
            peak_by_size(module.clone(), left_out) for left_out in (NO_FUSION, NO_ORDER)
        )
        planner = plan(module)
        problem = problem_of(module)
        peak = memory_of(module)["peak"]
        results = {"plan": Result(peak, planner), **others(problem, SHORT)}
        keep(ratios, problem, results)
        of_source.append(peak / source)
        of_plain.append(peak / plain)
        row = [str(len(problem.sizes)), f"{planner:.2f}"]
        row += [f"{of_source[-1]:.3f}", f"{of_plain[-1]:.3f}"]
        rows.append([name, *row, *ratio_cells(problem, results)])
        found.data[f"{group}: {name}"] = figures(
            problem, results, source=source, plain=plain
        )
    if not rows:
        found.notes.append(f"No {group}: PyTorch is not installed.")
        return
    first, *rest = mean_rows(ratios, 4)
    first[3:5] = (
        f"{statistics.geometric_mean(gains):.3f}" for gains in (of_source, of_plain)
    )
    header = group, "registers", "planner s", "of source", "of plain", *ratios
    found.tables.append(Table(header, [*rows, first, *rest]))
    found.of_source += of_source


def note_gains(found: Found) -> None:
    """Say what all models need, of what their ops in their order would."""
    mean = statistics.geometric_mean(found.of_source)
    found.notes.append(
        "`of source` is the peak over that of `size` for the ops of the model, one by "
        "one in their order and without aliases: what fusion, order, working in place "
        f"and views save, besides packing; {mean:.3f} in the geometric mean of all "
        f"{len(found.of_source)} models. `of plain` is the same with ops fused."
    )


def plan(module: ModuleOp) -> float:
    """Run the pipeline up to places; the seconds that packing took of it."""
    compiler, passes = installed_compiler()
    compiler.times = times = StepTimes()
    run_pipeline(compiler, passes, module, passes_between(None, PLANNER))
    return sum(t for (_, name), t in times.seconds.items() if name == PLANNER)


def peak_by_size(module: ModuleOp, left_out: Collection[str]) -> int:
    """The peak, packed by size alone, without some passes of the pipeline."""
    names = passes_between(None, PLANNER).split(",")
    kept = [name for name in names if name.partition("{")[0] not in left_out]
    assert len(kept) + len(left_out) == len(names), "a pass has another name"
    compiler, passes = installed_compiler()
    text = ",".join(kept) + "{algorithm=size-first}"
    run_pipeline(compiler, passes, module, text)
    return memory_of(module)["peak"]


def problem_of(module: ModuleOp) -> Problem:
    """The packing problem of a plan on one CPU."""
    (report,) = reports_of(module)
    (zone,) = report.zones
    registers = (r for c in zone.chunks for b in c.blocks for r in b.registers)
    chunks = (op for op in module.walk() if isinstance(op, ChunkOp))
    return Problem(
        [Lifetime(r.first, r.last, r.bytes) for r in registers if is_packed(r)],
        next(chunks).memory_case.alignment,
    )


def is_packed(register: Register) -> bool:
    """Whether a register is neither an alias nor a variable."""
    return register.alias_of is None and "variable" not in register.reasons


################################################################################
# Tables                                                                       #
################################################################################


def keep(
    ratios: dict[str, list[float]], problem: Problem, results: Mapping[str, Result]
) -> None:
    """Remember how far each result is above the bound."""
    for column, result in results.items():
        ratios.setdefault(column, []).append(result.peak / problem.bound)


def ratio_cells(problem: Problem, results: Mapping[str, Result]) -> list[str]:
    """The peak of each result over the bound."""
    return [f"{result.peak / problem.bound:.4f}" for result in results.values()]


def mean_rows(ratios: Mapping[str, Sequence[float]], blank: int) -> list[list[str]]:
    """The last lines, behind `blank` cells: geometric means, the worst, the exact."""

    def row(name: str, cells: Iterable[str]) -> list[str]:
        return [name, *[""] * blank, *cells]

    columns = ratios.values()
    return [
        row("geometric mean", (f"{statistics.geometric_mean(c):.4f}" for c in columns)),
        row("worst", (f"{max(c):.4f}" for c in columns)),
        row("at the bound", (f"{sum(x == 1 for x in c)}/{len(c)}" for c in columns)),
    ]


def figures(
    problem: Problem, results: Mapping[str, Result], **more: int
) -> dict[str, Json]:
    """The same as data: bytes and seconds."""
    return {
        "buffers": len(problem.sizes),
        "bound": problem.bound,
        "sum": sum(problem.strides),
        **more,
        "results": {column: vars(result) for column, result in results.items()},
    }
