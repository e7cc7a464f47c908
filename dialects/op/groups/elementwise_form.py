"""Groups without a root: ops on elements, without tensors between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.groups.group_form import (
    GroupForm,
    build_scalars,
    refuse_others,
    types_of,
    verify_broadcast,
)
from penstock.dialects.op.sbp import SbpSignature, broadcast_signatures
from penstock.dialects.op.tensor_op import InPlacePair
from penstock.dialects.utils.tensors import (
    are_compatible,
    same_layout,
    shape_text,
    tensor_type,
)

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder


class ElementwiseForm(GroupForm):
    """
    Ops on elements, computed in one loop nest over the elements of the results, which
    have one shape.
    """

    def infer_types(self) -> Sequence[TensorType]:
        refuse_others(self.block, None, "fused element by element")
        types = types_of(self.yielded)
        shapes = [type.get_shape() for type in types]
        for type, shape in zip(types, shapes, strict=True):
            if not are_compatible(TensorType(type.element_type, shapes[0]), type):
                raise VerifyException(
                    f"results should have one shape, got {shape_text(shapes[0])} and "
                    f"{shape_text(shape)}"
                )
        for operand in map(tensor_type, self.block.args):
            verify_broadcast(operand, types[0])
        return types

    def in_place_pairs(self, ins: Sequence[SSAValue]) -> Sequence[InPlacePair]:
        """All operands of an element are read before its results are written."""
        return tuple(
            InPlacePair(operand, result)
            for result, made in enumerate(types_of(self.yielded))
            for operand, read in enumerate(types_of(self.block.args))
            if same_layout(read, made)
        )

    def sbp_signatures(self) -> Sequence[SbpSignature]:
        shapes = [type.get_shape() for type in types_of(self.block.args)]
        result = tensor_type(self.yielded[0]).get_shape()
        found = broadcast_signatures(shapes, result)
        count = len(self.yielded)
        return [SbpSignature(each.operands, each.results * count) for each in found]

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        k.map(ins, outs, self.scalars)

    def scalars(
        self, k: KernelBuilder, operands: Sequence[SSAValue]
    ) -> Sequence[SSAValue]:
        """Build what computes one element of each result."""
        given = dict(zip(self.block.args, operands, strict=True))
        values = build_scalars(k, self.members, {**given})
        return [values[value] for value in self.yielded]
