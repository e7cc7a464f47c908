"""
A hook by which tools put the compiled functions of passes into a machine-code cache.

Numba's own cache would lie beside the modules, in the folder that the package is
installed into. `penstock.tools.universe` sets the hook to Penstock's cache folder, and
the decorator of compiled packing functions calls it. Without a hook, each process
compiles the functions it needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Keeper: TypeAlias = Callable[[object], None]
"""Is given a function of Numba's that is not compiled yet."""

_keepers: list[Keeper] = []


def keep_machine_code_with(keeper: Keeper) -> None:
    """
    Set the hook, in place of any other; functions compiled before are not given to it.
    """
    _keepers[:] = [keeper]


def keep_machine_code_of(function: object) -> None:
    """Give a function to the hook, if there is one."""
    for keeper in _keepers:
        keeper(function)
