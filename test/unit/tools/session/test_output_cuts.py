"""Outputs whose extents are only known at run time, as a caller gets them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.runtime.errors import PenstockError
from penstock.runtime.program.executable import image_from_json
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.checkpoint import Checkpoints
from penstock.tools.session.oracle import evaluate_model
from penstock.tools.session.session import Session, read_model

Array: TypeAlias = NDArray[Any]

TEXT = """
job.job @kept placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<3x6xf32>
  %m = job.input "m" : tensor<6xi1>
  %k, %n = op.compress %x by %m axis 1
    : tensor<3x6xf32>, tensor<6xi1> -> tensor<3x6xf32>, tensor<i64>
  %r = op.relu %k : tensor<3x6xf32> -> tensor<3x6xf32>
  job.output "r", %r cut by "n" axis 1 : tensor<3x6xf32>
  job.output "x", %x : tensor<3x6xf32>
  job.output "n", %n : tensor<i64>
}
"""


def piece(count: int) -> dict[str, Array]:
    x = np.arange(-9, 9, dtype=np.float32).reshape(3, 6)
    return {"x": x, "m": np.arange(6) >= 6 - count}


def check(found: dict[str, Array], count: int) -> None:
    wanted = np.maximum(piece(count)["x"][:, 6 - count :], 0)
    assert [*found] == ["r", "x"]
    assert found["r"].flags.c_contiguous
    np.testing.assert_array_equal(found["r"], wanted)


@pytest.mark.parametrize("engine", ["actors", "sequential", "sim"])
def test_a_caller_gets_as_many_elements_as_there_are(
    tmp_path: Path, engine: Literal["actors", "sequential", "sim"]
) -> None:
    (path := tmp_path / "kept.mlir").write_text(TEXT)
    with Session(read_model(installed_compiler()[0], path), engine=engine) as session:
        for count in (0, 4, 6, 1):
            check(session.run(piece(count)), count)
        # Python does no more than to cut what compiled code returns.
        quick = session.quick(piece(4))
        assert (quick is not None) == (engine == "actors")
        check(quick or session.run(piece(4)), 4)
        counts = (5, 0, 2)
        found = session.run_many([piece(count) for count in counts])
        for each, count in zip(found, counts, strict=True):
            check(each, count)
    check(evaluate_model(read_model(installed_compiler()[0], path), piece(3)), 3)


def test_arrays_for_the_most_elements_are_bound(tmp_path: Path) -> None:
    (path := tmp_path / "kept.mlir").write_text(TEXT)
    given, x = piece(4), np.zeros((3, 6), np.float32)
    outputs = {"x": x, "r": np.zeros((3, 6), np.float32)}
    with Session(read_model(installed_compiler()[0], path)) as session:
        for bound in (session.bind(given), session.bind(given, outputs)):
            for count in (4, 0, 6, 1):
                given["m"][:] = piece(count)["m"]
                check(bound.run(), count)
        np.testing.assert_array_equal(x, given["x"])
        with pytest.raises(PenstockError, match="no outputs n, the program gives r, x"):
            session.bind(given, outputs | {"n": np.zeros((), np.int64)})


def test_cuts_are_kept_with_a_program(tmp_path: Path) -> None:
    (path := tmp_path / "kept.mlir").write_text(TEXT)
    with Session(read_model(installed_compiler()[0], path)) as session:
        image = session.executor.program.image
        assert image.cuts == (("r", "n", 1),)
        assert image_from_json(image.to_json()) == image


def test_what_comes_several_times_a_piece_is_not_cut(tmp_path: Path) -> None:
    (path := tmp_path / "rates.mlir").write_text("""
job.job @rates placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %s = op.unpack %x by 2 : tensor<4xf32> -> tensor<2xf32>
  %p, %n = op.non_zero %s : tensor<2xf32> -> tensor<1x2xi64>, tensor<i64>
  job.output "p", %p cut by "n" axis 1 : tensor<1x2xi64>
  job.output "n", %n : tensor<i64>
}
""")
    message = "output 'p' comes 2 times in an iteration, so it cannot be cut"
    with pytest.raises(PenstockError, match=message):
        Session(read_model(installed_compiler()[0], path))


STORED = """
job.job @stored placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<3x6xf32>
  %m = job.input "m" : tensor<6xi1>
  %kept = job.variable "kept" cut by "number" axis 1 init <zeros> : tensor<3x6xf32>
  %number = job.variable "number" init <zeros> : tensor<i64>
  %k, %n = op.compress %x by %m axis 1
    : tensor<3x6xf32>, tensor<6xi1> -> tensor<3x6xf32>, tensor<i64>
  job.output "before", %kept : tensor<3x6xf32>
  job.assign %k to %kept : tensor<3x6xf32>
  job.assign %n to %number : tensor<i64>
}
"""


@pytest.mark.parametrize("model_jobs", [False, True])
def test_checkpoints_have_as_many_elements_as_there_are(
    tmp_path: Path, model_jobs: bool
) -> None:
    (path := tmp_path / "stored.mlir").write_text(STORED)
    checkpoints, job = Checkpoints(tmp_path / "kept"), "stored" if model_jobs else None
    with Session.open(path, model_jobs=model_jobs) as session:
        assert session.state()["kept"].shape == (3, 0)
        session.run(piece(4), job)
        checkpoints.save(session.state(), 1)
        checkpoints.save(session.state_parts(), 2)
    (of_state, of_parts), x = checkpoints.all(), piece(4)["x"][:, 2:]
    for state in (of_parts.state(), of_state.state()):
        assert state["number"] == 4
        np.testing.assert_array_equal(state["kept"], x)
    state = of_parts.state()
    with Session.open(path, model_jobs=model_jobs) as session:
        session.load_state(state)
        with pytest.raises(PenstockError) as raised:
            session.load_state({**state, "kept": x[:, 1:]})
        expected = "variable 'kept' has 3 elements along axis 1, but 'number' is 4"
        assert str(raised.value) == expected
        before = session.run(piece(1), job)["before"]
        np.testing.assert_array_equal(before, np.pad(x, [(0, 0), (0, 2)]))
        assert session.state()["kept"].shape == (3, 1)
