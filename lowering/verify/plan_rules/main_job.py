"""
The jobs of a plan that are linked to a main job, for the rules about these: those with
a task that executes an op of one.

Beside `penstock.lowering.verify.shared_rules.main_job`, no two tasks take, or hand out,
by one name, but for interfaces between jobs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from xdsl.ir import SSAValue

from penstock.dialects.job import (
    CallbackNotifyOp,
    CaseOp,
    EsacOp,
    ForeignInputOp,
    ForeignOutputOp,
    InputOp,
    OutputOp,
    ReentrantLockOp,
    SinkTickOp,
    SourceTickOp,
    WaitAndSendIdsOp,
)
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.regst import RegisterOp
from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.algorithms.lock_proof import Shared
from penstock.lowering.algorithms.marked_graph import Storage
from penstock.lowering.analysis.job_interfaces import Interfaces
from penstock.lowering.verify.plan_rules.graph import PlanGraph
from penstock.lowering.verify.plan_rules.jobs import Jobs
from penstock.lowering.verify.plan_rules.updates import updates_in
from penstock.lowering.verify.plan_rules.uses import Pieces
from penstock.lowering.verify.shared_rules import main_job
from penstock.lowering.verify.shared_rules.main_job import Actor, LinkedJobs, Position


def bad_main(plan_graph: PlanGraph) -> Iterator[Finding]:
    """All that is wrong with the main job. No cycle is without a token."""
    if any(plan_graph.is_main):
        yield from doubled_ports(plan_graph.plan)
        yield from main_job.bad_main(linked_jobs(plan_graph))


def linked_jobs(plan_graph: PlanGraph) -> LinkedJobs:
    """The tasks of a plan and their registers, as the rules see them."""
    tasks = plan_graph.tasks
    actors = [actor_of(task) for task in tasks]
    number = {task: i for i, task in enumerate(tasks)}
    members: dict[str, set[int]] = {}
    for actor, index in zip(actors, number.values(), strict=True):
        members.setdefault(actor.job, set()).add(index)

    def position(actor: Actor) -> Position:
        assert isinstance(actor.op, TaskOp), "made of tasks"
        own = number[actor.op]
        return Position(plan_graph.launch_graph, own, own, members[actor.job])

    return LinkedJobs(
        plan_graph.plan,
        plan_graph.plan.jobs,
        actors,
        {
            register.register: (register, f"register '{register.register_name.data}'")
            for register, facts in plan_graph.facts.items()
            if facts.initial
        },
        [x for t in tasks if isinstance(t.op, ReentrantLockOp) for x in t.op.rivals],
        [
            (job.data, numbers.get_values())
            for task in tasks
            if isinstance(task.op, WaitAndSendIdsOp)
            for job, numbers in zip(task.op.jobs, task.op.lists, strict=True)
        ],
        True,
        position,
        lambda: shared_by_jobs(plan_graph, Pieces(plan_graph).stored),
    )


def actor_of(task: TaskOp) -> Actor:
    """A task and its registers, as the rules see it."""
    name, job = f"task '{task.task_name.data}'", job_of(task)
    reads: tuple[SSAValue, ...] = (*task.ins, *task.waits)
    writes: tuple[SSAValue, ...] = (*task.outs, *task.signals)
    actor = Actor(task, name, job, task.op.name, reads, writes)
    match task.op:
        case WaitAndSendIdsOp():
            return actor._replace(kind="send_ids")
        case ReentrantLockOp() as op:
            return actor._replace(kind="lock", sections=[x.data for x in op.sections])
        case CaseOp() as op:
            return actor._replace(kind="case", sections=[x.data for x in op.names])
        case EsacOp() as op:
            names = [x.data for x in op.names]
            return actor._replace(kind="esac", sections=names, jobs=names)
        case SourceTickOp() as op:
            return actor._replace(begins=f"{job}/{op.section.data}")
        case SinkTickOp() as op:
            return actor._replace(ends=f"{job}/{op.section.data}")
        case _:
            return actor


def job_of(task: TaskOp) -> str:
    """The job of a task."""
    return "" if task.job is None else task.job.data


def doubled_ports(plan: PlanOp) -> Iterator[Finding]:
    """
    Tasks that take, or hand out, by a name by which another one does. Jobs that are
    linked to a main job are loaded as one; nobody else serves what they hand on.
    """
    interfaces = Interfaces(plan)
    seen: dict[tuple[bool, str], TaskOp] = {}
    for task in plan.tasks:
        match task.op:
            case InputOp() | OutputOp() as op if not interfaces.is_handed_on(task):
                key = isinstance(op, InputOp), op.port.data
            case ForeignInputOp() | ForeignOutputOp() as op:
                key = isinstance(op, ForeignInputOp), op.buffer.data
            case CallbackNotifyOp() as op:
                key = False, op.buffer.data
            case _:
                continue
        if (other := seen.setdefault(key, task)) is not task:
            names = f"'{other.task_name.data}' and '{task.task_name.data}'"
            yield task, f"tasks {names} both serve the port '{key[1]}'"


def shared_by_jobs(
    plan_graph: PlanGraph, stored: Mapping[RegisterOp, Storage]
) -> Iterator[Shared]:
    """All that several jobs use, but not at the same time."""
    jobs = Jobs(plan_graph)
    writers = writers_of(plan_graph, jobs)
    users: dict[str, dict[str, set[int]]] = {}
    own: dict[str, set[int]] = {job: set() for job in plan_graph.plan.jobs}
    for register, storage in stored.items():
        what = thing(jobs, register)
        for user in storage.users:
            job = job_of(plan_graph.tasks[user])
            if what is None:
                own[job].add(user)
            else:
                users.setdefault(what, {}).setdefault(job, set()).add(user)
    for group in plan_graph.plan.exclusive_jobs:
        yield Shared("the same bytes", {job: own[job] for job in group}, group)
    for what, by_job in users.items():
        yield Shared(what, by_job, writers.get(what, ()))


def thing(jobs: Jobs, register: RegisterOp) -> str | None:
    """
    The interface or variable of a register that several jobs may have, None for
    registers of one job.
    """
    root = jobs.root(register)
    if (interface := jobs.interface(root)) is not None:
        return f"interface '{interface}'"
    if root in jobs.plan_graph.variables:
        return f"variable '{root.register_name.data}'"
    return None


def writers_of(plan_graph: PlanGraph, jobs: Jobs) -> dict[str, set[str]]:
    """The jobs that write what several may have."""
    handed_on = Interfaces(plan_graph.plan)
    found: dict[str, set[str]] = {}
    updated = {index: {register} for index, register in updates_in(plan_graph).items()}
    for index, access in enumerate(plan_graph.access):
        task = plan_graph.tasks[index]
        written = updated.get(index, set[RegisterOp]())
        if not handed_on.is_handed_on(task):
            written |= set(access.outs)
        for register in written:
            if (what := thing(jobs, register)) is not None:
                found.setdefault(what, set()).add(job_of(task))
    return found
