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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from penstock.runtime.cuda_phases import Phase
from penstock.runtime.errors import PenstockError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import DTypeLike, NDArray

    Array: TypeAlias = NDArray[np.generic]

SIMULATOR = "NUMBA_ENABLE_CUDASIM"
SIMULATED_THREADS = 32
"""Threads of a simulated launch; each takes about 80 us."""
ALIGNMENT = 16
"""What the address of each buffer should be a multiple of, or fallbacks run."""


class DeviceArray(Protocol):
    """What is used of the arrays that Numba keeps on a device."""

    def __getitem__(self, index: slice) -> DeviceArray: ...
    def view(self, dtype: DTypeLike) -> DeviceArray: ...
    def copy_to_host(self) -> Array: ...
    def copy_to_device(self, array: Array) -> None: ...


class _Function(Protocol):
    """What is used of the functions that Numba compiles for a device."""

    def __getitem__(self, shape: tuple[object, ...]) -> _Launcher: ...


class _Launcher(Protocol):
    def __call__(self, *args: DeviceArray) -> None: ...


@dataclass(frozen=True)
class CudaPhase:
    """A phase whose function Numba knows; `fallback` takes buffers at any address."""

    phase: Phase
    function: _Function
    fallback: CudaPhase | None


@dataclass(frozen=True)
class CudaKernel:
    """
    A kernel that has been compiled, and the word that its assertions write to.
    """

    name: str
    phases: tuple[CudaPhase, ...]
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
    if is_decided():
        if _is_simulated() or gpu_count():
            return _is_simulated()
        raise PenstockError(
            "there is no CUDA device, and Numba is imported already: "
            f"set {SIMULATOR}=1 before it is"
        )
    if os.environ.get(SIMULATOR) != "1" and not gpu_count():
        os.environ[SIMULATOR] = "1"
    return os.environ.get(SIMULATOR) == "1"


def is_decided() -> bool:
    """Whether it is too late to choose between a device and the simulator."""
    return "numba" in sys.modules


def _is_simulated() -> bool:
    from numba.core import config

    return bool(cast("int", getattr(config, "ENABLE_CUDASIM")))  # noqa: B009


def compile_cuda(source: str, name: str) -> CudaKernel:
    """
    The kernel of a module text that defines `PHASES`.

    Numba compiles a phase when it is launched first. Without a device nothing is
    compiled: the text is run as it is.
    """
    import numpy as np

    from penstock.runtime.cache import cache_dir, content_hash, write_atomically

    path = cache_dir() / f"{content_hash([source])}.py"
    write_atomically(path, source.encode())
    namespace: dict[str, object] = {"__name__": f"penstock_kernel_{path.stem}"}
    exec(compile(source, str(path), "exec"), namespace)
    phases = cast("list[Phase]", namespace["PHASES"])
    status = allocate(4).view(np.int32)
    return CudaKernel(name, tuple(map(_known_to_numba, phases)), status)


def _known_to_numba(phase: Phase) -> CudaPhase:
    from numba import cuda

    jit = cast("Callable[..., Callable[[object], _Function]]", cuda.jit)
    options = {} if _is_simulated() else {"launch_bounds": phase.threads}
    function = jit(**options)(phase.function)
    fallback = None if phase.fallback is None else _known_to_numba(phase.fallback)
    return CudaPhase(phase, function, fallback)


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
    kernel: CudaKernel,
    buffers: Sequence[DeviceArray],
    stream: object = 0,
    *,
    aligned: bool = True,
) -> None:
    """
    Run the phases of a kernel, one after the other, on flat arrays in the order of its
    arguments. Unless these are `aligned`, fallbacks run where there are some. On a
    device it returns before they are done.
    """
    with warnings.catch_warnings():
        # NumPy warns of what scalars do silently on a device: wrap and overflow.
        warnings.simplefilter("ignore", RuntimeWarning)
        for entry in kernel.phases:
            if not aligned and entry.fallback is not None:
                entry = entry.fallback
            if entry.phase.items:
                shape = (*_geometry(entry.phase), stream)
                entry.function[shape](*buffers, kernel.status)


def _geometry(phase: Phase) -> tuple[int, int]:
    """Blocks and threads of a phase; in the simulator no more than have to be."""
    if _is_simulated() and not phase.blockwise:
        return 1, min(phase.items, SIMULATED_THREADS)
    return phase.blocks, phase.threads


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
