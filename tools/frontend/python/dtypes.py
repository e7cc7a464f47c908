"""The dtypes of tensors by their names in the IR and in NumPy."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from xdsl.dialects.builtin import TensorType

from penstock.dialects.utils.numpy_types import DTYPE_NAMES, dtype_of, element_type_of
from penstock.dialects.utils.tensors import shape_text
from penstock.tools.frontend.python.errors import refuse

DType: TypeAlias = np.dtype[np.generic]

_NAMES = {str(element): name for element, name in DTYPE_NAMES.items()}
_SHORT = {name: short for short, name in _NAMES.items()}


def dtype_named(given: Any) -> DType:
    """
    The dtype that is meant by `f32`, `float32`, `np.float32` or a dtype. Raises
    TraceError if no tensor has it. Other short names than those of the IR are refused:
    NumPy's `i8` has eight bytes.
    """
    name = _NAMES.get(given, given) if isinstance(given, str) else _numpy_name(given)
    if name not in _SHORT:
        raise refuse(f"unknown dtype '{name}', expected one of {', '.join(_NAMES)}")
    return np.dtype(name)


def _numpy_name(given: Any) -> str:
    try:
        return str(np.dtype(given).name)
    except TypeError:
        return repr(given)


def short_name(dtype: DType) -> str:
    """The name of a dtype in the IR."""
    return _SHORT.get(dtype.name, dtype.name)


def tensor_of(shape: tuple[int, ...], dtype: DType) -> TensorType:
    """The type of tensors of this shape and dtype."""
    return TensorType(element_type_of(dtype), shape)


def array_text(shape: tuple[int, ...], dtype: DType) -> str:
    """A shape and dtype as in the IR: `64x784xf32`, and `f32` for a scalar."""
    short = short_name(dtype)
    if not dtype.isnative:
        short += " in the other byte order"
    return f"{shape_text(shape)}x{short}" if shape else short


def shape_and_dtype(type: TensorType) -> tuple[tuple[int, ...], DType]:
    """The shape and NumPy dtype of a tensor type."""
    return tuple(type.get_shape()), dtype_of(type.element_type)
