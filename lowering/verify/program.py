"""
Check the rules of a whole launch program, from its actors and registers alone.

A program is a marked graph (`marked_graph`): each register and each control is an edge
from its writer to each reader with as many tokens as slots are full at the start, and
one back with as many as are free. Streams order nothing.

An actor writes a register if one of its steps does: as the target of a copy or feed, or
as an argument that the body of the kernel writes. A register that no step of its writer
writes views the bytes of its source, and those of a register that it lies `over`. A
register that has a view and is written by a step is written in place, and uses both. A
kernel needs an argument that it reads, in the order of its text, before it has written
all of it (`kernel_effects`). Then

* each cycle of edges carries a token, else its actors wait for each other forever;
* a control is waited for by one actor at least;
* registers that share bytes are never in use together: all actors that use the one
  reach the writer of the other without a token, and those of the other reach the writer
  of the one over at most one token (with several slots: such that no act uses a slot
  that shares bytes with one that may be in use); the writer of the other may be the
  last to use the one, up to a step before the one that writes, or in that one if its
  attribute `unchanged` promises that it copies what it names there to where it lies as
  a view;
* all users of a register, under any name, are done when its slot is written again;
* nothing is written to a register by an actor that only reads it, and to a variable by
  copies of one actor at most, or by the kernels of one that `updates` it and cannot
  fail; all others that use its bytes, under any name, act before that, and again after
  it;
* all bytes of a register that no step writes are views, and so are those of a register
  that a step needs before or when it is first written;
* no step is given a register or variable twice that it writes;
* a loop or condition counts as one step, in which values are written before they are
  read (`program_rules/loops.py`).

In a program of several jobs all of this holds of each job alone. A register lies over
none but those of its own job, and the other rules between jobs are those of
`program_rules/jobs.py`. The runtime keeps jobs from running at the same time, or else a
main job does, with a lock that is proven to do so (`program_rules/main_job.py`).

The programs of several ranks have to fit each other: each message has both of its ends,
and no actors of several ranks wait for each other forever (`shared_rules/ranks.py`).

All violations are listed.

Example: `test/lowering/verify/verify-program-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from penstock.dialects.launch import (
    ActorOp,
    CallOp,
    ControlOp,
    ProgramOp,
    RegisterOp,
    names_of,
    steps_within,
)
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.walk import outermost
from penstock.lowering.algorithms.byte_spans import shared_by
from penstock.lowering.verify.program_rules.graph import ProgramGraph, names_in
from penstock.lowering.verify.program_rules.jobs import bad_sharing, early_releases
from penstock.lowering.verify.program_rules.loops import bad_loops, known_before
from penstock.lowering.verify.program_rules.main_job import bad_main
from penstock.lowering.verify.program_rules.ranks import bad_ranks
from penstock.lowering.verify.program_rules.states import bad_states
from penstock.lowering.verify.program_rules.updates import bad_updates
from penstock.lowering.verify.program_rules.waves import bad_waves
from penstock.lowering.verify.shared_rules.memory import Reuse, clashing
from penstock.lowering.verify.shared_rules.uses import Uses


def findings_in(program: ProgramOp) -> Iterator[Finding]:
    """All that is wrong with a program, each with the op it is about."""
    yield from lonely_controls(program)
    if foreign := list(foreign_bytes(program)):
        yield from foreign
        return
    graphs = [ProgramGraph(program, job) for job in program.jobs or (None,)]
    for graph in graphs:
        yield from findings_of(graph)
    yield from bad_waves(program)
    yield from bad_sharing(graphs)
    if not any(graph.graph.cycles for graph in graphs):
        yield from bad_main(graphs)


def lonely_controls(program: ProgramOp) -> Iterator[Finding]:
    """Controls that one side alone uses, so that they order nothing."""
    read = {name for actor in program.actors for name in names_of(actor.reads)}
    for op in program.body.block.ops:
        if isinstance(op, ControlOp) and op.sym_name.data not in read:
            yield op, f"no actor waits for control @{op.sym_name.data}"


def foreign_bytes(program: ProgramOp) -> Iterator[Finding]:
    """Registers over those that no actor of their own job writes."""
    table = program.symbol_table()
    written = dict.fromkeys(
        (name, actor.job_name)
        for actor in program.actors
        for name in names_of(actor.writes)
    )
    for name, job in written:
        op = table[name]
        if isinstance(op, RegisterOp) and op.over is not None:
            below = op.over.root_reference.data
            if (below, job) not in written:
                yield op, f"@{name} lies over @{below}, which its job does not write"


def findings_of(graph: ProgramGraph) -> Iterator[Finding]:
    """All that is wrong with a job."""
    yield from forbidden_writes(graph)
    if graph.graph.cycles:
        for cycle in graph.graph.cycles:
            yield deadlock(graph, cycle)
        return
    yield from missing_bytes(graph.uses, graph.actors)
    yield from needed_bytes(graph.uses, graph.actors)
    yield from given_twice(graph)
    yield from shared_bytes(graph)
    yield from bad_updates(graph)
    yield from bad_states(graph)
    yield from early_releases(graph)
    yield from bad_control_flow(graph)


def bad_control_flow(graph: ProgramGraph) -> Iterator[Finding]:
    """All that is wrong within loops and conditions."""
    read = {name for actor in graph.program.actors for name in names_of(actor.reads)}
    for actor in dict.fromkeys(graph.actors):
        over = [
            name
            for name in names_of(actor.writes)
            if isinstance(op := graph.table[name], RegisterOp) and op.over is not None
        ]
        known = [x for x in known_before(actor, over) if x in graph.all_spans]
        known += graph.variables
        handed = [
            x for x in names_of(actor.writes) if x in read and x in graph.all_spans
        ]
        yield from bad_loops(
            actor, graph.table, graph.all_spans, known, handed, graph.effects
        )


def deadlock(graph: ProgramGraph, cycle: Sequence[int]) -> Finding:
    """That the actors of a cycle never act."""
    actors = [graph.actors[index] for index in (*cycle, cycle[0])]
    names = " -> ".join(f"@{actor.sym_name.data}" for actor in actors)
    return actors[0], f"a cycle of actors has no token, so none ever acts: {names}"


def forbidden_writes(graph: ProgramGraph) -> Iterator[Finding]:
    """Steps that write variables, or registers that their actor only reads."""
    for index, actor in enumerate(graph.actors):
        for name in graph.uses.first_write[index]:
            if graph.is_variable(name):
                if name in graph.updates[index]:
                    continue
                yield actor, f"@{actor.sym_name.data} writes @{name}, a variable"
            elif graph.uses.writer.get(name) != index:
                yield (
                    actor,
                    f"@{actor.sym_name.data} writes @{name}, which it only reads",
                )


def missing_bytes(uses: Uses, actors: Sequence[ActorOp]) -> Iterator[Finding]:
    """Registers that are handed on without all of their bytes."""
    for name in uses.views:
        if missing := uses.missing(name):
            actor = actors[uses.writer[name]]
            yield (
                actor,
                f"@{actor.sym_name.data} has no step that writes @{name}, and "
                f"{missing} of its bytes are views of nothing",
            )


def needed_bytes(uses: Uses, actors: Sequence[ActorOp]) -> Iterator[Finding]:
    """
    Steps that read what their actor writes in none before them, though nobody else put
    it there.
    """
    for index, actor in enumerate(actors):
        for at, step in enumerate(uses.acts.steps[index]):
            for name in dict.fromkeys(step.needed):
                first = uses.first_write[index].get(name, -1)
                if first < at or uses.writer.get(name) != index:
                    continue
                if missing := uses.missing(name):
                    yield (
                        actor,
                        f"@{actor.sym_name.data} reads @{name} before it writes it, "
                        f"and {missing} of its bytes are views of nothing",
                    )


def given_twice(graph: ProgramGraph) -> Iterator[Finding]:
    """
    Calls that are given what they write under one name twice: they may have written
    some of it before they read the rest. A copy of a register to itself, as of an
    assignment of a variable to itself, leaves each byte as it is.
    """
    for actor in dict.fromkeys(graph.actors):
        for step in steps_within(actor.body.block):
            if not isinstance(step, CallOp):
                continue
            names, written = names_in(step), graph.effects(step)[1]
            for name in dict.fromkeys(written):
                if names.count(name) > 1:
                    text = f"gives @{name} twice to a step that writes it"
                    yield step, f"@{actor.sym_name.data} {text}"


def shared_bytes(graph: ProgramGraph) -> Iterator[Finding]:
    """Registers that share bytes and may be in use together."""
    uses, spans = graph.uses, graph.spans
    pairs: list[tuple[str, str]] = []
    for a, b in clashing(uses, uses.storages):
        if a in uses.writer and b in uses.writer:
            pairs.append((a, b))
            continue
        variable, other = (b, a) if a in uses.writer else (a, b)
        shared = shared_by(spans[a], spans[b])
        message = f"@{other} lies on {shared} bytes of @{variable}, a variable"
        yield graph.table[other], message
    alone = [name for name in uses.storages if name in uses.writer]
    reuse = Reuse(uses, [*pairs, *((name, name) for name in alone)])
    actors = [f"@{actor.sym_name.data}" for actor in graph.actors]
    names = {name: f"@{name}" for name in uses.storages}
    told: set[tuple[str, str]] = set()
    for name in alone:
        register = graph.register_of(name)
        if (register, register) in told:
            continue
        if (why := reuse.misuse_of_itself(name)) is not None:
            told.add((register, register))
            yield graph.table[name], why.text(actors, names)
    for a, b in pairs:
        pair = graph.register_of(a), graph.register_of(b)
        if pair not in told and (why := reuse.misuse(a, b)) is not None:
            told.add(pair)
            shared = shared_by(spans[a], spans[b])
            start = f"registers @{a} and @{b} share {shared} bytes, but "
            yield graph.table[b], start + why.text(actors, names)


@dataclass(frozen=True)
class VerifyProgramPass(ModulePass):
    """
    Check what must hold of a whole program, from its actors and registers alone.
    """

    name = "verify-program"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        programs = outermost(op, ProgramOp)
        found = [finding for program in programs for finding in findings_in(program)]
        fail_if_any([*found, *bad_ranks(programs)])
