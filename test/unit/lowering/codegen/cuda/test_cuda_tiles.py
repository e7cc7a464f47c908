"""Sums of products tile by tile on devices, run by the emulator of lanes."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import signal

from penstock.dialects.launch import KernelOp
from penstock.lowering.codegen.cuda.kernel_schedule import CHOICES, best_tiles
from penstock.lowering.codegen.target import kernel_source
from penstock.runtime.testing.cuda_lockstep_emulator import run_lanes

Kernels: TypeAlias = Callable[[str], list[KernelOp]]
Floats: TypeAlias = NDArray[np.float32]

TILES = [(list(block), list(thread)) for block, thread, _ in CHOICES]

MAPS = {
    "matmul": "affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>",
    "of columns": "affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (k, n)>",
    "of rows": "affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>",
}


def product(
    shape: tuple[int, int, int], form: str, tiles: str, *, start: bool = True
) -> str:
    """A kernel that adds a product to its result, which is 0 before if it `start`s."""
    rows, columns, terms = shape
    a = (terms, rows) if form == "of columns" else (rows, terms)
    b = (columns, terms) if form == "of rows" else (terms, columns)
    a, b, o = (f"memref<{m}x{n}xf32>" for m, n in (a, b, (rows, columns)))
    fill = f"linalg.fill ins(%z : f32) outs(%o : {o})" * start
    return f"""
      launch.kernel @k target "cuda" (%a: {a}, %b: {b}, %o: {o}) {{
        %z = arith.constant 0.0 : f32
        {fill}
        linalg.generic {{
          indexing_maps = [{MAPS[form]}, affine_map<(m, n, k) -> (m, n)>],
          iterator_types = ["parallel", "parallel", "reduction"]
        }} ins(%a, %b : {a}, {b}) outs(%o : {o}) attrs = {{schedule = {tiles}}} {{
        ^bb0(%x: f32, %y: f32, %s: f32):
          %p = arith.mulf %x, %y : f32
          %t = arith.addf %s, %p : f32
          linalg.yield %t : f32
        }}
      }}"""


def run(kernels: Kernels, text: str, *arrays: Floats) -> str:
    """Run the only kernel of a text on arrays in place; its source."""
    (kernel,) = kernels(text)
    source = kernel_source(kernel)
    assert run_lanes(source, [array.reshape(-1) for array in arrays]) == 0
    return source


SHAPES = (136, 140, 36), (129, 67, 9)


@pytest.mark.parametrize("form", MAPS)
@pytest.mark.parametrize(("block", "thread"), TILES)
def test_products_of_all_tiles(
    device_kernels: Kernels, block: list[int], thread: list[int], form: str
) -> None:
    """Each form and each tile meets both shapes in turns."""
    turn = TILES.index((block, thread)) + [*MAPS].index(form)
    shape = rows, columns, terms = SHAPES[turn % len(SHAPES)]
    rng = np.random.default_rng(rows)
    a = rng.standard_normal((rows, terms)).astype(np.float32)
    b = rng.standard_normal((terms, columns)).astype(np.float32)
    o = np.full((rows, columns), np.nan, np.float32)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    tiles = f"#launch.tiles<block {block}, thread {thread}>"
    given_a = np.ascontiguousarray(a.T) if form == "of columns" else a
    given_b = np.ascontiguousarray(b.T) if form == "of rows" else b
    source = run(device_kernels, product(shape, form, tiles), given_a, given_b, o)
    assert source.count("def stage_") == 1
    assert ("put_4" in source) == (columns % 4 == 0)
    np.testing.assert_allclose(o, expected, rtol=1e-4, atol=1e-4)


def test_products_are_added_to_what_is_there(device_kernels: Kernels) -> None:
    rng = np.random.default_rng(3)
    a = rng.standard_normal((20, 8)).astype(np.float32)
    b = rng.standard_normal((8, 30)).astype(np.float32)
    o = rng.standard_normal((20, 30)).astype(np.float32)
    expected = o + a @ b
    tiles = "#launch.tiles<block [16, 64, 16], thread [2, 4]>"
    run(device_kernels, product((20, 30, 8), "matmul", tiles, start=False), a, b, o)
    np.testing.assert_allclose(o, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("images", "channels", "size", "features", "window", "stride", "groups"),
    [(1, 8, 14, 16, 3, 1, 1), (2, 12, 9, 24, 3, 2, 1), (1, 16, 20, 32, 1, 1, 2)],
)
def test_convolutions_with_epilogues(
    device_kernels: Kernels,
    images: int,
    channels: int,
    size: int,
    features: int,
    window: int,
    stride: int,
    groups: int,
) -> None:
    end = (size - window) // stride + 1
    x_type = f"tensor<{images}x{channels}x{size}x{size}xf32>"
    w_type = f"tensor<{features}x{channels // groups}x{window}x{window}xf32>"
    y_type = f"tensor<{images}x{features}x{end}x{end}xf32>"
    b_type = f"tensor<{features}x1x1xf32>"
    body = f"""
      %x = job.input "x" : {x_type}
      %w = job.input "w" : {w_type}
      %b = job.input "b" : {b_type}
      %c = op.conv2d %x, %w strides [{stride}, {stride}] groups {groups}
        : {x_type}, {w_type} -> {y_type}
      %s = op.add %c, %b : {y_type}, {b_type} -> {y_type}
      %y = op.relu %s : {y_type} -> {y_type}
      job.output "y", %y : {y_type}
    """
    rng = np.random.default_rng(size)
    x = rng.standard_normal((images, channels, size, size)).astype(np.float32)
    w_shape = features, channels // groups, window, window
    w = rng.standard_normal(w_shape).astype(np.float32)
    b = rng.standard_normal((features, 1, 1)).astype(np.float32)
    y = np.full((images, features, end, end), np.nan, np.float32)
    source = run(device_kernels, body, x, w, b, y)
    assert len(re.findall(r"def stage_\d+\(", source)) == 1
    assert "slots_1" in source
    assert "finish_0" in source
    expected = np.maximum(convolved(x, w, stride, groups) + b, 0)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


correlate = cast("Callable[..., Floats]", signal.correlate)


def convolved(x: Floats, w: Floats, stride: int, groups: int) -> Floats:
    """A convolution without pads, by SciPy."""
    step, each = w.shape[1], w.shape[0] // groups
    planes = [
        [
            correlate(image[n // each * step :][:step], w[n], mode="valid")[0]
            for n in range(w.shape[0])
        ]
        for image in x
    ]
    return np.array(planes)[:, :, ::stride, ::stride]


@pytest.mark.parametrize(
    ("outputs", "terms", "width"),
    [(100, 128, 4), (64, 1000, 4), (9, 33, 1), (1000, 546, 1)],
)
@pytest.mark.parametrize("aligned", [True, False])
def test_few_rows_are_products_of_warps(
    device_kernels: Kernels, outputs: int, terms: int, width: int, aligned: bool
) -> None:
    body = f"""
      %x = job.input "x" : tensor<2x{terms}xf32>
      %w = job.input "w" : tensor<{outputs}x{terms}xf32>
      %b = job.input "b" : tensor<{outputs}xf32>
      %p = op.matmul %x, %w transpose_b
        : tensor<2x{terms}xf32>, tensor<{outputs}x{terms}xf32>
        -> tensor<2x{outputs}xf32>
      %y = op.add %p, %b
        : tensor<2x{outputs}xf32>, tensor<{outputs}xf32> -> tensor<2x{outputs}xf32>
      job.output "y", %y : tensor<2x{outputs}xf32>
    """
    rng = np.random.default_rng(terms)
    x = rng.standard_normal((2, terms)).astype(np.float32)
    w = rng.standard_normal((outputs, terms)).astype(np.float32)
    b = rng.standard_normal(outputs).astype(np.float32)
    y = np.full((2, outputs), np.nan, np.float32)
    (kernel,) = device_kernels(body)
    source = kernel_source(kernel)
    assert "shuffle_xor" in source
    assert ("load_4(in1" in source) == (width == 4)
    arrays = [array.reshape(-1) for array in (x, w, b, y)]
    assert run_lanes(source, arrays, aligned=aligned) == 0
    expected = x.astype(np.float64) @ w.T + b
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("rows", "columns", "others", "block"),
    [
        (4096, 4096, 1, (128, 128, 8)),
        (512, 512, 1, (32, 64, 16)),
        (64, 64, 1000, (64, 64, 16)),
        (16, 64, 10, (16, 64, 16)),
    ],
)
def test_tiles_keep_processors_busy(
    rows: int, columns: int, others: int, block: tuple[int, int, int]
) -> None:
    assert best_tiles(rows, columns, others, 132)[0] == block
