"""The workloads of benchmarks in JAX, against ONNX's own meaning of the nodes."""

# ONNX carries few types.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from benchmarks import jax_runs

make = helper.make_node

NODES: dict[str, Sequence[NodeProto]] = {
    "image": [
        make("Conv", ["x", "w", "c"], ["a"], pads=[1, 1, 1, 1], strides=[2, 2]),
        make("Relu", ["a"], ["b"]),
        make("MaxPool", ["b"], ["m"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        make("Concat", ["m", "b"], ["d"], axis=1),
        make("GlobalAveragePool", ["d"], ["e"]),
        make("Softmax", ["e"], ["o"], axis=1),
    ],
    "rows": [
        make("Reshape", ["x", "rows"], ["r"]),
        make("LayerNormalization", ["r", "g", "n"], ["a"]),
        make("Gemm", ["a", "q"], ["p"], transB=1),
        make("Gelu", ["p"], ["h"], approximate="tanh"),
        make("Transpose", ["h"], ["t"], perm=[1, 0]),
        make("MatMul", ["h", "t"], ["s"]),
        make("Tanh", ["s"], ["u"]),
        make("Sigmoid", ["u"], ["v"]),
        make("Mul", ["v", "u"], ["k"]),
        make("Add", ["k", "u"], ["z"]),
        make("Softmax", ["z"], ["o"]),
    ],
}


def model_of(nodes: Sequence[NodeProto]) -> ModelProto:
    """A model of nodes, with random weights."""
    random = np.random.default_rng(6)
    shapes = {"w": (4, 3, 3, 3), "c": (4,), "g": (8,), "n": (8,), "q": (5, 8)}
    weights: dict[str, NDArray[np.generic]] = {
        name: random.normal(size=shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    weights["rows"] = np.array([24, 8], np.int64)
    graph = helper.make_graph(
        nodes,
        "case",
        [helper.make_tensor_value_info("x", 1, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("o", 1, None)],
        [numpy_helper.from_array(value, name) for name, value in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


@pytest.mark.parametrize("name", NODES)
def test_nodes_mean_what_onnx_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")

    def started(threads: int) -> object:
        return jax

    # Another number of threads is for whole processes.
    monkeypatch.setattr(jax_runs, "start_jax", started)
    model = model_of(NODES[name])
    x = np.random.default_rng(7).normal(size=(1, 3, 8, 8)).astype(np.float32)
    found = ReferenceEvaluator(model).run(None, {"x": x})
    wanted = np.asarray(next(iter(found)), np.float32)
    for fixed in (False, True):
        (got,) = jax_runs.model_run(model, {"x": x}, 1, fixed=fixed)()
        np.testing.assert_allclose(np.asarray(got, np.float32), wanted, 1e-4, 1e-5)


def test_nodes_that_have_no_function_are_named() -> None:
    node = make("Einsum", ["x"], ["y"], equation="i->i")
    with pytest.raises(NotImplementedError, match="no function of JAX for Einsum"):
        jax_runs.value_of(np, node, {"x": np.zeros(1)}, -1)
