"""
Arrays of kernels in Numba's simulator, whose indices are checked at both ends: buffers,
and the arrays that threads have for themselves or share in a block.
"""

# numba.cuda carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportMissingTypeStubs=false
# pyright: reportUntypedBaseClass=false, reportOptionalMemberAccess=false

from __future__ import annotations

import inspect
from collections.abc import Generator
from contextlib import contextmanager

from numba.cuda.simulator import kernel
from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray
from numba.cuda.simulator.kernelapi import (
    FakeCUDALocal,
    FakeCUDAModule,
    FakeCUDAShared,
)


class CheckedArray(FakeCUDAArray):
    """
    A flat array. An index below zero, which NumPy would count from the end, is an
    IndexError like one past the end.
    """

    def __getitem__(self, idx):
        return super().__getitem__(self._checked(idx))

    def __setitem__(self, idx, val):
        super().__setitem__(self._checked(idx), val)

    def _checked(self, idx):
        if not 0 <= idx < self._ary.size:
            raise IndexError(f"an index is outside of {self._ary.size} elements: {idx}")
        return idx


class _Local:
    """The arrays of one thread."""

    def array(self, shape, dtype):
        return CheckedArray(FakeCUDALocal().array(shape, dtype))


class _Shared:
    """The arrays of a block: all threads that come to a line have one."""

    def __init__(self, dynamic_bytes):
        self._dynamic = FakeCUDAShared(dynamic_bytes)
        self._of_line = {}

    def array(self, shape, dtype):
        if shape == 0:
            return CheckedArray(self._dynamic.array(0, dtype))
        # Numba knows lines by who calls its method, which would be this one.
        caller = inspect.currentframe().f_back
        line = caller.f_code.co_filename, caller.f_lineno
        if line not in self._of_line:
            self._of_line.setdefault(line, _Local().array(shape, dtype))
        return self._of_line[line]


class _CheckedModule(FakeCUDAModule):
    """The stand-in for `cuda` in kernels while they run."""

    def __init__(self, grid_dim, block_dim, dynshared_size):
        super().__init__(grid_dim, block_dim, dynshared_size)
        self._local, self._shared = _Local(), _Shared(dynshared_size)


MODULE = "FakeCUDAModule"
"""The simulator's name of the class that it makes for a kernel."""


@contextmanager
def checked_arrays() -> Generator[None]:
    """Let the arrays that kernels make be checked; one kernel runs at a time."""
    usual = getattr(kernel, MODULE)
    setattr(kernel, MODULE, _CheckedModule)
    try:
        yield
    finally:
        setattr(kernel, MODULE, usual)
