"""The op of the op dialect that is given its result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    DenseIntOrFPElementsAttr,
    TensorType,
)
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, prop_def, result_def, traits_def
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import ConstantLike, Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from penstock.dialects.interfaces import TensorOp

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
        """The one number that all elements are, or None if they differ."""
        if not self.value.is_splat():
            return None
        value = self.value.get_values()[0]
        return value if isinstance(value, int | float) else None

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
        printer.print_string(" ")
        printer.print_attribute(self.value)

    def infer_types(self) -> Sequence[TensorType]:
        if not isa(type := self.value.type, TensorType):
            raise VerifyException(f"expected a tensor, got {type}")
        return (type,)

    def flops(self) -> int:
        return 0

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        from penstock.dialects.numpy_types import array_of

        return (array_of(self.value),)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        if self.splat is None:
            raise VerifyException(
                "a constant with different elements is data, not a kernel"
            )
        k.fill(outs[0], self.splat)
