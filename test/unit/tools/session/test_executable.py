"""Executables: made once of a program, and read as far as they are asked."""

import gc
import weakref
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from penstock.dialects.launch import ProgramOp
from penstock.runtime.loading.npz import NpzArrays
from penstock.runtime.program.executable import ProgramImage
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session import program_export
from penstock.tools.session.executable import Executable
from penstock.tools.session.model import Model, compile_model
from penstock.tools.session.saved_plan.plan import read_plan
from penstock.tools.session.session import Session

JOB = """
job.job @affine placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<4xf32>
  %a = job.variable "a" init <npz, file = "weights.npz"> : tensor<4xf32>
  %b = job.variable "b" init <npz, file = "weights.npz"> : tensor<4xf32>
  %c = op.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %y = op.mul %x, %a : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %z = op.add %y, %b : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %o = op.add %z, %c : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  job.output "o", %o : tensor<4xf32>
}
"""


@pytest.fixture
def model(tmp_path: Path) -> Model:
    a, b = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.savez(tmp_path / "weights.npz", a=a, b=b)
    module = installed_compiler()[0].parse(JOB.encode(), "job.mlir")
    return Model(module, {}, tmp_path)


def images_made(monkeypatch: pytest.MonkeyPatch) -> Sequence[ProgramImage]:
    """The images that are made of programs from now on."""
    made: list[ProgramImage] = []
    make = program_export.image_of

    def note(program: ProgramOp) -> ProgramImage:
        made.append(make(program))
        return made[-1]

    monkeypatch.setattr(program_export, "image_of", note)
    return made


def test_a_session_makes_one_image_of_its_program(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    made = images_made(monkeypatch)
    with Session(model) as session:
        session.run({"x": np.ones(4, np.float32)})
        session.save(tmp_path / "affine.penstock")
        assert "affine" in session.report.text(1)
        assert session.executable.image is made[0]
    assert len(made) == 1


def test_weights_are_read_when_they_are_asked_for(
    model: Model, monkeypatch: pytest.MonkeyPatch
):
    read: list[str] = []

    class Noting(NpzArrays):
        def __getitem__(self, name: str) -> np.ndarray:
            read.append(name)
            return super().__getitem__(name)

    monkeypatch.setattr("penstock.runtime.loading.initializers.NpzArrays", Noting)
    executable = compile_model(model)
    with executable.opened_weights() as weights:
        assert sorted(weights) == ["a", "b"]
        assert read == []
        np.testing.assert_array_equal(weights["b"], [4, 5, 6, 7])
    assert read == ["b"]


def test_a_plan_has_what_the_program_has_that_it_was_saved_from(
    model: Model, tmp_path: Path
):
    path = tmp_path / "affine.penstock"
    with Session(model) as session:
        session.save(path)
        made: Executable = session.executable
    plan = read_plan(path)
    assert (plan.text, plan.sources) == (made.text, made.sources)
    assert plan.report.text(1) == made.report.text(1)
    assert plan.image.variables == made.image.variables
    assert plan.devices == made.devices == ["cpu"]
    of_plan, of_program = plan.values(), made.values()
    assert of_plan.keys() == of_program.keys()
    for name, value in of_program.items():
        np.testing.assert_array_equal(of_plan[name], value)


@pytest.mark.parametrize("model_jobs", [False, True])
def test_weights_that_nobody_asks_for_any_more_are_let_go(
    model: Model, model_jobs: bool
):
    class Weights(dict[str, np.ndarray]):
        """A dictionary that one can see the end of."""

    given = Weights(a=np.ones(4, np.float32))
    there = weakref.ref(given)
    session = Session(
        Model(model.module, given, model.directory), model_jobs=model_jobs
    )
    del given
    gc.collect()
    assert (there() is not None) == model_jobs
    session.close()
