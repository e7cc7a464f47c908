"""Variables in packed layouts in sessions: read, set, saved and shared."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from penstock.dialects.launch import VariableOp
from penstock.runtime.loading.shared_variables import SharedVariables
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.session import Model, Session

TEXT = """
job.job @predict placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x6x9x9xf32>
  %w = job.variable "w" init <normal, seed = 1> : tensor<37x6x3x3xf32>
  %y = op.conv2d %x, %w
    : tensor<1x6x9x9xf32>, tensor<37x6x3x3xf32> -> tensor<1x37x7x7xf32>
  job.output "y", %y : tensor<1x37x7x7xf32>
}
"""


ROW = """
job.job @row placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<1x97xf32>
  %w = job.variable "w" init <normal, seed = 1> : tensor<97x701xf32>
  %y = op.matmul %x, %w : tensor<1x97xf32>, tensor<97x701xf32> -> tensor<1x701xf32>
  job.output "y", %y : tensor<1x701xf32>
}
"""


def opened(variables: SharedVariables | None = None, text: str = TEXT) -> Session:
    """A session of a job above."""
    front = installed_compiler()
    model = Model(front[0].parse(text.encode(), "job.mlir"), {}, Path())
    return Session(model, compiler=front, variables=variables)


def stored(session: Session) -> bool:
    """Whether a variable of a session's program lies in panels."""
    found = [op for op in session.program.walk() if isinstance(op, VariableOp)]
    return any(op.panels is not None for op in found)


def random(*shape: int) -> NDArray[np.float32]:
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


def check(found: ArrayLike, x: ArrayLike, w: ArrayLike) -> None:
    """Compare a convolution with that in 64 bits."""
    x, w = np.asarray(x), np.asarray(w)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    wanted = np.tensordot(
        w.astype(np.float64), windows.astype(np.float64), ((1, 2, 3), (1, 4, 5))
    ).transpose(1, 0, 2, 3)
    assert np.abs(np.asarray(found, np.float64) - wanted).max() < 1e-4


def test_variables_are_read_and_set_as_their_arrays() -> None:
    x, other = random(1, 6, 9, 9), random(37, 6, 3, 3)
    with opened() as session:
        assert stored(session)
        first = session.state()["w"]
        found = session.run({"x": x})["y"]
        check(found, x, first)
        session.load_state({"w": other})
        np.testing.assert_array_equal(session.state()["w"], other)
        found = session.run({"x": x})["y"]
        check(found, x, other)


def test_a_row_reads_a_large_matrix_in_panels() -> None:
    # The last panel is not full.
    x = random(1, 97)
    with opened(text=ROW) as session:
        assert stored(session)
        w = session.state()["w"]
        found = session.run({"x": x})["y"]
    wanted = x.astype(np.float64) @ np.asarray(w, np.float64)
    assert np.abs(np.asarray(found, np.float64) - wanted).max() < 1e-4


def test_saved_plans_keep_variables_as_their_arrays(tmp_path: Path) -> None:
    x, other = random(1, 6, 9, 9), random(37, 6, 3, 3)
    with opened() as session:
        session.load_state({"w": other})
        session.save(tmp_path / "plan")
    with Session.open(tmp_path / "plan") as session:
        np.testing.assert_array_equal(session.state()["w"], other)
        found = session.run({"x": x})["y"]
        check(found, x, other)


def test_variables_that_sessions_share_lie_in_the_usual_order() -> None:
    with opened(SharedVariables()) as session:
        assert not stored(session)


SET = """
job.job @set placement <cpu, [0:0]> {
  %n = job.input "n" : tensor<37x6x3x3xf32>
  %w = job.variable "w" init <normal, seed = 1> : tensor<37x6x3x3xf32>
  job.assign %n to %w : tensor<37x6x3x3xf32>
}
"""


def test_variables_that_a_job_assigns_to_lie_in_the_usual_order() -> None:
    x, other = random(1, 6, 9, 9), random(37, 6, 3, 3)
    front = installed_compiler()
    model = Model(front[0].parse((TEXT + SET).encode(), "job.mlir"), {}, Path())
    with Session(model, compiler=front) as session:
        assert not stored(session)
        session.run({"n": other}, "set")
        check(session.run({"x": x}, "predict")["y"], x, other)
        np.testing.assert_array_equal(session.state()["w"], other)
