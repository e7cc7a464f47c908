"""
Padding ahead of convolutions: `op.conv2d` with pads becomes `op.pad` and `op.conv2d`.

A convolution that pads on its own has to bound its innermost loops by the image, at
each element of its result. On an image that is padded with zeros before, all loops
have constant bounds and one body, which compilers turn into vector code; the price is
the memory of the padded image. Convolutions of one value with the same pads at the
same placement share one `op.pad`. Those with one channel a group keep their pads: their
kernels work row by row, and only the ends of rows know of them.
"""

from collections.abc import Hashable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects.job import JobOp
from penstock.dialects.op.axes import int_list
from penstock.dialects.op.convolution import Conv2dOp, placed
from penstock.dialects.op.padding import PadOp
from penstock.dialects.walks import outermost


def split_pads(block: Block) -> None:
    """Split the pads off all convolutions of a block."""
    padded: dict[Hashable, PadOp] = {}
    for op in block.ops:
        if not isinstance(op, Conv2dOp) or op.is_depthwise:
            continue
        if not any(op.pads.iter_values()):
            continue
        key = op.input, op.pads, op.input_last, op.attributes.get("placement")
        if key not in padded:
            padded[key] = insert_pad(op)
        replace_convolution(op, padded[key])


def insert_pad(op: Conv2dOp) -> PadOp:
    """Insert the padding of a convolution's input before it."""
    top, left, bottom, right = op.pads.get_values()
    is_last = op.input_last is not None
    before, after = (
        placed([0, 0], pads, is_last) for pads in ([top, left], [bottom, right])
    )
    pad = PadOp(op.input, before, after)
    if placement := op.attributes.get("placement"):
        pad.attributes["placement"] = placement
    pad.location = op.location
    if hint := op.input.name_hint:
        pad.result.name_hint = f"{hint}_padded"
    Rewriter.insert_op(pad, InsertPoint.before(op))
    return pad


def replace_convolution(op: Conv2dOp, pad: PadOp) -> None:
    """Let a convolution read the padded input, and add no pads of its own."""
    Rewriter.replace_op(
        op,
        Conv2dOp.create(
            operands=[pad.result, *op.operands[1:]],
            result_types=[op.result.type],
            properties={**op.properties, "pads": int_list([0] * 4)},
            attributes=op.attributes,
            location=op.location,
        ),
    )


@dataclass(frozen=True)
class OpSplitPadsPass(ModulePass):
    """
    Replace convolutions with pads by padding and convolutions without.
    """

    name = "op-split-pads"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for job in outermost(op, JobOp):
            split_pads(job.body.block)
