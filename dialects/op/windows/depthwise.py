"""The stage of kernels of depthwise convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.interface import shape_of
from penstock.dialects.kernel.views import PaddedOp
from penstock.dialects.kernel.windows import Window

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder


def build_depthwise(
    k: KernelBuilder,
    windows: tuple[Window, Window],
    input: SSAValue,
    weights: SSAValue,
    bias: SSAValue | None,
    out: SSAValue,
) -> None:
    """
    Build the stage from the memrefs of images [n, groups, h, w], weights [groups * m,
    1, taps down, taps across], a bias [groups * m] if there is one, and the result [n,
    groups * m, rows, columns].
    """
    images, groups = shape_of(input)[:2]
    outputs, *taps = (shape_of(weights)[n] for n in (0, 2, 3))
    times = () if outputs == groups else (outputs // groups,)
    weights = k.view(weights, [groups, *times, *taps] if times else shape_of(weights))
    if bias is not None:
        bias = k.view(bias, [groups, *times])
    out = k.view(out, [images, groups, *times, *shape_of(out)[2:]])
    count = 6 + len(times)
    image, group, *rest = (AffineExpr.dimension(loop) for loop in range(count))
    channel, places, taps = rest[:-4], rest[-4:-2], rest[-2:]
    indices = [
        place * window.stride + tap * window.dilation
        for place, tap, window in zip(places, taps, windows, strict=True)
    ]
    of_weights = [group, *channel] if channel else [group, AffineExpr.constant(0)]
    exprs = [
        [image, group, *indices],
        [*of_weights, *taps],
        [image, group, *channel, *places],
        *([] if bias is None else [[group, *channel]]),
    ]
    k.effect(
        ContractOp(
            (padded(k, input, windows), weights),
            [out],
            [AffineMap(count, 0, tuple(each)) for each in exprs],
            start=bias,
        )
    )


def padded(
    k: KernelBuilder, input: SSAValue, windows: tuple[Window, Window]
) -> SSAValue:
    """The images with the zeros of windows around them."""
    low, high = ([w.before for w in windows], [w.after for w in windows])
    if not any((*low, *high)):
        return input
    return k.insert(PaddedOp(input, [0, 0, *low], [0, 0, *high]))
