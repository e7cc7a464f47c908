"""
Members of waves: functions that the kernel of a CPU calls, one after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Function = TypeVar("Function", bound=Callable[..., int])


def member(function: Function) -> Function:
    """
    Say of a function of arguments, part and parts that kernels call it. Buffers are
    known not to touch each other by their numbers, which other members have too: so
    those of all should be such that this holds.
    """
    return function
