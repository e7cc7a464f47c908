"""
The times of tasks: measured, where a task has one, else modelled from its op.

A task with the attribute `time_ns` (an i64) takes that many nanoseconds. Else a task
that computes takes the `task_ns` of the kind of its device, and in addition the longer
one of two times: that of the `flops` of its op at `gflops`, and that of the `bytes` of
its op at `gbytes`. A copy between devices moves the bytes of its result at the
`link_gbytes` of the kind that is not `cpu`; inputs, outputs and other copies read them
and write them at `gbytes`. A task of unknown size takes `task_ns` alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from math import ceil, isfinite

from xdsl.dialects.builtin import FixedBitwidthType, IntegerAttr, i64
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.job import CopyOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.utils.diagnostics import Finding
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.tensors import as_tensor, byte_count
from penstock.lowering.algorithms.list_scheduling import Job

MAX_NS = 2**62
"""Nanoseconds that all tasks of a plan together do not take; about 146 years."""

MEASURED = "time_ns"
"""The attribute of a task that says how many nanoseconds it takes."""


@dataclass(frozen=True)
class Rates:
    """The speed of one kind of device. The defaults are those of one CPU core."""

    gflops: float = 20.0
    """Scalar operations in a nanosecond."""

    gbytes: float = 10.0
    """Bytes of its own memory read or written in a nanosecond."""

    link_gbytes: float = 10.0
    """Bytes copied to or from another device in a nanosecond."""

    task_ns: float = 500.0
    """Nanoseconds that any task takes."""

    switch_ns: float = 2000.0
    """Nanoseconds from the end of a task to the start of one on another stream."""


ACCELERATOR = Rates(
    gflops=10_000.0,
    gbytes=1_000.0,
    link_gbytes=12.0,
    task_ns=5_000.0,
    switch_ns=5_000.0,
)
"""The default rates of kinds of devices other than the CPU."""


@dataclass(frozen=True)
class Machine:
    """The speed of each kind of device."""

    kinds: Mapping[str, Rates] = field(default_factory=lambda: {"cpu": Rates()})

    def of(self, kind: str) -> Rates:
        """The rates of a kind of device."""
        return self.kinds.get(kind, ACCELERATOR)

    @classmethod
    def parse(cls, entries: Iterable[str]) -> Machine:
        """
        The default machine, but for what is said: each entry is a kind of device and
        some of its rates, such as `cuda gflops=60000 gbytes=3300`.

        Raises `PassFailedException` for any other text.
        """
        machine = cls()
        for entry in entries:
            kind, *texts = entry.split() or [""]
            if not texts:
                raise PassFailedException(
                    f"machine: expected a kind of device and its rates, got '{entry}'"
                )
            said = dict(parse_rate(text) for text in texts)
            rates = replace(machine.of(kind), **said)
            machine = cls({**machine.kinds, kind: rates})
        return machine


def parse_rate(text: str) -> tuple[str, float]:
    """The name and the value of a rate from `name=value`."""
    name, _, number = text.partition("=")
    known = [rate.name for rate in fields(Rates)]
    if name not in known:
        raise PassFailedException(
            f"machine: expected one of {', '.join(known)}, got '{name}'"
        )
    try:
        value = float(number)
    except ValueError:
        value = -1.0
    is_time = name.endswith("_ns")
    if not isfinite(value) or value < 0 or (value == 0 and not is_time):
        least = "a number of at least" if is_time else "a number above"
        raise PassFailedException(f"machine: {name} must be {least} 0, got '{number}'")
    return name, value


def findings_about_times(plan: PlanOp, machine: Machine) -> Iterator[Finding]:
    """The tasks whose attribute `time_ns` is no time, and plans that take too long."""
    total, longest, slowest = 0, 0, ""
    for task in plan.tasks:
        given = task.attributes.get(MEASURED)
        if given is not None and measured_time(task) is None:
            yield task, f"{MEASURED} must be an i64 of at least 0, got {given}"
            continue
        time = time_of(task, machine) + switch_of(task, machine)
        total += time
        if time > longest:
            longest, slowest = time, task.task_name.data
    if total >= MAX_NS:
        yield (
            plan,
            f"its tasks take {total} ns together, '{slowest}' {longest} of them, which "
            "is 2^62 ns or more",
        )


def measured_time(task: TaskOp) -> int | None:
    """The attribute `time_ns` of a task, None without a sound one."""
    if (given := task.attributes.get(MEASURED)) is None:
        return None
    if not isa(given, IntegerAttr) or given.type != i64 or given.value.data < 0:
        return None
    return given.value.data


def time_of(task: TaskOp, machine: Machine) -> int:
    """The nanoseconds that one act of a task takes; a variable never acts."""
    if (measured := measured_time(task)) is not None:
        return measured
    if task.kind == "variable":
        return 0
    rates = machine.of(task.device.kind.data)
    return ceil(min(rates.task_ns + working_time(task, machine, rates), MAX_NS))


def switch_of(task: TaskOp, machine: Machine) -> int:
    """The nanoseconds from the end of a task on another stream to the start of one."""
    return int(machine.of(task.device.kind.data).switch_ns)


def jobs_of(
    tasks: Sequence[TaskOp],
    before: Sequence[Sequence[int]],
    lanes: Sequence[Sequence[int]],
    machine: Machine,
) -> list[Job]:
    """Tasks that act after those before them, as jobs that may run on these lanes."""
    jobs: list[Job] = []
    for task, after, able in zip(tasks, before, lanes, strict=True):
        switch = switch_of(task, machine)
        jobs.append(Job(time_of(task, machine), after, able, switch))
    return jobs


def working_time(task: TaskOp, machine: Machine, rates: Rates) -> float:
    """The nanoseconds that a task computes or moves data."""
    op = task.op
    values = *op.operands, *op.results
    if not all(map(has_size, values)):
        return 0.0
    if isinstance(op, TensorOp):
        cost = op.cost()
        return max(cost.flops / rates.gflops, cost.bytes / rates.gbytes)
    sizes = [byte_count(value.type) for value in values]
    if isinstance(op, CopyOp):
        kinds = {task.device.kind.data, op.device.kind.data} - {"cpu"}
        if kinds:
            return sizes[-1] / machine.of(min(kinds)).link_gbytes
    moved = 1 if isinstance(op, CopyOp) else 2
    return moved * sum(sizes) / rates.gbytes


def has_size(value: SSAValue) -> bool:
    """Whether the bytes of a tensor are known."""
    return (
        (type := as_tensor(value.type)) is not None
        and type.has_static_shape()
        and isinstance(type.element_type, FixedBitwidthType)
    )
