"""
Rules of `verify-plan` about plans of several jobs.

A job's registers are in use while it runs, variables and interfaces all the time. So
registers of two jobs share bytes only if the jobs never run at the same time, or if the
registers are one interface; nothing else lies on what is in use all the time.

A job that takes what other jobs make runs after one of these. So no jobs take from each
other alone in a ring, of which none could run first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from penstock.dialects.job import InputOp, OutputOp
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.regst import RegisterOp
from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.algorithms.byte_spans import Span
from penstock.lowering.algorithms.marked_graph import Storage
from penstock.lowering.analysis.body_plans import is_carried_on
from penstock.lowering.verify.plan_rules.graph import PlanGraph
from penstock.lowering.verify.shared_rules.jobs import Held, Owner
from penstock.lowering.verify.shared_rules.jobs import bad_sharing as between_jobs

Stored: TypeAlias = Mapping[RegisterOp, Storage]


@dataclass
class Jobs:
    """The jobs of a plan, and the job that uses each register."""

    plan_graph: PlanGraph

    def __post_init__(self) -> None:
        graph = self.plan_graph
        self.of: dict[RegisterOp, str | None] = {}
        """The job that a register belongs to; none for variables of several jobs."""
        for register, writer in graph.writer.items():
            job = graph.tasks[writer].job
            self.of[register] = None if job is None else job.data
        for register, task in graph.variables.items():
            self.of[register] = None if task.job is None else task.job.data
        named = {register.register_name: register for register in graph.facts}
        self._owned = {r: named[r.header] for r in graph.facts if r.header is not None}
        """The register that a header is named for."""
        for header, register in self._owned.items():
            self.of[header] = self.of.get(register)
        groups = graph.plan.exclusive_jobs
        self._group = {job: group[0] for group in groups for job in group}
        self.are_there = bool(graph.plan.jobs)
        """Whether the tasks of the plan say their jobs."""

    def owner(self, register: RegisterOp) -> Owner:
        """The owner of the bytes of a register."""
        root = self.root(register)
        if root in self.plan_graph.variables:
            return Owner("variable", root.register_name.data)
        if (interface := self.interface(root)) is not None:
            return Owner("interface", interface)
        if register in self._owned:
            return Owner("header", register.register_name.data)
        job = self.of.get(register) or ""
        if (group := self._group.get(job)) is not None:
            return Owner("group", group)
        return Owner("job", job)

    def held(self, register: RegisterOp, storage: Storage) -> Held:
        """A register with bytes of its own, and its owner."""
        size = storage.end - storage.start
        return Held(
            register,
            f"'{register.register_name.data}'",
            Span(storage.start, size, size, 1),
            self.of.get(register),
            self.owner(register),
            self.interface(register),
        )

    def interface(self, register: RegisterOp) -> str | None:
        """The name of the interface that a register is, or is the header of."""
        if (owned := self._owned.get(register)) is not None:
            name = self.interface(owned)
            return None if name is None else f"{name} header"
        return None if register.interface is None else register.interface.data

    def root(self, register: RegisterOp) -> RegisterOp:
        """The register that the aliases of a register end at."""
        root = self.plan_graph.root(register).owner
        assert isinstance(root, RegisterOp), "only this op makes registers"
        return root

    def apart(
        self, registers: Mapping[str, RegisterOp], stored: Mapping[str, Storage]
    ) -> Mapping[str, Storage]:
        """The places of pieces of registers if each job had memory of its own."""
        if not self.are_there:
            return stored
        span = max((storage.end for storage in stored.values()), default=0)
        starts: dict[str | None, int] = {}
        moved: dict[str, Storage] = {}
        for name, storage in stored.items():
            job = self.of.get(registers[name])
            shift = starts.setdefault(job, span * len(starts))
            start, end = storage.start + shift, storage.end + shift
            moved[name] = storage._replace(start=start, end=end)
        return moved


def bad_sharing(plan_graph: PlanGraph, stored: Stored) -> Iterator[Finding]:
    """All that is wrong between jobs, and with interfaces."""
    jobs = Jobs(plan_graph)
    yield from overwritten_interfaces(jobs, stored)
    if jobs.are_there:
        yield from foreign_registers(jobs)
        yield from between_jobs([jobs.held(*item) for item in stored.items()])
        yield from endless_waits(plan_graph.plan)


def overwritten_interfaces(jobs: Jobs, stored: Stored) -> Iterator[Finding]:
    """Tasks that write over an interface, not being those that make it."""
    for register in stored:
        root = jobs.root(register)
        if root.interface is None or root is register:
            continue
        if not is_carried_on(register, root):
            task = jobs.plan_graph.tasks[jobs.plan_graph.writer[register]]
            yield (
                task,
                f"task '{task.task_name.data}' writes '{register.register_name.data}' "
                f"over interface '{root.interface.data}'",
            )


def endless_waits(plan: PlanOp) -> Iterator[Finding]:
    """Jobs of which none can run first: one ring of them, at a task that takes."""
    waits = taken_from_others(plan)
    # Of each job that has no turn so far, a task whose makers have none either.
    while blocked := {
        job: found
        for job, taken in waits.items()
        if (found := next((x for x in taken if x.makers <= waits.keys()), None))
    }:
        if len(blocked) == len(waits):
            break
        waits = {job: waits[job] for job in blocked}
    path: list[str] = []
    job = next(iter(blocked), None)
    while job is not None and job not in path:
        path.append(job)
        job = min(blocked[job].makers)
    if job is None:
        return
    ring = [*path[path.index(job) :], job]
    steps = (
        f"'{taker}' takes '{blocked[taker].name}' of '{maker}'"
        for taker, maker in pairwise(ring)
    )
    yield blocked[job].task, f"jobs wait for each other for ever: {', '.join(steps)}"


class Taken(NamedTuple):
    """An input of a job that other jobs make."""

    task: TaskOp
    name: str
    makers: set[str]


def taken_from_others(plan: PlanOp) -> dict[str, list[Taken]]:
    """The inputs that other jobs make, by the jobs that take them."""
    makers: dict[str, set[str]] = {}
    for task in plan.tasks:
        if isinstance(task.op, OutputOp) and task.job is not None:
            makers.setdefault(task.op.port.data, set()).add(task.job.data)
    found: dict[str, list[Taken]] = {}
    for task in plan.tasks:
        if isinstance(task.op, InputOp) and task.job is not None:
            name, job = task.op.port.data, task.job.data
            if others := makers.get(name, set()) - {job}:
                found.setdefault(job, []).append(Taken(task, name, others))
    return found


def foreign_registers(jobs: Jobs) -> Iterator[Finding]:
    """Tasks and aliases that use what belongs to another job."""
    graph = jobs.plan_graph
    for index, (task, access) in enumerate(zip(graph.tasks, graph.access, strict=True)):
        job = None if task.job is None else task.job.data
        for register in dict.fromkeys((*access.ins, *access.waits)):
            owner = jobs.of.get(register)
            if graph.is_main[index] or graph.is_main[graph.writer.get(register, index)]:
                continue
            if owner is not None and owner != job:
                yield (
                    task,
                    f"task '{task.task_name.data}' of job '{job}' uses register "
                    f"'{register.register_name.data}' of job '{owner}'",
                )
    for register, job in jobs.of.items():
        root = jobs.root(register)
        if (owner := jobs.of.get(root)) is not None and owner != job:
            yield (
                register,
                f"register '{register.register_name.data}' of job '{job}' is an alias "
                f"of '{root.register_name.data}' of job '{owner}'",
            )
