"""Groups with a reduction: the elements that it combines are computed on the way."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.kernel.row_builder import build_row
from penstock.dialects.op.group_form import (
    GroupForm,
    build_scalars,
    refuse_others,
    verify_broadcast,
)
from penstock.dialects.op.reduction import ReduceOp
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp
from penstock.dialects.utils.diagnostics import LocatedVerifyException
from penstock.dialects.utils.tensors import element_count, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder


class ReductionForm(GroupForm):
    """
    A reduction along the last axes, whose result is the group's, and the ops on
    elements that make its operand. Operands have the shape of that, or one element.
    """

    @property
    def root(self) -> ReduceOp:
        """The reduction."""
        (root,) = (op for op in self.members if isinstance(op, ReduceOp))
        return root

    @property
    def before(self) -> list[TensorOp]:
        """The ops on elements, and constants."""
        return [op for op in self.members if not isinstance(op, ReduceOp)]

    def infer_types(self) -> Sequence[TensorType]:
        refuse_others(self.block, ReduceOp, "combined in a group")
        roots = [op for op in self.members if isinstance(op, ReduceOp)]
        for op in roots[1:]:
            text = f"a group has one reduction, got {op.name} besides {roots[0].name}"
            raise LocatedVerifyException([(op, text)])
        root, type = roots[0], tensor_type(roots[0].operand)
        if [*self.yielded] != [root.result] or not root.result.has_one_use():
            raise VerifyException(f"a group yields what its {root.name} makes, once")
        if not root.is_of_rows:
            raise VerifyException(f"{root.name} should be along the last axes")
        for operand in map(tensor_type, self.block.args):
            verify_broadcast(operand, type)
            if operand.get_shape() != type.get_shape() and element_count(operand) != 1:
                raise VerifyException(
                    f"operands should have the shape of {type} or one element, got "
                    f"{operand}"
                )
        return [tensor_type(root.result)]

    def flops(self) -> int:
        count = element_count(self.root.operand.type)
        return self.root.flops() + sum(
            op.flops() * count // max(1, element_count(op.results[0].type))
            for op in self.before
        )

    def in_place_pairs(self, ins: Sequence[SSAValue]) -> Sequence[InPlacePair]:
        return ()

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        root, shape = self.root, tensor_type(self.root.operand).get_shape()
        split = len(shape) - len(root.normal_axes)
        rows, columns = prod(shape[:split]), prod(shape[split:])
        out = k.view(outs[0], [rows])
        whole = [memref_type(value).get_shape() == shape for value in ins]
        ins = [
            k.view(value, [rows, columns] if is_whole else [1])
            for value, is_whole in zip(ins, whole, strict=True)
        ]
        of_element = AffineMap(2, 0, (AffineExpr.constant(0),))
        maps = [AffineMap.identity(2) if each else of_element for each in whole]
        of_row = AffineMap(2, 0, (AffineExpr.dimension(0),))
        build_row(k, [1], ins, [out], [*maps, of_row], self._build_point)

    def _build_point(
        self, k: KernelBuilder, args: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        given: dict[SSAValue, SSAValue] = dict(zip(self.block.args, args, strict=True))
        element = build_scalars(k, self.before, given)[self.root.operand]
        return [self.root.build_point(k, element)]
