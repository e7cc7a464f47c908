"""Groups with ops on rows: softmax and norms, with ops on elements around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.op.group_form import (
    GroupForm,
    member_scalar,
    refuse_others,
    verify_broadcast,
)
from penstock.dialects.op.row_ops import Element, Line, Row, RowOp
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp, is_elementwise
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
        k.parallel(
            extents, lambda k, place: _RowKernel(self, ins, outs, place).build(k)
        )

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


@dataclass
class _RowKernel:
    """One row of a group."""

    form: RowForm
    ins: Sequence[SSAValue]
    outs: Sequence[SSAValue]
    place: Sequence[SSAValue]
    _built: dict[tuple[SSAValue, SSAValue], SSAValue] = field(
        default_factory=dict[tuple[SSAValue, SSAValue], SSAValue]
    )
    """Elements by value and index: each loop has its own index."""
    _results: dict[Operation, Element] = field(default_factory=dict[Operation, Element])
    """The functions that compute elements of the results of row ops."""

    def __post_init__(self) -> None:
        members: list[Operation] = [*self.form.members]
        passed = accumulate(isinstance(op, RowOp) for op in members)
        self._segments = dict(zip(members, passed, strict=True))
        """The number of ops on rows up to each op."""

    def build(self, k: KernelBuilder) -> None:
        """
        Build the loops over the row. The operand of each row op lies in the row of the
        result, over that of the one before it, or in the row of a value that is kept.
        """
        line, *others = (Line(out, self.place) for out in self.outs)
        kept = others[0] if others else None
        *before, last = self.form.row_ops
        for row_op in before:
            self._results[row_op] = self._build_op(k, row_op, line, None)
        self._results[last] = self._build_op(k, last, line, kept)

        def write(k: KernelBuilder, index: SSAValue) -> None:
            if kept is not None:
                self._built[last.operands[0], index] = kept.load(k, index)
            line.store(k, self._element(k, self.form.yielded[0], index), index)

        k.each(line.extent, write)

    def _build_op(
        self, k: KernelBuilder, op: RowOp, scratch: Line, kept: Line | None
    ) -> Element:
        """Build what makes a row of an op, and return how its elements are computed."""
        source, type = op.operands[0], memref_type(scratch.memref).element_type
        row = Row(
            scratch.extent, type, lambda k, i: self._element(k, source, i), scratch
        )
        if kept is not None or not isinstance(source.owner, Block):
            row.home = kept or scratch
        return op.build_row(k, row, [self._loader(value) for value in op.operands[1:]])

    def _loader(self, value: SSAValue) -> Element:
        return lambda k, index: self._element(k, value, index)

    def _element(self, k: KernelBuilder, value: SSAValue, i: SSAValue) -> SSAValue:
        """
        Build an element of a value inside the body, with all that it is made of. Of the
        ops between two ops on rows comes first what they read of others.
        """
        if (value, i) not in self._built:
            members = self._makers(value)
            made = {op.results[0] for op in members}
            read = (operand for op in members for operand in op.operands)
            for leaf in dict.fromkeys(read):
                if leaf not in made:
                    self._element(k, leaf, i)
            for op in members:
                self._build_member(k, op, i)
            if not members:
                self._built[value, i] = self._leaf(k, value, i)
        return self._built[value, i]

    def _build_member(self, k: KernelBuilder, op: TensorOp, i: SSAValue) -> None:
        if (op.results[0], i) not in self._built:
            operands = [self._built[operand, i] for operand in op.operands]
            self._built[op.results[0], i] = member_scalar(k, op, operands)

    def _makers(self, value: SSAValue) -> list[TensorOp]:
        """
        The ops on elements that make a value, in their order, back to the op on rows
        before it.
        """
        pending, found = [value], set[Operation]()
        while pending:
            owner = pending.pop().owner
            if isinstance(owner, Block | RowOp) or owner in found:
                continue
            found.add(owner)
            between = self._segments[owner]
            pending += [x for x in owner.operands if self._is_of(x, between)]
        return [op for op in self.form.members if op in found]

    def _is_of(self, value: SSAValue, between: int) -> bool:
        owner = value.owner
        return isinstance(owner, Operation) and self._segments[owner] == between

    def _leaf(self, k: KernelBuilder, value: SSAValue, index: SSAValue) -> SSAValue:
        if isinstance(value.owner, Block):
            return self._argument(k, value, index)
        return self._results[value.owner](k, index)

    def _argument(self, k: KernelBuilder, value: SSAValue, index: SSAValue) -> SSAValue:
        """Load an element of an operand, which is broadcast to the rows."""
        memref = self.ins[self.form.block.args.index(value)]
        shape = memref_type(memref).get_shape()
        indices = [*self.place, index][len(self.place) + 1 - len(shape) :]
        return k.load(
            memref,
            [
                k.index(0) if extent == 1 else at
                for extent, at in zip(shape, indices, strict=True)
            ],
        )
