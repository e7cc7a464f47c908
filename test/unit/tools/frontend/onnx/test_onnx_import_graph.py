"""Whole ONNX graphs: names, known values, outputs, and all that is refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TypeAlias

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.external_data_helper import (
    convert_model_to_external_data,
    write_external_data_tensors,
)
from xdsl.ir import Operation

from penstock.dialects.job import InputOp, VariableOp
from penstock.dialects.op import IfOp, TriangleOp
from penstock.tools.driver.diagnostics import Rejected, UsageError
from penstock.tools.frontend.onnx.model import (
    ImportedModel,
    import_file,
    import_model,
    read_onnx,
    run_onnxruntime,
)

Array: TypeAlias = NDArray[np.generic]
Attribute: TypeAlias = (
    int
    | float
    | str
    | Sequence[int]
    | Sequence[float]
    | Sequence[str]
    | TensorProto
    | GraphProto
)
Arrays: TypeAlias = Mapping[str, Array]
MakeModel: TypeAlias = Callable[..., ModelProto]
AssertClose: TypeAlias = Callable[..., None]
Check: TypeAlias = Callable[..., dict[str, Array]]
Evaluate: TypeAlias = Callable[[ImportedModel, Arrays], dict[str, Array]]

X = np.random.default_rng(3).standard_normal((2, 3)).astype(np.float32)


@pytest.fixture
def check(evaluate: Evaluate, assert_close: AssertClose) -> Check:
    """The outputs of a model, once they are those of ONNX Runtime."""

    def run(model: ModelProto, inputs: Arrays, *extra: str) -> dict[str, Array]:
        imported = import_model(model, "model", extra_outputs=extra)
        got = evaluate(imported, inputs)
        assert_close(got, run_onnxruntime(imported.proto, inputs))
        return got

    return run


def findings(model: ModelProto, *extra: str) -> list[str]:
    """The messages about a model that cannot be imported, line by line."""
    with pytest.raises(Rejected) as raised:
        import_model(model, "model", extra_outputs=extra)
    (diagnosis,) = raised.value.diagnoses
    assert diagnosis.message == "the model cannot be imported:"
    return [note.strip() for note in diagnosis.notes]


def ops_of(imported: ImportedModel, kind: type[Operation]) -> list[Operation]:
    return [op for op in imported.module.walk() if isinstance(op, kind)]


def triangles_of(imported: ImportedModel) -> list[TriangleOp]:
    return [op for op in imported.module.walk() if isinstance(op, TriangleOp)]


def node(
    op: str, *inputs: str, outputs: tuple[str, ...] = ("y",), **attributes: Attribute
) -> NodeProto:
    """A node without a name."""
    proto = helper.make_node(op, inputs, outputs)
    proto.attribute.extend(
        helper.make_attribute(name, value) for name, value in attributes.items()
    )
    return proto


def number(value: float) -> Array:
    """A scalar that a node may have as an operand."""
    return np.array(value, np.float32)


# What is known


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        (
            "value",
            numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3)),
        ),
        ("value_float", 2.5),
        ("value_floats", [1.0, 2.0, 3.0]),
        ("value_int", 7),
        ("value_ints", [1, 2, 3]),
    ],
)
def test_constant_nodes_are_known(
    attribute: str, value: Attribute, make_model: MakeModel, check: Check
):
    x = X if "int" not in attribute else np.arange(6).reshape(2, 3)
    nodes = [
        node("Constant", outputs=("c",), **{attribute: value}),
        node("Add", "x", "c"),
    ]
    check(make_model(nodes, {"x": x}), {"x": x})


def test_arrays_that_are_made_of_one_weight_at_each_step_are_one_variable(
    make_model: MakeModel, check: Check
):
    random = np.random.default_rng(3)
    x = random.standard_normal((9, 2, 4)).astype(np.float32)
    shapes = {"w": (1, 12, 4), "r": (1, 12, 3), "b": (1, 24)}
    weights = {
        name: random.standard_normal(shape).astype(np.float32)
        for name, shape in shapes.items()
    }
    lstm = node("LSTM", "x", "w", "r", "b", hidden_size=3)
    model = make_model([lstm], {"x": x}, known=weights)
    sizes = sorted(
        weight.size for weight in import_model(model, "model").weights.values()
    )
    # The sum of both halves of the bias, and both kinds of weights.
    assert sizes == [12, 36, 48]
    check(model, {"x": x})


def test_masks_of_what_comes_later_are_no_data(make_model: MakeModel, check: Check):
    x = np.random.default_rng(5).standard_normal((2, 4, 6)).astype(np.float32)
    known = {
        "mask": np.where(np.tri(4, 6, 2) > 0, 0.0, -np.inf).astype(np.float32),
        "seen": np.tri(4, 6, -1, dtype=np.bool_)[None],
        "least": number(-3e38),
        "other": np.eye(4, 6, dtype=np.float32),
    }
    nodes = [
        node("Add", "x", "mask", outputs=("masked",)),
        node("Where", "seen", "masked", "least", outputs=("chosen",)),
        node("Add", "chosen", "other"),
    ]
    model = make_model(nodes, {"x": x}, known=known)
    check(model, {"x": x})
    imported = import_model(model, "model")
    assert [*imported.weights] == ["other"]
    offsets = [op.offset.value.data for op in triangles_of(imported)]
    assert offsets == [2, -1]


def test_constants_of_a_shape_and_ranges_are_known(make_model: MakeModel, check: Check):
    nodes = [
        node("Shape", "x", outputs=("shape",)),
        node("ConstantOfShape", "shape", outputs=("zeros",)),
        node("Range", "start", "end", "step", outputs=("range",)),
        node("Add", "x", "zeros", outputs=("sum",)),
        node("Add", "sum", "range"),
    ]
    known = {
        name: np.array(value, np.float32)
        for name, value in (("start", 1), ("end", 7), ("step", 2))
    }
    check(make_model(nodes, {"x": X}, known=known), {"x": X})


def test_what_follows_from_a_shape_is_known(make_model: MakeModel, check: Check):
    nodes = [
        node("Shape", "x", outputs=("shape",)),
        node("Gather", "shape", "zero", outputs=("rows",), axis=0),
        node("Unsqueeze", "rows", "axes", outputs=("row_list",)),
        node("Concat", "row_list", "rest", outputs=("target",), axis=0),
        node("Reshape", "x", "target"),
    ]
    known = {"zero": np.array(0), "axes": np.array([0]), "rest": np.array([1, -1])}
    model = make_model(nodes, {"x": X}, known=known)
    assert check(model, {"x": X})["y"].shape == (2, 1, 3)


def test_an_unknown_op_on_known_operands_is_evaluated(
    make_model: MakeModel, check: Check
):
    nodes = [node("Mod", "a", "b", outputs=("c",)), node("Add", "x", "c")]
    known = {"a": np.array([7, 8, 9]), "b": np.array([4, 4, 4])}
    x = np.arange(3)
    check(make_model(nodes, {"x": x}, known=known), {"x": x})


def test_short_values_are_constants_and_long_ones_variables(
    make_model: MakeModel, check: Check
):
    known = {
        "short/c": np.arange(8, dtype=np.float32),
        "long.c": np.arange(9, dtype=np.float32)[:, None],
    }
    nodes = [
        node("Add", "x", "short/c", outputs=("s",)),
        node("Add", "s", "long.c"),
    ]
    x = np.ones(8, np.float32)
    model = make_model(nodes, {"x": x}, known=known)
    imported = import_model(model, "model", "w.npz")
    assert list(imported.weights) == ["long.c"]
    (variable,) = ops_of(imported, VariableOp)
    assert isinstance(variable, VariableOp)
    assert str(variable.init) == '#job.init<npz, file = "w.npz">'
    check(model, {"x": x})


def test_evaluated_weights_are_row_major(make_model: MakeModel):
    nodes = [node("Transpose", "w", outputs=("t",)), node("MatMul", "x", "t")]
    model = make_model(nodes, {"x": X}, known={"w": np.ones((4, 3), np.float32)})
    assert import_model(model, "model").weights["t"].flags.c_contiguous


def test_a_weight_of_several_ops_is_one_variable(make_model: MakeModel):
    nodes = [node("MatMul", "x", "w", outputs=("s",)), node("MatMul", "s", "w")]
    model = make_model(nodes, {"x": X}, known={"w": np.ones((3, 3), np.float32)})
    assert len(ops_of(import_model(model, "model"), VariableOp)) == 1


# Inputs, outputs and names


def test_initializers_that_are_inputs_are_no_inputs(
    make_model: MakeModel, check: Check
):
    model = make_model([node("Add", "x", "c")], {"x": X, "c": X}, known={"c": 2 * X})
    assert len(ops_of(import_model(model, "model"), InputOp)) == 1
    np.testing.assert_array_equal(check(model, {"x": X})["y"], X + 2 * X)


def test_outputs_may_be_inputs_and_constants(make_model: MakeModel, check: Check):
    nodes = [node("Identity", "x", outputs=("same",)), node("Relu", "x")]
    model = make_model(nodes, {"x": X}, ["x", "same", "c", "y"], {"c": np.arange(20.0)})
    check(model, {"x": X})


def test_names_need_not_be_identifiers(make_model: MakeModel, check: Check):
    names = ["a/b:0", "0", "%x", "ä ö", '"q"']
    nodes = [
        node("Relu", first, outputs=(second,)) for first, second in pairwise(names)
    ]
    model = make_model(nodes, {names[0]: X}, [names[-1]])
    model.graph.name = "torch-graph 1.0"
    imported = import_model(model, "model")
    assert "job.job @torch_graph_1_0 " in str(imported.module)
    assert "%a_b = job.input" in str(imported.module)
    check(model, {names[0]: X})


def test_optional_outputs_that_nothing_reads_are_left_out(
    make_model: MakeModel, check: Check
):
    nodes = [
        node("Dropout", "x", outputs=("d", "mask")),
        node("LayerNormalization", "d", "s", outputs=("n", "mean", "deviation")),
        node("MaxPool", "n", outputs=("y", "places"), kernel_shape=[2, 2]),
    ]
    x = np.arange(36, dtype=np.float32).reshape(1, 1, 6, 6) ** 2
    model = make_model(nodes, {"x": x}, known={"s": np.ones(6, np.float32)})
    check(model, {"x": x})


def test_nodes_that_no_output_depends_on_are_left_out(
    make_model: MakeModel, check: Check
):
    nodes = [node("NonZero", "x", outputs=("places",)), node("Relu", "x")]
    check(make_model(nodes, {"x": X}), {"x": X})


def test_values_of_the_graph_become_outputs_on_both_sides(
    make_model: MakeModel, check: Check
):
    nodes = [node("Relu", "x", outputs=("r",)), node("Softmax", "r")]
    model = make_model(nodes, {"x": X})
    got = check(model, {"x": X}, "r", "y", "r")
    np.testing.assert_array_equal(got["r"], np.maximum(X, 0))
    assert list(got) == ["y", "r"]
    assert [output.name for output in model.graph.output] == ["y"]


def test_functions_of_the_model_are_written_out(make_model: MakeModel, check: Check):
    body = [node("Mul", "a", "a", outputs=("aa",)), node("Neg", "aa", outputs=("b",))]
    opsets = [helper.make_opsetid("", 18)]
    function = helper.make_function("own", "Negated", ["a"], ["b"], body, opsets)
    call = helper.make_node("Negated", ["x"], ["y"], domain="own")
    model = make_model([call], {"x": X})
    model.functions.append(function)
    model.opset_import.append(helper.make_opsetid("own", 1))
    check(model, {"x": X})


@pytest.mark.parametrize("opset", [9, 11])
def test_older_models_are_brought_to_a_newer_version(
    opset: int, make_model: MakeModel, check: Check
):
    x = np.random.default_rng(1).standard_normal((2, 4, 5)).astype(np.float32)
    nodes = [
        node("Squeeze", "x", outputs=("q",), axes=[0]),
        node("Unsqueeze", "q", outputs=("u",), axes=[2]),
        node("Split", "u", outputs=("a", "b"), axis=1, split=[1, 4]),
        node("ReduceSum", "b", outputs=("s",), axes=[1]),
        node("Mul", "a", "s", outputs=("m",)),
        # Over all axes from the second one on, as it was then.
        node("Softmax", "m", axis=0),
    ]
    x = x[:1]
    check(make_model(nodes, {"x": x}, opset=opset), {"x": x})


# What is refused


def test_unknown_ops_are_all_listed(make_model: MakeModel):
    nodes = [
        helper.make_node("Bernoulli", ["x"], ["a"], name="first"),
        helper.make_node("Bernoulli", ["a"], ["b"]),
        helper.make_node("Gone", ["x"], ["c"], domain="com.mine"),
        helper.make_node("Relu", ["c"], ["d"]),
        helper.make_node("Concat", ["b", "e"], ["y"], axis=0),
        helper.make_node("Gather", ["a", "d"], ["e"], axis=0),
    ]
    nodes[4], nodes[5] = nodes[5], nodes[4]
    assert findings(make_model(nodes, {"x": X})) == [
        "op Bernoulli is not known: 2 nodes (first, b)",
        "op com.mine.Gone is not known: 1 node (c)",
        "(a plug-in can convert an op: docs/plugins/onnx-op.md)",
    ]


def test_inputs_without_a_shape_are_all_listed(make_model: MakeModel):
    model = make_model([node("Sum", "x", "z", "s", "u")], {"x": X, "z": X})
    dims = [*model.graph.input[0].type.tensor_type.shape.dim]
    dims[0].dim_param = "batch"
    dims[1].ClearField("dim_value")
    model.graph.input[1].type.tensor_type.ClearField("shape")
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [2])
    unsigned = helper.make_tensor_value_info("u", TensorProto.FLOAT8E5M2, [2])
    model.graph.input.extend([sequence, unsigned])
    assert findings(model) == [
        "input 'x': extents 'batch', ? of its shape are not known (give --dim batch=N)",
        "input 'z': its shape is not known",
        "input 's': it is no tensor, and no inputs, such as 's.0', are given",
        "input 'u': there are no tensors of float8_e5m2",
    ]


def test_bad_inputs_and_unknown_ops_are_listed_together(make_model: MakeModel):
    model = make_model([node("Bernoulli", "x", outputs=("y",))], {"x": X})
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "n"
    assert findings(model) == [
        "op Bernoulli is not known: 1 node (y)",
        "input 'x': extents 'n' of its shape are not known (give --dim n=N)",
    ]


IMAGE = np.ones((1, 4, 6, 6), np.float32)
CUBE = np.ones((1, 4, 6, 6, 6), np.float32)
WEIGHTS = np.ones((4, 4, 3, 3), np.float32)
N = np.array([2, 3])

REFUSED: dict[str, tuple[NodeProto, Arrays, Arrays, str]] = {
    "dropout in training": (
        node("Dropout", "x", "r", "t"),
        {"x": X},
        {"r": number(0.5), "t": np.array(True)},
        "training is not imported",
    ),
    "statistics of no training": (
        node("BatchNormalization", *"xwwww", outputs=("d", "y")),
        {"x": IMAGE},
        {"w": np.ones(IMAGE.shape[1], np.float32)},
        "its output 'y' is not computed",
    ),
    "conv of a matrix": (
        node("Conv", "x", "w"),
        {"x": X},
        {"w": np.ones((2, 3), np.float32)},
        "an image has 3 axes or more, got 2",
    ),
    "the determinant of no square": (
        node("Det", "x"),
        {"x": X},
        {},
        "a matrix of 2 x 3 has no determinant",
    ),
    "a reduction nobody knows": (
        node("ScatterND", "x", "n", "x", reduction="mean"),
        {"x": X},
        {"n": np.array([[0], [1]])},
        "the reduction 'mean' is not known",
    ),
    "a norm of another order": (
        node("LpNormalization", "x", p=3),
        {"x": X},
        {},
        "there is no norm of order 3",
    ),
    "groups that do not fit": (
        node("GroupNormalization", "x", "s", "s", num_groups=2),
        {"x": X},
        {"s": np.ones(3, np.float32)},
        "3 channels do not make 2 groups",
    ),
    "powers of integers": (
        node("ReduceLogSumExp", "n"),
        {"n": N},
        {},
        "powers of e of i64 are not summed",
    ),
    "a direction nobody knows": (
        node("RNN", "t", "w", "w", direction="up"),
        {"t": np.ones((2, 1, 3), np.float32)},
        {"w": np.ones((1, 3, 3), np.float32)},
        "the direction 'up' is not known",
    ),
    "a function nobody knows": (
        node("RNN", "t", "w", "w", activations=["Sine"]),
        {"t": np.ones((2, 1, 3), np.float32)},
        {"w": np.ones((1, 3, 3), np.float32)},
        "the function 'Sine' is not known",
    ),
    "a way to resize nobody knows": (
        node("Resize", "x", "", "s", mode="spline"),
        {"x": X},
        {"s": np.ones(2, np.float32)},
        "the mode 'spline' is not known",
    ),
    "integers between others": (
        node("Resize", "n", "", "s", mode="linear"),
        {"n": N},
        {"s": np.full(1, 2, np.float32)},
        "i64 cannot lie between others",
    ),
    "an equation for others": (
        node("Einsum", "x", equation="ij,jk"),
        {"x": X},
        {},
        "'ij,jk' is not for 1 operands",
    ),
    "an equation of another rank": (
        node("Einsum", "x", equation="ijk"),
        {"x": X},
        {},
        "'ijk' does not fit the ranks [2]",
    ),
    "strides of another rank": (
        node("Conv", "x", "w", strides=[1, 1, 1]),
        {"x": IMAGE},
        {"w": WEIGHTS},
        "'strides' should be 2 numbers, got [1, 1, 1]",
    ),
    "a shape of run time": (
        node("Reshape", "x", "n"),
        {"x": X, "n": N},
        {},
        "the shape is only known at run time",
    ),
    "a constant of a shape of run time": (
        node("ConstantOfShape", "n"),
        {"n": N},
        {},
        "the shape is only known at run time",
    ),
    "a shape that keeps too much": (
        node("Reshape", "x", "n"),
        {"x": X},
        {"n": np.array([2, 3, 0])},
        "0 in [2, 3, 0] keeps none of 2 extents",
    ),
    "a shape for other elements": (
        node("Reshape", "x", "n"),
        {"x": X},
        {"n": np.array([4, -1])},
        "cannot reshape 6 elements to [4, -1]",
    ),
    "a bound that is a list": (
        node("Clip", "x", "n"),
        {"x": X},
        {"n": np.ones(2, np.float32)},
        "a bound should be one number, got 2",
    ),
    "a shape that does not broadcast": (
        node("Expand", "x", "n"),
        {"x": X},
        {"n": np.array([2, 4])},
        "shapes 2x3, 2x4 do not broadcast",
    ),
    "sizes for fewer outputs": (
        node("Split", "x", "n", outputs=("y", "z")),
        {"x": X},
        {"n": np.array([2])},
        "2 outputs do not fit the sizes [2]",
    ),
    "slices with too few steps": (
        node("Slice", "x", "n", "n", "n", "s"),
        {"x": X},
        {"n": np.array([0, 1]), "s": np.array([1])},
        "starts, ends, axes and steps should be as many",
    ),
    "a slice with a step of 0": (
        node("Slice", "x", "n", "m", "n", "n"),
        {"x": X},
        {"n": np.array([0]), "m": np.array([2])},
        "steps must not be 0, got [0, 1]",
    ),
    "a padding mode": (
        node("Pad", "x", "n", mode="mirror"),
        {"x": X},
        {"n": np.array([0, 1, 0, 1])},
        "the padding mode 'mirror' is not known",
    ),
    "pads for fewer axes": (
        node("Pad", "x", "n"),
        {"x": X},
        {"n": np.array([0, 1])},
        "2 axes do not fit the pads [0, 1]",
    ),
    "an axis that is not there": (
        node("Split", "x", outputs=("y", "z"), axis=5),
        {"x": X},
        {},
        "axis 5 is out of range for 2 dimensions",
    ),
    "a type that is not there": (
        node("Cast", "x", to=TensorProto.FLOAT8E5M2),
        {"x": X},
        {},
        "there are no tensors of float8_e5m2",
    ),
    "operands that do not fit": (
        node("Add", "x", "n"),
        {"x": X},
        {"n": np.ones(4, np.float32)},
        "shapes 2x3, 4 do not broadcast",
    ),
    "an evaluation that fails": (
        node("MelWeightMatrix", "n", "m", "m", "m", "m"),
        {"x": X},
        {"n": np.array(-1), "m": np.array(8)},
        "it cannot be evaluated: negative dimensions are not allowed",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_node_that_cannot_be_said_is_named(name: str, make_model: MakeModel):
    proto, inputs, known, message = REFUSED[name]
    proto.name = "the node"
    model = make_model([proto], inputs, [proto.output[-1] or "y"], known)
    assert findings(model) == [f"{proto.op_type} 'the node': {message}"]


def test_random_ops_are_not_evaluated(make_model: MakeModel):
    nodes = [
        node("RandomNormal", outputs=("r",), shape=[2, 3]),
        node("Add", "x", "r"),
    ]
    assert findings(make_model(nodes, {"x": X})) == [
        "op RandomNormal is not known: 1 node (r)"
    ]


def test_branches_are_not_evaluated(make_model: MakeModel, check: Check):
    constant = node("Constant", outputs=("c",), value_float=1.0)
    value = helper.make_tensor_value_info("c", TensorProto.FLOAT, [])
    branch = helper.make_graph([constant], "branch", [], [value])
    nodes = [node("If", "x", then_branch=branch, else_branch=branch)]
    given = {"x": X[:1, :1] > 0}
    model = make_model(nodes, given)
    assert len(ops_of(import_model(model, "model"), IfOp)) == 1
    check(model, given)


def test_sparse_initializers_are_named(make_model: MakeModel):
    model = make_model([node("Add", "x", "s")], {"x": X})
    sparse = helper.make_sparse_tensor(
        helper.make_tensor("s", TensorProto.FLOAT, [1], [2.0]),
        helper.make_tensor("", TensorProto.INT64, [1], [4]),
        [2, 3],
    )
    model.graph.sparse_initializer.append(sparse)
    assert findings(model) == ["initializer 's': it is sparse"]


def test_an_output_of_a_type_that_is_not_there_is_named(make_model: MakeModel):
    known = {"c": np.ones(3, np.complex64)}
    model = make_model([node("Relu", "x")], {"x": X}, ["y", "c"], known)
    assert findings(model) == ["output 'c': there are no tensors of complex64"]


def test_weights_do_not_go_through_the_converter(
    make_model: MakeModel, check: Check, monkeypatch: pytest.MonkeyPatch
):
    convert, sizes = onnx.version_converter.convert_version, list[int]()

    def converting(model: ModelProto, version: int) -> ModelProto:
        sizes.append(model.ByteSize())
        return convert(model, version)

    monkeypatch.setattr(onnx.version_converter, "convert_version", converting)
    x = np.random.default_rng(2).standard_normal((3, 100)).astype(np.float32)
    weights = np.random.default_rng(3).standard_normal((100, 20)).astype(np.float32)
    nodes = [node("MatMul", "x", "w", outputs=("p",)), node("Softmax", "p", axis=1)]
    model = make_model(nodes, {"x": x}, known={"w": weights}, opset=9)
    model.ir_version = 4
    check(model, {"x": x})
    assert sizes
    assert max(sizes) < 1000
    # Which the caller still has.
    assert model.graph.initializer[0].raw_data == weights.tobytes()


def test_further_outputs_that_are_not_there_are_named(make_model: MakeModel):
    nodes = [node("Relu", "x", outputs=("hidden",)), node("Softmax", "hidden")]
    model = make_model(nodes, {"x": X})
    assert findings(model, "hiden", "Q") == [
        "output 'hiden': there is no such value, did you mean 'hidden'?",
        "output 'Q': there is no such value",
    ]


def test_a_model_that_cannot_be_brought_to_a_newer_version(make_model: MakeModel):
    model = make_model([node("Add", "x", "c")], {"x": X}, known={"c": X}, opset=9)
    model.ir_version = 3  # In which an initializer has to be an input too.
    with pytest.raises(UsageError) as raised:
        import_model(model, "old.onnx")
    assert str(raised.value) == (
        "old.onnx cannot be brought from opset 9 to 18: Input c is undefined!"
    )


def test_what_onnx_runtime_cannot_run_is_a_usage_error(make_model: MakeModel):
    node = helper.make_node("Gone", ["x"], ["y"], domain="com.mine")
    with pytest.raises(UsageError, match=r"^ONNX Runtime cannot run the model: "):
        run_onnxruntime(make_model([node], {"x": X}), {"x": X})


def test_onnx_runtime_is_asked_for_where_it_is_missing(
    make_model: MakeModel, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(UsageError) as raised:
        run_onnxruntime(make_model([], {}), {})
    assert str(raised.value) == "ONNX Runtime is not installed: pip install onnxruntime"


# Files


def test_files_that_are_no_models(tmp_path: Path, make_model: MakeModel):
    text, cut, empty = (tmp_path / name for name in ("text.onnx", "cut.onnx", "e.onnx"))
    text.write_text("this is no model\n")
    model = make_model([node("Relu", "x")], {"x": X})
    cut.write_bytes(model.SerializeToString()[:-7])
    empty.write_bytes(b"")
    for path in (text, cut, empty):
        with pytest.raises(UsageError) as raised:
            read_onnx(path)
        message = str(raised.value)
        assert message.startswith(f"{path} is no ONNX model: ")
        assert "\n" not in message


def test_files_that_cannot_be_read(tmp_path: Path):
    for path, reason in (
        (tmp_path / "gone.onnx", "no such file or directory"),
        (tmp_path, "is a directory"),
    ):
        with pytest.raises(UsageError) as raised:
            read_onnx(path)
        assert str(raised.value) == f"cannot read {path}: {reason}"


def test_shapes_that_a_file_leaves_open_are_those_of_arrays(
    tmp_path: Path,
    make_model: MakeModel,
    evaluate: Evaluate,
    assert_close: AssertClose,
):
    arrays = {"x": X, "c": np.array(0.5, np.float32), "z": X[:1] - 1}
    nodes = [helper.make_node("Add", ["x", "c"], ["h"]), node("Mul", "h", "z")]
    model = make_model(nodes, arrays)
    for value in model.graph.input[:2]:
        value.type.tensor_type.ClearField("shape")
    batch, columns = model.graph.input[2].type.tensor_type.shape.dim
    batch.dim_param, columns.dim_param = "batch", "columns"
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    imported = import_file(path, inputs=arrays, dims={"batch": 1})
    wanted = run_onnxruntime(model, arrays)
    assert_close(evaluate(imported, arrays), wanted)
    with pytest.raises(Rejected) as raised:
        import_file(path, inputs={**arrays, "z": X[0]}, dims={"batch": 1})
    (note,) = raised.value.diagnoses[0].notes
    unknown = "extents 'columns' of its shape are not known (give --dim columns=N)"
    assert note == f"  input 'z': {unknown}"


def test_external_data_is_read_and_missed(
    tmp_path: Path, make_model: MakeModel, evaluate: Evaluate
):
    known = {"w": np.arange(3000, dtype=np.float32).reshape(3, 1000)}
    model = make_model([node("MatMul", "x", "w")], {"x": X}, known=known)
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 1000])
    model.graph.output[0].CopyFrom(result)
    path = tmp_path / "model.onnx"
    convert_model_to_external_data(model, location="data.bin")
    write_external_data_tensors(model, str(tmp_path))
    path.write_bytes(model.SerializeToString())
    np.testing.assert_array_equal(
        evaluate(import_model(read_onnx(path), "model"), {"x": X})["y"], X @ known["w"]
    )
    (tmp_path / "data.bin").unlink()
    start = re.escape(f"cannot read the weights of {path}: ")
    with pytest.raises(UsageError, match=rf"^{start}.*data\.bin"):
        read_onnx(path)
    (tmp_path / "data.bin").write_bytes(bytes(100))
    with pytest.raises(UsageError, match=f"^{start}"):
        read_onnx(path)


def test_what_the_checker_says_of_a_node_is_one_line(
    tmp_path: Path, make_model: MakeModel
):
    path = tmp_path / "model.onnx"
    model = make_model([node("Relu", "nothing")], {"x": X})
    path.write_bytes(model.SerializeToString())
    with pytest.raises(UsageError) as raised:
        read_onnx(path)
    message = str(raised.value)
    assert message.startswith(f"{path} is no ONNX model: Nodes in a graph must be ")
    assert "'nothing'" in message
    assert "is not output of any previous nodes" in message
    assert "\n" not in message
