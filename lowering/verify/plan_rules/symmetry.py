"""
Rules of `verify-plan` about what has two sides, or many: registers, copies, and the
parts of ops on several devices.

* A register is written by one task, but a header by the writer of its register; a
  control register is waited for by one task at least.
* The result of a copy lies in the memory of the device that it says it copies to. On
  `copy_h2d` that is the task's device, on `copy_d2h` the task's device is where the
  operand lies, and on `compute` both lie in the memory of a host.
* The parts of a variable, of one name and job, are of the same whole, are equal or
  disjoint, and fill the box around them.
* The parts of an op, `<name>@<rank>.<kind>.<index>` on the device of that name, execute
  the same op, where one of them is no op that boxings are made of too (slices, sums,
  concatenations, copies and constants).
* A collective is what tasks `<name>@...` and `<name>.<step>@...` do, one of which says
  so in `collective` and `group`. They all say the same kind, and those of one `group`
  write results of one shape; groups are the same or have no device in common; the ranks
  that tasks run on are among the group's. Where each device gets something from all
  others (`all_gather`, `all_reduce`, `all_to_all`, `reduce_scatter`), a last task is
  found for each memory of the group.
* Some order of the collectives, the same on all devices, agrees with what data says.
  Where they wait for each other, a library that does each as one would wait forever.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from math import prod
from typing import NamedTuple, TypeAlias

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Attribute

from penstock.dialects.job import (
    CollectiveOp,
    CopyOp,
    DeviceAttr,
    PlacementAttr,
    ReceiveOp,
    VariableOp,
)
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.elementwise import AddOp
from penstock.dialects.op.movement import ReshapeOp, TransposeOp
from penstock.dialects.op.slicing import ConcatOp, SliceOp
from penstock.dialects.plan import PlanOp, TaskOp, YieldOp
from penstock.dialects.regst import ControlType, MemoryCaseAttr, RegisterOp
from penstock.dialects.utils.diagnostics import Finding
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.algorithms.marked_graph import Edge, MarkedGraph
from penstock.lowering.verify.plan_rules.graph import PlanGraph

BOXING_OPS = (
    *(SliceOp, AddOp, ConcatOp, CopyOp, ConstantOp, ReceiveOp),
    *(CollectiveOp, ReshapeOp, TransposeOp),
)
"""The ops of boxings."""

STEPS = (
    *("add", "collective", "concat", "constant", "copy", "reshape", "slice"),
    *("sum", "transpose"),
)
"""The ends of the names of the tasks of a boxing, but for the last ones."""

FROM_ALL = ("all_gather", "all_reduce", "all_to_all", "reduce_scatter")
"""Collectives that leave each device with something from all others."""


def asymmetries(plan_graph: PlanGraph) -> Iterator[Finding]:
    """
    The findings about collectives, copies and parts of variables that are missing on a
    side, or whose sides differ.
    """
    yield from lonely_registers(plan_graph)
    yield from bad_copies(plan_graph)
    yield from bad_variable_parts(list(plan_graph.variables.values()))
    families = families_of(plan_graph.tasks)
    yield from different_ops(families)
    collectives = collectives_of(plan_graph.tasks)
    for name, members in collectives.items():
        yield from bad_collective(name, members, families.get(name, ()))
    yield from crossed_collectives(plan_graph, collectives)


################################################################################
# Registers and copies                                                         #
################################################################################


def lonely_registers(plan_graph: PlanGraph) -> Iterator[Finding]:
    """Registers that nobody writes, and control that nobody waits for."""
    for register in plan_graph.facts:
        name = register.register_name.data
        is_written = register in plan_graph.writer or register in plan_graph.variables
        is_control = isinstance(register.register.type, ControlType)
        if is_control and not plan_graph.readers[register]:
            yield register, f"no task waits for control register '{name}'"
        elif not is_written and register.header is None:
            yield register, f"no task writes register '{name}'"


def bad_copies(plan_graph: PlanGraph) -> Iterator[Finding]:
    """Copies that have a side in another memory than they say."""
    for task, access in zip(plan_graph.tasks, plan_graph.access, strict=True):
        if not isinstance(copy := task.op, CopyOp):
            continue
        if task.stream.kind.data == "copy_h2d" and copy.device != task.device:
            name = task.task_name.data
            yield task, f"task '{name}' of {task.device} copies to {copy.device}"
        for register in access.outs:
            if not lies_near(register, copy.device):
                yield wrong_side(task, "to", copy.device, register)
        for register in access.ins:
            if (source := source_of(task, register)) is not None:
                yield wrong_side(task, "from", source, register)


def source_of(task: TaskOp, register: RegisterOp) -> DeviceAttr | None:
    """Where a copy says that its operand lies, if it does not lie there."""
    is_host = task.device.kind.data == "cpu"
    match task.stream.kind.data:
        case "copy_d2h" if not lies_near(register, task.device):
            return task.device
        case "compute" if is_host and not register.memory_case.is_host:
            return task.device.host
        case "compute" if not is_host and not lies_near(register, task.device):
            return task.device
        case _:
            return None


def lies_near(register: RegisterOp, device: DeviceAttr) -> bool:
    """Whether a register lies in memory of a device; for CPUs, of the host."""
    case, own = register.memory_case, MemoryCaseAttr.of(device)
    return case == own or (own.is_host and case.is_host and case.rank == own.rank)


def wrong_side(
    task: TaskOp, way: str, device: DeviceAttr, register: RegisterOp
) -> Finding:
    """That one side of a copy lies elsewhere."""
    return (
        task,
        f"task '{task.task_name.data}' copies {way} {device}, but register "
        f"'{register.register_name.data}' lies in {register.memory_case}",
    )


################################################################################
# Parts                                                                        #
################################################################################


class Box(NamedTuple):
    """Where a part begins and ends in each dimension."""

    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def overlaps(self, other: Box) -> bool:
        """Whether two boxes have an element in common."""
        sides = zip(self.starts, self.ends, other.starts, other.ends, strict=True)
        return all(a < d and c < b for a, b, c, d in sides)

    @property
    def size(self) -> int:
        """The elements of a box."""
        return prod(b - a for a, b in zip(self.starts, self.ends, strict=True))


def bad_variable_parts(tasks: Sequence[TaskOp]) -> Iterator[Finding]:
    """Parts of a variable that leave a hole, or lie on each other."""
    groups: dict[tuple[Attribute | None, str], list[tuple[TaskOp, VariableOp]]] = {}
    for task in tasks:
        if isinstance(op := task.op, VariableOp):
            key = task.job, op.port.data
            groups.setdefault(key, []).append((task, op))
    for (_, port), members in groups.items():
        if len(members) > 1:
            yield from misfits_of(port, members)


def misfits_of(
    port: str, members: Sequence[tuple[TaskOp, VariableOp]]
) -> Iterator[Finding]:
    """The findings about the parts of one variable."""
    wholes = {tuple(op.whole_shape) for _, op in members}
    if len(wholes) > 1:
        shapes = " and ".join(str(list(shape)) for shape in sorted(wholes))
        yield members[-1][0], f"parts of variable '{port}' are of wholes {shapes}"
        return
    boxes: dict[Box, TaskOp] = {}
    for task, op in members:
        place = op.place
        box = Box(tuple(x.start for x in place), tuple(x.stop for x in place))
        boxes.setdefault(box, task)
    for (a, first), (b, second) in combinations(boxes.items(), 2):
        if a.overlaps(b):
            names = first.task_name.data, second.task_name.data
            yield (
                second,
                f"parts '{names[0]}' and '{names[1]}' of variable '{port}' have "
                "elements in common, but are not the same",
            )
            return
    starts = tuple(map(min, zip(*(box.starts for box in boxes), strict=True)))
    ends = tuple(map(max, zip(*(box.ends for box in boxes), strict=True)))
    if missing := Box(starts, ends).size - sum(box.size for box in boxes):
        yield members[-1][0], f"parts of variable '{port}' lack {missing} elements"


Families: TypeAlias = "Mapping[str, Sequence[TaskOp]]"


def families_of(tasks: Sequence[TaskOp]) -> Families:
    """The parts of ops on several devices, by the name that they have in common."""
    families: dict[str, list[TaskOp]] = defaultdict(list)
    for task in tasks:
        base, _, place = task.task_name.data.rpartition("@")
        device = task.device
        kinds = device.rank.data, device.kind.data, device.index.data
        if base and place == ".".join(map(str, kinds)):
            families[base].append(task)
    return families


def different_ops(families: Families) -> Iterator[Finding]:
    """Parts of one op that execute different ones."""
    for name, parts in families.items():
        ops = list(dict.fromkeys(part.op.name for part in parts))
        is_boxing = all(isinstance(part.op, BOXING_OPS) for part in parts)
        if len(ops) > 1 and not is_boxing:
            other = next(part for part in parts if part.op.name != ops[0])
            yield other, f"parts of '{name}' execute {' and '.join(ops)}"


################################################################################
# Collectives                                                                  #
################################################################################


def base_of(task: TaskOp) -> str:
    """The name of the op or boxing that a task is a part or a step of."""
    base = task.task_name.data.partition("@")[0]
    while (cut := base.rpartition("."))[0] and cut[2] in STEPS:
        base = cut[0]
    return base


def collectives_of(tasks: Sequence[TaskOp]) -> dict[str, list[TaskOp]]:
    """The tasks of each collective that say so."""
    found: dict[str, list[TaskOp]] = {}
    for task in tasks:
        if "collective" in task.attributes or "group" in task.attributes:
            found.setdefault(base_of(task), []).append(task)
    return found


def bad_collective(
    name: str, members: Sequence[TaskOp], last: Sequence[TaskOp]
) -> Iterator[Finding]:
    """The differences between the tasks of one collective."""
    marks: dict[PlacementAttr, TaskOp] = {}
    kinds: dict[str, None] = {}
    for task in members:
        kind, group = (task.attributes.get(key) for key in ("collective", "group"))
        if not isinstance(kind, StringAttr) or not isinstance(group, PlacementAttr):
            yield (
                task,
                f"task '{task.task_name.data}' should say the name of a collective and "
                f"the group that takes part, got {kind} and {group}",
            )
            return
        kinds[kind.data] = None
        marks.setdefault(group, task)
        if task.device.rank.data not in {rank for rank, _ in group.pairs}:
            yield (
                task,
                f"task '{task.task_name.data}' takes part in a collective of {group}, "
                f"but runs on {task.device}",
            )
    if len(kinds) > 1:
        yield members[-1], f"parts of collective '{name}' say {' and '.join(kinds)}"
    for (a, _), (b, task) in combinations(marks.items(), 2):
        if a.kind == b.kind and not set(a.pairs).isdisjoint(b.pairs):
            yield (
                task,
                f"groups {a} and {b} of collective '{name}' have devices in common",
            )
    yield from bad_ends(name, list(kinds), list(marks), last)


def bad_ends(
    name: str,
    kinds: Sequence[str],
    groups: Sequence[PlacementAttr],
    last: Sequence[TaskOp],
) -> Iterator[Finding]:
    """Results of a collective of different shapes, and those that are missing."""
    for group in groups:
        own = [task for task in last if task.attributes.get("group") == group]
        if not own:
            continue
        types = list(dict.fromkeys(str(result_type(task)) for task in own))
        if len(types) > 1:
            yield own[-1], f"parts of collective '{name}' are {' and '.join(types)}"
        if kinds[0] not in FROM_ALL:
            continue
        have = {memory_of(task.device) for task in own}
        plan = own[-1].parent_op()
        here = plan.rank if isinstance(plan, PlanOp) else None
        for rank, index in group.pairs:
            if here is not None and rank != here.value.data:
                # The plan of that rank has it.
                continue
            device = DeviceAttr(rank, group.kind, index)
            if memory_of(device) not in have:
                yield own[-1], f"collective '{name}' has no part for {device}"


def result_type(task: TaskOp) -> Attribute | None:
    """The type of the tensor that a task produces."""
    end = task.op.next_op
    assert isinstance(end, YieldOp), "checked by the verifier"
    return tensor_type(end.values[0]) if end.values else None


def memory_of(device: DeviceAttr) -> DeviceAttr:
    """The device that stands for all that work in the same memory."""
    return device.host if device.kind.data == "cpu" else device


def crossed_collectives(
    plan_graph: PlanGraph, collectives: Mapping[str, Sequence[TaskOp]]
) -> Iterator[Finding]:
    """Collectives that wait for each other by way of different devices."""
    if not collectives:
        return
    numbers: dict[str, int] = {name: i for i, name in enumerate(collectives)}
    nodes: list[int] = []
    for index, task in enumerate(plan_graph.tasks):
        own = len(collectives) + index
        nodes.append(numbers.get(base_of(task), own))
    edges = [
        Edge(nodes[writer], nodes[reader], 0)
        for register, writer in plan_graph.writer.items()
        for reader in plan_graph.readers[register]
        if nodes[writer] != nodes[reader]
        and not isinstance(register.register.type, ControlType)
    ]
    names = list(collectives)
    for cycle in MarkedGraph(len(names) + len(nodes), edges).cycles:
        crossed = [names[node] for node in cycle if node < len(names)]
        if len(crossed) > 1:
            listed = " and ".join(f"'{name}'" for name in crossed)
            yield (
                collectives[crossed[0]][0],
                f"collectives {listed} wait for each other: "
                "no order of them is the same on all devices",
            )
