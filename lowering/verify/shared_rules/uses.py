"""
The bytes that actors use, under any name: a plan or a program as its rules see it.

Each act of an iteration counts as an actor of its own, and each piece of a register as
a register. A register has bytes of its own if a step of its writer writes it. Else it
*shows* those that its writer finds there, and its users use these.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from penstock.lowering.algorithms.byte_spans import (
    Access,
    Span,
    shared_by,
    uncovered,
)
from penstock.lowering.algorithms.marked_graph import MarkedGraph, Storage


class Piece(NamedTuple):
    """Bytes from `start` up to `end` of the first slot, and whose they are."""

    origin: str
    start: int
    end: int


class Acts(NamedTuple):
    """The acts of an iteration, by number, and the registers that they name."""

    graph: MarkedGraph
    order: Sequence[int]
    """The acts, those that write registers before those that read them."""
    reads: Sequence[Collection[str]]
    writes: Sequence[Sequence[str]]
    steps: Sequence[Sequence[Access]]
    below: Sequence[Mapping[str, Sequence[str]]]
    """For each act the registers whose bytes lie in each one that it writes."""
    spans: Mapping[str, Span]
    """The places of registers and variables in one address space."""
    lasting: Collection[str] = ()
    """Variables, and all else that no act writes and that has bytes of its own."""
    arriving: Collection[str] = ()
    """Registers whose bytes another job has written before their writer acts."""
    next_use: Mapping[str, tuple[int, int]] = {}
    """
    The act that writes the same slot after a register, and how many iterations later,
    where that is not its own writer.
    """


@dataclass
class Uses:
    """The registers whose bytes acts use. No cycle of acts is without a token."""

    acts: Acts
    writer: dict[str, int] = field(init=False)
    """The act that writes, or shows, each register and control."""
    first_write: list[dict[str, int]] = field(init=False)
    """For each act the first step that writes a register."""
    last_use: list[dict[str, int]] = field(init=False)
    """For each act the last step that names a register or variable."""

    def __post_init__(self) -> None:
        acts = self.acts
        self.writer = {x: act for act, names in enumerate(acts.writes) for x in names}
        self.first_write = [first_writes(steps) for steps in acts.steps]
        for name in acts.arriving:
            self.first_write[self.writer[name]][name] = 0
        self.last_use = [last_uses(steps) for steps in acts.steps]
        self._under: dict[str, tuple[Piece, ...]] = {}
        """The pieces under each register before its writer acted."""
        self._shown: dict[str, tuple[Piece, ...]] = {
            name: (self._whole(name),) for name in acts.lasting
        }
        """
        The pieces whose bytes each register and variable has: its own, if a step writes
        it.
        """
        for act in acts.order:
            for name in acts.writes[act]:
                if name in acts.spans:
                    self._trace(name, act)

    def _whole(self, name: str) -> Piece:
        span = self.acts.spans[name]
        return Piece(name, span.start, span.start + span.size)

    def _trace(self, name: str, act: int) -> None:
        own = self.acts.spans[name]
        below = (x for other in self.sources(name) for x in self._shown.get(other, ()))
        inside = (
            Piece(origin, max(start, own.start), min(end, own.start + own.size))
            for origin, start, end in below
        )
        under = (piece for piece in inside if piece.start < piece.end)
        self._under[name] = tuple(dict.fromkeys(under))
        is_written = name in self.first_write[act]
        self._shown[name] = (self._whole(name),) if is_written else self._under[name]

    def sources(self, name: str) -> Sequence[str]:
        """The registers whose bytes the writer of a register finds there."""
        return self.acts.below[self.writer[name]].get(name, ())

    def has_own_bytes(self, name: str) -> bool:
        """Whether a step of a register's writer writes it; true for a variable."""
        writer = self.writer.get(name)
        return name in self.acts.lasting or (
            writer is not None and name in self.first_write[writer]
        )

    @property
    def views(self) -> list[str]:
        """The registers that no step of their writers writes."""
        return [name for name in self._under if not self.has_own_bytes(name)]

    @cached_property
    def _uses(self) -> dict[str, dict[int, list[Span]]]:
        """The bytes of each register that acts use, under any name."""
        found: dict[str, dict[int, list[Span]]] = defaultdict(lambda: defaultdict(list))
        for act, used in enumerate(self.last_use):
            pieces = [x for name in used for x in self._shown.get(name, ())]
            for name in self.first_write[act]:
                if self.writer.get(name) == act:
                    pieces += self._under[name]
            for piece in pieces:
                found[piece.origin][act].append(self._slots_of(piece))
        return found

    def _slots_of(self, piece: Piece) -> Span:
        """The same bytes in all slots."""
        size = piece.end - piece.start
        return self.acts.spans[piece.origin]._replace(start=piece.start, size=size)

    @cached_property
    def storages(self) -> dict[str, Storage]:
        """The bytes that each register and variable with bytes of its own lies on."""
        return {
            name: Storage(
                span.start,
                span.end,
                self.writer.get(name),
                list(self._uses[name]),
                span.slots,
                span.stride,
            )
            for name, span in self.acts.spans.items()
            if self.has_own_bytes(name)
        }

    def users(self, name: str, of: str) -> list[int]:
        """
        The acts that use, under any name, bytes of a register that another one shares.
        """
        span = self.acts.spans[of]
        return [
            act
            for act, used in self._uses[name].items()
            if any(shared_by(piece, span) for piece in used)
        ]

    def is_done_before(self, act: int, victim: str, over: str) -> bool:
        """Whether an act's steps use a register only before they write another."""
        begins = self.first_write[act][over]
        steps = self.acts.steps[act]
        # Only where it lies as a view does a kernel write to it what is there.
        unchanged = set(steps[begins].unchanged if steps else ())
        unchanged &= {*self.sources(over)}
        return all(
            step < begins or (step == begins and name in unchanged)
            for name, step in self.last_use[act].items()
            if self._shows(name, victim, over)
        )

    def _shows(self, name: str, victim: str, over: str) -> bool:
        """Whether a name stands for bytes of a register that another one lies on."""
        return any(
            piece.origin == victim
            and shared_by(self._slots_of(piece), self.acts.spans[over])
            for piece in self._shown.get(name, ())
        )

    def missing(self, name: str) -> int:
        """The bytes of a register that are views of nothing."""
        spans = self.acts.spans
        span = spans[name]
        others = [spans[source] for source in self.sources(name)]
        return uncovered(
            span.size,
            [(x.start - span.start, x.start + x.size - span.start) for x in others],
        )


def first_writes(steps: Sequence[Access]) -> dict[str, int]:
    """The first step that writes each register."""
    found: dict[str, int] = {}
    for i, step in enumerate(steps):
        for name in step.written:
            found.setdefault(name, i)
    return found


def last_uses(steps: Sequence[Access]) -> dict[str, int]:
    """The last step that names each register or variable."""
    return {name: i for i, step in enumerate(steps) for name in step.named}
