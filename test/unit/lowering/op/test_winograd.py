"""
Convolutions by Winograd: exact enough, in NumPy, in kernels, and in sessions.

The oracle is the convolution itself in 64 bits, by PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from draws import draws
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_runs import result_of
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, f64
from xdsl.ir import Block

from penstock.dialects.kernel.builder import kernel_body
from penstock.dialects.kernel.interface import SCHEDULE
from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.schedules.cpu_winograd import TransformAttr
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.windows.winograd import (
    JOIN,
    SPLIT,
    WinogradJoinOp,
    WinogradSplitOp,
)
from penstock.lowering.codegen.cpu.kernel_schedule import schedule_kernel
from penstock.runtime.errors import PenstockError
from penstock.runtime.loading.shared_variables import SharedVariables
from penstock.runtime.loading.weight_layout import WINOGRAD, winograd_weights
from penstock.tools.cli.run import run_tool
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.driver.diagnostics import UsageError
from penstock.tools.session.oracle import evaluate_model
from penstock.tools.session.session import Model, Session

Array: TypeAlias = NDArray[np.floating]
TYPES = {"f32": (f32, np.float32, 2.0**-24), "f64": (f64, np.float64, 2.0**-53)}


def random(type: str, *shape: int) -> Array:
    """Random numbers that depend on the shape alone."""
    values = np.random.default_rng(shape).normal(size=shape)
    return values.astype(TYPES[type][1])


def largest_error(found: NDArray[np.generic], exact: NDArray[np.generic]) -> float:
    """The largest difference between two arrays."""
    difference = np.asarray(found, np.float64) - np.asarray(exact, np.float64)
    return float(np.abs(difference).max())


def convolved(x: Array, w: Array) -> Array:
    """The convolution in 64 bits."""
    windows = sliding_window_view(np.asarray(x, np.float64), w.shape[2:], (2, 3))
    taps = np.asarray(w, np.float64)
    return np.einsum("nchwij,ocij->nohw", windows, taps, optimize=True)


def arguments(type: str, *shapes: Sequence[int]) -> Block:
    """A block with arguments of some shapes."""
    return Block(arg_types=[TensorType(TYPES[type][0], shape) for shape in shapes])


def split_op(block: Block, step: int) -> WinogradSplitOp:
    """The op that splits a block's images."""
    matrix, images = block.args
    return WinogradSplitOp(matrix, images, step)


def join_op(block: Block) -> WinogradJoinOp:
    """The op that joins a block's tiles."""
    matrix, tiles, *bias = block.args
    return WinogradJoinOp(matrix, tiles, bias[0] if bias else None)


def tile_by_tile(x: Array, w: Array, type: str) -> Array:
    """The convolution of whole tiles as the ops mean it, in the type of the images."""
    dtype = TYPES[type][1]
    matrix, back = np.array(SPLIT, dtype), np.array(JOIN, dtype)
    block = arguments(type, matrix.shape, x.shape)
    (tiles,) = split_op(block, 4).evaluate(matrix, x)
    size, _, channels, images, down, across = tiles.shape
    u = winograd_weights(w)
    products = np.matmul(u, tiles.reshape(size * size, channels, -1))
    parts = products.reshape(size, size, len(w), images, down, across)
    block = arguments(type, back.shape, parts.shape)
    (result,) = join_op(block).evaluate(back, parts)
    return result.astype(dtype)


def error_bound(x: Array, w: Array, type: str) -> Array:
    """The bound that `penstock.dialects.op.windows.winograd` states, by elements."""
    sizes = [np.abs(np.array(matrix, np.float64)) for matrix in (SPLIT, JOIN, WINOGRAD)]
    split, join, weights = sizes
    u = np.matmul(weights, np.matmul(np.abs(w).astype(np.float64), weights.T))
    tiles = np.lib.stride_tricks.sliding_window_view(np.abs(x), (6, 6), (2, 3))
    v = np.matmul(split, np.matmul(tiles[:, :, ::4, ::4].astype(np.float64), split.T))
    # Of each image, out channel and tile.
    images, channels, down, across, *_ = v.shape
    sums = np.zeros((images, len(w), down, across, 6, 6))
    for channel in range(channels):
        sums += u[:, channel, None, None] * v[:, None, channel]
    found = np.matmul(join, np.matmul(sums, join.T))
    shape = images, len(w), 4 * down, 4 * across
    terms = w.shape[1] + 4 * 6 + 8
    return terms * TYPES[type][2] * found.transpose(0, 1, 2, 4, 3, 5).reshape(shape)


@pytest.mark.parametrize("type", ["f32", "f64"])
@pytest.mark.parametrize("seed", range(3))
def test_the_error_is_within_its_bound(type: str, seed: int) -> None:
    x, w = random(type, 2, 24 + seed, 14, 18), random(type, 16, 24 + seed, 3, 3)
    exact = convolved(x, w)
    error = np.abs(tile_by_tile(x, w, type) - exact)
    assert (error <= error_bound(x, w, type)).all()
    # What is usual is much less.
    assert error.max() <= 170 * TYPES[type][2] * np.abs(exact).max()


