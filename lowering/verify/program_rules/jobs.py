"""
Rules of `verify-program` about programs of several jobs.

A job's registers are in use while it runs, interfaces all the time. So

* registers of two jobs share bytes only if the jobs exclude each other, or if both are
  one interface, and nothing that a step writes lies on an interface;
* all registers of one interface start at the same byte;
* a released register is an interface that another job writes and this one only reads,
  and all its users in this job act before.

An interface that no step of a job writes, but one of another job, has its bytes from
there. The runtime must let no two jobs run at the same time that are in one group of
`exclusive`, or that have one interface, unless it was released.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from xdsl.ir import Operation

from penstock.dialects.launch import ReleaseOp
from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.verify.program_rules.graph import ProgramGraph, Span, shared_by


class Stored(NamedTuple):
    """A register that a step writes, or that arrives, and who may use its bytes."""

    name: str
    op: Operation
    span: Span
    job: str | None
    interface: str | None
    group: str | None
    """The first job of the group that excludes each other."""

    def may_share(self, other: Stored) -> bool:
        """Whether the rules between jobs let both lie on the same bytes."""
        if self.interface is not None or other.interface is not None:
            return self.interface == other.interface
        if self.job == other.job:
            return True
        return self.group is not None and self.group == other.group


def bad_sharing(graphs: Sequence[ProgramGraph]) -> Iterator[Finding]:
    """All that is wrong between the jobs of a program."""
    groups = graphs[0].program.exclusive_jobs
    group_of = {job: group[0] for group in groups for job in group}
    stored = [x for graph in graphs for x in stored_in(graph, group_of)]
    yield from between_jobs(stored)
    yield from torn_interfaces(stored)


def stored_in(graph: ProgramGraph, group_of: dict[str, str]) -> Iterator[Stored]:
    """The registers of a job that are no views."""
    job = graph.job
    group = None if job is None else group_of.get(job)
    for name, span in graph.spans.items():
        if not graph.is_variable(name) and graph.has_own_bytes(name):
            interface = graph.interface(name)
            yield Stored(name, graph.table[name], span, job, interface, group)


def between_jobs(stored: Sequence[Stored]) -> Iterator[Finding]:
    """
    Registers that share bytes against the rules: for each that does with some that
    start before it, those of each owner that go on longest.
    """
    longest: dict[object, Stored] = {}
    some = [x for x in stored if x.span.start < x.span.end]
    for register in sorted(some, key=lambda x: x.span.start):
        for other in longest.values():
            if not other.may_share(register) and shared_by(other.span, register.span):
                yield clash(other, register)
        owner = register.interface, register.interface is None and register.job
        if owner not in longest or longest[owner].span.end < register.span.end:
            longest[owner] = register


def clash(first: Stored, second: Stored) -> Finding:
    """That two registers share bytes."""
    lasting = first.interface or second.interface
    if lasting is not None:
        reason = f"interface '{lasting}' lasts from run to run"
    else:
        reason = f"jobs '{first.job}' and '{second.job}' may run at the same time"
    message = f"registers @{first.name} and @{second.name} share bytes, but {reason}"
    return second.op, message


def torn_interfaces(stored: Sequence[Stored]) -> Iterator[Finding]:
    """Interfaces that do not start at the same byte for all jobs."""
    seen: dict[str, Stored] = {}
    for register in stored:
        if (name := register.interface) is None:
            continue
        first = seen.setdefault(name, register)
        if first.span.start != register.span.start:
            yield (
                register.op,
                f"registers @{first.name} and @{register.name} are interface '{name}', "
                "but lie apart",
            )


def early_releases(graph: ProgramGraph) -> Iterator[Finding]:
    """
    Releases of what other jobs do not write, or of what may be in use afterwards. The
    storages of the graph have been asked for.
    """
    for number, actor in enumerate(graph.actors):
        for step in actor.body.block.ops:
            if not isinstance(step, ReleaseOp):
                continue
            name, register = actor.sym_name.data, step.register.root_reference.data
            if register not in graph.arriving:
                yield (
                    actor,
                    f"@{name} releases @{register}, which no other job writes",
                )
                continue
            for user in graph.users(register, of=register):
                if user != number and not graph.graph.reaches(user, number, 0):
                    late = graph.actors[user].sym_name.data
                    yield (
                        actor,
                        f"@{late} may use @{register} after @{name} has released it",
                    )
