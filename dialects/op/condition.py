"""`op.if`: ops of which a condition decides that they run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import TensorType, i1
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.traits import IsolatedFromAbove, NoMemoryEffect, RecursivelySpeculatable
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.backward import gradients_of_body, has_floats
from penstock.dialects.op.body import (
    BodyRun,
    FlowOp,
    YieldOp,
    clone_body,
    verify_members,
    yield_of,
)
from penstock.dialects.op.canonicalization import CanonicalOp, OpPattern
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.flow_edits import (
    drop_reads,
    inline,
    may_change,
    merge_reads,
    unread,
)
from penstock.dialects.op.groups.group_form import evaluate_block
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.utils.attributes import KnownAttributes, replace_op
from penstock.dialects.utils.tensors import are_compatible, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.gradients import GradientBuilder, Gradients
    from penstock.dialects.utils.tensors import Array

CONDITION = TensorType(i1, [])
"""The type of a condition."""


class KnownBranch(OpPattern["IfOp"]):
    """
    A condition that is a constant, or branches that do the same: the ops of one branch.
    """

    def rewrite(self, op: IfOp, rewriter: PatternRewriter) -> None:
        block = op.then.block
        if isinstance(constant := op.condition.owner, ConstantOp):
            if not constant.splat:
                block = op.otherwise.block
        elif not op.then.is_structurally_equivalent(op.otherwise):
            return
        if may_change(op):
            replace_op(op, [], inline(op, block, op.reads, rewriter), rewriter=rewriter)


class SameResult(OpPattern["IfOp"]):
    """
    A value that both branches read and yield is the result, without them.
    """

    def rewrite(self, op: IfOp, rewriter: PatternRewriter) -> None:
        ends = [yield_of(region.block).values for region in op.regions]
        for result, *values in zip(op.outs, *ends, strict=True):
            numbers = {
                value.index if isinstance(value, BlockArgument) else -1
                for value in values
            }
            if result.first_use and len(numbers) == 1 and -1 not in numbers:
                rewriter.replace_all_uses_with(result, op.reads[numbers.pop()])


class UnreadResults(OpPattern["IfOp"]):
    """
    Results that nothing reads are not yielded.
    """

    def rewrite(self, op: IfOp, rewriter: PatternRewriter) -> None:
        wanted = [i for i, result in enumerate(op.outs) if result.first_use]
        if len(wanted) == len(op.outs) or not may_change(op):
            return
        for region in op.regions:
            end = yield_of(region.block)
            replace_op(
                end, YieldOp(*(end.values[i] for i in wanted)), rewriter=rewriter
            )
        regions = [*map(rewriter.move_region_contents_to_new_regions, op.regions)]
        made = IfOp.create(
            operands=op.operands,
            result_types=[op.outs[i].type for i in wanted],
            attributes=op.attributes,
            regions=regions,
            location=op.location,
        )
        results: list[SSAValue | None] = [None] * len(op.outs)
        for number, result in zip(wanted, made.results, strict=True):
            results[number] = result
        replace_op(op, made, results, rewriter=rewriter)


class UnreadValues(OpPattern["IfOp"]):
    """
    A value that neither branch reads is no operand, and one that is read twice is one.
    """

    def rewrite(self, op: IfOp, rewriter: PatternRewriter) -> None:
        if may_change(op) and not merge_reads(op, rewriter) and (found := unread(op)):
            drop_reads(op, found, rewriter)


@irdl_op_definition
class IfOp(FlowOp, CanonicalOp):
    """
    Ops of which a condition, one `i1`, decides that they run: those of the first body
    if it is true, those of the second one if it is not. Each has the values that the op
    `reads` as its arguments, and yields the results.

    ```mlir
    %y = op.if %c reads(%x : tensor<4xf32>) -> tensor<4xf32> {
    ^bb0(%a: tensor<4xf32>):
      %e = op.exp %a : tensor<4xf32> -> tensor<4xf32>
      op.yield %e : tensor<4xf32>
    } else {
    ^bb0(%b: tensor<4xf32>):
      op.yield %b : tensor<4xf32>
    }
    ```
    """

    name = "op.if"
    PATTERNS: ClassVar = (KnownBranch, SameResult, UnreadResults, UnreadValues)

    condition = operand_def(CONDITION)
    reads = var_operand_def(TensorType)
    outs = var_result_def(TensorType)
    then = region_def("single_block")
    otherwise = region_def("single_block")

    traits = traits_def(
        KnownAttributes("no_select"),
        IsolatedFromAbove(),
        NoMemoryEffect(),
        RecursivelySpeculatable(),
    )

    assembly_format = (
        "$condition (`reads` `(` $reads^ `:` type($reads) `)`)? "
        "(`->` type($outs)^)? attr-dict-with-keyword $then `else` $otherwise"
    )

    def __init__(
        self,
        condition: SSAValue | Operation,
        reads: Sequence[SSAValue | Operation],
        then: Region,
        otherwise: Region,
    ):
        types = [value.type for value in yield_of(then.block).values]
        super().__init__(
            operands=[condition, reads],
            result_types=[types],
            regions=[then, otherwise],
        )

    @property
    def read_values(self) -> Sequence[SSAValue]:
        return self.reads

    def argument_types(self) -> Sequence[TensorType]:
        return [tensor_type(value) for value in self.reads]

    def infer_types(self) -> Sequence[TensorType]:
        wanted = self.argument_types()
        yielded: list[list[TensorType]] = []
        for region in self.regions:
            verify_members(region.block, "of a branch")
            given = [tensor_type(arg) for arg in region.block.args]
            if given != wanted:
                raise VerifyException(
                    "the arguments of both bodies should be the values that it reads"
                )
            yielded.append([*map(tensor_type, yield_of(region.block).values)])
        then, otherwise = yielded
        if len(then) != len(otherwise):
            raise VerifyException(
                f"the first body yields {len(then)} values, the second one "
                f"{len(otherwise)}"
            )
        for number, (a, b) in enumerate(zip(then, otherwise, strict=True)):
            if not are_compatible(a, b):
                raise VerifyException(
                    f"value {number} of the first body is {a}, of the second one {b}"
                )
        return then

    def flops(self) -> int:
        """Those of the body with more of them."""
        return max(
            sum(op.flops() for op in region.block.ops if isinstance(op, TensorOp))
            for region in self.regions
        )

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        (run,) = self.runs(*operands)
        return [run.values[value] for value in yield_of(run.block).values]

    def runs(self, *operands: Array) -> Iterator[BodyRun]:
        condition, *given = operands
        block = (self.then if bool(condition) else self.otherwise).block
        values = evaluate_block(block, dict(zip(block.args, given, strict=True)))
        yield BodyRun((), block, values)

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        """
        Under the same condition, those of the body that has run, whose ops are computed
        anew.
        """
        given = [grad for grad in grads if grad is not None]
        by = [i for i, value in enumerate(self.reads) if has_floats(value)]
        bodies = [self._backward(o, region.block, by, grads) for region in self.regions]
        op = IfOp.create(
            operands=[self.condition, *self.reads, *given],
            result_types=[self.reads[i].type for i in by],
            regions=bodies,
        )
        o.insert(op)
        found: list[SSAValue | None] = [None] * len(self.operands)
        for number, result in zip(by, op.results, strict=True):
            found[1 + number] = result
        return found

    def _backward(
        self,
        o: GradientBuilder,
        block: Block,
        by: Sequence[int],
        grads: Sequence[SSAValue | None],
    ) -> Region:
        """The body that computes the gradients of a body by some values it reads."""
        types = [grad.type for grad in grads if grad is not None]
        body = Block(arg_types=[*(value.type for value in self.reads), *types])
        inner = o.within(body)
        made: list[Operation] = []
        reads, left = body.args[: len(self.reads)], [*body.args[len(self.reads) :]]
        ends = clone_body(block, dict(zip(block.args, reads, strict=True)), made)
        seeds = [
            (end, None if grad is None else left.pop(0))
            for end, grad in zip(ends, grads, strict=True)
        ]
        values = [reads[i] for i in by]
        found = gradients_of_body(inner, made, values, seeds)
        body.add_op(
            YieldOp(
                *(
                    inner.zeros(value) if grad is None else grad
                    for value, grad in zip(values, found, strict=True)
                )
            )
        )
        return Region(body)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        raise VerifyException(
            "a condition has no kernel of its own: op-select-branches comes before"
        )
