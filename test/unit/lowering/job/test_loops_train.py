"""A recurrent layer trains as a loop: its gradient is one, whatever its length is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from draws import fresh

from penstock.tools.session.session import Session

Array: TypeAlias = npt.NDArray[Any]
Wide: TypeAlias = npt.NDArray[np.float64]


def job(steps: int, form: str = "") -> str:
    """
    A layer whose loss is of all its states. Of a form with `count` or `while` the input
    `n` is the number of iterations.
    """
    has_condition = "while" in form
    parts = {
        "LOOP": f"op.loop {f'up to {steps}' if form else steps}",
        "COUNT": "count(%n)" if "count" in form else "",
        "WHILE": "while(%go)" if has_condition else "",
        "BACK": "backward" if "backward" in form else "",
        "GO": "%going: tensor<i1>, " if has_condition else "",
        "ENDS": "%end, " if has_condition else "",
        "AGAIN": "%again, " if has_condition else "",
        "BOOL": "tensor<i1>, " if has_condition else "",
        "STEPS": str(steps),
    }
    text = """
job.job @train placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<STEPSx3x4xf32>
  %n = job.input "n" : tensor<i64>
  %w = job.variable "w" init <xavier_uniform, seed = 1> : tensor<4x6xf32>
  %u = job.variable "u" init <xavier_uniform, seed = 2> : tensor<6x6xf32>
  %h0 = op.constant dense<0.0> : tensor<3x6xf32>
  %zero = op.constant dense<0> : tensor<i64>
  %go = op.greater %n, %zero : tensor<i64>, tensor<i64> -> tensor<i1>
  ENDS%h, %hs = LOOP COUNT WHILE BACK carries(%h0 : tensor<3x6xf32>)
      slices(%x : tensor<STEPSx3x4xf32>)
      reads(%w, %u, %n : tensor<4x6xf32>, tensor<6x6xf32>, tensor<i64>)
      -> BOOLtensor<3x6xf32>, tensor<STEPSx3x6xf32> {
  ^bb0(%i: tensor<i64>, GO%s: tensor<3x6xf32>, %y: tensor<3x4xf32>,
       %a: tensor<4x6xf32>, %b: tensor<6x6xf32>, %all: tensor<i64>):
    %p = op.matmul %y, %a : tensor<3x4xf32>, tensor<4x6xf32> -> tensor<3x6xf32>
    %q = op.matmul %s, %b : tensor<3x6xf32>, tensor<6x6xf32> -> tensor<3x6xf32>
    %r = op.add %p, %q : tensor<3x6xf32>, tensor<3x6xf32> -> tensor<3x6xf32>
    %t = op.tanh %r : tensor<3x6xf32> -> tensor<3x6xf32>
    %one = op.constant dense<1> : tensor<i64>
    %next = op.add %i, %one : tensor<i64>, tensor<i64> -> tensor<i64>
    %again = op.less %next, %all : tensor<i64>, tensor<i64> -> tensor<i1>
    op.yield AGAIN%t, %t : BOOLtensor<3x6xf32>, tensor<3x6xf32>
  }
  %last = op.mul %h, %h : tensor<3x6xf32>, tensor<3x6xf32> -> tensor<3x6xf32>
  %each = op.mul %hs, %hs : tensor<STEPSx3x6xf32>, tensor<STEPSx3x6xf32>
    -> tensor<STEPSx3x6xf32>
  %d = op.reduce_sum %last axes [0, 1] : tensor<3x6xf32> -> tensor<f32>
  %e = op.reduce_sum %each axes [0, 1, 2] : tensor<STEPSx3x6xf32> -> tensor<f32>
  %loss = op.add %d, %e : tensor<f32>, tensor<f32> -> tensor<f32>
  %g, %k, %m = job.gradients of %loss by %w, %u, %x
    : tensor<f32>, tensor<4x6xf32>, tensor<6x6xf32>, tensor<STEPSx3x4xf32>
  job.update %w by %g with <sgd, rate = 0.01> : tensor<4x6xf32>
  job.update %u by %k with <sgd, rate = 0.01> : tensor<6x6xf32>
  job.output "w", %g : tensor<4x6xf32>
  job.output "u", %k : tensor<6x6xf32>
  job.output "x", %m : tensor<STEPSx3x4xf32>
}
"""
    for name, part in parts.items():
        text = text.replace(name, part)
    return text


def gradients(x: Wide, w: Wide, u: Wide, order: Sequence[int]) -> dict[str, Wide]:
    """Backpropagation through time, in f64, of the steps of `x` with these numbers."""
    states = [np.zeros((3, 6))]
    for step in order:
        states.append(np.tanh(x[step] @ w + states[-1] @ u))
    found = {"w": np.zeros(w.shape), "u": np.zeros(u.shape), "x": np.zeros(x.shape)}
    back = 2 * states[-1]
    for i in reversed(range(len(order))):
        slope = (back + 2 * states[i + 1]) * (1 - states[i + 1] ** 2)
        found["w"] += x[order[i]].T @ slope
        found["u"] += states[i].T @ slope
        found["x"][order[i]] = slope @ w.T
        back = slope @ u.T
    return found


def check(
    session: Session, x: Array, count: int, order: Sequence[int], eps: float
) -> None:
    """Compare the gradients of a step, and what it updates, with those in f64."""
    before = widened(session.state())
    found = widened(session.run({"x": x, "n": np.asarray(count)}))
    after = widened(session.state())
    wanted = gradients(x.astype(np.float64), before["w"], before["u"], order)
    for name, array in wanted.items():
        # Sums of products of a few dozen factors, each rounded.
        bound = 32 * max(1, len(order)) * eps * np.abs(array).max()
        assert np.abs(found[name] - array).max() <= bound, name
        if name in after:
            step = after[name] - before[name] + 0.01 * array
            assert np.abs(step).max() <= 0.01 * bound + 2.0**-24, name


def widened(arrays: Mapping[str, Array]) -> dict[str, Wide]:
    return {name: array.astype(np.float64) for name, array in arrays.items()}


def drawn(steps: int) -> Array:
    return fresh().normal(size=(steps, 3, 4)).astype(np.float32)


@pytest.mark.slow
def test_the_gradient_of_a_recurrent_layer(tmp_path: Path) -> None:
    kernels = set[int]()
    for steps in (5, 50):
        path = tmp_path / f"job{steps}.mlir"
        path.write_text(job(steps))
        with Session.open(path) as session:
            check(session, drawn(steps), steps, range(steps), 2.0**-24)
            kernels.add(session.report.kernels)
    assert len(kernels) == 1


@pytest.mark.slow
@pytest.mark.parametrize("form", ["count", "count backward", "while", "count while"])
def test_a_layer_of_as_many_steps_as_a_run_says(tmp_path: Path, form: str) -> None:
    """Slices beyond the count are not read, be they NaN."""
    path = tmp_path / "job.mlir"
    path.write_text(job(7, form))
    with Session.open(path) as session:
        for count in (4, 0, 7, 1):
            x = drawn(7)
            x[count:] = np.nan
            order = range(count)[::-1] if "backward" in form else range(count)
            check(session, x, count, order, 2.0**-24)


@pytest.mark.slow
@pytest.mark.parametrize(("type", "eps"), [("bf16", 2.0**-9), ("f16", 2.0**-12)])
def test_a_layer_in_16_bits(tmp_path: Path, type: str, eps: float) -> None:
    path = tmp_path / "job.mlir"
    path.write_text(job(5, "count"))
    # With the usual scale these gradients are infinite in f16.
    edits = [f"set job-cast-amp.type={type}", "set job-cast-amp.loss-scale=64"]
    with Session.open(path, edits=edits) as session:
        for count in (5, 3):
            check(session, drawn(5), count, range(count), eps)
        assert session.state().get("train/good_steps", 2) == 2
