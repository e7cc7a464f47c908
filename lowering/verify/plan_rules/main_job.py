"""
Rules of `verify-plan` about plans whose jobs are linked to a main job: those with a
task that executes an op of one.

* There is one `job.reentrant_lock`. What it reads comes from `job.wait_and_send_ids`
  and from `job.esac`, what it hands on goes to `job.case` alone, and these two have a
  branch for each of its sections.
* The branches of a section lead to its source tick alone, and from its sink tick.
* In each act of a section its sink comes after its source, and no signal from the case
  or to a `job.esac` is there at the start.
* The list of each job has all of its sections, each once, and each job but the main
  one has a list.
* Each other `job.esac` names jobs, and hears of each by a task that comes after all of
  that job's.
* Of two jobs that exclude each other, that have one interface which one of them writes,
  or one variable, each has a section that covers its uses, and the lock never grants
  both (`lock_proof`).
* No two tasks take, or hand out, by one name, but for what jobs hand on to each other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from xdsl.ir import Operation

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
from penstock.lowering.algorithms.lock_proof import (
    Section,
    Shared,
    between,
    reached,
    unguarded,
)
from penstock.lowering.algorithms.marked_graph import Storage
from penstock.lowering.analysis.job_interfaces import Interfaces
from penstock.lowering.verify.plan_rules.graph import PlanGraph
from penstock.lowering.verify.plan_rules.jobs import Jobs
from penstock.lowering.verify.plan_rules.updates import updates_in

Finding = tuple[Operation, str]


class Main(NamedTuple):
    """The tasks of a main job that sections depend on."""

    lock: TaskOp
    send: TaskOp
    case: TaskOp
    esac: TaskOp


def bad_main(plan_graph: PlanGraph) -> Iterator[Finding]:
    """All that is wrong with the main job. No cycle is without a token."""
    if not any(plan_graph.is_main):
        return
    plan = plan_graph.plan
    yield from doubled_ports(plan)
    locks = [task for task in plan.tasks if isinstance(task.op, ReentrantLockOp)]
    if len(locks) != 1:
        yield plan, f"jobs are linked by one lock, got {len(locks)}"
        return
    main = main_of(plan, locks[0])
    if isinstance(main, str):
        yield locks[0], main
        return
    ends = [ends_of(plan_graph, main, i) for i in range(len(sections_of(main)))]
    for name, pair in zip(sections_of(main), ends, strict=True):
        if pair is None:
            yield main.lock, f"section '{name}' has no source and sink of its name"
    known = [pair for pair in ends if pair is not None]
    if len(known) == len(ends):
        yield from bad_lists(plan_graph, main, known)
        yield from early_signals(plan_graph, main)
        yield from bad_ends(plan_graph, main)
        yield from overlaps(plan_graph, main, known)


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


def sections_of(main: Main) -> list[str]:
    """The names of the sections, by number."""
    assert isinstance(main.lock.op, ReentrantLockOp), "this makes it a lock"
    return [name.data for name in main.lock.op.sections]


def main_of(plan: PlanOp, lock: TaskOp) -> Main | str:
    """What a lock belongs to, or why it is no part of a main job."""
    tasks = plan.tasks
    wanted, returned = (
        next((task for task in tasks if value in task.outs), None) for value in lock.ins
    )
    takers = [task for task in tasks if lock.outs[0] in task.ins]
    around = (wanted, returned, *takers)
    names = [task.op.name for task in around if task is not None]
    expected = [WaitAndSendIdsOp.name, EsacOp.name, CaseOp.name]
    if wanted is None or returned is None or names != expected:
        return (
            f"the lock should stand between one task each of {', '.join(expected)}, "
            f"got {', '.join(names)}"
        )
    case, esac = takers[0].op, returned.op
    assert isinstance(case, CaseOp), "compared by name"
    assert isinstance(esac, EsacOp), "compared by name"
    assert isinstance(lock.op, ReentrantLockOp), "this makes it a lock"
    if not case.names == esac.names == lock.op.sections:
        return "the lock, the case and the esac do not list the same sections"
    return Main(lock, wanted, takers[0], returned)


def ends_of(plan_graph: PlanGraph, main: Main, section: int) -> tuple[int, int] | None:
    """The numbers of the source and the sink of a section, if they are of its name."""
    begin = main.case.signals[section].owner
    end = main.esac.waits[section].owner
    assert isinstance(begin, RegisterOp), "only this op makes registers"
    assert isinstance(end, RegisterOp), "only this op makes registers"
    sources, sink = plan_graph.readers[begin], plan_graph.writer[end]
    name = sections_of(main)[section]
    ticks = [plan_graph.tasks[i] for i in (*sources, sink)]
    if [type(task.op) for task in ticks] != [SourceTickOp, SinkTickOp]:
        return None
    return (sources[0], sink) if {*map(tick_name, ticks)} == {name} else None


def tick_name(task: TaskOp) -> str:
    """What the section of a tick is called."""
    assert isinstance(task.op, SourceTickOp | SinkTickOp), "its kind"
    return f"{job_of(task)}/{task.op.section.data}"


def job_of(task: TaskOp) -> str:
    """The job of a task."""
    return "" if task.job is None else task.job.data


def early_signals(plan_graph: PlanGraph, main: Main) -> Iterator[Finding]:
    """Registers that begin or end something at the start, which nobody asked for."""
    heard = [x for t in plan_graph.tasks if isinstance(t.op, EsacOp) for x in t.waits]
    for value in (*main.case.signals, *heard):
        register = value.owner
        assert isinstance(register, RegisterOp), "only this op makes registers"
        if plan_graph.facts[register].initial:
            name = register.register_name.data
            yield register, f"register '{name}' of the main job is full at the start"


def bad_lists(
    plan_graph: PlanGraph, main: Main, ends: Sequence[tuple[int, int]]
) -> Iterator[Finding]:
    """Jobs whose numbers do not stand for all of their sections."""
    op = main.send.op
    assert isinstance(op, WaitAndSendIdsOp), "compared by name"
    jobs = plan_graph.plan.jobs
    expected: dict[str, list[int]] = {x: [] for x in jobs if x != job_of(main.lock)}
    for number, (source, _) in enumerate(ends):
        expected.setdefault(job_of(plan_graph.tasks[source]), []).append(number)
    listed = {
        job.data: sorted(numbers.get_values())
        for job, numbers in zip(op.jobs, op.lists, strict=True)
    }
    for job in dict.fromkeys((*expected, *listed)):
        wanted, got = expected.get(job, []), listed.get(job, [])
        if wanted != got or not got:
            yield main.send, f"job '{job}' has sections {wanted}, but its list is {got}"


def bad_ends(plan_graph: PlanGraph, main: Main) -> Iterator[Finding]:
    """Tasks that hear of the end of jobs from others than their last tasks."""
    of_job: dict[str, set[int]] = {}
    for index, task in enumerate(plan_graph.tasks):
        of_job.setdefault(job_of(task), set()).add(index)
    for task, access in zip(plan_graph.tasks, plan_graph.access, strict=True):
        if not isinstance(op := task.op, EsacOp) or task is main.esac:
            continue
        for name, register in zip(op.names, access.waits, strict=True):
            last, expected = plan_graph.writer[register], of_job.get(name.data, set())
            before = reached(plan_graph.launch_graph.previous, last)
            if last not in expected or not expected <= before:
                got = plan_graph.tasks[last].task_name.data
                yield (
                    task,
                    f"'{task.task_name.data}' should hear of job '{name.data}' from a "
                    f"task that comes after all others of it, got '{got}'",
                )


def overlaps(
    plan_graph: PlanGraph, main: Main, ends: Sequence[tuple[int, int]]
) -> Iterator[Finding]:
    """
    Sections that may end before they begin, and jobs that the lock lets use something
    at the same time.
    """
    for source, sink in ends:
        if not plan_graph.launch_graph.reaches(source, sink, 0):
            task = plan_graph.tasks[sink]
            name, other = task.task_name.data, plan_graph.tasks[source].task_name.data
            yield task, f"task '{name}' may end a section before '{other}' begins it"
    assert isinstance(main.lock.op, ReentrantLockOp), "this makes it a lock"
    sections = [
        Section(
            job_of(plan_graph.tasks[source]),
            between(plan_graph.launch_graph, source, sink),
            rivals,
        )
        for (source, sink), rivals in zip(ends, main.lock.op.rivals, strict=True)
    ]
    for shared in shared_by_jobs(plan_graph, plan_graph.storages()):
        for one, other in unguarded(sections, shared):
            yield (
                main.lock,
                f"the lock lets jobs '{one}' and '{other}' use {shared.what} at the "
                "same time",
            )


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
    """What a register is that several jobs may have, None for those of one job."""
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
