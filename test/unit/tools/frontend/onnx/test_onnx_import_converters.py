"""Each op of ONNX that is converted, against ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

from penstock.tools.frontend.onnx.converters import CONVERTERS
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
Attribute: TypeAlias = int | float | str | Sequence[int]

OLDEST, NEWEST = 13, 23

rng = np.random.default_rng(20261121)


def floats(*shape: int, scale: float = 1.0) -> Array:
    """Normal numbers."""
    return np.asarray(rng.normal(0.0, scale, shape), np.float32)


def positive(*shape: int) -> Array:
    """Numbers in 0.5..2."""
    return np.asarray(rng.uniform(0.5, 2, shape), np.float32)


def integers(*shape: int, low: int = -9, high: int = 10) -> Array:
    """Integers of 64 bits."""
    return np.asarray(rng.integers(low, high, shape), np.int64)


def booleans(*shape: int) -> Array:
    """Truth values."""
    return np.asarray(rng.integers(0, 2, shape), np.bool_)


def ints(*values: int) -> Array:
    """A list of integers as an operand."""
    return np.array(values, np.int64)


def half(*shape: int) -> Array:
    """Normal numbers of 16 bits."""
    return floats(*shape).astype(np.float16)


@dataclass
class Case:
    """
    A node: its inputs, of which those that are `known` are initializers, attributes,
    and the versions of the operator set in which it is written so.
    """

    op: str
    inputs: Sequence[Array | None]
    known: Sequence[int] = ()
    outputs: int = 1
    since: int = OLDEST
    until: int = NEWEST
    tolerance: float = 1e-5
    by_reference: bool = False
    """Whether ONNX's own reference computes what ONNX Runtime lacks."""
    attributes: dict[str, Attribute] = field(default_factory=dict[str, Attribute])

    @property
    def opsets(self) -> list[int]:
        """The versions in which the op changed, and the first and last one."""
        changes = {
            schema.since_version
            for schema in onnx.defs.get_all_schemas_with_history()
            if schema.name == self.op and not schema.domain
        }
        first = max(self.since, min(changes))
        return sorted({first, self.until} | (changes & {*range(first, self.until)}))


X4 = floats(2, 4, 7, 6)

