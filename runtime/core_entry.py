"""The compiled core as one C function, and the edges: what `entries` compiles."""

# Most of numba carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from numba import cfunc, types

from penstock.runtime.edge_kernels import copy, feed, fetch
from penstock.runtime.state import STATE_OFFSET, layout_at, state_at
from penstock.runtime.workers import (
    attend,
    begin,
    halt,
    leave_all_seats,
    take_all_seats,
    take_part,
    tending,
)

KERNEL = types.int32(types.int64, types.int64, types.int64)
_CORE = types.int64(types.int64, types.int64, types.int64, types.int64)


def core(verb: int, tables: int, first: int, second: int) -> int:
    """Do what `penstock.runtime.entries` has a function for, by its number there."""
    if verb == 0:
        attend(tables, first)
    elif verb == 1:
        begin(tables, first, second != 0)
    elif verb == 2:
        return int(take_part(tables, first, second))
    elif verb == 3:
        halt(tables, first)
    elif verb == 4:
        return int(take_all_seats(tables))
    elif verb == 5:
        leave_all_seats(tables)
    return 0


def make_recorder() -> Callable[[int, int, int], int]:
    """What threads do instead of `tend` where acts are recorded."""
    tend = tending(True)

    def recorder(tables: int, worker: int, deadline: int) -> int:
        layout, state = layout_at(tables), state_at(tables + STATE_OFFSET)
        return 1 if tend(worker, layout, state, deadline) else 0

    return recorder


def compile_entry(name: str) -> object:
    """
    Compile `core`, `recorder`, `feed`, `fetch` or `copy` to a C function of that name.
    """
    if name == "recorder":
        return _compile(make_recorder(), KERNEL)
    functions: dict[str, tuple[Callable[..., int], object]] = {
        "core": (core, _CORE),
        "feed": (feed, KERNEL),
        "fetch": (fetch, KERNEL),
        "copy": (copy, KERNEL),
    }
    function, signature = functions[name]
    return _compile(function, signature)


def _compile(function: Callable[..., int], signature: object) -> object:
    decorate = cast("Callable[..., Callable[[object], object]]", cfunc)
    return decorate(signature, error_model="numpy", _nrt=False)(function)
