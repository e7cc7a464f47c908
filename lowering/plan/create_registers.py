"""
Give each tensor that a task produces a register, which other tasks read.

The register of a task's result is named `<task>/out`, those of further results
`<task>/out_1`, `<task>/out_2`... It has as many slots as the attribute `slots` of the
task says, which stays, whatever the task does; else two if the task copies between
devices, else one. A variable, which is written once, has one.

It lies in the memory of the device that the task runs on, a copy in that of the device
it goes to. A register on a CPU that is copied to or from another kind of device of the
same rank lies in memory that is pinned for that device (for the first one, if it is
copied to several). One that is copied to or from another rank lies in memory that is
registered for transfers (`network`), or both (`pinned_network`).

A result of dynamic shape has the greatest shape that it may have from the attribute
`max_shape` of its task: a list of extents for all dynamic results, or one such list for
each of them, in order. Its register has a header `<task>/out/header` with as many slots
on the host, pinned for the device where the register is on one.

A task of a loop or condition has one register more, `<task>/memory`, in which the
plans of its bodies have theirs. It has one slot, as one actor makes all iterations.

The registers are listed before the first task.

OneFlow gives one slot to computed tensors, to variables, control and (at least) to
copies, and two to boxings that slice. Here copies have two, so that the next piece is
on its way while this one is used; boxings are tasks like others, between copies. An
input may ask for slots, to be fed ahead. Ops that change the number of pieces (repeat,
accumulate) or wake a job (ticks) are no tasks here.

Example: `test/lowering/plan/plan-create-registers-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ModuleOp,
    TensorType,
    i8,
)
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from penstock.dialects.plan import PlanOp, TaskOp, segments_of
from penstock.dialects.regst import DataType, MemoryCaseAttr, RegisterOp
from penstock.dialects.utils.attributes import replace_op
from penstock.dialects.utils.diagnostics import fail_if_any
from penstock.lowering.analysis.body_plans import plans_and_bodies
from penstock.lowering.analysis.register_types import (
    Homes,
    data_types_of,
    findings_about_registers,
    slots_of,
    with_headers,
)
from penstock.lowering.analysis.repetitions import rates_of


def registers_of(
    task: TaskOp, homes: Homes, needed: Mapping[SSAValue, int]
) -> Iterator[RegisterOp]:
    """A register for each result of a task, in order, of the slots that are needed."""
    types = data_types_of(task)
    for index, (result, type) in enumerate(zip(task.results_, types, strict=True)):
        suffix = f"_{index}" if index else ""
        register = RegisterOp(
            f"{task.task_name.data}/out{suffix}",
            homes.memory_case(result),
            type,
            slots=max(slots_of(task, result, homes), needed.get(result, 1)),
        )
        register.location = task.location
        register.register.name_hint = result.name_hint
        yield register
    if task.bodies and not task.outs:
        # As large as the memory of these turns out to be.
        memory = DataType(TensorType(i8, [0]))
        register = RegisterOp(
            f"{task.task_name.data}/memory", MemoryCaseAttr.of(task.device), memory
        )
        register.location = task.location
        yield register


def write_registers(task: TaskOp, registers: list[RegisterOp]) -> None:
    """Replace a task by one that writes these registers instead of having results."""
    outs = [register.register for register in registers]
    results = tuple(task.results_)
    for result, out in zip(results, outs[: len(results)], strict=True):
        result.replace_all_uses_with(out)
    ports = task.ports._replace(outs=outs)
    new_task = TaskOp.create(
        operands=list(chain.from_iterable(ports)),
        properties={**task.properties, "operandSegmentSizes": segments_of(ports)},
        attributes=task.attributes,
        regions=[task.detach_region(region) for region in tuple(task.regions)],
        location=task.location,
    )
    replace_op(task, new_task, [None] * len(results))


def create_registers(plan: PlanOp) -> None:
    """Give the results of all tasks of a plan registers."""
    tasks = plan.tasks
    if not tasks:
        return
    homes = Homes.of(plan)
    needed = rates_of(plan).slots_needed()
    made = [(task, list(registers_of(task, homes, needed))) for task in tasks]
    block = plan.body.block
    listed = [r for _, regs in made for r in with_headers(regs)]
    block.insert_ops_before(listed, tasks[0])
    for task, registers in made:
        if registers:
            write_registers(task, registers)


@dataclass(frozen=True)
class PlanCreateRegistersPass(ModulePass):
    """Give each tensor that a task produces a register, which other tasks read."""

    name = "plan-create-registers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        plans = plans_and_bodies(op)
        fail_if_any(found for plan in plans for found in findings_about_registers(plan))
        for plan in plans:
            create_registers(plan)
