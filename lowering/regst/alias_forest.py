"""
Trees of registers that lie on common bytes, and whether another one may join them.

A *version* is the result of one write to some bytes: the result of a task, but no view
of bytes that others wrote. Versions that share bytes are in use one after the other:
all users of the one come before the writer of the next one, which may itself be the
last of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from xdsl.ir import SSAValue

from penstock.dialects.plan import PlanOp, Ports, TaskOp
from penstock.dialects.regst import DataType, MemoryCaseAttr, RegisterOp
from penstock.lowering.algorithms.graphs import listed_order
from penstock.lowering.algorithms.packing.problem import align
from penstock.lowering.analysis.acting_order import is_full_at_start, streams_of
from penstock.lowering.analysis.aliases import bytes_of, joined_case

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

################################################################################
# The order of tasks                                                           #
################################################################################


class Timeline:
    """
    The tasks of a plan that act, each after all that it waits for in the same act, and
    which of them are ordered: by what they read and wait for, by their stream, and by
    `orders`, pairs of tasks of which the first one is to end before the second begins.
    """

    def __init__(
        self, plan: PlanOp, orders: Sequence[tuple[TaskOp, TaskOp]] = ()
    ) -> None:
        acting = [task for task in plan.tasks if task.kind != "variable"]
        self._listed = {task: index for index, task in enumerate(acting)}
        ports = [task.ports for task in acting]
        self._producers = {
            register: index
            for index, (_, outs, _, signals) in enumerate(ports)
            for register in (*outs, *signals)
        }
        data = [list(self._sources(named)) for named in ports]
        waits = [list(sources) for sources in data]
        for first, second in orders:
            waits[self._listed[second]].append(self._listed[first])
        streams = [*streams_of(acting).values()]
        order = self._order(waits, streams)
        place = {listed: index for index, listed in enumerate(order)}
        self.tasks = [acting[listed] for listed in order]
        """The tasks, in an order in which they can act; without those that cannot."""
        self.stuck = [task for task in acting if self._listed[task] not in place]
        """The tasks that wait for themselves, and those that wait for them."""
        self.index = {task: index for index, task in enumerate(self.tasks)}
        self.sources = [[place[s] for s in data[i] if s in place] for i in order]
        """The tasks that each one waits for because of its registers."""
        self._count(
            streams, place, [[place[s] for s in waits[i] if s in place] for i in order]
        )

    def _sources(self, ports: Ports) -> Iterator[int]:
        for register in dict.fromkeys((*ports.ins, *ports.waits)):
            producer = self._producers.get(register)
            if producer is not None and not is_full_at_start(register):
                yield producer

    def _order(self, data: list[list[int]], streams: list[list[int]]) -> list[int]:
        """An order of the tasks that keeps the one of the list where it can."""
        sources = [set(waits) for waits in data]
        for stream in streams:
            for first, second in pairwise(stream):
                sources[second].add(first)
        return listed_order(sources)

    def _count(
        self,
        streams: list[list[int]],
        place: dict[int, int],
        waits: Sequence[Sequence[int]],
    ) -> None:
        """Note how far each stream has come before each task ends."""
        count = len(self.tasks)
        self._stream, self._nth = [0] * count, [0] * count
        previous: dict[int, int] = {}
        for number, stream in enumerate(streams):
            placed = [place[listed] for listed in stream if listed in place]
            previous.update((b, a) for a, b in pairwise(placed))
            for nth, task in enumerate(placed, start=1):
                self._stream[task], self._nth[task] = number, nth
        self._done: list[list[int]] = []
        for task in range(count):
            before = [*waits[task]]
            before += [previous[task]] if task in previous else []
            rows = [self._done[source] for source in before]
            done = list(map(max, *rows, [0] * len(streams))) if rows else []
            done = done or [0] * len(streams)
            done[self._stream[task]] = self._nth[task]
            self._done.append(done)

    def is_done(self, first: int, second: int) -> bool:
        """Whether a task ends before another one begins, or is that one."""
        return self._nth[first] <= self._done[second][self._stream[first]]


################################################################################
# Live bytes                                                                   #
################################################################################


class LiveBytes:
    """The bytes that are in use while each task acts, for each memory."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._live: dict[MemoryCaseAttr, NDArray[np.int64]] = {}

    def change(self, tree: Tree, sign: int) -> None:
        """Count the bytes of a tree (sign 1), or count them no more (-1)."""
        import numpy as np

        if tree.case not in self._live:
            self._live[tree.case] = np.zeros(self._count, np.int64)
        if not tree.is_variable:
            size = align(tree.size, tree.case.alignment)
            self._live[tree.case][tree.first : tree.last + 1] += sign * size

    def peak(self, cases: Iterable[MemoryCaseAttr]) -> int:
        """The most bytes that are in use at once in these kinds of memory together."""
        import numpy as np

        live = np.zeros(self._count, np.int64)
        for case in cases:
            live += self._live.get(case, 0)
        return int(live.max())


################################################################################
# Trees                                                                        #
################################################################################


@dataclass(eq=False)
class Version:
    """
    A version: the bytes from `start` up to `end` of a tree as a task writes them, and
    the tasks that use it. `parts` stand for these bytes instead, if others write them.
    """

    start: int
    end: int
    writer: int | None
    """None for a variable."""
    users: list[int]
    parts: list[Version] = field(default_factory=list["Version"])
    overwriters: list[int] = field(default_factory=list[int])
    """The tasks that write over it, or over a part of it, in place."""
    musts: list[int] = field(default_factory=list[int])
    """The tasks that have to write over it in place."""

    def leaves(self) -> Iterator[Version]:
        """The versions of these bytes that have no parts."""
        if not self.parts:
            yield self
        for part in self.parts:
            yield from part.leaves()


