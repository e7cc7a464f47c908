"""
Memory planners by name: ours, and plug-ins of the kind `memory-planner`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from inspect import currentframe
from typing import TypeAlias

from penstock.lowering.algorithms.packing.budget import Budget
from penstock.lowering.algorithms.packing.greedy import (
    RULES,
    Rule,
    by_fullest_step,
    by_last_and_size,
    by_size,
    conflict_counts,
    fewest_or_most_conflicts,
)
from penstock.lowering.algorithms.packing.problem import Problem
from penstock.plugins import PluginError, names_of, plugin_of, registering

LIMIT = 2**62
"""Bytes: no chunk is larger."""

Packer: TypeAlias = Callable[[Problem, Budget], Sequence[int]]
"""Gives each buffer of a problem an offset."""

DEFAULT_STEPS = 50_000_000
"""The budget of a search where nothing is said: about 0.2 s, and always the same."""

NEXT_ORDERS = by_fullest_step, by_last_and_size
"""
The rules that are tried where the largest first is not low enough, before any code is
loaded: these reach the bound for 9 of the 18 training graphs for which it is not.
"""

MAX_CONFLICTS = 1 << 26
"""With more pairs of buffers in conflict, only rules are used: the others list them."""


PackingError = PluginError
"""The name of the interface 0.1 for this error."""


################################################################################
# Algorithms                                                                   #
################################################################################


def by_rule(rule: Callable[[Problem], list[int]]) -> Packer:
    """A rule as an algorithm: it needs no budget."""

    def packer(problem: Problem, budget: Budget) -> list[int]:
        return rule(problem)

    about: object = rule.order if isinstance(rule, Rule) else rule
    packer.__doc__ = getattr(about, "__doc__", None)
    return packer


def is_too_large(problem: Problem) -> bool:
    """Whether the conflicts of a problem cannot be listed."""
    return sum(conflict_counts(problem)) > MAX_CONFLICTS


def compact_insert(problem: Problem, budget: Budget) -> list[int]:
    """The best rule, then buffers at its top inserted where they are lower."""
    if is_too_large(problem):
        return RULES["size-first"](problem)
    from penstock.lowering.algorithms.packing import portfolio

    return portfolio.compact_insert(problem, budget)


def local_search(problem: Problem, budget: Budget) -> list[int]:
    """The best rule, then other orders near to it, chance by a fixed seed."""
    if is_too_large(problem):
        return RULES["size-first"](problem)
    with budget.clock_stopped():
        from penstock.lowering.algorithms.packing import portfolio

        portfolio.warm_up_local_search()
    return portfolio.local_search(problem, budget)


def branch_and_bound(problem: Problem, budget: Budget) -> list[int]:
    """The search of `branch_and_bound`, from the layout of `size-first`."""
    return improved(problem, budget, rules=False)


def best(problem: Problem, budget: Budget) -> list[int]:
    """All rules, then branch and bound."""
    return improved(problem, budget, rules=True)


def improved(problem: Problem, budget: Budget, *, rules: bool) -> list[int]:
    """A layout by a rule, which is improved if it is not low enough."""
    # Most layouts are as low as they can be, so that no search need be loaded.
    offsets = Rule(by_size, "first")(problem)
    enough = max(problem.bound, budget.capacity or 0)
    if problem.peak(offsets) <= enough:
        return offsets
    is_large = is_too_large(problem)
    for order in NEXT_ORDERS if rules or is_large else ():
        offsets = min(offsets, Rule(order, "first")(problem), key=problem.peak)
        if problem.peak(offsets) <= enough or budget.is_over:
            return offsets
    if is_large:
        return offsets
    from penstock.lowering.algorithms.packing import portfolio

    return portfolio.improve(problem, offsets, budget, rules=rules)


BUILT_IN: dict[str, Packer] = {
    "best": best,
    "branch-and-bound": branch_and_bound,
    "compact-insert": compact_insert,
    "local-search": local_search,
    "mutual-exclusion-first": by_rule(fewest_or_most_conflicts),
    **{name: by_rule(rule) for name, rule in RULES.items()},
}

################################################################################
# Plug-ins                                                                     #
################################################################################

KIND = "memory-planner"


def register_packing(name: str, packer: Packer) -> None:
    """
    Add an algorithm, as plug-ins of the interface 0.1 do: `penstock.plugins.register`
    says what is wrong with one, too.
    """
    here = currentframe()
    registering(KIND, name, None if here is None else here.f_back)(packer)


def packing_names() -> list[str]:
    """The names of all algorithms, in alphabetical order."""
    return sorted({*BUILT_IN, *names_of(KIND)})


def packer_of(name: str) -> Packer:
    """
    The algorithm of a name; our own come before those of plug-ins.

    Raises `PluginError` if there is none, or if it cannot be loaded.
    """
    if name in BUILT_IN:
        return BUILT_IN[name]
    plugin = plugin_of(KIND, name)

    def packer(problem: Problem, budget: Budget) -> list[int]:
        offsets = plugin.integers(plugin.call(problem, budget))
        if finding := finding_about(problem, offsets):
            plugin.refuse(finding)
        return offsets

    return packer


################################################################################
# Packing                                                                      #
################################################################################


def pack(
    problem: Problem, algorithm: str = "best", budget: Budget | None = None
) -> list[int]:
    """
    One offset for each buffer, by the algorithm of a name.

    Without a budget a search takes `DEFAULT_STEPS`. Raises `PluginError` if there is
    no such algorithm, or if a plug-in fails or what it returns is no layout.
    """
    packer = packer_of(algorithm)
    return list(packer(problem, budget or Budget(steps=DEFAULT_STEPS)))


def finding_about(problem: Problem, offsets: Sequence[int]) -> str | None:
    """The defect of a layout; None if it is valid."""
    if len(offsets) != len(problem.sizes):
        return f"returns {len(offsets)} offsets for {len(problem.sizes)} buffers"
    for number, offset in enumerate(offsets):
        if offset < 0 or offset % problem.alignment:
            return (
                f"puts buffer {number} at {offset}, "
                f"no multiple of {problem.alignment} from 0 on"
            )
        if offset >= LIMIT:
            return f"puts buffer {number} at {offset}, past the largest chunk"
    if pair := first_overlap(problem, offsets):
        return f"puts buffers {pair[0]} and {pair[1]} on common bytes"
    return None


def first_overlap(problem: Problem, offsets: Sequence[int]) -> tuple[int, int] | None:
    """Two buffers that conflict and share bytes."""
    import numpy as np

    starts = np.array(offsets, np.int64)
    first, last, size = np.array(problem.lifetimes, np.int64).reshape(-1, 3).T
    ends = starts + size
    for i in np.flatnonzero(size):
        shared = (first <= last[i]) & (first[i] <= last)
        shared &= (starts < ends[i]) & (starts[i] < ends) & (size > 0)
        shared[i] = False
        if shared.any():
            return int(i), int(np.argmax(shared))
    for i, j in problem.further_conflicts:
        if size[i] and size[j] and starts[i] < ends[j] and starts[j] < ends[i]:
            return i, j
    return None
