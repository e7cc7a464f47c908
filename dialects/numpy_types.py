"""Between the element types of tensors and the dtypes of NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    TensorType,
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

if TYPE_CHECKING:
    import numpy as np

    from penstock.dialects.interfaces import Array

DTYPE_NAMES: dict[AnyFloat | IntegerType, str] = {
    f16: "float16",
    f32: "float32",
    f64: "float64",
    i1: "bool",
    i8: "int8",
    i16: "int16",
    i32: "int32",
    i64: "int64",
}
"""The NumPy dtype of each element type that a tensor may have."""


def dtype_of(element: Attribute) -> np.dtype[np.generic]:
    """
    The dtype of an element type. Raises `VerifyException` if there is none.
    """
    import numpy as np

    for known, name in DTYPE_NAMES.items():
        if known == element:
            return np.dtype(name)
    raise VerifyException(f"there are no tensors of {element}")


def element_type_of(dtype: np.dtype[np.generic]) -> AnyFloat | IntegerType:
    """The element type of a dtype. Raises `VerifyException` if there is none."""
    for element, name in DTYPE_NAMES.items():
        if name == dtype.name:
            return element
    raise VerifyException(f"there are no tensors of {dtype.name}")


def array_of(value: DenseIntOrFPElementsAttr) -> Array:
    """The elements of a dense attribute, as an array of its shape and dtype."""
    import numpy as np

    dtype = dtype_of(value.get_element_type())
    shape = value.get_shape()
    if 0 not in shape and value.is_splat():
        return np.full(shape, value.get_values()[0], dtype)
    return np.array(value.get_values(), dtype).reshape(shape)


def dense_of(array: Array) -> DenseIntOrFPElementsAttr:
    """The dense attribute that holds an array; a splat if all elements are the same."""
    type = TensorType(element_type_of(array.dtype), array.shape)
    flat = array.ravel()
    words = flat.view(f"u{array.itemsize}")
    if array.size and (words == words[0]).all():
        flat = flat[:1]
    data = flat.astype("uint8") if array.dtype.name == "bool" else flat
    return DenseIntOrFPElementsAttr(type, BytesAttr(data.tobytes()))
