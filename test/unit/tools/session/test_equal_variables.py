"""
Variables of a file of jobs that start from equal arrays are one under all their names.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from draws import fresh

from penstock.dialects.job import VariableOp
from penstock.runtime.errors import PenstockError
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.model import read_model
from penstock.tools.session.session import Session

FILE = 'init <npz, file = "w.npz"> : tensor<4x4xf32>'

JOB = f"""
job.job @model placement <cpu, [0:0]> {{
  %x = job.input "x" : tensor<2x4xf32>
  %a = job.variable "a" {FILE}
  %b = job.variable "b" {FILE}
  %c = job.variable "c" init <npz, file = "w.npz", name = "a"> : tensor<4x4xf32>
  %d = job.variable "d" {FILE}
  %e = job.variable "e" init <zeros> : tensor<4x4xf32>
  %f = job.variable "f" init <zeros> : tensor<4x4xf32>
  %g = job.variable "g" {FILE}
  %m = op.matmul %x, %a : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  %n = op.matmul %m, %c : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  %o = op.matmul %n, %d : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  %p = op.matmul %o, %b : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  %z = op.add %e, %f : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %q = op.matmul %p, %z : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  job.output "y", %p : tensor<2x4xf32>
  job.output "q", %q : tensor<2x4xf32>
  job.assign %g to %g : tensor<4x4xf32>
}}
"""

OTHER = f"""
job.job @other placement <cpu, [0:0]> {{
  %d = job.variable "d" {FILE}
  job.output "shown", %d : tensor<4x4xf32>
}}
"""


@pytest.fixture
def weights(tmp_path: Path) -> dict[str, np.ndarray]:
    a, b = fresh().normal(size=(2, 4, 4)).astype(np.float32)
    found = {"a": a, "b": b, "d": a.copy(), "g": a.copy()}
    np.savez(tmp_path / "w.npz", **found)
    return found


def names_in(path: Path, **options: bool) -> list[list[list[str]]]:
    """The names of the variables of each job of a file."""
    model = read_model(installed_compiler()[0], path, **options)  # pyright: ignore[reportArgumentType]
    return [
        [
            [op.port.data, *op.other_names]
            for op in job.walk()
            if isinstance(op, VariableOp)
        ]
        for job in model.entries
    ]


def test_arrays_of_files_that_are_equal_are_one_variable_of_all_jobs(
    tmp_path: Path, weights: dict[str, np.ndarray]
) -> None:
    (path := tmp_path / "job.mlir").write_text(JOB + OTHER)
    # Variables that are assigned, or made by formulas, stay apart.
    tied = ["a", "c", "d"]
    assert names_in(path) == [[tied, ["b"], ["e"], ["f"], ["g"]], [tied]]
    apart = [[name] for name in "abcdefg"]
    assert names_in(path, separate_weights=True) == [apart, [["d"]]]
    # One bit makes another array.
    weights["d"].view(np.uint32)[3, 3] ^= 1
    np.savez(tmp_path / "w.npz", **weights)  # pyright: ignore[reportArgumentType]
    assert names_in(path) == [[["a", "c"], ["b"], ["d"], ["e"], ["f"], ["g"]], [["d"]]]


def check(session: Session, x: np.ndarray, wanted: np.ndarray) -> None:
    """Compare the result of a run up to the rounding of its largest number."""
    found = session.run({"x": x})["y"].astype(np.float64)
    np.testing.assert_allclose(found, wanted, 0, 1e-5 * np.abs(wanted).max())


def test_a_state_in_which_they_differ_is_refused_unless_they_are_several(
    tmp_path: Path, weights: dict[str, np.ndarray]
) -> None:
    (path := tmp_path / "job.mlir").write_text(JOB)
    a, b = weights["a"], weights["b"]
    x = fresh().normal(size=(2, 4)).astype(np.float32)
    zeros = np.zeros((4, 4), np.float32)
    state = dict.fromkeys("acdg", a) | {"b": b, "e": zeros, "f": zeros}
    changed = {**state, "d": 2 * a}
    with Session.open(path) as session:
        assert session.state().keys() == state.keys()
        check(session, x, x @ a @ a @ a @ b)
        with pytest.raises(PenstockError) as raised:
            session.load_state(changed)
        assert str(raised.value) == (
            "variables 'a' and 'd' were equal when the model was read and are one, but "
            "here they differ: compile the model with --separate-weights "
            "(separate_weights=True)"
        )
    with Session.open(path, separate_weights=True) as session:
        session.load_state(changed)
        check(session, x, 2 * (x @ a @ a @ a @ b))
