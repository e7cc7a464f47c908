"""
The work of a function as a number of steps: the same on each machine, beside any load.

A step is a line of Python that is executed, in a loop once a turn, or a call of a
function of C. Loops within C are one step: a search of a list, a copy of a slice, an
operation on an array or on a long integer, and compiled code.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


def steps_of(function: Callable[..., object], *arguments: Any) -> int:
    """The steps of a call, in this thread."""
    steps = 0

    def count_lines(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal steps
        steps += event == "line"
        return count_lines

    def count_calls(frame: FrameType, event: str, argument: object) -> None:
        nonlocal steps
        steps += event == "c_call"

    # Programs that measure coverage trace as well.
    before = sys.gettrace(), sys.getprofile()
    sys.settrace(count_lines)
    sys.setprofile(count_calls)
    try:
        function(*arguments)
    finally:
        sys.setprofile(before[1])
        sys.settrace(before[0])
    return steps


def growth_of(prepare: Callable[[int], Callable[[], object]], size: int) -> float:
    """
    The steps for a problem of ten times the size, over those for the size: about 10 if
    the work is linear, 100 if it is quadratic. `prepare` makes the problem, and returns
    the function that solves it.
    """
    # The first call imports modules and fills caches.
    prepare(size)()
    return steps_of(prepare(10 * size)) / steps_of(prepare(size))


LINEAR = 15
"""The most that `growth_of` may be of work that is linear, up to a logarithm."""
