"""Kernels of several stages that are cut into parts, in any order of the parts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from kernel_runs import run_on_copies

from penstock.dialects.launch import KernelOp
from penstock.lowering.codegen.target import kernel_source

HEADS, PAST, DEPTH = 6, 1000, 32

BODY = """
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  }
"""

FIRST = """
  linalg.generic {
    indexing_maps = [
      affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i * STEP + j)>
    ],
    iterator_types = ["parallel", "parallel"]
  } ins(%x : memref<6x32000xf32>) outs(%o : memref<192192xf32>) {
"""

SECOND = """
  linalg.generic {
    indexing_maps = [
      affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i * 32032 + j + START)>
    ],
    iterator_types = ["parallel", "parallel"]
  } ins(%y : memref<6x32xf32>) outs(%o : memref<192192xf32>) {
"""


def kernel(step: int = 32032, start: int = 32000) -> str:
    arguments = "%x: memref<6x32000xf32>, %y: memref<6x32xf32>, %o: memref<192192xf32>"
    first = FIRST.replace("STEP", str(step)) + BODY
    second = SECOND.replace("START", str(start)) + BODY
    return f'launch.kernel @k target "cpu" ({arguments}) {{\n{first}{second}}}'


def most_parts(source: str) -> int:
    line = next(line for line in source.splitlines() if line.startswith("PARTS = "))
    return int(line.removeprefix("PARTS = "))


@pytest.mark.parametrize("parts", [1, 2, 4, 7])
def test_parts_share_the_rows_of_a_concatenation(
    parts: int, parse_kernel: Callable[[str], KernelOp]
) -> None:
    source = kernel_source(parse_kernel(kernel()))
    assert most_parts(source) > 1
    random = np.random.default_rng(parts)
    x = random.normal(size=(HEADS, PAST, DEPTH)).astype(np.float32)
    y = random.normal(size=(HEADS, 1, DEPTH)).astype(np.float32)
    out = np.zeros((HEADS, PAST + 1, DEPTH), np.float32)
    *_, found = run_on_copies(source, [x, y, out], parts=parts)
    np.testing.assert_array_equal(found, np.concatenate([x, y], 1))


@pytest.mark.parametrize(("step", "start"), [(32000, 32000), (32032, 32001)])
def test_stages_whose_rows_are_others_stay_whole(
    step: int, start: int, parse_kernel: Callable[[str], KernelOp]
) -> None:
    # Rows as far apart as others are not, and rows that reach into the next ones.
    text = kernel(step, start).replace("192192", "192256")
    assert most_parts(kernel_source(parse_kernel(text))) == 1


def test_stages_that_read_the_result_stay_whole(
    parse_kernel: Callable[[str], KernelOp],
) -> None:
    view = """
  %v = memref.expand_shape %o [[0 : i64, 1 : i64]] output_shape [6, 32032]
    : memref<192192xf32> into memref<6x32032xf32>
"""
    text = kernel().replace(
        "%x : memref<6x32000xf32>) outs", "%v : memref<6x32032xf32>) outs"
    )
    head, rest = text.split("{\n", 1)
    assert most_parts(kernel_source(parse_kernel(f"{head}{{{view}{rest}"))) == 1
