"""Recurrent layers of ONNX are loops, and equal those of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any, TypeAlias

import numpy as np
import pytest
from draws import fresh
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, helper
from xdsl.ir import SSAValue

from penstock.dialects.op import LoopOp, MatmulOp
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.frontend.onnx.model import (
    ImportedModel,
    import_model,
    run_onnxruntime,
)
from penstock.tools.frontend.onnx.session import OnnxSession

Array: TypeAlias = NDArray[np.generic]
Arrays: TypeAlias = Mapping[str, Array]
MakeModel: TypeAlias = Callable[..., ModelProto]
AssertClose: TypeAlias = Callable[..., None]
Evaluate: TypeAlias = Callable[[ImportedModel, Arrays], dict[str, Array]]

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
FEATURES, SIZE = 3, 4
DIRECTIONS = "forward", "reverse", "bidirectional"
EXTENTS = list(product((1, 2, 7), (1, 3)))
"""Steps and batches."""


def layer(
    rng: np.random.Generator, op: str, steps: int, batch: int, ways: int
) -> dict[str, Array]:
    """The operands of a layer by their usual names."""
    gates = GATES[op]
    shapes = {
        "X": (steps, batch, FEATURES),
        "W": (ways, gates * SIZE, FEATURES),
        "R": (ways, gates * SIZE, SIZE),
        "B": (ways, 2 * gates * SIZE),
        "h": (ways, batch, SIZE),
    }
    if op == "LSTM":
        shapes |= {"c": (ways, batch, SIZE), "P": (ways, 3 * SIZE)}
    return {
        name: (2 * rng.standard_normal(shape)).astype(np.float32)
        for name, shape in shapes.items()
    }


def recurrent(op: str, inputs: list[str], **attributes: Any) -> NodeProto:
    outputs = ["Y", "Y_h", "Y_c"][: 3 if op == "LSTM" else 2]
    return helper.make_node(op, inputs, outputs, hidden_size=SIZE, **attributes)


def operands(op: str, has_lengths: bool) -> list[str]:
    names = ["X", "W", "R", "B", "lengths" * has_lengths, "h"]
    return [*names, "c", "P"] if op == "LSTM" else names


def loops_of(imported: ImportedModel) -> list[LoopOp]:
    return [op for op in imported.module.walk() if isinstance(op, LoopOp)]


KINDS: list[tuple[str, dict[str, int]]] = [
    ("RNN", {}),
    ("GRU", {}),
    ("GRU", {"linear_before_reset": 1}),
    ("LSTM", {}),
]


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(("op", "attributes"), KINDS)
def test_layers_are_loops_and_equal_those_of_onnx_runtime(
    make_model: MakeModel,
    evaluate: Evaluate,
    assert_close: AssertClose,
    op: str,
    attributes: dict[str, Any],
    direction: str,
):
    rng, ways = fresh(), 1 + (direction == "bidirectional")
    cases = product((False, True), (0.0, 9.0))
    start = DIRECTIONS.index(direction)
    for number, (has_lengths, clip) in enumerate(cases):
        # Six pairs of extents and four cases: every pair comes for each kind of layer.
        steps, batch = EXTENTS[(2 * start + number) % len(EXTENTS)]
        arrays = layer(rng, op, steps, batch, ways)
        inputs = {"X": arrays.pop("X")}
        if has_lengths:
            inputs["lengths"] = rng.integers(1, steps + 1, batch).astype(np.int32)
        # Cells of at most 7 steps are not clipped, where ONNX Runtime differs.
        facts = {**attributes, "direction": direction} | (
            {"clip": clip} if clip else {}
        )
        node = recurrent(op, operands(op, has_lengths), **facts)
        model = make_model([node], inputs, node.output, arrays, opset=14)
        imported = import_model(model, "m")
        assert [loop.count for loop in loops_of(imported)] == [steps] * ways
        got, wanted = evaluate(imported, inputs), run_onnxruntime(model, inputs)
        assert_close(got, wanted, 1e-4)


def test_a_layer_with_batches_first_is_one_with_steps_first(
    make_model: MakeModel, evaluate: Evaluate, assert_close: AssertClose
):
    """ONNX Runtime has no such layers."""
    arrays = layer(fresh(), "LSTM", 5, 3, 2)
    node = recurrent("LSTM", operands("LSTM", False), direction="bidirectional")
    usual = run_onnxruntime(make_model([node], arrays, node.output, opset=14), arrays)
    turned = arrays | {name: arrays[name].swapaxes(0, 1) for name in ("X", "h", "c")}
    node = recurrent(
        "LSTM", operands("LSTM", False), direction="bidirectional", layout=1
    )
    model = make_model([node], turned, node.output, opset=14)
    orders = {"Y": (2, 0, 1, 3), "Y_h": (1, 0, 2), "Y_c": (1, 0, 2)}
    wanted = {name: usual[name].transpose(order) for name, order in orders.items()}
    assert_close(evaluate(import_model(model, "m"), turned), wanted, 1e-4)


def size_of(imported: ImportedModel) -> tuple[int, list[int]]:
    """The number of ops of a job, and the elements of its weights."""
    elements = sorted(array.size for array in imported.weights.values())
    return len(list(imported.module.walk())), elements


def test_a_job_has_as_many_ops_for_any_number_of_steps(make_model: MakeModel):
    sizes: list[tuple[int, list[int]]] = []
    for steps in (2, 5000):
        arrays = layer(np.random.default_rng(0), "LSTM", steps, 1, 2)
        inputs = {"X": arrays.pop("X")}
        node = recurrent("LSTM", operands("LSTM", False), direction="bidirectional")
        model = make_model([node], inputs, node.output, arrays, opset=14)
        sizes.append(size_of(import_model(model, "m")))
    assert sizes[0] == sizes[1]


def test_inputs_are_multiplied_once_and_weights_of_states_are_read(
    make_model: MakeModel,
):
    arrays = layer(np.random.default_rng(0), "LSTM", 6, 2, 1)
    inputs = {"X": arrays.pop("X")}
    node = recurrent("LSTM", operands("LSTM", False))
    model = make_model([node], inputs, node.output, arrays, opset=14)
    imported = import_model(model, "m")
    (loop,) = loops_of(imported)
    products = [op for op in imported.module.walk() if isinstance(op, MatmulOp)]
    inside = [op for op in products if op.parent_op() is loop]
    assert (len(products), len(inside)) == (2, 1)
    arguments: list[SSAValue] = [*loop.body.block.args]
    state, weights = (arguments.index(x) for x in inside[0].operands)
    # The number of the iteration, two states, a slice, and then what it reads.
    assert (state, weights >= 4) == (1, True)


def test_outputs_of_steps_that_nobody_reads_are_not_stacked(make_model: MakeModel):
    arrays = layer(np.random.default_rng(0), "GRU", 6, 2, 1)
    inputs = {"X": arrays.pop("X")}
    node = helper.make_node("GRU", ["X", "W", "R"], ["", "Y_h"], hidden_size=SIZE)
    imported = import_model(make_model([node], inputs, ["Y_h"], arrays), "m")
    (loop,) = loops_of(imported)
    assert [str(value.type) for value in loop.outs] == ["tensor<2x4xf32>"]


def two_layers(
    make_model: MakeModel, rng: np.random.Generator
) -> tuple[ModelProto, Arrays]:
    arrays = layer(rng, "LSTM", 5, 1, 2)
    inputs = {"X": arrays.pop("X")}
    second = rng.standard_normal((1, 4 * SIZE, 2 * SIZE)).astype(np.float32)
    known = arrays | {"W2": second, "R2": arrays["R"][:1], "order": np.array([5, 1, 8])}
    node = recurrent("LSTM", operands("LSTM", False), direction="bidirectional")
    nodes = [
        node,
        helper.make_node("Transpose", ["Y"], ["flat"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["flat", "order"], ["X2"]),
        helper.make_node("LSTM", ["X2", "W2", "R2"], ["Z"], hidden_size=SIZE),
    ]
    return make_model(nodes, inputs, ["Z", "Y_c"], known, opset=14), inputs


def test_two_layers_run(make_model: MakeModel, assert_close: AssertClose):
    model, inputs = two_layers(make_model, fresh())
    with OnnxSession(model) as session:
        got = session.run(inputs)
    assert_close(got, run_onnxruntime(model, inputs), 1e-4)


def test_passes_before_unrolling_see_one_body(make_model: MakeModel):
    model, _ = two_layers(make_model, np.random.default_rng(0))
    module = import_model(model, "m").module
    compiler, passes = installed_compiler()
    run_pipeline(compiler, passes, module, "op-infer-shapes,job-clean")
    assert len([op for op in module.walk() if isinstance(op, LoopOp)]) == 3
