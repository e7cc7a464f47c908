"""
The types and the decorator of compiled packing functions.

Importing this module imports Numba.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ParamSpec, Protocol, TypeAlias, TypeVar, cast, overload

import numpy as np
from numba import njit
from numpy.typing import NDArray

from penstock.lowering.algorithms.machine_code import keep_machine_code_of

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

Ints: TypeAlias = NDArray[np.int64]

INFINITE = 1 << 60
NONE = -1


class Numbers(Protocol):
    """The interface of an array of integers, as far as it is used."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[int]: ...
    @overload
    def __getitem__(self, index: int, /) -> int: ...
    @overload
    def __getitem__(self, index: slice, /) -> Numbers: ...
    @overload
    def __setitem__(self, index: int, value: int, /) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Numbers, /) -> None: ...


def numbers_of(array: NDArray[np.integer]) -> Numbers:
    """An array as the searches see it."""
    return cast("Numbers", array)


def table_of(row: type[T], count: int) -> Sequence[T]:
    """An array of rows with the fields of a class, all 0."""
    fields = [(name, np.int64) for name in row.__annotations__]
    return cast("Sequence[T]", np.zeros(count, fields))


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function when it is first called, once for all processes."""
    decorate = cast("Callable[..., Callable[[Callable[P, R]], Callable[P, R]]]", njit)
    made = decorate(nogil=True)(function)
    keep_machine_code_of(made)
    return made


def inner(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that only compiled ones call, which takes half the time."""
    decorate = cast("Callable[..., Callable[[Callable[P, R]], Callable[P, R]]]", njit)
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return decorate(**options)(function)
