"""
The names that jobs share: variables, inputs and outputs of one name in several jobs, or
in several plans.

One name in several jobs means one thing, so that all of them must define it alike
(OF-8, OF-9 of docs/sources.md): a variable by type, first values and devices, an input
or output by type, device, and largest shape where its extents are open. A name that
several jobs share is that of variables, or of inputs and outputs, which may be fed from
one another; in one job it stands for one of them. An input or output that is shared
comes once in a run, as there is one place for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import DeviceAttr, InputOp, JobOp, OutputOp, VariableOp
from penstock.dialects.plan import PlanOp
from penstock.dialects.regst import DataType
from penstock.dialects.utils.diagnostics import Finding
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.analysis.op_devices import JobDevices
from penstock.lowering.analysis.register_types import MAX_SHAPE, extents_of
from penstock.lowering.analysis.repetitions import PlanRates, job_repetitions

SYSTEM = "system"
"""The attribute of jobs that no user wrote: they run at the same time as others."""


def plans_in(module: ModuleOp) -> list[PlanOp]:
    """The plans of a module, but not of modules in it."""
    return [op for op in module.body.block.ops if isinstance(op, PlanOp)]


def plans_by_rank(module: ModuleOp) -> dict[int | None, list[PlanOp]]:
    """
    The plans of a module, but not of modules in it, by their ranks; all of them under
    None where none says its rank. Of a job on one rank only, the devices say it.
    """
    plans, found = plans_in(module), dict[int | None, list[PlanOp]]()
    are_of_ranks = any(plan.rank is not None for plan in plans)
    for plan in plans:
        rank = rank_of(plan) if are_of_ranks else None
        found.setdefault(rank, []).append(plan)
    return found


def rank_of(plan: PlanOp) -> int:
    """The rank of a plan whose tasks are on one."""
    if plan.rank is not None:
        return plan.rank.value.data
    return min((task.device.rank.data for task in plan.tasks), default=0)


def job_of(plan: PlanOp) -> str:
    """The job of a plan, which may be that of a rank, `<job>_<rank>`."""
    name = plan.sym_name.data
    return name if plan.rank is None else name.removesuffix(f"_{rank_of(plan)}")


def jobs_in(module: ModuleOp) -> list[JobOp]:
    """The jobs of a module, but not of modules in it."""
    return [op for op in module.body.block.ops if isinstance(op, JobOp)]


class Port(NamedTuple):
    """A port: an op that is known by name outside of its job, and its value."""

    job: str
    where: Operation
    """The op of a job, or the task of a plan."""
    op: InputOp | OutputOp | VariableOp
    value: SSAValue
    """
    The result of the op or task, or the operand of an output, outside of the task.
    """
    place: str
    """The devices that it is on, as it stands in the text."""
    pieces: int = 1
    """The pieces of it in a run."""

    @property
    def name(self) -> str:
        """The name that it is known by."""
        return self.op.port.data

    @property
    def is_variable(self) -> bool:
        """Whether it is a variable, or a part of one."""
        return isinstance(self.op, VariableOp)

    @property
    def kind(self) -> str:
        """The kind of port, with an article."""
        match self.op:
            case InputOp():
                return "an input"
            case OutputOp():
                return "an output"
            case VariableOp():
                return "a variable"

    @property
    def maximum(self) -> list[int] | None:
        """The largest shape that it may have; None where nothing says that here."""
        if isinstance(type := self.value.type, DataType):
            return list(type.max_type.get_shape())
        given = self.op.attributes.get(MAX_SHAPE)
        extents = None if given is None else extents_of(given)
        return None if extents is None else list(extents)

    @property
    def definition(self) -> str:
        """The facts that have to be the same in all jobs, as a text."""
        if isinstance(op := self.op, VariableOp):
            return f"{variable_text(op)} on {self.place}"
        value = op.value if isinstance(op, OutputOp) else op.result
        return f"{tensor_type(value)} on {self.place}"


def variable_text(op: VariableOp) -> str:
    """The type, initialiser and part of a variable as a text, without its name."""
    init = str(op.init).removeprefix("#job.init")
    if op.winograd is not None:
        return f"{type_of(op)} init {init} winograd {[*op.winograd.get_values()]}"
    if op.offsets is None or op.whole is None:
        return f"{type_of(op)} init {init}"
    starts, extents = list(op.offsets.iter_values()), list(op.whole.iter_values())
    return f"{type_of(op)} init {init} part {starts} of {extents}"


def type_of(op: VariableOp) -> TensorType:
    """The type of a variable."""
    return tensor_type(op.result)


def device_text(device: DeviceAttr) -> str:
    """A device as it stands in a plan."""
    return str(device).removeprefix("#job.device")


def place_text(op: Operation, devices: JobDevices) -> str:
    """Where an op of a job is, and how its result lies there."""
    placement = devices.of(op)
    if (device := placement.single_device()) is not None:
        return device_text(device)
    sbp = op.attributes.get("sbp")
    text = str(placement).removeprefix("#job.placement")
    return text if sbp is None else f"{text} as {str(sbp).removeprefix('#job.sbp')}"


def ports_of(owner: PlanOp | JobOp) -> Iterator[Port]:
    """The variables, inputs and outputs of a plan or job, as they are listed."""
    return ports_of_plan(owner) if isinstance(owner, PlanOp) else ports_of_job(owner)


def ports_of_plan(plan: PlanOp) -> Iterator[Port]:
    """The variables, inputs and outputs of a plan."""
    job, acts = plan.sym_name.data, acts_in(plan)
    for task in plan.tasks:
        op, made = task.op, (*task.outs, *task.results_)
        place, pieces = device_text(task.device), acts.get(task, 1)
        if isinstance(op, InputOp | VariableOp) and made:
            yield Port(job, task, op, made[0], place, pieces)
        elif isinstance(op, OutputOp) and isinstance(op.value, BlockArgument):
            yield Port(job, task, op, task.ins[op.value.index], place, pieces)


def ports_of_job(job: JobOp) -> Iterator[Port]:
    """The variables, inputs and outputs of a job."""
    devices, acts = JobDevices(job), acts_in(job)
    for op in job.body.block.ops:
        if isinstance(op, InputOp | OutputOp | VariableOp):
            value = op.value if isinstance(op, OutputOp) else op.result
            place, pieces = place_text(op, devices), acts.get(op, 1)
            yield Port(job.sym_name.data, op, op, value, place, pieces)


def acts_in(owner: PlanOp | JobOp) -> Mapping[Operation, int]:
    """
    The acts of ops or tasks in a run; none where rates do not suit each other, of which
    others tell.
    """
    try:
        if isinstance(owner, JobOp):
            return job_repetitions(owner)
        return {**PlanRates(owner).repetitions}
    except VerifyException:
        return {}


SharedPorts: TypeAlias = dict[str, list[list[Port]]]
"""For each name that several jobs share, its ports in each of these, job by job."""


def shared_ports(owners: Iterable[PlanOp | JobOp]) -> SharedPorts:
    """The names that several plans, or several jobs, share."""
    ports: dict[str, dict[PlanOp | JobOp, list[Port]]] = {}
    for owner in owners:
        for port in ports_of(owner):
            ports.setdefault(port.name, {}).setdefault(owner, []).append(port)
    return {name: list(of.values()) for name, of in ports.items() if len(of) > 1}


def findings_about(shared: SharedPorts) -> Iterator[Finding]:
    """The names that jobs share and do not define alike."""
    for jobs in shared.values():
        found = list(mixed_kinds(jobs)) or list(doubled(jobs))
        found = found or list(unlike(jobs)) or list(other_maxima(jobs))
        yield from found or several_pieces(jobs)
    yield from fed_in_a_ring(shared)


def fed_in_a_ring(shared: SharedPorts) -> Iterator[Finding]:
    """
    Jobs that take from each other what none of them can make before it has taken: one
    such ring, at the first input of it.
    """
    taken = waits_of(shared)
    stuck = {*taken}
    while ready := {x for x in stuck if all(made - stuck for _, made in taken[x])}:
        stuck -= ready
    if not stuck:
        return
    ring: list[tuple[str, Port, str]] = []
    job = next(name for name in taken if name in stuck)
    while job not in {taker for taker, _, _ in ring}:
        port, made = next((p, m) for p, m in taken[job] if m <= stuck)
        ring.append((job, port, maker := min(made)))
        job = maker
    first = next(i for i, (taker, _, _) in enumerate(ring) if taker == job)
    steps = (f"'{a}' takes '{p.name}' of '{b}'" for a, p, b in ring[first:])
    yield ring[first][1].where, f"jobs wait for each other for ever: {', '.join(steps)}"


def waits_of(shared: SharedPorts) -> dict[str, list[tuple[Port, set[str]]]]:
    """For each job the inputs that other jobs make, with the names of those."""
    found: dict[str, list[tuple[Port, set[str]]]] = {}
    for jobs in shared.values():
        ports = [*chain.from_iterable(jobs)]
        makers = {port.job for port in ports if isinstance(port.op, OutputOp)}
        for port in ports if makers else ():
            waits = found.setdefault(port.job, [])
            if isinstance(port.op, InputOp) and makers - {port.job}:
                waits.append((port, makers - {port.job}))
    return found


def mixed_kinds(jobs: Sequence[Sequence[Port]]) -> Iterator[Finding]:
    """A name that is both that of a variable and of something else."""
    first, *others = chain.from_iterable(jobs)
    for port in others:
        if port.is_variable != first.is_variable:
            yield (
                port.where,
                f"'{port.name}' is {first.kind} of job '{first.job}', "
                f"but {port.kind} of job '{port.job}'",
            )
            return


def doubled(jobs: Sequence[Sequence[Port]]) -> Iterator[Finding]:
    """A name that is that of an input and of an output of one job."""
    for ports in jobs:
        if len(ports) > 1 and not ports[0].is_variable:
            other = next(port.job for job in jobs for port in job if job is not ports)
            yield (
                ports[1].where,
                f"job '{ports[1].job}' has both an input and an output "
                f"'{ports[1].name}', which job '{other}' has too",
            )


def unlike(jobs: Sequence[Sequence[Port]]) -> Iterator[Finding]:
    """A name that is not defined in all jobs as it is in the first."""
    first, *others = jobs
    expected = definition_of(first)
    for ports in others:
        if (got := definition_of(ports)) != expected:
            yield (
                ports[0].where,
                f"'{ports[0].name}' is {expected} in job '{first[0].job}', "
                f"but {got} in job '{ports[0].job}'",
            )


def other_maxima(jobs: Sequence[Sequence[Port]]) -> Iterator[Finding]:
    """An input or output that may be larger in some jobs than in others."""
    said = [port for ports in jobs for port in ports if port.maximum is not None]
    for port in said[1:]:
        if not port.is_variable and port.maximum != said[0].maximum:
            yield (
                port.where,
                f"'{port.name}' is at most {said[0].maximum} in job '{said[0].job}', "
                f"but {port.maximum} in job '{port.job}'",
            )


def several_pieces(jobs: Sequence[Sequence[Port]]) -> Iterator[Finding]:
    """An input or output of several pieces in a run of a job."""
    first = jobs[0][0]
    for port in chain.from_iterable(jobs):
        if port.pieces > 1 and not port.is_variable:
            verb = "makes" if isinstance(port.op, OutputOp) else "takes"
            other = jobs[1][0].job if port.job == first.job else first.job
            yield (
                port.where,
                f"job '{port.job}' {verb} '{port.name}' {port.pieces} times in a run, "
                f"and shares it with job '{other}': what jobs share comes once",
            )


def definition_of(ports: Sequence[Port]) -> str:
    """The meaning of a name in one job, as a text."""
    return " and ".join(sorted(port.definition for port in ports))
