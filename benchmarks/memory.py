"""The memory that programs take, against the least that their order of tasks allows."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import ModuleOp

from benchmarks.report import Section, Table
from benchmarks.sessions import imported_model
from benchmarks.workloads import WORKLOADS
from penstock.dialects.regst import BlockOp
from penstock.lowering.pipelines import PipelineOptions, pipeline, text_of
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.session.report import size_text

TEXT = """\
Activations with one stream: the peak, which is allocated once; `bound`, the live bytes
at the fullest moment, which no plan for this order of tasks can go below; and the sum,
what they would take if nothing shared memory. The target is a ratio of at most 1.02 for
SqueezeNet."""

VARIABLES = "variables"
"""The name that the planner gives the block of weights."""


def planned_memory(module: ModuleOp) -> dict[str, int]:
    """The memory of a job, which becomes a plan."""
    compiler, passes = installed_compiler()
    text = text_of(pipeline(PipelineOptions("cpu")))
    to_plan = text.partition(",convert-plan-to-launch")[0]
    run_pipeline(compiler, passes, module, to_plan)
    return memory_of(module)


def memory_of(module: ModuleOp) -> dict[str, int]:
    """The bytes of the activations of a plan (peak, bound, sum) and of its weights."""
    blocks = [op for op in module.walk() if isinstance(op, BlockOp)]
    weights = [b for b in blocks if b.block.name_hint == VARIABLES]
    others = [b for b in blocks if b.block.name_hint != VARIABLES]
    return {
        "peak": sum(block.size.value.data for block in others),
        "bound": sum(b.bound.value.data for b in others if b.bound is not None),
        "sum": sum(b.sum.value.data for b in others if b.sum is not None),
        "weights": sum(block.size.value.data for block in weights),
    }


def memory() -> Section:
    """Plan the memory of all workloads."""
    found: dict[str, dict[str, int]] = {}
    for name, make in WORKLOADS.items():
        found[name] = planned_memory(imported_model(make().model).module)
    header = "workload", "peak", "bound", "peak / bound", "sum", "weights"
    rows = [[name, *sizes_cells(sizes)] for name, sizes in found.items()]
    return Section("Memory", TEXT, [Table(header, rows)], found)


def sizes_cells(sizes: Mapping[str, int]) -> list[str]:
    """The sizes of a plan, with its peak over the bound in the middle."""
    return [
        size_text(sizes["peak"]),
        size_text(sizes["bound"]),
        f"{sizes['peak'] / sizes['bound']:.3f}" if sizes["bound"] else "",
        size_text(sizes["sum"]),
        size_text(sizes["weights"]),
    ]
