"""
Sizes that all GPUs of this target have in common: of vector accesses, elements and
shared memory. The threads of a warp are among the limits of schedules
(`penstock.dialects.launch.schedules.cuda_matmul`).
"""

from __future__ import annotations

VECTOR_BYTES = 16
"""The most that a thread moves at once."""
SIZES = {
    **{"bf16": 2, "f16": 2, "f32": 4, "f64": 8},
    **{"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8},
}
"""The bytes of an element in memory."""
VECTORS = {type: VECTOR_BYTES // SIZES[type] for type in ("f32", "f64")}
"""The elements of a vector of accumulators."""
CHUNK = VECTOR_BYTES // SIZES["f16"]
"""The elements of 16 bits in a vector."""
STATIC_BYTES = 48 * 1024
"""The shared memory that functions can declare."""
