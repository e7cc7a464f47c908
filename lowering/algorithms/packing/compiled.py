"""
The types and the decorators of search functions: Python first, machine code later.

Most searches end after some hundred steps, but to compile the functions takes seconds,
and to load them a third of one. So they run as Python, on rows that are objects, until
`use_machine_code` is called, and then in this process by Numba.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any, Generic, ParamSpec, Protocol, TypeAlias, TypeVar, cast, overload

import numpy as np
from numpy.typing import NDArray

from penstock.lowering.algorithms.machine_code import keep_machine_code_of

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

Ints: TypeAlias = NDArray[np.int64]
Rows: TypeAlias = NDArray[np.void]
"""A table of `table_of` as an array of rows."""

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


class SearchFunction(Generic[P, R]):
    """A function of tables that programs call, with the same result in both ways."""

    def __init__(self, function: Callable[P, R]):
        self.plain = function
        self.machine_code: Callable[P, R] | None = None
        """Numba's function, which is compiled when it is called, if it is to be."""

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.machine_code is not None:
            return self.machine_code(*args, **kwargs)
        rows: list[tuple[Rows, list[SimpleNamespace]]] = []
        plain: Any = self.plain
        named = {name: _with_objects(each, rows) for name, each in kwargs.items()}
        result: R = plain(*(_with_objects(each, rows) for each in args), **named)
        for table, objects in rows:
            for name in table.dtype.names or ():
                table[name] = [getattr(each, name) for each in objects]
        return result


def _with_objects(value: Any, rows: list[tuple[Rows, list[SimpleNamespace]]]) -> Any:
    """An argument with lists of objects in place of tables, both of which are noted."""
    if isinstance(value, np.ndarray):
        table = cast("Rows", value)
        if not (names := table.dtype.names):
            return table
        columns: list[list[int]] = [table[name].tolist() for name in names]
        objects = [
            SimpleNamespace(**dict(zip(names, line, strict=True)))
            for line in zip(*columns, strict=True)
        ]
        rows.append((table, objects))
        return objects
    if isinstance(value, tuple):
        fields = cast("tuple[object, ...]", value)
        return type(fields)(*(_with_objects(each, rows) for each in fields))
    return value


_functions: list[SearchFunction[..., Any]] = []
_inner: list[Callable[..., object]] = []


def compiled(function: Callable[P, R]) -> SearchFunction[P, R]:
    """A function of tables that programs call."""
    made = SearchFunction(function)
    _functions.append(made)
    return made


def inner(function: Callable[P, R]) -> Callable[P, R]:
    """A function that only others of searches call."""
    _inner.append(function)
    return function


@cache
def use_machine_code() -> None:
    """
    Let Numba compile each function at its next call, once for all processes. Imports
    Numba.
    """
    from numba import njit
    from numba.extending import register_jitable

    decorate = cast("Callable[..., Callable[..., Any]]", njit)
    # Without a way to call them from elsewhere, they take half the time.
    options = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    for function in _inner:
        cast("Callable[..., Any]", register_jitable)(**options)(function)
    for each in _functions:
        each.machine_code = decorate(nogil=True)(each.plain)
        keep_machine_code_of(each.machine_code)
