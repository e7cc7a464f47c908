"""Training whose gradients are summed over ranks in buckets."""

from __future__ import annotations

from pathlib import Path

import pytest
from draws import fresh

from penstock.tools.session.options import CompileOptions
from penstock.tools.session.session import Session

TRAIN = """
job.job @train placement <cpu, [0:0, 1:0]> {
  %x = job.input "x" : tensor<8x6xf32>
  %w = job.variable "w" init <normal, seed = 1> {sbp = #job.sbp<B>} : tensor<6x4xf32>
  %b = job.variable "b" init <normal, seed = 2> {sbp = #job.sbp<B>} : tensor<4xf32>
  %s = op.relu %x {sbp = #job.sbp<S(0)>} : tensor<8x6xf32> -> tensor<8x6xf32>
  %m = op.matmul %s, %w : tensor<8x6xf32>, tensor<6x4xf32> -> tensor<8x4xf32>
  %y = op.add %m, %b : tensor<8x4xf32>, tensor<4xf32> -> tensor<8x4xf32>
  %q = op.mul %y, %y : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
  %loss = op.reduce_mean %q axes [0, 1] : tensor<8x4xf32> -> tensor<f32>
  %r = op.constant dense<0.1> : tensor<f32>
  %g, %h = job.gradients of %loss by %w, %b
    : tensor<f32>, tensor<6x4xf32>, tensor<4xf32>
  job.update %w by %g with <sgd> rate %r : tensor<6x4xf32>
  job.update %b by %h with <sgd> rate %r : tensor<4xf32>
  job.output "loss", %loss : tensor<f32>
}
"""


def sums(path: Path, pipeline: str) -> int:
    """The sums over ranks that a pipeline makes."""
    text = Session.lower(path, "plan", CompileOptions(pipeline=pipeline))
    return text.count('job.collective "all_reduce"') // 2


@pytest.mark.slow
def test_buckets_change_no_sum(tmp_path: Path) -> None:
    path = tmp_path / "train.mlir"
    path.write_text(TRAIN)
    assert sums(path, "cpu{collectives=ring}") == 2
    assert sums(path, "cpu{collectives=ring bucket=4096}") == 1
    inputs = fresh().standard_normal((3, 8, 6)).astype("float32")
    found: list[list[object]] = []
    for pipeline in (None, "cpu{bucket=4096}"):
        with Session.open(path, simulate_ranks=True, pipeline=pipeline) as session:
            steps = [session.run({"x": x})["loss"].item() for x in inputs]
            state = session.state()
            found.append([*steps, *(state[x].tolist() for x in ("w", "b"))])
    assert found[0] == found[1]
