"""Upright tiles: how columns are cut, and what kernels compute in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from kernel_runs import result_of
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, TensorType, UnitAttr, i64
from xdsl.ir import Block

from penstock.dialects.kernel.builder import kernel_body
from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.interface import SCHEDULE
from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.packed_layout import PANELS
from penstock.dialects.launch.schedules.cpu_matmul import ContractionAttr
from penstock.dialects.op.axes import int_list
from penstock.dialects.op.windows.convolution import Conv2dOp
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.lowering.codegen.body.contraction import Contraction, contraction_of
from penstock.lowering.codegen.body.epilogue import stages_of
from penstock.lowering.codegen.cpu.kernel_schedule import schedule_kernel
from penstock.lowering.codegen.cpu.matmul_schedule import (
    schedule_or_refusal,
    transposed_length,
)
from penstock.lowering.codegen.cpu.packed_operands import panels_of
from penstock.lowering.codegen.cpu.transposed_tiles import lines_of
from penstock.lowering.codegen.target import kernel_source

Array: TypeAlias = NDArray[np.floating]
EPSILON = {np.float32: 2.0**-24, np.float64: 2.0**-53}


def kernel_of(
    outputs: int,
    channels: int,
    image: tuple[int, int],
    taps: int,
    stride: int = 1,
    groups: int = 1,
    dtype: type[np.floating] = np.float32,
) -> tuple[KernelOp, list[Array]]:
    """The kernel of a convolution of two images with a bias, and its operands."""
    from xdsl.dialects.builtin import f32, f64

    element = f32 if dtype is np.float32 else f64
    weights = outputs, channels // groups, taps, taps
    shapes = (2, channels, *image), weights, (outputs,)
    random = np.random.default_rng([outputs, channels, *image, taps])
    arrays = [random.normal(size=shape).astype(dtype) for shape in shapes]
    args = Block(arg_types=[TensorType(element, shape) for shape in shapes]).args
    properties = {
        "strides": int_list([stride] * 2),
        "groups": IntegerAttr(groups, i64),
    }
    op = Conv2dOp.inferred(args, properties)
    return KernelOp("k", "cpu", kernel_body(op)), arrays


def sums_of(kernel: KernelOp) -> tuple[ContractOp, Contraction]:
    """The sum of products of a kernel."""
    for op in stages_of(kernel.body.block):
        if isinstance(op, ContractOp):
            found = contraction_of(op)
            if isinstance(found, Contraction):
                return op, found
    raise AssertionError("there is none")


def set_transposed(
    kernel: KernelOp, tile: tuple[int, int, int], parts: int = 1, length: int = 0
) -> None:
    """Give a kernel an upright schedule, and panels that fit it."""
    op, found = sums_of(kernel)
    length = length or transposed_length(found, tile[0], parts)
    block = length, found.extents[2]
    schedule = ContractionAttr("upright", tile, block, panels="a")
    op.attributes[SCHEDULE] = schedule
    elements = int(np.prod(kernel.arguments[1].get_shape()))
    lies = panels_of(found, schedule, elements)
    assert lies is not None
    rest = [UnitAttr()] * (len(kernel.arguments) - 2)
    kernel.attributes[PANELS] = ArrayAttr([UnitAttr(), lies, *rest])


def convolved(x: Array, w: Array, stride: int, groups: int) -> Array:
    """The convolution in 64 bits, or in 128, without pads."""
    wide = np.float64 if x.dtype == np.float32 else np.longdouble
    windows = sliding_window_view(x.astype(wide), w.shape[2:], (2, 3))
    windows = windows[:, :, ::stride, ::stride]
    parts = [
        np.einsum("nchwij,ocij->nohw", images, taps)
        for images, taps in zip(
            np.split(windows, groups, 1), np.split(w.astype(wide), groups), strict=True
        )
    ]
    return np.concatenate(parts, 1)


def check(
    kernel: KernelOp, ins: list[Array], stride: int = 1, groups: int = 1, parts: int = 1
) -> None:
    """Compare with NumPy, within what any order of the terms may be wrong by."""
    x, w, bias = ins
    assert "transposed_micro_kernel" in kernel_source(kernel)
    found = result_of(kernel, ins, parts)
    size = convolved(abs(x), abs(w), stride, groups) + abs(bias[:, None, None])
    unit = 2 * (w[0].size + 2) * EPSILON[x.dtype.type]
    exact = convolved(x, w, stride, groups) + bias[:, None, None]
    assert (abs(found - exact) <= unit * size).all()


Sizes: TypeAlias = tuple[int, int, tuple[int, int], int]
"""Rows, channels, the image, and taps."""

CASES: dict[str, tuple[Sizes, tuple[int, int], tuple[int, int, int]]] = {
    "lines of several tiles": ((16, 3, (6, 17), 3), (1, 1), (4, 1, 16)),
    "short lines, some left over": ((32, 5, (9, 7), 3), (1, 1), (14, 1, 16)),
    "more columns than lanes": ((16, 2, (9, 9), 3), (1, 1), (28, 1, 16)),
    "rows of a smaller panel": ((48, 4, (5, 8), 3), (1, 1), (7, 2, 16)),
    "a stride": ((16, 3, (11, 13), 5), (2, 1), (6, 1, 16)),
    "groups": ((32, 6, (6, 6), 3), (1, 2), (8, 1, 16)),
    "one loop of columns": ((16, 40, (5, 5), 1), (1, 1), (7, 1, 16)),
    "one term": ((16, 1, (5, 6), 1), (1, 1), (7, 1, 8)),
    "narrow vectors": ((24, 7, (5, 6), 3), (1, 1), (5, 2, 4)),
    "64 bits": ((24, 7, (5, 9), 3), (1, 1), (9, 2, 8)),
}


@pytest.mark.parametrize("case", CASES)
def test_convolutions_of_all_kinds(case: str) -> None:
    sizes, (stride, groups), tile = CASES[case]
    dtype = np.float64 if case == "64 bits" else np.float32
    kernel, ins = kernel_of(*sizes, stride, groups, dtype)
    set_transposed(kernel, tile, parts=2)
    check(kernel, ins, stride, groups, parts=3)


def test_blocks_of_lines_end_with_the_lines_left_over() -> None:
    kernel, ins = kernel_of(16, 3, (11, 6), 3)
    set_transposed(kernel, (8, 1, 16), length=16)
    assert "min(2, 4 - " in kernel_source(kernel)
    check(kernel, ins, parts=2)


@given(
    count=st.integers(1, 20),
    width=st.integers(1, 40),
    most=st.integers(1, 30),
    stride=st.integers(1, 3),
)
def test_tiles_cover_each_column_once_where_it_lies_in_the_image(
    count: int, width: int, most: int, stride: int
) -> None:
    assume(count * width > 1)
    taps = 3
    image = (count - 1) * stride + taps, (width - 1) * stride + taps
    _, contraction = sums_of(kernel_of(16, 2, image, taps, stride)[0])
    lines = lines_of(contraction, most)
    assert lines is not None
    found: list[int] = []

    def add(start: int, shape: tuple[int, int]) -> None:
        assert shape[0] * shape[1] <= most
        for line in range(shape[0]):
            for column in range(shape[1]):
                found.append(start + line * lines.steps[0] + column * lines.steps[1])

    for turn in range(lines.turns):
        start = turn * lines.turn
        for tiles, *shape in lines.tiles:
            for _ in range(tiles):
                add(start, (shape[0], shape[1]))
                start += shape[1] * lines.steps[1]
    add(lines.turns * lines.turn, lines.tail)
    assert found == [
        (line * image[1] + column) * stride
        for line in range(count)
        for column in range(width)
    ]
    assert sum(size * n for size, n in lines.sizes) == count * width


EPILOGUE = """
launch.kernel @k target "cpu" (%x: memref<4x34xf32>, %w: memref<32x4xf32>,
    %column: memref<34xf32>, %both: memref<32x34xf32>, %o: memref<32x34xf32>) {
  kernel.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
      affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>,
      affine_map<(m, n, k) -> (n)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%w, %x : memref<32x4xf32>, memref<4x34xf32>) outs(%o : memref<32x34xf32>)
    finish(%column, %both : memref<34xf32>, memref<32x34xf32>) {
  ^bb0(%s: f32, %p: f32, %q: f32):
    %z = arith.constant 0.0 : f32
    %t = arith.mulf %s, %p : f32
    %u = arith.subf %t, %q : f32
    %v = arith.maximumf %u, %z : f32
    kernel.yield %v : f32
  }
}"""


def test_what_follows_the_sums_is_computed_after_they_are_transposed(
    parse_raised: Callable[[str], KernelOp],
) -> None:
    kernel = parse_raised(EPILOGUE)
    set_transposed(kernel, (9, 1, 16))
    random = np.random.default_rng(4)
    shapes = [type.get_shape() for type in kernel.arguments[:-1]]
    ins: list[Array] = [random.normal(size=s).astype(np.float32) for s in shapes]
    x, w, column, both = (array.astype(np.float64) for array in ins)
    exact = np.maximum(w @ x * column - both, 0)
    np.testing.assert_allclose(result_of(kernel, ins, 2), exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("outputs", "tile", "block", "message"),
    [
        (24, (4, 1, 16), (16, 27), "24 rows are no whole vectors of 16"),
        (16, (4, 1, 16), (16, 9), "upright tiles add all 27 terms at once"),
        (16, (4, 1, 16), (6, 27), "a block has no whole turns of 4 columns"),
    ],
)
def test_schedules_that_do_not_fit_are_refused(
    outputs: int,
    tile: tuple[int, int, int],
    block: tuple[int, int],
    message: str,
) -> None:
    kernel, _ = kernel_of(outputs, 3, (6, 6), 3)
    op, _ = sums_of(kernel)
    op.attributes[SCHEDULE] = ContractionAttr("upright", tile, block, panels="a")
    with pytest.raises(LocatedPassFailure, match="does not fit") as info:
        kernel_source(kernel)
    assert message in str(info.value)


def test_upright_tiles_do_not_add_to_what_is_there(
    parse_raised: Callable[[str], KernelOp],
) -> None:
    text = EPILOGUE[: EPILOGUE.index("finish(")] + "start(%o : memref<32x34xf32>) }"
    both = "affine_map<(m, n, k) -> (m, n)>"
    kernel = parse_raised(text.replace("affine_map<(m, n, k) -> (n)>, " + both, both))
    op, _ = sums_of(kernel)
    schedule = ContractionAttr("upright", (9, 1, 16), (36, 4), panels="a")
    op.attributes[SCHEDULE] = schedule
    with pytest.raises(LocatedPassFailure, match="upright tiles start their sums"):
        kernel_source(kernel)


APART = """
launch.kernel @k target "cpu" (%w: memref<16x4xf32>, %x: memref<4x3x3x3xf32>,
    %o: memref<16x2x2x2xf32>) {{
  %z = arith.constant 0.0 : f32
  linalg.fill ins(%z : f32) outs(%o : memref<16x2x2x2xf32>)
  linalg.generic {{indexing_maps = [
      affine_map<(m, x, y, z, k) -> (m, k)>,
      affine_map<(m, x, y, z, k) -> (k, 2 * x, 2 * y, 2 * z)>,
      affine_map<(m, x, y, z, k) -> (m, x, y, z)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}}
    ins(%w, %x : memref<16x4xf32>, memref<4x3x3x3xf32>)
    outs(%o : memref<16x2x2x2xf32>) attrs = {{schedule = {schedule}}} {{
  ^bb0(%a: f32, %b: f32, %s: f32):
    %p = arith.mulf %a, %b : f32
    %t = arith.addf %s, %p : f32
    linalg.yield %t : f32
  }}
}}"""


def test_three_loops_of_columns_are_refused(
    parse_raised: Callable[[str], KernelOp],
) -> None:
    tile = "tile [8, 1, 16], block [8, 4], panels a"
    text = APART.format(schedule=f"#launch.contraction<upright, {tile}>")
    with pytest.raises(LocatedPassFailure, match="1 or 2 loops of columns, not 3"):
        kernel_source(parse_raised(text))


def test_windows_of_many_terms_have_a_schedule_if_weights_may_lie_in_panels() -> None:
    # Neighbours are read line by line, in any order of the weights.
    kernel, _ = kernel_of(16, 2, (50, 50), 46, stride=2)
    _, found = sums_of(kernel)
    facts = found, 64, 1
    assert isinstance(schedule_or_refusal(*facts, ""), str)
    assert isinstance(schedule_or_refusal(*facts, "a"), ContractionAttr)


@pytest.mark.parametrize(
    ("outputs", "inputs", "form"),
    [(64, 28, "upright"), (40, 28, "outer"), (64, 64, "outer")],
)
def test_rules_take_upright_tiles_for_whole_vectors_of_panels_that_stay_near(
    outputs: int, inputs: int, form: str
) -> None:
    kernel, _ = kernel_of(outputs, inputs, (16, 16), 3)
    schedule_kernel(kernel, 64, constants={1})
    op, _ = sums_of(kernel)
    schedule = op.attributes[SCHEDULE]
    assert isinstance(schedule, ContractionAttr)
    assert schedule.form == form
