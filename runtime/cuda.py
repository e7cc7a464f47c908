"""
CUDA as a device of the executor, on a card or in Numba's simulator.

The executor knows memory by addresses. A chunk on the device gets a range of addresses
that no host memory has; a call finds the arrays behind them again. Each call waits for
its kernel, so that an assertion that failed is the task's own error.
"""

from __future__ import annotations

import ctypes
import threading
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from penstock.runtime import cuda_kernels
from penstock.runtime.cuda_kernels import ALIGNMENT, CudaKernel, DeviceArray
from penstock.runtime.memory import PAGE, count_allocation

if TYPE_CHECKING:
    # Importing them imports Numba.
    from penstock.runtime.edges import Callback
    from penstock.runtime.image import Kernel
    from penstock.runtime.tables import Argument, Call

FIRST_ADDRESS = 1 << 60
"""Beyond what a processor can address today: 57 bits."""


def open_cuda() -> Cuda:
    """
    CUDA on a card, or simulated where there is none.

    It has to be called before Numba is imported; raises PenstockError if it is too late
    for the simulator.
    """
    simulated = cuda_kernels.use_simulator_if_no_gpu()
    return Cuda(simulated)


@dataclass(frozen=True)
class CudaChunk:
    """Bytes on the device, from `address` on as the executor calls it."""

    address: int
    memory: DeviceArray

    def write(self, offset: int, array: npt.NDArray[np.generic]) -> None:
        """Copy an array of the host to the bytes from `offset` on."""
        data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.memory[offset : offset + data.size].copy_to_device(data)

    def read(self, offset: int, size: int) -> npt.NDArray[np.uint8]:
        """A copy of `size` bytes in the memory of the host."""
        return self.memory[offset : offset + size].copy_to_host().view(np.uint8)


class _Addresses:
    """
    Which chunk lies where, of all that the process has on its device: programs may use
    a chunk that another one allocated, so no two ever have an address in common.
    """

    def __init__(self) -> None:
        self._chunks: WeakValueDictionary[int, CudaChunk] = WeakValueDictionary()
        self._starts: list[int] = []
        self._end = FIRST_ADDRESS
        self._lock = threading.Lock()

    def allocate(self, size: int) -> CudaChunk:
        """A chunk at addresses that none has had before."""
        memory = cuda_kernels.allocate(size)
        with self._lock:
            chunk = CudaChunk(self._end, memory)
            self._end += -(-size // PAGE) * PAGE + PAGE
            self._starts = [*sorted(self._chunks.keys()), chunk.address]
            self._chunks[chunk.address] = chunk
        return chunk

    def chunk_at(self, address: int) -> CudaChunk:
        """The chunk that an address lies in."""
        with self._lock:
            start = self._starts[bisect_right(self._starts, address) - 1]
            return self._chunks[start]


_ADDRESSES = _Addresses()


class Cuda:
    """
    A CUDA device, or Numba's simulation of one. All its calls are made on one thread.
    """

    def __init__(self, simulated: bool):
        self.is_simulated = simulated
        self.callbacks: list[Callback] = []
        self._chunks: list[CudaChunk] = []
        self._kernels: dict[str, CudaKernel] = {}
        self._views: dict[tuple[int, int, str], DeviceArray] = {}

    def allocate(self, size: int) -> CudaChunk:
        """Memory for `size` bytes on the device, all zero."""
        count_allocation()
        chunk = _ADDRESSES.allocate(size)
        self._chunks.append(chunk)
        return chunk

    def call(self, kernel: Kernel, source: str, args: Sequence[Argument]) -> Call:
        """The call that launches the phases of a kernel and waits for them."""
        types = [(prod(kind.shape), np.dtype(kind.dtype)) for kind in kernel.arguments]
        if source not in self._kernels:
            self._kernels[source] = cuda_kernels.compile_cuda(source, kernel.name)
        compiled = self._kernels[source]

        def run(row: int, part: int, parts: int) -> int:
            addresses = words(row, len(types))
            buffers = [
                self._view(address, count, dtype)
                for address, (count, dtype) in zip(addresses, types, strict=True)
            ]
            aligned = not any(address % ALIGNMENT for address in addresses)
            cuda_kernels.launch(compiled, buffers, aligned=aligned)
            return cuda_kernels.failure_of(compiled)

        return self._callback(run, args)

    def copy(self, size: int, source: Argument, target: Argument) -> Call:
        """The call that copies bytes between the host and the device or within it."""

        def run(row: int, part: int, parts: int) -> int:
            source_address, target_address = words(row, 2)
            self._write(target_address, self._read(source_address, size))
            return 0

        return self._callback(run, (source, target))

    def _callback(
        self, run: Callable[[int, int, int], int], args: Sequence[Argument]
    ) -> Call:
        from penstock.runtime.edges import Callback
        from penstock.runtime.tables import Call

        self.callbacks.append(Callback(run))
        return Call(self.callbacks[-1].address, tuple(args))

    def _read(self, address: int, size: int) -> npt.NDArray[np.uint8]:
        if address < FIRST_ADDRESS:
            return host_bytes(address, size)
        chunk = _ADDRESSES.chunk_at(address)
        return chunk.read(address - chunk.address, size)

    def _write(self, address: int, data: npt.NDArray[np.uint8]) -> None:
        if address < FIRST_ADDRESS:
            host_bytes(address, data.size)[:] = data
            return
        chunk = _ADDRESSES.chunk_at(address)
        chunk.write(address - chunk.address, data)

    def _view(
        self, address: int, count: int, dtype: np.dtype[np.generic]
    ) -> DeviceArray:
        """The flat array at an address; made once, because arrays are costly."""
        key = (address, count, dtype.str)
        if key not in self._views:
            chunk = _ADDRESSES.chunk_at(address)
            offset = address - chunk.address
            self._views[key] = cuda_kernels.view(chunk.memory, offset, count, dtype)
        return self._views[key]


def words(row: int, count: int) -> list[int]:
    """The words of an argument row."""
    return list((ctypes.c_int64 * count).from_address(row))


def host_bytes(address: int, size: int) -> npt.NDArray[np.uint8]:
    """The bytes of the host at an address, not a copy."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
