"""
The split of a contraction whose start or finish a target cannot compute with its sums:
into stages of `linalg` before and after it.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Region
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects.kernel.builder import KernelBuilder
from penstock.dialects.kernel.contract import FACTORS, ContractOp
from penstock.dialects.kernel.interface import NO_FINISH
from penstock.dialects.utils.half_precision import compute_in_f32
from penstock.lowering.codegen.body.epilogue import Unfit


def split_contraction(op: ContractOp, unfit: Unfit) -> ContractOp:
    """
    A contraction in place of one whose result holds its sums, that leaves what does not
    fit to stages before and after it; the op itself if all fits. Its attribute
    `no_finish` says why.
    """
    if unfit.start is None and unfit.finish is None:
        return op
    assert op.is_held, "only such are split"
    (out,), maps = op.outs, op.maps()
    start, start_map = op.start, op.start_map
    if unfit.start is not None:
        _insert(op.build_start, InsertPoint.before(op))
        start, start_map = out, maps[FACTORS]
    extra, extra_maps, finish = [*op.extra], op.extra_maps, op.finish
    if unfit.finish is not None:
        _insert(op.build_finish, InsertPoint.after(op))
        extra, extra_maps, finish = [], (), None
    made = ContractOp(
        (op.a, op.b),
        [out],
        [
            *maps[: FACTORS + 1],
            *([] if start_map is None else [start_map]),
            *extra_maps,
        ],
        start=start,
        extra=extra,
        finish=None if finish is None else finish.clone(),
        accumulate=op.accumulate,
        unsigned=op.unsigned,
    )
    made.attributes.update(op.attributes)
    reasons = zip(("start", "finish"), unfit, strict=True)
    text = "; ".join(f"{name}: {why}" for name, why in reasons if why is not None)
    made.attributes[NO_FINISH] = StringAttr(text)
    made.location = op.location
    Rewriter.insert_op(made, InsertPoint.before(op))
    op.detach()
    op.erase()
    return made


def _insert(build: Callable[[KernelBuilder], None], place: InsertPoint) -> None:
    """Insert stages that are built, with halves computed in `f32`."""
    region = Region(Block())
    build(KernelBuilder(InsertPoint.at_end(region.block)))
    compute_in_f32(region)
    Rewriter.inline_block(region.block, place)
