"""
The relation of registers that may share bytes, as far as the partial order of tasks
proves it.

An edge from one task to another says that the n-th act of the second comes after the (n
- tokens)-th act of the first. Two registers may share bytes if all users of the one
come before all first writers of the other in the same act, over paths without a token,
and all users of the other before all first writers of the one in the next act, over
paths with at most one. All slots of a register count as one.

*Chains* are lists of tasks, each of which comes before the next one in the same act. So
those of a chain that come after a task are all from some position on, and a row with
one position for each chain says what comes after the task. Rows follow from those of
the tasks behind: the cost is linear in edges times chains.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.lowering.algorithms.graphs import bits_of, cycle_behind, release

MAX_CHAINS = 256
"""The limit of chains: registers written by tasks of further ones share no bytes."""


class Edge(NamedTuple):
    """The target's n-th act comes after the source's (n - tokens)-th."""

    source: int
    target: int
    tokens: int


class CycleError(Exception):
    """Tasks wait for each other without a token. `tasks` are those of one cycle."""

    def __init__(self, tasks: Sequence[int]):
        super().__init__(f"a cycle without a token: {list(tasks)}")
        self.tasks = list(tasks)


class Span(NamedTuple):
    """
    The users of a register's bytes, writers included, and those of them that write
    before any other does.
    """

    users: Sequence[int]
    first_writers: Sequence[int]


################################################################################
# Order                                                                        #
################################################################################


class PartialOrder:
    """
    Tasks, numbered from 0, and what comes after each of them.

    `lines` are chains to begin with: their edges are among the given ones. Raises
    `CycleError` if tasks wait for each other without a token.
    """

    def __init__(
        self, count: int, edges: Sequence[Edge], lines: Sequence[Sequence[int]] = ()
    ):
        self._next: list[list[int]] = [[] for _ in range(count)]
        self._next_act: list[list[int]] = [[] for _ in range(count)]
        self._waits: list[list[int]] = [[] for _ in range(count)]
        for source, target, tokens in dict.fromkeys(edges):
            if tokens == 0:
                self._next[source].append(target)
                self._waits[target].append(source)
            elif tokens == 1:
                self._next_act[source].append(target)
        self._never = count
        order = self._sorted()
        self.step = {task: i for i, task in enumerate(order)}
        """The tasks in an order in which they can act."""
        self.place: dict[int, tuple[int, int]] = {}
        """The chain of a task and its position in it."""
        self.chains = self._number(order, lines)
        """The number of chains."""
        self.after: list[list[int]] = [[] for _ in range(count)]
        """For each task the first position in each chain that follows in its act."""
        self.up_to_next: list[list[int]] = [[] for _ in range(count)]
        """The same for the next act, from the task itself on."""
        self._look_back(order[::-1])

    @property
    def sources(self) -> list[int]:
        """The tasks that wait for nothing in their act."""
        return [task for task, waits in enumerate(self._waits) if not waits]

    @property
    def sinks(self) -> list[int]:
        """The tasks that nothing waits for in their act."""
        return [task for task, targets in enumerate(self._next) if not targets]

    def row_of(self, tasks: Sequence[int]) -> list[int]:
        """The first position of some tasks in each chain."""
        row = [self._never] * self.chains
        for task in tasks:
            if task not in self.place:
                return [-1] * self.chains
            chain, position = self.place[task]
            row[chain] = min(row[chain], position)
        return row

    def _sorted(self) -> list[int]:
        waiting = [len(sources) for sources in self._waits]
        order = release(self.sources, self._next, waiting)
        if len(order) < len(waiting):
            first = next(task for task, count in enumerate(waiting) if count)
            raise CycleError(cycle_behind(first, self._waits, lambda x: waiting[x] > 0))
        return order

    def _number(self, order: Sequence[int], lines: Sequence[Sequence[int]]) -> int:
        lengths = [len(line) for line in lines]
        for chain, line in enumerate(lines):
            self.place.update((task, (chain, i)) for i, task in enumerate(line))
        ends: dict[int, int] = {}
        for task in order:
            if task in self.place:
                continue
            before = next((t for t in self._waits[task] if t in ends), None)
            if before is not None:
                chain = ends.pop(before)
            elif len(lengths) < MAX_CHAINS:
                chain = len(lengths)
                lengths.append(0)
            else:
                continue
            self.place[task] = chain, lengths[chain]
            lengths[chain] += 1
            ends[task] = chain
        return len(lengths)

    def _look_back(self, order: Sequence[int]) -> None:
        own: list[list[int]] = [[] for _ in order]
        for task in order:
            row = [self._never] * self.chains
            for target in self._next[task]:
                row = list(map(min, row, own[target]))
            self.after[task] = row
            own[task] = row.copy()
            if task in self.place:
                chain, position = self.place[task]
                own[task][chain] = position
        for task in order:
            row = own[task]
            for target in self._next[task]:
                row = list(map(min, row, self.up_to_next[target]))
            for target in self._next_act[task]:
                row = list(map(min, row, own[target]))
            self.up_to_next[task] = row


################################################################################
# Sharing                                                                      #
################################################################################


class Sharing(NamedTuple):
    """
    For each register the set of others that it may share bytes with, and of those that
    are not used together with it in one act: bit j stands for the j-th register.
    """

    allowed: list[int]
    apart: list[int]


def sharing_of(order: PartialOrder, spans: Sequence[Span]) -> Sharing:
    """The relation of registers that may share bytes."""
    begins = [order.row_of(span.first_writers) for span in spans]
    same = [highest([order.after[t] for t in span.users]) for span in spans]
    later = [highest([order.up_to_next[t] for t in span.users]) for span in spans]
    # Where nothing is written, no position says anything.
    chains = sorted({order.place[t][0] for s in spans for t in placed(order, s)})
    before, after = both_ways(same, begins, chains)
    before_next, after_next = both_ways(later, begins, chains)
    return Sharing(
        [
            a & d | b & c
            for a, b, c, d in zip(before, after, before_next, after_next, strict=True)
        ],
        [a | b for a, b in zip(before, after, strict=True)],
    )


def sharing_of_all(order: PartialOrder, parts: Sequence[Sequence[Span]]) -> Sharing:
    """
    The relation of registers that may share bytes, where these are written several
    times in an act: all parts of both have to be allowed to.
    """
    found = sharing_of(order, [span for spans in parts for span in spans])
    if all(len(spans) == 1 for spans in parts):
        return found
    masks: list[int] = []
    start = 0
    for spans in parts:
        masks.append((1 << len(spans)) - 1 << start)
        start += len(spans)
    return Sharing(wholes(found.allowed, masks), wholes(found.apart, masks))


def wholes(sets: Sequence[int], masks: Sequence[int]) -> list[int]:
    """For each mask the other ones that are in the sets of all of its members."""
    found: list[int] = []
    for i, mask in enumerate(masks):
        common = -1
        for member in bits_of(mask):
            common &= sets[member]
        others = (j for j, m in enumerate(masks) if j != i and m & ~common == 0)
        found.append(sum(1 << j for j in others))
    return found


def placed(order: PartialOrder, span: Span) -> Iterator[int]:
    """The first writers that are in a chain."""
    return (task for task in span.first_writers if task in order.place)


def highest(rows: Sequence[list[int]]) -> list[int]:
    """The largest of each column."""
    return rows[0] if len(rows) == 1 else list(map(max, *rows))


def both_ways(
    rows: Sequence[list[int]], begins: Sequence[list[int]], chains: Sequence[int]
) -> tuple[list[int], list[int]]:
    """
    For each register the set of those that begin after all of its users, and of those
    all of whose users come before it begins. `rows` say what comes after its users.
    """
    if not chains:
        return [0] * len(rows), [0] * len(rows)
    negated = [[-position for position in row] for row in rows]
    negated_begins = [[-position for position in row] for row in begins]
    return (
        sets_at_least(rows, begins, chains),
        sets_at_least(negated_begins, negated, chains),
    )


def sets_at_least(
    limits: Sequence[list[int]], rows: Sequence[list[int]], columns: Sequence[int]
) -> list[int]:
    """For each limit the set of rows that are below it in none of the columns."""
    found = [(1 << len(rows)) - 1] * len(limits)
    for column in columns:
        values = [row[column] for row in rows]
        bounds = [limit[column] for limit in limits]
        rising = sorted(range(len(rows)), key=values.__getitem__)
        reached = 0
        for i in sorted(range(len(limits)), key=bounds.__getitem__, reverse=True):
            while rising and values[rising[-1]] >= bounds[i]:
                reached |= 1 << rising.pop()
            found[i] &= reached
    return found


def overlapping(places: Sequence[range]) -> list[int]:
    """
    For each range of bytes, none of them empty, the set of others that have a byte in
    common with it.
    """
    starts, lasts = [[-p.start] for p in places], [[p.stop - 1] for p in places]
    begun = sets_at_least([[-row[0]] for row in lasts], starts, [0])
    not_over = sets_at_least([[-row[0]] for row in starts], lasts, [0])
    return [
        a & b & ~(1 << i) for i, (a, b) in enumerate(zip(begun, not_over, strict=True))
    ]
