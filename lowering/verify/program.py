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
  one copy at most; all actors that use its bytes, under any name, act before that, and
  again after it;
* all bytes of a register that no step writes are views, and so are those of a register
  whose first step that writes it needs them.

In a program of several jobs all of this holds of each job alone, and the rules between
jobs are those of `program_rules/jobs.py`. The runtime keeps jobs from running at the
same time, or else a main job does, with a lock that is proven to do so
(`program_rules/main_job.py`).

All violations are listed.

Example: `test/lowering/verify/verify-program-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from penstock.dialects.launch import ControlOp, ProgramOp, names_of
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.walk import outermost
from penstock.lowering.algorithms.marked_graph import clashes, marks_of
from penstock.lowering.verify.program_rules.graph import (
    ProgramGraph,
    shared_by,
    slots_match,
)
from penstock.lowering.verify.program_rules.jobs import bad_sharing, early_releases
from penstock.lowering.verify.program_rules.main_job import bad_main
from penstock.lowering.verify.program_rules.updates import bad_updates
from penstock.lowering.verify.program_rules.waves import bad_waves


def findings_in(program: ProgramOp) -> Iterator[Finding]:
    """All that is wrong with a program, each with the op it is about."""
    yield from lonely_controls(program)
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


def findings_of(graph: ProgramGraph) -> Iterator[Finding]:
    """All that is wrong with a job."""
    yield from forbidden_writes(graph)
    if graph.graph.cycles:
        for cycle in graph.graph.cycles:
            yield deadlock(graph, cycle)
        return
    yield from missing_bytes(graph)
    yield from needed_bytes(graph)
    yield from shared_bytes(graph)
    yield from bad_updates(graph)
    yield from early_releases(graph)


def deadlock(graph: ProgramGraph, cycle: Sequence[int]) -> Finding:
    """That the actors of a cycle never act."""
    actors = [graph.actors[index] for index in (*cycle, cycle[0])]
    names = " -> ".join(f"@{actor.sym_name.data}" for actor in actors)
    return actors[0], f"a cycle of actors has no token, so none ever acts: {names}"


def forbidden_writes(graph: ProgramGraph) -> Iterator[Finding]:
    """Steps that write variables, or registers that their actor only reads."""
    for index, actor in enumerate(graph.actors):
        for name in graph.first_write[index]:
            if graph.is_variable(name):
                if name in graph.updates[index]:
                    continue
                yield actor, f"@{actor.sym_name.data} writes @{name}, a variable"
            elif graph.writer.get(name) != index:
                yield (
                    actor,
                    f"@{actor.sym_name.data} writes @{name}, which it only reads",
                )


def missing_bytes(graph: ProgramGraph) -> Iterator[Finding]:
    """Registers that are handed on without all of their bytes."""
    for name in graph.sources:
        if graph.has_own_bytes(name):
            continue
        if missing := graph.missing(name):
            actor = graph.actors[graph.writer[name]]
            yield (
                actor,
                f"@{actor.sym_name.data} has no step that writes @{name}, and "
                f"{missing} of its bytes are views of nothing",
            )


def needed_bytes(graph: ProgramGraph) -> Iterator[Finding]:
    """Kernels that read what their results held before, though nobody put it there."""
    for index, actor in enumerate(graph.actors):
        for at, step in enumerate(graph.steps[index]):
            for name in step.needed:
                is_first = graph.first_write[index][name] == at
                if not is_first or graph.writer.get(name) != index:
                    continue
                if missing := graph.missing(name):
                    yield (
                        actor,
                        f"@{actor.sym_name.data} reads @{name} before it writes it, "
                        f"and {missing} of its bytes are views of nothing",
                    )


def shared_bytes(graph: ProgramGraph) -> Iterator[Finding]:
    """Registers that share bytes and may be in use together."""
    stored = graph.storages()
    names, storages = list(stored), list(stored.values())
    pairs = [(names[i], names[j]) for i, j in clashes(graph.graph, storages)]
    pairs = [(a, b) for a, b in pairs if shared_by(graph.spans[a], graph.spans[b])]
    for a, b in pairs:
        if None in (stored[a].writer, stored[b].writer):
            variable, other = (a, b) if stored[a].writer is None else (b, a)
            shared = shared_by(graph.spans[a], graph.spans[b])
            message = f"@{other} lies on {shared} bytes of @{variable}, a variable"
            yield graph.table[other], message
    acting = [
        (a, b)
        for a, b in pairs
        if stored[a].writer is not None and stored[b].writer is not None
    ]
    alone = [(name, name) for name in names if stored[name].writer is not None]
    turns = Turns(graph, [*acting, *alone])
    told: set[tuple[str, str]] = set()
    for name, _ in alone:
        register = graph.register_of(name)
        if (register, register) in told:
            continue
        if (why := turns.broken_by_itself(name)) is not None:
            told.add((register, register))
            yield graph.table[name], why
    for a, b in acting:
        pair = graph.register_of(a), graph.register_of(b)
        if pair not in told and (why := turns.broken_by(a, b)) is not None:
            told.add(pair)
            shared = shared_by(graph.spans[a], graph.spans[b])
            start = f"registers @{a} and @{b} share {shared} bytes, but "
            yield graph.table[b], start + why


class Turns:
    """Whether pairs of registers are used in turn, though they look otherwise."""

    def __init__(
        self,
        graph: ProgramGraph,
        pairs: Sequence[tuple[str, str]],
    ) -> None:
        self._graph = graph
        self._position = {actor: i for i, actor in enumerate(graph.graph.order)}
        names = dict.fromkeys(name for pair in pairs for name in pair)
        writers = list(dict.fromkeys(graph.writer[name] for name in names))
        marks = marks_of(graph.graph, writers)
        self._bit = {writer: i for i, writer in enumerate(writers)}
        self._same_act = graph.graph.after(marks)
        self._next_act = graph.graph.after_up_to_next_act(marks)

    def broken_by(self, one: str, other: str) -> str | None:
        """
        The complaint about a user of the bytes of the one when they are the other's;
        None without one.
        """
        graph = self._graph
        a, b = sorted((one, other), key=self._written_at)
        writer, later = graph.writer[a], graph.writer[b]
        for user in graph.users(a, of=b):
            is_last = user == later and graph.is_done_before(user, a, b)
            if not is_last and not self._same_act[user] >> self._bit[later] & 1:
                return self._complaint(user, a, later, b)
        turns = 1
        if slots_match(graph.spans[a], graph.spans[b]):
            turns = graph.spans[a].slots
        for user in graph.users(b, of=a):
            if not self._comes_back(user, writer, turns):
                return self._complaint(user, b, writer, a) + " again"
        return None

    def broken_by_itself(self, name: str) -> str | None:
        """
        The complaint about a user of a register's bytes, under another name, when they
        are new ones; None without one.
        """
        graph, writer = self._graph, self._graph.writer[name]
        for user in graph.users(name, of=name):
            # Who reads it by its name gives it back.
            if name not in graph.reads[user] and not self._comes_back(
                user, writer, graph.spans[name].slots
            ):
                return self._complaint(user, name, writer, name) + " again"
        return None

    def _written_at(self, name: str) -> tuple[int, int]:
        writer = self._graph.writer[name]
        return self._position[writer], self._graph.first_write[writer][name]

    def _complaint(self, user: int, used: str, writer: int, over: str) -> str:
        actors = self._graph.actors
        return (
            f"@{actors[user].sym_name.data} may use @{used} after "
            f"@{actors[writer].sym_name.data} has begun to write @{over}"
        )

    def _comes_back(self, user: int, writer: int, turns: int) -> bool:
        """Whether an actor's act comes before that of the writer so many acts later."""
        if user == writer:
            return True
        if self._next_act[user] >> self._bit[writer] & 1:
            return True
        return turns > 1 and self._graph.graph.reaches(user, writer, turns)


@dataclass(frozen=True)
class VerifyProgramPass(ModulePass):
    """
    Check what must hold of a whole program, from its actors and registers alone.
    """

    name = "verify-program"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        programs = outermost(op, ProgramOp)
        fail_if_any(found for program in programs for found in findings_in(program))
