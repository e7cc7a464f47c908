"""`op.constant`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import (
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

from penstock.dialects.op.sbp import Part, SbpSignature, signature
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.numpy_types import array_of, dtype_name_of
from penstock.dialects.utils.splat import (
    Elements,
    SplatAttr,
    compact,
    literal,
    packed,
    splat_of,
)

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array


@irdl_op_definition
class ConstantOp(TensorOp):
    """
    A tensor whose elements are known when the job is compiled.

    ```mlir
    %c = op.constant dense<1.0> : tensor<4xf32>
    ```
    """

    name = "op.constant"
    NO_GRADIENT: ClassVar = "it has no operands"
    FLOPS: ClassVar = 0

    value: Elements = prop_def(DenseIntOrFPElementsAttr | SplatAttr)
    result = result_def(TensorType)

    traits = traits_def(ConstantLike(), Pure())

    def __init__(self, value: Elements):
        super().__init__(
            properties={"value": compact(value)}, result_types=[value.type]
        )

    @property
    def splat(self) -> float | None:
        """
        The number (or boolean) that every element is, or None if they differ.

        Elements are the same if their bits are: 0.0 and -0.0 differ, two NaNs with the
        same payload do not. Where there are no elements, any number will do: it is 0.
        """
        value = compact(self.value)
        if not isinstance(value, SplatAttr) and len(value) > 1:
            return None
        element = value.get_element_type()
        number = element.unpack(packed(value), 1)[0] if len(value) else 0
        if not isinstance(number, int | float):
            return None
        return bool(number) if element == i1 else number

    @classmethod
    def parse(cls, parser: Parser) -> ConstantOp:
        position = parser.pos
        attributes = parser.parse_optional_attr_dict()
        value = parser.parse_attribute()
        if not isa(value, DenseIntOrFPElementsAttr | SplatAttr):
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
        whole = compact(self.value)
        type = TensorType(whole.get_element_type(), part.shape)
        if isinstance(whole, SplatAttr):
            value = splat_of(type, packed(whole))
        else:
            bounds = zip(part.offsets, part.ends, strict=True)
            cut = _raw(whole)[*(slice(*pair) for pair in bounds), ...].tobytes()
            value = compact(DenseIntOrFPElementsAttr(type, BytesAttr(cut)))
        return self.remade(operands, parts, {"value": value})

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


def _raw(value: DenseIntOrFPElementsAttr) -> Array:
    """The elements of a dense attribute as bytes of their size."""
    import numpy as np

    size = value.get_element_type().compile_time_size
    return np.frombuffer(value.data.data, f"V{size}").reshape(value.get_shape())
