"""Faults of launch programs, each a change of one thing."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeGuard

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    SymbolRefAttr,
    i64,
)
from xdsl.ir import Operation

from penstock.dialects.launch import (
    ActorOp,
    CallOp,
    ControlOp,
    KernelOp,
    ProgramOp,
    VariableOp,
    ViewAttr,
    names_of,
    symbols,
)
from penstock.dialects.launch import ChunkOp as LaunchChunkOp
from penstock.dialects.launch import RegisterOp as LaunchRegisterOp
from penstock.lowering.analysis.kernel_effects import KernelEffects
from planted_faults.plan_faults import number


def registers_in(program: ProgramOp) -> list[LaunchRegisterOp]:
    return [op for op in program.body.block.ops if isinstance(op, LaunchRegisterOp)]


def controls_in(program: ProgramOp) -> list[ControlOp]:
    return [op for op in program.body.block.ops if isinstance(op, ControlOp)]


def reslot(program: ProgramOp, rng: random.Random) -> None:
    """Another number of slots."""
    register = rng.choice(registers_in(program))
    register.slots = number(rng.choice((1, 2, 3, 4)))


def shift(program: ProgramOp, rng: random.Random) -> None:
    """A register starts where another one does, or near that."""
    registers = registers_in(program)
    register, other = rng.choice(registers), rng.choice(registers)
    start = other.offset.value.data + rng.choice((0, 0, 0, 16, 32, 64, -64))
    register.offset = number(max(0, start))
    if rng.random() < 0.5:
        register.chunk = other.chunk


def shift_a_little(program: ProgramOp, rng: random.Random) -> None:
    """A register starts some bytes earlier or later."""
    register = rng.choice(registers_in(program))
    steps = (-64, -32, -16, -4, 4, 16, 32, 64)
    register.offset = number(max(0, register.offset.value.data + rng.choice(steps)))


def shift_variable(program: ProgramOp, rng: random.Random) -> None:
    """A variable starts elsewhere."""
    variables = [op for op in program.body.block.ops if isinstance(op, VariableOp)]
    variable = rng.choice(variables)
    other = rng.choice([*registers_in(program), *variables])
    variable.offset = other.offset


def exchange(program: ProgramOp, rng: random.Random) -> None:
    """Two registers change places."""
    a, b = rng.sample(registers_in(program), 2)
    a.offset, b.offset = b.offset, a.offset
    a.chunk, b.chunk = b.chunk, a.chunk


def change_over(program: ProgramOp, rng: random.Random) -> None:
    """A register lies over another one, or no more."""
    registers = registers_in(program)
    register = rng.choice([r for r in registers if r.over is not None] or registers)
    if register.over is not None and rng.random() < 0.5:
        register.over = None
        return
    below = rng.choice(registers)
    register.over = SymbolRefAttr(below.sym_name.data)
    register.offset, register.chunk = below.offset, below.chunk
    if rng.random() < 0.5:
        register.slots = number(below.slots.value.data * rng.choice((1, 2)))


def change_chunk_size(program: ProgramOp, rng: random.Random) -> None:
    """A chunk is larger or smaller."""
    chunks = [op for op in program.body.block.ops if isinstance(op, LaunchChunkOp)]
    chunk = rng.choice(chunks)
    size = chunk.size.value.data + rng.choice((-64, -1, 64))
    chunk.size = number(max(0, size))


def stop_reading(program: ProgramOp, rng: random.Random) -> None:
    """An actor no longer reads or holds something."""
    actor = rng.choice([actor for actor in program.actors if names_of(actor.reads)])
    names = names_of(actor.reads)
    names.remove(rng.choice(names))
    actor.reads = symbols(names)


def read_more(program: ProgramOp, rng: random.Random) -> None:
    """An actor reads something else, too."""
    actor = rng.choice(program.actors)
    written = [x for other in program.actors for x in names_of(other.writes)]
    names = dict.fromkeys((*names_of(actor.reads), rng.choice(written)))
    actor.reads = symbols(list(names))


def drop_signal(program: ProgramOp, rng: random.Random) -> None:
    """A control is gone."""
    control = rng.choice(controls_in(program))
    name = control.sym_name.data
    for actor in program.actors:
        actor.reads = symbols([x for x in names_of(actor.reads) if x != name])
        actor.writes = symbols([x for x in names_of(actor.writes) if x != name])
    control.detach()
    control.erase()


def change_signal(program: ProgramOp, rng: random.Random) -> None:
    """A control has other slots, or others are full."""
    control = rng.choice(controls_in(program))
    control.slots = number(rng.choice((1, 2, 3)))
    control.initial = number(rng.randrange(control.slots.value.data + 1))


def add_signal(program: ProgramOp, rng: random.Random) -> None:
    """One more control."""
    slots = rng.choice((1, 2))
    control = ControlOp("planted", slots, rng.randrange(slots + 1))
    program.body.block.insert_op_before(control, program.actors[0])
    one, other = rng.choice(program.actors), rng.choice(program.actors)
    one.writes = symbols([*names_of(one.writes), "planted"])
    other.reads = symbols([*names_of(other.reads), "planted"])


def change_view(program: ProgramOp, rng: random.Random) -> None:
    """A view says another place or source, or is gone."""
    actor = rng.choice([actor for actor in program.actors if actor.view_list])
    views = list(actor.view_list)
    view = views.pop(rng.randrange(len(views)))
    (source, result), offset = view.names, view.offset.data
    match rng.randrange(3):
        case 0:
            shifted = offset + rng.choice((-32, -16, 16, 32))
            views.append(ViewAttr(source, result, shifted))
        case 1:
            other = rng.choice(names_of(actor.reads) or [source])
            views.append(ViewAttr(other, result, offset))
        case _:
            pass
    actor.views = ArrayAttr(views) if views else None


def shift_view(program: ProgramOp, rng: random.Random) -> None:
    """A register with views lies elsewhere."""
    actor = rng.choice([actor for actor in program.actors if actor.view_list])
    table = program.symbol_table()
    name = rng.choice([x for view in actor.view_list for x in view.names])
    register = table[name]
    assert isinstance(register, LaunchRegisterOp | VariableOp), "they have bytes"
    steps = (-64, -32, -16, 16, 32, 64)
    register.offset = number(max(0, register.offset.value.data + rng.choice(steps)))


def change_promise(program: ProgramOp, rng: random.Random) -> None:
    """A call promises to leave alone what it may not."""
    actors = [a for a in program.actors if isinstance(a.body.block.first_op, CallOp)]
    call = rng.choice(actors).body.block.first_op
    assert isinstance(call, CallOp), "chosen so"
    if "unchanged" in call.attributes and rng.random() < 0.5:
        del call.attributes["unchanged"]
    else:
        names = names_of(call.arguments)
        call.attributes["unchanged"] = symbols([rng.choice(names)])


def drop_mark(program: ProgramOp, rng: random.Random) -> None:
    """A register is no interface any more, or is another one."""
    marked = [r for r in registers_in(program) if r.interface is not None]
    register = rng.choice(marked)
    register.interface = rng.choice([None, *(r.interface for r in marked)])


def drop_group(program: ProgramOp, rng: random.Random) -> None:
    """Jobs exclude each other no more."""
    groups = list(program.exclusive or ())
    groups.remove(rng.choice(groups))
    program.exclusive = ArrayAttr(groups) if groups else None


def change_stream(program: ProgramOp, rng: random.Random) -> None:
    """An actor is on another stream."""
    actor: ActorOp = rng.choice(program.actors)
    actor.stream = number(rng.randrange(4))


def change_lists(program: ProgramOp, rng: random.Random) -> None:
    """A lock knows of one rival less, or numbers are sent in another order."""
    actor: ActorOp = rng.choice([actor for actor in program.actors if actor.lists])
    lists = actor.number_lists
    numbers = rng.choice([numbers for numbers in lists if numbers])
    if actor.kind_name == "lock":
        numbers.remove(rng.choice(numbers))
    else:
        rng.shuffle(numbers)
    made = [DenseArrayBase.from_list(i64, numbers) for numbers in lists]
    actor.lists = ArrayAttr(made)


def change_update(program: ProgramOp, rng: random.Random) -> None:
    """An actor says to update another variable, or one less, or more."""
    actors = [a for a in program.actors if isinstance(a.body.block.first_op, CallOp)]
    updating = [actor for actor in actors if actor.update_list]
    actor = rng.choice(updating or actors)
    updates = list(actor.update_list)
    names = [x.sym_name.data for x in program.body.block.ops if is_variable(x)]
    controls = [x.sym_name.data for x in controls_in(program)]
    told = [name for name in names_of(actor.writes) if name in controls]
    if updates and rng.random() < 0.5:
        updates.pop()
    if told and rng.random() < 0.7:
        updates.append(ViewAttr(rng.choice(names), rng.choice(told)))
    actor.updates = ArrayAttr(updates) if updates else None


def write_variable(program: ProgramOp, rng: random.Random) -> None:
    """
    A kernel writes to a variable, or to a register, that its actor has nothing to do
    with. That one which it may read is the wrong one is no fault that could be found.
    """
    table = {op.sym_name.data: op for op in program.body.block.ops if is_kernel(op)}
    actors = [a for a in program.actors if isinstance(a.body.block.first_op, CallOp)]
    actor = rng.choice(actors)
    call = actor.body.block.first_op
    assert isinstance(call, CallOp), "chosen so"
    names = names_of(call.arguments)
    variables = [x.sym_name.data for x in program.body.block.ops if is_variable(x)]
    registers = [r.sym_name.data for r in registers_in(program)]
    own = {*names, *names_of(actor.reads), *names_of(actor.writes)}
    own.update(name for view in actor.update_list for name in view.names)
    others = [x for x in (*variables, *variables, *registers) if x not in own]
    kernel = table[call.kernel.root_reference.data]
    names[rng.choice(sorted(KernelEffects(kernel).written))] = rng.choice(others)
    call.arguments = symbols(names)


def is_kernel(op: Operation) -> TypeGuard[KernelOp]:
    return isinstance(op, KernelOp)


def is_variable(op: Operation) -> TypeGuard[VariableOp]:
    return isinstance(op, VariableOp)


PROGRAM_FAULTS: Sequence[Callable[[ProgramOp, random.Random], None]] = (
    reslot,
    reslot,
    reslot,
    shift,
    shift,
    shift,
    shift_a_little,
    shift_a_little,
    shift_variable,
    exchange,
    change_over,
    change_chunk_size,
    stop_reading,
    stop_reading,
    stop_reading,
    read_more,
    drop_signal,
    drop_signal,
    change_signal,
    add_signal,
    change_view,
    shift_view,
    shift_view,
    change_promise,
    drop_mark,
    drop_group,
    change_stream,
    change_lists,
    change_lists,
    change_update,
    change_update,
    write_variable,
)
