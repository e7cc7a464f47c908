"""
The layouts that packing algorithms give the registers of a block, beside its own.

A block is packed anew with the lifetimes of its registers, and the pairs that may be in
use together at other steps. The order of tasks is that of the plan as it is, with the
control registers of its planner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.lowering.algorithms.packing import (
    Lifetime,
    PackingError,
    Problem,
    pack,
    packer_of,
    packing_names,
)
from penstock.lowering.algorithms.packing.greedy import RULES
from penstock.tools.driver.errors import FileError, UsageError
from penstock.tools.reports.memory.conflicts import apart
from penstock.tools.reports.memory.counting import Counting, Tree, names_of
from penstock.tools.reports.memory.model import Packing

ALL, NONE = "all", "none"
"""The words for all algorithms that there are, and for none."""

DEFAULT = tuple(sorted(RULES))
"""The algorithms that load no compiled code."""


class PlannerLayout(NamedTuple):
    """The layout of a block by an algorithm: offsets by the names of registers."""

    planner: str
    size: int
    offsets: dict[str, int]


def planners_of(text: str) -> list[str]:
    """
    The algorithms that a list names, which may be `all` or `none`.

    Raises UsageError if there is no such algorithm.
    """
    if text in (ALL, NONE):
        return packing_names() if text == ALL else []
    names = list(dict.fromkeys(name.strip() for name in text.split(",")))
    for name in names:
        try:
            packer_of(name)
        except PackingError as error:
            raise UsageError(f"--planners: {error}") from error
    return names


def packing_of(
    counting: Counting, trees: Sequence[Tree], alignment: int
) -> Packing | None:
    """
    The registers of a block as a packing problem. None if one of them is in use all the
    time, or if they are of several jobs: such blocks are laid side by side.
    """
    trees = [tree for tree in trees if tree.bytes]
    groups = {tree.group for tree in trees}
    if len(groups) != 1 or any(tree.always for tree in trees):
        return None
    (group,) = groups
    rows = [counting.index[tree] for tree in trees]
    conflicts = counting.conflicts[group][rows][:, rows]
    lives = [counting.life(tree) for tree in trees]
    pairs = apart(conflicts, lives).nonzero()
    further = [(int(i), int(j)) for i, j in zip(*pairs, strict=True) if i < j]
    lifetimes = [
        Lifetime(*life, tree.bytes) for life, tree in zip(lives, trees, strict=True)
    ]
    return Packing(names_of(trees), Problem(lifetimes, alignment, further))


def layouts_of(packing: Packing, planners: Sequence[str]) -> list[PlannerLayout]:
    """
    The layouts by some algorithms, in their order.

    Raises FileError if one fails.
    """
    return [layout_by(planner, packing) for planner in planners]


def layout_by(planner: str, packing: Packing) -> PlannerLayout:
    """The layout by an algorithm. Raises FileError if it fails."""
    try:
        offsets = pack(packing.problem, planner)
    except PackingError as error:
        raise FileError(f"--planners: {error}") from error
    places = dict(zip(packing.names, offsets, strict=True))
    return PlannerLayout(planner, packing.problem.peak(offsets), places)
