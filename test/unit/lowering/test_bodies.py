"""Passes over jobs with loops and conditions keep what they mean, or say why not."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from draws import fresh
from numpy.typing import NDArray

from penstock.lowering import get_all_passes
from penstock.lowering.analysis.levels import Level, level_of
from penstock.lowering.kernel_times.database import KernelDatabase
from penstock.runtime.loading.initializers import Array
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.session.model import Model
from penstock.tools.session.oracle import evaluate_model

NESTED = b"""job.job @nested placement <cpu, [0:0]> {
  %h0 = job.input "h0" : tensor<3x4xf32>
  %xs = job.input "xs" : tensor<5x3x4xf32>
  %w = job.input "w" : tensor<4x4xf32>
  %c = job.input "c" : tensor<i1>
  %h, %ys = op.loop 5 carries(%h0 : tensor<3x4xf32>) slices(%xs : tensor<5x3x4xf32>)
      reads(%w, %c : tensor<4x4xf32>, tensor<i1>)
      -> tensor<3x4xf32>, tensor<5x3x4xf32> {
  ^bb0(%i: tensor<i64>, %g: tensor<3x4xf32>, %x: tensor<3x4xf32>,
       %v: tensor<4x4xf32>, %d: tensor<i1>):
    %m = op.matmul %g, %v : tensor<3x4xf32>, tensor<4x4xf32> -> tensor<3x4xf32>
    %s = op.add %m, %x : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x4xf32>
    %y = op.if %d reads(%s : tensor<3x4xf32>) -> tensor<3x4xf32> {
    ^bb0(%a: tensor<3x4xf32>):
      %t = op.loop 2 carries(%a : tensor<3x4xf32>) -> tensor<3x4xf32> {
      ^bb0(%j: tensor<i64>, %e: tensor<3x4xf32>):
        %u = op.tanh %e : tensor<3x4xf32> -> tensor<3x4xf32>
        op.yield %u : tensor<3x4xf32>
      }
      op.yield %t : tensor<3x4xf32>
    } else {
    ^bb0(%b: tensor<3x4xf32>):
      %r = op.softmax %b axis 1 : tensor<3x4xf32> -> tensor<3x4xf32>
      op.yield %r : tensor<3x4xf32>
    }
    op.yield %y, %s : tensor<3x4xf32>, tensor<3x4xf32>
  }
  job.output "h", %h : tensor<3x4xf32>
  job.output "ys", %ys : tensor<5x3x4xf32>
}"""

OF_JOBS = [
    name
    for name in get_all_passes()
    if level_of(name) is Level.JOB
    and name not in ("job-add-push-pull", "op-split-groups")
]
"""
All passes on jobs but the one that takes the ports of a job to others, and the one that
needs measured times.
"""


TIMED = ["op-split-groups"]
"""The passes that read measured times, here of an empty database."""


@cache
def inputs() -> dict[str, Array]:
    random = fresh()
    shapes = {"h0": (3, 4), "xs": (5, 3, 4), "w": (4, 4)}
    floats = {
        name: random.standard_normal(shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    return {**floats, "c": np.asarray(random.random() < 0.5)}


def expected() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The outputs, by NumPy in double precision."""
    given = {name: array.astype(np.float64) for name, array in inputs().items()}
    state, sums = given["h0"], list[NDArray[np.float64]]()
    for x in given["xs"]:
        sums.append(total := state @ given["w"] + x)
        power = np.exp(total - total.max(1, keepdims=True))
        softmax = power / power.sum(1, keepdims=True)
        state = np.tanh(np.tanh(total)) if inputs()["c"] else softmax
    return state, np.stack(sums)


@pytest.mark.parametrize("name", OF_JOBS)
def test_each_pass_on_jobs_keeps_what_bodies_mean(name: str, tmp_path: Path):
    compiler, passes = installed_compiler()
    module = compiler.parse(NESTED, "nested.mlir")
    with KernelDatabase(path := tmp_path / "times.db", write=True):
        options = f'{{database="{path}"}}' if name in TIMED else ""
    run_pipeline(compiler, passes, module, f"job-place,job-infer-sbp,{name}{options}")
    if not name.startswith("convert"):
        run_pipeline(compiler, passes, module, "op-unroll-loops,op-select-branches")
    found = evaluate_model(Model(module, {}, Path()), inputs())
    # Five steps of sums of four products, each of at most some units.
    for array, wanted in zip((found["h"], found["ys"]), expected(), strict=True):
        np.testing.assert_allclose(
            array.astype(np.float64), wanted, rtol=1e-4, atol=1e-4
        )
