"""
Transposed convolutions: those that make images larger, of several ops each.

They are made as the gradients of convolutions are, of dense convolutions without zeros
between windows.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.axes import int_list
from penstock.dialects.op.op_builder import OpBuilder
from penstock.dialects.op.windows.transposed_convolution import (
    images_convolved,
    transposed,
)
from penstock.dialects.op.windows.window_numbers import windows_of
from penstock.tools.frontend.python.calls import as_tensors
from penstock.tools.frontend.python.errors import refusing
from penstock.tools.frontend.python.tensor import Tensor
from penstock.tools.frontend.python.trace import current_trace


def conv2d_transposed(
    input: Tensor,
    weights: Tensor,
    bias: Tensor | None = None,
    *,
    strides: Sequence[int] = (1, 1),
    pads: Sequence[int] = (0, 0, 0, 0),
    dilations: Sequence[int] = (1, 1),
    groups: int = 1,
    output_pads: Sequence[int] = (0, 0),
) -> Tensor:
    """
    The transposed convolution of images [n, channels, h, w] with weights [channels,
    out channels / groups, taps down, taps across], plus a bias [out channels] if there
    is one: the gradient of `op.conv2d` by images of which `input` is that of the
    result. These have `(h - 1) * stride + (taps - 1) * dilation + 1` rows, less those
    of `pads` at both ends, and `output_pads` more behind the last one; columns
    likewise.
    """
    name = "conv2d_transposed"
    trace = current_trace(name)
    given = [input, weights, *([] if bias is None else [bias])]
    with refusing(name):
        x, w, *own = map(trace.value_of, as_tensors(trace, given, None, name))
        o = OpBuilder(trace.insert)
        _check_images(o.shape(x), o.shape(w), groups, output_pads)
        numbers = int_list(strides), int_list(pads), int_list(dilations)
        windows = windows_of(o.shape(w)[2:], *numbers)
        extents = [
            (extent - 1) * each.stride + each.span - each.before - each.after + more
            for extent, each, more in zip(
                o.shape(x)[2:], windows, output_pads, strict=True
            )
        ]
        if min(extents) < 1:
            raise VerifyException(f"pads leave images of {extents} elements")
        made = transposed(o, x, w, windows, extents, groups, images_convolved(o))
        for value in own:
            made = o.add(made, o.reshape(value, [o.shape(made)[1], 1, 1]))
    return Tensor(made, trace)


def _check_images(
    images: Sequence[int],
    weights: Sequence[int],
    groups: int,
    output_pads: Sequence[int],
) -> None:
    """Raise VerifyException unless images fit weights in groups."""
    for what, shape in (("the input", images), ("the weights", weights)):
        if len(shape) != 4 or min(shape) < 1:
            raise VerifyException(
                f"{what} should have four known extents of at least 1, got {shape}"
            )
    if groups < 1 or images[1] % groups or images[1] != weights[0]:
        raise VerifyException(
            f"an input of {images[1]} channels in {groups} groups does not fit weights "
            f"of {weights[0]} channels"
        )
    if len(output_pads) != 2 or min(output_pads) < 0:
        raise VerifyException(
            f"output pads should be 2 numbers of at least 0, got {[*output_pads]}"
        )
