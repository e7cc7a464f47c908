"""
The library of generated CUDA source.

Scalar functions have the names and meanings of those in
`penstock.runtime.kernels.cpu.support`. On a GPU they are intrinsics; in Numba's
simulator, where kernels are ordinary Python, they are NumPy's on scalars, so that types
are the same.

`first_item()` and `item_step()` are a thread's place in the grid, `load_4(buffer, i)`
and its like move several elements at once.
"""

# numba.cuda carries no types.
# pyright: reportUnusedImport=false, reportWildcardImportFromLibrary=false
# ruff: noqa: F401, F403

from __future__ import annotations

import math

import numpy as np
from numba import cuda
from numba.core import config

from penstock.runtime.kernels.cuda.stages import Phase as Phase
from penstock.runtime.kernels.cuda.stages import Stage

inf, nan = math.inf, math.nan
f32, f64 = np.float32, np.float64
i8, i16, i32, i64 = np.int8, np.int16, np.int32, np.int64
u8, u16, u32, u64 = np.uint8, np.uint16, np.uint32, np.uint64

SIMULATED = bool(getattr(config, "ENABLE_CUDASIM"))  # noqa: B009
"""Whether kernels run in Numba's simulator."""

if SIMULATED:
    from penstock.runtime.kernels.cuda.emulator.scalars import *
    from penstock.runtime.kernels.cuda.emulator.simulator_block import *
    from penstock.runtime.kernels.cuda.emulator.simulator_warp import *
else:
    from penstock.runtime.kernels.cuda.intrinsics import *
    from penstock.runtime.kernels.cuda.tensor_core import *
