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
import threading
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from penstock.runtime.cuda_driver import CudaError, Handle, Launch
from penstock.runtime.cuda_products import LibraryError, Product

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
INT, LONG, POINTER = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p
MATRIX = POINTER, INT, INT, LONG
"""How a matrix is told: its address, its type, its leading dimension, its stride."""
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
        # Whatever looks for it has errors of its own.
        reason = str(error).partition("\n")[0]
        raise LibraryError(f"cuBLAS is not installed: {reason}") from error


def matrix(steps: tuple[int, int], extents: tuple[int, int]) -> tuple[int, int] | None:
    """
    How cuBLAS, whose columns follow each other, is told of a matrix with rows of steps
    `steps[0]` and columns of `steps[1]`: whether to take it turned, as it is stored by
    rows, and its leading dimension. None if neither rows nor columns follow each other.
    """
    (row, column), (rows, columns) = steps, extents
    if row == 1 or rows == 1:
        leading = column if columns > 1 else rows
        return (KEPT, leading) if leading >= rows else None
    if column == 1 or columns == 1:
        leading = row if rows > 1 else columns
        return (TURNED, leading) if leading >= columns else None
    return None


class Cublas:
    """
    Products by a loaded library. Handles belong to devices; one thread at a time tells
    one of its stream and of a product.
    """

    # Products may be captured, as they need no answer and cuBLAS brings its own memory.
    is_capturable = True

    def __init__(self, api: Any):
        self._api = api
        self._handles: dict[int, int] = {}
        self._lock = threading.Lock()
        for name, types in SIGNATURES.items():
            function = getattr(api, name)
            function.argtypes, function.restype = types, INT

    def _call(self, name: str, *args: object) -> None:
        if status := getattr(self._api, name)(*args):
            raise CudaError(f"{name} failed: status {status}")

    def open(self, device: int) -> None:
        """Make a handle for the device in use, if there is none yet."""
        with self._lock:
            if device in self._handles:
                return
            handle = ctypes.c_void_p()
            self._call("cublasCreate_v2", ctypes.byref(handle))
            assert handle.value is not None, "it was created"
            self._call("cublasSetMathMode", handle, MATH)
            self._handles[device] = handle.value

    def forget(self, device: int) -> None:
        """Let go of a device whose context is no more, and the handle with it."""
        with self._lock:
            self._handles.pop(device, None)

    def bind(self, product: Product, words: Sequence[int], device: int) -> Launch:
        """A launch of a product of matrices at these addresses."""
        handle = self._handles[device]
        arguments = arguments_of(product, words)
        product_of, lock = self._api.cublasGemmStridedBatchedEx, self._lock

        def launch(stream: Handle) -> None:
            with lock:
                self._call("cublasSetStream_v2", handle, _address(stream))
                status = product_of(handle, *arguments)
            if status:
                text = f"cublasGemmStridedBatchedEx failed: status {status}"
                raise CudaError(text)

        return launch


def _address(stream: Handle) -> int:
    """A stream of `cuda.bindings`, or a number, as an address."""
    assert hasattr(stream, "__int__"), "streams are addresses"
    return int(stream)  # pyright: ignore[reportArgumentType]


def arguments_of(product: Product, words: Sequence[int]) -> list[object]:
    """
    What cuBLAS is told of a product, behind the handle. Its matrices have columns that
    follow each other, so what it computes is the result turned: `o^T = b^T a^T`.
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
