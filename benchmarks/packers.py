"""The packers of buffers: our algorithms one by one, and a peer if it is installed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from penstock.lowering.algorithms.packing import Budget, Lifetime, Problem, pack
from penstock.lowering.algorithms.packing.registry import finding_about

RULES = {
    "size": "size-first",
    "lifetime": "lifetime-first",
    "volume": "volume-first",
    "conflicts": "mutual-exclusion-first",
    "time line": "time-line",
    "IREE": "best-fit",
    "NNFusion": "first-fit-time",
    "insert": "compact-insert",
}
"""
The algorithms without a budget, by their columns. OneFlow's are `size`, which it takes
by default, `lifetime`, `volume`, `conflicts` and `time line`.
"""

LOCAL_SECONDS = 1.0
"""The budget of the local search."""

PEER = "omnimalloc"


@dataclass(frozen=True)
class Result:
    """The height of a layout, and the seconds it took."""

    peak: int
    seconds: float


def warm_up() -> None:
    """Load, or compile once an installation, what searches need."""
    small = Problem([Lifetime(i, i + i % 3, 1 + i % 5) for i in range(30)])
    for name in ("branch-and-bound", "local-search", "compact-insert", "best"):
        pack(small, name, Budget(steps=10_000))


def timed(problem: Problem, run: Callable[[], Sequence[int]]) -> Result:
    """Lay a problem out, and check the layout. Raises ValueError if it is none."""
    start = time.perf_counter()
    offsets = run()
    seconds = time.perf_counter() - start
    if finding := finding_about(problem, offsets):
        raise ValueError(f"no layout: {finding}")
    return Result(problem.peak(offsets), seconds)


def packed(problem: Problem, name: str, budget: Budget | None = None) -> Result:
    """The result of one algorithm on a problem, within a budget or the default one."""
    return timed(problem, lambda: pack(problem, name, budget))


def others(problem: Problem, seconds: float) -> dict[str, Result]:
    """
    The result of each single algorithm on a problem, and of a peer in so many seconds.
    """
    found = {column: packed(problem, name) for column, name in RULES.items()}
    local = Budget(seconds=min(seconds, LOCAL_SECONDS))
    found["local"] = packed(problem, "local-search", local)
    if peer := installed_peer(seconds):
        found[PEER] = timed(problem, lambda: peer(problem))
    return found


def installed_peer(seconds: float) -> Callable[[Problem], list[int]] | None:
    """The best allocator of omnimalloc on one thread; None if it is not installed."""
    try:
        # It says nothing of its types.
        library: Any = import_module(PEER)
        allocators: Any = import_module(f"{PEER}.allocators.supermalloc")
    except ImportError:
        return None
    library.set_max_threads(1)
    allocator = allocators.SupermallocAllocator(timeout=seconds)

    def run(problem: Problem) -> list[int]:
        buffers = [
            library.Allocation(id=i, size=stride, start=life.first, end=life.last + 1)
            for i, (life, stride) in enumerate(
                zip(problem.lifetimes, problem.strides, strict=True)
            )
        ]
        placed = library.allocate(buffers, allocator=allocator)
        offsets = {allocation.id: allocation.offset for allocation in placed}
        return [int(offsets[i]) for i in range(len(buffers))]

    return run
