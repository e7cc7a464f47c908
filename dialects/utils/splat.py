"""
`SplatAttr`: elements of a tensor that all have the same bits, of which one is kept.

xDSL's dense attribute holds every element, so that a constant of 2^30 ones would take
4 GiB before any pass has seen it. In text both are the same: `dense<1.0>`.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    IntegerType,
    TensorType,
)
from xdsl.ir import Attribute, BuiltinAttribute, ParametrizedAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.printer import Printer

from penstock.dialects.utils.hints import isa


@irdl_attr_definition
class SplatAttr(ParametrizedAttribute, BuiltinAttribute):
    """
    Several elements with the same bits: what `element` holds, packed as in a dense
    attribute.

    ```mlir
    dense<1.0> : tensor<1073741824xf32>
    ```
    """

    name = "op.splat"

    type: TensorType[AnyFloat | IntegerType]
    element: BytesAttr

    def __len__(self) -> int:
        return self.type.element_count()

    def get_shape(self) -> tuple[int, ...]:
        """The extents of the tensor."""
        return self.type.get_shape()

    def get_element_type(self) -> AnyFloat | IntegerType:
        """The type of the elements."""
        return self.type.element_type

    def get_values(self) -> tuple[float, ...]:
        """The different values of the elements: one."""
        return self.get_element_type().unpack(self.element.data, 1)

    def print_builtin(self, printer: Printer) -> None:
        printer.print_string(literal(self))


Elements: TypeAlias = DenseIntOrFPElementsAttr | SplatAttr
"""The elements of a constant."""


def compact(value: Elements) -> Elements:
    """The same elements: one of them if there are several with the same bits."""
    if isinstance(value, SplatAttr) or len(value) < 2:
        return value
    data, size = value.data.data, value.get_element_type().compile_time_size
    type = value.type
    if not isa(type, TensorType[AnyFloat | IntegerType]):
        return value
    if len(value) != type.element_count() or data != data[:size] * len(value):
        return value
    return SplatAttr(type, BytesAttr(data[:size]))


def packed(value: Elements) -> bytes:
    """The bytes of all elements, or of the one that all are."""
    return value.element.data if isinstance(value, SplatAttr) else value.data.data


def literal(value: Elements) -> str:
    """
    The text of elements, from which xDSL's parser gets the same bits.

    xDSL prints infinities, NaNs and some large floats as hexadecimal numbers, which it
    reads as integers, and floats that are 0.0 and -0.0 as one of the two. Bytes in a
    string are read as they are.
    """
    if isinstance(value, SplatAttr):
        one = TensorType(value.get_element_type(), [1])
        text = literal(DenseIntOrFPElementsAttr(one, value.element))
        return f"{text.rpartition(' : ')[0]} : {value.type}"
    text = str(value)
    is_plain = not isinstance(value.get_element_type(), AnyFloat) or not len(value)
    if is_plain or not (re.search(r"[<\[ ]0x", text) or is_taken_for_another(value)):
        return text
    data, size = value.data.data, value.get_element_type().compile_time_size
    shown = data[:size] if has_one_element(value) else data
    return f'dense<"0x{shown.hex().upper()}"> : {value.type}'


def has_one_element(value: DenseIntOrFPElementsAttr) -> bool:
    """Whether all elements have the same bits."""
    data, size = value.data.data, value.get_element_type().compile_time_size
    return data == data[:size] * (len(data) // size)


def is_taken_for_another(value: DenseIntOrFPElementsAttr) -> bool:
    """
    Whether xDSL prints different elements as one, as 0.0 is equal to -0.0, or the same
    ones one by one, as no NaN is equal to itself.
    """
    return len(value) > 0 and has_one_element(value) != value.is_splat()


def splat_of(type: Attribute, element: bytes) -> Elements:
    """The elements of a tensor type that all have these bits."""
    assert isa(type, TensorType[AnyFloat | IntegerType]), "constants are of numbers"
    count = type.element_count()
    if count < 2:
        return DenseIntOrFPElementsAttr(type, BytesAttr(element * count))
    return SplatAttr(type, BytesAttr(element))
