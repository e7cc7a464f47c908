"""Convolutions that leave out their pads where they pack windows, against NumPy."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from draws import fresh
from kernel_runs import result_of
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from xdsl.dialects.builtin import MemRefType, TensorType, UnitAttr, f32, f64
from xdsl.ir import Block
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects.kernel import PaddedOp
from penstock.dialects.kernel.builder import kernel_body
from penstock.dialects.kernel.interface import REFUSAL, SCHEDULE
from penstock.dialects.kernel.tile_transform import TileTransformOp
from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.schedules.cpu_matmul import ContractionAttr
from penstock.dialects.op.axes import int_list
from penstock.dialects.op.windows.convolution import Conv2dOp
from penstock.dialects.op.windows.winograd import WinogradSplitOp
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.lowering.codegen.cpu.kernel_schedule import schedule_kernel
from penstock.lowering.codegen.cpu.winograd import transform_of
from penstock.lowering.codegen.target import kernel_source

Array = NDArray[np.floating]
EPSILON = {np.float32: 2.0**-24, np.float64: 2.0**-53}


class Windows(NamedTuple):
    """A convolution of images with a bias."""

    images: tuple[int, int, int, int]
    weights: tuple[int, int, int]
    """The outputs, and the taps down and across."""
    pads: tuple[int, int, int, int] = (1, 1, 1, 1)
    """At the top, left, bottom and right."""
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    dtype: type[np.floating] = np.float32
    vector_bytes: int = 64
    flags: tuple[str, ...] = ()

    def kernel(self) -> KernelOp:
        """The kernel, without a schedule."""
        element = f32 if self.dtype is np.float32 else f64
        outputs, *taps = self.weights
        channels = self.images[3 if "input_last" in self.flags else 1]
        shapes = self.images, (outputs, channels, *taps), (outputs,)
        args = Block(arg_types=[TensorType(element, shape) for shape in shapes]).args
        numbers = {
            "pads": int_list(self.pads),
            "strides": int_list(self.strides),
            "dilations": int_list(self.dilations),
        }
        flags = {name: UnitAttr() for name in self.flags}
        op = Conv2dOp.inferred(args, {**numbers, **flags})
        return KernelOp("k", "cpu", kernel_body(op))

    def operands(self) -> list[Array]:
        """Random images, weights and a bias."""
        random = fresh()
        shapes = [type.get_shape() for type in self.kernel().arguments[:3]]
        return [random.normal(size=shape).astype(self.dtype) for shape in shapes]

    def exact(self, x: Array, w: Array, bias: Array) -> Array:
        """The convolution in 64 bits, or in more."""
        wide = np.float64 if self.dtype is np.float32 else np.longdouble
        top, left, bottom, right = self.pads
        x = np.pad(x.astype(wide), ((0, 0), (0, 0), (top, bottom), (left, right)))
        taps = zip(w.shape[2:], self.dilations, strict=True)
        view = sliding_window_view(x, [(n - 1) * d + 1 for n, d in taps], (2, 3))
        (down, across), (apart, aside) = self.strides, self.dilations
        view = view[:, :, ::down, ::across, ::apart, ::aside]
        sums = np.einsum("nchwij,ocij->nohw", view, w.astype(wide))
        return sums + bias[:, None, None]


CASES = {
    "lines longer than a vector": Windows((1, 8, 9, 37), (16, 3, 3), (2, 0, 1, 3)),
    "49 columns": Windows((2, 8, 7, 7), (16, 3, 3)),
    "every second": Windows((1, 5, 12, 41), (16, 3, 3), (0, 0, 1, 1), (2, 2)),
    "every third, pads as wide as windows": Windows(
        (1, 6, 11, 17), (8, 3, 4), (3, 4, 2, 4), (3, 3)
    ),
    "many taps, narrow vectors": Windows(
        (1, 4, 11, 17), (8, 5, 5), (2, 2, 2, 2), vector_bytes=32
    ),
    "taps apart, 64 bits": Windows(
        (1, 5, 9, 13), (8, 3, 3), (2, 2, 2, 2), (1, 2), (2, 2), np.float64
    ),
    "images of two columns": Windows((1, 8, 9, 2), (8, 3, 3), (1, 0, 1, 1), (1, 2)),
    "single taps": Windows((1, 20, 5, 6), (8, 1, 1)),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_nothing_is_read_out_of_an_image(case: Windows) -> None:
    kernel, ins = case.kernel(), case.operands()
    schedule_kernel(kernel, case.vector_bytes, parts=2, constants={1})
    assert "bounds=[" in kernel_source(kernel)
    x, w, bias = ins
    size = case.exact(abs(x), abs(w), abs(bias))
    unit = 2 * (w[0].size + 2) * EPSILON[case.dtype]
    error = abs(result_of(kernel, ins, parts=3) - case.exact(*ins))
    assert (error <= unit * size).all()


REFUSED = {
    "padding depends on the outermost terms, or on other loops": Windows(
        (1, 1, 9, 9), (16, 3, 3)
    ),
    "the factor with rows has padding around it": Windows(
        (1, 5, 6, 8), (16, 1, 1), flags=("input_last", "result_last")
    ),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_cannot_leave_pads_out_says_why(reason: str) -> None:
    kernel = REFUSED[reason].kernel()
    schedule_kernel(kernel, 64)
    reasons = [op.attributes.get(REFUSAL) for op in kernel.body.block.ops]
    assert f'"{reason}"' in map(str, reasons)


def test_transforms_of_padded_images_have_no_schedule() -> None:
    shapes = (6, 6), (1, 2, 10, 10)
    args = Block(arg_types=[TensorType(f32, shape) for shape in shapes]).args
    block = kernel_body(WinogradSplitOp(args[0], args[1], 4)).block
    (op,) = (op for op in block.ops if isinstance(op, TileTransformOp))
    assert not isinstance(transform_of(op), str)
    # The same images, of which the first lines are zeros.
    image = block.insert_arg(MemRefType(f32, (1, 2, 9, 10)), 1)
    view = PaddedOp(image, [0, 0, 1, 0], [0, 0, 0, 0])
    Rewriter.insert_op(view, InsertPoint.at_start(block))
    block.args[2].replace_all_uses_with(view.result)
    assert transform_of(op) == "a factor has padding around it"


def test_upright_tiles_read_no_padding() -> None:
    kernel = CASES["49 columns"].kernel()
    *_, op = kernel.body.block.ops
    op.attributes[SCHEDULE] = ContractionAttr(
        "upright", (4, 1, 16), (49, 72), panels="a"
    )
    with pytest.raises(LocatedPassFailure, match="upright tiles read no padding"):
        kernel_source(kernel)
