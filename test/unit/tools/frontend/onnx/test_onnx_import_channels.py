"""Factors and addends of channels in the weights of the convolution before them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, helper
from xdsl.ir import Operation

from penstock.dialects.job import VariableOp
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.windows.convolution import Conv2dOp
from penstock.tools.frontend.onnx.model import (
    ImportedModel,
    import_model,
    run_onnxruntime,
)

Array: TypeAlias = NDArray[np.generic]
Arrays: TypeAlias = Mapping[str, Array]
MakeModel: TypeAlias = Callable[..., ModelProto]
AssertClose: TypeAlias = Callable[..., None]
Evaluate: TypeAlias = Callable[[ImportedModel, Arrays], dict[str, Array]]

STATISTICS = "smtv"
"""The scale, the shift, the mean and the variance of a batch normalisation."""


def arrays(dtype: type[np.floating] = np.float32) -> dict[str, Array]:
    """Images and all that the nodes of this file take, by name."""
    random = np.random.default_rng(12)
    shapes: dict[str, Sequence[int]] = {
        **{"x": (2, 4, 7, 5), "w": (12, 4, 3, 3), "g": (12, 2, 3, 3), "b": (12,)},
        **{name: (12,) for name in STATISTICS},
        **{"f": (1, 12, 1, 1), "a": (12, 1, 1), "n": (1,), "z": (1, 1, 5, 3)},
    }
    made: dict[str, Array] = {
        key: random.normal(size=shape).astype(dtype) for key, shape in shapes.items()
    }
    return made | {"v": np.abs(made["v"]) + dtype(0.5), "q": made["w"].copy()}


def node(
    op: str, operands: str, output: str = "y", **attributes: int | Sequence[int]
) -> NodeProto:
    return helper.make_node(
        op, [*operands], [output], None, None, None, None, **attributes
    )


def imported_of(
    make_model: MakeModel,
    nodes: Sequence[NodeProto],
    outputs: Sequence[str] = ("y",),
    dtype: type[np.floating] = np.float32,
) -> tuple[ImportedModel, Arrays]:
    """A model whose only input is `x`, and that input."""
    known = arrays(dtype)
    given = {"x": known.pop("x")}
    used = {name for each in nodes for name in each.input}
    weights = {name: array for name, array in known.items() if name in used}
    model = make_model(nodes, given, outputs, weights)
    return import_model(model, "model"), given


def op_names(imported: ImportedModel) -> list[str]:
    """The names of the computing ops, in order."""
    return [
        op.name
        for op in imported.module.walk()
        if op.name.startswith("op.") and not isinstance(op, ConstantOp)
    ]


NODES: Mapping[str, Sequence[NodeProto]] = {
    "a batch normalisation": [
        node("Conv", "xw", "c"),
        node("BatchNormalization", f"c{STATISTICS}"),
    ],
    "one after a bias, of groups": [
        node("Conv", "xgb", "c", group=2),
        node("BatchNormalization", f"c{STATISTICS}"),
    ],
    "a factor on the left": [node("Conv", "xwb", "c"), node("Mul", "fc")],
    "an addend on the left": [node("Conv", "xw", "c"), node("Add", "ac")],
    "one number for all": [node("Conv", "xwb", "c"), node("Mul", "cn")],
    "twice": [
        *(node("Conv", "xwb", "c"), node("Mul", "cf", "d")),
        *(node("Add", "da", "e"), node("Mul", "en", "h"), node("Add", "hf")),
    ],
}


@pytest.mark.parametrize("name", NODES)
def test_convolution_takes_over(
    name: str, make_model: MakeModel, evaluate: Evaluate, assert_close: AssertClose
) -> None:
    imported, given = imported_of(make_model, NODES[name])
    assert op_names(imported) == ["op.conv2d"]
    assert_close(evaluate(imported, given), run_onnxruntime(imported.proto, given))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_equal_weights_of_convolutions_stand_before_each(
    order: Sequence[int],
    make_model: MakeModel,
    evaluate: Evaluate,
    assert_close: AssertClose,
) -> None:
    norms = [
        node("BatchNormalization", f"c{STATISTICS}", "e"),
        node("BatchNormalization", f"d{STATISTICS}", "h"),
    ]
    imported, given = imported_of(
        make_model,
        [
            node("Conv", "xw", "c"),
            node("Relu", "x", "r"),
            node("Conv", "rq", "d"),
            *(norms[i] for i in order),
            node("Add", "eh"),
        ],
    )
    place = {op: number for number, op in enumerate(imported.module.walk())}
    for op, number in place.items():
        owners = (operand.owner for operand in op.operands)
        assert all(place[x] < number for x in owners if isinstance(x, Operation))
    assert_close(evaluate(imported, given), run_onnxruntime(imported.proto, given))


def test_nothing_is_left_of_what_was_folded(make_model: MakeModel) -> None:
    imported, _ = imported_of(make_model, NODES["twice"])
    ports = [
        op.port.data for op in imported.module.walk() if isinstance(op, VariableOp)
    ]
    assert sorted(ports) == sorted(imported.weights)
    assert len(ports) == 2
    assert not [op for op in imported.module.walk() if isinstance(op, ConstantOp)]


def test_weights_are_worked_out_with_64_bits(make_model: MakeModel) -> None:
    imported, _ = imported_of(make_model, NODES["a batch normalisation"])
    known = {name: array.astype(np.float64) for name, array in arrays().items()}
    factor = known["s"] / np.sqrt(known["v"] + 1e-5)
    wanted = known["w"] * factor.astype(np.float32).reshape(-1, 1, 1, 1)
    (conv,) = (op for op in imported.module.walk() if isinstance(op, Conv2dOp))
    variable = conv.weights.owner
    assert isinstance(variable, VariableOp)
    found = imported.weights[variable.port.data]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, wanted.astype(np.float32))


KEPT: Mapping[str, tuple[Sequence[NodeProto], Sequence[str]]] = {
    "the result is an output": (
        [node("Conv", "xw", "c"), node("Mul", "cf")],
        ("y", "c"),
    ),
    "the result is used twice": (
        [node("Conv", "xw", "c"), node("Mul", "cf", "d"), node("Add", "dc")],
        ("y",),
    ),
    "weights are used twice": (
        [
            *(node("Conv", "xw", "c"), node("Mul", "cf")),
            node("Conv", "xw", "d", dilations=[2, 1]),
        ],
        ("y", "d"),
    ),
    "a bias is used twice": (
        [
            node("Conv", "xwb", "c"),
            node("Mul", "cf"),
            node("Conv", "xgb", "d", group=2),
        ],
        ("y", "d"),
    ),
    "numbers along lines": ([node("Conv", "xw", "c"), node("Mul", "cz")], ("y",)),
    "nothing is known": (
        [node("Conv", "xw", "c"), node("ReduceMax", "x", "k"), node("Mul", "ck")],
        ("y",),
    ),
    "the result becomes larger": (
        [node("Conv", "xw", "c", strides=[9, 9]), node("Mul", "cz")],
        ("y",),
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_is_left_alone(
    name: str, make_model: MakeModel, evaluate: Evaluate, assert_close: AssertClose
) -> None:
    nodes, outputs = KEPT[name]
    imported, given = imported_of(make_model, nodes, outputs)
    assert len(op_names(imported)) >= len(nodes)
    assert_close(evaluate(imported, given), run_onnxruntime(imported.proto, given))
