"""Folds of rows by a region: their NumPy meaning, and the loops of both targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest

from penstock.dialects.kernel.row import RowOp
from penstock.dialects.launch import KernelOp
from penstock.lowering.codegen.cpu import kernel_schedule as cpu
from penstock.lowering.codegen.cuda import kernel_schedule as cuda
from penstock.lowering.codegen.target import kernel_source
from penstock.runtime.jit.cpu import compile_cpu
from penstock.runtime.testing.cuda_lockstep_emulator import run_lanes

Array: TypeAlias = Any
Parse: TypeAlias = Callable[[str], KernelOp]

FIRST = """launch.kernel @kernel target "TARGET"
    (%x: memref<RxCxT>, %y: memref<Rxi64>) {
  kernel.row along [1]
      indexing_maps = [affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r)>]
      ins(%x : memref<RxCxT>) outs(%y : memref<Rxi64>) {
  ^bb0(%a: T):
    %i = kernel.index 1 : index
    %n = arith.index_cast %i : index to i64
    %low = arith.constant LOW : T
    %none = arith.constant 1000 : i64
    %m, %p = kernel.all_reduce by %a, %n init(%low, %none : T, i64) : T, i64 {
    ^bb1(%z: T, %j: i64, %v: T, %k: i64):
      %more = arith.cmpf ogt, %v, %z : T
      %same = arith.cmpf oeq, %v, %z : T
      %before = arith.cmpi slt, %k, %j : i64
      %first = arith.andi %same, %before : i1
      %wins = arith.ori %more, %first : i1
      %w = arith.select %wins, %v, %z : T
      %l = arith.select %wins, %k, %j : i64
      kernel.yield %w, %l : T, i64
    }
    kernel.yield %p : i64
  }
}"""
# Each point is one element, its mean itself and no square: Chan's rule joins two.
WELFORD = """launch.kernel @kernel target "TARGET"
    (%x: memref<RxCxT>, %y: memref<RxCxT>, %s: memref<RxT>) {
  kernel.row along [1] indexing_maps = [affine_map<(r, e) -> (r, e)>,
      affine_map<(r, e) -> (r, e)>, affine_map<(r, e) -> (r)>]
      ins(%x : memref<RxCxT>) outs(%y, %s : memref<RxCxT>, memref<RxT>) {
  ^bb0(%a: T):
    %zero = arith.constant 0.0 : T
    %one = arith.constant 1.0 : T
    %n, %m, %q = kernel.all_reduce by %one, %a, %zero
        init(%zero, %zero, %zero : T, T, T) : T, T, T {
    ^bb1(%n0: T, %m0: T, %q0: T, %n1: T, %m1: T, %q1: T):
      %none = arith.constant 0.0 : T
      %count = arith.addf %n0, %n1 : T
      %empty = arith.cmpf oeq, %count, %none : T
      %d = arith.subf %m1, %m0 : T
      %share = arith.divf %n1, %count : T
      %safe = arith.select %empty, %none, %share : T
      %step = arith.mulf %d, %safe : T
      %mean = arith.addf %m0, %step : T
      %cross = arith.mulf %step, %d : T
      %weighted = arith.mulf %cross, %n0 : T
      %both = arith.addf %q0, %q1 : T
      %square = arith.addf %both, %weighted : T
      kernel.yield %count, %mean, %square : T, T, T
    }
    %variance = arith.divf %q, %n : T
    %centered = arith.subf %a, %m : T
    kernel.yield %centered, %variance : T, T
  }
}"""
LOW = {"f32": "0xFF800000", "f64": "0xFFF0000000000000"}
SHAPES = [(3, 37), (1, 1), (5, 64), (2, 0)]


def text_of(text: str, shape: tuple[int, int], type: str, target: str) -> str:
    """A kernel with these rows."""
    text = text.replace("TARGET", target).replace("LOW", LOW[type])
    text = text.replace("RxCxT", f"{shape[0]}x{shape[1]}x{type}")
    text = text.replace("RxT", f"{shape[0]}x{type}").replace("Rxi64", f"{shape[0]}xi64")
    return text.replace(": T", f": {type}").replace(", T", f", {type}")


def evaluated(kernel: KernelOp, *arrays: Array) -> Sequence[Array]:
    """The results in NumPy."""
    (row,) = (op for op in kernel.body.block.ops if isinstance(op, RowOp))
    return row.evaluate(*arrays)


def run(kernel: KernelOp, *arrays: Array) -> None:
    """Run a kernel as it is scheduled for its target, on arrays in place."""
    if kernel.target.data == "cpu":
        cpu.schedule_kernel(kernel, 32)
        words = np.array([array.ctypes.data for array in arrays], np.int64)
        assert compile_cpu(kernel_source(kernel), "kernel")(words.ctypes.data) == 0
    else:
        cuda.schedule_kernel(kernel, 132)
        flat = [array.reshape(-1) for array in arrays]
        assert run_lanes(kernel_source(kernel), flat) == 0


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("shape", SHAPES)
def test_first_places(shape: tuple[int, int], target: str, parse_kernel: Parse) -> None:
    kernel = parse_kernel(text_of(FIRST, shape, "f32", target))
    x = np.random.default_rng(21).integers(0, 9, shape).astype(np.float32)
    found = np.zeros(shape[0], np.int64)
    wanted = np.argmax(x, 1) if shape[1] else np.full(shape[0], 1000)
    (meant,) = evaluated(kernel, x, found)
    np.testing.assert_array_equal(meant, wanted)
    run(kernel, x, found)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize(("type", "shape"), [("f64", (3, 37)), ("f32", (5, 64))])
def test_welford(
    type: str, shape: tuple[int, int], target: str, parse_kernel: Parse
) -> None:
    kernel = parse_kernel(text_of(WELFORD, shape, type, target))
    dtype = np.dtype(f"float{type[1:]}")
    # A mean far from zero: squares of elements would cancel.
    x = (1000 + np.random.default_rng(22).normal(size=shape)).astype(dtype)
    y, s = np.zeros_like(x), np.zeros(shape[0], dtype)
    wide = x.astype(np.float64)
    ulp = float(np.finfo(dtype).eps)
    meant = evaluated(kernel, x, y, s)
    run(kernel, x, y, s)
    for centered, variance in (meant, (y, s)):
        exact = wide - wide.mean(1, keepdims=True)
        np.testing.assert_allclose(centered, exact, atol=1000 * 8 * ulp)
        np.testing.assert_allclose(variance, wide.var(1), rtol=1000 * 8 * ulp)
