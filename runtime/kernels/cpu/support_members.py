"""
Members of waves: functions that the kernel of a CPU calls, one after the other.
"""

# Numba carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit

Function = TypeVar("Function", bound=Callable[..., int])


def member(function: Function) -> Function:
    """
    A function of arguments, part and parts as code that kernels call. Buffers are known
    not to touch each other by their numbers, which other members have too: so those of
    all should be such that this holds.
    """
    decorate = cast("Callable[..., Callable[[Function], Function]]", njit)
    return decorate(
        error_model="numpy", no_cpython_wrapper=True, no_cfunc_wrapper=True
    )(function)
