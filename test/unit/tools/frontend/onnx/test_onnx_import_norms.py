"""Normalizations of groups of channels become `op.group_norm`, against NumPy in f64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pytest
from onnx import ModelProto, helper

from penstock.dialects.op import GroupNormOp
from penstock.tools.frontend.onnx.model import ImportedModel, import_model

Array: TypeAlias = Any
MakeModel: TypeAlias = Callable[..., ModelProto]
Evaluate: TypeAlias = Callable[[ImportedModel, Mapping[str, Array]], dict[str, Array]]


@pytest.mark.parametrize(
    ("op", "opset", "numbers", "attributes"),
    [
        ("GroupNormalization", 18, 3, {"num_groups": 3, "epsilon": 0.25}),
        ("GroupNormalization", 21, 6, {"num_groups": 3, "epsilon": 0.25}),
        ("GroupNormalization", 21, 6, {"num_groups": 1}),
        ("InstanceNormalization", 18, 6, {"epsilon": 0.5}),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_one_op(
    op: str,
    opset: int,
    numbers: int,
    attributes: Mapping[str, float],
    dtype: type[np.floating],
    make_model: MakeModel,
    evaluate: Evaluate,
) -> None:
    random = np.random.default_rng(3)
    x = random.normal(1, 2, (2, 6, 4, 3)).astype(dtype)
    known = {name: random.normal(size=numbers).astype(dtype) for name in "sb"}
    node = helper.make_node(op, ["x", "s", "b"], ["y"])
    node.attribute.extend(helper.make_attribute(k, v) for k, v in attributes.items())
    model = make_model([node], {"x": x}, ["y"], known, opset)
    imported = import_model(model, "model")
    (norm,) = (op for op in imported.module.walk() if isinstance(op, GroupNormOp))
    groups = int(attributes.get("num_groups", 6))
    assert norm.groups.value.data == groups
    rows = x.astype(np.float64).reshape(2, groups, -1)
    centered = rows - rows.mean(2, keepdims=True)
    root = np.sqrt(
        (centered**2).mean(2, keepdims=True) + attributes.get("epsilon", 1e-5)
    )
    scale, bias = (
        np.repeat(known[name].astype(np.float64), 6 // numbers)[:, None, None]
        for name in "sb"
    )
    expected = (centered / root).reshape(x.shape) * scale + bias
    found = evaluate(imported, {"x": x})["y"]
    assert found.dtype == dtype
    error = {np.float32: 1e-6, np.float16: 1e-3}[dtype] * np.abs(expected).max()
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=0, atol=error)
