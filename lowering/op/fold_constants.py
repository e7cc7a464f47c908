"""
Constant folding: compute when compiling what does not depend on a job's inputs.

The ops of each job are visited in order. A tensor op all of whose operands are
`op.constant`s is replaced by `op.constant`s with what its NumPy meaning gives, bit for
bit. An op is left alone if a result would have more than `max_elements` elements or a
shape that is not known, or if it cannot be computed (an index out of range stays an
error of the run). `op.triangle` of two numbers stays, too: it says in a line what a
matrix says. The constants that nothing uses any more are left to `dce`.

Example: `test/lowering/op/op-fold-constants-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.job import JobOp
from penstock.dialects.op import ConstantOp
from penstock.dialects.op.in_place import IN_PLACE
from penstock.dialects.op.multirate import RateOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.triangle import TriangleOp
from penstock.dialects.utils.attributes import carry_with_body, replace_op
from penstock.dialects.utils.numpy_types import array_of, dense_of
from penstock.dialects.utils.pass_events import count
from penstock.dialects.utils.tensors import tensor_type
from penstock.dialects.utils.walk import outermost

if TYPE_CHECKING:
    from penstock.dialects.utils.tensors import Array


def is_small(op: TensorOp, max_elements: int) -> bool:
    """Whether all results are known to have at most so many elements."""
    types = [tensor_type(result) for result in op.results]
    return all(
        type.has_static_shape() and type.element_count() <= max_elements
        for type in types
    )


def constant_operands(op: TensorOp) -> list[ConstantOp] | None:
    """The ops that make the operands, or None if not all are constants."""
    owners = [operand.owner for operand in op.operands]
    constants = [owner for owner in owners if isinstance(owner, ConstantOp)]
    return constants if len(constants) == len(owners) else None


def is_filled_beyond(constant: ConstantOp, max_elements: int) -> bool:
    """Whether a constant is one number for more elements, which take no memory yet."""
    return constant.splat is not None and len(constant.value) > max_elements


def computed(op: TensorOp, operands: Sequence[ConstantOp]) -> Sequence[Array] | None:
    """The results of an op on constants, or None if they cannot be computed."""
    import numpy as np

    try:
        # Infinities and NaNs are results like any other.
        with np.errstate(all="ignore"):
            return op.meaning(*(array_of(operand.value) for operand in operands))
    except (ArithmeticError, LookupError, ValueError):
        return None


def fold(op: TensorOp, max_elements: int) -> None:
    """Replace an op by its results if they are constants."""
    if isinstance(op, ConstantOp) or not is_small(op, max_elements):
        return
    if (operands := constant_operands(op)) is None:
        return
    if isinstance(op, TriangleOp) and all(x.splat is not None for x in operands):
        return
    if any(is_filled_beyond(operand, max_elements) for operand in operands):
        return
    if (arrays := computed(op, operands)) is None:
        return
    constants = [ConstantOp(dense_of(array)) for array in arrays]
    types: list[Attribute] = [constant.result.type for constant in constants]
    if types != list(op.result_types):
        return
    for constant in constants:
        constant.attributes.update(op.attributes)
        # A constant has no operands to lie over.
        constant.attributes.pop(IN_PLACE, None)
        constant.location = op.location
        carry_with_body(op, constant)
    count("ops folded")
    replace_op(op, constants, [constant.result for constant in constants])


@dataclass(frozen=True)
class OpFoldConstantsPass(ModulePass):
    """
    Replace tensor ops on constants by their results.
    """

    name = "op-fold-constants"

    max_elements: int = 65536
    """The most elements that a result may have, or an operand of one number only."""

    def __post_init__(self) -> None:
        if self.max_elements < 0:
            raise PassFailedException(
                f"max_elements must not be negative, got {self.max_elements}"
            )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for job in outermost(op, JobOp):
            for inner in job.body.block.ops:
                if isinstance(inner, TensorOp) and not isinstance(inner, RateOp):
                    fold(inner, self.max_elements)
