"""
The numbers of a source that are arguments of the kernel: extents, strides and offsets.

Each has a name by its role, not by its value, so that kernels that differ in numbers
alone have the same text. `loops_in_code` says of which loops a stage has the numbers in
the code.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence

from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Operation

from penstock.dialects.kernel.interface import SCHEDULE, StructuredOp
from penstock.dialects.launch.schedules.schedule import ScheduleAttr

LEAST = 16
"""
The least number that is an argument. LLVM unrolls loops of fewer turns, and computes
places by smaller factors in fewer instructions.
"""

WHOLE = 64
"""The elements of a whole number of turns of a vectorized loop on any processor."""

LEAST_LINE, LEAST_FOLDED = 128, 1024
"""
The least extents of vectorized loops that are arguments, without folds and with them.
Shorter ones lose up to 45 % of time, these 4 % at most.
"""

LONG = 1024
"""The least elements of a loop whose last vectors do not count."""


def loops_in_code(stage: Operation) -> Collection[int]:
    """
    The loops whose extents, and strides as large, are in the code of a stage: those
    that its op or its schedule says. Numbers of others may be arguments.
    """
    schedule = stage.attributes.get(SCHEDULE)
    found = {*stage.loops_in_code()} if isinstance(stage, StructuredOp) else set[int]()
    if not isinstance(schedule, ScheduleAttr):
        return found
    return found.union(schedule.loops_in_code(loop_count(stage)))


def loop_count(stage: Operation) -> int:
    """The number of the loops of a stage that maps are of."""
    match stage:
        case StructuredOp():
            return stage.maps()[0].num_dims
        case GenericOp():
            return len(stage.iterator_types)
        case _:
            return 0


def is_all_in_code(op: StructuredOp) -> bool:
    """Whether all numbers of an op are in the code, whatever its schedule."""
    return len(op.loops_in_code()) == loop_count(op)


class Numbers:
    """The numbers that are arguments, in the order of first use."""

    def __init__(self) -> None:
        self._names: dict[tuple[Hashable, ...], str] = {}
        self._values: list[int] = []

    @property
    def values(self) -> Sequence[int]:
        """The numbers."""
        return self._values

    @property
    def names(self) -> Sequence[str]:
        """The names of the numbers."""
        return [f"n{number}" for number in range(len(self._values))]

    def name(self, value: int, *role: Hashable) -> str:
        """The name of a number in a role."""
        key = value, *role
        if key not in self._names:
            self._names[key] = f"n{len(self._values)}"
            self._values.append(value)
        return self._names[key]


def is_digits(text: str) -> bool:
    """Whether the text of a number is in digits, not the name of an argument."""
    return text.lstrip("-").isdigit()
