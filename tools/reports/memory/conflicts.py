"""
Conflicts: pairs of registers of a plan that may be in use together, in any order of its
tasks.

Two registers are never in use together if all users of the one come before all first
writers of the other in the same act, and all users of the other before those of the one
in the next act, as far as registers prove it (`lowering/algorithms/marked_graph.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from penstock.lowering.algorithms.marked_graph import MarkedGraph

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Table: TypeAlias = NDArray[np.bool_]
    """A row and a column for each register."""

MOST = 1 << 14
"""
The most registers of which conflicts are known: a table of more takes too much memory.
"""


class Span(NamedTuple):
    """
    The actors that use a register, under any name, and those of them that write before
    any other does.
    """

    users: Sequence[int]
    first_writers: Sequence[int]


def conflicts_of(graph: MarkedGraph, spans: Sequence[Span]) -> Table:
    """
    The conflicts of registers; those of a graph in which a cycle never acts are not
    known.
    """
    import numpy as np

    count = len(spans)
    table = np.zeros((count, count), np.bool_)
    if graph.cycles or not 0 < count <= MOST:
        return table
    position = {actor: i for i, actor in enumerate(graph.order)}
    begins = [min(map(position.__getitem__, span.first_writers)) for span in spans]
    order = sorted(range(count), key=begins.__getitem__)
    found = table_of(unproven(graph, [spans[i] for i in order]))
    table[np.ix_(order, order)] = found | found.T
    return table


def apart(conflicts: Table, lives: Sequence[tuple[int, int]]) -> Table:
    """Those of the pairs that are alive at no common step."""
    import numpy as np

    firsts, lasts = np.array(lives, np.int64).reshape(-1, 2).T
    begun = firsts[:, None] <= lasts[None, :]
    return conflicts & ~(begun & begun.T)


def without_common_bytes(
    conflicts: Table, places: Sequence[tuple[int, int, int]]
) -> Table:
    """
    The pairs that have no byte in common, each at a chunk, a start and an end:
    registers on common bytes use other slots of them in acts that overlap.
    """
    import numpy as np

    chunks, starts, ends = np.array(places, np.int64).reshape(-1, 3).T
    common = (chunks[:, None] == chunks) & (starts[:, None] < ends)
    return conflicts & ~(common & common.T)


def unproven(graph: MarkedGraph, spans: Sequence[Span]) -> list[int]:
    """
    For each span those that are not known to begin after it: the later ones in the same
    act, and the earlier ones in the next.
    """
    marks, extra = marks_of(graph, spans)
    same, later = graph.after(marks), graph.after_up_to_next_act(marks)
    every = (1 << len(spans)) - 1
    found: list[int] = []
    for i, span in enumerate(spans):
        earlier = (1 << i) - 1
        in_act = reached((same[user] for user in span.users), extra)
        in_next = reached((later[user] for user in span.users), extra)
        others = ~in_act & ~earlier | ~in_next & earlier
        found.append(others & every & ~(1 << i))
    return found


def marks_of(
    graph: MarkedGraph, spans: Sequence[Span]
) -> tuple[list[int], list[tuple[int, int]]]:
    """
    Sets that mark each actor with the spans that it writes first; and, for spans with
    several first writers, further bits and their spans.
    """
    marks = [0] * graph.size
    extra: list[tuple[int, int]] = []
    for i, (_, (first, *others)) in enumerate(spans):
        marks[first] |= 1 << i
        for other in others:
            bit = len(spans) + len(extra)
            marks[other] |= 1 << bit
            extra.append((bit, i))
    return marks, extra


def reached(sets: Iterable[int], extra: Sequence[tuple[int, int]]) -> int:
    """The spans all first writers of which are in all of these sets."""
    common = -1
    for each in sets:
        common &= each
    for bit, span in extra:
        if not common >> bit & 1:
            common &= ~(1 << span)
    return common


def table_of(sets: Sequence[int]) -> Table:
    """A row of truths for each set."""
    import numpy as np

    count = len(sets)
    width = -(-count // 8)
    rows = b"".join(each.to_bytes(width, "little") for each in sets)
    table = np.frombuffer(rows, np.uint8).reshape(count, width)
    bits = np.unpackbits(table, axis=1, count=count, bitorder="little")
    return bits.view(np.bool_)
