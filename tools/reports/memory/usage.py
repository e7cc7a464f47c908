"""
The bytes in use at each step.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.lowering.algorithms.occupancy import Occupancy
from penstock.tools.reports.memory.counting import Counting, Tree, names_of
from penstock.tools.reports.memory.model import OWNERS, Usage


def usage_of(
    counting: Counting, trees: Sequence[Tree], size: int, alignment: int
) -> Usage:
    """
    The usage of some registers that have `size` bytes in all.

    An interface counts once, however many jobs know it.
    """
    trees = [tree for tree in trees if tree.is_counted]
    occupancy = Occupancy([(*counting.life(tree), tree.bytes) for tree in trees])
    bound = counting.liveness.bound(tree.root for tree in trees)
    owners = [trees[index] for index in occupancy.owners[:OWNERS]]
    return Usage(
        size,
        side_by_side([tree.bytes for tree in trees], alignment),
        bound,
        round(size / bound, 6) if bound else None,
        occupancy.of_steps(range(max(1, len(counting.tasks)))),
        occupancy.peak if counting.tasks else None,
        names_of(owners),
    )


def side_by_side(sizes: Sequence[int], alignment: int) -> int:
    """The bytes from the first to the last of registers that share none."""
    padded = [-(-size // alignment) * alignment for size in sizes]
    # The smallest one lies last, where nothing has to be aligned behind it.
    least = min(sizes, default=0)
    return sum(padded) - min(padded, default=0) + least
