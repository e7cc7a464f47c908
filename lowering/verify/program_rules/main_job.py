"""
Adapter from launch programs to the verifier rules on main jobs.

A *main job* (OneFlow's `System-Main`, made by `plan-link-main`) launches all other jobs
of a program by number, and its lock keeps conflicting jobs apart. `verify-program`
calls `bad_main`, which describes the actors of a program as `LinkedJobs` and applies
`penstock.lowering.verify.shared_rules.main_job`; `plan_rules.main_job` does the same
for plans. A program counts as linked if an actor reads a register that another job
writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Operation

from penstock.dialects.launch import ActorOp, ControlOp, ProgramOp, names_of
from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.algorithms.lock_proof import Shared
from penstock.lowering.verify.program_rules.graph import ProgramGraph
from penstock.lowering.verify.shared_rules import main_job
from penstock.lowering.verify.shared_rules.main_job import Actor, LinkedJobs, Position


def bad_main(graphs: Sequence[ProgramGraph]) -> Iterator[Finding]:
    """
    The violations of a program about its main job; none if its jobs are not linked. No
    graph may have a cycle without a token.
    """
    if is_linked(graphs[0].program):
        yield from main_job.bad_main(linked_jobs(graphs))


def is_linked(program: ProgramOp) -> bool:
    """Whether some actor hands something on to another job."""
    job = {
        x: actor.job_name for actor in program.actors for x in names_of(actor.writes)
    }
    return any(
        job.get(name) != actor.job_name
        for actor in program.actors
        for name in names_of(actor.reads)
    )


def linked_jobs(graphs: Sequence[ProgramGraph]) -> LinkedJobs:
    """The actors of a program and their registers, as the rules see them."""
    program = graphs[0].program
    positions: dict[Operation, Position] = {}
    for graph in graphs:
        acts = range(len(graph.actors))
        for act, actor in enumerate(graph.actors):
            first = positions[actor].first if actor in positions else act
            positions[actor] = Position(graph.graph, first, act, acts)

    return LinkedJobs(
        program,
        program.jobs,
        [actor_of(actor) for actor in program.actors],
        {
            op.sym_name.data: (op, f"control @{op.sym_name.data}")
            for op in program.body.block.ops
            if isinstance(op, ControlOp) and op.initial_slots
        },
        lists_of(program, "lock"),
        [(None, numbers) for numbers in lists_of(program, "send_ids")],
        False,
        lambda actor: positions[actor.op],
        lambda: shared_by_jobs(graphs),
    )


def lists_of(program: ProgramOp, kind: str) -> list[Sequence[int]]:
    """The lists of numbers of the actors of a kind."""
    return [x for a in program.actors if a.kind_name == kind for x in a.number_lists]


def actor_of(actor: ActorOp) -> Actor:
    """
    An actor and its registers, as the rules see it.

    Sections have no names in a program: they go by their number. Any actor may be the
    source or the sink of a section of its own job, so `begins` and `ends` are that job.
    """
    reads, writes = names_of(actor.reads), names_of(actor.writes)
    kind, job = actor.kind_name, actor.job_name or ""
    listed: Sequence[object] = {
        "lock": actor.number_lists,
        "case": writes,
        "esac": reads,
    }.get(kind, ())
    sections = [str(i) for i in range(len(listed))]
    name = f"@{actor.sym_name.data}"
    return Actor(actor, name, job, kind, reads, writes, sections, begins=job, ends=job)


def shared_by_jobs(graphs: Sequence[ProgramGraph]) -> Iterator[Shared]:
    """All that several jobs use, but not at the same time."""
    users_of: dict[str, dict[str, set[int]]] = {}
    writers: dict[str, set[str]] = {}
    own: dict[str, set[int]] = {}
    for graph in graphs:
        job = graph.job or ""
        own[job] = set()
        for what, users, is_written in uses_in(graph):
            if what is None:
                own[job] |= users
                continue
            users_of.setdefault(what, {}).setdefault(job, set()).update(users)
            if is_written:
                writers.setdefault(what, set()).add(job)
    for group in graphs[0].program.exclusive_jobs:
        yield Shared("the same bytes", {job: own[job] for job in group}, group)
    for what, by_job in users_of.items():
        yield Shared(what, by_job, writers.get(what, ()))


def uses_in(graph: ProgramGraph) -> Iterator[tuple[str | None, set[int], bool]]:
    """
    The uses of memory in a job, each as a name, the actors, and whether the job writes
    it.

    The name is that of an interface or a variable; None stands for memory of the job
    alone.
    """
    for name, storage in graph.uses.storages.items():
        users = {*storage.users, *(() if storage.writer is None else (storage.writer,))}
        if (interface := graph.interface(name)) is not None:
            yield f"interface '{interface}'", users, name not in graph.arriving
        elif not graph.is_variable(name):
            yield None, users, True
        elif users:
            is_written = any(name in updated for updated in graph.updates)
            yield f"variable @{name}", users, is_written
