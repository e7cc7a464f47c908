"""
Zero-copy I/O: binds registers to the caller's input and output arrays for a run.

Registers that have bytes of each other (a view, a part of a concatenation, a result
that is written over an operand) are a *family*: they can be bound only together. They
are bound to the array of an input if its feed is all that writes to any of them, else
to that of an output if its fetch reads all their bytes, and no actor writes over them
later. A register that another job knows, that has several slots, or that views a
variable stays in its place. Registers that share bytes only because they are used at
different times are no family: no actor uses both.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from penstock.runtime.program.executable import ProgramImage, Queue

Span: TypeAlias = tuple[int, int]
"""The first of some bytes of a chunk, and the one after the last."""


class Binding(NamedTuple):
    """
    A register that lies in the array of an input or output, `shift` bytes after its
    start, in a run of one act.
    """

    is_input: bool
    port: str
    register: str
    shift: int


def bindings_of(image: ProgramImage) -> list[Binding]:
    """The registers that are bound to the caller's arrays when a program runs."""
    if any(memory.device != "cpu" for memory in image.chunks):
        return []
    if any(x.kind != "plain" or x.every or x.repetitions > 1 for x in image.actors):
        return []
    return [x for family in _families(image) for x in family.bindings()]


@dataclass
class _Family:
    """Registers that have bytes of each other, and the steps that use them."""

    members: list[Queue] = field(default_factory=list[Queue])
    written: list[str] = field(default_factory=list[str])
    """The registers that steps write to, once for each step."""
    fed: dict[str, str] = field(default_factory=dict[str, str])
    fetched: dict[str, str] = field(default_factory=dict[str, str])
    """The registers that are brought in and taken out, by port."""
    sources: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """The members that the actor reads that makes one."""

    def bindings(self) -> Iterator[Binding]:
        """The bindings of the members, none if they stay in their places."""
        hull = self._hull()
        whole = {queue.name for queue in self.members if span_of(queue) == hull}
        if not all(_can_move(queue) for queue in self.members) or not whole:
            return
        ports = [port for port, name in self.fed.items() if name in whole]
        is_input = bool(ports) and self.written == [self.fed[ports[0]]]
        if not is_input:
            ports = [
                port
                for port, name in self.fetched.items()
                if name in whole and self._shown_by(name).issuperset(self.written)
            ]
        if not ports:
            return
        for queue in self.members:
            yield Binding(is_input, ports[0], queue.name, queue.offset - hull[0])

    def _shown_by(self, member: str) -> set[str]:
        """
        A member, and those that it is made of. Other members may be written later than
        a fetch of it, and over it.
        """
        left, found = [member], set[str]()
        while left:
            if (name := left.pop()) not in found:
                found.add(name)
                left += self.sources.get(name, ())
        return found

    def _hull(self) -> Span:
        spans = [span_of(queue) for queue in self.members]
        return min(start for start, _ in spans), max(end for _, end in spans)


def span_of(queue: Queue) -> Span:
    """The bytes of all slots of a register in its chunk."""
    assert queue.kind is not None, "what lies in a chunk has a type"
    frames = queue.slots // queue.parts
    last = (frames - 1) * queue.stride + (queue.parts - 1) * queue.step
    return queue.offset, queue.offset + last + queue.kind.size


def _can_move(queue: Queue) -> bool:
    """Whether the bytes of a register are of one job, and of one act."""
    return queue.slots == 1 and queue.parts == 1 and queue.interface is None


def _families(image: ProgramImage) -> list[_Family]:
    """The families of all registers that show no variable."""
    queues = {queue.name: queue for queue in image.queues if queue.chunk is not None}
    root = _Roots(queues)
    for actor in image.actors:
        written = [queues[name] for name in actor.writes if name in queues]
        for queue in (queues[name] for name in actor.reads if name in queues):
            for other in written:
                if _overlap(queue, other):
                    root.join(queue.name, other.name)
    families = {name: _Family() for name in queues if root.of(name) == name}
    for name, queue in queues.items():
        families[root.of(name)].members.append(queue)
    for actor in image.actors:
        for name in (name for name in actor.writes if name in queues):
            family = families[root.of(name)]
            read = {
                x for x in actor.reads if x in queues and root.of(x) == root.of(name)
            }
            family.sources.setdefault(name, set()).update(read)
        for name in (x for x in actor.written_by_control if x in queues):
            families[root.of(name)].written.append(name)
        for step, names in zip(actor.steps, actor.named_by_steps, strict=True):
            for name in (name for name in names if name in queues):
                family = families[root.of(name)]
                if name in actor.writes:
                    family.written.append(name)
                if step.verb == "feed":
                    family.fed[step.subject] = name
                elif step.verb == "fetch":
                    family.fetched[step.subject] = name
    variables = _Variables(image)
    return [
        family
        for family in families.values()
        if not any(variables.lie_in(queue) for queue in family.members)
    ]


def _overlap(one: Queue, other: Queue) -> bool:
    (start, end), (begin, stop) = span_of(one), span_of(other)
    return one.chunk == other.chunk and start < stop and begin < end


class _Roots:
    """Sets of names, each known by one of them."""

    def __init__(self, names: Iterable[str]):
        self._above = {name: name for name in names}

    def of(self, name: str) -> str:
        """The name that a set is known by."""
        while (above := self._above[name]) != name:
            self._above[name] = name = self._above[above]
        return name

    def join(self, one: str, other: str) -> None:
        """Make one set of two."""
        self._above[self.of(other)] = self.of(one)


class _Variables:
    """The bytes of variables, which share none with each other."""

    def __init__(self, image: ProgramImage):
        self._spans: dict[str, list[Span]] = {}
        for variable in image.variables:
            span = variable.offset, variable.offset + variable.kind.size
            self._spans.setdefault(variable.chunk, []).append(span)
        for spans in self._spans.values():
            spans.sort()

    def lie_in(self, queue: Queue) -> bool:
        """Whether a register has bytes of one of them."""
        start, end = span_of(queue)
        spans = self._spans.get(queue.chunk or "", [])
        before = bisect_left(spans, (end, end))
        return before > 0 and spans[before - 1][1] > start
