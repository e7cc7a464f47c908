"""`op.update_rows`: new values of the rows that indices name, in place."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, TensorType
from xdsl.ir import Operation, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    irdl_op_definition,
    operand_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsolatedFromAbove, Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.op.body import BodyOp, yield_of
from penstock.dialects.op.counted.heap_sort import within
from penstock.dialects.op.groups.elementwise_form import ElementwiseForm
from penstock.dialects.op.groups.group_form import evaluate_block
from penstock.dialects.op.movement import check_indices
from penstock.dialects.op.tensor_op import Cost, InPlacePair
from penstock.dialects.op.training.embedding_gradient import shares_of
from penstock.dialects.op.verify import check_shape
from penstock.dialects.utils.tensors import byte_count, shape_text, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array


@irdl_op_definition
class UpdateRowsOp(BodyOp):
    """
    The targets, with new values in the rows that indices name: those that ops on
    elements make of these rows, and of others that have a row for each index, or one
    element for all. Other rows stay, so its cost is by the rows that are touched.

    Indices are taken in their order, and each one meets what the one before has left.
    One that is out of range names no row. A target and its result may be one memory.

    ```mlir
    %r, %s = op.update_rows %i of %w, %m by %g
      : tensor<2xi64> of tensor<9x4xf32>, tensor<9x4xf32> by tensor<2x4xf32>
      -> tensor<9x4xf32>, tensor<9x4xf32> {
    ^bb0(%p: tensor<2x4xf32>, %q: tensor<2x4xf32>, %d: tensor<2x4xf32>):
      %a = op.add %q, %d : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
      %b = op.sub %p, %a : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
      op.yield %b, %a : tensor<2x4xf32>, tensor<2x4xf32>
    }
    ```
    """

    name = "op.update_rows"
    NO_GRADIENT: ClassVar = "it is an update of variables"

    indices = operand_def(TensorType)
    targets = var_operand_def(TensorType)
    others = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    body = region_def("single_block")

    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    traits = traits_def(IsolatedFromAbove(), Pure())

    assembly_format = (
        "$indices `of` $targets `by` $others `:` type($indices) `of` type($targets) "
        "`by` type($others) `->` type($outs) attr-dict-with-keyword $body"
    )

    def __init__(
        self,
        indices: SSAValue | Operation,
        targets: Sequence[SSAValue],
        others: Sequence[SSAValue],
        body: Region,
    ):
        super().__init__(
            operands=[indices, targets, others],
            result_types=[[target.type for target in targets]],
            regions=[body],
        )

    @property
    def form(self) -> ElementwiseForm:
        """The ops of the body, as a group on elements."""
        return ElementwiseForm(self.body.block)

    @property
    def computes(self) -> Sequence[str]:
        return [name for op in self.form.members for name in op.computes]

    def argument_types(self) -> Sequence[TensorType]:
        rows = tensor_type(self.indices).get_shape()
        return [
            *(rows_of(tensor_type(target), rows) for target in self.targets),
            *map(tensor_type, self.others),
        ]

    def infer_types(self) -> Sequence[TensorType]:
        indices, targets = tensor_type(self.indices), [*map(tensor_type, self.targets)]
        check_indices(indices)
        if indices.get_num_dims() != 1:
            raise VerifyException(f"indices should be one line, got {indices}")
        if not targets or not targets[0].get_num_dims():
            raise VerifyException("there should be a target, and it should have rows")
        for target in targets:
            check_shape("each target", target, targets[0].get_shape())
        types, block = self.argument_types(), self.body.block
        if [*block.arg_types] != types:
            wanted, got = (", ".join(map(str, x)) for x in (types, block.arg_types))
            raise VerifyException(f"the body should take {wanted}, got {got}")
        found = [value.type for value in yield_of(block).values]
        if found != types[: len(targets)]:
            wanted, got = (
                ", ".join(map(str, x)) for x in (types[: len(targets)], found)
            )
            raise VerifyException(f"the body should yield {wanted}, got {got}")
        for other in self.others:
            if (shape := tensor_type(other).get_shape()) not in (
                (),
                types[0].get_shape(),
            ):
                raise VerifyException(
                    "an operand should have a row for each index, or one element, got "
                    f"{shape_text(shape)}"
                )
        _ = self.form.infer_types()
        return targets

    def flops(self) -> int:
        return self.form.flops()

    def cost(self) -> Cost:
        """That of the rows that are touched, which are read and written."""
        rows, count = self.argument_types(), len(self.targets)
        touched = sum(map(byte_count, rows)) + sum(map(byte_count, rows[:count]))
        return Cost(self.flops(), byte_count(self.indices.type) + touched)

    def in_place_pairs(self) -> Sequence[InPlacePair]:
        return [InPlacePair(1 + i, i) for i in range(len(self.targets))]

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        count = len(self.targets)
        indices, targets, others = (
            operands[0],
            operands[1 : 1 + count],
            operands[1 + count :],
        )
        results, extent = [target.copy() for target in targets], len(targets[0])
        if not extent:
            return results
        wide = indices.astype(np.int64)
        near = np.clip(wide, 0, extent - 1)
        # The first of all equal indices, then the second ones, and so on.
        for turn in range(max(times := occurrences(near), default=-1) + 1):
            now = np.equal(times, turn) & np.equal(near, wide)
            given = (*(result[near] for result in results), *others)
            values = evaluate_block(
                self.body.block, dict(zip(self.body.block.args, given, strict=True))
            )
            for result, value in zip(results, self.form.yielded, strict=True):
                result[near[now]] = values[value][now]
        return results

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        (count,) = memref_type(ins[0]).get_shape()
        rows, *columns = memref_type(outs[0]).get_shape()
        width = prod(columns)
        for target, out in zip(ins[1:], outs, strict=False):
            k.copy(target, out)
        if 0 in (count, rows, width):
            return
        lies = [k.view(out, [rows, width]) for out in outs]
        given = [_Other(k, other, count, width) for other in ins[1 + len(outs) :]]
        shares = shares_of(width)

        def update(k: KernelBuilder, place: SSAValue, number: SSAValue) -> None:
            held = [other.held(k) for other in given]

            def one(k: KernelBuilder, column: SSAValue) -> None:
                at = [place, column]
                found = [k.load(out, at) for out in lies]
                pairs = zip(given, held, strict=True)
                found += [other.load(k, x, number, column) for other, x in pairs]
                for new, out in zip(self.form.scalars(k, found), lies, strict=True):
                    k.store(new, out, at)

            k.each(width, one)

        def share(k: KernelBuilder, at: Sequence[SSAValue]) -> None:
            # Rows of a share are those of no other one, and are taken in order.
            def visit(k: KernelBuilder, number: SSAValue) -> None:
                raw = k.load(ins[0], [number])
                index = k.insert(arith.IndexCastOp(raw, IndexType()))
                place = within(k, index, rows)
                own = k.insert(arith.RemSIOp(place, k.index(shares)))
                is_own = k.insert(
                    arith.AndIOp(
                        k.compare("eq", index, place), k.compare("eq", own, at[0])
                    )
                )
                k.when(is_own, lambda k: update(k, place, number))

            k.each(count, visit)

        k.parallel([shares], share)


class _Other:
    """An operand with a row for each index, or with one element for all of them."""

    def __init__(self, k: KernelBuilder, memref: SSAValue, count: int, width: int):
        self._is_one = not memref_type(memref).get_num_dims()
        self._memref = memref if self._is_one else k.view(memref, [count, width])

    def held(self, k: KernelBuilder) -> SSAValue | None:
        """The element of one that has no other, which is loaded once."""
        return k.load(self._memref, []) if self._is_one else None

    def load(
        self, k: KernelBuilder, held: SSAValue | None, row: SSAValue, column: SSAValue
    ) -> SSAValue:
        """Its element for an index, at a column."""
        return k.load(self._memref, [row, column]) if held is None else held


def rows_of(target: TensorType, rows: Sequence[int]) -> TensorType:
    """The rows of a target for some indices."""
    return TensorType(target.element_type, [*rows, *target.get_shape()[1:]])


def occurrences(indices: Array) -> Sequence[int]:
    """For each of some indices the number of those before it that equal it."""
    seen: dict[int, int] = {}
    found: list[int] = []
    for index in map(int, indices):
        found.append(seen.get(index, 0))
        seen[index] = found[-1] + 1
    return found