CASES: dict[str, Case] = {
    "abs": Case("Abs", [floats(3, 4)]),
    "abs of integers": Case("Abs", [integers(3, 4)]),
    "add": Case("Add", [floats(3, 4), floats(4)]),
    "add a scalar that is known": Case("Add", [floats(3, 4), floats()], [1]),
    "and": Case("And", [booleans(3, 4), booleans(4)]),
    "average pool": Case(
        "AveragePool", [X4], attributes={"kernel_shape": [3, 2], "strides": [2, 1]}
    ),
    "average pool with pads": Case(
        "AveragePool", [X4], attributes={"kernel_shape": [3, 3], "pads": [1, 0, 2, 1]}
    ),
    "average pool that counts pads": Case(
        "AveragePool",
        [X4],
        attributes={
            "kernel_shape": [3, 3],
            "pads": [1, 0, 2, 1],
            "count_include_pad": 1,
        },
    ),
    "average pool in ceil mode": Case(
        "AveragePool",
        [X4],
        attributes={"kernel_shape": [2, 2], "strides": [2, 4], "ceil_mode": 1},
    ),
    "average pool, same upper": Case(
        "AveragePool",
        [X4],
        attributes={
            "kernel_shape": [3, 2],
            "strides": [2, 1],
            "auto_pad": "SAME_UPPER",
        },
    ),
    "batch norm": Case(
        "BatchNormalization",
        [X4, floats(4), floats(4), floats(4), positive(4)],
        attributes={"epsilon": 0.1},
    ),
    "batch norm with weights that are known": Case(
        "BatchNormalization",
        [floats(2, 9), floats(9), floats(9), floats(9), positive(9)],
        [1, 2, 3, 4],
        attributes={"momentum": 0.5},
    ),
    "batch norm of images with weights that are known": Case(
        "BatchNormalization",
        [floats(2, 9, 3, 4), floats(9), floats(9), floats(9), positive(9)],
        [1, 2, 3, 4],
        attributes={"epsilon": 0.1},
    ),
    "cast to integers": Case(
        "Cast", [floats(3, 4, scale=10)], attributes={"to": TensorProto.INT32}
    ),
    "cast to booleans": Case(
        "Cast", [integers(9)], attributes={"to": TensorProto.BOOL}
    ),
    "cast to 16 bits": Case(
        "Cast", [floats(3, 4)], attributes={"to": TensorProto.FLOAT16}
    ),
    "cast of booleans": Case(
        "Cast", [booleans(3, 4)], attributes={"to": TensorProto.DOUBLE}
    ),
    "ceil": Case("Ceil", [floats(3, 4, scale=3)]),
    "clip": Case("Clip", [floats(9), np.array(-0.5, "f"), np.array(0.25, "f")], [1, 2]),
    "clip from below": Case("Clip", [floats(9), np.array(0.1, "f")], [1]),
    "clip from above": Case("Clip", [floats(9), None, np.array(0.1, "f")], [2]),
    "clip by nothing": Case("Clip", [floats(9)]),
    "clip by bounds of run time": Case(
        "Clip", [floats(9), np.array(-0.5, "f"), np.array(0.25, "f")]
    ),
    "clip of integers": Case("Clip", [integers(20), np.array(-2), np.array(3)], [1, 2]),
    "clip where max is below min": Case(
        "Clip", [floats(9), np.array(0.5, "f"), np.array(-0.25, "f")], [1, 2]
    ),
    "concat": Case("Concat", [floats(2, 3), floats(2, 1)], attributes={"axis": 1}),
    "concat along a negative axis": Case(
        "Concat", [floats(2, 3), floats(1, 3), floats(4, 3)], attributes={"axis": -2}
    ),
    "concat of one": Case("Concat", [floats(2, 3)], attributes={"axis": 0}),
    "conv": Case("Conv", [X4, floats(6, 4, 3, 2)]),
    "conv with all attributes": Case(
        "Conv",
        [X4, floats(6, 2, 3, 2), floats(6)],
        [1, 2],
        attributes={
            "kernel_shape": [3, 2],
            "group": 2,
            "strides": [2, 1],
            "dilations": [1, 2],
            "pads": [1, 0, 2, 1],
        },
    ),
    "conv, same upper": Case(
        "Conv",
        [X4, floats(6, 4, 4, 3)],
        attributes={"auto_pad": "SAME_UPPER", "strides": [2, 4]},
    ),
    "conv, same lower": Case(
        "Conv", [X4, floats(6, 4, 4, 3)], attributes={"auto_pad": "SAME_LOWER"}
    ),
    "conv, same lower, dilated": Case(
        "Conv",
        [X4, floats(6, 4, 4, 3)],
        by_reference=True,
        attributes={"auto_pad": "SAME_LOWER", "dilations": [1, 2]},
    ),
    "conv, valid": Case(
        "Conv", [X4, floats(6, 4, 4, 3)], attributes={"auto_pad": "VALID"}
    ),
    "conv of volumes along the first axis": Case(
        "Conv",
        [floats(2, 4, 5, 3, 4), floats(6, 2, 3, 1, 1), floats(6)],
        [1, 2],
        attributes={"group": 2, "strides": [2, 1, 1], "pads": [1, 0, 0, 2, 0, 0]},
    ),
    "conv of volumes along the last axis": Case(
        "Conv",
        [floats(1, 2, 3, 2, 7), floats(4, 2, 1, 1, 3)],
        [1],
        attributes={"dilations": [1, 1, 2], "pads": [0, 0, 1, 0, 0, 0]},
    ),
    "conv of volumes, every second along an axis without taps": Case(
        "Conv",
        [floats(1, 2, 4, 3, 5), floats(3, 2, 2, 1, 1)],
        [1],
        attributes={"strides": [1, 1, 2]},
    ),
    "div": Case("Div", [floats(3, 4), positive(3, 1)]),
    "div of integers": Case("Div", [integers(3, 4), integers(3, 1, low=1)]),
    "dropout": Case("Dropout", [floats(3, 4)]),
    "dropout with a ratio": Case(
        "Dropout", [floats(3, 4), np.array(0.9, "f"), np.array(False)], [1, 2]
    ),
    "equal": Case("Equal", [integers(3, 4), integers(4)]),
    "equal of booleans": Case("Equal", [booleans(3, 4), booleans(4)]),
    "erf": Case("Erf", [floats(3, 4)]),
    "exp": Case("Exp", [floats(3, 4)]),
    "expand": Case("Expand", [floats(3, 1), ints(2, 1, 4)], [1]),
    "expand by an empty shape": Case("Expand", [floats(3, 1), ints()], [1]),
    "flatten": Case("Flatten", [floats(2, 3, 4)]),
    "flatten before the first axis": Case(
        "Flatten", [floats(2, 3, 4)], attributes={"axis": 0}
    ),
    "flatten behind the last axis": Case(
        "Flatten", [floats(2, 3, 4)], attributes={"axis": 3}
    ),
    "flatten at a negative axis": Case(
        "Flatten", [floats(2, 3, 4)], attributes={"axis": -1}
    ),
    "floor": Case("Floor", [floats(3, 4, scale=3)]),
    "gather": Case("Gather", [floats(5, 3), integers(2, 2, low=0, high=5)]),
    "gather by negative indices": Case(
        "Gather", [floats(5, 3), integers(2, 2, low=-3, high=3)], attributes={"axis": 1}
    ),
    "gather by one index": Case(
        "Gather", [floats(5, 3), np.array(-1, np.int32)], [1], attributes={"axis": -1}
    ),
    "gelu": Case("Gelu", [floats(3, 4)], since=20),
    "gelu by tanh": Case(
        "Gelu", [floats(3, 4)], since=20, attributes={"approximate": "tanh"}
    ),
    "gemm": Case("Gemm", [floats(3, 4), floats(4, 5), floats(5)]),
    "gemm without an addend": Case("Gemm", [floats(3, 4), floats(4, 5)]),
    "gemm with all attributes": Case(
        "Gemm",
        [floats(4, 3), floats(5, 4), floats(3, 1)],
        [1, 2],
        attributes={"transA": 1, "transB": 1, "alpha": 0.5, "beta": -2.0},
    ),
    "global average pool": Case("GlobalAveragePool", [X4]),
    "global lp pool": Case("GlobalLpPool", [X4], until=21, attributes={"p": 3}),
    "greater": Case("Greater", [integers(3, 4), integers(4)]),
    "greater or equal": Case("GreaterOrEqual", [integers(3, 4), integers(4)]),
    "identity": Case("Identity", [floats(3, 4)]),
    "layer norm": Case("LayerNormalization", [floats(3, 4), floats(4)]),
    "layer norm with all attributes": Case(
        "LayerNormalization",
        [floats(2, 3, 4), floats(3, 4), floats(3, 4)],
        [1, 2],
        attributes={"axis": 1, "epsilon": 0.1},
    ),
    "layer norm with a scale to broadcast": Case(
        "LayerNormalization",
        [floats(2, 3, 4), floats(4), floats(1, 4)],
        by_reference=True,
        attributes={"axis": -2},
    ),
    "layer norm of 16 bits": Case(
        "LayerNormalization",
        [half(3, 40), half(40), half(40)],
        tolerance=2e-3,
    ),
    "leaky relu": Case("LeakyRelu", [floats(3, 4)]),
    "leaky relu with a slope": Case(
        "LeakyRelu", [floats(3, 4)], attributes={"alpha": 0.3}
    ),
    "less": Case("Less", [integers(3, 4), integers(4)]),
    "less or equal": Case("LessOrEqual", [integers(3, 4), integers(4)]),
    "local response norm": Case("LRN", [X4], attributes={"size": 3}),
    "local response norm with all attributes": Case(
        "LRN",
        [X4],
        attributes={"size": 5, "alpha": 0.5, "beta": 0.6, "bias": 2.0},
    ),
    "local response norm of an even size": Case(
        "LRN",
        [floats(4, 4, 3, 2)],
        by_reference=True,
        attributes={"size": 2, "alpha": 0.5},
    ),
    "local response norm of 16 bits": Case(
        "LRN",
        [half(4, 4, 3, 2)],
        tolerance=1e-3,
        by_reference=True,
        attributes={"size": 3, "alpha": 0.5},
    ),
    "log": Case("Log", [positive(3, 4)]),
    "log softmax": Case("LogSoftmax", [floats(3, 4)], attributes={"axis": 0}),
    "matmul": Case("MatMul", [floats(2, 3, 4), floats(4, 5)]),
    "matmul of a row": Case("MatMul", [floats(4), floats(2, 4, 5)]),
    "matmul by a column": Case("MatMul", [floats(2, 3, 4), floats(4)]),
    "matmul of vectors": Case("MatMul", [floats(4), floats(4)]),
    "max": Case("Max", [floats(3, 4), floats(4), floats(3, 1)]),
    "max of one": Case("Max", [floats(3, 4)]),
    "max of two, integers": Case("Max", [integers(3, 4), integers(4)]),
    "max pool": Case("MaxPool", [X4], attributes={"kernel_shape": [2, 3]}),
    "max pool with all attributes": Case(
        "MaxPool",
        [X4],
        attributes={
            "kernel_shape": [3, 3],
            "strides": [2, 1],
            "dilations": [1, 2],
            "pads": [1, 2, 1, 0],
        },
    ),
    "max pool in ceil mode": Case(
        "MaxPool",
        [X4],
        attributes={"kernel_shape": [2, 2], "strides": [2, 3], "ceil_mode": 1},
    ),
    "max pool, same lower": Case(
        "MaxPool",
        [X4],
        attributes={"kernel_shape": [4, 2], "auto_pad": "SAME_LOWER"},
    ),
    "max pool, valid": Case(
        "MaxPool",
        [X4],
        attributes={"kernel_shape": [2, 2], "strides": [2, 2], "auto_pad": "VALID"},
    ),
    "min": Case("Min", [floats(3, 4), floats(4), floats(3, 1)]),
    "min of one": Case("Min", [floats(3, 4)]),
    "mul": Case("Mul", [floats(3, 4), floats(3, 1)]),
    "neg": Case("Neg", [floats(3, 4)]),
    "not": Case("Not", [booleans(3, 4)]),
    "or": Case("Or", [booleans(3, 4), booleans(4)]),
    "pad": Case("Pad", [floats(2, 3), ints(1, 0, 2, 3)], [1]),
    "pad by a value": Case(
        "Pad", [floats(2, 3), ints(1, 0, 2, 3), np.array(-1.5, "f")], [1, 2]
    ),
    "pad by elements": Case(
        "Pad", [floats(4, 3), ints(1, 2, 3, 1)], [1], attributes={"mode": "reflect"}
    ),
    "pad by edges": Case(
        "Pad", [floats(4, 3), ints(0, 2, 3, 1)], [1], attributes={"mode": "edge"}
    ),
    "pad by less than nothing": Case("Pad", [floats(4, 5), ints(1, -2, -3, 1)], [1]),
    "pad some axes": Case(
        "Pad", [floats(2, 3, 4), ints(1, 0, 2, 3), None, ints(-1, 0)], [1, 3], since=18
    ),
    "pow": Case("Pow", [positive(3, 4), floats(4)]),
    "pow by integers": Case("Pow", [floats(3, 4), np.array(3)], [1]),
    "pow of integers": Case("Pow", [integers(3, 4), integers(4, low=0, high=5)]),
    "pow of integers by floats": Case(
        "Pow", [integers(9, low=0), np.array(0.5, "f")], [1]
    ),
    "reciprocal": Case("Reciprocal", [positive(3, 4)]),
    "reduce by max": Case(
        "ReduceMax", [floats(2, 3, 4)], until=17, attributes={"axes": [-1, 0]}
    ),
    "reduce by max, axes given": Case(
        "ReduceMax", [floats(2, 3, 4), ints(-1, 0)], [1], since=18
    ),
    "reduce by mean": Case(
        "ReduceMean",
        [floats(2, 3, 4)],
        until=17,
        attributes={"axes": [1], "keepdims": 0},
    ),
    "reduce by mean, all axes": Case("ReduceMean", [floats(2, 3, 4)]),
    "reduce by min": Case("ReduceMin", [floats(2, 3, 4)], attributes={"keepdims": 0}),
    "reduce by product": Case("ReduceProd", [floats(2, 3, 4), ints(2)], [1], since=18),
    "reduce by sum": Case(
        "ReduceSum", [floats(2, 3, 4), ints(1, 2)], [1], attributes={"keepdims": 0}
    ),
    "reduce by sum, no axes": Case("ReduceSum", [integers(2, 3), ints()], [1]),
    "reduce by sum, no axes, nothing to do": Case(
        "ReduceSum", [floats(2, 3), ints()], [1], attributes={"noop_with_empty_axes": 1}
    ),
    "relu": Case("Relu", [floats(3, 4)]),
    "reshape": Case("Reshape", [floats(2, 6), ints(3, -1)], [1]),
    "reshape that keeps an extent": Case("Reshape", [floats(2, 6, 2), ints(4, 0)], [1]),
    "reshape to no elements": Case(
        "Reshape",
        [floats(0, 6), ints(3, 0)],
        [1],
        since=14,
        attributes={"allowzero": 1},
    ),
    "shape": Case("Shape", [floats(2, 3, 4)]),
    "shape of some axes": Case(
        "Shape", [floats(2, 3, 4, 5)], since=15, attributes={"start": -3, "end": -1}
    ),
    "sigmoid": Case("Sigmoid", [floats(3, 4)]),
    "slice": Case("Slice", [floats(5, 6), ints(1, -4), ints(3, 99)], [1, 2]),
    "slice some axes by steps": Case(
        "Slice",
        [floats(5, 6, 7), ints(4, 0), ints(-99, 6), ints(-1, 0), ints(-2, 3)],
        [1, 2, 3, 4],
    ),
    "slice backwards from behind the end": Case(
        "Slice",
        [floats(5), ints(99), ints(np.iinfo(np.int64).min), ints(0), ints(-1)],
        [1, 2, 3, 4],
    ),
    "slice backwards from before the start": Case(
        "Slice", [floats(5), ints(-99), ints(-100), ints(0), ints(-1)], [1, 2, 3, 4]
    ),
    "slice to the last but one": Case("Slice", [floats(5), ints(0), ints(-1)], [1, 2]),
    "slice of nothing": Case("Slice", [floats(5), ints(3), ints(1)], [1, 2]),
    "softmax": Case("Softmax", [floats(3, 4)]),
    "softmax along an axis": Case("Softmax", [X4], attributes={"axis": 1}),
    "split": Case("Split", [floats(2, 6)], outputs=2, until=17),
    "split in sizes": Case(
        "Split", [floats(2, 6), ints(1, 3, 2)], [1], outputs=3, attributes={"axis": -1}
    ),
    "split in parts": Case(
        "Split",
        [floats(7, 2)],
        outputs=3,
        since=18,
        attributes={"num_outputs": 3},
    ),
    "sqrt": Case("Sqrt", [positive(3, 4)]),
    "squeeze": Case("Squeeze", [floats(1, 3, 1, 4), ints(-2)], [1]),
    "squeeze all": Case("Squeeze", [floats(1, 3, 1, 4)]),
    "sub": Case("Sub", [floats(3, 4), floats(3, 1)]),
    "sum": Case("Sum", [floats(3, 4), floats(4), floats(3, 1)]),
    "sum of one": Case("Sum", [floats(3, 4)]),
    "tanh": Case("Tanh", [floats(3, 4)]),
    "transpose": Case("Transpose", [floats(2, 3, 4)]),
    "transpose by an order": Case(
        "Transpose", [floats(2, 3, 4)], attributes={"perm": [1, 2, 0]}
    ),
    "unsqueeze": Case("Unsqueeze", [floats(3, 4), ints(-1, 0)], [1]),
    "upper triangle from the least diagonal": Case(
        "Trilu", [floats(3, 4), np.array(-(2**63))], [1]
    ),
    "where": Case("Where", [booleans(3, 1), floats(4), floats(3, 4)]),
    "where a scalar is known": Case(
        "Where", [booleans(3, 4), floats(3, 4), np.array(-1e9, "f")], [2]
    ),
    "xor": Case("Xor", [booleans(3, 4), booleans(4)]),
}


