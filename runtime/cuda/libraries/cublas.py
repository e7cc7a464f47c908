"""
Products of matrices by cuBLAS: the one module that knows it.

The library is looked for where packages of NVIDIA, conda, a toolkit or the system have
it (`cuda.pathfinder`), and called through `ctypes` with the addresses that kernels get.
Sums have 32 bits for floats of 16, and no product is cut to fewer bits than its factors
have: TF32 is off, and so are partial sums of 16 bits.
"""

# cuda.pathfinder carries few types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from penstock.runtime.cuda.driver import CudaError, Handle, Launch
from penstock.runtime.cuda.libraries.ctypes_base import (
    INT,
    LONG,
    POINTER,
    CLibrary,
    address_of,
)
from penstock.runtime.cuda.libraries.problems import LibraryError, Product, Sum

KEPT, TURNED = 0, 1
"""CUBLAS_OP_N and CUBLAS_OP_T."""
TYPES = {"f32": 0, "f64": 1, "f16": 2, "bf16": 14}
"""cudaDataType: CUDA_R_32F..."""
COMPUTE_32F, COMPUTE_64F = 68, 70
"""cublasComputeType_t."""
MATH = 16
"""CUBLAS_DEFAULT_MATH, without partial sums of fewer bits than 32."""
ALGORITHM = -1
"""CUBLAS_GEMM_DEFAULT."""
MATRIX = POINTER, INT, INT, LONG
"""The arguments of a matrix: address, type, leading dimension, stride."""
SIGNATURES = {
    "cublasCreate_v2": (POINTER,),
    "cublasSetMathMode": (POINTER, INT),
    "cublasSetStream_v2": (POINTER, POINTER),
    "cublasGemmStridedBatchedEx": (
        *(POINTER, INT, INT, INT, INT, INT, POINTER),
        *(*MATRIX, *MATRIX, POINTER, *MATRIX),
        *(INT, INT, INT),
    ),
}
"""The parameters of the functions that are used, all of which return a status."""


def open_cublas() -> Cublas:
    """cuBLAS of this machine. Raises LibraryError if it is not there."""
    try:
        finder: Any = import_module("cuda.pathfinder")
        found = finder.load_nvidia_dynamic_lib("cublas")
        return Cublas(ctypes.CDLL(found.abs_path))
    except Exception as error:
        # The search for it has errors of its own.
        reason = str(error).partition("\n")[0]
        raise LibraryError(f"cuBLAS is not installed: {reason}") from error


def matrix(steps: tuple[int, int], extents: tuple[int, int]) -> tuple[int, int] | None:
    """
    The form of a matrix for cuBLAS, which is column-major, given the strides of its
    rows `steps[0]` and columns `steps[1]`: whether to transpose it, as it is row-major,
    and its leading dimension. None if neither rows nor columns are contiguous.
    """
    (row, column), (rows, columns) = steps, extents
    if row == 1 or rows == 1:
        leading = column if columns > 1 else rows
        return (KEPT, leading) if leading >= rows else None
    if column == 1 or columns == 1:
        leading = row if rows > 1 else columns
        return (TURNED, leading) if leading >= columns else None
    return None


class Cublas(CLibrary):
    """Products of matrices by a loaded library, which brings its own memory."""

    kinds: tuple[type[Sum], ...] = (Product,)
    creator = "cublasCreate_v2"
    signatures = SIGNATURES

    def handle(self) -> int:
        """A new handle for the device in use."""
        handle = super().handle()
        self.call("cublasSetMathMode", handle, MATH)
        return handle

    def room(self, wanted: Sum, device: int) -> int:
        """None."""
        return 0

    def bind(self, wanted: Sum, words: Sequence[int], device: int) -> Launch:
        """A launch of a product of matrices at these addresses."""
        assert isinstance(wanted, Product), "it is asked for nothing else"
        handle = self.handles[device]
        arguments = arguments_of(wanted, words)
        product_of, lock = self.api.cublasGemmStridedBatchedEx, self.lock

        def launch(stream: Handle) -> None:
            with lock:
                self.call("cublasSetStream_v2", handle, address_of(stream))
                status = product_of(handle, *arguments)
            if status:
                text = f"cublasGemmStridedBatchedEx failed: status {status}"
                raise CudaError(text)

        return launch


def arguments_of(product: Product, words: Sequence[int]) -> list[object]:
    """
    The arguments of cuBLAS for a product, behind the handle. Its matrices are
    column-major, so it computes the transposed result: `o^T = b^T a^T`.
    """
    rows, columns, terms = product.extents
    first = matrix((product.b_steps[1], product.b_steps[0]), (columns, terms))
    second = matrix((product.a_steps[1], product.a_steps[0]), (terms, rows))
    assert first is not None, "whoever selects it has asked"
    assert second is not None, "whoever selects it has asked"
    wide = product.element == "f64"
    scalar = ctypes.c_double if wide else ctypes.c_float
    one, start = scalar(1.0), scalar(float(product.adds))
    kind, (a, b, o) = TYPES[product.element], words
    leading = product.row_step if rows > 1 else columns
    return [
        *(first[0], second[0], columns, rows, terms, ctypes.pointer(one)),
        *(b, kind, first[1], product.strides[1]),
        *(a, kind, second[1], product.strides[0]),
        ctypes.pointer(start),
        *(o, kind, leading, product.strides[2]),
        *(product.batch, COMPUTE_64F if wide else COMPUTE_32F, ALGORITHM),
    ]
