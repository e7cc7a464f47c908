"""
The analysis of vector accesses: stages that move 16 bytes at once on GPUs.

A `linalg` op without reductions does, if a loop walks the output element by element,
and each input so or not at all, and nothing is asserted; if all elements of a vector
lie in one iteration of that loop, or it is the only one; and if each vector begins at a
multiple of its size.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects import cf, linalg
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import Attribute, SSAValue

from penstock.dialects.kernel.loops import Access
from penstock.dialects.utils.hints import isa
from penstock.lowering.codegen.body.scalars import type_name
from penstock.lowering.codegen.body.statements import Computation
from penstock.lowering.codegen.cuda.device_limits import SIZES, VECTOR_BYTES

ALONE = (linalg.ops.IndexOp, cf.AssertOp)
"""Ops that need to know their element, or may end the kernel."""


@dataclass(frozen=True)
class Vectors:
    """The vector accesses of a stage."""

    width: int
    """The elements of a vector."""
    loop: int
    """The loop along vectors."""
    is_along: tuple[bool, ...]
    """Whether an operand is a vector, not one element that all share."""


def width_of(*types: Attribute) -> int:
    """The elements that a vector may have if it has to hold any of these types."""
    return VECTOR_BYTES // max(SIZES.get(type_name(type) or "", 16) for type in types)


def element_type(value: SSAValue) -> Attribute:
    """The type of a buffer's elements, or of a scalar."""
    return value.type.element_type if isa(value.type, MemRefType) else value.type


def vectors_of(computation: Computation) -> Vectors | None:
    """The vector accesses of a stage, or None if it has none."""
    op, nest = computation.op, computation.nest
    if computation.has_reductions or 0 in nest.extents or not nest.extents:
        return None
    if nest.has_bounds:
        return None
    if any(isinstance(inner, ALONE) for inner in op.body.walk()):
        return None
    strides = nest.accesses[-1].strides
    loop = next((i for i, stride in enumerate(strides) if stride == 1), None)
    if loop is None or any(access.strides[loop] != 1 for access in nest.written):
        return None
    is_along: list[bool] = []
    for operand, access in zip(op.operands, nest.accesses, strict=True):
        if access.strides[loop] not in (0, 1):
            return None
        is_along.append(bool(access.strides[loop]) and isa(operand.type, MemRefType))
    moved = [v for v, along in zip(op.operands, is_along, strict=True) if along]
    width = width_of(*map(element_type, moved))
    if width < 2 or nest.extents[loop] < width:
        return None
    vectors = zip(nest.accesses, is_along, strict=True)
    if not all(_is_aligned(a, loop, width) for a, along in vectors if along):
        return None
    if nest.extents[loop] % width and len(nest.extents) > 1:
        return None
    return Vectors(width, loop, tuple(is_along))


def _is_aligned(access: Access, loop: int, width: int) -> bool:
    others = (stride for i, stride in enumerate(access.strides) if i != loop)
    return access.offset % width == 0 and all(stride % width == 0 for stride in others)
