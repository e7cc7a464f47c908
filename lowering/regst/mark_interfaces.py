"""
Mark the registers that several jobs know by one name as interfaces.

An input or output of one plan that another plan of the module, or of its rank, has too
(as an input or an output) is an *interface*: `plan-merge-jobs` lets the jobs share its
bytes, so that the output of one job is in place for the other. Its register says so by
`interface`, and has one slot. It lies in memory that serves all of the jobs: pinned if
it is for one of them, registered for transfers if it is for one. Registers that are
interfaces have bytes of their own, all the time.

An output that hands on a variable, or what is an interface by another name already,
gets a register of its own, `<output>/in`, and a task `<output>/copy` that fills it. So
does one whose register is an alias by hand, or is written by others than its task,
under the names of such aliases; for an input this is an error. Views of an interface
stay where they are.

In the plan of a body all that it reads and yields are interfaces, whose bytes are those
of registers around it; a value that is yielded twice, or as it was read, is copied.

Jobs that share a name must define it alike; if not, the error shows both definitions.
Plans that have places are left alone, and so is one that is alone.

Example: `test/lowering/regst/regst-mark-interfaces-example.mlir`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from xdsl.context import Context
from xdsl.dialects.builtin import (
    IntegerAttr,
    ModuleOp,
    StringAttr,
    i64,
)
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass

from penstock.dialects.job import AssignOp, CopyOp, DeviceAttr, OutputOp
from penstock.dialects.plan import PlanOp, StreamAttr, TaskOp, YieldOp, name_of
from penstock.dialects.regst import DataType, MemoryCaseAttr, RegisterOp, alias_place
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.lowering.algorithms.unique_names import UniqueNames
from penstock.lowering.analysis.aliases import aliases_of, is_view, joined_case
from penstock.lowering.analysis.body_plans import is_body, plans_and_bodies, port_of
from penstock.lowering.analysis.in_place_updates import writers_of_variables
from penstock.lowering.analysis.register_types import requested_slots, with_headers
from penstock.lowering.analysis.shared_ports import (
    Port,
    SharedPorts,
    findings_about,
    plans_by_rank,
    shared_ports,
)

Writers: TypeAlias = Mapping[SSAValue, TaskOp]
"""The tasks that write registers."""


def register_of(value: SSAValue) -> RegisterOp:
    """The op that makes a register."""
    register = value.owner
    assert isinstance(register, RegisterOp), "tasks without results have registers"
    return register


def interfaces_of(shared: SharedPorts) -> dict[str, list[Port]]:
    """The inputs and outputs that jobs share, by name."""
    return {
        name: [port for ports in jobs for port in ports]
        for name, jobs in shared.items()
        if not jobs[0][0].is_variable
    }


def findings_in(plans: Sequence[PlanOp], shared: SharedPorts) -> Iterator[Finding]:
    """All that keeps the registers of plans from being interfaces."""
    values = [plan for plan in plans if any(task.results_ for task in plan.tasks)]
    for plan in values:
        yield plan, "tasks hand on values, run plan-create-registers first"
    if values:
        return
    found = list(findings_about(shared))
    yield from found
    writers = {
        value: task for plan in plans for task in plan.tasks for value in task.outs
    }
    placed = {plan.sym_name.data for plan in plans if plan.has_places}
    for name, ports in interfaces_of(shared).items() if not found else ():
        yield from slot_findings(name, ports, writers)
        yield from memory_findings(name, ports)
        unplaced = [port for port in ports if port.job not in placed]
        yield from alias_findings(name, unplaced, writers)


def written_under(
    register: RegisterOp, writers: Writers
) -> Iterator[tuple[RegisterOp, TaskOp]]:
    """The aliases of a register under whose names it is written, and by whom."""
    for alias in aliases_of(register):
        writer = writers.get(alias.register)
        if writer is not None and not is_view(writer, alias.register):
            yield alias, writer


def alias_findings(
    name: str, ports: Sequence[Port], writers: Writers
) -> Iterator[Finding]:
    """The inputs that have no bytes of their own because of aliases."""
    for port in ports:
        if isinstance(port.op, OutputOp):
            continue
        register = register_of(port.value)
        if register.target is not None:
            root = name_of(alias_place(port.value).root)
            yield (
                port.where,
                f"interface '{name}' has bytes of its own, but input "
                f"'{name_of(port.value)}' is an alias of '{root}'",
            )
        for alias, writer in written_under(register, writers):
            yield (
                writer,
                f"interface '{name}' has bytes of its own, but "
                f"'{alias.register_name.data}' is written over it",
            )


def slot_findings(
    name: str, ports: Sequence[Port], writers: Writers
) -> Iterator[Finding]:
    """The tasks that ask for several slots of an interface."""
    for port in ports:
        writer = writers.get(port.value)
        slots = None if writer is None else requested_slots(writer)
        if writer is not None and slots is not None and slots > 1:
            yield (
                writer,
                f"interface '{name}' has one slot, but task "
                f"'{writer.task_name.data}' asks for {slots}",
            )


def memory_findings(name: str, ports: Sequence[Port]) -> Iterator[Finding]:
    """An interface for which no memory fits all jobs."""
    first = ports[0]
    cases = [register_of(port.value).memory_case for port in ports]
    for port, case in zip(ports, cases, strict=True):
        if joined_case([cases[0], case]) is None:
            yield (
                port.where,
                f"interface '{name}' lies in {cases[0]} in job '{first.job}', "
                f"but in {case} in job '{port.job}'",
            )


@dataclass
class Marker:
    """Marks the interfaces of one plan."""

    plan: PlanOp
    variables: set[SSAValue] = field(init=False)
    writers: dict[SSAValue, TaskOp] = field(init=False)
    copies: dict[TaskOp, TaskOp] = field(default_factory=dict[TaskOp, TaskOp])
    """The task that fills the register of an output, by the output."""

    def __post_init__(self) -> None:
        tasks = self.plan.tasks
        self.variables = {
            value for task in tasks if task.kind == "variable" for value in task.outs
        }
        self.writers = {value: task for task in tasks for value in task.outs}
        self._first = tasks[0] if tasks else None
        self._tasks = UniqueNames(task.task_name.data for task in tasks)
        registers = self.plan.registers
        self._registers = UniqueNames(r.register_name.data for r in registers)
        self._headers = {r.header.data: r for r in registers if r.header is not None}

    def mark(self, port: Port, case: MemoryCaseAttr) -> None:
        """Make the register of an input or output an interface in this memory."""
        register, name = register_of(port.value), StringAttr(port.name)
        if not self._can_be(register, name):
            assert isinstance(port.where, TaskOp), "the ports of a plan are tasks"
            register = self._copied(port.where, port.value)
        register.interface = name
        for each in (register, *aliases_of(register)):
            each.memory_case = case
            each.slots = IntegerAttr(1, i64)
        if (header := self._headers.get(register.register_name.data)) is not None:
            header.memory_case = case.of_header
            header.slots = register.slots

    def _can_be(self, register: RegisterOp, name: StringAttr) -> bool:
        """Whether a register can be the interface of this name."""
        is_own = register.interface in (None, name) and register.target is None
        is_fixed = register.register in self.variables
        return (
            is_own and not is_fixed and not any(written_under(register, self.writers))
        )

    def _copied(self, output: TaskOp, value: SSAValue) -> RegisterOp:
        """Give an output a register of its own instead of this one, and fill that."""
        source, name = register_of(value), output.task_name.data
        type = source.register.type
        assert isinstance(type, DataType), "an output reads data"
        made = RegisterOp(self._registers.make(f"{name}/in"), source.memory_case, type)
        made.register.name_hint = source.register.name_hint
        copy = copy_task(self._tasks.make(f"{name}/copy"), output, value, made)
        made.location = copy.location = output.location
        block = self.plan.body.block
        assert self._first is not None, "there is an output"
        registers = list(with_headers([made]))
        block.insert_ops_before(registers, self._first)
        self._headers.update((r.header.data, r) for r in registers if r.header)
        block.insert_op_before(copy, output)
        output.operands[list(output.ins).index(value)] = made.register
        self._let_signal(copy, output)
        self.copies[output] = copy
        return made

    def _let_signal(self, copy: TaskOp, output: TaskOp) -> None:
        """Let assignments wait for a copy, not for the output that reads it now."""
        tasks = self.plan.tasks
        assigning = [task for task in tasks if isinstance(task.op, AssignOp)]
        writing = (*assigning, *writers_of_variables(tasks))
        awaited = {value for task in writing for value in task.waits}
        moved = [value for value in output.signals if value in awaited]
        kept = [value for value in output.signals if value not in awaited]
        output.connect(output.ports._replace(signals=kept))
        copy.connect(copy.ports._replace(signals=moved))

    def renumber(self) -> None:
        """Give the copies their places in the order of their streams."""
        streams: dict[tuple[DeviceAttr, StreamAttr], list[TaskOp]] = defaultdict(list)
        changed = {(task.device, task.stream) for task in self.copies}
        for task in self.plan.tasks:
            if task.order is not None and (task.device, task.stream) in changed:
                streams[task.device, task.stream].append(task)
        for tasks in streams.values():
            tasks.sort(key=lambda task: task.order.value.data if task.order else 0)
            pairs = ((self.copies.get(task), task) for task in tasks)
            listed = [task for pair in pairs for task in pair if task is not None]
            for order, task in enumerate(listed):
                task.order = IntegerAttr(order, i64)


def copy_task(
    name: str, output: TaskOp, source: SSAValue, target: RegisterOp
) -> TaskOp:
    """A task that copies what an output reads to another register."""
    assert isinstance(source.type, DataType), "an output reads data"
    block = Block(arg_types=[source.type.payload])
    copy = CopyOp(block.args[0], output.device)
    block.add_ops([copy, YieldOp(copy)])
    return TaskOp(
        name,
        output.device,
        output.stream,
        Region(block),
        chain=None if output.chain is None else output.chain.value.data,
        ins=[source],
        outs=[target.register],
    )


def is_input(port: Port) -> bool:
    """Whether a port of a plan is what a job takes."""
    return isinstance(port.where, TaskOp) and port.where.kind == "input"


def mark_interfaces(plans: Sequence[PlanOp], shared: SharedPorts) -> None:
    """Mark the interfaces of the plans whose memory is still to be planned."""
    markers = {
        plan.sym_name.data: Marker(plan) for plan in plans if not plan.has_places
    }
    wanted: list[tuple[Port, MemoryCaseAttr]] = []
    for ports in interfaces_of(shared).values():
        case = joined_case([register_of(port.value).memory_case for port in ports])
        assert case is not None, "has been checked"
        wanted += [(port, case) for port in ports]
    # An output of an input may have a register of its own, but no input may.
    for port, case in sorted(wanted, key=lambda each: not is_input(each[0])):
        if (marker := markers.get(port.job)) is not None:
            marker.mark(port, case)
    for marker in markers.values():
        marker.renumber()


def mark_body(plan: PlanOp) -> None:
    """
    Mark all that a body reads and yields, in the plan of the body, as interfaces: their
    bytes are those of registers around it.
    """
    marker = Marker(plan)
    ports = [port for task in plan.tasks if (port := port_of(task)) is not None]
    for port in sorted(ports, key=lambda each: not is_input(each)):
        register = register_of(port.value)
        # One that is marked may be written over by now.
        if register.interface is None or register.interface.data != port.name:
            marker.mark(port, register.memory_case)
    marker.renumber()


@dataclass(frozen=True)
class RegstMarkInterfacesPass(ModulePass):
    """
    Mark the registers that several jobs know by one name as interfaces.
    """

    name = "regst-mark-interfaces"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for body in plans_and_bodies(op):
            if is_body(body) and not body.has_places:
                mark_body(body)
        # Ranks of one job share nothing but messages.
        for found in plans_by_rank(op).values():
            plans = [plan for plan in found if not plan.jobs]
            if len(plans) > 1 and not all(plan.has_places for plan in plans):
                shared = shared_ports(plans)
                fail_if_any(findings_in(plans, shared))
                mark_interfaces(plans, shared)
