"""The dtypes of NumPy by their names, `bfloat16` among them, and arrays from files."""

from __future__ import annotations

import ctypes
import sys

import numpy as np
import numpy.typing as npt

from penstock.runtime.errors import PenstockError

Array = npt.NDArray[np.generic]


def numpy_dtype(name: str) -> np.dtype[np.generic]:
    """
    The dtype of a name, also of `bfloat16`, which NumPy has to be taught. Raises
    PenstockError if that is not installed.
    """
    if name == "bfloat16":
        try:
            import ml_dtypes
        except ImportError as error:
            raise PenstockError(
                "arrays of bfloat16 need a package: pip install ml_dtypes"
            ) from error
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def is_float(dtype: np.dtype[np.generic]) -> bool:
    """Whether a dtype is one of floats, `bfloat16` too, which NumPy calls bytes."""
    return dtype.kind == "f" or dtype.name == "bfloat16"


def reread(array: Array, dtype: np.dtype[np.generic]) -> Array:
    """
    An array as this dtype if it is one of bytes of that length: NumPy writes dtypes
    that it does not know as bytes, `bfloat16` among them.
    """
    is_bytes = array.dtype.type is np.void and array.dtype.fields is None
    if dtype.name != "bfloat16" or not is_bytes:
        return array
    return array.view(dtype) if array.dtype.itemsize == dtype.itemsize else array


# `array.ctypes.data` takes about a microsecond, as long as all of a short run. The same
# number is the first field of an array object after the head that all objects have,
# where any C extension reads it (`PyArray_DATA`).
_HEAD = object.__basicsize__
_read = ctypes.c_size_t.from_address


def _of_field(array: Array) -> int:
    return _read(id(array) + _HEAD).value


def _of_interface(array: Array) -> int:
    return array.ctypes.data


def _is_field_known() -> bool:
    probe = np.zeros(2)[1:]
    is_known = sys.implementation.name == "cpython"
    return is_known and _of_field(probe) == _of_interface(probe)


DATA_FIELD = _HEAD if _is_field_known() else None
"""
The offset of the address of the first element in an array object, which lies at
`id(array)`; None if this Python has other objects.
"""

address_of = _of_interface if DATA_FIELD is None else _of_field
"""The address of the first element of an array."""
