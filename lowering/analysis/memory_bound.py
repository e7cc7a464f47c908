"""
The lower bound of the memory of a plan: the one definition of it.

It is the bytes that are alive at the fullest *step*, and those that must stay, all but
the last one filled up to the alignment of the memory. Steps are the tasks that act, in
the order of the plan: each behind those before it in its stream and those it waits for,
else as they are listed. A register, with all of its slots, is alive from the first step
that uses it to the last one, both included and under any name. Variables, interfaces,
headers, and registers that no task writes must stay. Of several jobs those that may run
at the same time add up, and of those that exclude each other the largest counts.

Steps are a run that the plan allows, so no layout takes less; what takes more has lost
bytes to the packer, to tasks that run beside each other, or to acts that do.

In a plan with rates steps are the acts of one launch, and a register is alive from the
first to the last act for each of its pieces. Where these are too many, or wait for each
other, a register only counts while a task that uses it acts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue

from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.regst import BlockOp, DataType, RegisterOp, alias_root
from penstock.lowering.algorithms.byte_sharing import CycleError
from penstock.lowering.algorithms.packing.problem import (
    Lifetime,
    align,
    fullest,
)
from penstock.lowering.analysis.acting_order import acting_order, streams_of
from penstock.lowering.analysis.register_usage import Guard, Usage
from penstock.lowering.analysis.repetitions import rates_of


class Life(NamedTuple):
    """The steps from the first to the last one at which something is alive."""

    first: int
    last: int


def joined(lives: Iterable[Life]) -> list[Life]:
    """
    The same steps, each in one life only: several pieces of a register, in whatever
    slots, are alive in the bytes that it has once.
    """
    found: list[Life] = []
    for life in sorted(lives):
        if found and life.first <= found[-1].last:
            found[-1] = Life(found[-1].first, max(found[-1].last, life.last))
        else:
            found.append(life)
    return found


def steps_of_acts(usage: Usage) -> Mapping[int, int] | None:
    """The step of each act of a launch; None where they are too many, or cannot act."""
    if usage.acts is None:
        return None
    try:
        return usage.order(Guard()).step
    except CycleError:
        return None


def roots_of(registers: Iterable[SSAValue]) -> dict[SSAValue, None]:
    """The registers with bytes of their own on which these data registers lie."""
    data = (r for r in registers if isinstance(r.type, DataType))
    return dict.fromkeys(map(alias_root, data))


def registers_by_block(plan: PlanOp) -> dict[BlockOp, list[RegisterOp]]:
    """The registers in each block of a plan, as they are listed."""
    held = {
        x: list[RegisterOp]() for x in plan.body.block.ops if isinstance(x, BlockOp)
    }
    for register in plan.registers:
        if register.block is not None:
            block = register.block.owner
            assert isinstance(block, BlockOp), "only this op makes blocks"
            held[block].append(register)
    return held


class Liveness:
    """When each register of a plan that is no alias is alive."""

    def __init__(self, plan: PlanOp) -> None:
        acting = [task for task in plan.tasks if task.kind != "variable"]
        streams = streams_of(acting)
        self._plan = plan
        self._producer = {r: task for task in plan.tasks for r in task.outs}
        self._users: dict[SSAValue, list[TaskOp]] = defaultdict(list)
        self._written: set[SSAValue] = set()
        for task in acting:
            read, made = roots_of(task.ins), roots_of(task.outs)
            for root in dict.fromkeys((*read, *made)):
                self._users[root].append(task)
            self._written.update(root for root in made if root not in read)
        self.tasks = [acting[i] for i in acting_order(acting, streams)]
        """The tasks that act, in the order of steps."""
        step = {task: i for i, task in enumerate(self.tasks)}
        self._lives: dict[SSAValue, list[Life]] = {}
        for root, users in self._users.items():
            steps = [step[task] for task in users]
            self._lives[root] = [Life(min(steps), max(steps))]
        self._interfaces = {x.register_name: x.interface for x in plan.registers}
        self._look_at_acts()

    def _look_at_acts(self) -> None:
        """Let steps be acts where tasks act at different rates."""
        if not rates_of(self._plan).is_rated:
            return
        usage = Usage(self._plan)
        step = steps_of_acts(usage)
        place = {task: i for i, task in enumerate(self.tasks)}
        for register in usage.registers:
            if (value := register.register) not in self._written:
                continue
            if step is None:
                steps = [[place[task]] for task in self._users[value]]
            else:
                spans = usage.spans_of(register)
                steps = [[step[x] for x in (*s.users, *s.first_writers)] for s in spans]
            self._lives[value] = joined([Life(min(s), max(s)) for s in steps])

    def is_variable(self, register: RegisterOp) -> bool:
        """Whether a register holds the same at each act."""
        task = self._producer.get(register.register)
        return task is not None and task.kind == "variable"

    def why_it_stays(self, register: RegisterOp) -> str | None:
        """Why a register is alive all the time, if it is."""
        if self.is_variable(register):
            return "variable"
        if register.interface is not None:
            return f"interface '{register.interface.data}'"
        if register.header is not None:
            return f"header of '{register.header.data}'"
        if register.register not in self._written:
            used = "writes" if register.register in self._users else "uses"
            return f"no task {used} it"
        return None

    def bound(self, registers: Iterable[RegisterOp]) -> int:
        """The lower bound of the bytes of registers of a memory that are no aliases."""
        staying = 0
        lost = [0]
        """The bytes that the ones at the fullest step are filled up by."""
        of_jobs: dict[str | None, list[Lifetime]] = defaultdict(list)
        alignment = 1
        for register in self.counted(registers):
            alignment = register.memory_case.alignment
            if self.why_it_stays(register) is not None:
                stride = align(register.size, alignment)
                staying += stride
                lost.append(stride - register.size)
                continue
            task = self._producer.get(register.register)
            job = None if task is None or task.job is None else task.job.data
            of_jobs[job] += (
                Lifetime(first, last, register.size)
                for first, last in self._lives[register.register]
            )
        groups = self._plan.exclusive_jobs
        first_of = {job: group[0] for group in groups for job in group}
        most: dict[str | None, tuple[int, int]] = {}
        for job, lifetimes in of_jobs.items():
            party = None if job is None else first_of.get(job, job)
            found = most.get(party, (0, 0)), fullest(lifetimes, alignment)
            most[party] = max(found, key=lambda pair: pair[0] - pair[1])
        filled = staying + sum(bytes for bytes, _ in most.values())
        return filled - max([*lost, *(bytes for _, bytes in most.values())])

    def counted(self, registers: Iterable[RegisterOp]) -> list[RegisterOp]:
        """Registers without those that are the same interface as a larger one."""
        found: list[RegisterOp] = []
        known: set[tuple[object, ...]] = set()
        for register in sorted(registers, key=lambda register: -register.size):
            interface, header = register.interface, register.header
            if header is not None:
                interface = self._interfaces.get(header)
            key = register.memory_case, header is not None, interface
            if interface is None or key not in known:
                found.append(register)
                known.add(key)
        return found


def write_bounds(plan: PlanOp) -> None:
    """Say of each block that has a `sum` what its registers need at least."""
    liveness = Liveness(plan)
    for block, registers in registers_by_block(plan).items():
        if block.sum is not None:
            block.bound = IntegerAttr(liveness.bound(registers), i64)
