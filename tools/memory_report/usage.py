"""How full memory is at each step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from itertools import accumulate

from penstock.tools.memory_report.conflicts import clique_bytes
from penstock.tools.memory_report.counting import Counting, Group, Tree, names_of
from penstock.tools.memory_report.model import OWNERS, Usage


def usage_of(
    counting: Counting, trees: Sequence[Tree], size: int, alignment: int
) -> Usage:
    """
    The bytes of some registers that have `size` bytes in all. An interface counts once,
    however many jobs know it.
    """
    trees = [tree for tree in trees if tree.is_counted]
    live = live_bytes(counting, trees)
    peak = live.index(max(live))
    bound = bound_of(counting, trees)
    alive = [tree for tree in trees if counting.lives_at(tree, peak)]
    alive.sort(key=lambda tree: -tree.bytes)
    return Usage(
        size,
        side_by_side([tree.bytes for tree in trees], alignment),
        bound,
        round(size / bound, 6) if bound else None,
        live,
        peak if counting.tasks else None,
        names_of(alive[:OWNERS]),
    )


def live_bytes(counting: Counting, trees: Sequence[Tree]) -> list[int]:
    """The bytes alive at each step."""
    change = [0] * (max(1, len(counting.tasks)) + 1)
    for tree in trees:
        first, last = counting.life(tree)
        change[first] += tree.bytes
        change[last + 1] -= tree.bytes
    return list(accumulate(change[:-1]))


def bound_of(counting: Counting, trees: Sequence[Tree]) -> int:
    """
    What no layout can do without: what lasts, and the most that each job has in use at
    once, or of jobs that exclude each other the one that has most.
    """
    parts: dict[str | None, list[Tree]] = defaultdict(list)
    for tree in trees:
        if tree.lasts is None:
            parts[tree.job].append(tree)
    most: dict[str | None, int] = defaultdict(int)
    first_of = {
        job: group[0] for group in counting.plan.exclusive_jobs for job in group
    }
    for job, members in parts.items():
        party = None if job is None else first_of.get(job, job)
        most[party] = max(most[party], most_at_once(counting, members))
    lasting = sum(tree.bytes for tree in trees if tree.lasts is not None)
    return lasting + sum(most.values())


def most_at_once(counting: Counting, trees: Sequence[Tree]) -> int:
    """The most bytes of one job's registers that may be in use at once, as is known."""
    most = max(live_bytes(counting, trees))
    memories: dict[Group, list[Tree]] = defaultdict(list)
    for tree in trees:
        if tree.bytes:
            memories[tree.group].append(tree)
    if len(memories) != 1 or not any(tree.rivals for tree in trees):
        return most
    ((group, members),) = memories.items()
    rows = [counting.index[tree] for tree in members]
    table = counting.conflicts[group][rows][:, rows]
    return max(most, clique_bytes(table, [tree.bytes for tree in members]))


def side_by_side(sizes: Sequence[int], alignment: int) -> int:
    """The bytes from the first to the last of things that share none."""
    padded = [-(-size // alignment) * alignment for size in sizes]
    # The smallest one lies last, where nothing has to be aligned behind it.
    least = min(sizes, default=0)
    return sum(padded) - min(padded, default=0) + least