WITH_A_BODY = {
    "celu": Case("Celu", [floats(3, 4)], attributes={"alpha": 0.7}),
    "elu": Case("Elu", [floats(3, 4)], attributes={"alpha": 0.7}),
    "hard sigmoid": Case("HardSigmoid", [floats(3, 4)], attributes={"alpha": 0.4}),
    "hard swish": Case("HardSwish", [floats(3, 4)]),
    "selu": Case("Selu", [floats(3, 4)]),
    "shrink": Case("Shrink", [floats(3, 4)], attributes={"bias": 0.1}),
    "softsign": Case("Softsign", [floats(3, 4)]),
    "thresholded relu": Case(
        "ThresholdedRelu", [floats(3, 4)], attributes={"alpha": 0.2}
    ),
}
"""Ops that are read by what ONNX defines them by, some by a body of a later version."""


def test_all_cases_are_of_ops_that_are_converted():
    """Those of the other ops are ONNX's own (`test_onnx_nodes.py`)."""
    assert {case.op for case in CASES.values()} <= set(CONVERTERS)
    assert not {case.op for case in WITH_A_BODY.values()} & set(CONVERTERS)


@pytest.mark.parametrize(
    "case", [pytest.param(c, id=n) for n, c in {**CASES, **WITH_A_BODY}.items()]
)
def test_op_is_what_onnx_runtime_computes(
    case: Case, make_model: MakeModel, evaluate: Evaluate, assert_close: AssertClose
):
    names = [f"x{i}" if a is not None else "" for i, a in enumerate(case.inputs)]
    arrays = {
        name: array
        for name, array in zip(names, case.inputs, strict=True)
        if array is not None
    }
    known = {names[index]: arrays.pop(names[index]) for index in case.known}
    outputs = [f"y{index}" for index in range(case.outputs)]
    node = helper.make_node(case.op, names, outputs)
    node.attribute.extend(
        helper.make_attribute(name, value) for name, value in case.attributes.items()
    )
    assert case.opsets
    for opset in case.opsets:
        model = make_model([node], arrays, outputs, known, opset)
        got = evaluate(import_model(model, case.op), arrays)
        compute = reference if case.by_reference else run_onnxruntime
        assert_close(got, compute(model, arrays), case.tolerance)


def reference(model: ModelProto, inputs: Arrays) -> dict[str, Array]:
    """The outputs of a model, computed by ONNX's own reference."""
    names = [output.name for output in model.graph.output]
    results: list[Array] = ReferenceEvaluator(model).run(None, dict(inputs))  # pyright: ignore[reportUnknownMemberType, reportAssignmentType]
    return dict(zip(names, results, strict=True))
