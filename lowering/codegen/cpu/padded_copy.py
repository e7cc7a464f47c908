"""
Copies of images with a number around them, as loops over their rows.

The elements at both ends of a row are written without a loop, those between them in
one, which loads the nearest row and chooses where there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects import linalg
from xdsl.dialects.builtin import f32, f64
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.pattern_rewriter import PatternRewriteWalker
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.transforms.canonicalize import CanonicalizationRewritePattern
from xdsl.transforms.common_subexpression_elimination import cse

from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.kernel.reference import stages_by
from penstock.dialects.kernel.views import PaddedOp
from penstock.dialects.kernel.windows import Window, are_rows

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder


def copy_by_rows(op: Operation) -> bool:
    """Make loops over rows of a copy of a padded image; whether a stage is one."""
    if not isinstance(op, linalg.ops.GenericOp) or (view := _image(op)) is None:
        return False
    region = stages_by(lambda k: _build_rows(k, view, op.outputs[0]))
    # Canonical loops, as no pass after this one makes them so.
    PatternRewriteWalker(CanonicalizationRewritePattern()).rewrite_region(region)
    cse(region)
    for stage in region.block.ops:
        stage.location = op.location
    Rewriter.inline_block(region.block, InsertPoint.before(op))
    for each in (op, view):
        if not any(result.uses for result in each.results):
            each.detach()
            each.erase()
    return True


def _image(op: linalg.ops.GenericOp) -> PaddedOp | None:
    """The image that a stage copies, with few numbers at both ends of its rows."""
    view = op.inputs[0].owner if len(op.inputs) == len(op.outputs) == 1 else None
    if not isinstance(view, PaddedOp):
        return None
    last, block = op.body.block.last_op, op.body.block
    is_copy = last is not None and [*last.operands] == [block.args[0]]
    identity = AffineMap.identity(len(view.shape))
    if not is_copy or any(map.data != identity for map in op.get_indexing_maps()):
        return None
    is_float = memref_type(view.source).element_type in (f32, f64)
    return view if is_float and are_rows(view.shape, view.pads) else None


def _build_rows(k: KernelBuilder, view: PaddedOp, target: SSAValue) -> None:
    type, pads = memref_type(view.source), view.pads
    *others, height, width = type.get_shape()
    rows, columns = memref_type(target).get_shape()[-2:]
    source = k.view(view.source, [prod(others), height, width])
    target = k.view(target, [prod(others), rows, columns])
    down, (left, _) = Window(1, 1, *pads[-2]), pads[-1]
    value = view.number

    def body(k: KernelBuilder, place: Sequence[SSAValue]) -> None:
        image, row = place
        tap = down.build_tap(k, row, 0, height, type.element_type)
        for column in (*range(left), *range(left + width, columns)):
            edge = k.constant(value, type.element_type)
            k.store(edge, target, [*place, k.index(column)])

        def write(k: KernelBuilder, column: SSAValue) -> None:
            element = k.load(source, [image, tap.position, column])
            result = tap.build_term(k, element, value)
            k.store(result, target, [*place, k.add(column, k.index(left))])

        k.each(width, write)

    k.parallel([prod(others), rows], body)
