"""Faults of plans, each a change of one thing that a verifier should look at."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import (
    ArrayAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Operation, SSAValue
from xdsl.utils.hints import isa

from penstock.dialects.job import AssignOp
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.regst import (
    BlockOp,
    ChunkOp,
    ControlType,
    DataType,
    MemoryCaseAttr,
    RegisterOp,
)


def number(value: int) -> IntegerAttr:
    """A number as ops have it."""
    return IntegerAttr(value, i64)


def data_of(plan: PlanOp) -> list[RegisterOp]:
    return [r for r in plan.registers if isinstance(r.register.type, DataType)]


def controls_of(plan: PlanOp) -> list[RegisterOp]:
    return [r for r in plan.registers if isinstance(r.register.type, ControlType)]


def blocks_of(plan: PlanOp) -> list[BlockOp]:
    return [op for op in plan.body.block.ops if isinstance(op, BlockOp)]


def change_slots(plan: PlanOp, rng: random.Random) -> None:
    """Another number of slots."""
    register = rng.choice(plan.registers)
    register.slots = number(rng.choice((1, 2, 3, 4)))


def change_slots_of_alias(plan: PlanOp, rng: random.Random) -> None:
    """Another number of slots of an alias, or of it and what it lies on."""
    alias = rng.choice([r for r in data_of(plan) if r.target is not None])
    alias.slots = number(rng.choice((1, 2, 2, 3, 4)))
    assert alias.target is not None, "it was chosen so"
    if rng.random() < 0.2 and isinstance(alias.target.owner, RegisterOp):
        alias.target.owner.slots = alias.slots


def change_slots_of_tree(plan: PlanOp, rng: random.Random) -> None:
    """Another number of slots of a register and of all that lies on it."""
    among = data_of(plan)
    root = rng.choice([r for r in among if r.target is None])
    slots = number(rng.choice((1, 2, 3)))
    tree = {root.register}
    for register in among:
        if register is root or register.target in tree:
            tree.add(register.register)
            register.slots = slots


def move(plan: PlanOp, rng: random.Random) -> None:
    """A register starts where another one does, or near that."""
    placed = [r for r in data_of(plan) if r.block is not None]
    register, other = rng.choice(placed), rng.choice(placed)
    assert other.offset is not None, "it is placed"
    assert other.block is not None, "it is placed"
    start = other.offset.value.data + rng.choice((0, 0, 0, 64, -64, 128))
    register.offset = number(max(0, start))
    if register.memory_case == other.memory_case:
        register.operands[0] = other.block


def swap(plan: PlanOp, rng: random.Random) -> None:
    """Two registers change places."""
    placed = [r for r in data_of(plan) if r.block is not None]
    a, b = rng.sample(placed, 2)
    a.offset, b.offset = b.offset, a.offset
    a.operands[0], b.operands[0] = b.operands[0], a.operands[0]


def change_block(plan: PlanOp, rng: random.Random) -> None:
    """A register lies in another block."""
    register = rng.choice([r for r in data_of(plan) if r.block is not None])
    register.operands[0] = rng.choice(blocks_of(plan)).block


def move_alias(plan: PlanOp, rng: random.Random) -> None:
    """An alias starts elsewhere on what it lies on."""
    alias = rng.choice([r for r in data_of(plan) if r.target is not None])
    own, type = alias.offset, alias.register.type
    assert isinstance(type, DataType), "only data has aliases"
    start = 0 if own is None else own.value.data
    start += rng.choice((-64, -32, -16, -4, 4, 16, 32, 64, type.size, -type.size))
    alias.offset = number(max(0, start))


def change_target(plan: PlanOp, rng: random.Random) -> None:
    """An alias lies on another register."""
    listed = data_of(plan)
    alias = rng.choice([r for r in listed if r.target is not None])
    before = listed[: listed.index(alias)]
    alias.operands[0] = rng.choice(before).register
    if rng.random() < 0.3:
        alias.offset = None


def make_alias(plan: PlanOp, rng: random.Random) -> None:
    """A register with a place becomes an alias."""
    listed = data_of(plan)
    index = rng.randrange(1, len(listed))
    register, below = listed[index], rng.choice(listed[:index])
    if register.block is None:
        return
    case, slots = register.memory_case, register.slots.value.data
    if rng.random() < 0.5:
        slots = below.slots.value.data
    type = register.register.type
    assert isinstance(type, DataType), "chosen so"
    offset = rng.choice((None, None, 0, 16, 32, 64))
    made = RegisterOp(
        register.register_name.data,
        case,
        type,
        target=below.register,
        offset=offset,
        slots=slots,
    )
    replace_register(register, made)


def unalias(plan: PlanOp, rng: random.Random) -> None:
    """An alias gets a place of its own, where something else may lie."""
    alias = rng.choice([r for r in data_of(plan) if r.target is not None])
    other = rng.choice([r for r in data_of(plan) if r.block is not None])
    type = alias.register.type
    assert isinstance(type, DataType), "only data has aliases"
    assert other.offset is not None, "it is placed"
    made = RegisterOp(
        alias.register_name.data,
        alias.memory_case,
        type,
        block=other.block,
        offset=other.offset.value.data,
        slots=alias.slots.value.data,
    )
    replace_register(alias, made)


def replace_register(old: RegisterOp, new: RegisterOp) -> None:
    """Put a register in the place of another one."""
    parent = old.parent
    assert parent is not None, "it is in a plan"
    parent.insert_op_before(new, old)
    old.register.replace_all_uses_with(new.register)
    old.detach()
    old.erase()


def change_size(plan: PlanOp, rng: random.Random) -> None:
    """A register says another type than what is written there."""
    one, other = rng.choice(data_of(plan)), rng.choice(data_of(plan))
    type = other.register.type
    assert isinstance(type, DataType), "chosen so"
    made = RegisterOp(
        one.register_name.data,
        one.memory_case,
        type,
        block=one.block,
        target=one.target,
        offset=None if one.offset is None else one.offset.value.data,
        slots=one.slots.value.data,
    )
    replace_register(one, made)


def move_block(plan: PlanOp, rng: random.Random) -> None:
    """A block starts elsewhere, or has another size, or lies in another chunk."""
    block, other = rng.choice(blocks_of(plan)), rng.choice(blocks_of(plan))
    match rng.randrange(3):
        case 0:
            block.offset = other.offset
        case 1:
            start = block.offset.value.data + rng.choice((-64, 64, 128, -128))
            block.offset = number(max(0, start))
        case _:
            block.operands[0] = other.chunk
            block.size = other.size


def change_chunk(plan: PlanOp, rng: random.Random) -> None:
    """A chunk is larger or smaller."""
    chunk = rng.choice([op for op in plan.body.block.ops if isinstance(op, ChunkOp)])
    size = chunk.size.value.data + rng.choice((-64, -1, 64, -128))
    chunk.size = number(max(0, size))


def change_memory(plan: PlanOp, rng: random.Random) -> None:
    """A register or chunk is in another memory."""
    cases: list[MemoryCaseAttr] = [r.memory_case for r in plan.registers]
    cases += [MemoryCaseAttr(0, "network"), MemoryCaseAttr(1, "host")]
    among: list[RegisterOp | ChunkOp] = [*plan.registers]
    among += [op for op in plan.body.block.ops if isinstance(op, ChunkOp)]
    rng.choice(among).memory_case = rng.choice(cases)


def drop_control(plan: PlanOp, rng: random.Random) -> None:
    """A control register is gone."""
    control = rng.choice(controls_of(plan))
    for use in tuple(control.register.uses):
        disconnect(use.operation, control.register)
    control.detach()
    control.erase()


def disconnect(task: Operation, register: SSAValue) -> None:
    """A task no longer waits for or signals a control register."""
    assert isinstance(task, TaskOp), "only tasks use these"
    ports = task.ports
    waits = [x for x in ports.waits if x is not register]
    signals = [x for x in ports.signals if x is not register]
    task.connect(ports._replace(waits=waits, signals=signals))


def drop_wait(plan: PlanOp, rng: random.Random) -> None:
    """A task no longer waits for another one."""
    task = rng.choice([task for task in plan.tasks if task.waits])
    disconnect(task, rng.choice(list(task.waits)))


def change_control(plan: PlanOp, rng: random.Random) -> None:
    """A control register has other slots, or others are full."""
    control = rng.choice(controls_of(plan))
    control.slots = number(rng.choice((1, 2, 3)))
    full = rng.randrange(control.slots.value.data + 1)
    control.initial = rng.choice((None, number(full), number(full)))


def move_control(plan: PlanOp, rng: random.Random) -> None:
    """Another task waits for, or signals, a control register."""
    control = rng.choice(controls_of(plan))
    use = rng.choice(list(control.register.uses)).operation
    assert isinstance(use, TaskOp), "only tasks use these"
    waits = any(x is control.register for x in use.ports.waits)
    disconnect(use, control.register)
    other = rng.choice([task for task in plan.tasks if task.kind != "variable"])
    ports = other.ports
    if waits:
        ports = ports._replace(waits=[*ports.waits, control.register])
    else:
        ports = ports._replace(signals=[*ports.signals, control.register])
    other.connect(ports)


def add_control(plan: PlanOp, rng: random.Random) -> None:
    """One more control register."""
    tasks = [task for task in plan.tasks if task.kind != "variable"]
    one, other = rng.choice(tasks), rng.choice(tasks)
    slots = rng.choice((1, 2))
    made = RegisterOp(
        "planted",
        MemoryCaseAttr(0, "host"),
        ControlType(),
        slots=slots,
        initial=rng.randrange(slots + 1),
    )
    first = plan.tasks[0]
    assert first.parent is not None, "it is in a plan"
    first.parent.insert_op_before(made, first)
    ports = one.ports
    one.connect(ports._replace(signals=[*ports.signals, made.register]))
    ports = other.ports
    other.connect(ports._replace(waits=[*ports.waits, made.register]))


def change_interface(plan: PlanOp, rng: random.Random) -> None:
    """A register is no interface any more, or is another one."""
    marked = [r for r in data_of(plan) if r.interface is not None]
    register = rng.choice(marked)
    others = [None, *(r.interface for r in marked)]
    register.interface = rng.choice(others)


def change_groups(plan: PlanOp, rng: random.Random) -> None:
    """Jobs exclude each other no more."""
    groups = list(plan.exclusive or ())
    groups.remove(rng.choice(groups))
    plan.exclusive = ArrayAttr(groups) if groups else None


def change_pieces(plan: PlanOp, rng: random.Random) -> None:
    """A control register between two rates has another number of pieces."""
    control = rng.choice(controls_of(plan))
    control.attributes["pieces"] = number(rng.choice((1, 2, 4)))


def change_events(plan: PlanOp, rng: random.Random) -> None:
    """A task waits for another event, or for one less."""
    among = [task for task in plan.tasks if "waits_for" in task.attributes]
    task = rng.choice(among)
    events = task.attributes["waits_for"]
    assert isa(events, ArrayAttr[StringAttr]), "a list of names"
    names = list(events)
    names.remove(rng.choice(names))
    if rng.random() < 0.5:
        names.append(rng.choice(plan.tasks).task_name)
    task.attributes["waits_for"] = ArrayAttr(names)


def change_order(plan: PlanOp, rng: random.Random) -> None:
    """Two tasks of a stream change places in it, or one is in another stream."""
    one, other = rng.sample([t for t in plan.tasks if t.order is not None], 2)
    if one.stream == other.stream:
        one.order, other.order = other.order, one.order
    else:
        one.stream = other.stream
        one.order = number(rng.randrange(20))


def change_update(plan: PlanOp, rng: random.Random) -> None:
    """A new value lies on its variable, or may lie there no more."""
    task = rng.choice([task for task in plan.tasks if isinstance(task.op, AssignOp)])
    op = task.op
    assert isinstance(op, AssignOp), "chosen so"
    if rng.random() < 0.3:
        op.in_place = None if op.in_place else UnitAttr()
        return
    value, variable = task.ins[:2]
    register = value.owner
    assert isinstance(register, RegisterOp), "tasks read registers"
    type = register.register.type
    assert isinstance(type, DataType), "it is assigned"
    op.in_place = UnitAttr()
    made = RegisterOp(
        register.register_name.data, register.memory_case, type, target=variable
    )
    replace_register(register, made)


PlanFault: TypeAlias = Callable[[PlanOp, random.Random], None]

PLAN_FAULTS: Sequence[PlanFault] = (
    change_slots,
    change_slots,
    change_slots_of_alias,
    change_slots_of_alias,
    change_slots_of_tree,
    move,
    move,
    move,
    swap,
    change_block,
    move_alias,
    move_alias,
    change_target,
    make_alias,
    make_alias,
    unalias,
    change_size,
    move_block,
    change_chunk,
    change_memory,
    drop_control,
    drop_control,
    drop_wait,
    change_control,
    move_control,
    add_control,
    change_interface,
    change_groups,
    change_pieces,
    change_events,
    change_events,
    change_order,
    change_update,
    change_update,
)
