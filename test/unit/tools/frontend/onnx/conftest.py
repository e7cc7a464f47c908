"""Fixtures that build small ONNX models and give what they compute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper

from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.frontend.onnx.model import ImportedModel
from penstock.tools.session.oracle import evaluate_model
from penstock.tools.session.session import Model

Array: TypeAlias = NDArray[np.generic]
Arrays: TypeAlias = Mapping[str, Array]
MakeModel: TypeAlias = Callable[..., ModelProto]
AssertClose: TypeAlias = Callable[..., None]
Evaluate: TypeAlias = Callable[[ImportedModel, Arrays], dict[str, Array]]


@pytest.fixture(scope="session")
def make_model() -> MakeModel:
    """
    Build a model of nodes whose inputs and initializers are like the given arrays.
    """

    def make(
        nodes: Sequence[NodeProto],
        inputs: Arrays,
        outputs: Sequence[str] = ("y",),
        known: Arrays | None = None,
        opset: int = 18,
    ) -> ModelProto:
        graph = helper.make_graph(
            list(nodes),
            "graph",
            [
                helper.make_tensor_value_info(
                    name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
                )
                for name, array in inputs.items()
            ],
            [ValueInfoProto(name=name) for name in outputs],
            [
                numpy_helper.from_array(array, name)
                for name, array in (known or {}).items()
            ],
        )
        opsets = [helper.make_opsetid("", opset)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)

    return make


@pytest.fixture(scope="session")
def evaluate() -> Evaluate:
    """Verify what was imported, and compute its outputs with NumPy."""
    compiler = installed_compiler()[0]

    def run(imported: ImportedModel, inputs: Arrays) -> dict[str, Array]:
        compiler.verify(imported.module)
        model = Model(imported.module, imported.weights, Path())
        return evaluate_model(model, inputs)

    return run


@pytest.fixture(scope="session")
def assert_close() -> AssertClose:
    """Check names, dtypes, shapes, and values up to a tolerance."""

    def check(got: Arrays, wanted: Arrays, tolerance: float = 1e-5) -> None:
        assert got.keys() == wanted.keys()
        for name, array in wanted.items():
            assert got[name].dtype == array.dtype
            np.testing.assert_allclose(
                got[name].astype(np.float64),
                array.astype(np.float64),
                tolerance,
                tolerance,
                strict=True,
            )

    return check


@pytest.fixture(scope="session")
def light() -> Callable[[str], Path]:
    """The file of a model by its name that ships with the package `onnx`."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    return lambda name: folder / f"light_{name}.onnx"
