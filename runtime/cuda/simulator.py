"""
CUDA kernels in Numba's simulator, and whether that is wanted.

Kernels run as Python there, one thread of a block after the other. Numba reads whether
it is to simulate CUDA when it is imported, so NUMBA_ENABLE_CUDASIM=1 has to be set
before a program starts.
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

from penstock.runtime.errors import PenstockError
from penstock.runtime.kernels.cuda.stages import Stage, stages_in

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.generic]

SIMULATOR = "NUMBA_ENABLE_CUDASIM"
SIMULATED_THREADS = 32
"""Threads of a simulated launch; each takes about 80 us."""
ALIGNMENT = 16
"""Bytes that addresses of buffers should be multiples of, or fallbacks run."""


class _Function(Protocol):
    """The used part of the functions that Numba simulates."""

    def __getitem__(self, shape: tuple[object, ...]) -> Callable[..., None]: ...


@dataclass(frozen=True)
class SimulatedStage:
    """
    A stage whose function Numba knows, and the dtypes of its arguments, if the source
    says them; `fallback` takes buffers at any address.
    """

    stage: Stage
    function: _Function
    dtypes: tuple[np.dtype[np.generic], ...]
    fallback: SimulatedStage | None


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


def is_simulator_wanted() -> bool:
    """
    Whether CUDA is to be simulated.

    Raises `PenstockError` if it is, but Numba was imported before it was told.
    """
    if os.environ.get(SIMULATOR) != "1":
        return False
    if "numba" in sys.modules and not _is_simulated():
        raise PenstockError(
            f"Numba is imported already: set {SIMULATOR}=1 before the program starts"
        )
    return True


def _is_simulated() -> bool:
    from numba.core import config

    return bool(cast("int", getattr(config, "ENABLE_CUDASIM")))  # noqa: B009


def simulated_stages(source: str) -> tuple[SimulatedStage, ...]:
    """The stages of a module text that defines `STAGES`, run as it is."""
    from penstock.runtime.jit.cache import cache_dir, content_hash
    from penstock.runtime.jit.cache_files import keep_text

    path = cache_dir() / f"{content_hash([source])}.py"
    keep_text(path, source.encode())
    namespace: dict[str, object] = {"__name__": f"penstock_kernel_{path.stem}"}
    exec(compile(source, str(path), "exec"), namespace)
    names = cast("Sequence[str]", namespace.get("PARAMETERS", ()))
    return tuple(_known_to_numba(stage, names) for stage in stages_in(namespace))


def _known_to_numba(stage: Stage, names: Sequence[str]) -> SimulatedStage:
    import numpy as np
    from numba import cuda

    jit = cast("Callable[[object], _Function]", cuda.jit)
    dtypes = *map(np.dtype, names), np.dtype(np.int32)
    fallback = stage.fallback and _known_to_numba(stage.fallback, names)
    return SimulatedStage(stage, jit(stage.function), dtypes, fallback)


def simulated_geometry(stage: Stage) -> tuple[int, int]:
    """Blocks and threads of a stage: no more than have to be."""
    if not stage.blockwise:
        return 1, min(stage.items, SIMULATED_THREADS)
    return stage.blocks, stage.threads


def simulate(entry: SimulatedStage, arrays: Sequence[Array]) -> None:
    """
    Run a stage on flat arrays, the last of which is its status.

    Raises IndexError for an index that is outside of an array, at either end, also of
    one that threads make.
    """
    from penstock.runtime.cuda.simulated_arrays import CheckedArray, checked_arrays

    if not entry.stage.items:
        return
    shape = *simulated_geometry(entry.stage), 0, entry.stage.dynamic_shared
    with warnings.catch_warnings(), checked_arrays():
        # NumPy warns where scalars wrap and overflow, which a device does silently.
        warnings.simplefilter("ignore", RuntimeWarning)
        entry.function[shape](*map(CheckedArray, arrays))
