"""The ops of the regions of structured ops, besides those of `arith` and `math`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import auto
from typing import ClassVar

from xdsl.dialects.builtin import (
    AnyFloat,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    i64,
)
from xdsl.dialects.utils.enum_attribute import EnumAttribute
from xdsl.ir import (
    Block,
    Operation,
    OpResult,
    Region,
    SpacedOpaqueSyntaxAttribute,
    SSAValue,
)
from xdsl.irdl import (
    AnyAttr,
    AttrSizedOperandSegments,
    IRDLOperation,
    RangeOf,
    RangeVarConstraint,
    VarConstraint,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_region_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, OpTrait, Pure
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.str_enum import StrEnum

from penstock.dialects.kernel.interface import StructuredOp, listed
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
    BY = auto()
    """By a region, which is not one of one op."""


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
    others: tuple[str, ...] = ()
    """Ops inside of a structured one that it may stand in, too."""

    def verify(self, op: Operation) -> None:
        """Raise a `VerifyException` for another parent."""
        parent = op.parent_op()
        if parent is None or parent.name in self.others:
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

    traits = traits_def(
        KnownAttributes(),
        InStructuredOp(others=("kernel.all_reduce",)),
        IsTerminator(),
    )

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

    `by` a region several values are folded together: it makes one set of values of two,
    in any order and grouping. Folds start from `init`, which is neutral: with it the
    region gives the other set. Here a row has its largest number and the first place
    of it.

    ```mlir
    %m, %p = kernel.all_reduce by %a, %i init(%low, %none : f32, i64) : f32, i64 {
    ^bb0(%x: f32, %j: i64, %y: f32, %k: i64):
      %more = arith.cmpf ogt, %y, %x : f32
      %same = arith.cmpf oeq, %y, %x : f32
      %before = arith.cmpi slt, %k, %j : i64
      %first = arith.andi %same, %before : i1
      %wins = arith.ori %more, %first : i1
      %z = arith.select %wins, %y, %x : f32
      %l = arith.select %wins, %k, %j : i64
      kernel.yield %z, %l : f32, i64
    }
    ```
    """

    name = "kernel.all_reduce"

    T: ClassVar = RangeVarConstraint("T", RangeOf(AnyAttr()))

    kind = prop_def(FoldAttr)
    values = var_operand_def(T)
    inits = var_operand_def()
    outs = var_result_def(T)
    combine = opt_region_def("single_block")

    irdl_options = (AttrSizedOperandSegments(as_property=True),)
    # Two equal folds of one region are one, and one that nobody uses is none.
    traits = traits_def(KnownAttributes(), InStructuredOp(("kernel.row",)), Pure())

    assembly_format = (
        "$kind $values (`init` `(` $inits^ `:` type($inits) `)`)? attr-dict "
        "`:` type($values) "
        "($combine^)?"
    )

    def __init__(self, kind: Fold, value: SSAValue):
        super().__init__(
            operands=[[value], []],
            properties={"kind": FoldAttr(kind)},
            result_types=[[value.type]],
            regions=[None],
        )

    @classmethod
    def by(
        cls, values: Sequence[SSAValue], inits: Sequence[SSAValue], combine: Region
    ) -> AllReduceOp:
        """The fold of values by a region."""
        return cls.build(
            operands=[values, inits],
            properties={"kind": FoldAttr(Fold.BY)},
            result_types=[[value.type for value in values]],
            regions=[combine],
        )

    @property
    def value(self) -> SSAValue:
        """The value that a fold without a region is of."""
        return self.values[0]

    @property
    def result(self) -> OpResult:
        """The result of a fold without a region."""
        return self.results[0]

    def verify_(self) -> None:
        if self.combine is None:
            self._verify_kind()
        else:
            self._verify_combine(self.combine.block)

    def _verify_kind(self) -> None:
        if self.kind.data is Fold.BY:
            raise VerifyException("a fold 'by' has a region")
        if len(self.values) != 1 or self.inits:
            raise VerifyException(
                f"a fold '{self.kind.data}' is of one value, without init, got "
                f"{len(self.values)} and {len(self.inits)}"
            )
        kind, type = self.kind.data, self.value.type
        fits = isinstance(type, AnyFloat) if kind in OF_FLOATS else True
        if kind not in OF_FLOATS | OF_BOTH:
            fits = isinstance(type, IntegerType)
        if not fits or not isinstance(type, AnyFloat | IntegerType):
            raise VerifyException(f"there is no fold '{kind}' of {type}")

    def _verify_combine(self, block: Block) -> None:
        types = [value.type for value in self.values]
        if self.kind.data is not Fold.BY:
            raise VerifyException(f"a fold '{self.kind.data}' has no region")
        if (inits := [value.type for value in self.inits]) != types:
            raise VerifyException(
                f"a fold starts from one of each value, {listed(types)}, got "
                f"{listed(inits)}"
            )
        if (args := [arg.type for arg in block.args]) != types * 2:
            raise VerifyException(
                "the arguments of the region are the values so far, then others, "
                f"{listed(types * 2)}, got {listed(args)}"
            )
        last = block.last_op
        if not isinstance(last, YieldOp) or [x.type for x in last.values] != types:
            raise VerifyException(f"the region yields {listed(types)}")
        known = {*block.args, *(result for op in block.ops for result in op.results)}
        for op in block.ops:
            is_scalar = len(op.results) == 1 and not op.regions
            is_scalar &= not any(isinstance(x.type, MemRefType) for x in op.results)
            if not (is_scalar or op is last) or isinstance(op, AllReduceOp | KeepOp):
                raise VerifyException(f"the region combines scalars, got {op.name}")
            if any(value not in known for value in op.operands):
                raise VerifyException(
                    f"the region uses its own values alone, got one of {op.name}"
                )


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
        if loop not in parent.numbered_loops():
            raise VerifyException(
                f"the region of {parent.name} is not computed for each turn of loop "
                f"{loop}"
            )
