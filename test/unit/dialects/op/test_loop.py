"""Loops: their meaning, and the same bits of the ops that they are unrolled to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from draws import fresh_seed

from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.session.model import Model
from penstock.tools.session.oracle import evaluate_model

TEXT = """job.job @sums placement <cpu, [0:0]> {{
  %a = job.input "a" : tensor<4xi64>
  %xs = job.input "xs" : tensor<5x4xi64>
  %w = job.input "w" : tensor<4xi64>
  %b, %ys = op.loop 5 {backward} carries(%a : tensor<4xi64>)
      slices(%xs : tensor<5x4xi64>) reads(%w : tensor<4xi64>)
      -> tensor<4xi64>, tensor<5x4xi64> {{
  ^bb0(%i: tensor<i64>, %c: tensor<4xi64>, %x: tensor<4xi64>, %v: tensor<4xi64>):
    %p = op.mul %c, %v : tensor<4xi64>, tensor<4xi64> -> tensor<4xi64>
    %q = op.add %p, %x : tensor<4xi64>, tensor<4xi64> -> tensor<4xi64>
    %r = op.add %q, %i : tensor<4xi64>, tensor<i64> -> tensor<4xi64>
    op.yield %r, %p : tensor<4xi64>, tensor<4xi64>
  }}
  job.output "b", %b : tensor<4xi64>
  job.output "ys", %ys : tensor<5x4xi64>
}}"""


@pytest.mark.parametrize("backward", ["", "backward"])
def test_iterations_have_what_the_last_one_made(backward: str):
    seed = fresh_seed()
    random = np.random.default_rng(seed)
    shapes = {"a": 4, "xs": (5, 4), "w": 4}
    inputs = {
        name: random.integers(-9, 10, shape, np.int64) for name, shape in shapes.items()
    }
    carried, rows = inputs["a"], np.empty((5, 4), np.int64)
    for number in range(4, -1, -1) if backward else range(5):
        rows[number] = carried * inputs["w"]
        carried = rows[number] + inputs["xs"][number] + number
    compiler, passes = installed_compiler()
    text = TEXT.format(backward=backward).encode()
    for pipeline in ((), "op-unroll-loops", "op-unroll-loops,job-clean"):
        module = compiler.parse(text, "sums.mlir")
        run_pipeline(compiler, passes, module, pipeline)
        found = evaluate_model(Model(module, {}, Path()), inputs)
        np.testing.assert_array_equal(found["b"], carried, f"seed {seed}, {pipeline}")
        np.testing.assert_array_equal(found["ys"], rows, f"seed {seed}, {pipeline}")
