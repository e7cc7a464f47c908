"""
Check that no tasks of a plan wait for each other forever.

A task acts when each register that it reads or waits for has a full slot and each that
it writes or signals has a free one. At the start all slots are free, but for the
`initial` ones of control registers. So a register without a full slot makes its readers
wait for its writer, and one without a free slot makes its writer wait for its readers.
Where such waits form a cycle, none of its tasks ever acts; else all go on forever.
Variables never act, and who takes part in a main job (`plan-link-main`) waits for any
of its registers.

A cycle is reported with its tasks in order. One more slot for a register that has
no free one breaks all cycles that lead from a reader of it to its writer; the fewest
such registers are named, each with a cycle that only it breaks, and of equally few
those that are the first in the list. If `budget` ends the search for the fewest, none
of the named ones can be left out, and a last message says how many are needed at least.
Other cycles need a register with a full slot at the start.

Example: `test/lowering/verify/verify-deadlock-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.regst import RegisterOp
from penstock.dialects.utils.diagnostics import fail_if_any
from penstock.dialects.utils.walk import outermost
from penstock.lowering.algorithms.deadlock import (
    BUDGET,
    Register,
    Wait,
    Waits,
    cycle_of_each,
    hopeless_cycles,
    smallest_increase,
)
from penstock.lowering.analysis.repetitions import PlanRates, rates_of


@dataclass
class PlanWaits:
    """The tasks of a plan that act, and the registers that they wait for."""

    tasks: list[TaskOp]
    registers: list[RegisterOp]
    waits: Waits

    @classmethod
    def of(cls, plan: PlanOp) -> PlanWaits:
        """What the tasks of a plan wait for at the start."""
        tasks = [task for task in plan.tasks if task.kind != "variable"]
        writers: dict[SSAValue, int] = {}
        readers: dict[SSAValue, list[int]] = {}
        for index, task in enumerate(tasks):
            if task.kind == "main":
                # It needs less than all of its registers.
                continue
            ins, outs, waits, signals = task.ports
            writers.update((value, index) for value in (*outs, *signals))
            for value in (*ins, *waits):
                readers.setdefault(value, []).append(index)
        used = [r for r in plan.registers if r.register in writers]
        numbers = [
            Register(
                writers[register.register],
                readers.get(register.register, ()),
                register.slots.value.data,
                0 if register.initial is None else register.initial.value.data,
            )
            for register in used
        ]
        return cls(tasks, used, Waits(len(tasks), numbers))

    def cycle_text(self, cycle: Sequence[Wait]) -> tuple[TaskOp, str]:
        """The task of a cycle that is listed first, and the cycle from there on."""
        members = [wait.first for wait in cycle]
        start = members.index(min(members))
        listed = [*members[start:], *members[: start + 1]]
        names = [self.tasks[member].task_name.data for member in listed]
        return self.tasks[listed[0]], f"cycle {' -> '.join(names)}"


def deadlocks_in(
    plan: PlanOp, found: PlanWaits, budget: int = BUDGET
) -> Iterator[tuple[Operation, str]]:
    """
    The cycles of tasks that wait for each other, and what breaks them. What is `found`
    is changed if no slots break some of them.
    """
    rates = rates_of(plan)
    if rates.is_rated:
        yield from too_few_slots(rates)
        return
    waits = found.waits
    for cycle in hopeless_cycles(waits):
        task, text = found.cycle_text(cycle)
        yield task, f"{text} has no full slot at the start, and no slots break it"
    increase = smallest_increase(waits, budget=budget)
    for index, cycle in cycle_of_each(waits, increase):
        task, text = found.cycle_text(cycle)
        name = found.registers[index].register_name.data
        yield (
            task,
            f"{text} has no free slot; one more slot for register '{name}' breaks it",
        )
    if not increase.is_least:
        yield (
            plan,
            f"{len(increase.registers)} more slots break all cycles, "
            f"at least {increase.at_least} are needed",
        )


def too_few_slots(rates: PlanRates) -> Iterator[tuple[Operation, str]]:
    """The tasks that act at different rates and do not come to the end of a launch."""
    if stuck := rates.stuck(slots_of_value):
        names = ", ".join(f"'{task.task_name.data}'" for task in stuck)
        yield (
            stuck[0],
            f"the slots do not let tasks act as often as their rates want: {names}",
        )


def slots_of_value(value: SSAValue) -> int:
    """The slots of a register; there is always room where there is none yet."""
    owner = value.owner
    return owner.slots.value.data if isinstance(owner, RegisterOp) else 1 << 60


@dataclass(frozen=True)
class VerifyDeadlockPass(ModulePass):
    """
    Check that no tasks of a plan wait for each other forever.
    """

    name = "verify-deadlock"

    budget: int = BUDGET
    """How many sets of registers the search for the fewest may look at."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.budget < 0:
            raise PassFailedException(f"budget must not be negative, got {self.budget}")
        plans = outermost(op, PlanOp)
        fail_if_any(
            found
            for plan in plans
            for found in deadlocks_in(plan, PlanWaits.of(plan), self.budget)
        )