def test_numbers_of_all_sizes_keep_the_bound() -> None:
    random = np.random.default_rng(8)
    scale = 10.0 ** random.integers(-8, 8, size=(1, 16, 10, 10))
    x = (random.normal(size=(1, 16, 10, 10)) * scale).astype(np.float32)
    w = random.normal(size=(16, 16, 3, 3)).astype(np.float32)
    error = np.abs(tile_by_tile(x, w, "f32") - convolved(x, w))
    assert (error <= error_bound(x, w, "f32")).all()


def run(op: TensorOp, ins: Sequence[Array], vector_bytes: int, parts: int = 1) -> Array:
    """The result of the kernel of an op, in parts; none may touch memory around it."""
    kernel = KernelOp("k", "cpu", kernel_body(op))
    schedule_kernel(kernel, vector_bytes)
    found = [inner.attributes.get(SCHEDULE) for inner in kernel.walk()]
    assert any(isinstance(schedule, TransformAttr) for schedule in found)
    return result_of(kernel, ins, parts)


# Rows of 4 tiles fill vectors of 16 lanes together; rows of more than 16 take several.
EXTENTS = [(10, 78), (18, 18), (14, 18), (30, 30), (6, 6), (23, 11)]
TILES = [(2, 19), (4, 4), (3, 4), (7, 7), (1, 1), (5, 2)]
VECTORS = [("f32", 64), ("f32", 32), ("f64", 64), ("f64", 16)]
PAIRS = [*combinations(VECTORS, 2)]
"""Kinds of vectors for each size: each kind has three sizes, and another one beside."""


@pytest.mark.parametrize(("extents", "vectors"), [*zip(EXTENTS, PAIRS, strict=True)])
def test_kernels_split_images(
    extents: tuple[int, int], vectors: Sequence[tuple[str, int]]
) -> None:
    for type, vector_bytes in vectors:
        matrix, x = np.array(SPLIT, TYPES[type][1]), random(type, 2, 3, *extents)
        op = split_op(arguments(type, matrix.shape, x.shape), 4)
        (wanted,) = op.evaluate(matrix.astype(np.float64), x.astype(np.float64))
        found = run(op, [matrix, x], vector_bytes, parts=3)
        assert largest_error(found, wanted) <= 600 * TYPES[type][2], type


@pytest.mark.parametrize(("tiles", "vectors"), [*zip(TILES, PAIRS, strict=True)])
def test_kernels_join_tiles(
    tiles: tuple[int, int], vectors: Sequence[tuple[str, int]]
) -> None:
    """With a bias for one kind of vectors of each size, the first one in turns."""
    for place, (type, vector_bytes) in enumerate(vectors):
        matrix, m = np.array(JOIN, TYPES[type][1]), random(type, 6, 6, 5, 2, *tiles)
        has_bias = (TILES.index(tiles) + place) % 2 == 0
        more = [random(type, 5)] if has_bias else []
        block = arguments(type, matrix.shape, m.shape, *(b.shape for b in more))
        op = join_op(block)
        ins = [matrix, m, *more]
        (wanted,) = op.evaluate(*(x.astype(np.float64) for x in ins))
        found = run(op, ins, vector_bytes, parts=3)
        assert largest_error(found, wanted) <= 6000 * TYPES[type][2], type


@pytest.mark.slow
@settings(max_examples=draws(4), deadline=None)
@given(
    sizes=st.sampled_from([(3, 1), (3, 2), (4, 2), (4, 4), (5, 4), (8, 4)]),
    bytes=st.sampled_from([16, 32, 64]),
)
def test_other_matrices_and_steps(sizes: tuple[int, int], bytes: int) -> None:
    size, step = sizes
    matrix, x = random("f32", size, size), random("f32", 1, 2, 20, 22)
    op = split_op(arguments("f32", matrix.shape, x.shape), step)
    (wanted,) = op.evaluate(matrix.astype(np.float64), x.astype(np.float64))
    found = run(op, [matrix, x], bytes)
    assert largest_error(found, wanted) <= 1e-4


