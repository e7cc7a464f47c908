"""Packing algorithms of a user."""

from penstock.lowering.algorithms.packing import Budget, Problem, register_packing
from penstock.lowering.algorithms.packing.problem import side_by_side


def stacked(problem: Problem, budget: Budget) -> list[int]:
    """All side by side."""
    return side_by_side(problem.sizes, problem.alignment)


def flat(problem: Problem, budget: Budget) -> list[int]:
    """All at one place, which is wrong."""
    return [0] * len(problem.sizes)


register_packing("stacked", stacked)
register_packing("flat", flat)


def broken(problem: Problem, budget: Budget) -> list[int]:
    """Fails."""
    raise ValueError("no")


register_packing("broken", broken)
