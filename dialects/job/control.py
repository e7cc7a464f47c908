"""Ordering of ops of a job where no data orders them: `job.after` and `job.commit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.interfaces import HasCanonicalizationPatternsInterface
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.pattern_rewriter import (
    PatternRewriter,
    RewritePattern,
    op_type_rewrite_pattern,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job.ports import AnyTensor
from penstock.dialects.utils.attributes import (
    OF_VALUES,
    KnownAttributes,
    replace_by_value,
)
from penstock.dialects.utils.gradients import Differentiable, only

if TYPE_CHECKING:
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients

OF_A_TASK = ("operand_sbp", "placement", "sbp", "slots")
"""The attributes that say how an op runs."""


@irdl_op_definition
class AfterOp(IRDLOperation, Differentiable, HasCanonicalizationPatternsInterface):
    """
    The first tensor, which is there only once the others are: whatever reads the result
    runs after all that makes the others. It lies as the first tensor does, wherever
    the others are, and takes no time: there is no task for it.

    ```mlir
    %y = job.after %x, %w, %h : tensor<4xf32>, tensor<8xf32>, tensor<f32>
    ```
    """

    name = "job.after"

    T: ClassVar = VarConstraint("T", AnyTensor)

    value = operand_def(T)
    others = var_operand_def(AnyTensor)
    result = result_def(T)

    traits = traits_def(KnownAttributes(*OF_VALUES), Pure())

    assembly_format = (
        "$value (`,` $others^)? attr-dict `:` type($value) (`,` type($others)^)?"
    )

    def __init__(
        self,
        value: SSAValue | Operation,
        others: Sequence[SSAValue | Operation],
    ):
        value = SSAValue.get(value)
        super().__init__(operands=[value, others], result_types=[value.type])

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        return [only(grads), *[None] * len(self.others)]

    @classmethod
    def get_canonicalization_patterns(cls) -> tuple[RewritePattern, ...]:
        return (AfterNothing(),)

    def verify_(self) -> None:
        for key in OF_A_TASK:
            if key in self.attributes:
                raise VerifyException(
                    f"job.after lies as its first operand does, and takes no {key}"
                )


class AfterNothing(RewritePattern):
    """
    after(x) = x.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AfterOp, rewriter: PatternRewriter) -> None:
        if not op.others:
            replace_by_value(op, op.value, rewriter)


@irdl_op_definition
class CommitOp(IRDLOperation):
    """
    The point from which on a piece of a job can no longer fail: the task of this acts
    after all tasks of its piece that can, and before assignments to variables.

    ```mlir
    job.commit
    ```
    """

    name = "job.commit"

    traits = traits_def(KnownAttributes(), MemoryReadEffect(), MemoryWriteEffect())

    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()


def origin_of(value: SSAValue) -> SSAValue:
    """The value that comes to a `job.after` first, by way of any number of them."""
    while isinstance(owner := value.owner, AfterOp):
        value = owner.value
    return value
