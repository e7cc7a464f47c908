"""
The report of the memory of a plan, as plain values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from penstock.lowering.algorithms.packing import Problem
from penstock.lowering.convert.chunk_report import Fill

OWNERS = 10
"""The number of the largest registers at a peak that are named."""


@dataclass(frozen=True)
class Step:
    """A task that acts; `order` is its place among those of its stream, from 0."""

    task: str
    op: str
    device: str
    stream: str
    order: int
    job: str | None
    """The job of the task; None where tasks say no jobs."""


@dataclass(frozen=True)
class Register:
    """
    A register: bytes from `offset` of a block, or `address` of its chunk, on.

    `bytes` counts all slots. `shares` is the number of registers that are no aliases of
    it, nor it of them, and have a byte in common with it.
    """

    name: str
    type: str
    bytes: int
    slots: int
    offset: int
    address: int
    producer: str | None
    op: str | None
    """The op of the producer."""
    job: str | None
    """The job of the producer; None where tasks say no jobs."""
    readers: Sequence[str]
    first: int
    last: int
    """The steps between which it is alive; those of an alias are its own."""
    always: bool
    at_peak: bool
    """Whether it is alive at the fullest step of its block."""
    alias_of: str | None
    """The register that its chain of aliases ends at."""
    alias_offset: int
    """The bytes from the start of that register."""
    shares: int
    unordered: int
    """
    The number of registers that may be in use together with it, though at other steps.
    """
    reasons: Sequence[str]
    """The reasons why its bytes are used for nothing else, or for less."""


@dataclass(frozen=True)
class Usage:
    """
    The bytes in use at each step.

    `bound` is the lower bound (`memory_bound`), in which jobs that may run at the same
    time add up, but not in `live`. `sum` is the size of all registers side by side,
    `ratio` is `size / bound`.
    """

    size: int
    sum: int
    bound: int
    ratio: float | None
    live: Sequence[int]
    peak_step: int | None
    owners: Sequence[str]
    """The largest registers at that step."""


class Packing(NamedTuple):
    """The registers of a block by name, as buffers of a packing problem."""

    names: Sequence[str]
    problem: Problem


@dataclass(frozen=True)
class Block:
    """
    A block: bytes of a chunk from `offset` on, and the registers there. `packing` is
    None if the block has no other layout, as all lasts or is laid side by side.
    """

    name: str
    offset: int
    usage: Usage
    registers: Sequence[Register]
    packing: Packing | None = None


@dataclass(frozen=True)
class Chunk:
    """A chunk: bytes that are allocated at once."""

    name: str
    size: int
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Zone:
    """
    All chunks in one kind of memory; `fill` is the use that `penstock-run` reports,
    None where that is not known.
    """

    memory_case: str
    usage: Usage
    chunks: Sequence[Chunk]
    fill: Fill | None = None
    rank: int = 0
    """The process that has it."""


@dataclass(frozen=True)
class Body:
    """
    The place of the plan of a body: the path of its task from the outermost one on, the
    form of its loop or branch, and the register that is its memory.
    """

    task: str
    form: str
    register: str | None

    @property
    def title(self) -> str:
        """The body in a heading, such as `body of scan (op.loop 20) in scan/memory`."""
        place = "" if self.register is None else f" in {self.register}"
        return f"body of {self.task} ({self.form}){place}"


@dataclass(frozen=True)
class Report:
    """
    The memory of a plan.

    `exclusive` are the groups of jobs that never run at the same time, `unplaced` are
    registers without a place. Those of a body without one lie outside of its memory.
    """

    plan: str
    jobs: Sequence[str]
    exclusive: Sequence[Sequence[str]]
    streams: Sequence[str]
    steps: Sequence[Step]
    zones: Sequence[Zone]
    unplaced: Sequence[str]
    given_up: Sequence[str] = ()
    """The cost of several streams, in parallelism or in memory."""
    body: Body | None = None
    """The task that the plan is of a body of; None for a plan of its own."""
    bodies: Sequence[Report] = ()
    """The plans of the bodies of its tasks, in the order of these."""

    def with_bodies(self) -> Iterator[Report]:
        """This report, and those of all bodies in it, each before those in it."""
        yield self
        for body in self.bodies:
            yield from body.with_bodies()
