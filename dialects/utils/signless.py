"""
Unsigned integers: tensors hold them, kernel bodies do not.

The upstream dialects of kernel bodies know signless integers only: their ops say how
bits are read (`arith.divui`, `arith.cmpi ult`). Bodies are built with the element types
of tensors, by which a builder chooses these ops; then the types lose their sign.
"""

from __future__ import annotations

from xdsl.dialects.builtin import (
    IntegerAttr,
    IntegerType,
    MemRefType,
    Signedness,
    UnrealizedConversionCastOp,
    i1,
)
from xdsl.ir import Attribute, Operation, Region, SSAValue
from xdsl.rewriter import Rewriter

from penstock.dialects.utils.hints import isa

ui8, ui16, ui32, ui64 = (
    IntegerType(width, Signedness.UNSIGNED) for width in (8, 16, 32, 64)
)

UNSIGNED = (ui8, ui16, ui32, ui64)
"""The types of unsigned elements that a tensor may have."""


def is_unsigned(type: Attribute) -> bool:
    """Whether numbers of a type have no sign; booleans are 0 and 1."""
    return type == i1 or type in UNSIGNED


def signless(type: Attribute) -> Attribute:
    """The type of the same bits that kernels have for integers, or memrefs of them."""
    if isa(type, IntegerType):
        is_signless = type.signedness.data == Signedness.SIGNLESS
        return type if is_signless else IntegerType(type.width.data)
    if isa(type, MemRefType):
        element = signless(type.element_type)
        if element == type.element_type:
            return type
        return MemRefType(element, type.shape, type.layout, type.memory_space)
    return type


def drop_signs(body: Region) -> None:
    """
    Make the integers of a kernel's body signless, in place. A conversion between types
    of the same bits is nothing then.
    """
    _drop_from_values(body)
    for op in list(body.walk()):
        for region in op.regions:
            _drop_from_values(region)
        _drop_from_op(op)


def _is_signed(type: Attribute) -> bool:
    return signless(type) != type


def _drop_from_values(region: Region) -> None:
    for block in region.blocks:
        for arg in block.args:
            _drop(arg)


def _drop(value: SSAValue) -> None:
    type = signless(value.type)
    if type != value.type:
        Rewriter.replace_value_with_new_type(value, type)


def _drop_from_op(op: Operation) -> None:
    for result in tuple(op.results):
        _drop(result)
    for name, attribute in op.properties.items():
        if not isa(attribute, IntegerAttr):
            continue
        type = attribute.type
        if isinstance(type, IntegerType) and _is_signed(type):
            op.properties[name] = _signless_number(attribute.value.data, type)
    if isinstance(op, UnrealizedConversionCastOp):
        (source,), (result,) = op.operands, op.results
        result.replace_all_uses_with(source)
        op.detach()
        op.erase()


def _signless_number(value: int, type: IntegerType) -> IntegerAttr[IntegerType]:
    """The number with the same bits, as signless types count them."""
    width = type.width.data
    if value >= 1 << width - 1:
        value -= 1 << width
    return IntegerAttr(value, IntegerType(width))
