"""Buffers of kernels in Numba's simulator, whose indices are checked at both ends."""

# numba.cuda carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportMissingParameterType=false, reportMissingTypeStubs=false
# pyright: reportUntypedBaseClass=false

from __future__ import annotations

from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray


class CheckedArray(FakeCUDAArray):
    """
    A flat buffer. An index below zero, which NumPy would count from the end, is an
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
