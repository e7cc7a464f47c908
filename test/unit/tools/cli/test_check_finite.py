"""`penstock-run --check-finite`: the first task that makes a NaN or an infinity."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from penstock.runtime.errors import PenstockError, TaskError
from penstock.tools.cli.run import run_tool
from penstock.tools.session.finite import check_finite
from penstock.tools.session.session import Session

JOB = """
job.job @small placement <cpu, [0:0]> {{
  %x = job.input "x" : tensor<2x3x{type}>
  %y = op.log %x : tensor<2x3x{type}> -> tensor<2x3x{type}>
  %z = op.reduce_max %y axes [1] : tensor<2x3x{type}> -> tensor<2x{type}>
  %s = op.reduce_sum %z axes [0] : tensor<2x{type}> -> tensor<{type}>
  job.output "z", %z : tensor<2x{type}>
  job.output "s", %s : tensor<{type}>
}}
"""

TRAINING = """
job.job @train placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %w = job.variable "w" init <ones> : tensor<4xf32>
  %p = op.mul %x, %w : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %r = op.sqrt %p : tensor<4xf32> -> tensor<4xf32>
  %loss = op.reduce_sum %r axes [0] : tensor<4xf32> -> tensor<f32>
  %g = job.gradients of %loss by %w : tensor<f32>, tensor<4xf32>
  %new = op.sub %w, %g : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  job.assign %new to %w : tensor<4xf32>
  job.output "loss", %loss : tensor<f32>
}
"""


@pytest.fixture
def job(tmp_path: Path) -> str:
    path = tmp_path / "job.mlir"
    path.write_text(JOB.format(type="f32"))
    return str(path)


@pytest.mark.parametrize(
    ("numbers", "place", "kind"),
    [
        ("1,2,3,4,-1,5", "4:3: error: task 'y'", "writes NaN at [1, 1] to 'y/out'"),
        ("1,0,3,4,1,5", "4:3: error: task 'y'", "writes an infinity at [0, 1]"),
        ("1,1,3,4,1,nan", "3:3: error: task 'x'", "writes NaN at [1, 2] to 'x/out'"),
    ],
)
def test_the_first_task_is_named(
    job: str, numbers: str, place: str, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_tool([job, "--inputs", f"x=2x3xf32={numbers}", "--check-finite"])
    error = capsys.readouterr().err
    assert code == 1
    assert f"job.mlir:{place} failed at act 0" in error
    assert kind in error


def test_finite_numbers_are_right(job: str) -> None:
    assert run_tool([job, "--random-inputs", "3", "--check-finite"]) == 1
    numbers = "x=2x3xf32=1,2,3,4,5,6"
    assert run_tool([job, "--inputs", numbers, "--check-finite"]) == 0


@pytest.mark.parametrize("option", [["--profile"], ["--trace", "trace.json"]])
def test_what_observes_tasks_is_refused(
    job: str, option: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    command = [job, "--inputs", "x=2x3xf32=1,2,3,4,5,6", "--check-finite", *option]
    assert run_tool(command) == 2
    text = "--check-finite is for a run without --trace or --profile"
    assert text in capsys.readouterr().err


def test_other_engines_are_refused(job: str) -> None:
    with (
        Session.open(job) as session,
        pytest.raises(PenstockError, match="the actors engine cannot look at tasks"),
    ):
        check_finite(session.executor_of(None))


@pytest.mark.parametrize("type", ["f16", "bf16", "f64"])
def test_other_floats(type: str, tmp_path: Path) -> None:
    path = tmp_path / "job.mlir"
    path.write_text(JOB.format(type=type))
    with Session.open(path, engine="sequential") as session:
        check_finite(session.executor_of(None))
        dtype = session.inputs()["x"].dtype
        session.run({"x": np.full((2, 3), 1.0).astype(dtype)})
        with pytest.raises(TaskError, match=r"task 'y' .* NaN at \[0, 0\]"):
            session.run({"x": np.full((2, 3), -1.0).astype(dtype)})


def test_a_gradient_is_found_at_its_line_and_variables_stay(tmp_path: Path) -> None:
    path = tmp_path / "train.mlir"
    path.write_text(TRAINING)
    with Session.open(path, engine="sequential") as session:
        check_finite(session.executor_of(None))
        # The root of 0 is finite, and its slope is none.
        with pytest.raises(TaskError, match=r"train.mlir:\d+:3: task .* writes"):
            session.run({"x": np.array([1, 0, 2, 3], np.float32)})
        assert session.state()["w"].tolist() == [1, 1, 1, 1]
