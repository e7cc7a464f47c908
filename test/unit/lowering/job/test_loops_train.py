"""A recurrent layer trains as a loop: its gradient is one, whatever its length is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

from penstock.tools.session.session import Session

Array: TypeAlias = npt.NDArray[Any]

JOB = """
job.job @train placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<STEPSx3x4xf32>
  %w = job.variable "w" init <xavier_uniform, seed = 1> : tensor<4x6xf32>
  %u = job.variable "u" init <xavier_uniform, seed = 2> : tensor<6x6xf32>
  %h0 = op.constant dense<0.0> : tensor<3x6xf32>
  %h = op.loop STEPS carries(%h0 : tensor<3x6xf32>)
      slices(%x : tensor<STEPSx3x4xf32>)
      reads(%w, %u : tensor<4x6xf32>, tensor<6x6xf32>) -> tensor<3x6xf32> {
  ^bb0(%i: tensor<i64>, %s: tensor<3x6xf32>, %y: tensor<3x4xf32>,
       %a: tensor<4x6xf32>, %b: tensor<6x6xf32>):
    %p = op.matmul %y, %a : tensor<3x4xf32>, tensor<4x6xf32> -> tensor<3x6xf32>
    %q = op.matmul %s, %b : tensor<3x6xf32>, tensor<6x6xf32> -> tensor<3x6xf32>
    %r = op.add %p, %q : tensor<3x6xf32>, tensor<3x6xf32> -> tensor<3x6xf32>
    %t = op.tanh %r : tensor<3x6xf32> -> tensor<3x6xf32>
    op.yield %t : tensor<3x6xf32>
  }
  %squares = op.mul %h, %h : tensor<3x6xf32>, tensor<3x6xf32> -> tensor<3x6xf32>
  %loss = op.reduce_mean %squares axes [0, 1] : tensor<3x6xf32> -> tensor<f32>
  %g, %k = job.gradients of %loss by %w, %u
    : tensor<f32>, tensor<4x6xf32>, tensor<6x6xf32>
  job.output "g", %g : tensor<4x6xf32>
  job.output "k", %k : tensor<6x6xf32>
}
"""


def gradients(x: Array, w: Array, u: Array) -> dict[str, Array]:
    """Backpropagation through time, in f64."""
    states = [np.zeros((3, 6))]
    for step in x:
        states.append(np.tanh(step @ w + states[-1] @ u))
    back = 2 * states[-1] / states[-1].size
    g, k = np.zeros(w.shape), np.zeros(u.shape)
    for step, before, after in zip(x[::-1], states[-2::-1], states[:0:-1], strict=True):
        slope = back * (1 - after**2)
        g, k = g + step.T @ slope, k + before.T @ slope
        back = slope @ u.T
    return {"g": g, "k": k}


@pytest.mark.slow
def test_the_gradient_of_a_recurrent_layer(tmp_path: Path) -> None:
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print(f"seed {seed}")
    rng, kernels = np.random.default_rng(seed), set[int]()
    for steps in (5, 50):
        path = tmp_path / f"job{steps}.mlir"
        path.write_text(JOB.replace("STEPS", str(steps)))
        x = rng.normal(size=(steps, 3, 4)).astype(np.float32)
        with Session.open(path) as session:
            found, state = session.run({"x": x}), session.state()
            kernels.add(session.report.kernels)
        wanted = gradients(x, state["w"], state["u"])
        for name, array in wanted.items():
            # Sums of so many products of f32, each rounded.
            bound = 64 * steps * 2.0**-24 * np.abs(array).max()
            difference: Array = found[name].astype(np.float64) - array
            assert np.abs(difference).max() <= bound
    assert len(kernels) == 1
