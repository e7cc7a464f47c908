"""Folds that the threads of blocks share on devices, run by the emulator of lanes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import pytest
from draws import fresh
from numpy.typing import NDArray

from penstock.dialects.kernel.interface import REFUSAL, SCHEDULE
from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.schedules.cuda_rows import RowsAttr
from penstock.lowering.codegen.cuda.kernel_schedule import (
    schedule_kernel as schedule_for_cuda,
)
from penstock.lowering.codegen.target import kernel_source
from penstock.runtime.testing.cuda_lockstep_emulator import run_lanes

Kernels: TypeAlias = Callable[[str], list[KernelOp]]
Doubles: TypeAlias = NDArray[np.float64]
SHARED = "slots_0"


def run(kernels: Kernels, body: str, *arrays: NDArray[np.generic]) -> str:
    """Run the only kernel of a job on arrays in place; its source."""
    (kernel,) = kernels(body)
    source = kernel_source(kernel)
    assert run_lanes(source, [array.reshape(-1) for array in arrays]) == 0
    return source


@pytest.mark.parametrize(
    ("op", "function"),
    [
        *(("reduce_sum", np.sum), ("reduce_mean", np.mean), ("reduce_prod", np.prod)),
        *(("reduce_max", np.max), ("reduce_min", np.min)),
    ],
)
@pytest.mark.parametrize(
    ("shape", "axes"),
    [((640, 40), (0,)), ((4, 6, 5, 12), (0, 2, 3)), ((3, 70, 5), (1,))],
)
def test_folds_over_other_dimensions_than_the_last(
    device_kernels: Kernels,
    op: str,
    function: Callable[..., Doubles],
    shape: tuple[int, ...],
    axes: tuple[int, ...],
) -> None:
    left = [extent for axis, extent in enumerate(shape) if axis not in axes]
    x, y = ("x".join(map(str, (*extents, "f32"))) for extents in (shape, left))
    body = f"""
      %x = job.input "x" : tensor<{x}>
      %y = op.{op} %x axes {[*axes]} : tensor<{x}> -> tensor<{y}>
      job.output "y", %y : tensor<{y}>
    """
    given = np.random.default_rng(1).uniform(0.98, 1.02, shape).astype(np.float32)
    found = np.full(left, np.nan, np.float32)
    source = run(device_kernels, body, given, found)
    assert SHARED in source
    expected = function(given.astype(np.float64), axis=axes)
    np.testing.assert_allclose(found, expected, rtol=5e-6)


def test_sums_of_halves_are_rounded_once(device_kernels: Kernels) -> None:
    body = """
      %x = job.input "x" : tensor<640x40xf16>
      %y = op.reduce_sum %x axes [0] : tensor<640x40xf16> -> tensor<40xf16>
      job.output "y", %y : tensor<40xf16>
    """
    given = np.random.default_rng(1).uniform(0.5, 2, (640, 40)).astype(np.float16)
    found = np.full(40, np.nan, np.float16)
    assert SHARED in run(device_kernels, body, given, found)
    expected = given.astype(np.float64).sum(axis=0)
    np.testing.assert_allclose(found, expected, rtol=2**-11 * 1.01)


@pytest.mark.parametrize(
    ("rows", "columns", "terms", "type"),
    [
        (1, 40, 100, "f32"),
        (3, 33, 130, "f64"),
        (2, 24, 600, "f16"),
        # Tiles of these would keep few processors busy.
        (12, 72, 700, "f32"),
    ],
)
def test_products_of_few_rows_divide_their_terms(
    device_kernels: Kernels, rows: int, columns: int, terms: int, type: str
) -> None:
    x_type, w_type, y_type = (
        f"tensor<{m}x{n}x{type}>"
        for m, n in ((rows, terms), (terms, columns), (rows, columns))
    )
    body = f"""
      %x = job.input "x" : {x_type}
      %w = job.input "w" : {w_type}
      %y = op.matmul %x, %w : {x_type}, {w_type} -> {y_type}
      job.output "y", %y : {y_type}
    """
    dtype = np.dtype(f"float{type[1:]}")
    rng = np.random.default_rng(terms)
    x = rng.standard_normal((rows, terms)).astype(dtype)
    w = rng.standard_normal((terms, columns)).astype(dtype)
    y = np.full((rows, columns), np.nan, dtype)
    source = run(device_kernels, body, x, w, y)
    assert SHARED in source
    # Each element of the matrix is read once for all rows.
    assert source.count("in1[") == 1
    threads = 1024 if terms >= 512 else 256
    assert f", {threads}, blockwise=True" in source
    expected = x.astype(np.float64) @ w.astype(np.float64)
    tolerance = {"f16": 2e-3, "f32": 1e-5, "f64": 1e-13}[type]
    np.testing.assert_allclose(y, expected, rtol=tolerance, atol=10 * tolerance)


def test_many_elements_have_a_thread_each(device_kernels: Kernels) -> None:
    body = """
      %x = job.input "x" : tensor<64x70000xf32>
      %y = op.reduce_max %x axes [0] : tensor<64x70000xf32> -> tensor<70000xf32>
      job.output "y", %y : tensor<70000xf32>
    """
    (kernel,) = device_kernels(body)
    assert SHARED not in kernel_source(kernel)


@pytest.mark.parametrize(
    "schedule",
    [
        *("grid, threads 64, width 1", "grid, threads 128, width 8"),
        *("grid, threads 512, width 32", "grid, threads 64, width 16, kept"),
        *("grid, threads 256, width 4, kept", "grid, threads 1024, width 2"),
    ],
)
def test_folds_are_shared_as_their_schedule_says(
    schedule: str, parse_kernel: Callable[[str], KernelOp]
) -> None:
    text = f"""launch.kernel @kernel target "cuda"
        (%x: memref<70x5x9xf32>, %w: memref<70x9xf32>, %o: memref<5x9xf32>) {{
      kernel.row along [0] indexing_maps = [affine_map<(i, r, j) -> (i, r, j)>,
          affine_map<(i, r, j) -> (i, j)>, affine_map<(i, r, j) -> (r, j)>]
          ins(%x, %w : memref<70x5x9xf32>, memref<70x9xf32>)
          outs(%o : memref<5x9xf32>)
          attributes {{schedule = #launch.rows<{schedule}>}} {{
      ^bb0(%v: f32, %b: f32):
        %p = arith.mulf %v, %b : f32
        %s = kernel.all_reduce add %p : f32
        kernel.yield %s : f32
      }}
    }}"""
    rng = np.random.default_rng(8)
    x, w = (rng.normal(size=n).astype(np.float32) for n in ((70, 5, 9), (70, 9)))
    found = np.full((5, 9), np.nan, np.float32)
    source = kernel_source(parse_kernel(text))
    threads = int(schedule.split("threads ")[1].split(",")[0])
    assert f", {threads}, blockwise=True" in source
    assert run_lanes(source, [x.reshape(-1), w.reshape(-1), found.reshape(-1)]) == 0
    wanted = (x.astype(np.float64) * w[:, None, :]).sum(0)
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    ("schedule", "rows", "points"),
    [
        (RowsAttr("grid", 64, 1), 5, 70),
        (RowsAttr("grid", 64, 32, kept=True), 45, 7),
        (RowsAttr("grid", 256, 4, kept=True), 7, 130),
        (RowsAttr("grid", 1024, 16), 33, 90),
        (None, 65, 300),
    ],
)
def test_blocks_have_several_folds_of_rows_side_by_side(
    schedule: RowsAttr | None,
    rows: int,
    points: int,
    parse_kernel: Callable[[str], KernelOp],
) -> None:
    kernel = parse_kernel(f"""launch.kernel @kernel target "cuda"
        (%x: memref<{points}x{rows}xf32>,
        %y: memref<{rows}xf32>, %o: memref<{points}x{rows}xf32>) {{
      kernel.row along [0] indexing_maps = [affine_map<(e, r) -> (e, r)>,
          affine_map<(e, r) -> (r)>, affine_map<(e, r) -> (e, r)>]
          ins(%x : memref<{points}x{rows}xf32>)
          outs(%y, %o : memref<{rows}xf32>, memref<{points}x{rows}xf32>) {{
      ^bb0(%v: f32):
        %m = kernel.all_reduce maxnumf %v : f32
        %s = kernel.all_reduce add %v : f32
        %d = arith.subf %v, %m : f32
        %e = math.exp %d : f32
        %t = kernel.all_reduce add %e : f32
        %q = arith.divf %e, %t : f32
        %n = arith.addf %m, %s : f32
        kernel.yield %n, %q : f32, f32
      }}
    }}""")
    (row,) = kernel.body.block.ops
    if schedule is None:
        schedule_for_cuda(kernel, 132)
        assert row.attributes[SCHEDULE] == RowsAttr("grid", 256, 32)
    else:
        row.attributes[SCHEDULE] = schedule
    x = fresh().normal(size=(points, rows)).astype(np.float32)
    m, o = np.full(rows, np.nan, np.float32), np.full_like(x, np.nan)
    source = kernel_source(kernel)
    assert run_lanes(source, [x.reshape(-1), m, o.reshape(-1)]) == 0
    wide = x.astype(np.float64)
    shifted = np.exp(wide - wide.max(0))
    np.testing.assert_allclose(m, wide.max(0) + wide.sum(0), rtol=0, atol=1e-4)
    np.testing.assert_allclose(o, shifted / shifted.sum(0), rtol=2e-5)


def test_blocks_that_do_not_hold_the_folds_of_rows_have_none(
    parse_kernel: Callable[[str], KernelOp],
) -> None:
    folds = [f"%s{n} = kernel.all_reduce add %p{n} : f32" for n in range(193)]
    products = [f"%p{n + 1} = arith.mulf %p{n}, %p0 : f32" for n in range(192)]
    sums = [f"%t{n + 1} = arith.addf %t{n}, %s{n + 1} : f32" for n in range(192)]
    sums[0] = "%t1 = arith.addf %s0, %s1 : f32"
    lines = "\n".join((*products, *folds, *sums))
    kernel = parse_kernel(f"""launch.kernel @kernel target "cuda"
        (%x: memref<64x32xf32>, %o: memref<32xf32>) {{
      kernel.row along [0] indexing_maps = [affine_map<(e, r) -> (e, r)>,
          affine_map<(e, r) -> (r)>]
          ins(%x : memref<64x32xf32>) outs(%o : memref<32xf32>) {{
      ^bb0(%p0: f32):
        {lines}
        kernel.yield %t192 : f32
      }}
    }}""")
    schedule_for_cuda(kernel, 132)
    (row,) = kernel.body.block.ops
    reason = row.attributes[REFUSAL]
    text = '"the sums of 64 threads take more than 49152 bytes"'
    assert str(reason) == text


@pytest.mark.parametrize("op", ["arg_max", "arg_min"])
@pytest.mark.parametrize("last", ["", " last"])
@pytest.mark.parametrize("type", ["f32", "f64", "i32", "i64"])
def test_places_are_found_by_warps(
    device_kernels: Kernels, op: str, last: str, type: str
) -> None:
    body = f"""
      %x = job.input "x" : tensor<5x70x{type}>
      %y = op.{op} %x axis 1{last} : tensor<5x70x{type}> -> tensor<5x1xi64>
      job.output "y", %y : tensor<5x1xi64>
    """
    dtype = np.dtype({"f": "float", "i": "int"}[type[0]] + type[1:])
    x = np.random.default_rng(9).integers(0, 12, (5, 70)).astype(dtype)
    if type[0] == "f":
        x[1, 40] = x[1, 50] = np.nan
        x[2] = -np.inf
    found = np.full((5, 1), -1, np.int64)
    source = run(device_kernels, body, x, found)
    assert "shuffle_xor" in source
    sign = 1 if op == "arg_max" else -1
    values = sign * x.astype(np.float64)
    wanted: NDArray[np.int64] = np.argmax(values, 1)
    if last:
        has_nan = np.isnan(values).any(1)
        wanted[~has_nan] = 69 - np.argmax(values[:, ::-1], 1)[~has_nan]
    np.testing.assert_array_equal(found[:, 0], wanted)
