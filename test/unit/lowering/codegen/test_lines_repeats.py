"""Lines of elements that come several times, as of enlarged images, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from draws import fresh
from kernel_runs import run_on_copies
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block

from penstock.dialects.kernel.builder import kernel_body
from penstock.dialects.launch import KernelOp
from penstock.dialects.op.movement import ExpandOp
from penstock.dialects.utils.numpy_types import element_type_of
from penstock.lowering.codegen.target import kernel_source

Array: TypeAlias = NDArray[Any]
ParseKernel: TypeAlias = Callable[[str], KernelOp]

CASES = [
    ((3, 5, 7), (2, 2), "f4", 1),
    ((1, 4, 33), (1, 4), "f8", 1),
    ((2, 3, 70), (3, 8), "i1", 1),
    ((2, 3, 17), (2, 2), "f2", 1),
    ((1, 1, 200_001), (1, 2), "f4", 3),
    ((64, 65, 64), (2, 2), "i4", 2),
]
"""Images, how often lines and columns come, the type, and parts."""


@pytest.mark.parametrize(("shape", "factors", "type", "parts"), CASES)
def test_elements_that_come_several_times(
    shape: tuple[int, ...], factors: tuple[int, int], type: str, parts: int
) -> None:
    rng = fresh()
    x: Array = rng.integers(-100, 100, shape).astype(type)
    images, rows, columns = shape
    down, across = factors
    source = TensorType(element_type_of(x.dtype), [images, rows, 1, columns, 1])
    op = ExpandOp(
        Block(arg_types=[source]).args[0], [images, rows, down, columns, across]
    )
    kernel = KernelOp("k", "cpu", kernel_body(op))
    text = kernel_source(kernel)
    assert "repeats=" in text
    (line,) = [line for line in text.splitlines() if line.startswith("PARTS")]
    assert int(line.removeprefix("PARTS = ")) >= parts
    out = np.zeros((images, rows, down, columns, across), x.dtype)
    *_, found = run_on_copies(text, [x.reshape(source.get_shape()), out], parts=parts)
    wanted = x.repeat(down, 1).repeat(across, 2)
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


def test_enlarged_images_are_added_to_others(parse_kernel: ParseKernel) -> None:
    text = """
    #small = affine_map<(r, c, n) -> (r, c)>
    #scale = affine_map<(r, c, n) -> (r)>
    #large = affine_map<(r, c, n) -> (r, c, n)>
    launch.kernel @k target "cpu" (%x: memref<5x21xf32>, %s: memref<5xf32>,
        %y: memref<5x21x2xf32>, %o: memref<5x21x2xf32>) {
      linalg.generic {indexing_maps = [#small, #scale, #large, #large],
                      iterator_types = ["parallel", "parallel", "parallel"]}
        ins(%x, %s, %y : memref<5x21xf32>, memref<5xf32>, memref<5x21x2xf32>)
        outs(%o : memref<5x21x2xf32>) {
      ^bb0(%a: f32, %b: f32, %c: f32, %d: f32):
        %p = arith.mulf %a, %b : f32
        %t = arith.addf %p, %c : f32
        linalg.yield %t : f32
      }
    }"""
    kernel = parse_kernel(text)
    assert "repeats=[2, 1]" in kernel_source(kernel)
    rng = fresh()
    x, s, y = (rng.integers(-99, 99, n).astype("f4") for n in ((5, 21), 5, (5, 21, 2)))
    *_, found = run_on_copies(kernel_source(kernel), [x, s, y, np.zeros_like(y)])
    np.testing.assert_array_equal(found, (x * s[:, None])[:, :, None] + y)


def test_elements_that_come_three_times_are_no_line(parse_kernel: ParseKernel) -> None:
    text = """
    #small = affine_map<(c, n) -> (c)>
    #large = affine_map<(c, n) -> (c, n)>
    launch.kernel @k target "cpu" (%x: memref<50xf32>, %o: memref<50x3xf32>) {
      linalg.generic {indexing_maps = [#small, #large],
                      iterator_types = ["parallel", "parallel"]}
        ins(%x : memref<50xf32>) outs(%o : memref<50x3xf32>) {
      ^bb0(%a: f32, %d: f32):
        linalg.yield %a : f32
      }
    }"""
    assert "repeats=" not in kernel_source(parse_kernel(text))
