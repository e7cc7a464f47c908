"""
The gain of tuning: kernels as the rules make them, and the fastest ones by measurement.

The candidates of each kernel are measured as `penstock-run --tune` does; then the
chosen ones are measured once more beside the rules, on other data, as the least of many
times is less than the usual one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.gemm import CONVOLUTIONS, PRODUCTS, case_of, op_of
from benchmarks.report import Json, Section, Table

if TYPE_CHECKING:
    from penstock.lowering.launch.autotune.alternatives import Request
    from penstock.runtime.observe.timing_rounds import Effort
    from penstock.tools.session.tuning import Subject

TEXT = """\
Microseconds of kernels of the cases above on one thread, as the rules of
`launch-schedule-contractions` make them and as `penstock-run --tune` chooses them:
medians of a second measurement of both, side by side. A choice differs from the rules
only if it gains 2 % when candidates are measured first."""

SEED = 11


def request_of(name: str) -> Request:
    """The kernel of a case, whose right operand is a constant."""
    from penstock.dialects.kernel.builder import kernel_body
    from penstock.dialects.launch import KernelOp
    from penstock.lowering.codegen.cpu.vector_width import vector_bytes_here
    from penstock.lowering.launch.autotune.alternatives import Request

    kernel = KernelOp("kernel", "cpu", kernel_body(op_of(case_of(name))))
    return Request(kernel, frozenset({1}), 1, vector_bytes_here())


def tuned(names: Sequence[str], folder: Path, effort: Effort) -> list[Subject]:
    """The cases with the times of their candidates."""
    from penstock.lowering.kernel_times.database import KernelDatabase
    from penstock.tools.session.options import CompileOptions
    from penstock.tools.session.tuning import (
        Tuning,
        compile_subjects,
        measure,
        subject_of,
    )

    tuning = Tuning(CompileOptions(database=folder / "kernels.db"), effort=effort)
    with KernelDatabase(tuning.database, write=True) as database:
        subjects = [subject_of(request_of(name), tuning, database) for name in names]
        compile_subjects(subjects)
        for subject in subjects:
            measure(subject, tuning, database)
    return subjects


def verdict(subject: Subject, effort: Effort) -> tuple[float, float]:
    """The nanoseconds of the rules and of what was chosen, measured once more."""
    from penstock.runtime.observe.kernel_timer import profile
    from penstock.tools.session.program_export import kernel_image
    from penstock.tools.session.tuning import contenders_of

    names = ["rules", subject.same.get(subject.chosen.name, subject.chosen.name)]
    contenders = {found.name: found for found in contenders_of(subject)}
    kinds = kernel_image(subject.request.kernel).arguments
    wanted = [contenders[name] for name in dict.fromkeys(names)]
    results = {
        result.name: result.median_ns
        for result in profile(wanted, kinds, effort=effort, seed=SEED)
    }
    return results[names[0]], results[names[1]]


def tuning(rounds: int, names: Sequence[str] = (*PRODUCTS, *CONVOLUTIONS)) -> Section:
    """Tune the kernels of all cases."""
    from penstock.runtime.observe.timing_rounds import Effort

    effort = Effort(rounds=5 * rounds, seconds=4.0)
    rows: list[list[str]] = []
    data: list[Json] = []
    problems: list[str] = []
    gains: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        for name, subject in zip(
            names, tuned(names, Path(folder), effort), strict=True
        ):
            rules, chosen = verdict(subject, effort)
            gains.append(rules / chosen)
            times = f"{rules / 1e3:.2f}", f"{chosen / 1e3:.2f}", f"{gains[-1]:.2f}"
            rows.append([name, *times, subject.chosen.name])
            data.append({"case": name, "rules_ns": rules, "chosen_ns": chosen})
            problems += [f"{name}: {k}: {v}" for k, v in subject.problems.items()]
    mean = prod(gains) ** (1 / len(gains))
    rows.append(["geometric mean", "", "", f"{mean:.2f}", ""])
    header = "case", "rules us", "tuned us", "gain", "selected"
    return Section("Tuned kernels", TEXT, [Table(header, rows)], data, problems)
