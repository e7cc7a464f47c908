"""The launch programs of several ranks, as the rules between them see them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from xdsl.ir import Attribute, Operation

from penstock.dialects.launch import (
    ActorOp,
    CollectiveOp,
    ControlOp,
    ProgramOp,
    ReceiveOp,
    RegisterOp,
    SendOp,
    VariableOp,
    names_of,
    repetitions_of,
)
from penstock.dialects.launch.actors import MESSAGES
from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.verify.shared_rules.joint_graph import Link
from penstock.lowering.verify.shared_rules.ranks import (
    Actor,
    End,
    Part,
    RankProgram,
    findings_between,
)


def bad_ranks(programs: Sequence[ProgramOp]) -> Iterator[Finding]:
    """All that is wrong between the programs of a module."""
    actors = (actor for program in programs for actor in program.actors)
    if any(isinstance(step_of(actor), MESSAGES) for actor in actors):
        yield from findings_between([*map(rank_program, programs)])


def rank_program(program: ProgramOp) -> RankProgram:
    """A program as that of its rank: the waits of its actors, and its messages."""
    actors, table = program.actors, program.symbol_table()
    repetitions = repetitions_of(program)
    acts = [repetitions[actor.sym_name.data] for actor in actors]
    registers = {
        name: op
        for name, op in table.items()
        if isinstance(op, RegisterOp | ControlOp | VariableOp)
    }
    writer = {x: i for i, a in enumerate(actors) for x in names_of(a.writes)}
    number = {name: i for i, name in enumerate(registers)}
    links: list[Link] = []
    for reader, actor in enumerate(actors):
        for name in names_of(actor.reads):
            source, op = writer[name], registers[name]
            if {actor.kind_name, actors[source].kind_name} != {"plain"}:
                # It needs less than all of its registers.
                continue
            assert isinstance(op, RegisterOp | ControlOp), "as verified"
            full = op.initial_slots if isinstance(op, ControlOp) else 0
            free = op.slots.value.data - full
            pieces = acts[source] // actors[source].rates.get(name, 1)
            links.append(Link(source, reader, number[name], pieces, full, free))
    steps = [step_of(actor) for actor in actors]
    listed = zip(actors, acts, strict=True)
    return RankProgram(
        program,
        program.sym_name.data,
        program.rank.value.data,
        [
            Actor(actor, f"@{actor.sym_name.data}", actor.device.rank.data, count)
            for actor, count in listed
        ],
        links,
        [f"@{name}" for name in registers],
        [
            end_of(i, step, registers)
            for i, step in enumerate(steps)
            if isinstance(step, SendOp | ReceiveOp)
        ],
        [
            part_of(i, step, registers)
            for i, step in enumerate(steps)
            if isinstance(step, CollectiveOp)
        ],
    )


def step_of(actor: ActorOp) -> Operation | None:
    """The first step of an actor: a message is all that its actor does."""
    return actor.body.block.first_op


def end_of(
    actor: int,
    step: SendOp | ReceiveOp,
    registers: Mapping[str, RegisterOp | ControlOp | VariableOp],
) -> End:
    """The end of a message that a step is."""
    is_send = isinstance(step, SendOp)
    name = (step.source if isinstance(step, SendOp) else step.target).string_value()
    type = type_of(registers[name])
    return End(actor, is_send, step.peer.value.data, step.tag.value.data, type)


def part_of(
    actor: int,
    step: CollectiveOp,
    registers: Mapping[str, RegisterOp | ControlOp | VariableOp],
) -> Part:
    """The part in a collective that a step is."""
    sources, targets = (
        tuple(type_of(registers[name]) for name in names_of(names))
        for names in (step.sources, step.targets)
    )
    return Part(
        actor,
        step.kind.data,
        step.algorithm.data,
        step.ranks.get_values(),
        step.tag.value.data,
        sources,
        targets,
    )


def type_of(op: RegisterOp | ControlOp | VariableOp) -> Attribute:
    """The type of what lies in a register or variable."""
    assert isinstance(op, RegisterOp | VariableOp), "as verified"
    return op.type