@dataclass(eq=False)
class Tree:
    """Registers that lie in the bytes of one of them, the root."""

    root: RegisterOp
    first: int
    last: int
    """The tasks that are the first and the last to use it."""
    is_variable: bool
    versions: list[Version]
    """The versions that may still be read."""
    case: MemoryCaseAttr
    """The memory that it lies in: one that serves as that of all its registers."""
    size: int
    """The bytes of one slot."""
    registers: list[SSAValue]
    """The registers that lie in it, the root among them."""
    parent: Tree | None = None
    shift: int = 0
    """Where it starts in its parent, once it is a part of another tree."""

    @property
    def slots(self) -> int:
        """The slots of all registers in it."""
        return self.root.slots.value.data


def joined_tree(trees: Sequence[Tree]) -> Tree:
    """The first of some trees, with the others as parts of it."""
    case = joined_case([tree.case for tree in trees])
    assert case is not None, "the rules ask before"
    return replace(
        trees[0],
        first=min(tree.first for tree in trees),
        last=max(tree.last for tree in trees),
        case=case,
    )


class Spot(NamedTuple):
    """The bytes of a register in its tree."""

    tree: Tree
    start: int
    end: int


class Forest:
    """All data registers of a plan, at first each in a tree of its own."""

    def __init__(self, plan: PlanOp, timeline: Timeline) -> None:
        self.live = LiveBytes(len(timeline.tasks))
        self._own: dict[SSAValue, Tree] = {}
        self._shown: dict[SSAValue, list[Version]] = {}
        users = self._users(timeline)
        variables = {
            register
            for task in plan.tasks
            if task.kind == "variable"
            for register in task.outs
        }
        for register in plan.registers:
            value = register.register
            if isinstance(value.type, DataType) and (
                value in users or value in variables
            ):
                self._add(register, users.get(value, []), value in variables)

    def _users(self, timeline: Timeline) -> dict[SSAValue, list[int]]:
        """The tasks that use each register, in order; its writer comes first."""
        users: dict[SSAValue, list[int]] = {}
        for index, task in enumerate(timeline.tasks):
            ins, outs, _, _ = task.ports
            for register in dict.fromkeys((*ins, *outs)):
                users.setdefault(register, []).append(index)
        return users

    def _add(self, register: RegisterOp, users: list[int], is_variable: bool) -> None:
        writer, size = None if is_variable else users[0], bytes_of(register.register)
        version = Version(0, size, writer, users)
        ends = (users[0], users[-1]) if users else (0, 0)
        case = register.memory_case
        value = register.register
        tree = Tree(register, *ends, is_variable, [version], case, size, [value])
        self._own[value], self._shown[value] = tree, [version]
        self.live.change(tree, 1)

    def __contains__(self, register: SSAValue) -> bool:
        return register in self._own

    def spot(self, register: SSAValue) -> Spot:
        """Where a register lies."""
        own = tree = self._own[register]
        start = 0
        while tree.parent is not None:
            start += tree.shift
            tree = tree.parent
        if own is not tree:
            # The next one that asks has a shorter way.
            own.parent, own.shift = tree, start
        return Spot(tree, start, start + own.size)

    def shown(self, register: SSAValue) -> list[Version]:
        """The versions whose bytes a register has."""
        return [leaf for version in self._shown[register] for leaf in version.leaves()]

    def overlapping(self, spot: Spot) -> list[Version]:
        """The versions of a tree that may still be read and lie on these bytes."""
        return [
            v for v in spot.tree.versions if v.start < spot.end and spot.start < v.end
        ]

    # Changes

    def join(self, part: Tree, whole: Tree, start: int) -> None:
        """
        Let a tree lie at byte `start` of another one. Its versions are not added to
        those of the other.
        """
        self.live.change(part, -1)
        self.live.change(whole, -1)
        joined = joined_tree([whole, part])
        whole.first, whole.last, whole.case = joined.first, joined.last, joined.case
        self.live.change(whole, 1)
        part.parent, part.shift = whole, start
        whole.registers += part.registers
        for version in part.versions:
            version.start += start
            version.end += start

    def show(self, register: SSAValue, source: SSAValue) -> None:
        """Let a register, which has a tree of its own, show bytes of another one."""
        spot, (part,) = self.spot(register), self._shown[register]
        shown = self.shown(source)
        within = [v for v in shown if v.start < spot.end and spot.start < v.end]
        for version in within:
            version.users += part.users
            version.musts += part.musts
        self._shown[register] = within

    def peak_if_joined(self, parts: Sequence[Tree], whole: Tree) -> tuple[int, int]:
        """
        The most live bytes now, and if trees were parts of another one: in the kinds of
        memory that they lie in, or would, together.
        """
        trees = [whole, *parts]
        joined = joined_tree(trees)
        cases = dict.fromkeys(tree.case for tree in (joined, *trees))
        before = self.live.peak(cases)
        for tree in trees:
            self.live.change(tree, -1)
        self.live.change(joined, 1)
        after = self.live.peak(cases)
        self.live.change(joined, -1)
        for tree in trees:
            self.live.change(tree, 1)
        return before, after
