"""What a report of the memory of a plan says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from penstock.lowering.convert.chunk_report import Fill

OWNERS = 10
"""The largest registers at a peak, that many of which are named."""


@dataclass(frozen=True)
class Step:
    """A task that acts; `order` is its place among those of its stream, from 0."""

    task: str
    op: str
    device: str
    stream: str
    order: int
    job: str | None
    """None where tasks say no jobs."""


@dataclass(frozen=True)
class Register:
    """
    Bytes from `offset` of a block, or `address` of its chunk, on. `bytes` counts all
    slots. `shares` is the number of registers that are no aliases of it, nor it of
    them, and have a byte in common with it.
    """

    name: str
    type: str
    bytes: int
    slots: int
    offset: int
    address: int
    producer: str | None
    op: str | None
    """What the producer executes."""
    job: str | None
    """That of its producer; None where tasks say no jobs."""
    readers: Sequence[str]
    first: int
    last: int
    """The steps between which it is alive; those of an alias are its own."""
    always: bool
    at_peak: bool
    """Whether it is alive when most bytes of its block are."""
    alias_of: str | None
    """The register that its chain of aliases ends at."""
    alias_offset: int
    """Bytes from the start of that one."""
    shares: int
    unordered: int
    """How many may be in use together with it, though they have other steps."""
    reasons: Sequence[str]
    """What keeps its bytes from being used for something else, or for less."""


@dataclass(frozen=True)
class Usage:
    """
    Bytes at each step. `bound` is the lower bound (`memory_bound`), in which jobs that
    may run at the same time add up, but not in `live`. `sum` is what all take side by
    side, `ratio` is `size / bound`.
    """

    size: int
    sum: int
    bound: int
    ratio: float | None
    live: Sequence[int]
    peak_step: int | None
    owners: Sequence[str]
    """The largest registers at that step."""


@dataclass(frozen=True)
class Block:
    """The bytes of a chunk from `offset` on, and who lies there."""

    name: str
    offset: int
    usage: Usage
    registers: Sequence[Register]


@dataclass(frozen=True)
class Chunk:
    """Bytes that are allocated at once."""

    name: str
    size: int
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Zone:
    """
    All that lies in one kind of memory; `fill` is what `penstock-run` says of it, None
    where that is not known.
    """

    memory_case: str
    usage: Usage
    chunks: Sequence[Chunk]
    fill: Fill | None = None


@dataclass(frozen=True)
class Report:
    """
    The memory of a plan. `exclusive` are the groups of jobs that never run at the same
    time, `unplaced` are registers that lie nowhere.
    """

    plan: str
    jobs: Sequence[str]
    exclusive: Sequence[Sequence[str]]
    streams: Sequence[str]
    steps: Sequence[Step]
    zones: Sequence[Zone]
    unplaced: Sequence[str]
    given_up: Sequence[str] = ()
    """What several streams cost, in parallelism or in memory."""
