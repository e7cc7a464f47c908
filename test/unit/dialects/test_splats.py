"""Constants all of whose elements are one: what they take, and what they are."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, TensorType, f32, i64

from penstock.dialects.op import ConstantOp
from penstock.dialects.utils.numpy_types import array_of, dense_of
from penstock.dialects.utils.splat import SplatAttr, compact, literal, splat_of
from penstock.lowering.pipelines import PipelineOptions, pipeline
from penstock.tools.driver.compiler import installed_compiler, run_pipeline

LARGE = f"tensor<{1 << 30}xf32>"
JOB = f"""
job.job @net placement <DEVICE, [0:0]> {{
  %a = op.constant dense<2.0> : {LARGE}
  %x = job.input "x" : {LARGE}
  %y = op.mul %x, %a : {LARGE}, {LARGE} -> {LARGE}
  %s = op.slice %a from [3] to [7] by [1] : {LARGE} -> tensor<4xf32>
  job.output "y", %y : {LARGE}
  job.output "s", %s : tensor<4xf32>
}}
"""


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_a_constant_of_gigabytes_goes_through_the_pipeline_in_no_memory(
    target: str,
) -> None:
    compiler, passes = installed_compiler()
    tracemalloc.start()
    try:
        text = JOB.replace("DEVICE", target).encode()
        module = compiler.parse(text, "test.mlir")
        run_pipeline(compiler, passes, module, pipeline(PipelineOptions(target)))
        compiler.verify(module)
        text = str(module)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "launch.program" in text
    assert peak < 1 << 27


@pytest.mark.parametrize(
    "array",
    [
        np.full((2, 3), 1.5, np.float32),
        np.full(3, -0.0),
        np.full(2, np.nan, np.float16),
        np.full(4, True),
        np.full((2, 2), 255, np.uint8),
        np.full(5, -7, np.int64),
    ],
)
def test_elements_are_those_of_the_array(array: np.ndarray) -> None:
    value = dense_of(array)
    assert isinstance(value, SplatAttr)
    assert len(value) == array.size
    assert array_of(value).tobytes() == array.tobytes()
    assert array_of(value).dtype == array.dtype
    (first, *_) = array.reshape(-1)
    one = dense_of(np.array([first]))
    assert literal(value) == literal(one).replace(str(one.type), str(value.type))
    assert ConstantOp(value).value is value


def test_elements_that_differ_or_are_few_stay_dense() -> None:
    for array in (np.array([0.0, -0.0]), np.zeros(1), np.zeros(0), np.array(3)):
        value = dense_of(array)
        assert compact(value) is value
    assert splat_of(TensorType(f32, []), bytes(4)) == dense_of(np.zeros((), np.float32))


def test_too_few_elements_are_not_taken_for_one() -> None:
    short = DenseIntOrFPElementsAttr.from_list(TensorType(i64, [4]), [1, 1])
    assert compact(short) is short
