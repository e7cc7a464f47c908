"""
List the values that each job shares with others, section by section.

Each job, also of the system, gets an attribute `sections`:

* `total` reads all variables of the job, and writes those that it assigns to;
* `input/<name>` reads an input, one for each, in the order of the ops;
* `outputs` writes all outputs, if there are any.

Names in a section are in the order of the ops, each once. Foreign inputs and outputs,
which are fed or fetched from outside, are in no list, as jobs do not share them. A job
that has the attribute keeps it.

Example: `test/lowering/job/job-add-sections-example.mlir`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.passes import ModulePass

from penstock.dialects.job import (
    SECTIONS,
    AssignOp,
    InputOp,
    JobOp,
    OutputOp,
    SectionAttr,
    VariableOp,
)
from penstock.lowering.analysis.shared_ports import jobs_in


def sections_for(job: JobOp) -> list[SectionAttr]:
    """The sections of a job, by its ops."""
    variables: list[str] = []
    assigned: list[str] = []
    inputs: list[str] = []
    outputs: list[str] = []
    for op in job.body.block.ops:
        match op:
            case VariableOp():
                variables.append(op.port.data)
            case AssignOp() if isinstance(variable := op.target.owner, VariableOp):
                assigned.append(variable.port.data)
            case InputOp():
                inputs.append(op.port.data)
            case OutputOp():
                outputs.append(op.port.data)
            case _:
                pass
    read = [name for name in variables if name not in assigned]
    found = [SectionAttr.of("total", "total", read, assigned)]
    found += [SectionAttr.of(f"input/{name}", "input", [name]) for name in inputs]
    if outputs:
        found.append(SectionAttr.of("outputs", "outputs", writes=outputs))
    return found


@dataclass(frozen=True)
class JobAddSectionsPass(ModulePass):
    """
    Say of each job what it shares with others, section by section.
    """

    name = "job-add-sections"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for job in jobs_in(op):
            if SECTIONS not in job.attributes:
                job.attributes[SECTIONS] = ArrayAttr(sections_for(job))
