"""The ops of the regions of structured ops, besides those of `arith` and `math`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import auto
from typing import ClassVar

from xdsl.dialects.builtin import (
    AnyFloat,
    IndexType,
    IntegerAttr,
    IntegerType,
    i64,
)
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import Operation, SpacedOpaqueSyntaxAttribute, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsTerminator, OpTrait, Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from penstock.dialects.kernel.interface import StructuredOp
from penstock.dialects.utils.attributes import KnownAttributes


class Fold(StrEnum):
    """The kind of an op that folds the values of a row, in any order."""

    ADD = auto()
    MUL = auto()
    MAXNUMF = auto()
    MINNUMF = auto()
    MAXIMUMF = auto()
    MINIMUMF = auto()
    MAXSI = auto()
    MINSI = auto()
    MAXUI = auto()
    MINUI = auto()
    ANDI = auto()
    ORI = auto()


OF_FLOATS = frozenset((Fold.MAXNUMF, Fold.MINNUMF, Fold.MAXIMUMF, Fold.MINIMUMF))
OF_BOTH = frozenset((Fold.ADD, Fold.MUL))


@irdl_attr_definition
class FoldAttr(EnumAttribute[Fold], SpacedOpaqueSyntaxAttribute):
    """The kind of a fold, as a keyword: one of the names of `Fold`."""

    name = "kernel.fold"


@dataclass(frozen=True)
class InStructuredOp(OpTrait):
    """An op stands directly in a region of a structured op, of these names if any."""

    names: tuple[str, ...] = ()

    def verify(self, op: Operation) -> None:
        """Raise a `VerifyException` for another parent."""
        parent = op.parent_op()
        if parent is None:
            return
        fits = parent.name in self.names or not self.names
        if not isinstance(parent, StructuredOp) or not fits:
            names = " or ".join(self.names) or "a structured op"
            raise VerifyException(f"expected directly in a region of {names}")


@irdl_op_definition
class YieldOp(IRDLOperation):
    """
    The end of a region of a structured op, with the values that it gives.

    ```mlir
    kernel.yield %a, %b : f32, f32
    ```
    """

    name = "kernel.yield"

    values = var_operand_def()

    traits = traits_def(KnownAttributes(), InStructuredOp(), IsTerminator())

    assembly_format = "attr-dict ($values^ `:` type($values))?"

    def __init__(self, *values: SSAValue):
        super().__init__(operands=[values])


@irdl_op_definition
class AllReduceOp(IRDLOperation):
    """
    The fold of a value over all points of a row (`kernel.row`), in any order: the same
    at each of them. An empty row folds to the neutral number.

    ```mlir
    %m = kernel.all_reduce maxnumf %a : f32
    ```
    """

    name = "kernel.all_reduce"

    T: ClassVar = VarConstraint("T", AnyAttr())

    kind = prop_def(FoldAttr)
    value = operand_def(T)
    result = result_def(T)

    # Two equal folds of one region are one, and one that nobody uses is none.
    traits = traits_def(KnownAttributes(), InStructuredOp(("kernel.row",)), Pure())

    assembly_format = "$kind $value attr-dict `:` type($value)"

    def __init__(self, kind: Fold, value: SSAValue):
        super().__init__(
            operands=[value],
            properties={"kind": FoldAttr(kind)},
            result_types=[value.type],
        )

    def verify_(self) -> None:
        kind, type = self.kind.data, self.value.type
        fits = isinstance(type, AnyFloat) if kind in OF_FLOATS else True
        if kind not in OF_FLOATS | OF_BOTH:
            fits = isinstance(type, IntegerType)
        if not fits or not isinstance(type, AnyFloat | IntegerType):
            raise VerifyException(f"there is no fold '{kind}' of {type}")


@irdl_op_definition
class KeepOp(IRDLOperation):
    """
    The value itself, which is computed once for each point of a row (`kernel.row`) and
    kept from one pass over the row to the next: in the row of the result, or in
    registers.

    ```mlir
    %p = kernel.keep %e : f32
    ```
    """

    name = "kernel.keep"

    T: ClassVar = VarConstraint("T", AnyAttr())

    value = operand_def(T)
    result = result_def(T)

    traits = traits_def(KnownAttributes(), InStructuredOp(("kernel.row",)), Pure())

    assembly_format = "$value attr-dict `:` type($value)"

    def __init__(self, value: SSAValue):
        super().__init__(operands=[value], result_types=[value.type])


@irdl_op_definition
class IndexOp(IRDLOperation):
    """
    The number of the turn that a loop of the structured op is in.

    ```mlir
    %i = kernel.index 1 : index
    ```
    """

    name = "kernel.index"

    loop = prop_def(IntegerAttr.constr(i64))
    result = result_def(IndexType())

    traits = traits_def(KnownAttributes(), InStructuredOp(), Pure())

    assembly_format = "$loop attr-dict `:` type($result)"

    def __init__(self, loop: int):
        super().__init__(
            properties={"loop": IntegerAttr(loop, i64)}, result_types=[IndexType()]
        )

    def verify_(self) -> None:
        parent, loop = self.parent_op(), self.loop.value.data
        if not isinstance(parent, StructuredOp):
            return
        if not 0 <= loop < (count := len(parent.loops().extents)):
            raise VerifyException(f"{parent.name} has {count} loops, got number {loop}")
