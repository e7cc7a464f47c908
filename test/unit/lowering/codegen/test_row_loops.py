"""Rows of several loops (`kernel.row`) on both targets, against NumPy in f64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from kernel_runs import run_on_copies
from numpy.typing import NDArray

from penstock.dialects.kernel.interface import SCHEDULE
from penstock.dialects.kernel.row import RowOp
from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.schedules.cuda_rows import RowsAttr
from penstock.lowering.codegen.cpu.kernel_schedule import (
    schedule_kernel as schedule_for_cpu,
)
from penstock.lowering.codegen.cuda.kernel_schedule import (
    schedule_kernel as schedule_for_cuda,
)
from penstock.lowering.codegen.target import kernel_source

Array: TypeAlias = Any
Floats: TypeAlias = NDArray[np.float64]
Parse: TypeAlias = Callable[[str], KernelOp]

DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
TOLERANCES = {"f16": 4e-3, "f32": 2e-5, "f64": 1e-12}
"""Of a difference, relative to the largest number: results are rounded to the type."""

IDENTITY = "affine_map<(n, g, c, s) -> (n, g, c, s)>"
OF_OUTER = "affine_map<(n, g, c, s) -> (g, c)>"


def group_norm_text(shape: tuple[int, ...], type: str, target: str) -> str:
    """A kernel of rows along the last two loops, of which scales have the first."""
    n, g, c, s = shape
    whole, outer = f"memref<{n}x{g}x{c}x{s}x{type}>", f"memref<{g}x{c}x{type}>"
    return f"""
    launch.kernel @k target "{target}"
        (%x: {whole}, %w: {outer}, %b: {outer}, %y: {whole}) {{
      kernel.row along [2, 3]
          indexing_maps = [{IDENTITY}, {OF_OUTER}, {OF_OUTER}, {IDENTITY}]
          ins(%x, %w, %b : {whole}, {outer}, {outer}) outs(%y : {whole}) {{
      ^bb0(%e: {type}, %we: {type}, %be: {type}):
        %count = arith.constant {float(c * s)} : {type}
        %least = arith.constant 1.0e-03 : {type}
        %sum = kernel.all_reduce add %e : {type}
        %mean = arith.divf %sum, %count : {type}
        %d = arith.subf %e, %mean : {type}
        %d2 = arith.mulf %d, %d : {type}
        %squares = kernel.all_reduce add %d2 : {type}
        %v = arith.divf %squares, %count : {type}
        %more = arith.addf %v, %least : {type}
        %root = math.sqrt %more : {type}
        %q = arith.divf %d, %root : {type}
        %scaled = arith.mulf %q, %we : {type}
        %z = arith.addf %scaled, %be : {type}
        kernel.yield %z : {type}
      }}
    }}"""


def group_norm(x: Floats, w: Floats, b: Floats) -> Floats:
    """The group norm of float64 as its formula says."""
    mean = x.mean((2, 3), keepdims=True)
    variance = ((x - mean) ** 2).mean((2, 3), keepdims=True)
    scaled = (x - mean) / np.sqrt(variance + 1e-3) * w[:, :, None]
    return np.asarray(scaled + b[:, :, None])


def schedule_of(kernel: KernelOp) -> str:
    """Schedule a kernel; the schedule of its row, or nothing."""
    if kernel.target.data == "cpu":
        schedule_for_cpu(kernel, 32)
    else:
        schedule_for_cuda(kernel, 132)
    (row,) = (op for op in kernel.body.block.ops if isinstance(op, RowOp))
    return str(row.attributes.get(SCHEDULE, ""))


def agree(found: Array, expected: Floats, type: str) -> None:
    """Compare a result with what NumPy has, where that is a number and where not."""
    most = np.nanmax(np.abs(expected)) * TOLERANCES[type]
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=0, atol=most)


CASES = [
    ((2, 3, 4, 36), "f32", "<warp, threads 32, width 4, kept>"),
    ((3, 2, 5, 49), "f32", "<warp, threads 32, width 1, kept>"),
    ((1, 1, 40, 1), "f32", "<warp, threads 32, width 1, kept>"),
    ((2, 2, 6, 16), "f16", "<warp, threads 32, width 8, kept>"),
    ((2, 2, 3, 14), "f64", "<warp, threads 32, width 2, kept>"),
    ((1, 2, 9, 256), "f32", "<block, threads 256, width 4, kept>"),
    ((1, 2, 3, 5), "f32", ""),
]


@pytest.mark.parametrize(("shape", "type", "schedule"), CASES)
@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_group_norms(
    target: str,
    shape: tuple[int, ...],
    type: str,
    schedule: str,
    parse_kernel: Parse,
) -> None:
    kernel = parse_kernel(group_norm_text(shape, type, target))
    found = schedule_of(kernel)
    if target == "cuda":
        assert found == (f"#launch.rows{schedule}" if schedule else "")
    elif shape[-1] > 1:
        assert found == "#launch.vector_loops<lines>"
    random = np.random.default_rng(11)
    sizes = shape, shape[1:3], shape[1:3]
    given = [random.normal(1, 2, size).astype(DTYPES[type]) for size in sizes]
    given[0][0, 0, 0, 0] = np.nan if shape[1] > 1 else 3
    result = np.full(shape, 7, DTYPES[type])
    if not found:
        (result,) = _row_of(kernel).evaluate(*given, result)
    else:
        result = run_on_copies(kernel, [*given, result])[-1]
    agree(result, group_norm(*(x.astype(np.float64) for x in given)), type)


def _row_of(kernel: KernelOp) -> RowOp:
    (row,) = (op for op in kernel.body.block.ops if isinstance(op, RowOp))
    return row


SOFTMAX_APART = """
    launch.kernel @k target "{target}" (%x: {type}, %f: memref<{n}xf32>, %y: {type}) {{
      kernel.row along [0, 2] indexing_maps = [
          affine_map<(n, c, s) -> (n, c, s)>, affine_map<(n, c, s) -> (n)>,
          affine_map<(n, c, s) -> (n, c, s)>
        ] ins(%x, %f : {type}, memref<{n}xf32>) outs(%y : {type}) {{
      ^bb0(%e: f32, %w: f32):
        %m = kernel.all_reduce maxnumf %e : f32
        %d = arith.subf %e, %m : f32
        %power = math.exp %d : f32
        %p = arith.mulf %power, %w : f32
        %k = kernel.keep %p : f32
        %s = kernel.all_reduce add %k : f32
        %q = arith.divf %k, %s : f32
        kernel.yield %q : f32
      }}
    }}"""


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("shape", [(3, 5, 40), (4, 2, 13)])
def test_loops_of_a_row_with_another_between_them(
    target: str, shape: tuple[int, int, int], parse_kernel: Parse
) -> None:
    n, c, s = shape
    facts = {"target": target, "type": f"memref<{n}x{c}x{s}xf32>", "n": n}
    kernel = parse_kernel(SOFTMAX_APART.format(**facts))
    assert schedule_of(kernel)
    random = np.random.default_rng(12)
    x = random.normal(0, 4, shape).astype(np.float32)
    weights = random.uniform(1, 2, n).astype(np.float32)
    result = np.zeros(shape, np.float32)
    result = run_on_copies(kernel, [x, weights, result])[-1]
    powers = np.exp(x.astype(np.float64)) * weights[:, None, None]
    agree(result, powers / powers.sum((0, 2), keepdims=True), "f32")


NUMBERED = """
    launch.kernel @k target "{target}" (%x: memref<2x4x20xf32>, %y: memref<2xf32>) {{
      kernel.row along [1, 2] indexing_maps = [
          affine_map<(n, c, s) -> (n, c, s)>, affine_map<(n, c, s) -> (n)>
        ] ins(%x : memref<2x4x20xf32>) outs(%y : memref<2xf32>) {{
      ^bb0(%e: f32):
        %c = kernel.index 1 : index
        %s = kernel.index 2 : index
        %ci = arith.index_cast %c : index to i32
        %si = arith.index_cast %s : index to i32
        %a = arith.muli %ci, %si : i32
        %f = arith.sitofp %a : i32 to f32
        %p = arith.mulf %e, %f : f32
        %sum = kernel.all_reduce add %p : f32
        kernel.yield %sum : f32
      }}
    }}"""


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_the_index_of_each_loop_is_known(target: str, parse_kernel: Parse) -> None:
    kernel = parse_kernel(NUMBERED.format(target=target))
    schedule = schedule_of(kernel)
    x = np.random.default_rng(13).normal(size=(2, 4, 20)).astype(np.float32)
    result = np.zeros(2, np.float32)
    if schedule:
        result = run_on_copies(kernel, [x, result])[-1]
    else:
        (result,) = _row_of(kernel).evaluate(x, result)
    factors = np.arange(4)[:, None] * np.arange(20)
    agree(result, np.asarray((x.astype(np.float64) * factors).sum((1, 2))), "f32")


def test_passes_over_contiguous_points_are_one_line(parse_kernel: Parse) -> None:
    """Only the pass that reads scales has a loop for them."""
    kernel = parse_kernel(group_norm_text((2, 3, 4, 36), "f32", "cpu"))
    schedule_of(kernel)
    source = kernel_source(kernel)
    lines = [text for text in source.splitlines() if " = line(" in text]
    assert [text.split(", ")[1] for text in lines] == ["144", "144", "36"]


@pytest.mark.parametrize("threads", [64, 128, 512, 1024])
def test_a_block_of_any_threads_has_one_row(threads: int, parse_kernel: Parse) -> None:
    shape = (2, 3, 2, 70)
    kernel = parse_kernel(group_norm_text(shape, "f64", "cuda"))
    _row_of(kernel).attributes[SCHEDULE] = RowsAttr("block", threads, 2, kept=True)
    random = np.random.default_rng(threads)
    sizes = shape, shape[1:3], shape[1:3]
    given = [random.normal(1, 2, size) for size in sizes]
    *_, result = run_on_copies(kernel, [*given, np.full(shape, 7.0)])
    agree(result, group_norm(*given), "f64")
