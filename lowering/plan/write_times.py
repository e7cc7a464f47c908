"""
Write on tasks how long they take, where the kernel database knows it.

The attribute `time_ns` (an i64) of a task that computes becomes the measured median of
an equal op on the same kind of device, in as many parts, on this machine, rounded to
nanoseconds. A task with a time keeps it, and one that was never measured has none:
`plan-assign-streams{policy=critical-path}` models its time. Times are those of
`penstock-run --tune`.

Example: `test/lowering/plan/plan-write-times-example.mlir`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.plan import PlanOp
from penstock.lowering.analysis.body_plans import plans_and_bodies
from penstock.lowering.analysis.task_times import MEASURED
from penstock.lowering.kernel_times.database import DatabaseError, KernelDatabase
from penstock.lowering.kernel_times.keys import WHOLE, key_of_task


def write_times(plan: PlanOp, database: KernelDatabase, parts: int) -> None:
    """Write the times that are known on the tasks of a plan that have none."""
    for task in plan.tasks:
        if task.kind != "compute" or MEASURED in task.attributes:
            continue
        time = database.times(key_of_task(task, parts)).get(WHOLE)
        if time is not None:
            nanoseconds = round(time.median_ns)
            task.attributes[MEASURED] = IntegerAttr(nanoseconds, i64)


@dataclass(frozen=True)
class PlanWriteTimesPass(ModulePass):
    """Write on tasks how long they take, where the kernel database knows it."""

    name = "plan-write-times"

    database: str
    """The kernel database to read."""

    parts: int = 1
    """The number of threads that may share the work of a task."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.parts < 1:
            raise PassFailedException(f"parts must be at least 1, got {self.parts}")
        try:
            with KernelDatabase(Path(self.database)) as database:
                for plan in plans_and_bodies(op):
                    write_times(plan, database, self.parts)
        except DatabaseError as error:
            raise PassFailedException(str(error)) from error
