"""
The split of sums whose start or finish a target cannot compute with them: into stages
of `linalg` before and after them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Region
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.common_subexpression_elimination import cse

from penstock.dialects.kernel.builder import KernelBuilder
from penstock.dialects.kernel.interface import NO_FINISH
from penstock.dialects.kernel.sums import Operand, SumOp
from penstock.dialects.utils.half_precision import compute_in_f32
from penstock.lowering.codegen.body.epilogue import Unfit

OpT = TypeVar("OpT", bound=SumOp)


def split_sums(op: OpT, unfit: Unfit) -> OpT:
    """
    Sums in place of those whose result holds them, that leave what does not fit to
    stages before and after them; the op itself if all fits. Its attribute `no_finish`
    says why.
    """
    if unfit.start is None and unfit.finish is None:
        return op
    held = op.held
    assert held is not None, "only such are split"
    start: Operand | None = None
    if op.start is not None and op.start_map is not None:
        start = op.start, op.start_map
    if unfit.start is not None:
        _insert(op.build_start, InsertPoint.before(op))
        start = held, op.maps()[op.held_at]
    if unfit.finish is not None:
        _insert(op.build_finish, InsertPoint.after(op))
        made = op.without_finish(start)
    else:
        made = op.started_from(start)
    made.attributes.update(op.attributes)
    reasons = zip(("start", "finish"), unfit, strict=True)
    text = "; ".join(f"{name}: {why}" for name, why in reasons if why is not None)
    made.attributes[NO_FINISH] = StringAttr(text)
    made.location = op.location
    Rewriter.insert_op(made, InsertPoint.before(op))
    op.detach()
    op.erase()
    # Constants of stages are shared now, as passes that run again would share them.
    if (region := made.parent_region()) is not None:
        cse(region)
    return made


def _insert(build: Callable[[KernelBuilder], None], place: InsertPoint) -> None:
    """Insert stages that are built, with halves computed in `f32`."""
    region = Region(Block())
    build(KernelBuilder(InsertPoint.at_end(region.block)))
    compute_in_f32(region)
    Rewriter.inline_block(region.block, place)
