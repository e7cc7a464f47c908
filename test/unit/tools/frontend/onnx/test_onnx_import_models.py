"""SqueezeNet from its ONNX file against ONNX Runtime: in NumPy, and compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.tools.cli.run import run_tool
from penstock.tools.frontend.onnx.model import (
    ImportedModel,
    import_file,
    run_onnxruntime,
)
from penstock.tools.session.differences import relative_error
from penstock.tools.session.session import Model, Session

Array: TypeAlias = NDArray[np.generic]
Light: TypeAlias = Callable[[str], Path]
Evaluate: TypeAlias = Callable[[ImportedModel, Mapping[str, Array]], dict[str, Array]]

LOGITS, RESULT = "r65", "softmaxout_1"


@pytest.fixture(scope="module")
def squeezenet(light: Light) -> ImportedModel:
    return import_file(light("squeezenet"), random_weights=11, extra_outputs=[LOGITS])


@pytest.fixture(scope="module")
def inputs() -> dict[str, Array]:
    generator = np.random.default_rng(12)
    return {"data_0": generator.standard_normal((1, 3, 224, 224)).astype(np.float32)}


@pytest.fixture(scope="module")
def wanted(squeezenet: ImportedModel, inputs: dict[str, Array]) -> dict[str, Array]:
    outputs = run_onnxruntime(squeezenet.proto, inputs)
    assert outputs.keys() == {LOGITS, RESULT}
    assert outputs[LOGITS].astype(np.float64).std() > 1
    return outputs


def test_numpy_computes_squeezenet_as_onnx_runtime(
    squeezenet: ImportedModel,
    inputs: dict[str, Array],
    wanted: dict[str, Array],
    evaluate: Evaluate,
):
    got = evaluate(squeezenet, inputs)
    for name, array in wanted.items():
        assert relative_error(got[name], array) < 1e-4


@pytest.mark.slow
def test_squeezenet_runs_as_in_onnx_runtime(
    squeezenet: ImportedModel, inputs: dict[str, Array], wanted: dict[str, Array]
):
    model = Model(squeezenet.module.clone(), squeezenet.weights, Path())
    with Session(model) as session:
        for _ in range(2):
            got = session.run(inputs)
            assert got.keys() == wanted.keys()
            for name, array in wanted.items():
                assert relative_error(got[name], array) < 1e-4


@pytest.mark.slow
def test_squeezenet_runs_and_is_checked_from_the_command_line(
    light: Light, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    arguments = [str(light("squeezenet")), "--random-weights", "1"]
    arguments += ["--random-inputs", "2", "--extra-output", LOGITS]
    outputs = str(tmp_path / "outputs.npz")
    code = run_tool([*arguments, "--check", "onnxruntime", "--outputs", outputs])
    printed = capsys.readouterr()
    assert (code, printed.err) == (0, "")
    for name in (LOGITS, RESULT):
        assert f"check against onnxruntime: {name} differs by" in printed.out
    assert run_tool([*arguments, "--check", outputs, "--tolerance", "0"]) == 0


def test_extra_outputs_are_for_onnx_models(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = tmp_path / "model.mlir"
    path.write_text("job.job @j placement <cpu, [0:0]> {\n}\n")
    assert run_tool([str(path), "--extra-output", "y"]) == 2
    message = "penstock-run: error: --extra-output is for ONNX models\n"
    assert capsys.readouterr().err == message
