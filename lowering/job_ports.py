"""
The names that jobs share: variables, inputs and outputs of one name in several plans.

What has one name in several jobs is one thing, so that all of them must define it alike
(OF-8, OF-9): a variable by type, first values and devices, an input or output by type
and device. A name that several jobs share is that of variables, or of inputs and
outputs, which may be fed from one another; in one job it stands for one of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple, TypeAlias

from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue

from penstock.dialects.interfaces import tensor_type
from penstock.dialects.job import DeviceAttr, InputOp, OutputOp, VariableOp
from penstock.dialects.plan import PlanOp, TaskOp

Finding: TypeAlias = tuple[Operation, str]


def plans_in(module: ModuleOp) -> list[PlanOp]:
    """The plans of a module, but not of modules in it."""
    return [op for op in module.body.block.ops if isinstance(op, PlanOp)]


class Port(NamedTuple):
    """A task that is known by name outside of its job, and the value it is about."""

    job: str
    task: TaskOp
    op: InputOp | OutputOp | VariableOp
    value: SSAValue
    """What the task makes, or what an output reads, outside of the task."""

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
        """What it is, with an article."""
        match self.op:
            case InputOp():
                return "an input"
            case OutputOp():
                return "an output"
            case VariableOp():
                return "a variable"

    @property
    def definition(self) -> str:
        """What has to be the same in all jobs, as a text."""
        if isinstance(op := self.op, VariableOp):
            return f"{variable_text(op)} on {short(self.task.device)}"
        value = op.value if isinstance(op, OutputOp) else op.result
        return f"{tensor_type(value)} on {short(self.task.device)}"


def variable_text(op: VariableOp) -> str:
    """What a variable is, without its name."""
    init = str(op.init).removeprefix("#job.init")
    if op.offsets is None or op.whole is None:
        return f"{type_of(op)} init {init}"
    starts, extents = list(op.offsets.iter_values()), list(op.whole.iter_values())
    return f"{type_of(op)} init {init} part {starts} of {extents}"


def type_of(op: VariableOp) -> TensorType:
    """The type of a variable."""
    return tensor_type(op.result)


def short(device: DeviceAttr) -> str:
    """A device as it stands in a plan."""
    return str(device).removeprefix("#job.device")


def ports_of(plan: PlanOp) -> Iterator[Port]:
    """The variables, inputs and outputs of a plan, as they are listed."""
    job = plan.sym_name.data
    for task in plan.tasks:
        match task.op:
            case InputOp() | VariableOp() as op:
                yield Port(job, task, op, (*task.outs, *task.results_)[0])
            case OutputOp() as op:
                yield Port(job, task, op, task.ins[0])
            case _:
                pass


SharedPorts: TypeAlias = dict[str, list[list[Port]]]
"""For each name that several jobs share, its ports in each of these, job by job."""


def shared_ports(plans: Iterable[PlanOp]) -> SharedPorts:
    """The names that several plans share."""
    ports: dict[str, dict[PlanOp, list[Port]]] = {}
    for plan in plans:
        for port in ports_of(plan):
            ports.setdefault(port.name, {}).setdefault(plan, []).append(port)
    return {name: list(of.values()) for name, of in ports.items() if len(of) > 1}


def complaints_about(shared: SharedPorts) -> Iterator[Finding]:
    """The names that jobs share and do not define alike."""
    for jobs in shared.values():
        found = list(mixed_kinds(jobs)) or list(doubled(jobs))
        yield from found or unlike(jobs)


def mixed_kinds(jobs: Sequence[Sequence[Port]]) -> Iterator[Finding]:
    """A name that is both that of a variable and of something else."""
    first, *others = chain.from_iterable(jobs)
    for port in others:
        if port.is_variable != first.is_variable:
            yield (
                port.task,
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
                ports[1].task,
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
                ports[0].task,
                f"'{ports[0].name}' is {expected} in job '{first[0].job}', "
                f"but {got} in job '{ports[0].job}'",
            )


def definition_of(ports: Sequence[Port]) -> str:
    """What a name stands for in one job."""
    return " and ".join(sorted(port.definition for port in ports))
