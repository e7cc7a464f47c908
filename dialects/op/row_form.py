"""Groups with ops on rows: softmax and norms, with ops on elements around them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.builder import broadcast_map, memref_type
from penstock.dialects.kernel.row_builder import build_row, keep
from penstock.dialects.op.group_form import (
    GroupForm,
    member_scalar,
    refuse_others,
    verify_broadcast,
)
from penstock.dialects.op.row_ops import RowOp
from penstock.dialects.op.tensor_op import InPlacePair, is_elementwise
from penstock.dialects.utils.diagnostics import LocatedVerifyException
from penstock.dialects.utils.tensors import same_layout, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder


class RowForm(GroupForm):
    """
    Ops on rows (a softmax, or a normalization along the last dimension), with the ops
    on elements before and after them: row by row. Of several row ops each reads results
    of the one before, which nothing reads after. The first value that is yielded is
    made last; any other one is read by the last row op.
    """

    @property
    def row_ops(self) -> Sequence[RowOp]:
        """The ops on rows, in their order."""
        return [op for op in self.block.ops if isinstance(op, RowOp)]

    @property
    def kept(self) -> SSAValue | None:
        """The operand of the last row op, if that is a result as well."""
        return self.yielded[1] if len(self.yielded) > 1 else None

    def infer_types(self) -> Sequence[TensorType]:
        self._verify_body()
        rows = self.row_ops
        type = tensor_type(rows[0].results[0])
        if type.get_num_dims() < 2 or not isinstance(type.element_type, AnyFloat):
            raise VerifyException(f"rows should be those of floats, got {type}")
        for row in rows:
            if not row.is_of_rows():
                raise VerifyException(f"{row.name} should be along the last dimension")
            if row.results[0].type != type:
                raise VerifyException(
                    f"all rows should be those of {type}, got {row.results[0].type}"
                )
        for operand in map(tensor_type, self.block.args):
            verify_broadcast(operand, type)
        for value in self.yielded:
            if value.type != type:
                raise VerifyException(
                    f"expected {type} to be yielded, got {value.type}"
                )
        first, *others = self.yielded
        source = rows[-1].operands[0]
        if not self._is_after(first) or any(value is not source for value in others):
            raise VerifyException(
                "the body should yield what it makes last, then what its last op on "
                "rows reads"
            )
        self._verify_order(rows)
        return [type for _ in self.yielded]

    def _is_after(self, value: SSAValue) -> bool:
        last = self.block.last_op
        return last is not None and value.owner is last.prev_op

    def _verify_order(self, rows: Sequence[RowOp]) -> None:
        """
        Raise `VerifyException` if an op reads results of one row op after the next one
        has read them. Values that are kept are there all the time.
        """
        number = {row: index for index, row in enumerate(rows)}
        made: dict[SSAValue, int] = {}
        """The number of the op on rows that each value is made of."""
        for op in self.block.ops:
            read = {made[value] for value in op.operands if value in made}
            if isinstance(op, RowOp):
                if number[op] and made.get(op.operands[0]) != number[op] - 1:
                    text = f"{op.name} should read what the op on rows before it makes"
                    raise LocatedVerifyException([(op, text)])
                if self.kept is op.operands[0]:
                    made.pop(op.operands[0], None)
                made[op.results[0]] = number[op]
            elif len(read) > 1:
                text = f"{op.name} reads rows that are gone"
                raise LocatedVerifyException([(op, text)])
            elif is_elementwise(op) and read:
                made[op.results[0]] = read.pop()
        last = self.yielded[0]
        if made.get(last) != len(rows) - 1:
            raise VerifyException("what is made last should be made of the last rows")

    def _verify_body(self) -> None:
        refuse_others(self.block, RowOp, "computed row by row")
        for row in self.row_ops:
            if any(parameter not in self.block.args for parameter in row.operands[1:]):
                text = f"parameters of {row.name} should be arguments of the body"
                raise LocatedVerifyException([(row, text)])

    def in_place_pairs(self, ins: Sequence[SSAValue]) -> Sequence[InPlacePair]:
        """
        Results are written while rows are read, at each index after its last read. No
        result may lie over an operand of elementwise ops after the first row op, or of
        values that are kept after the last one.
        """
        rows = self.row_ops
        late = [self._late_arguments(row) for row in (rows[0], rows[-1])]
        parameters = {value for row in rows for value in row.operands[1:]}
        return tuple(
            InPlacePair(number, result)
            for number, arg in enumerate(self.block.args)
            for result, value in enumerate(self.yielded)
            if arg not in late[result] and arg not in parameters
            if same_layout(tensor_type(arg), tensor_type(value))
        )

    def _late_arguments(self, row: RowOp) -> set[SSAValue]:
        """The arguments that ops after an op on rows read, also by way of others."""
        rows = self.row_ops
        results = {op.results[0] for op in rows}
        kept = self.kept if row is rows[-1] else None
        pending = [
            value
            for op in _after(row)
            for value in (op.operands[:1] if op in rows else op.operands)
        ]
        late: set[SSAValue] = set()
        while pending:
            value = pending.pop()
            if isinstance(value.owner, Block):
                late.add(value)
            elif value not in results and value is not kept:
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
        rank = len(extents) + 1
        operands = (
            broadcast_map(memref_type(value).get_shape(), rank) for value in ins
        )
        maps = [*operands, *[AffineMap.identity(rank)] * len(outs)]
        build_row(
            k,
            [rank - 1],
            ins,
            outs,
            maps,
            lambda k, args: self._build_point(k, args, shape[-1]),
        )

    def _build_point(
        self, k: KernelBuilder, args: Sequence[SSAValue], extent: int
    ) -> Sequence[SSAValue]:
        """
        Build the elements of results at one place. The operand of an op on rows is
        kept, unless it is that of the group.
        """
        values: dict[SSAValue, SSAValue] = dict(zip(self.block.args, args, strict=True))
        for op in self.members:
            operands = [values[value] for value in op.operands]
            if not isinstance(op, RowOp):
                values[op.results[0]] = member_scalar(k, op, operands)
                continue
            source = op.operands[0]
            value, *parameters = operands
            if source is self.kept:
                value = values[source] = keep(k, value)
            elif not isinstance(source.owner, Block):
                value = keep(k, value)
            values[op.results[0]] = op.build_point(k, value, parameters, extent)
        return [values[value] for value in self.yielded]

    def _is_flat(self, shape: Sequence[int]) -> bool:
        """Whether rows of all operands are contiguous, or are the same."""
        return all(
            arg.get_shape() == tuple(shape) or prod(arg.get_shape()[:-1]) == 1
            for arg in map(tensor_type, self.block.args)
        )

    @staticmethod
    def _flat(value: SSAValue, shape: Sequence[int]) -> tuple[int, ...]:
        own = memref_type(value).get_shape()
        last = own[-1] if own else 1
        return (prod(own[:-1]), last)


def _after(op: Operation) -> Sequence[Operation]:
    """The ops that follow one in its block."""
    found: list[Operation] = []
    following = op.next_op
    while following is not None:
        found.append(following)
        following = following.next_op
    return found
