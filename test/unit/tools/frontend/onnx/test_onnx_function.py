"""ONNX models as functions in jobs, and their gradients."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper, parser
from onnx.reference import ReferenceEvaluator

import penstock
from penstock import OnnxFunction, PenstockError, Session, Tensor

SEED = 20261127

NET = """<ir_version: 8, opset_import: ["" : 17]>
net (float[n, 3] x, float[n] scale) => (float[n, 2] y, float[n, 4] h) {
  sums = Gemm <transB = 1> (x, w, b)
  normal = BatchNormalization (sums, s, t, mean, variance)
  h = Tanh(normal)
  p = MatMul(h, v)
  axis = Constant <value = int64[1] {1}> ()
  column = Unsqueeze(scale, axis)
  y = Mul(p, column)
}"""

SHAPES = {"w": (4, 3), "b": (4,), "s": (4,), "t": (4,), "v": (4, 2)}
STATISTICS = {"mean": (4,), "variance": (4,)}


def model_and_weights() -> tuple[ModelProto, dict[str, Any]]:
    """The model, whose biases start from the same numbers."""
    print(f"seed {SEED}")
    random = np.random.default_rng(SEED)
    weights: dict[str, Any] = {
        name: random.normal(size=shape).astype(np.float32)
        for name, shape in {**SHAPES, **STATISTICS}.items()
    }
    weights["variance"] = np.abs(weights["variance"]) + 0.5
    weights["b"] = weights["t"] = np.zeros(4, np.float32)
    model = parser.parse_model(NET)
    for name, array in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return model, weights


X = Annotated[Tensor, ("n", 3), "f32"]
SCALE = Annotated[Tensor, ("n",), "f32"]


def test_a_model_is_derived_by_its_weights() -> None:
    """Against ONNX's reference, whose differences are taken in f64."""
    model, weights = model_and_weights()
    net = OnnxFunction(model, prefix="net/")

    @penstock.job
    def step(x: X, scale: SCALE) -> Any:
        def loss() -> Any:
            found = net(x, scale=scale)
            return (found["y"] ** 2).sum() + found["h"].sum()

        return penstock.value_and_grad(loss)()

    random = np.random.default_rng(SEED + 1)
    x, scale = (random.normal(size=s).astype(np.float32) for s in ((5, 3), (5,)))
    with Session() as session:
        loss, gradients = step(x, scale)
        assert {*session.read_variables()} == {f"net/{name}" for name in SHAPES}

    def wanted(name: str, change: Any) -> float:
        """The loss where a weight is another one, by NumPy in f64."""
        w = {key: value.astype(np.float64) for key, value in weights.items()}
        w[name] = w[name] + change
        sums = x @ w["w"].T + w["b"] - w["mean"]
        h = np.tanh(sums / np.sqrt(w["variance"] + 1e-5) * w["s"] + w["t"])
        return float(((h @ w["v"] * scale[:, None]) ** 2).sum() + h.sum())

    reference: Any = ReferenceEvaluator(model)
    y, h = reference.run(None, {"x": x, "scale": scale})
    np.testing.assert_allclose(loss, (y**2).sum() + h.sum(), rtol=1e-5)
    assert gradients.keys() == {f"net/{name}" for name in SHAPES}
    for name, shape in SHAPES.items():
        slope = np.empty(shape)
        for place in np.ndindex(*shape):
            change = np.zeros(shape)
            change[place] = 1e-6
            slope[place] = (wanted(name, change) - wanted(name, -change)) / 2e-6
        np.testing.assert_allclose(
            gradients[f"net/{name}"], slope, rtol=1e-4, atol=1e-4, err_msg=name
        )


def traced(function: Any, *shapes: tuple[int, ...]) -> str:
    """The text of a job that calls a function with tensors of two shapes."""

    def called(x: Any, scale: Any) -> Any:
        return function(x, scale)

    types = (Annotated[Tensor, shape, "f32"] for shape in shapes)
    job: Any = called
    job.__annotations__ = dict(zip(("x", "scale"), types, strict=True))
    return penstock.job(job).trace().ir


def test_inputs_that_do_not_fit_are_refused() -> None:
    net = OnnxFunction(model_and_weights()[0])

    def one(x: Any, scale: Any) -> Any:
        return net(x)

    def twice(x: Any, scale: Any) -> Any:
        return net(x, scale, x=x)

    def wide(x: Any, scale: Any) -> Any:
        return net(x.astype("f64"), scale)

    with pytest.raises(PenstockError, match="the model takes x, scale, each once"):
        traced(one, (5, 3), (5,))
    with pytest.raises(PenstockError, match="got 2 in order, x"):
        traced(twice, (5, 3), (5,))
    with pytest.raises(PenstockError, match="'x'"):
        traced(net, (5, 4), (5,))
    with pytest.raises(PenstockError, match="scale"):
        traced(net, (5, 3), (6,))
    with pytest.raises(PenstockError, match="input 'x' is tensor<5x3xf32>, got"):
        traced(wide, (5, 3), (5,))
    with pytest.raises(PenstockError, match="outside of a function that is traced"):
        net()
    with pytest.raises(PenstockError, match=r"no-such\.onnx"):
        OnnxFunction("no-such.onnx")


def test_a_weight_that_a_shape_depends_on_is_none(tmp_path: Path) -> None:
    """It is a constant of the job, as are integers and single numbers."""
    model = parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
    net (float[1, 1, 2, 2] x) => (float[1, 1, 4, 4] y) {
      large = Resize <mode = "nearest"> (x, , scales)
      y = Mul(large, w)
    }""")
    for name, values in {"scales": [1, 1, 2, 2], "w": [1, 2, 3, 4]}.items():
        array = np.array(values, np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    path = tmp_path / "net.onnx"
    path.write_bytes(model.SerializeToString())
    net = OnnxFunction(path)

    @penstock.job
    def job(x: Annotated[Tensor, (1, 1, 2, 2), "f32"]) -> Any:
        return net(x)

    text = job.trace().ir
    assert 'job.variable "w"' in text
    assert '"scales"' not in text
