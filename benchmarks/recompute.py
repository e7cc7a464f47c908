"""Memory of training steps that make values again, by our policies and PyTorch's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from benchmarks.models import passes_between
from benchmarks.networks import DEEP, TRAININGS
from benchmarks.report import Section, Table
from benchmarks.trainers import STEP, job_of, torch_peak, training_of
from benchmarks.training import apart
from penstock.dialects.job import JobOp
from penstock.lowering.algorithms.recomputation import (
    flops_of,
    kept_by_min_cut,
    made_again,
)
from penstock.lowering.job.recompute import TrainingStep, WithinBudget, flops_of_job
from penstock.tools.driver.compiler import installed_compiler, run_pipeline

TEXT = """\
Memory in MB of a training step, without weights and what optimizers keep: ours as it is
planned, with nothing made again, by `policy=min-cut`, and by `policy=budget` for half
of what could be saved and for all of it, with the operations that are done again of
those of the step. PyTorch's is what it allocates at the fullest moment, op by op and
with what its partitioner makes again (`torch.compile`). The last two columns are what
our min-cut needs of these."""

SHARES = 0.5, 0.0
"""The budgets that are asked for: the least one, and this share of what is above it."""


@dataclass
class Found:
    """The bytes of a training step, and the share of operations done again."""

    ours: int
    min_cut: int
    min_cut_again: float
    budgets: Sequence[int]
    peaks: Sequence[int]
    """The peaks of the plans for budgets."""
    again: Sequence[float]
    torch: int
    torch_min_cut: int

    def problems(self) -> Sequence[str]:
        """The budgets that are not met, or that cost less than larger ones."""
        missed = [
            f"a plan for {budget} bytes needs {peak}"
            for budget, peak in zip(self.budgets, self.peaks, strict=True)
            if peak > budget
        ]
        if list(self.again) != sorted(self.again):
            missed.append("smaller budgets make less again")
        return missed

    def row(self, name: str) -> Sequence[str]:
        """The cells of a row."""
        return (
            name,
            megabytes(self.ours),
            f"{megabytes(self.min_cut)}, {self.min_cut_again:.1%}",
            *(
                f"{megabytes(peak)}, {again:.1%}"
                for peak, again in zip(self.peaks, self.again, strict=True)
            ),
            megabytes(self.torch),
            megabytes(self.torch_min_cut),
            share(self.min_cut, self.torch),
            share(self.min_cut, self.torch_min_cut),
        )


HEADER = (
    "training",
    "ours",
    "min-cut, again",
    "half budget, again",
    "least budget, again",
    "PyTorch",
    "its min-cut",
    "of PyTorch's",
    "of its min-cut's",
)


def megabytes(size: int) -> str:
    """A number of bytes; nothing where it is not known."""
    return f"{size / 1e6:.1f}" if size else ""


def share(ours: int, theirs: int) -> str:
    """The ratio of bytes of ours to those of a peer; nothing without one."""
    return f"{ours / theirs:.2f}" if theirs else ""


def prepared(name: str) -> ModuleOp:
    """A training step as `job-recompute` gets it."""
    module = job_of(training_of(name), STEP).module
    compiler, passes = installed_compiler()
    run_pipeline(compiler, passes, module, passes_between(None, "op-fold-constants"))
    return module


def measured(name: str) -> Found:
    """All that is found of a training."""
    job = next(op for op in prepared(name).ops if isinstance(op, JobOp))
    step = TrainingStep(job)
    values, whole = step.forward(), flops_of_job(job)
    search = WithinBudget(step, Context(), None)
    cut = tuple(made_again(values, kept_by_min_cut(values)))
    ours, least = search.peak(()), search.least
    budgets = [least + int((ours - least) * share) for share in SHARES]
    found = [search.find(budget) for budget in budgets]
    return Found(
        ours=ours,
        min_cut=search.peak(cut),
        min_cut_again=flops_of(values, cut) / whole,
        budgets=budgets,
        peaks=[search.peak(made) for made in found],
        again=[flops_of(values, made) / whole for made in found],
        torch=apart(torch_peak, name),
        torch_min_cut=apart(partial(torch_peak, cuts=True), name),
    )


def section_of(found: Mapping[str, Found]) -> Section:
    """The section of what was measured."""
    rows = [each.row(name) for name, each in found.items()]
    problems = [f"{name}: {x}" for name, each in found.items() for x in each.problems()]
    data = {name: asdict(each) for name, each in found.items()}
    return Section("Recompute", TEXT, [Table(HEADER, rows)], data, problems)


def recompute(names: Sequence[str] = (*DEEP, *TRAININGS)) -> Section:
    """Plan trainings by all policies, and look at PyTorch's memory."""
    return section_of({name: measured(name) for name in names})
