"""
All acts of an iteration, where actors act at different rates, and their order.

In its n-th act a reader, with some acts for a piece, needs the piece of this act. It is
there after as many acts of the writer as that and all earlier pieces take, less those
that were there at the start. A writer needs the slot that readers of an earlier piece
have left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from penstock.lowering.algorithms.marked_graph import Edge


class Unrolled:
    """The acts of actors by number: those of the first actor, then of the second..."""

    def __init__(self, repetitions: Sequence[int]) -> None:
        self.repetitions = repetitions
        """The number of acts of each actor in an iteration."""
        *self.first, self.size = accumulate(repetitions, initial=0)

    def acts_for(self, actor: int, piece: int, count: int) -> range:
        """The acts of an actor for one of so many pieces in an iteration."""
        length = self.repetitions[actor] // count
        first = self.first[actor] + piece * length
        return range(first, first + length)

    def own_edges(self) -> Iterator[Edge]:
        """That each actor acts in order."""
        for first, count in zip(self.first, self.repetitions, strict=True):
            last = first + count - 1
            yield from (Edge(act, act + 1, 0) for act in range(first, last))
            if count > 1:
                yield Edge(last, first, 1)

    def edges(
        self, writer: int, reader: int, pieces: int, full: int, free: int
    ) -> Iterator[Edge]:
        """That two actors wait for each other's pieces, of which some are there."""

        def made(piece: int) -> range:
            return self.acts_for(writer, piece, pieces)

        def used(piece: int) -> range:
            return self.acts_for(reader, piece, pieces)

        return edges_between(made, used, pieces, full, free)


def edges_between(
    made: Callable[[int], range],
    used: Callable[[int], range],
    pieces: int,
    full: int,
    free: int,
) -> Iterator[Edge]:
    """
    That two actors wait for each other's pieces, of which some are there, given the
    acts of each of them for each piece of an iteration.
    """
    for piece in range(pieces):
        # The n-th that is read is the (n - full)-th that is written.
        later, source = divmod(piece - full, pieces)
        yield Edge(made(source)[-1], used(piece)[0], -later)
        later, target = divmod(piece + free, pieces)
        yield Edge(used(piece)[-1], made(target)[0], later)
