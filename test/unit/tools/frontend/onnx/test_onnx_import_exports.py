"""Small versions of the models that PyTorch exports, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Protocol, TypeAlias, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto

from penstock.dialects.job import VariableOp
from penstock.dialects.op import AttentionOp
from penstock.runtime.cuda import device as cuda
from penstock.runtime.executors.executor import Executor
from penstock.runtime.testing.cuda_order_check import RAN, RUN, problems, watched
from penstock.runtime.testing.cuda_recording_driver import RecordedDriver
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.frontend.onnx.model import (
    ImportedModel,
    import_file,
    run_onnxruntime,
)
from penstock.tools.session.differences import relative_error
from penstock.tools.session.session import Model, Session

Array: TypeAlias = NDArray[np.generic]

MODELS = ("bert", "gpt2", "llama", "mobilenet", "resnet", "vit", "whisper")
COMPUTED = ("bert", "llama", "resnet")
"""The models that the double of CUDA computes, which takes seconds."""


class Tensor(Protocol):
    def numpy(self) -> Array: ...


Export: TypeAlias = Callable[..., tuple[object, dict[str, Tensor]]]
Exported: TypeAlias = Callable[[str], tuple[ImportedModel, dict[str, Array]]]


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """A small model by its name as it is imported, and inputs for it."""
    pytest.importorskip("torch", reason="PyTorch, which exports, is not installed")
    exports = "penstock.tools.reports.compare.exports.export"
    export = cast(Export, import_module(exports).export)
    folder = tmp_path_factory.mktemp("exports")

    @cache
    def path_and_inputs(name: str) -> tuple[Path, dict[str, Array]]:
        path = folder / f"{name}.onnx"
        _, inputs = export(name, path, small=True)
        return path, {port: tensor.numpy() for port, tensor in inputs.items()}

    def imported(name: str) -> tuple[ImportedModel, dict[str, Array]]:
        path, inputs = path_and_inputs(name)
        return import_file(path), inputs

    return imported


def reference(proto: ModelProto, inputs: dict[str, Array]) -> dict[str, Array]:
    """The results of ONNX Runtime, which are neither next to nothing nor too much."""
    wanted = run_onnxruntime(proto, inputs)
    for array in wanted.values():
        assert 0.1 < array.astype(np.float64).std() < 10
    return wanted


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_pytorch_runs_as_in_onnx_runtime(
    name: str, exported: Exported
) -> None:
    imported, inputs = exported(name)
    wanted = reference(imported.proto, inputs)
    model = Model(imported.module, imported.weights, Path())
    with Session(model) as session:
        got = session.run(inputs)
    assert got.keys() == wanted.keys()
    for output, array in wanted.items():
        assert relative_error(got[output], array) < 1e-4


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_pytorch_runs_in_order_on_a_device(
    name: str, exported: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    imported, inputs = exported(name)
    driver = RecordedDriver(executes=name in COMPUTED)
    monkeypatch.setattr(cuda, "open_cuda", lambda: cuda.Cuda(driver))
    model = Model(imported.module, imported.weights, Path())
    with Session(model, device="cuda", engine="sequential") as session:
        program = watched(session.executor.program, driver)
        with Executor(program, "sequential") as executor:
            driver.note(RUN)
            (got,) = executor.run_many([inputs])
            driver.note(RAN)
        assert problems(driver.log, program) == []
    launches = [entry for entry in driver.log if entry.call == "launch"]
    assert len(launches) > 10
    if name in COMPUTED:
        for output, array in reference(imported.proto, inputs).items():
            assert relative_error(got[output], array) < 1e-4


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_masks_of_what_comes_later_are_not_read(name: str, exported: Exported) -> None:
    imported, _ = exported(name)
    compiler, known = installed_compiler()
    passes = "op-infer-shapes,job-clean,op-fold-constants,job-clean,op-fuse-attention"
    run_pipeline(compiler, known, imported.module, passes)
    found = [op for op in imported.module.walk() if isinstance(op, AttentionOp)]
    assert [(op.offset, op.mask) for op in found] == [(0, None)] * 2


def test_arithmetic_on_shapes_is_not_left(exported: Exported) -> None:
    imported, _ = exported("llama")
    names = {op.name for op in imported.module.walk()}
    assert {"op.matmul", "op.softmax", "op.gather"} <= names
    variables = [op for op in imported.module.walk() if isinstance(op, VariableOp)]
    shapes = [
        op for op in variables if imported.weights[op.port.data].dtype.kind == "i"
    ]
    assert shapes == []
