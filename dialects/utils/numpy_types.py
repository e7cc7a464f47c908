"""Conversion between the element types of tensors and the dtypes of NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    TensorType,
    bf16,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.utils.signless import ui8, ui16, ui32, ui64
from penstock.dialects.utils.splat import Elements, SplatAttr, compact, packed

if TYPE_CHECKING:
    import numpy as np

    from penstock.dialects.utils.tensors import Array

DTYPE_NAMES: dict[AnyFloat | IntegerType, str] = {
    bf16: "bfloat16",
    f16: "float16",
    f32: "float32",
    f64: "float64",
    i1: "bool",
    i8: "int8",
    i16: "int16",
    i32: "int32",
    i64: "int64",
    ui8: "uint8",
    ui16: "uint16",
    ui32: "uint32",
    ui64: "uint64",
}
"""The NumPy dtype of each element type that a tensor may have."""


def dtype_name_of(element: Attribute) -> str:
    """
    The name of the dtype of an element type, found without NumPy.

    Raises `VerifyException` if there is none.
    """
    for known, name in DTYPE_NAMES.items():
        if known == element:
            return name
    raise VerifyException(f"there are no tensors of {element}")


def dtype_of(element: Attribute) -> np.dtype[np.generic]:
    """
    The dtype of an element type. Raises `VerifyException` if there is none, or if what
    teaches it to NumPy is not installed.
    """
    import numpy as np

    if (name := dtype_name_of(element)) == "bfloat16":
        try:
            import ml_dtypes
        except ImportError as error:
            raise VerifyException(
                "arrays of bf16 need a package: pip install ml_dtypes"
            ) from error
        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(name)


def element_type_of(dtype: np.dtype[np.generic]) -> AnyFloat | IntegerType:
    """The element type of a dtype. Raises `VerifyException` if there is none."""
    for element, name in DTYPE_NAMES.items():
        if name == dtype.name:
            return element
    raise VerifyException(f"there are no tensors of {dtype.name}")


def array_of(value: Elements) -> Array:
    """The elements of a constant, as a new array of its shape and dtype."""
    import numpy as np

    dtype = dtype_of(value.get_element_type())
    flat = np.frombuffer(packed(value), packed_dtype(dtype)).astype(dtype)
    if isinstance(value, SplatAttr):
        return np.full(value.get_shape(), flat[0])
    return flat.reshape(value.get_shape())


def dense_of(array: Array) -> Elements:
    """The elements that an array holds, equal to those that are parsed."""
    import numpy as np

    type = TensorType(element_type_of(array.dtype), array.shape)
    data = array.astype(packed_dtype(array.dtype))
    if array.dtype.name == "bool":
        data = np.negative(data)
    return compact(DenseIntOrFPElementsAttr(type, BytesAttr(data.tobytes())))


def packed_dtype(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """
    The dtype that dense attributes pack elements of `dtype` as: little-endian, with
    a boolean as a byte that is 0 or -1.
    """
    import numpy as np

    return np.dtype("int8" if dtype.name == "bool" else dtype.newbyteorder("<"))
