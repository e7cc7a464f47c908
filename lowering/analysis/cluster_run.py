"""
Runs of plans on a cluster, predicted: the times of all tasks and messages, and what
devices, links and memory have to do with them. Nothing is computed.

The plans are those of all ranks of a job. Each stream of a device runs one task at a
time, each link carries one message at a time. A task takes the time of `task_times`, a
copy or a message that of its way; both ends of a message are one act, and so are all
parts of a collective. Registers and
their slots make tasks wait as in a run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from xdsl.ir import Operation, SSAValue

from penstock.dialects.job import CollectiveOp, CopyOp, DeviceAttr, ReceiveOp, SendOp
from penstock.dialects.job.collectives import SUMS
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.plan import PlanOp, TaskOp
from penstock.dialects.regst import MemoryCaseAttr, RegisterOp
from penstock.dialects.utils.tensors import byte_count
from penstock.lowering.algorithms.timed_graph import Times, Work, times_of
from penstock.lowering.algorithms.unrolled_order import Acts, Queue
from penstock.lowering.analysis.acting_order import Stream
from penstock.lowering.analysis.cluster import Cluster, Link, Traffic
from penstock.lowering.analysis.joint_acts import Message, message_of
from penstock.lowering.analysis.register_usage import Usage
from penstock.lowering.analysis.task_times import has_size, time_of

Resource: TypeAlias = "Stream | Link"


class Device(NamedTuple):
    """A device in a run, with its shares of the time of an iteration and its bytes."""

    name: str
    busy: float
    """The share of time in which its compute streams run tasks, on the average."""
    flops: int
    """Scalar operations in an iteration."""
    taken: int
    """Bytes of its memory that the plan takes; those of a host without other ones."""
    memory: int | None
    """Bytes of its memory, if the cluster says it."""


class Carried(NamedTuple):
    """A link in a run: its bytes in an iteration, and the share of time it is used."""

    link: Link
    bytes: int
    busy: float


class Span(NamedTuple):
    """An act of a task on a stream, or of a message on its first link."""

    name: str
    rank: int
    line: str
    start: int
    end: int


@dataclass(frozen=True)
class Prediction:
    """A predicted run; times are nanoseconds."""

    iterations: int
    first: int
    """The time of the first iteration alone."""
    iteration: float
    """The time of each of the last ones, which overlap as far as slots allow."""
    devices: Sequence[Device]
    links: Sequence[Carried]
    tasks: int
    spans: Sequence[Span]

    @property
    def bubble(self) -> float:
        """The share of time in which compute streams wait, on the average."""
        used = [device.busy for device in self.devices if device.flops]
        return 1 - sum(used) / len(used) if used else 0.0


def predict(plans: Sequence[PlanOp], cluster: Cluster, iterations: int) -> Prediction:
    """
    A run of so many iterations of the plans of all ranks of a job, which have registers
    and places. Raises ValueError if tasks wait for each other.
    """
    return _Run(plans, cluster).predict(iterations)


class _Act(NamedTuple):
    """A task, a message or a collective, with what it has on links."""

    task: TaskOp
    repetitions: int
    traffic: Traffic | None

    @property
    def links(self) -> Mapping[Link, int]:
        """The bytes on links."""
        return {} if self.traffic is None else self.traffic.bytes


class _Run:
    """The tasks of plans as acts that need streams and links."""

    def __init__(self, plans: Sequence[PlanOp], cluster: Cluster) -> None:
        self._plans, self._cluster = plans, cluster
        usages = [Usage(plan) for plan in plans]
        devices = {task.device for usage in usages for task in usage.tasks}
        self._ranks = 1 + max((x.rank.data for x in devices), default=0)
        self._acts: list[_Act] = []
        self._resources: dict[Resource, int] = {}
        ends: dict[Message, int] = {}
        queues: list[Queue] = []
        for usage in usages:
            numbers: list[int] = []
            for task in usage.tasks:
                message = message_of(task, usage.plan)
                number = len(self._acts)
                if message is not None:
                    number = ends.setdefault(message, number)
                if number == len(self._acts):
                    self._acts.append(self._act(task, usage.rates.repetitions[task]))
                numbers.append(number)
            queues += [
                queue._replace(
                    writer=numbers[queue.writer], reader=numbers[queue.reader]
                )
                for queue in usage.queues
            ]
        self._unrolled = Acts([act.repetitions for act in self._acts])
        self._edges = self._unrolled.edges(queues)

    def _act(self, task: TaskOp, repetitions: int) -> _Act:
        op = task.op
        match op:
            case CollectiveOp():
                traffic = self._cluster.collective(op.exchange, self._ranks)
                return _Act(task, repetitions, traffic)
            case SendOp():
                ends, value = (task.device, op.device), op.value
            case ReceiveOp():
                ends, value = (op.device, task.device), op.result
            case CopyOp():
                ends, value = (device_of(task.ins[0]), op.device), op.result
            case _:
                return _Act(task, repetitions, None)
        size = byte_count(value.type) if has_size(value) else 0
        links, busy, latency = self._cluster.route(*ends, size, self._ranks)
        traffic = Traffic(dict.fromkeys(links, size), busy, latency)
        return _Act(task, repetitions, traffic)

    def _work(self, act: _Act) -> Work:
        """The streams and links of an act, and for how long it keeps them."""
        task, _, traffic = act
        stream = task.device, task.stream
        if traffic is None:
            time = time_of(task, self._cluster.machine)
            return Work((self._number(stream),), time)
        links = tuple(map(self._number, traffic.bytes))
        rates = self._cluster.machine.of(task.device.kind.data)
        after = traffic.latency_ns + rates.task_ns
        if isinstance(task.op, CopyOp):
            time = round(traffic.busy_ns + after)
            return Work((self._number(stream), *links), time)
        # A message is on its way while tasks of its ranks go on.
        after += bytes_of_sums(task.op) / rates.gbytes
        return Work(links, round(traffic.busy_ns), round(after))

    def _number(self, resource: Resource) -> int:
        return self._resources.setdefault(resource, len(self._resources))

    def predict(self, iterations: int) -> Prediction:
        """The prediction for so many iterations."""
        works = [self._work(act) for act in self._acts]
        all_acts = [works[task] for task in self._unrolled.task_of]
        times = times_of(all_acts, self._edges, iterations)
        middle, last = iterations // 2, times.end(iterations - 1)
        start = times.end(middle - 1) if middle else 0
        period = (last - start) / (iterations - middle)
        busy = [0] * len(self._resources)
        for work in all_acts:
            for resource in work.resources:
                busy[resource] += work.busy
        shares = {x: busy[i] / max(period, 1) for x, i in self._resources.items()}
        return Prediction(
            iterations,
            times.end(0),
            period,
            list(self._devices(shares)),
            list(self._links(shares)),
            len(self._acts),
            list(self._spans(times, works)),
        )

    def _devices(self, shares: Mapping[Resource, float]) -> Iterator[Device]:
        flops: dict[DeviceAttr, int] = {}
        streams: dict[DeviceAttr, list[float]] = {}
        for act in self._acts:
            device = act.task.device
            flops[device] = flops.get(device, 0) + act.repetitions * flops_of(act.task)
        for resource, share in shares.items():
            if not isinstance(resource, Link) and resource[1].kind.data == "compute":
                streams.setdefault(resource[0], []).append(share)
        taken = bytes_of(self._plans)
        for device in sorted(flops, key=place_of):
            used = streams.get(device, [0.0])
            kind = device.kind.data
            yield Device(
                name_of(device),
                sum(used) / len(used),
                flops[device],
                taken.get(device, 0),
                self._cluster.memory.get(kind),
            )

    def _links(self, shares: Mapping[Resource, float]) -> Iterator[Carried]:
        carried: dict[Link, int] = {}
        for act in self._acts:
            for link, size in act.links.items():
                carried[link] = carried.get(link, 0) + act.repetitions * size
        for link, size in sorted(carried.items()):
            yield Carried(link, size, shares[link])

    def _spans(self, times: Times, works: Sequence[Work]) -> Iterator[Span]:
        for row in times.starts:
            for number, start in zip(self._unrolled.task_of, row, strict=True):
                act = self._acts[number]
                task, device = act.task, act.task.device
                line = f"{device.kind.data}:{device.index.data} {task.stream.kind.data}"
                if act.links and not isinstance(task.op, CopyOp):
                    line = next(iter(act.links)).name
                name, rank = task.task_name.data, device.rank.data
                yield Span(name, rank, line, start, start + works[number].busy)


def bytes_of_sums(op: Operation) -> float:
    """
    The bytes that each rank reads and writes to add up what comes in a collective.
    """
    if not isinstance(op, CollectiveOp) or op.kind.data not in SUMS:
        return 0
    # All blocks but one are added to another and written.
    size, count = byte_count(op.sources[0].type), len(op.exchange.ranks)
    return 3 * size * (count - 1) / count


def device_of(value: SSAValue) -> DeviceAttr:
    """The device in whose memory a register lies."""
    register = value.owner
    assert isinstance(register, RegisterOp), "only this op makes registers"
    return device_with(register.memory_case)


def device_with(case: MemoryCaseAttr) -> DeviceAttr:
    """The device of a memory; that of a host is its CPU."""
    if not case.is_host and isinstance(case.device, DeviceAttr):
        return case.device
    return DeviceAttr(case.rank.data, "cpu", 0)


def flops_of(task: TaskOp) -> int:
    """The scalar operations of an act of a task, 0 where extents are not known."""
    op = task.op
    if isinstance(op, TensorOp) and all(map(has_size, (*op.operands, *op.results))):
        return op.cost().flops
    return 0


def bytes_of(plans: Sequence[PlanOp]) -> dict[DeviceAttr, int]:
    """The bytes of chunks by the device of their memory, those of a host by its CPU."""
    found: dict[DeviceAttr, int] = {}
    for plan in plans:
        for chunk in plan.chunks:
            device = device_with(chunk.memory_case)
            found[device] = found.get(device, 0) + chunk.size.value.data
    return found


def place_of(device: DeviceAttr) -> tuple[int, str, int]:
    """A device as reports sort it."""
    return device.rank.data, device.kind.data, device.index.data


def name_of(device: DeviceAttr) -> str:
    """A device as reports name it."""
    return f"rank {device.rank.data} {device.kind.data}:{device.index.data}"
