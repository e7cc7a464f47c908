"""
The layout of one memory's registers: blocks that registers share, and offsets in them.

Registers that may share bytes, directly or by way of others, are a *group*; the groups
of a memory lie side by side, because nothing in one group can lie on bytes of another
one. A register that may share bytes with no other one is kept apart, with the reason.
Where all users of a group are on one chain of tasks, it is laid out on lifetimes, else
on the pairs that may not share. A layout that is larger than the bound is compared with
the one that chains alone prove, and the smaller one is taken.

Registers are numbered from 0, in the order of the list; sizes and offsets are in bytes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from penstock.lowering.algorithms.byte_sharing import (
    PartialOrder,
    Sharing,
    Span,
    sharing_of_all,
)
from penstock.lowering.algorithms.graphs import components
from penstock.lowering.algorithms.packing import Lifetime, Problem
from penstock.lowering.algorithms.packing.problem import (
    align,
    end_of,
    sum_of,
    swept,
)

MAX_FURTHER_PAIRS = 1 << 20
"""With more pairs apart from lifetimes, only what lines prove is used."""

Pack: TypeAlias = Callable[[Problem], Sequence[int]]
"""Gives each buffer of a problem an offset."""

INTERFACE = "interface: it has bytes that several jobs know"
EMPTY = "empty: it has no bytes"
ALONE = "alone: no other register of this memory shares bytes"
TOGETHER = "together: all others may be in use with it in one act"
ACTS = "acts: nothing orders it and others from one act to the next"
UNORDERED = "unordered: too many tasks act in no order of their stream"


class Demand(NamedTuple):
    """A register that is no alias and no variable."""

    size: int
    slots: int
    span: Span
    is_interface: bool = False
    further: Sequence[Span] = ()
    """If it is written several times in an act: what each other time is needed for."""

    @property
    def spans(self) -> Sequence[Span]:
        """The spans in an act for which its bytes are needed, one after the other."""
        return self.span, *self.further


class Layout(NamedTuple):
    """A block: the registers in it, where they lie, and what it could be at most."""

    name: str
    members: Sequence[int]
    offsets: Sequence[int]
    size: int
    sum: int


class Plan(NamedTuple):
    """The blocks of a memory, and why some of its registers share no bytes."""

    layouts: Sequence[Layout]
    reasons: dict[int, str]


class Group(NamedTuple):
    """Registers that are laid out together."""

    members: Sequence[int]
    offsets: Sequence[int]
    size: int
    is_least: bool
    """Whether it is known that it can be no smaller."""


class Layouter:
    """
    Lays out the registers of one memory. The first chains of `order` are `lines`, each
    of which acts again only after all of it has acted.
    """

    def __init__(
        self,
        demands: Sequence[Demand],
        alignment: int,
        order: PartialOrder,
        lines: int,
        pack: Pack,
    ):
        self._demands = demands
        self._alignment = alignment
        self._order = order
        self._lines = lines
        self._pack = pack
        self._line = [self._line_of(demand.span) for demand in demands]

    def plan(self) -> Plan:
        """The blocks, at most one of registers kept apart and one of all others."""
        reasons, parts = self._divide()
        groups = self._lay_out(parts)
        if groups is None or not all(group.is_least for group in groups):
            by_lines = self._lay_out(self._parts_by_lines())
            assert by_lines is not None, "lines need no pairs"
            if groups is None or self._end(by_lines) < self._end(groups):
                groups = by_lines
        return Plan(self._blocks(groups, reasons), reasons)

    # Choice of registers that share

    def _line_of(self, span: Span) -> int | None:
        places = self._order.place
        chains = {places[t][0] if t in places else None for t in span.users}
        chain = chains.pop()
        is_line = not chains and chain is not None and chain < self._lines
        return chain if is_line else None

    def _are_on_a_line(self, members: Sequence[int]) -> bool:
        lines = {self._line[i] for i in members}
        return len(lines) == 1 and lines != {None}

    def _life(self, index: int) -> Lifetime:
        demand = self._demands[index]
        steps = [self._order.place[task][1] for task in demand.span.users]
        return Lifetime(min(steps), max(steps), demand.size)

    def _divide(self) -> tuple[dict[int, str], list[list[int]]]:
        """Why registers share no bytes, and the members of each group."""
        demands = self._demands
        reasons = {i: INTERFACE for i, d in enumerate(demands) if d.is_interface}
        own = [[i] for i in reasons]
        others = [i for i in range(len(demands)) if i not in reasons]
        reasons |= {i: EMPTY for i in others if not demands[i].size}
        some = [i for i in others if demands[i].size]
        if self._are_on_a_line(others):
            reasons |= dict.fromkeys(self._always_alive(some), TOGETHER)
            parts = [others]
        else:
            sharing = sharing_of_all(self._order, [demands[i].spans for i in some])
            reasons |= self._refusals(some, sharing)
            parts = [[some[k] for k in part] for part in components(sharing.allowed)]
            parts += [[i] for i in others if not demands[i].size]
        if len(some) == 1:
            reasons[some[0]] = ALONE
        return reasons, [*own, *parts]

    def _always_alive(self, members: Sequence[int]) -> list[int]:
        """Those on one line whose lifetimes overlap with those of all others."""
        lives = {i: self._life(i) for i in members}
        first_end = min((life.last for life in lives.values()), default=0)
        last_begin = max((life.first for life in lives.values()), default=0)
        return [
            i
            for i, life in lives.items()
            if life.first <= first_end and last_begin <= life.last
        ]

    def _refusals(self, members: Sequence[int], sharing: Sharing) -> dict[int, str]:
        refused = [k for k, others in enumerate(sharing.allowed) if not others]
        return {
            members[k]: self._refusal(members[k], sharing.apart[k]) for k in refused
        }

    def _refusal(self, index: int, apart: int) -> str:
        """Why a register shares no bytes, if in one act it is used apart from some."""
        demand = self._demands[index]
        writers = (task for span in demand.spans for task in span.first_writers)
        if any(task not in self._order.place for task in writers):
            return UNORDERED
        if not apart:
            return TOGETHER
        if demand.slots > 1:
            return f"slots: its {demand.slots} slots let acts overlap"
        return ACTS

    def _parts_by_lines(self) -> list[list[int]]:
        """The registers with one slot of each line, and all others on their own."""
        parts: dict[tuple[int, int], list[int]] = defaultdict(list)
        for i, demand in enumerate(self._demands):
            line = self._line[i]
            is_alone = line is None or demand.slots > 1 or demand.is_interface
            parts[(1, i) if is_alone or line is None else (0, line)].append(i)
        return list(parts.values())

    # Where they lie

    def _lay_out(self, parts: Sequence[Sequence[int]]) -> list[Group] | None:
        groups: list[Group] = []
        for members in parts:
            if (group := self._group(members)) is None:
                return None
            groups.append(group)
        return groups

    def _group(self, members: Sequence[int]) -> Group | None:
        """Registers laid out together; None if too many pairs are to be kept apart."""
        if len(members) == 1:
            size = self._demands[members[0]].size
            return Group(members, [0], size, True)
        if self._are_on_a_line(members):
            problem = Problem([self._life(i) for i in members], self._alignment)
        else:
            members = sorted(members, key=self._written)
            problem = self._problem(members)
        if problem is None:
            return None
        offsets = self._pack(problem)
        size = end_of(offsets, problem.sizes)
        return Group(members, offsets, size, size <= problem.bound)

    def _written(self, index: int) -> int:
        """The step at which a register may be written first."""
        spans = self._demands[index].spans
        writers = (task for span in spans for task in span.first_writers)
        return min(self._order.step[task] for task in writers)

    def _problem(self, members: Sequence[int]) -> Problem | None:
        demands = [self._demands[i] for i in members]
        spans = [demand.spans for demand in demands]
        allowed = sharing_of_all(self._order, spans).allowed
        everything = (1 << len(members)) - 1
        conflicts = [
            everything & ~others & ~(1 << k) for k, others in enumerate(allowed)
        ]
        found = swept([demand.size for demand in demands], conflicts)
        if found.further_count > MAX_FURTHER_PAIRS:
            return None
        return Problem.of_swept(found, self._alignment)

    # Blocks

    def _end(self, groups: Sequence[Group]) -> int:
        """The bytes of groups that lie side by side."""
        sizes = [group.size for group in groups]
        return end_of(stacked(sizes, self._alignment), sizes)

    def _blocks(self, groups: Sequence[Group], reasons: dict[int, str]) -> list[Layout]:
        kept = [g for g in groups if len(g.members) == 1 and g.members[0] in reasons]
        shared = [
            g for g in groups if len(g.members) > 1 or g.members[0] not in reasons
        ]
        blocks = [("kept", kept), ("shared", shared)]
        layouts = [self._layout(name, found) for name, found in blocks if found]
        return sorted(
            layouts, key=lambda block: lost_behind(block.size, self._alignment)
        )

    def _layout(self, name: str, groups: Sequence[Group]) -> Layout:
        sizes = [group.size for group in groups]
        starts = stacked(sizes, self._alignment)
        places = {
            index: start + offset
            for start, group in zip(starts, groups, strict=True)
            for index, offset in zip(group.members, group.offsets, strict=True)
        }
        members = sorted(places)
        return Layout(
            name,
            members,
            [places[i] for i in members],
            end_of(starts, sizes),
            sum_of([self._demands[i].size for i in members], self._alignment),
        )


def lost_behind(size: int, alignment: int) -> int:
    """The bytes from the end of something to where the next thing may begin."""
    return align(size, alignment) - size


def stacked(sizes: Sequence[int], alignment: int) -> list[int]:
    """
    Offsets side by side, in the order of the list but for that behind which the most
    bytes would be lost: it comes last, where nothing lies behind it.
    """
    losses = [lost_behind(size, alignment) for size in sizes]
    most = max(losses, default=0)
    last = len(losses) - 1 - losses[::-1].index(most) if losses else 0
    offsets = [0] * len(sizes)
    end = 0
    for i in [*range(last), *range(last + 1, len(sizes)), last][: len(sizes)]:
        offsets[i] = end
        end += align(sizes[i], alignment)
    return offsets
