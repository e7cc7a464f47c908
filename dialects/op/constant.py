"""The op of the op dialect that is given its result."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    DenseIntOrFPElementsAttr,
    TensorType,
    i1,
)
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from penstock.dialects.interfaces import TensorOp
from penstock.dialects.numpy_types import array_of, dtype_name_of
from penstock.dialects.sbp import Part, SbpSignature, signature

if TYPE_CHECKING:
    from penstock.dialects.interfaces import Array
    from penstock.dialects.kernel import KernelBuilder


@irdl_op_definition
class ConstantOp(TensorOp):
    """
    A tensor whose elements are known when the job is compiled.

    ```mlir
    %c = op.constant dense<1.0> : tensor<4xf32>
    ```
    """

    name = "op.constant"

    value = prop_def(DenseIntOrFPElementsAttr)
    result = result_def(TensorType)

    traits = traits_def(ConstantLike(), Pure())

    def __init__(self, value: DenseIntOrFPElementsAttr):
        super().__init__(properties={"value": value}, result_types=[value.type])

    @property
    def splat(self) -> float | None:
        """
        The number (or boolean) that every element is, or None if they differ.

        Elements are the same if their bits are: 0.0 and -0.0 differ, two NaNs with the
        same payload do not. Where there are no elements, any number will do: it is 0.
        """
        element, data = self.value.get_element_type(), self.value.data.data
        if not has_equal_elements(self.value):
            return None
        first = data[: element.compile_time_size]
        number = element.unpack(first, 1)[0] if data else 0
        if not isinstance(number, int | float):
            return None
        return bool(number) if element == i1 else number

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        position = parser.pos
        attributes = parser.parse_optional_attr_dict()
        value = parser.parse_attribute()
        if not isa(value, DenseIntOrFPElementsAttr):
            parser.raise_error("expected dense elements", position, parser.pos)
        op = cls(value)
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_op_attributes(self.attributes)
        printer.print_string(f" {literal(self.value)}")

    def infer_types(self) -> Sequence[TensorType]:
        if not isa(type := self.value.type, TensorType):
            raise VerifyException(f"expected a tensor, got {type}")
        dtype_name_of(type.element_type)
        if (got := len(self.value)) != type.element_count():
            raise VerifyException(
                f"{type} has {type.element_count()} elements, got {got}"
            )
        return (type,)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        return [signature([], [axis]) for axis in range(len(self.value.get_shape()))]

    def part(self, operands: Sequence[SSAValue], parts: Sequence[Part]) -> ConstantOp:
        (part,) = parts
        element, data = self.value.get_element_type(), self.value.data.data
        type = TensorType(element, part.shape)
        if has_equal_elements(self.value):
            cut = data[: element.compile_time_size] * type.element_count()
        else:
            bounds = zip(part.offsets, part.ends, strict=True)
            cut = _raw(self.value)[*(slice(*pair) for pair in bounds), ...].tobytes()
        value = DenseIntOrFPElementsAttr(type, BytesAttr(cut))
        return self.remade(operands, parts, {"value": value})

    def flops(self) -> int:
        return 0

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        return (array_of(self.value),)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        if self.splat is None:
            raise VerifyException(
                "a constant with different elements is data, not a kernel"
            )
        k.fill(outs[0], self.splat)


def has_equal_elements(value: DenseIntOrFPElementsAttr) -> bool:
    """Whether all elements of a dense attribute have the same bits."""
    data, size = value.data.data, value.get_element_type().compile_time_size
    return data == data[:size] * (len(data) // size)


def _raw(value: DenseIntOrFPElementsAttr) -> Array:
    """The elements of a dense attribute as bytes of their size."""
    import numpy as np

    size = value.get_element_type().compile_time_size
    return np.frombuffer(value.data.data, f"V{size}").reshape(value.get_shape())


def literal(value: DenseIntOrFPElementsAttr) -> str:
    """
    The text of a dense attribute, from which xDSL's parser gets the same bits.

    xDSL prints infinities, NaNs and some large floats as hexadecimal numbers, which it
    reads as integers, and floats that are 0.0 and -0.0 as one of the two. Bytes in a
    string are read as they are.
    """
    text, data = str(value), value.data.data
    element = value.get_element_type()
    if not isinstance(element, AnyFloat) or not data:
        return text
    same_bits = has_equal_elements(value)
    if same_bits == value.is_splat() and not re.search(r"[<\[ ]0x", text):
        return text
    shown = data[: element.compile_time_size] if same_bits else data
    return f'dense<"0x{shown.hex().upper()}"> : {value.type}'
