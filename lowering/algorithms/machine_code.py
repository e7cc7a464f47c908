"""
Where compiled passes keep machine code, which only those know who run passes.

Numba would write it beside the modules, into the folder that the package is installed
into. Unless the tools say how it is kept, each process compiles what it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Keeper: TypeAlias = Callable[[object], None]
"""Is given a function of Numba's that is not compiled yet."""

_keepers: list[Keeper] = []


def keep_machine_code_with(keeper: Keeper) -> None:
    """Let each function that a pass compiles from now on be given to a keeper."""
    _keepers[:] = [keeper]


def keep_machine_code_of(function: object) -> None:
    """Give a function to the keeper, if there is one."""
    for keeper in _keepers:
        keeper(function)
