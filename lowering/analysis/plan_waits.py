"""Orders between the tasks of a plan, and cycles of tasks that wait for each other."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue

from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.regst import RegisterOp
from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.algorithms.deadlock import (
    BUDGET,
    Register,
    Wait,
    Waits,
    cycle_of_each,
    hopeless_cycles,
    smallest_increase,
)
from penstock.lowering.algorithms.event_reduction import Order, zero_edges
from penstock.lowering.analysis.acting_order import streams_of
from penstock.lowering.analysis.repetitions import PlanRates, rates_of

WAITS_FOR = "waits_for"
"""The attribute of a task that names the tasks whose events it waits for."""


@dataclass
class PlanWaits:
    """The tasks of a plan that act, and the registers that they wait for."""

    tasks: list[TaskOp]
    registers: list[RegisterOp]
    waits: Waits

    @classmethod
    def of(cls, plan: PlanOp) -> PlanWaits:
        """The waits of the tasks of a plan at the start."""
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
) -> Iterator[Finding]:
    """
    The cycles of tasks that wait for each other, each with the slots that break it.
    `found` is changed if no slots break some of them.
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


def too_few_slots(rates: PlanRates) -> Iterator[Finding]:
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


def orders_of(waits: Waits, without: Collection[int] = ()) -> list[Order]:
    """The orders of pairs of tasks within one act, by all other registers."""
    return list(
        dict.fromkeys(
            Order(first, second)
            for row in waits.following
            for first, second, register in row
            if register not in without
        )
    )


def findings_about_waits(plan: PlanOp, found: PlanWaits) -> Iterator[Finding]:
    """The tasks that would wait for each other forever."""
    deadlocks = list(deadlocks_in(plan, found))
    yield from deadlocks
    if deadlocks:
        return
    if rates_of(plan).is_rated:
        # Streams have no order of all acts.
        return
    edges = zero_edges(list(streams_of(found.tasks).values()), orders_of(found.waits))
    registers = [Register(first, [second]) for first, second, _ in edges]
    cycle = Waits(len(found.tasks), registers).cycle()
    if cycle is not None:
        task, text = found.cycle_text(cycle)
        yield task, f"{text} of registers and the order of streams"
