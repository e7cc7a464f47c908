"""Random weights: which tensors they replace, and how large activations get."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

from penstock.tools.frontend.onnx.model import (
    import_file,
    import_model,
    read_onnx,
    run_onnxruntime,
)
from penstock.tools.frontend.onnx.random_weights import (
    PIECE,
    Moments,
    with_random_weights,
)

Array: TypeAlias = NDArray[np.generic]
Floats: TypeAlias = NDArray[np.float64]
MakeModel: TypeAlias = Callable[..., ModelProto]
Light: TypeAlias = Callable[[str], Path]

X = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)


def ones(*shape: int) -> Array:
    return np.ones(shape, np.float32)


def drawn(model: ModelProto, seed: int = 1) -> dict[str, Floats]:
    """The initializers of a model after its weights were replaced."""
    return {
        tensor.name: numpy_helper.to_array(tensor).astype(np.float64)
        for tensor in with_random_weights(model, seed).graph.initializer
    }


def normal_rms(values: Mapping[str, Array]) -> dict[str, float]:
    """The root of the mean square of each array."""
    return {
        name: float(np.sqrt(np.mean(np.square(array.astype(np.float64)))))
        for name, array in values.items()
    }


def test_each_role_has_its_distribution(make_model: MakeModel):
    size = 4000
    image = ones(1, 8, 4, 4)
    nodes = [
        helper.make_node("Conv", ["x", "conv/w", "conv/b"], ["c"]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"]),
        helper.make_node("GlobalAveragePool", ["n"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gather", ["table", "rows"], ["t"]),
        helper.make_node("MatMul", ["f", "matrix"], ["p"]),
        helper.make_node("Mul", ["p", "factor"], ["q"]),
        helper.make_node("Add", ["q", "addend"], ["r"]),
        helper.make_node("Concat", ["r", "t"], ["y"], axis=0),
    ]
    vectors = ("conv/b", "s", "b", "m", "v")
    known = {name: ones(size) for name in vectors} | {
        "conv/w": ones(size, 8, 3, 3),
        "matrix": ones(size, 50),
        "table": ones(100, 50),
        "rows": np.array([1, 2]),
        "factor": ones(50, 1).T,
        "addend": ones(1, 50),
    }
    weights = drawn(make_model(nodes, {"x": image}, ["y"], known))
    for name in ("conv/b", "b", "m"):
        assert abs(weights[name].mean()) < 0.01
        assert weights[name].std() == pytest.approx(0.1, rel=0.1)
    for name in ("s", "v", "factor"):
        assert 0.5 <= weights[name].min() < 0.6
        assert 1.4 < weights[name].max() <= 1.5
    assert weights["conv/w"].std() == pytest.approx((8 * 9) ** -0.5, rel=0.02)
    assert weights["matrix"].std() == pytest.approx(size**-0.5, rel=0.02)
    assert weights["table"].std() == pytest.approx(1, rel=0.1)
    assert weights["addend"].std() == pytest.approx(0.1, rel=0.5)
    np.testing.assert_array_equal(weights["rows"], [1, 2])


def test_behind_a_rectifier_matrices_have_the_scale_of_he(make_model: MakeModel):
    nodes = [
        helper.make_node("Gemm", ["x", "a"], ["h"], transB=1),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "b"], ["y"]),
    ]
    known = {"a": ones(200, 8), "b": ones(200, 300)}
    weights = drawn(make_model(nodes, {"x": X}, known=known))
    assert weights["a"].std() == pytest.approx((1 / 8) ** 0.5, rel=0.05)
    assert weights["b"].std() == pytest.approx((2 / 200) ** 0.5, rel=0.02)


def test_behind_a_sum_of_branches_matrices_are_smaller(make_model: MakeModel):
    nodes = [
        helper.make_node("Sum", ["x", "x", "x"], ["s"]),
        helper.make_node("MatMul", ["s", "w"], ["y"]),
    ]
    weights = drawn(make_model(nodes, {"x": X}, known={"w": ones(8, 999)}))
    assert weights["w"].std() == pytest.approx((1 / (8 * 3)) ** 0.5, rel=0.05)


def test_a_matrix_is_seen_through_views(make_model: MakeModel):
    nodes = [
        helper.make_node("Transpose", ["w"], ["t"]),
        helper.make_node("MatMul", ["x", "t"], ["h"]),
        helper.make_node("Unsqueeze", ["b", "axes"], ["u"]),
        helper.make_node("Add", ["h", "u"], ["y"]),
    ]
    known = {"w": ones(999, 8), "b": ones(999), "axes": np.array([0])}
    weights = drawn(make_model(nodes, {"x": X}, known=known))
    assert weights["w"].std() == pytest.approx((1 / 8) ** 0.5, rel=0.05)
    assert weights["b"].std() == pytest.approx(0.1, rel=0.1)


def test_other_tensors_stay(make_model: MakeModel):
    nodes = [
        helper.make_node("Clip", ["x", "low"], ["c"]),
        helper.make_node("Pow", ["c", "powers"], ["p"]),
        helper.make_node("Mul", ["p", "factor"], ["m"]),
        helper.make_node("Gather", ["m", "rows"], ["y"]),
    ]
    known = {
        "low": np.array(0, np.float32),
        "powers": ones(8),
        "factor": ones(1),
        "rows": np.array([0, 1]),
    }
    weights = drawn(make_model(nodes, {"x": X}, known=known))
    for name, array in known.items():
        np.testing.assert_array_equal(weights[name], array)


def test_types_and_shapes_stay(make_model: MakeModel):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    for dtype in (np.float16, np.float32, np.float64):
        known = {"w": np.ones((8, 3), dtype)}
        model = make_model(nodes, {"x": X.astype(dtype)}, known=known)
        (tensor,) = with_random_weights(model, 1).graph.initializer
        got = numpy_helper.to_array(tensor)
        assert (got.dtype, got.shape) == (dtype, (8, 3))


def test_weights_that_nodes_make_become_initializers(make_model: MakeModel):
    value = numpy_helper.from_array(np.array([0.02], np.float32))
    nodes = [
        helper.make_node("ConstantOfShape", ["shape"], ["w"], value=value),
        helper.make_node("ConstantOfShape", ["shape"], ["kept"]),
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Max", ["h", "kept"], ["y"]),
    ]
    known = {"shape": np.array([8, 8])}
    model = make_model(nodes, {"x": X[:, :8]}, known=known)
    model.ir_version = 3
    changed = with_random_weights(model, 1)
    assert [node.output[0] for node in changed.graph.node] == ["kept", "h", "y"]
    assert drawn(model)["w"].shape == (8, 8)
    assert changed.ir_version == 4  # Before, initializers had to be inputs too.


def test_draws_depend_on_the_seed_and_the_name_alone(make_model: MakeModel):
    first = helper.make_node("MatMul", ["x", "a"], ["h"])
    second = helper.make_node("MatMul", ["h", "b"], ["y"])
    known = {"a": ones(8, 8), "b": ones(8, 8)}
    both = make_model([first, second], {"x": X}, known=known)
    alone = make_model([second], {"h": X}, known={"b": known["b"]})
    np.testing.assert_array_equal(drawn(both)["b"], drawn(alone)["b"])
    np.testing.assert_array_equal(drawn(both)["b"], drawn(both)["b"])
    assert not np.array_equal(drawn(both)["a"], drawn(both)["b"])
    assert not np.array_equal(drawn(both, 1)["a"], drawn(both, 2)["a"])


def test_numbers_are_drawn_in_pieces_as_at_once(make_model: MakeModel):
    node = helper.make_node("Gather", ["table", "rows"], ["y"])
    rows, table = np.array([1, 2]), ones(3, PIECE // 2 + 1)
    model = make_model([node], {"rows": rows}, known={"table": table})
    generator = np.random.default_rng([1, zlib.crc32(b"table")])
    wanted = generator.standard_normal(table.shape).astype(np.float32)
    np.testing.assert_array_equal(drawn(model)["table"], wanted)


def test_the_model_that_is_given_stays(make_model: MakeModel):
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    model = make_model([node], {"x": X}, known={"w": ones(8, 8)})
    before = model.SerializeToString()
    with_random_weights(model, 1)
    assert model.SerializeToString() == before


@pytest.mark.parametrize("moments", [(0.0, 1.0), (0.7, 2.0), (-1.0, 0.25), (2.0, 0.0)])
def test_moments_of_a_rectified_normal_value(moments: tuple[float, float]):
    mean, variance = moments
    sample = np.random.default_rng(5).normal(mean, variance**0.5, 200_000)
    sample = np.maximum(sample, 0)
    got = Moments(mean, variance).rectified()
    assert got.mean == pytest.approx(sample.mean(), abs=0.01)
    assert got.variance == pytest.approx(sample.var(), abs=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["squeezenet", "resnet50"])
def test_activations_of_real_models_stay_sane(name: str, light: Light):
    model = with_random_weights(read_onnx(light(name)), 1)
    probed = {"Conv", "BatchNormalization", "Relu", "Sum", "Gemm"}
    values = [node.output[0] for node in model.graph.node if node.op_type in probed]
    (softmax,) = (node for node in model.graph.node if node.op_type == "Softmax")
    asked = [*dict.fromkeys([*values, softmax.input[0]])]
    initializers = {tensor.name for tensor in model.graph.initializer}
    (image,) = (v.name for v in model.graph.input if v.name not in initializers)
    x = np.random.default_rng(2).standard_normal((1, 3, 224, 224)).astype(np.float32)
    imported = import_model(model, name, extra_outputs=asked)
    got = run_onnxruntime(imported.proto, {image: x})
    rms = normal_rms({value: got[value] for value in asked})
    assert min(rms.values()) > 0.5
    assert max(rms.values()) < 20
    spread = got[softmax.input[0]].astype(np.float64).std()
    assert 1 < spread < 10
    probabilities = got[softmax.output[0]].astype(np.float64)
    assert probabilities.max() > 0.02
    assert probabilities.max() > 100 * np.median(probabilities)


def test_as_shipped_the_light_models_prove_nothing(light: Light):
    imported = import_file(light("squeezenet"))
    x = np.random.default_rng(2).standard_normal((1, 3, 224, 224)).astype(np.float32)
    (got,) = run_onnxruntime(imported.proto, {"data_0": x}).values()
    assert got.astype(np.float64).std() < 1e-9


def test_both_sides_have_the_same_weights(light: Light):
    imported = import_file(light("squeezenet"), random_weights=4)
    theirs = {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in imported.proto.graph.initializer
        if tensor.data_type == TensorProto.FLOAT
    }
    assert len(imported.weights) == 52
    for name, array in imported.weights.items():
        np.testing.assert_array_equal(array, theirs[name])
