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

from collections.abc import Iterator, Mapping, Sequence

from penstock.dialects.launch import ReleaseOp
from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.verify.program_rules.graph import ProgramGraph
from penstock.lowering.verify.shared_rules import jobs
from penstock.lowering.verify.shared_rules.jobs import Held, Owner


def bad_sharing(graphs: Sequence[ProgramGraph]) -> Iterator[Finding]:
    """All that is wrong between the jobs of a program."""
    groups = graphs[0].program.exclusive_jobs
    group_of = {job: group[0] for group in groups for job in group}
    yield from jobs.bad_sharing([x for g in graphs for x in held_by(g, group_of)])


def held_by(graph: ProgramGraph, group_of: Mapping[str, str]) -> Iterator[Held]:
    """The registers of a job that are no views."""
    job = graph.job or ""
    group = group_of.get(job)
    own = Owner("job", job) if group is None else Owner("group", group)
    for name, span in graph.spans.items():
        if not graph.is_variable(name) and graph.uses.has_own_bytes(name):
            interface = graph.interface(name)
            owner = own if interface is None else Owner("interface", interface)
            op = graph.table[name]
            yield Held(op, f"@{name}", span, graph.job, owner, interface)


def early_releases(graph: ProgramGraph) -> Iterator[Finding]:
    """
    Releases of what other jobs do not write, or of what may be in use afterwards; each
    once, however often its actors act.
    """
    users: dict[str, list[int]] = {}
    told: set[tuple[str, str]] = set()
    for number, actor in enumerate(graph.actors):
        for step in actor.body.block.ops:
            if not isinstance(step, ReleaseOp):
                continue
            name, register = actor.sym_name.data, step.register.root_reference.data
            if register not in users:
                pieces = [x for x in graph.arriving if graph.register_of(x) == register]
                found = {user for x in pieces for user in graph.uses.users(x, of=x)}
                users[register] = sorted(found)
                if not pieces:
                    yield (
                        actor,
                        f"@{name} releases @{register}, which no other job writes",
                    )
            for user in users[register]:
                late = graph.actors[user].sym_name.data
                if user == number or (late, name) in told:
                    continue
                if not graph.graph.reaches(user, number, 0):
                    told.add((late, name))
                    yield (
                        actor,
                        f"@{late} may use @{register} after @{name} has released it",
                    )
