"""
Check that no tasks of a plan wait for each other forever.

A task acts when each register that it reads or waits for has a full slot and each that
it writes or signals has a free one. At the start all slots are free, but for the
`initial` ones of control registers. So a register without a full slot makes its readers
wait for its writer, and one without a free slot makes its writer wait for its readers.
Where such waits form a cycle, none of its tasks ever acts; else all go on forever.
Variables never act, and a participant of a main job (`plan-link-main`) waits for any of
its registers. The tasks of a body of a loop or condition wait for each other alone: the
registers around it are waited for by the task that holds it.

A cycle is reported with its tasks in order. One more slot for a register that has
no free one breaks all cycles that lead from a reader of it to its writer; the fewest
such registers are named, each with a cycle that only it breaks, and of equally few
those that are the first in the list. If `budget` ends the search for the fewest, none
of the named ones can be left out, and a last message says how many are needed at least.
Other cycles need a register with a full slot at the start.

Example: `test/lowering/verify/verify-deadlock-example.mlir`.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.utils.diagnostics import fail_if_any
from penstock.lowering.algorithms.deadlock import (
    BUDGET,
)
from penstock.lowering.analysis.body_plans import plans_and_bodies
from penstock.lowering.analysis.plan_waits import PlanWaits, deadlocks_in


@dataclass(frozen=True)
class VerifyDeadlockPass(ModulePass):
    """
    Check that no tasks of a plan wait for each other forever.
    """

    name = "verify-deadlock"

    budget: int = BUDGET
    """The number of sets of registers that the search for the fewest may look at."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.budget < 0:
            raise PassFailedException(f"budget must not be negative, got {self.budget}")
        plans = plans_and_bodies(op)
        fail_if_any(
            found
            for plan in plans
            for found in deadlocks_in(plan, PlanWaits.of(plan), self.budget)
        )
