"""Faults of loops and conditions of launch programs, each a change of one thing."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr, i8
from xdsl.ir import Block, Operation

from penstock.dialects.launch import (
    ActorOp,
    CallOp,
    CarryOp,
    CopyOp,
    IfOp,
    LoopOp,
    NumberOp,
    PlaceAttr,
    ProgramOp,
    RegisterOp,
    SubviewOp,
    VariableOp,
    local_names,
    names_of,
    steps_within,
    symbols,
)
from penstock.dialects.launch.control_flow import NAMING, sources_of
from planted_faults.plan_faults import number


def steps_of(program: ProgramOp) -> Iterator[tuple[ActorOp, Operation]]:
    """The steps of actors with loops and conditions."""
    for actor in program.actors:
        steps = [*steps_within(actor.body.block)]
        if any(isinstance(step, IfOp | LoopOp) for step in steps):
            yield from ((actor, step) for step in steps)


def planned_parts(program: ProgramOp) -> list[SubviewOp]:
    """
    The names of bytes that an actor writes. Those of bytes that it is given say what it
    computes, not where.
    """
    found: list[SubviewOp] = []
    local: set[tuple[ActorOp, str]] = set()
    for actor, step in steps_of(program):
        if not isinstance(step, SubviewOp):
            continue
        source = step.source.string_value()
        if source in names_of(actor.writes) or (actor, source) in local:
            local.add((actor, step.sym_name.data))
            found.append(step)
    return found


def shift_part(program: ProgramOp, rng: random.Random) -> None:
    """A name stands for bytes some way off."""
    part = rng.choice(planned_parts(program))
    steps = (-64, -32, -8, -1, 1, 8, 16, 32, 64, 96)
    part.offset = number(part.offset.value.data + rng.choice(steps))


def stack_parts(program: ProgramOp, rng: random.Random) -> None:
    """A name stands for the bytes of another one, or near these."""
    one, other = rng.sample(planned_parts(program), 2)
    one.offset = number(other.offset.value.data + rng.choice((0, 0, 8, -8, 32)))
    if rng.random() < 0.3:
        one.source = other.source


def exchange_parts(program: ProgramOp, rng: random.Random) -> None:
    """Two names change their bytes."""
    one, other = rng.sample(planned_parts(program), 2)
    one.offset, other.offset = other.offset, one.offset
    one.source, other.source = other.source, one.source


def change_stride(program: ProgramOp, rng: random.Random) -> None:
    """The rows that iterations stack lie closer, or further apart."""
    # Of a loop that may make fewer iterations other rows stay zeros: another program.
    moving = [
        x
        for x in planned_parts(program)
        if x.bytes_per_number and not is_in_bounded_loop(x)
    ]
    part = rng.choice(moving)
    stride = rng.choice((0, 8, 16, 24, 40, 64, -part.bytes_per_number))
    part.properties.pop("step")
    if stride:
        part.properties["step"] = number(stride)


def is_in_bounded_loop(step: Operation) -> bool:
    """Whether a step is in a loop whose iterations are known when it runs alone."""
    loop = step.parent_op()
    return isinstance(loop, LoopOp) and loop.is_bounded


def carried_in(program: ProgramOp) -> list[CarryOp]:
    """The carried values of a program."""
    return [step for _, step in steps_of(program) if isinstance(step, CarryOp)]


def names_used(step: Operation) -> Sequence[str]:
    """The names that a step is given, or names the bytes of."""
    if isinstance(step, CallOp):
        return names_of(step.arguments)
    if isinstance(step, CopyOp):
        return [step.source.string_value(), step.target.string_value()]
    return sources_of(step)


def views_left_alone(program: ProgramOp) -> set[str]:
    """
    The registers that actors show, as no step of theirs names them: those that have a
    place in a loop no more are views of what lies there, which is another program.
    """
    found: set[str] = set()
    for actor in program.actors:
        shown = {view.names[1] for view in actor.view_list}
        for step in steps_within(actor.body.block) if shown else ():
            shown -= {*names_used(step)}
        found |= shown
    return found


def values_left_alone(program: ProgramOp, before: ProgramOp) -> set[str]:
    """
    The values that lay where a loop carries one, and do no more: what is read there is
    the initial value, which is another program.
    """
    kept, places = (
        {x for carry in carried_in(each) for x in sources_of(carry)}
        for each in (program, before)
    )
    writing = (x for _, x in steps_of(program) if isinstance(x, CallOp | CopyOp))
    return (places - kept) & {*map(target_of, writing)}


def parts_left_alone(program: ProgramOp, before: ProgramOp) -> set[str]:
    """
    The values of which parts were written, as rows by iterations, that lie elsewhere
    now: where another step writes such a value, too, as the zeros before these rows,
    that is what is read there, which is another program.
    """
    sources, known = (dict(sources_of_parts(each)) for each in (program, before))
    left = {source for part, source in known.items() if sources.get(part) != source}
    writing = (x for _, x in steps_of(program) if isinstance(x, CallOp | CopyOp))
    written = {*map(target_of, writing)}
    naming = [step for _, step in steps_of(program) if isinstance(step, NAMING)]
    for step in reversed(naming):
        if not written.isdisjoint(local_names(step)):
            written.update(sources_of(step))
    return left & written


def sources_of_parts(program: ProgramOp) -> Iterator[tuple[str, str]]:
    """The names of parts of values, and those of the values."""
    types = {
        op.sym_name.data: op.type
        for op in program.body.block.ops
        if isinstance(op, RegisterOp | VariableOp)
    }
    steps = [step for _, step in steps_of(program) if isinstance(step, NAMING)]
    for step in steps:
        types.update(dict.fromkeys(local_names(step), step.type))
    for step in steps:
        if isinstance(step, SubviewOp):
            source = step.source.string_value()
            # Bytes of a workspace are of no value.
            if types[source].element_type != i8:
                yield step.sym_name.data, source


def shift_place(program: ProgramOp, rng: random.Random) -> None:
    """A carried value lies elsewhere."""
    carry = rng.choice(carried_in(program))
    places = list(carry.places)
    index = rng.randrange(len(places))
    source, offset = places[index].source.string_value(), places[index].offset.data
    shift = rng.choice((-64, -32, -8, 1, 8, 16, 32, 64))
    places[index] = PlaceAttr(source, offset + shift)
    carry.places = ArrayAttr(places)


def turn_places(program: ProgramOp, rng: random.Random) -> None:
    """The two places of a carried value change their turns."""
    turning = [carry for carry in carried_in(program) if len(carry.places) == 2]
    carry = rng.choice(turning)
    carry.places = ArrayAttr([*carry.places][::-1])


def drop_place(program: ProgramOp, rng: random.Random) -> None:
    """A carried value has one place where it had two."""
    turning = [carry for carry in carried_in(program) if len(carry.places) == 2]
    carry = rng.choice(turning)
    carry.places = ArrayAttr([rng.choice([*carry.places])])


def add_place(program: ProgramOp, rng: random.Random) -> None:
    """A carried value has two places where it had one."""
    lying = [carry for carry in carried_in(program) if len(carry.places) == 1]
    carry, other = rng.choice(lying), rng.choice(carried_in(program))
    part = rng.choice(planned_parts(program))
    near = PlaceAttr(part.source.string_value(), max(0, part.offset.value.data))
    place = rng.choice((near, rng.choice([*other.places])))
    carry.places = ArrayAttr([*carry.places, place])


def take_place(program: ProgramOp, rng: random.Random) -> None:
    """A carried value lies where another one does."""
    one, other = rng.sample(carried_in(program), 2)
    places = list(one.places)
    places[rng.randrange(len(places))] = rng.choice([*other.places])
    one.places = ArrayAttr(places)


def drop_step(program: ProgramOp, rng: random.Random) -> None:
    """The number of an iteration, or a first value, is not written."""
    steps = [step for _, step in steps_of(program)]
    # Rows that no iteration writes may be zeros, and a carried value in one place may
    # stay what it was, which nobody can tell from others.
    kept = {x.sym_name.data for x in planned_parts(program) if x.bytes_per_number}
    kept |= {x.after.data for x in carried_in(program) if len(x.places) == 1}
    writing = [
        step
        for step in steps
        if isinstance(step, NumberOp)
        or (isinstance(step, CopyOp) and step.target.string_value() not in kept)
    ]
    step = rng.choice(writing)
    step.detach()
    step.erase()


def target_of(step: CallOp | CopyOp) -> str:
    """The last name that a step writes."""
    if isinstance(step, CopyOp):
        return step.target.string_value()
    return names_of(step.arguments)[-1]


def whole(name: str, sources: Mapping[str, str]) -> str:
    """The value that a name is a part of, given those of which all parts are."""
    while name in sources:
        name = sources[name]
    return name


def exchange_steps(program: ProgramOp, rng: random.Random) -> None:
    """
    Two steps that follow each other, and do not write the same, are made in the other
    order.
    """
    followed: list[tuple[Block, Operation, Operation]] = []
    sources = dict(sources_of_parts(program))
    written: set[str] = set()
    for _, step in steps_of(program):
        after, block = step.next_op, step.parent
        if not isinstance(step, CallOp | CopyOp) or block is None:
            continue
        if isinstance(after, CallOp | CopyOp) and target_of(step) != target_of(after):
            # A value that is written again has one name before and after that, as rows
            # of zeros and values in place: a reader of the other is another program.
            one, other = (
                {whole(x, sources) for x in names_used(y)} for y in (step, after)
            )
            again = written & {whole(target_of(x), sources) for x in (step, after)}
            if again.isdisjoint(one & other):
                followed.append((block, step, after))
        written.add(whole(target_of(step), sources))
    block, step, after = rng.choice(followed)
    after.detach()
    block.insert_op_before(after, step)


def change_inner_promise(program: ProgramOp, rng: random.Random) -> None:
    """A call in a body promises to leave alone what it may not."""
    call = rng.choice([x for _, x in steps_of(program) if isinstance(x, CallOp)])
    call.attributes["unchanged"] = symbols([rng.choice(names_of(call.arguments))])


BODY_FAULTS: Sequence[Callable[[ProgramOp, random.Random], None]] = (
    shift_part,
    shift_part,
    stack_parts,
    stack_parts,
    exchange_parts,
    change_stride,
    shift_place,
    shift_place,
    turn_places,
    drop_place,
    drop_place,
    add_place,
    take_place,
    drop_step,
    exchange_steps,
    exchange_steps,
    change_inner_promise,
)
