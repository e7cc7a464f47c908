"""
Types of tensors: shapes, elements, bytes, and how shapes broadcast.

Ops of all levels, passes and front ends ask here, so that they agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, TypeAlias, cast

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    FixedBitwidthType,
    MemRefType,
    TensorType,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.utils.hints import isa

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array: TypeAlias = NDArray[np.generic]


def tensor_type(value: SSAValue) -> TensorType:
    """The type of a value that is a tensor. Raises `VerifyException` if it is none."""
    if (type := as_tensor(value.type)) is None:
        raise VerifyException(f"expected a tensor, got {value.type}")
    return type


def as_tensor(type: Attribute) -> TensorType | None:
    """A type, if it is that of a tensor; `isa` would take longer to say."""
    return cast(TensorType, type) if isinstance(type, TensorType) else None


def same_layout(a: TensorType, b: TensorType) -> bool:
    """Whether two tensors have the same shape and elements of the same size."""
    return a.get_shape() == b.get_shape() and element_bytes(a) == element_bytes(b)


def are_compatible(declared: Attribute, inferred: TensorType) -> bool:
    """Whether two types differ at most in extents that one of them leaves open."""
    if not isa(declared, TensorType):
        return False
    if declared.element_type != inferred.element_type:
        return False
    shapes = declared.get_shape(), inferred.get_shape()
    return len(shapes[0]) == len(shapes[1]) and all(
        a == b or DYNAMIC_INDEX in (a, b) for a, b in zip(*shapes, strict=True)
    )


def element_bytes(type: TensorType | MemRefType) -> int:
    """The bytes of one element. An `i1` takes a byte."""
    if not isinstance(element := type.element_type, FixedBitwidthType):
        raise VerifyException(f"expected elements of a fixed size, got {element}")
    return element.size


def element_count(type: Attribute) -> int:
    """The elements of a tensor of static shape."""
    tensor = as_tensor(type)
    assert tensor is not None, "ops on tensors have tensors only"
    shape = tensor.get_shape()
    assert DYNAMIC_INDEX not in shape, "costs are asked for once all shapes are known"
    return prod(shape)


def byte_count(type: Attribute) -> int:
    """The bytes of a tensor of static shape."""
    tensor = as_tensor(type)
    assert tensor is not None, "ops on tensors have tensors only"
    return element_count(tensor) * element_bytes(tensor)


def broadcast_shapes(shapes: Sequence[Sequence[int]]) -> list[int]:
    """
    The shape that NumPy broadcasts the shapes to, where `DYNAMIC_INDEX` meets 1 or
    itself as unknown and takes the other extent otherwise.

    Raises `VerifyException` when two extents do not fit.
    """
    rank = max((len(shape) for shape in shapes), default=0)
    result: list[int] = []
    for axis in range(-rank, 0):
        extents = {shape[axis] for shape in shapes if len(shape) >= -axis} - {1}
        known = extents - {DYNAMIC_INDEX}
        if len(known) > 1:
            texts = ", ".join(shape_text(shape) for shape in shapes)
            raise VerifyException(f"shapes {texts} do not broadcast")
        result.append(next(iter(known or extents or {1})))
    return result


def shape_text(shape: Sequence[int]) -> str:
    """A shape as the user writes it, such as `2x?x4`; a scalar is `scalar`."""
    extents = ("?" if extent == DYNAMIC_INDEX else str(extent) for extent in shape)
    return "x".join(extents) or "scalar"
