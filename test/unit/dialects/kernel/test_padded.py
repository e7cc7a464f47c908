"""`kernel.padded`: kernels that read numbers around memrefs, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from draws import fresh
from kernel_runs import result_of
from numpy.typing import NDArray

from penstock.dialects.kernel.interface import REFUSAL, StructuredOp
from penstock.dialects.kernel.reference import replace_by_loops
from penstock.dialects.launch import KernelOp
from penstock.lowering.analysis.access_bounds import unproven_accesses
from penstock.lowering.codegen.cpu.kernel_schedule import schedule_kernel

Array: TypeAlias = NDArray[Any]
Parse: TypeAlias = Callable[[str], KernelOp]

ID = "affine_map<(i, j) -> (i, j)>"
ROW = f"""
  kernel.row along [1] indexing_maps = [{ID}, {ID}] ins(%p : memref<5x9xf32>)
      outs(%y : memref<5x9xf32>) {{
  ^bb0(%a: f32):
    %m = kernel.all_reduce maxnumf %a : f32
    %d = arith.subf %a, %m : f32
    %s = kernel.all_reduce add %d : f32
    %r = arith.mulf %d, %s : f32
    kernel.yield %r : f32
  }}"""
PRODUCT = """
  kernel.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
      affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%w, %p : memref<7x5xf32>, memref<5x9xf32>) outs(%y : memref<7x9xf32>)"""


def copy_text(type: str, value: str, target: str, shape: str = "3x4") -> str:
    """A kernel that copies a memref with a number around it."""
    x, whole = f"memref<{shape}x{type}>", f"memref<5x7x{type}>"
    low, high = ("[1, 2]", "[1, 1]") if shape == "3x4" else ("[2, 2]", "[3, 1]")
    return f"""
      launch.kernel @k target "{target}" (%x: {x}, %y: {whole}) {{
        %p = kernel.padded %x low {low} high {high} value {value} : {type}
          : {x} to {whole}
        linalg.generic {{indexing_maps = [{ID}, {ID}],
            iterator_types = ["parallel", "parallel"]}}
            ins(%p : {whole}) outs(%y : {whole}) {{
        ^bb0(%a: {type}, %old: {type}):
          linalg.yield %a : {type}
        }}
      }}"""


NUMBERS = {
    "f32": ("0xFF800000", -np.inf, np.float32),
    "f64": ("-2.5", -2.5, np.float64),
    "f16": ("0.1", 0.1, np.float16),
    "i32": ("-7", -7, np.int32),
    "i64": (str((1 << 60) + 1), (1 << 60) + 1, np.int64),
}


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("type", NUMBERS)
def test_a_copy_has_the_number_around_it(
    type: str, target: str, parse_kernel: Parse
) -> None:
    text, number, dtype = NUMBERS[type]
    x = fresh().integers(-9, 9, (3, 4)).astype(dtype)
    kernel = parse_kernel(copy_text(type, text, target))
    wanted = np.full((5, 7), number, dtype)
    wanted[1:4, 2:6] = x
    np.testing.assert_array_equal(result_of(kernel, [x]), wanted)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_nothing_is_read_where_there_are_no_elements(
    target: str, parse_kernel: Parse
) -> None:
    kernel = parse_kernel(copy_text("f32", "1.5", target, "0x4"))
    found = result_of(kernel, [np.zeros((0, 4), np.float32)])
    np.testing.assert_array_equal(found, np.full((5, 7), 1.5))


def padded_kernel(parse_kernel: Parse, stage: str, target: str) -> KernelOp:
    """A kernel of a stage that reads 4 x 6 elements with 3 around them."""
    rows = 7 if stage == PRODUCT else 5
    weights = "%w: memref<7x5xf32>, " if stage == PRODUCT else ""
    return parse_kernel(f"""
      launch.kernel @k target "{target}" ({weights}%x: memref<4x6xf32>,
          %y: memref<{rows}x9xf32>) {{
        %p = kernel.padded %x low [1, 1] high [0, 2] value 3.0 : f32
          : memref<4x6xf32> to memref<5x9xf32>
        {stage}
      }}""")


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("stage", [ROW, PRODUCT], ids=["row", "product"])
def test_stages_read_the_number(stage: str, target: str, parse_kernel: Parse) -> None:
    random = fresh()
    x, w = (random.normal(size=n).astype(np.float32) for n in ((4, 6), (7, 5)))
    whole = np.pad(x, ((1, 0), (1, 2)), constant_values=3)
    below = whole - whole.max(1, keepdims=True)
    ins, wanted = [x], below * below.sum(1, keepdims=True)
    if stage == PRODUCT:
        ins, wanted = [w, x], w @ whole
    kernel = padded_kernel(parse_kernel, stage, target)
    np.testing.assert_allclose(result_of(kernel, ins), wanted, 1e-5, 1e-5)
    (op,) = (op for op in kernel.body.block.ops if isinstance(op, StructuredOp))
    (meant,) = op.evaluate(*ins[:-1], whole, np.zeros_like(wanted))
    np.testing.assert_allclose(np.asarray(meant, float), wanted, 1e-5, 1e-5)
    if target == "cpu":
        schedule_kernel(kernel, 64)
        np.testing.assert_allclose(result_of(kernel, ins), wanted, 1e-5, 1e-5)
    replace_by_loops(op)
    assert not unproven_accesses(kernel)


def test_tiles_want_zeros(parse_kernel: Parse) -> None:
    kernel = padded_kernel(parse_kernel, PRODUCT, "cpu")
    schedule_kernel(kernel, 64)
    *_, op = kernel.body.block.ops
    why = "a factor has other numbers than 0 around it"
    assert why in str(op.attributes[REFUSAL])
