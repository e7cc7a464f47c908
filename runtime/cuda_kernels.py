"""
CUDA kernels: compiling their phases and launching them, on a device or without one.

Numba's simulator stands in for a device that is not there: kernels run as Python, one
thread of the block after the other. Numba reads which of the two to use when it is
imported, so `use_simulator_if_no_gpu` comes first in a program.
"""

# numba.cuda carries no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import ctypes
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from penstock.runtime.errors import PenstockError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import DTypeLike, NDArray

    Array: TypeAlias = NDArray[np.generic]

SIMULATOR = "NUMBA_ENABLE_CUDASIM"
SIMULATED_THREADS = 32
"""Threads of a simulated launch; each takes about 80 us."""
BLOCK_THREADS = 256
MOST_BLOCKS = 2048


class DeviceArray(Protocol):
    """What is used of the arrays that Numba keeps on a device."""

    def __getitem__(self, index: slice) -> DeviceArray: ...
    def view(self, dtype: DTypeLike) -> DeviceArray: ...
    def copy_to_host(self) -> Array: ...
    def copy_to_device(self, array: Array) -> None: ...


class _Phase(Protocol):
    """What is used of the functions that Numba compiles for a device."""

    def __getitem__(self, shape: tuple[object, ...]) -> _Launcher: ...
    def compile(self, signature: tuple[object, ...]) -> object: ...


class _Launcher(Protocol):
    def __call__(self, *args: DeviceArray) -> None: ...


@dataclass(frozen=True)
class CudaKernel:
    """
    A kernel that has been compiled, and the word that its assertions write to.
    """

    name: str
    phases: tuple[tuple[_Phase, int], ...]
    """The function of each phase and its number of parallel elements."""
    status: DeviceArray
    """One `int32`: 0, or 1 + the index of an assertion that failed."""


def gpu_count() -> int:
    """The CUDA devices of this machine, found without importing Numba."""
    library = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        driver = ctypes.CDLL(library)
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return 0
    return count.value


def use_simulator_if_no_gpu() -> bool:
    """
    Make Numba simulate CUDA if this machine has no device; True if it simulates.

    Raises `PenstockError` if it would have to, but Numba is imported already.
    """
    if "numba" in sys.modules:
        if _is_simulated() or gpu_count():
            return _is_simulated()
        raise PenstockError(
            "there is no CUDA device, and Numba is imported already: "
            f"set {SIMULATOR}=1 before it is"
        )
    if os.environ.get(SIMULATOR) != "1" and not gpu_count():
        os.environ[SIMULATOR] = "1"
    return os.environ.get(SIMULATOR) == "1"


def _is_simulated() -> bool:
    from numba.core import config

    return bool(cast("int", getattr(config, "ENABLE_CUDASIM")))  # noqa: B009


def compile_cuda(source: str, name: str, dtypes: Sequence[DTypeLike]) -> CudaKernel:
    """
    Compile a module text that defines `PHASES`, for flat arrays of these types.

    A boolean array is one of `uint8`. Without a device nothing is compiled: the text
    is run as it is.
    """
    import numpy as np

    from penstock.runtime.cache import cache_dir, content_hash, write_atomically

    path = cache_dir() / f"{content_hash([source])}.py"
    write_atomically(path, source.encode())
    namespace: dict[str, object] = {"__name__": f"penstock_kernel_{path.stem}"}
    exec(compile(source, str(path), "exec"), namespace)
    phases = cast("list[tuple[_Phase, int]]", namespace["PHASES"])
    if not _is_simulated():
        signature = _signature((*dtypes, np.int32))
        for phase, _ in phases:
            phase.compile(signature)
    status = allocate(4).view(np.int32)
    return CudaKernel(name, tuple(phases), status)


def _signature(dtypes: Sequence[DTypeLike]) -> tuple[object, ...]:
    import numpy as np
    from numba import from_dtype, types

    return tuple(types.Array(from_dtype(np.dtype(d)), 1, "C") for d in dtypes)


def allocate(size: int) -> DeviceArray:
    """A chunk of `size` bytes on the device, all zero."""
    import numpy as np
    from numba import cuda

    return cast("DeviceArray", cuda.to_device(np.zeros(size, np.uint8)))


def view(chunk: DeviceArray, offset: int, count: int, dtype: DTypeLike) -> DeviceArray:
    """
    The flat array of `count` elements that starts at byte `offset` of a chunk. Elements
    of booleans are `uint8`.
    """
    import numpy as np

    dtype = np.dtype(dtype)
    stored = np.dtype(np.uint8) if dtype == np.bool_ else dtype
    return chunk[offset : offset + count * stored.itemsize].view(stored)


def launch(
    kernel: CudaKernel, buffers: Sequence[DeviceArray], stream: object = 0
) -> None:
    """
    Run the phases of a kernel, one after the other, on flat arrays in the order of its
    arguments. On a device it returns before they are done.
    """
    with warnings.catch_warnings():
        # NumPy warns of what scalars do silently on a device: wrap and overflow.
        warnings.simplefilter("ignore", RuntimeWarning)
        for function, elements in kernel.phases:
            if elements:
                function[*_geometry(elements), stream](*buffers, kernel.status)


def _geometry(elements: int) -> tuple[int, int]:
    """Blocks and threads for that many elements."""
    if _is_simulated():
        return 1, min(elements, SIMULATED_THREADS)
    return min(-(-elements // BLOCK_THREADS), MOST_BLOCKS), BLOCK_THREADS


def failure_of(kernel: CudaKernel) -> int:
    """
    0, or 1 + the index of an assertion of the kernel that failed in some launch since
    this was asked last. Waits for the launches on all streams.
    """
    import numpy as np
    from numba import cuda

    cuda.synchronize()
    code = int(kernel.status.copy_to_host()[0])
    if code:
        kernel.status.copy_to_device(np.zeros(1, np.int32))
    return code
