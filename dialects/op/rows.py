"""The op of the op dialect that computes an op on rows with what it reads and feeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    lazy_traits_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import (
    HasParent,
    IsolatedFromAbove,
    IsTerminator,
    NoMemoryEffect,
    Pure,
    RecursivelySpeculatable,
)
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.interfaces import (
    ElementwiseOp,
    InPlacePair,
    TensorOp,
    same_layout,
    tensor_type,
)
from penstock.dialects.kernel import memref_type
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.fused import evaluate_block, verify_broadcast
from penstock.dialects.op.lines import Element, Line, Row, RowOp

if TYPE_CHECKING:
    from penstock.dialects.interfaces import Array
    from penstock.dialects.kernel import KernelBuilder


@irdl_op_definition
class YieldRowsOp(IRDLOperation):
    """
    What the ops inside an `op.rows` compute together.

    ```mlir
    op.yield_rows %r, %s : tensor<4x8xf32>, tensor<4x8xf32>
    ```
    """

    name = "op.yield_rows"

    values = var_operand_def(TensorType)

    traits = lazy_traits_def(lambda: (HasParent(RowsOp), IsTerminator(), Pure()))

    assembly_format = "$values attr-dict `:` type($values)"

    def __init__(self, values: Sequence[SSAValue]):
        super().__init__(operands=[values])


@irdl_op_definition
class RowsOp(TensorOp):
    """
    An op on rows (a softmax, or a normalization along the last dimension), with
    elementwise ops that compute what it reads and that read what it computes: row by
    row, without tensors between them. What is yielded first is made last; anything else
    is what the op on rows reads.

    ```mlir
    %y, %s = op.rows %x, %r, %g : tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>
      -> tensor<4x8xf32>, tensor<4x8xf32> {
    ^bb0(%p: tensor<4x8xf32>, %q: tensor<4x8xf32>, %h: tensor<8xf32>):
      %a = op.add %p, %q : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
      %n = op.layer_norm %a, %h : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
      op.yield_rows %n, %a : tensor<4x8xf32>, tensor<4x8xf32>
    }
    ```
    """

    name = "op.rows"

    ins = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    body = region_def("single_block")

    traits = traits_def(
        IsolatedFromAbove(), NoMemoryEffect(), RecursivelySpeculatable()
    )

    assembly_format = (
        "$ins `:` type($ins) `->` type($outs) attr-dict-with-keyword $body"
    )

    def __init__(self, ins: Sequence[SSAValue], body: Region):
        terminator = body.block.last_op
        assert isinstance(terminator, YieldRowsOp), "such a body ends in op.yield_rows"
        types = [value.type for value in terminator.values]
        super().__init__(operands=[ins], result_types=[types], regions=[body])

    @property
    def row_op(self) -> RowOp:
        """The op on rows."""
        return next(op for op in self.body.block.ops if isinstance(op, RowOp))

    @property
    def yielded(self) -> Sequence[SSAValue]:
        """The values inside the body that the results are."""
        terminator = self.body.block.last_op
        assert isinstance(terminator, YieldRowsOp), "checked by the verifier"
        return terminator.values

    def infer_types(self) -> Sequence[TensorType]:
        self._verify_body()
        row = self.row_op
        type = tensor_type(row.results[0])
        if type.get_num_dims() < 2 or not isinstance(type.element_type, AnyFloat):
            raise VerifyException(f"rows should be those of floats, got {type}")
        if not row.is_of_rows():
            raise VerifyException(f"{row.name} should be along the last dimension")
        for operand in map(tensor_type, self.ins):
            verify_broadcast(operand, type)
        for value in self.yielded:
            if value.type != type:
                raise VerifyException(
                    f"expected {type} to be yielded, got {value.type}"
                )
        first, *others = self.yielded
        if not self._is_after(first) or any(v is not row.operands[0] for v in others):
            raise VerifyException(
                "the body should yield what it makes last, then what its op on rows "
                "reads"
            )
        return [type for _ in self.yielded]

    def _is_after(self, value: SSAValue) -> bool:
        last = self.body.block.last_op
        return last is not None and value.owner is last.prev_op

    def _verify_body(self) -> None:
        block = self.body.block
        if [arg.type for arg in block.args] != [value.type for value in self.ins]:
            raise VerifyException(
                "the body's arguments should be those of the operands"
            )
        if not isinstance(block.last_op, YieldRowsOp) or not block.last_op.values:
            raise VerifyException("the body should end in op.yield_rows")
        rows = 0
        for op in block.ops:
            rows += isinstance(op, RowOp)
            if isinstance(op, ElementwiseOp | RowOp | YieldRowsOp):
                continue
            if not isinstance(op, ConstantOp) or op.splat is None:
                raise VerifyException(f"{op.name} cannot be computed row by row")
        if rows != 1:
            raise VerifyException(f"the body should have one op on rows, got {rows}")
        for parameter in self.row_op.operands[1:]:
            if parameter not in block.args:
                raise VerifyException(
                    "parameters of the op on rows should be arguments of the body"
                )

    def flops(self) -> int:
        return sum(op.flops() for op in self.body.block.ops if isinstance(op, TensorOp))

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        """
        Results are written while rows are read, at each index after what is at it has
        been read for the last time; what elementwise ops read after the op on rows, no
        result may lie over.
        """
        late = self._late_arguments()
        parameters = set(self.row_op.operands[1:])
        return tuple(
            InPlacePair(number, result)
            for number, arg in enumerate(self.body.block.args)
            if arg not in late and arg not in parameters
            for result, value in enumerate(self.yielded)
            if same_layout(tensor_type(arg), tensor_type(value))
        )

    def _late_arguments(self) -> set[SSAValue]:
        """The arguments that ops after the op on rows read, also by way of others."""
        row = self.row_op
        kept = row.operands[0] if len(self.yielded) > 1 else None
        pending = [
            value
            for op in _after(row)
            for value in op.operands
            if value is not row.results[0]
        ]
        late: set[SSAValue] = set()
        while pending:
            value = pending.pop()
            if value is kept and value not in self.body.block.args:
                continue
            if isinstance(value.owner, Block):
                late.add(value)
            elif value.owner is not row:
                pending.extend(value.owner.operands)
        return late

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        shape = memref_type(outs[0]).get_shape()
        extents = shape[:-1]
        if self._is_flat(shape):
            extents = (prod(extents),)
            outs = [k.view(value, (*extents, shape[-1])) for value in outs]
            ins = [k.view(value, self._flat(value, shape)) for value in ins]
        k.parallel(
            extents, lambda k, place: _RowKernel(self, ins, outs, place).build(k)
        )

    def _is_flat(self, shape: Sequence[int]) -> bool:
        """Whether rows of all operands follow each other, or are the same."""
        return all(
            arg.get_shape() == tuple(shape) or prod(arg.get_shape()[:-1]) == 1
            for arg in map(tensor_type, self.ins)
        )

    @staticmethod
    def _flat(value: SSAValue, shape: Sequence[int]) -> tuple[int, ...]:
        own = memref_type(value).get_shape()
        last = own[-1] if own else 1
        return (prod(own[:-1]), last)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        block = self.body.block
        values: dict[SSAValue, Array] = dict(zip(block.args, operands, strict=True))
        values = evaluate_block(block, values)
        return [values[value] for value in self.yielded]


def _after(op: Operation) -> Sequence[Operation]:
    """The ops that follow one in its block."""
    found: list[Operation] = []
    following = op.next_op
    while following is not None:
        found.append(following)
        following = following.next_op
    return found


@dataclass
class _RowKernel:
    """One row of an `op.rows`."""

    op: RowsOp
    ins: Sequence[SSAValue]
    outs: Sequence[SSAValue]
    place: Sequence[SSAValue]
    _built: dict[tuple[SSAValue, SSAValue], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, SSAValue], SSAValue]
    )
    """Elements by value and index: each loop has its own index."""
    _result: Element | None = None

    def build(self, k: KernelBuilder) -> None:
        """Build the loops over the row."""
        op, row_op = self.op, self.op.row_op
        lines = [Line(out, self.place) for out in self.outs]
        source, type = row_op.operands[0], memref_type(self.outs[0]).element_type
        row = Row(
            lines[0].extent, type, lambda k, i: self._element(k, source, i), lines[0]
        )
        kept = lines[1] if len(lines) > 1 else None
        if kept is not None or not isinstance(source.owner, Block):
            row.home = kept or lines[0]
        parameters: list[Element] = [
            self._loader(value) for value in row_op.operands[1:]
        ]
        self._result = row_op.build_row(k, row, parameters)

        def write(k: KernelBuilder, index: SSAValue) -> None:
            if kept is not None:
                self._built[source, index] = kept.load(k, index)
            lines[0].store(k, self._element(k, op.yielded[0], index), index)

        k.each(lines[0].extent, write)

    def _loader(self, value: SSAValue) -> Element:
        return lambda k, index: self._element(k, value, index)

    def _element(self, k: KernelBuilder, value: SSAValue, i: SSAValue) -> SSAValue:
        """Build an element of a value inside the body."""
        if (value, i) not in self._built:
            self._built[value, i] = self._new_element(k, value, i)
        return self._built[value, i]

    def _new_element(
        self, k: KernelBuilder, value: SSAValue, index: SSAValue
    ) -> SSAValue:
        match value.owner:
            case Block():
                return self._argument(k, value, index)
            case ConstantOp() as constant:
                assert constant.splat is not None, "checked by the verifier"
                return k.constant(constant.splat, constant.value.get_element_type())
            case ElementwiseOp() as op:
                return op.scalar(k, [self._element(k, v, index) for v in op.operands])
            case _:
                assert self._result is not None, "ops are in the order of their uses"
                return self._result(k, index)

    def _argument(self, k: KernelBuilder, value: SSAValue, index: SSAValue) -> SSAValue:
        """Load an element of an operand, which is broadcast to the rows."""
        memref = self.ins[self.op.body.block.args.index(value)]
        shape = memref_type(memref).get_shape()
        indices = [*self.place, index][len(self.place) + 1 - len(shape) :]
        return k.load(
            memref,
            [
                k.index(0) if extent == 1 else at
                for extent, at in zip(shape, indices, strict=True)
            ],
        )
