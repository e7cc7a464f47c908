"""
Forms of `op.fused`: the rules, cost and kernel that follow from the root of a group.

A group has ops on elements, and at most one kind of *root*: a contraction
(`contraction_form.py`), reductions and ops on rows (`row_form.py`), or none
(`elementwise_form.py`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import UnionType
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.sbp import SbpSignature
from penstock.dialects.op.tensor_op import (
    FusibleOp,
    InPlacePair,
    TensorOp,
    is_elementwise,
)
from penstock.dialects.utils.diagnostics import LocatedVerifyException
from penstock.dialects.utils.tensors import (
    are_compatible,
    broadcast_shapes,
    element_count,
    shape_text,
    tensor_type,
)

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array


class GroupForm(ABC):
    """
    The way to compute the ops of a block together. Its arguments are the operands of
    the group, its terminator has the results.
    """

    def __init__(self, block: Block) -> None:
        self.block = block

    @property
    def yielded(self) -> Sequence[SSAValue]:
        """The values of the block that the results are."""
        assert self.block.last_op is not None, "checked by the verifier"
        return self.block.last_op.operands

    @property
    def members(self) -> list[TensorOp]:
        """The ops that are computed, in order; constants are among them."""
        return [op for op in self.block.ops if isinstance(op, TensorOp)]

    @abstractmethod
    def infer_types(self) -> Sequence[TensorType]:
        """
        The types of the results. Raises `VerifyException` unless the ops can be
        computed together.
        """

    def flops(self) -> int:
        """
        Scalar operations of one execution, which computes every op on elements once for
        each element of the result, also those that alone would have fewer elements.
        """
        count = element_count(self.yielded[0].type)
        return sum(
            op.flops() * count // max(1, element_count(op.results[0].type))
            if is_elementwise(op)
            else op.flops()
            for op in self.members
        )

    @abstractmethod
    def in_place_pairs(self, ins: Sequence[SSAValue]) -> Sequence[InPlacePair]:
        """
        The pairs of one of the operands `ins` and a result that may share their bytes.
        """

    def sbp_signatures(self) -> Sequence[SbpSignature]:
        """The ways to run the group in parts."""
        return ()

    @abstractmethod
    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        """Build the body of the group's kernel, as `TensorOp.build_kernel` does."""


def refuse_others(
    block: Block, roots: type[TensorOp] | UnionType | None, how: str
) -> None:
    """
    Raise `VerifyException` for an op of a group that is none on elements, no constant
    with equal elements, no root and not the terminator: it cannot be computed `how`.
    """
    for op in block.ops:
        is_root = roots is not None and isinstance(op, roots)
        if is_root or is_elementwise(op) or is_splat(op) or op is block.last_op:
            continue
        text = f"{op.name} cannot be {how}"
        raise LocatedVerifyException([(op, text)])


def is_splat(op: Operation) -> bool:
    """Whether an op is a constant all of whose elements are the same."""
    return isinstance(op, ConstantOp) and op.splat is not None


def build_scalars(
    k: KernelBuilder, members: Sequence[TensorOp], values: dict[SSAValue, SSAValue]
) -> dict[SSAValue, SSAValue]:
    """
    Build what computes one element of each op on elements, given the scalars of what
    they read; all of them are returned.
    """
    for op in members:
        values[op.results[0]] = member_scalar(
            k, op, [values[value] for value in op.operands]
        )
    return values


def member_scalar(
    k: KernelBuilder, op: TensorOp, operands: Sequence[SSAValue]
) -> SSAValue:
    """Build what computes one element of an op on elements or of a constant."""
    if isinstance(op, ConstantOp):
        assert op.splat is not None, "checked by the verifier"
        return k.constant(op.splat, op.value.get_element_type())
    assert isinstance(op, FusibleOp), "checked by the verifier"
    return op.scalar(k, operands)


def verify_broadcast(operand: TensorType, result: TensorType) -> None:
    """Raise `VerifyException` unless NumPy broadcasts the operand to the result."""
    shapes = operand.get_shape(), result.get_shape()
    shape = broadcast_shapes(shapes)
    if not are_compatible(result, TensorType(result.element_type, shape)):
        raise VerifyException(
            f"an operand of shape {shape_text(shapes[0])} does not broadcast to the "
            f"result's {shape_text(shapes[1])}"
        )


def evaluate_block(
    block: Block, values: dict[SSAValue, Array]
) -> dict[SSAValue, Array]:
    """
    The values of a block of tensor ops in terms of NumPy, given those it starts from.
    """
    for op in block.ops:
        if isinstance(op, TensorOp):
            results = op.evaluate(*(values[operand] for operand in op.operands))
            values.update(zip(op.results, results, strict=True))
    return values


def types_of(values: Sequence[SSAValue]) -> list[TensorType]:
    """The types of tensors."""
    return [tensor_type(value) for value in values]
