"""Sessions of models whose shapes are known only when they are run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

from penstock.runtime.errors import PenstockError
from penstock.tools.frontend.onnx.session import OnnxSession

RANDOM = np.random.default_rng(4)
WEIGHTS = RANDOM.normal(size=(6, 8)).astype(np.float32)


def floats(*shape: int) -> NDArray[np.float32]:
    return RANDOM.normal(size=shape).astype(np.float32)


def model() -> ModelProto:
    """Rows times weights, in a shape that is an input, plus one vector for each row."""
    nodes = [
        helper.make_node("Shape", ["x"], ["all"]),
        helper.make_node("Slice", ["all", "zero", "one"], ["rows"]),
        helper.make_node("Concat", ["rows", "rest"], ["flat"], axis=0),
        helper.make_node("Reshape", ["x", "flat"], ["m"]),
        helper.make_node("MatMul", ["m", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["s"]),
        helper.make_node("Reshape", ["s", "shape"], ["y"]),
    ]
    known = {"zero": [0], "one": [1], "rest": [-1]}
    tensors = [numpy_helper.from_array(np.array(v), n) for n, v in known.items()]
    tensors.append(numpy_helper.from_array(WEIGHTS, "w"))
    info = helper.make_tensor_value_info
    inputs = [
        info("x", TensorProto.FLOAT, ["batch", 2, 3]),
        info("b", TensorProto.FLOAT, ["batch", None]),
        info("shape", TensorProto.INT64, [None]),
    ]
    outputs = [info("y", TensorProto.FLOAT, ["n", "m"])]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    opsets = [helper.make_opsetid("", 18)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=9)


def with_data_beside(model: ModelProto, path: Path) -> None:
    """Write a model, and its weights to a file of their own."""
    weights = model.graph.initializer[-1]
    path.with_name("data").write_bytes(bytes(64) + weights.raw_data)
    places = {"location": "data", "offset": 64, "length": len(weights.raw_data)}
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    for key, value in places.items():
        weights.external_data.add(key=key, value=str(value))
    path.write_bytes(model.SerializeToString())


@pytest.fixture
def session() -> Iterator[OnnxSession]:
    with OnnxSession(model(), keep=2) as session:
        yield session


def check(session: OnnxSession, batch: int, shape: list[int]) -> None:
    x, b = floats(batch, 2, 3), floats(batch, 1)
    arrays = session.run({"x": x, "b": b, "shape": np.array(shape)})
    got = np.asarray(arrays["y"], np.float32)
    assert arrays["y"].dtype == np.float32
    wanted = (x.reshape(batch, 6) @ WEIGHTS + b).reshape(shape)
    np.testing.assert_allclose(got, wanted, 1e-4, 1e-5, strict=True)


def test_a_model_is_compiled_once_for_what_shapes_depend_on(
    session: OnnxSession,
) -> None:
    check(session, 4, [2, 16])
    check(session, 4, [2, 16])
    assert session.compiled == 1
    check(session, 4, [8, 4])
    assert session.compiled == 2
    check(session, 4, [2, 16])
    assert session.compiled == 2


def test_what_was_not_used_for_longest_is_let_go(session: OnnxSession) -> None:
    for batch in (1, 2, 3, 2, 1):
        check(session, batch, [batch * 4, 2])
        assert session.compiled <= 2


def test_files_with_data_beside_them(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    with_data_beside(model(), path)
    with OnnxSession(path) as session:
        check(session, 3, [6, 4])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"b": None}, "there is no array for b"),
        ({"c": floats(1)}, "the model has no inputs c"),
        (
            {"x": floats(4, 2)},
            r"input 'x' has 3 axes, got an array of shape \(4, 2\)",
        ),
        (
            {"x": floats(4, 2, 5)},
            "axis 2 of input 'x' should have the extent 3, got 5",
        ),
        (
            {"b": floats(3, 1)},
            "axis 0 of input 'b' should have the extent 'batch' 4, got 3",
        ),
    ],
)
def test_arrays_that_do_not_fit(
    session: OnnxSession,
    changes: dict[str, NDArray[np.float32] | None],
    message: str,
) -> None:
    given = {"x": floats(4, 2, 3), "b": floats(4, 1), "shape": np.array([32])}
    arrays = {n: a for n, a in {**given, **changes}.items() if a is not None}
    with pytest.raises(PenstockError, match=f"^{message}$"):
        session.run(arrays)


def test_threads_are_refused_at_once() -> None:
    with pytest.raises(PenstockError, match=r"^threads must be at least 1, got 0$"):
        OnnxSession(ModelProto(), threads=0)


def test_at_least_one_session_is_kept() -> None:
    message = "^at least one session is kept, got keep=0$"
    with pytest.raises(PenstockError, match=message):
        OnnxSession(model(), keep=0)


def test_inputs_without_names(session: OnnxSession) -> None:
    message = "^inputs are arrays by name, got ndarray$"
    with pytest.raises(PenstockError, match=message):
        session.run(floats(4, 2, 3))  # pyright: ignore[reportArgumentType]


def test_a_closed_session_runs_nothing() -> None:
    given = {"x": floats(4, 2, 3), "b": floats(4, 1), "shape": np.array([32])}
    with OnnxSession(model()) as session:
        session.run(given)
    session.close()
    with pytest.raises(PenstockError, match=r"^the session is closed$"):
        session.run(given)
    assert session.compiled == 0
