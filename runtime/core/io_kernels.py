"""
The kernels where data enters and leaves a program: copies, and Python callbacks.

There are three compiled kernels, whose first argument is the address of a table of
words, which Python prepares before a run:

    feed   [cursor, size, pointer 0, pointer 1, ...], slot    pointer[cursor++] -> slot
    fetch  [cursor, size, pointer 0, pointer 1, ...], slot    slot -> pointer[cursor++]
    copy   [size], source, destination                        source -> destination

Sizes are in bytes. A table needs a pointer for every act until its cursor is set back.
Each copies everything, whatever its part. A slot that lies where the pointer says, as
it is bound (`penstock.runtime.program.io_binding`), needs no copy.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import cast

from penstock.runtime.core.entry_points import address_of_entry
from penstock.runtime.jit.cpu import KernelFunction as KernelFunction

CALLBACK_FAILED = 98
"""The code of a callback that raised an exception."""

KERNEL = "int32(int64, int64, int64)"
"""The compiled type of a kernel, as Numba reads it."""


class Callback:
    """
    A Python callable as a kernel at `address`, for as long as this object lives.

    It is called as `function(args, part, parts)` on a worker's thread and returns the
    code, None for 0. An exception becomes the code CALLBACK_FAILED and is kept for
    `take_error`. When actors go back to before their first acts, as after a run that
    failed, `on_reset` is called, if there is one.
    """

    def __init__(self, function: Callable[[int, int, int], int | None]):
        self._function = function
        self.on_reset: Callable[[], None] | None = None
        self._error: BaseException | None = None
        self._entry = KernelFunction(self._call)
        self.address = cast(int, ctypes.cast(self._entry, ctypes.c_void_p).value)

    def _call(self, args: int, part: int, parts: int) -> int:
        # An exception that leaves a ctypes callback is printed and lost.
        try:
            return ctypes.c_int32(self._function(args, part, parts) or 0).value
        except BaseException as error:
            self._error = error
            return CALLBACK_FAILED

    def take_error(self) -> BaseException | None:
        """The last exception that was raised since the last call of this."""
        error, self._error = self._error, None
        return error


# Functions, as at the first start in an environment kernels have to be compiled.


def feed_kernel() -> int:
    """The address of the kernel `feed`."""
    return address_of_entry("feed")


def fetch_kernel() -> int:
    """The address of the kernel `fetch`."""
    return address_of_entry("fetch")


def copy_kernel() -> int:
    """The address of the kernel `copy`."""
    return address_of_entry("copy")
