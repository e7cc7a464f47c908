"""Small versions of the models that PyTorch exports, against ONNX Runtime."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Protocol, TypeAlias, cast

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto

from penstock.dialects.job import VariableOp
from penstock.tools.comparing import relative_error
from penstock.tools.onnx_import.model import (
    ImportedModel,
    import_file,
    run_onnxruntime,
)
from penstock.tools.session import Model, Session

Array: TypeAlias = NDArray[np.generic]

MODELS = ("bert", "gpt2", "llama", "mobilenet", "resnet", "vit", "whisper")


class Tensor(Protocol):
    def numpy(self) -> Array: ...


Export: TypeAlias = Callable[..., tuple[object, dict[str, Tensor]]]


@pytest.fixture(scope="module")
def export() -> Export:
    pytest.importorskip("torch", reason="PyTorch, which exports, is not installed")
    # Ahead of site-packages, where another package of the name `benchmarks` lies.
    sys.path.insert(0, str(Path(__file__).parents[3]))
    return cast(Export, import_module("benchmarks.exports.export").export)


def exported(
    export: Export, name: str, folder: Path
) -> tuple[ImportedModel, dict[str, Array]]:
    """A small model as it is imported, and inputs for it."""
    path = folder / f"{name}.onnx"
    _, inputs = export(name, path, small=True)
    arrays = {port: tensor.numpy() for port, tensor in inputs.items()}
    return import_file(path), arrays


def reference(proto: ModelProto, inputs: dict[str, Array]) -> dict[str, Array]:
    """What ONNX Runtime computes, which is neither next to nothing nor too much."""
    wanted = run_onnxruntime(proto, inputs)
    for array in wanted.values():
        assert 0.1 < array.astype(np.float64).std() < 10
    return wanted


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_a_model_of_pytorch_runs_as_in_onnx_runtime(
    name: str, export: Export, tmp_path: Path
) -> None:
    imported, inputs = exported(export, name, tmp_path)
    wanted = reference(imported.proto, inputs)
    model = Model(imported.module, imported.weights, Path())
    with Session(model) as session:
        got = session.run(inputs)
    assert got.keys() == wanted.keys()
    for output, array in wanted.items():
        assert relative_error(got[output], array) < 1e-4


def test_arithmetic_on_shapes_is_not_left(export: Export, tmp_path: Path) -> None:
    imported, _ = exported(export, "llama", tmp_path)
    names = {op.name for op in imported.module.walk()}
    assert {"op.matmul", "op.softmax", "op.gather"} <= names
    variables = [op for op in imported.module.walk() if isinstance(op, VariableOp)]
    shapes = [
        op for op in variables if imported.weights[op.port.data].dtype.kind == "i"
    ]
    assert shapes == []
