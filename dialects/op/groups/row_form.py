"""Groups of rows: reductions, softmax and norms, with ops on elements around them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeVar

from xdsl.dialects.builtin import AnyFloat, TensorType
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.builder import KernelBuilder, as_memref
from penstock.dialects.kernel.row import RowOp as RowStage
from penstock.dialects.kernel.row_builder import build_row, keep
from penstock.dialects.kernel.row_keeps import add_keeps
from penstock.dialects.kernel.row_passes import read_late
from penstock.dialects.op.groups.group_form import (
    GroupForm,
    member_scalar,
    refuse_others,
)
from penstock.dialects.op.groups.row_space import Lies, MergedSpace, RowRoot, RowSpace
from penstock.dialects.op.reduction import ReduceOp
from penstock.dialects.op.row_ops import RowOp
from penstock.dialects.op.sbp import RECENT
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp, is_elementwise
from penstock.dialects.utils.diagnostics import LocatedVerifyException
from penstock.dialects.utils.structural_keys import KernelKey, block_structure
from penstock.dialects.utils.tensors import element_count, same_layout, tensor_type

_T = TypeVar("_T")

_PAIRS: dict[KernelKey, tuple[InPlacePair, ...]] = {}
"""
The pairs of recent groups by their structure: most passes after fusion ask for them,
and finding them takes building the stage of a group.
"""

_BODIES: dict[KernelKey, Region] = {}
"""The bodies of these stages, until the kernel of a group takes its own."""


def _remember(known: dict[KernelKey, _T], key: KernelKey, value: _T) -> None:
    """Note a value in a table of recent ones."""
    if len(known) == RECENT:
        known.pop(next(iter(known)))
    known[key] = value


class RowForm(GroupForm):
    """
    Reductions, or ops on rows (a softmax, or a normalization along the last dimension),
    all of the same rows, with ops on elements of rows, or on one element for each row.
    A row is computed after another one, in as many passes as its folds need. Results
    are rows, or have one element for each.
    """

    @property
    def roots(self) -> Sequence[RowRoot]:
        """The ops on rows, in their order."""
        return [op for op in self.block.ops if isinstance(op, ReduceOp | RowOp)]

    @property
    def space(self) -> RowSpace:
        """The rows."""
        return RowSpace.of(self.roots[0])

    def infer_types(self) -> Sequence[TensorType]:
        refuse_others(self.block, ReduceOp | RowOp, "computed row by row")
        space = self.space
        for root in self.roots:
            self._verify_root(root, space)
        places = space.placed(self.members)
        for value in self.yielded:
            lies = places.get(value)
            is_made = isinstance(value.owner, Operation)
            if lies is None or not is_made:
                raise VerifyException("a group of rows yields what its ops make")
            if not (space.has_points(lies) or space.is_of_row(lies)):
                raise VerifyException(
                    "expected rows or an element for each row to be yielded, got "
                    f"{value.type}"
                )
        return [tensor_type(value) for value in self.yielded]

    def _verify_root(self, root: RowRoot, space: RowSpace) -> None:
        if isinstance(root, RowOp):
            type = tensor_type(root.results[0])
            if type.get_num_dims() < 2 or not isinstance(type.element_type, AnyFloat):
                raise VerifyException(f"rows should be those of floats, got {type}")
            if not root.is_of_rows():
                raise VerifyException(f"{root.name} should be along the last dimension")
            if any(value not in self.block.args for value in root.parameters):
                text = f"parameters of {root.name} should be arguments of the body"
                raise LocatedVerifyException([(root, text)])
        if (own := RowSpace.of(root)) != space:
            raise VerifyException(f"all rows should be those of {space}, got {own}")

    def flops(self) -> int:
        """
        Scalar operations of one execution: an op on elements is computed at each point,
        or once for each row.
        """
        space = self.space
        places = space.placed(self.members)

        def count_of(op: TensorOp) -> int:
            if not is_elementwise(op):
                return op.flops()
            lies = places[op.results[0]]
            has_points = prod(lies.extents(space.along)) > 1 or space.has_points(lies)
            count = prod(space.shape) if has_points else space.row_count
            return op.flops() * count // max(1, element_count(op.results[0].type))

        return sum(map(count_of, self.members))

    def in_place_pairs(self, ins: Sequence[SSAValue]) -> Sequence[InPlacePair]:
        """The pairs that the stage of rows may have as one memref."""
        key = block_structure(self.block, {})
        if (known := _PAIRS.get(key)) is None:
            known = tuple(self._find_pairs(key))
            _remember(_PAIRS, key, known)
        return known

    def _find_pairs(self, key: KernelKey) -> Sequence[InPlacePair]:
        arguments, space = self.block.args, self.space
        pairs = [
            InPlacePair(operand, result)
            for result, value in enumerate(self.yielded)
            if tuple(tensor_type(value).get_shape()) == space.shape
            for operand, argument in enumerate(arguments)
            if same_layout(tensor_type(argument), tensor_type(value))
        ]
        if not pairs:
            return []
        values = (*arguments, *self.yielded)
        block = Block(arg_types=[as_memref(value.type) for value in values])
        count, k = len(arguments), KernelBuilder(InsertPoint.at_end(block))
        memrefs = block.args[:count], block.args[count:]
        row = self._row(k, space.whole(), self._places(), *memrefs)
        passes, elements = add_keeps(row).passes, row.body.block.args
        late = [read_late(passes, result) for result in range(len(self.yielded))]
        found = [x for x in pairs if elements[x.operand] not in late[x.result]]
        if 1 not in space.shape:
            # Else loops of one point, which no index says, may be those of others.
            _remember(_BODIES, key, row.detach_region(row.body))
        return found

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        operands, results = places = self._places()
        merged = self.space.merged([*operands, *results])

        def viewed(values: Sequence[SSAValue], lies: Sequence[Lies]) -> list[SSAValue]:
            pairs = zip(values, lies, strict=True)
            return [k.view(value, merged.shape_of(each)) for value, each in pairs]

        ins, outs = viewed(ins, operands), viewed(outs, results)
        body = _BODIES.pop(block_structure(self.block, {}), None)
        if body is None:
            add_keeps(self._row(k, merged, places, ins, outs))
        else:
            maps = [merged.map_of(lies) for lies in (*operands, *results)]
            k.effect(RowStage(merged.along, maps, ins, outs, body))

    def _places(self) -> tuple[Sequence[Lies], Sequence[Lies]]:
        """Where operands and results have their elements."""
        places = self.space.placed(self.members)
        operands = [places.get(arg, Lies((), ())) for arg in self.block.args]
        return operands, [places[value] for value in self.yielded]

    def _row(
        self,
        k: KernelBuilder,
        merged: MergedSpace,
        places: tuple[Sequence[Lies], Sequence[Lies]],
        ins: Sequence[SSAValue],
        outs: Sequence[SSAValue],
    ) -> RowStage:
        """Build the stage, over the loops of a space, before it keeps values."""
        operands, results = places
        maps = [merged.map_of(lies) for lies in (*operands, *results)]
        return build_row(k, merged.along, ins, outs, maps, self._build_point)

    def _build_point(
        self, k: KernelBuilder, args: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        """
        Build the elements of results at one point. The operand of a softmax or norm is
        kept, unless it is that of the group.
        """
        extent = prod(self.space.shape[loop] for loop in self.space.along)
        values: dict[SSAValue, SSAValue] = dict(zip(self.block.args, args, strict=True))
        for op in self.members:
            operands = [values[value] for value in op.operands]
            match op:
                case ReduceOp():
                    made = op.build_point(k, operands[0])
                case RowOp():
                    row = op.operands[0]
                    # Of several rows there may not be room for each.
                    if op.rows_read == 1 and isinstance(row.owner, Operation):
                        operands[0] = keep(k, operands[0])
                    if row in self.yielded:
                        values[row] = operands[0]
                    made = op.build_point(k, operands, extent)
                case _:
                    made = member_scalar(k, op, operands)
            values[op.results[0]] = made
        return [values[value] for value in self.yielded]
