"""Weights of a model that are equal are one variable under all their names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, helper

from penstock.dialects.job import VariableOp
from penstock.runtime.errors import PenstockError
from penstock.tools.frontend.onnx.model import (
    ImportedModel,
    import_model,
    run_onnxruntime,
)
from penstock.tools.session.session import Model, Session

Array: TypeAlias = NDArray[np.generic]
MakeModel: TypeAlias = Callable[..., ModelProto]
AssertClose: TypeAlias = Callable[..., None]

X = np.random.default_rng(1).standard_normal((2, 4)).astype(np.float32)
W = np.random.default_rng(2).standard_normal((4, 4)).astype(np.float32)
NAN = np.where(np.eye(4) > 0, np.float32(np.nan), W)


def tied(make_model: MakeModel, weights: Mapping[str, Array]) -> ModelProto:
    """A product with each of some weights, one after the other."""
    names = ["x", *(f"h{number}" for number in range(1, len(weights))), "y"]
    steps = zip(names, weights, names[1:], strict=False)
    nodes = [helper.make_node("MatMul", [a, w], [b]) for a, w, b in steps]
    return make_model(nodes, {"x": X}, known=weights)


def names_of(imported: ImportedModel) -> list[list[str]]:
    """The names of each variable."""
    found = [op for op in imported.module.walk() if isinstance(op, VariableOp)]
    assert [op.port.data for op in found] == [*imported.weights]
    return [[op.port.data, *op.other_names] for op in found]


def session_of(imported: ImportedModel, **options: bool) -> Session:
    model = Model(imported.module, imported.weights, Path())
    return Session(model, **options)  # pyright: ignore[reportArgumentType]


def test_arrays_that_are_equal_byte_by_byte_are_one_variable(make_model: MakeModel):
    other = W.copy()
    other[3, 2] += 1
    weights = {"a": W, "b": other, "c": W.copy(), "d": other.copy(), "e": W.copy()}
    model = tied(make_model, weights)
    assert names_of(import_model(model, "m")) == [["a", "c", "e"], ["b", "d"]]
    apart = import_model(model, "m", separate_weights=True)
    assert names_of(apart) == [["a"], ["b"], ["c"], ["d"], ["e"]]


@pytest.mark.parametrize(
    ("one", "other", "names"),
    [
        (NAN, NAN.copy(), [["a", "b"]]),
        # They compare equal, and are not.
        (0 * np.abs(W), -(0 * np.abs(W)), [["a"], ["b"]]),
        (W, W.reshape(2, 2, 4), [["a"], ["b"]]),
    ],
)
def test_bytes_and_shapes_count(
    one: Array, other: Array, names: list[list[str]], make_model: MakeModel
):
    nodes = [helper.make_node("Mul", ["a", "x"], ["u"])]
    nodes.append(helper.make_node("Mul", ["b", "x"], ["v"]))
    weights = {"a": one, "b": other}
    x = np.ones(4, np.float32)
    model = make_model(nodes, {"x": x}, ["u", "v"], weights)
    assert names_of(import_model(model, "m")) == names


@pytest.mark.parametrize("model_jobs", [False, True])
def test_states_have_all_names_and_are_refused_where_they_differ(
    model_jobs: bool, make_model: MakeModel, assert_close: AssertClose, tmp_path: Path
):
    model = tied(make_model, {"a": W, "b": W.copy()})
    wanted = run_onnxruntime(model, {"x": X})
    imported = import_model(model, "m")
    with session_of(imported, model_jobs=model_jobs) as session:
        assert_close(session.run({"x": X}, "graph" if model_jobs else None), wanted)
        state = session.state()
        assert [*state] == ["a", "b"]
        np.testing.assert_array_equal(state["b"], W)
        session.load_state({"a": 2 * W, "b": 2 * W})
        np.testing.assert_array_equal(session.state()["b"], 2 * W)
        session.load_state({"b": W})
        with pytest.raises(PenstockError) as raised:
            session.load_state({"a": W, "b": 3 * W})
        assert str(raised.value) == (
            "variables 'a' and 'b' were equal when the model was read and are one, but "
            "here they differ: compile the model with --separate-weights "
            "(separate_weights=True)"
        )
        np.testing.assert_array_equal(session.state()["a"], W)
        session.save(path := tmp_path / "kept.penstock")
    with Session.open(path) as session:
        assert [*session.state()] == ["a", "b"]
    apart = import_model(model, "m", separate_weights=True)
    with session_of(apart, model_jobs=model_jobs) as session:
        session.load_state({"a": W, "b": 3 * W})
