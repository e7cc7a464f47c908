"""
Runs that Python makes by one call of a compiled function, without code of its own.

Most of the time of a short run is what Python does around it: to check the arrays, to
make those of results, to lock, and to pass an address. A `DirectCall` does all of it in
compiled code, by the C functions of Python. It leaves alone whatever is not usual: then
it calls a function that it was given, or returns None.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import zip_longest
from typing import NamedTuple, TypeAlias, cast

import numpy as np
import numpy.typing as npt

from penstock.runtime.core import direct_layout as d
from penstock.runtime.core.entry_points import address_of_entry, start_words
from penstock.runtime.program.tables import Words

Array: TypeAlias = npt.NDArray[np.generic]


class Input(NamedTuple):
    """An input: what its arrays have to be, and its table."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    table: Words


class Output(NamedTuple):
    """An output: a function and its arguments for a new array, and its table."""

    name: str
    make: Callable[..., Array]
    arguments: tuple[object, ...]
    table: Words


class Runner(NamedTuple):
    """
    The core of runs: the addresses of its table and of its control words, its lock, and
    the function that brings a run to its end that has begun, and empties a list then.
    """

    tables: int
    control: int
    lock: threading.Lock
    go_on: Callable[[list[object]], None]


class Runs(NamedTuple):
    """The facts that compiled code needs to make the runs of a program."""

    runner: Runner
    gate: Words
    """A word that is not 0 while Python has to make all runs."""
    observers: Sequence[object]
    """A list; Python makes all runs while something is in it."""
    lock: threading.Lock
    """The lock that is held in each run, around that of the runner."""
    changing: tuple[int, int]
    """Addresses between which no input may lie, as runs change these bytes."""
    inputs: Sequence[Input]
    outputs: Sequence[Output]


DirectCall: TypeAlias = Callable[..., dict[str, Array] | None]
"""A run for a dictionary of arrays, or for none if arrays are bound."""


def direct_call(runs: Runs) -> DirectCall | None:
    """
    Runs for dictionaries of arrays: each call returns new outputs by name, or None,
    without a run, if something is not usual. None where this Python has other objects.
    """
    return _call(runs, {}, None, None)


def bound_call(
    runs: Runs,
    inputs: Mapping[str, Array],
    outputs: dict[str, Array],
    otherwise: Callable[[], dict[str, Array]],
) -> Callable[[], dict[str, Array]]:
    """
    Runs that read and write the same arrays each time, and return `outputs`; where
    something is not usual, `otherwise` is called.
    """
    # An input and an output may have one name.
    made = _call(runs, inputs, outputs, otherwise)
    return otherwise if made is None else cast("Callable[[], dict[str, Array]]", made)


def _call(
    runs: Runs,
    given: Mapping[str, Array],
    results: dict[str, Array] | None,
    otherwise: object,
) -> DirectCall | None:
    if not _is_layout_known():
        return None
    runner, inputs, outputs = runs.runner, runs.inputs, runs.outputs
    held: list[object] = [None] * (len(inputs) + 1)
    start, address_of_start = start_words(runner.tables)
    bound = [*given.values(), *(results or {}).values()]
    kept: list[object] = [start, runs, held, bound]

    def place_of(thing: object) -> int:
        kept.append(thing)
        return id(thing)

    places = *inputs, *outputs
    words = np.zeros((d.PORTS + d.PORT_BYTES * len(places)) // 8, np.int64)
    words[: len(d.FUNCTIONS)] = [_address_of(name) for name in d.FUNCTIONS]

    def put(at: int, *values: int) -> None:
        words[at // 8 : at // 8 + len(values)] = values

    put(d.CORE, address_of_entry("core"), address_of_start, runner.control)
    put(d.GATE, runs.gate.ctypes.data, id(runs.observers), place_of(otherwise))
    put(d.GO_ON, place_of(runner.go_on), place_of((held,)), id(held))
    put(d.LOCK, place_of(runs.lock.acquire), place_of(runs.lock.release))
    put(d.LOCK_CORE, place_of(runner.lock.acquire), place_of(runner.lock.release))
    put(d.AT_ONCE, place_of((False,)), place_of(()), id(None), id(True))
    put(d.DICT, id(dict), id(np.ndarray), 0 if results is None else place_of(results))
    put(d.FIRST_CHANGING, *runs.changing, len(inputs), len(outputs))
    rows = range(d.PORTS, d.PORTS + d.PORT_BYTES * len(places), d.PORT_BYTES)
    for row, port, array in zip_longest(rows, places, bound):
        put(row + d.NAME, id(port.name), port.table.ctypes.data, id(array))
    for row, x in zip(rows, inputs, strict=False):
        extents = np.array(x.shape, np.int64)
        place_of(extents)
        size = x.dtype.itemsize * int(extents.prod())
        put(row + d.RANK, len(x.shape), extents.ctypes.data, id(x.dtype), size)
    for row, y in zip(rows[len(inputs) :], outputs, strict=True):
        put(row + d.MAKE, id(y.make), id(y.arguments))
    return _function_of((words, *kept))


class _Definition(ctypes.Structure):
    """The definition of a C function for Python: its name, address and calls."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("text", ctypes.c_char_p),
    )


_FAST_CALL = 0x80
"""The flag of functions that get an array of their arguments."""


@cache
def _definition() -> _Definition:
    address = address_of_entry("direct")
    return _Definition(b"run", address, _FAST_CALL, b"Make a run.")


def _function_of(owner: tuple[Words, *tuple[object, ...]]) -> DirectCall:
    """The compiled function as one of Python's, which is given the owner each time."""
    make = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p
    )(("PyCFunction_NewEx", ctypes.pythonapi))
    return make(ctypes.addressof(_definition()), owner, None)


def _address_of(name: str) -> int:
    """The address of a C function of Python."""
    function = cast("Callable[..., object]", getattr(ctypes.pythonapi, name))
    found = ctypes.cast(cast("ctypes.c_void_p", function), ctypes.c_void_p)
    return cast("int", found.value)


@cache
def _is_layout_known() -> bool:
    """Whether objects have the fields that compiled code reads."""
    if sys.implementation.name != "cpython" or not is_locked():
        return False
    probe = np.zeros((3, 5, 7), np.int16)[1:]
    owner, listed = (probe,), [probe, probe]
    seen = [_word(id(probe) + x) for x in (d.HEAD - 8, d.DATA, d.SHAPE, d.DTYPE)]
    wanted = [id(np.ndarray), probe.ctypes.data, seen[2], id(probe.dtype)]
    facts = [_word(id(probe) + d.DIMENSIONS) & 0xFFFFFFFF, _word(seen[2] + 16)]
    return (
        seen == wanted
        and facts == [3, 7]
        and _word(id(probe) + d.FLAGS) & d.CONTIGUOUS == 1
        and _word(id(probe[:, 1:]) + d.FLAGS) & d.CONTIGUOUS == 0
        and _word(id(owner) + d.TUPLE_ITEMS) == id(probe)
        and _word(id(listed) + d.HEAD) == len(listed)
    )


def is_locked() -> bool:
    """Whether one thread of Python runs at a time."""
    ask = cast("Callable[[], bool] | None", getattr(sys, "_is_gil_enabled", None))
    return ask is None or ask()


def _word(address: int) -> int:
    return ctypes.c_int64.from_address(address).value