TEXT = """
job.job @predict placement <cpu, [0:0]> {{
  %x = job.input "x" : tensor<{n}x16x{h}x{w}xf32>
  %w = job.variable "w" init <normal, seed = 1> : tensor<32x16x3x3xf32>
  %b = job.variable "b" init <normal, seed = 2> : tensor<32xf32>
  %c = op.conv2d %x, %w, %b pads [1, 1, 1, 1]
    : tensor<{n}x16x{h}x{w}xf32>, tensor<32x16x3x3xf32>, tensor<32xf32>
      -> tensor<{n}x32x{h}x{w}xf32>
  %r = op.relu %c : tensor<{n}x32x{h}x{w}xf32> -> tensor<{n}x32x{h}x{w}xf32>
  %i = job.input "i" : tensor<{n}x32x{h}x{w}xf32>
  %y = op.add %r, %i
    : tensor<{n}x32x{h}x{w}xf32>, tensor<{n}x32x{h}x{w}xf32>
      -> tensor<{n}x32x{h}x{w}xf32>
  job.output "y", %y : tensor<{n}x32x{h}x{w}xf32>
}}
"""


def parsed(images: int, height: int, width: int) -> ModuleOp:
    """A convolution with all that can follow it."""
    text = TEXT.format(n=images, h=height, w=width)
    return installed_compiler()[0].parse(text.encode(), "job.mlir")


def model_of(images: int, height: int, width: int) -> Model:
    """The same by Winograd."""
    front, passes = installed_compiler()
    module = parsed(images, height, width)
    run_pipeline(front, passes, module, "op-use-winograd")
    assert "op.winograd_join" in str(module)
    return Model(module, {}, Path())


def exact_result(x: Array, i: Array, state: Mapping[str, NDArray[np.generic]]) -> Array:
    """The result of the job above, in `f64`."""
    w, b = (np.asarray(state[name], np.float64) for name in "wb")
    sums = convolved(np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))), w)
    return np.maximum(sums + b[:, None, None], 0) + i


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("extents", [(1, 16, 16), (1, 14, 14), (3, 28, 20)])
def test_sessions_convolve_tile_by_tile(
    extents: tuple[int, int, int], threads: int
) -> None:
    images, height, width = extents
    x = random("f32", images, 16, height, width)
    i = random("f32", images, 32, height, width)
    with Session(model_of(*extents), threads=threads) as session:
        found = session.run({"x": x, "i": i})["y"]
        exact = exact_result(x, i, session.state())
    assert largest_error(found, exact) <= 1e-5 * np.abs(exact).max()


def test_sessions_use_it_if_that_is_allowed() -> None:
    def is_used(allowed: bool) -> bool:
        model = Model(parsed(1, 16, 16), {}, Path())
        with Session(model, allow_winograd=allowed) as session:
            return "winograd" in str(session.program)

    assert is_used(True)
    assert not is_used(False)


def test_jobs_cannot_set_transformed_weights() -> None:
    model = Model(parsed(1, 16, 16), {}, Path())
    with pytest.raises(UsageError, match="are not loaded and saved by jobs"):
        Session(model, allow_winograd=True, model_jobs=True)


def test_the_command_uses_it_if_that_is_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "job.mlir"
    path.write_text(TEXT.format(n=1, h=16, w=16))
    assert (
        run_tool(
            [str(path), "--allow-winograd", "--random-inputs", "1", "--check", "numpy"]
        )
        == 0
    )
    plan = tmp_path / "plan"
    with Session(model_of(1, 16, 16)) as session:
        session.save(plan)
    assert run_tool([str(plan), "--allow-winograd"]) != 0
    assert "--allow-winograd is for what is compiled" in capsys.readouterr().err


def test_weights_can_be_read_set_and_saved(tmp_path: Path) -> None:
    x, i = random("f32", 1, 16, 16, 16), random("f32", 1, 32, 16, 16)
    state = {"w": random("f32", 32, 16, 3, 3), "b": random("f32", 32)}
    with Session(model_of(1, 16, 16)) as session:
        assert session.state()["w"].shape == (32, 16, 3, 3)
        session.load_state(state)
        np.testing.assert_array_equal(session.state()["w"], state["w"])
        found = session.run({"x": x, "i": i})["y"]
        session.save(tmp_path / "plan")
    exact = exact_result(x, i, state)
    assert largest_error(found, exact) <= 1e-5 * np.abs(exact).max()
    with Session.open(tmp_path / "plan") as session:
        np.testing.assert_array_equal(session.run({"x": x, "i": i})["y"], found)
        np.testing.assert_array_equal(session.state()["w"], state["w"])


def test_weights_of_several_sessions_are_not_transformed() -> None:
    with pytest.raises(PenstockError, match="for Winograd are not shared: w"):
        Session(model_of(1, 16, 16), variables=SharedVariables())


def test_the_oracle_transforms_weights() -> None:
    model = model_of(1, 14, 14)
    x, i = random("f32", 1, 16, 14, 14), random("f32", 1, 32, 14, 14)
    w, b = random("f32", 32, 16, 3, 3), random("f32", 32)
    model = Model(model.module, {"w": w, "b": b}, Path())
    exact = exact_result(x, i, {"w": w, "b": b})
    found = evaluate_model(model, {"x": x, "i": i})["y"]
    assert largest_error(found, exact) <= 1e-5 * np.abs(exact).max()
