"""
Let copies to variables wait for kernels that can fail only since they were chosen.

In a plan assignments wait for tasks whose ops can fail (plan-order-commits). The
alternative that computes a kernel is chosen later, and source of its own may return an
error for any op. Actors that call such a kernel say that they `can_fail`
(launch-select-kernels). Where one does not come before all copies to variables of its
job, controls let it act before the actor with the step `launch.commit`, and that one
before the copies; if the job has none, it gets an actor `commit` on CPU 0 and a stream
of its own. As in a plan, the commit waits for those that no other one comes after, and
on a device all copies wait for it.

An actor that can fail, but writes over a variable (`updates`) or comes after one that
does, is an error. So is a program of several ranks in which an actor of one would have
to wait for another rank: it has no signal of that.

Example: `test/lowering/launch/launch-order-commits-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, ModuleOp, i64
from xdsl.ir import Block, Region
from xdsl.passes import ModulePass

from penstock.dialects.job import DeviceAttr
from penstock.dialects.launch import (
    ActorOp,
    CommitOp,
    ControlOp,
    CopyOp,
    ProgramOp,
    VariableOp,
    names_of,
    repetitions_of,
    symbols,
)
from penstock.dialects.utils.diagnostics import Finding, fail_if_any
from penstock.dialects.utils.walk import outermost
from penstock.lowering.algorithms.commit_gate import AHEAD, Gate, gate_of
from penstock.lowering.algorithms.marked_graph import Edge, MarkedGraph
from penstock.lowering.algorithms.unique_names import UniqueNames


@dataclass
class JobCommits:
    """The actors of one job of a program, and what of them has to wait for a commit."""

    program: ProgramOp
    job: str | None

    def __post_init__(self) -> None:
        self.actors = [x for x in self.program.actors if x.job_name == self.job]
        self._table = self.program.symbol_table()
        self._names = UniqueNames(self._table)
        self.gate = self._gate()

    def _gate(self) -> Gate:
        updates = [i for i, actor in enumerate(self.actors) if self._assigns(actor)]
        failing = [i for i, x in enumerate(self.actors) if x.can_fail is not None]
        graph = self._graph()
        if not updates or not failing or graph.cycles:
            return Gate((), ())
        found = gate_of(graph, failing, updates)
        remote = [x for x in failing if self.actors[x].device.kind.data != "cpu"]
        if not remote or self._are_told(graph, remote, updates):
            return found
        return gate_of(graph, failing, updates, is_remote=True)

    def _are_told(
        self, graph: MarkedGraph, remote: Sequence[int], updates: Sequence[int]
    ) -> bool:
        """Whether all copies come after a commit that comes after some actors."""
        bit = {update: 1 << i for i, update in enumerate(updates)}
        reached = graph.after([bit.get(x, 0) for x in range(graph.size)])
        commits = [x * commits_in(a) for x, a in zip(reached, self.actors, strict=True)]
        told = graph.after(commits)
        return all(told[x] == (1 << len(updates)) - 1 for x in remote)

    def _graph(self) -> MarkedGraph:
        writers = {x: i for i, a in enumerate(self.actors) for x in names_of(a.writes)}
        edges: list[Edge] = []
        for reader, actor in enumerate(self.actors):
            for name in names_of(actor.reads):
                op = self._table[name]
                full = op.initial_slots if isinstance(op, ControlOp) else 0
                if name in writers and full == 0:
                    edges.append(Edge(writers[name], reader, 0))
        return MarkedGraph(len(self.actors), edges)

    def _assigns(self, actor: ActorOp) -> bool:
        copies = (x for x in actor.body.block.ops if isinstance(x, CopyOp))
        if actor.update_list:
            return True
        targets = (step.target.root_reference.data for step in copies)
        # Names that are not in the table are those of parts of registers.
        found = (self._table.get(name) for name in targets)
        return any(isinstance(x, VariableOp) and not x.is_state for x in found)

    def findings(self) -> Iterator[Finding]:
        """
        The actors that fail too late, and copies that would have to wait for another
        rank.
        """
        yield from self._late_failures()
        for update in (self.actors[x] for x in self.gate.updates):
            for other in (self.actors[x] for x in self.gate.uncertain):
                if other.device.rank != update.device.rank:
                    yield (
                        update,
                        f"@{update.sym_name.data} has to wait for "
                        f"@{other.sym_name.data} of another rank, which can fail",
                    )

    def _late_failures(self) -> Iterator[Finding]:
        graph = self._graph()
        updating = [i for i, actor in enumerate(self.actors) if actor.update_list]
        if not updating or graph.cycles:
            return
        marks = [0] * len(self.actors)
        for index in (i for i, x in enumerate(self.actors) if x.can_fail is not None):
            marks[index] |= 1
        reached = graph.after(marks)
        for index in updating:
            actor, name = self.actors[index], self.actors[index].sym_name.data
            if actor.can_fail is not None:
                yield actor, f"@{name} can fail, but writes over a variable"
            elif reached[index]:
                yield actor, f"@{name} writes over a variable before others can fail"

    def write(self) -> None:
        """Add the controls, and the commit if there is none."""
        if not self.gate.updates:
            return
        commit = next(filter(commits_in, self.actors), None) or self._commit()
        repetitions = repetitions_of(self.program)
        waited = set(names_of(commit.reads))
        for actor in (self.actors[x] for x in self.gate.uncertain):
            if waited.isdisjoint(names_of(actor.writes)):
                self._connect(actor, commit, AHEAD, repetitions[actor.sym_name.data])
        signalled = set(names_of(commit.writes))
        for actor in (self.actors[x] for x in self.gate.updates):
            if signalled.isdisjoint(names_of(actor.reads)):
                self._connect(commit, actor, 1, 1)

    def _commit(self) -> ActorOp:
        first = self.actors[self.gate.updates[0]]
        stream = 1 + max(x.stream.value.data for x in self.program.actors)
        host = DeviceAttr(first.device.rank.data, "cpu", 0)
        name = self._names.make("commit")
        body = Region(Block([CommitOp()]))
        commit = ActorOp(name, host, stream, [], [], body, first.job)
        commit.location = first.location
        self.program.body.block.insert_op_before(commit, first)
        return commit

    def _connect(self, first: ActorOp, second: ActorOp, slots: int, acts: int) -> None:
        """A control, of which a piece lasts for so many acts of the first actor."""
        name = self._names.make(f"{first.sym_name.data} -> {second.sym_name.data}")
        control = ControlOp(name, slots)
        self.program.body.block.insert_op_before(control, self.program.actors[0])
        first.writes = symbols([*names_of(first.writes), name])
        second.reads = symbols([*names_of(second.reads), name])
        if acts > 1:
            rates = {**first.rates, name: acts}
            counts = {x: IntegerAttr(n, i64) for x, n in rates.items()}
            first.every = DictionaryAttr(counts)


def commits_in(actor: ActorOp) -> bool:
    """Whether an actor has a step after which nothing fails."""
    return any(isinstance(step, CommitOp) for step in actor.body.block.ops)


@dataclass(frozen=True)
class LaunchOrderCommitsPass(ModulePass):
    """
    Let copies to variables wait for kernels that can fail since they were chosen.
    """

    name = "launch-order-commits"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        jobs = [
            JobCommits(program, job)
            for program in outermost(op, ProgramOp)
            for job in program.jobs or (None,)
        ]
        fail_if_any(found for commits in jobs for found in commits.findings())
        for commits in jobs:
            commits.write()
