"""Transposed convolutions and batch normalization in training, by ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pytest
from draws import fresh
from onnx import ModelProto, helper
from onnxruntime import InferenceSession

from penstock.dialects.op import Conv2dOp
from penstock.tools.frontend.onnx.model import ImportedModel, import_model

Array: TypeAlias = Any
MakeModel: TypeAlias = Callable[..., ModelProto]
Evaluate: TypeAlias = Callable[[ImportedModel, Mapping[str, Array]], dict[str, Array]]


def normal(rng: np.random.Generator, shape: Any) -> Array:
    return np.asarray(rng.normal(size=shape), np.float32)


CASES: list[tuple[tuple[int, ...], tuple[int, ...], dict[str, Any], int]] = [
    ((2, 4, 5), (4, 3, 3), {"strides": [2], "pads": [1, 0]}, 2),
    ((2, 4, 5), (4, 3, 2), {"strides": [3]}, 1),
    ((1, 3, 4, 5), (3, 2, 3, 3), {"pads": [1, 2, 0, 1]}, 1),
    ((1, 3, 4, 5), (3, 2, 3, 4), {"strides": [2, 3], "output_padding": [1, 2]}, 4),
    ((1, 3, 4, 5), (3, 20, 3, 4), {"strides": [2, 3]}, 6),
    ((2, 3, 4, 5), (3, 3, 4, 6), {"strides": [2, 3], "pads": [1, 2, 1, 0]}, 1),
    ((1, 4, 4, 5), (4, 3, 2, 3), {"group": 2, "strides": [2, 2]}, 2),
    ((1, 3, 4, 5), (3, 1, 3, 3), {"group": 3, "strides": [1, 2]}, 2),
    ((1, 2, 4, 3), (2, 2, 3, 2), {"strides": [2, 3], "dilations": [3, 2]}, 2),
    ((1, 2, 4, 3), (2, 2, 3, 3), {"strides": [4, 2], "dilations": [2, 2]}, 2),
    ((1, 2, 4, 3), (2, 2, 1, 1), {"strides": [2, 2]}, 1),
    ((1, 2, 4, 3), (2, 2, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}, 4),
    ((1, 2, 5, 3, 2), (2, 2, 3, 1, 1), {"pads": [1, 0, 0] * 2}, 1),
    ((1, 2, 3, 2, 3), (2, 2, 2, 3, 2), {"strides": [2, 1, 2], "pads": [0, 1] * 3}, 1),
]
"""Shapes, attributes, and the convolutions of images that they are."""


@pytest.mark.parametrize(("image", "weights", "attributes", "count"), CASES)
def test_transposed_convolutions(
    image: Any,
    weights: Any,
    attributes: dict[str, Any],
    count: int,
    make_model: MakeModel,
    evaluate: Evaluate,
) -> None:
    rng = fresh()
    shapes = {"x": image, "w": weights, "b": [weights[1] * attributes.get("group", 1)]}
    inputs = {name: normal(rng, shape) for name, shape in shapes.items()}
    node = helper.make_node("ConvTranspose", [*inputs], ["y"], **attributes)
    model = make_model([node], inputs, ["y"], {}, 13)
    imported = import_model(model, "model")
    made = [op for op in imported.module.walk() if isinstance(op, Conv2dOp)]
    assert len(made) == count
    session: Any = InferenceSession(model.SerializeToString())
    (wanted,) = session.run(None, inputs)
    found = evaluate(imported, inputs)["y"]
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_batch_normalization_in_training(
    make_model: MakeModel, evaluate: Evaluate
) -> None:
    rng = fresh()
    inputs = {"x": rng.normal(2, 3, (2, 3, 4, 5)).astype(np.float32)}
    for name in "sbm":
        inputs[name] = rng.normal(size=3).astype(np.float32)
    inputs["v"] = rng.uniform(1, 2, 3).astype(np.float32)
    attributes = {"training_mode": 1, "momentum": 0.75, "epsilon": 0.1}
    outputs = ["y", "mean", "variance"]
    node = helper.make_node("BatchNormalization", [*inputs], outputs)
    node.attribute.extend(helper.make_attribute(k, v) for k, v in attributes.items())
    model = make_model([node], inputs, outputs, {}, 15)
    found = evaluate(import_model(model, "model"), inputs)
    x, s, b, m, v = (array.astype(np.float64) for array in inputs.values())
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
    y = (x - mean[:, None, None]) / np.sqrt(variance + 0.1)[:, None, None]
    wanted = {
        "y": y * s[:, None, None] + b[:, None, None],
        "mean": 0.75 * m + 0.25 * mean,
        "variance": 0.75 * v + 0.25 * variance,
    }
    for name, array in wanted.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-5, atol=1e-5)
