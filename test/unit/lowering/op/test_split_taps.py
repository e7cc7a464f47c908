"""Convolutions that are split by taps, against ONNX's reference in `f64`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from draws import fresh
from numpy.typing import NDArray
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from penstock.lowering.pipelines import PipelineOptions, pipeline, text_of
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.session import Model, Session

X, W, Y = (2, 33, 9, 13), (35, 33, 2, 3), (2, 35, 9, 5)
GIVEN = {"pads": [5, 4, 1, 7], "dilations": [6, 5], "strides": [1, 3]}


def tensor(shape: tuple[int, ...], element: str = "f32") -> str:
    return f"tensor<{'x'.join(map(str, shape))}x{element}>"


def model() -> Model:
    words = " ".join(f"{name} {GIVEN[name]}" for name in ("strides", "pads"))
    text = f"""
    job.job @predict placement <cpu, [0:0]> {{
      %x = job.input "x" : {tensor(X)}
      %w = job.variable "w" init <normal, seed = 1> : {tensor(W)}
      %b = job.variable "b" init <normal, seed = 2> : {tensor(W[:1])}
      %y = op.conv2d %x, %w, %b {words} dilations {GIVEN["dilations"]}
        : {tensor(X)}, {tensor(W)}, {tensor(W[:1])} -> {tensor(Y)}
      job.output "y", %y : {tensor(Y)}
    }}"""
    module = installed_compiler()[0].parse(text.encode(), "job.mlir")
    return Model(module, {}, Path())


def exact(*operands: NDArray[Any]) -> NDArray[np.float64]:
    """The convolution of images with weights and a bias, in `f64`."""
    names = ["x", "w", "b"]
    given: Any = GIVEN
    graph = helper.make_graph(
        [helper.make_node("Conv", names, ["y"], **given)],
        "taps",
        [helper.make_tensor_value_info(n, TensorProto.DOUBLE, None) for n in names],
        [helper.make_tensor_value_info("y", TensorProto.DOUBLE, None)],
    )
    opset = [helper.make_opsetid("", 18)]
    reference: Any = ReferenceEvaluator(helper.make_model(graph, opset_imports=opset))
    wide = [operand.astype(np.float64) for operand in operands]
    results = reference.run(None, dict(zip(names, wide, strict=True)))
    return np.asarray(results[0], np.float64)


def error_of(found: NDArray[Any], wanted: NDArray[np.float64]) -> float:
    """The largest error, as a share of the largest result."""
    error = np.abs(np.asarray(found, np.float64) - wanted)
    return float(error.max() / np.abs(wanted).max())


@pytest.mark.slow
def test_sessions_multiply_with_the_weights_of_each_tap() -> None:
    rng = fresh()
    x, w = (rng.normal(size=shape).astype(np.float32) for shape in (X, W))
    with Session(model(), threads=1) as session:
        assert "kernel.padded" not in str(session.program)
        state = session.state()
        assert state["w"].shape == W
        found = session.run({"x": x})["y"]
        assert error_of(found, exact(x, state["w"], state["b"])) <= 1e-5
        session.load_state({**state, "w": w})
        np.testing.assert_array_equal(session.state()["w"], w)
        found = session.run({"x": x})["y"]
        assert error_of(found, exact(x, w, state["b"])) <= 1e-5


@pytest.mark.parametrize(
    "options",
    [
        PipelineOptions(panels=False),
        PipelineOptions(model_jobs=True),
        PipelineOptions(merge=True),
    ],
)
def test_weights_that_others_know_stay_whole(options: PipelineOptions) -> None:
    assert "op-split-taps" in text_of(pipeline(PipelineOptions()))
    assert "op-split-taps" not in text_of(pipeline(options))
