"""
The ops that do most of the work: matrix products, convolutions, pooling, normalisation
and reductions.

`evaluate` is compared with ONNX Runtime, which shares no code with it, or with a plain
formula in float64. Kernels are compared with `evaluate`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import inf, log, prod, sqrt
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import onnx
import onnxruntime
import pytest
from draws import draws
from kernel_runs import run_source
from numpy.typing import NDArray
from scipy import special
from xdsl.dialects import scf
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    FloatAttr,
    IntegerAttr,
    TensorType,
    UnitAttr,
    f32,
    f64,
    i64,
)
from xdsl.dialects.linalg.ops import GenericOp
from xdsl.ir import Attribute, Block

from penstock.dialects.kernel import RowOp
from penstock.dialects.kernel.builder import kernel_body
from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.reference import loops_of
from penstock.dialects.kernel.windows import Window
from penstock.dialects.launch import KernelOp
from penstock.dialects.op import (
    AveragePool2dOp,
    BatchNormOp,
    Conv2dOp,
    GemmOp,
    GlobalAveragePoolOp,
    LayerNormOp,
    LogSoftmaxOp,
    MatmulOp,
    MaxPool2dOp,
    ReduceMaxOp,
    ReduceMeanOp,
    ReduceMinOp,
    ReduceProdOp,
    ReduceSumOp,
    SoftmaxOp,
)
from penstock.dialects.op.axes import int_list
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp
from penstock.dialects.utils.numpy_types import element_type_of
from penstock.lowering.codegen.body.epilogue import stages_of
from penstock.lowering.codegen.target import kernel_source

Array: TypeAlias = NDArray[Any]
RunOp: TypeAlias = Callable[..., list[Array]]
Property: TypeAlias = bool | int | float | Sequence[int]


class Case(NamedTuple):
    """An op with its properties in terms of Python, and what it is run on."""

    cls: type[TensorOp]
    shapes: Sequence[Sequence[int]]
    properties: Mapping[str, Property] = {}
    dtype: str = "float32"
    terms: int = 1
    """The number of terms of the sums in the results."""

    def __str__(self) -> str:
        shapes = "_".join("x".join(map(str, shape)) for shape in self.shapes)
        properties = "_".join(f"{k}={v}" for k, v in self.properties.items())
        return f"{self.cls.name}-{shapes}-{properties}-{self.dtype}"

    def arrays(self, seed: int = 0) -> list[Array]:
        """Random operands: floats around zero, or all integers."""
        return [
            random(shape, self.dtype, seed + i) for i, shape in enumerate(self.shapes)
        ]

    def op(self, *arrays: Array) -> TensorOp:
        """The op on operands of the types of the arrays."""
        return op_on(self.cls, self.properties, *arrays)


def random(shape: Sequence[int], dtype: str, seed: int) -> Array:
    """Random numbers: floats around zero, or all integers."""
    rng = np.random.default_rng([seed, *shape])
    kind = np.dtype(dtype)
    if kind.kind == "f":
        return rng.standard_normal(shape).astype(kind)
    if kind.kind == "b":
        return rng.random(shape) < 0.5
    limits = np.iinfo(kind)
    numbers = rng.integers(limits.min, limits.max, shape, np.int64, endpoint=True)
    return numbers.astype(kind)


def zeros(*shapes: Sequence[int]) -> list[Array]:
    """Operands of these shapes."""
    return [np.zeros(shape, "float32") for shape in shapes]


def attribute(value: Property) -> Attribute | None:
    """A property; None for a flag that is not set."""
    if isinstance(value, bool):
        return UnitAttr() if value else None
    if isinstance(value, int):
        return IntegerAttr(value, i64)
    if isinstance(value, float):
        return FloatAttr(value, f64)
    return int_list(value)


def op_on(
    cls: type[TensorOp], properties: Mapping[str, Property], *arrays: Array
) -> TensorOp:
    """An op on operands of the types of the arrays."""
    types = [TensorType(element_type_of(a.dtype), a.shape) for a in arrays]
    op = cls.inferred(
        Block(arg_types=types).args,
        {name: attribute(value) for name, value in properties.items()},
    )
    op.verify()
    return op


def evaluate(case: Case, *arrays: Array) -> Array:
    """The result in terms of NumPy, which has to be of the inferred type."""
    op = case.op(*arrays)
    (result,) = op.evaluate(*arrays)
    wanted = TensorType(element_type_of(result.dtype), result.shape)
    assert op.results[0].type == wanted
    return result


def run_onnx(name: str, arrays: Sequence[Array], **attributes: Property | str) -> Array:
    """The result of an op of ONNX, as ONNX Runtime has it."""
    flags = {k: int(v) if isinstance(v, bool) else v for k, v in attributes.items()}
    names = [f"x{index}" for index in range(len(arrays))]
    node = onnx.helper.make_node(name, names, ["y"])
    node.attribute.extend(onnx.helper.make_attribute(k, v) for k, v in flags.items())
    inputs = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for name, array in zip(names, arrays, strict=True)
    ]
    output = onnx.helper.make_value_info("y", onnx.TypeProto())
    graph = onnx.helper.make_graph([node], "graph", inputs, [output])
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 19)], ir_version=9
    )
    session: Any = onnxruntime.InferenceSession(model.SerializeToString())
    results: list[Array] = session.run(None, dict(zip(names, arrays, strict=True)))
    return results[0]


def assert_close(actual: Array, expected: Array, terms: int = 1) -> None:
    """
    Compare floats that are made of sums with so many terms, and all else exactly.

    Each partial sum of random terms is about as large as the result, and is rounded by
    half an epsilon; such errors add up like a random walk. So the error is about the
    square root of the number of terms, in epsilons of the largest result; 8 times that
    is allowed, for orders of summation, functions and reciprocals that differ.
    """
    assert actual.dtype == expected.dtype
    if actual.dtype.kind != "f" or expected.size == 0:
        np.testing.assert_array_equal(actual, expected)
        return
    error = 8 * sqrt(terms) * float(np.finfo(expected.dtype).eps)
    finite = np.abs(expected[np.isfinite(expected)])
    largest = float(np.max(finite, initial=0))
    np.testing.assert_allclose(actual, expected, rtol=error, atol=error * largest)


def kernels(cases: Sequence[Case], fast: int) -> Sequence[object]:
    """Cases to compile: the first ones always, the others where there is time."""
    return [
        pytest.param(case, marks=() if index < fast else pytest.mark.slow, id=str(case))
        for index, case in enumerate(cases)
    ]


def check_kernel(case: Case, run_op: RunOp) -> None:
    """Compare the kernel of an op with its meaning in NumPy."""
    arrays = case.arrays()
    (result,) = run_op(case.op(*arrays), *arrays)
    assert_close(result, evaluate(case, *arrays), case.terms)


################################################################################
# Matrix products                                                              #
################################################################################

MATMULS = [
    Case(MatmulOp, [(5, 7), (7, 3)], terms=7),
    Case(MatmulOp, [(1, 1), (1, 1)]),
    Case(MatmulOp, [(7, 5), (7, 3)], {"transpose_a": True}, terms=7),
    Case(MatmulOp, [(5, 7), (3, 7)], {"transpose_b": True}, terms=7),
    Case(
        MatmulOp,
        [(2, 7, 5), (3, 7)],
        {"transpose_a": True, "transpose_b": True},
        terms=7,
    ),
    Case(MatmulOp, [(4, 1, 5, 7), (3, 7, 2)], terms=7),
    Case(MatmulOp, [(7,), (7,)], terms=7),
    Case(MatmulOp, [(7,), (2, 7, 3)], terms=7),
    Case(MatmulOp, [(2, 3, 7), (7,)], terms=7),
    Case(MatmulOp, [(7,), (2, 3, 7)], {"transpose_b": True}, terms=7),
    Case(MatmulOp, [(5, 0), (0, 3)]),
    Case(MatmulOp, [(0, 5), (5, 3)]),
    Case(MatmulOp, [(5, 300), (300, 4)], terms=300),
    Case(MatmulOp, [(5, 7), (7, 3)], dtype="float64", terms=7),
    Case(MatmulOp, [(5, 7), (7, 3)], dtype="int32"),
    Case(MatmulOp, [(5, 7), (7, 3)], dtype="int8"),
]


def matmul_formula(case: Case, a: Array, b: Array) -> Array:
    """A product by `einsum`, in float64 for floats."""
    if a.ndim > 1:
        left = "...ki" if case.properties.get("transpose_a") else "...ik"
    else:
        left = "k"
    if b.ndim > 1:
        right = "...jk" if case.properties.get("transpose_b") else "...kj"
    else:
        right = "k"
    result = "..." + "i" * (a.ndim > 1) + "j" * (b.ndim > 1)
    wide = "float64" if a.dtype.kind == "f" else a.dtype
    product = np.einsum(f"{left},{right}->{result}", a.astype(wide), b.astype(wide))
    return np.asarray(product).astype(a.dtype)


@pytest.mark.parametrize("case", MATMULS, ids=str)
def test_matmul(case: Case):
    arrays = case.arrays()
    expected = matmul_formula(case, *arrays)
    assert_close(evaluate(case, *arrays), expected, case.terms)


@pytest.mark.parametrize("case", kernels(MATMULS, 8))
def test_matmul_kernel(case: Case, run_op: RunOp):
    check_kernel(case, run_op)


def gemm(
    a: Sequence[int], b: Sequence[int], c: Sequence[int] | None, **properties: Property
) -> Case:
    shapes = [a, b] if c is None else [a, b, c]
    return Case(GemmOp, shapes, properties, terms=7)


GEMMS = [
    gemm((5, 7), (7, 3), None),
    gemm((5, 7), (7, 3), (3,)),
    gemm((7, 5), (3, 7), (5, 3), transpose_a=True, transpose_b=True),
    gemm((5, 7), (7, 3), (5, 1), beta=0.5),
    gemm((5, 7), (3, 7), (1,), alpha=0.5, transpose_b=True),
    gemm((7, 5), (7, 3), (), alpha=2.0, beta=-1.0, transpose_a=True),
    gemm((5, 7), (7, 3), None, alpha=0.25),
]


@pytest.mark.parametrize("case", GEMMS, ids=str)
def test_gemm(case: Case):
    arrays = case.arrays()
    onnx_names = {"transpose_a": "transA", "transpose_b": "transB"}
    attributes = {onnx_names.get(k, k): v for k, v in case.properties.items()}
    expected = run_onnx("Gemm", arrays, **attributes)
    assert_close(evaluate(case, *arrays), expected, case.terms)


@pytest.mark.parametrize("case", kernels(GEMMS, 5))
def test_gemm_kernel(case: Case, run_op: RunOp):
    check_kernel(case, run_op)


def test_gemm_of_integers(run_op: RunOp):
    """Integers wrap, and take whole factors."""
    case = gemm((5, 7), (7, 3), (3,), alpha=3.0, beta=-2.0)._replace(dtype="int32")
    a, b, c = case.arrays()
    expected = np.int32(3) * np.einsum("ik,kj->ij", a, b) + np.int32(-2) * c
    assert_close(evaluate(case, a, b, c), expected)
    check_kernel(case, run_op)


################################################################################
# Convolution                                                                  #
################################################################################


def conv(
    x: Sequence[int], w: Sequence[int], bias: bool = True, **properties: Property
) -> Case:
    """A convolution; as a sum it has one term for each weight of a channel."""
    shapes = [x, w, w[:1]] if bias else [x, w]
    return Case(Conv2dOp, shapes, properties, terms=prod(w[1:]))


CONVOLUTIONS = [
    conv((2, 3, 6, 7), (4, 3, 3, 2)),
    conv((1, 1, 1, 1), (1, 1, 1, 1), bias=False),
    conv((2, 3, 5, 4), (4, 3, 1, 1), bias=False),
    conv((1, 3, 9, 8), (2, 3, 3, 3), strides=[2, 3]),
    conv((1, 2, 9, 8), (2, 2, 3, 2), dilations=[2, 3], bias=False),
    conv((1, 4, 6, 6), (6, 2, 3, 3), groups=2),
    conv((2, 3, 6, 6), (3, 1, 3, 3), groups=3, strides=[2, 1], bias=False),
    conv((1, 3, 6, 7), (2, 3, 3, 3), pads=[1, 1, 1, 1]),
    conv((1, 3, 6, 7), (2, 3, 3, 4), pads=[2, 0, 1, 3], strides=[2, 2], bias=False),
    conv(
        (2, 4, 5, 6),
        (6, 2, 3, 2),
        pads=[3, 2, 0, 4],
        strides=[1, 2],
        dilations=[3, 2],
        groups=2,
    ),
    conv((1, 2, 1, 2), (3, 2, 3, 5), pads=[1, 2, 1, 2]),
    conv((1, 1, 1, 1), (1, 1, 2, 2), pads=[3, 3, 3, 3], dilations=[2, 2]),
    conv((0, 4, 3, 3), (2, 2, 2, 2), groups=2),
    conv((2, 3, 9, 37), (3, 1, 3, 3), groups=3, pads=[1, 1, 1, 1], bias=False),
    conv((1, 2, 9, 41), (6, 1, 3, 3), groups=2, pads=[1, 0, 2, 1], strides=[2, 2]),
    conv((1, 2, 7, 30), (2, 1, 2, 5), groups=2, pads=[3, 2, 2, 2], dilations=[2, 1]),
    conv((1, 2, 6, 8), (2, 1, 3, 3), groups=2, pads=[1, 1, 1, 1]),
]


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_conv2d(case: Case):
    arrays = case.arrays()
    onnx_names = {"groups": "group"}
    attributes = {onnx_names.get(k, k): v for k, v in case.properties.items()}
    expected = run_onnx("Conv", arrays, **attributes)
    assert_close(evaluate(case, *arrays), expected, case.terms)


@pytest.mark.parametrize("seed", range(draws(33)))
def test_conv2d_of_random_shape(seed: int):
    rng = np.random.default_rng(seed)
    groups, channels, outputs, *taps = (int(n) for n in rng.integers(1, 4, 5))
    strides, dilations = rng.integers(1, 4, 2).tolist(), rng.integers(1, 3, 2).tolist()
    pads = rng.integers(0, 3, 4).tolist()
    extents = rng.integers(5, 12, 2).tolist()
    case = conv(
        (2, groups * channels, *extents),
        (groups * outputs, channels, *taps),
        strides=strides,
        dilations=dilations,
        pads=pads,
        groups=groups,
    )
    arrays = case.arrays(seed)
    expected = run_onnx(
        "Conv", arrays, strides=strides, dilations=dilations, pads=pads, group=groups
    )
    assert_close(evaluate(case, *arrays), expected, case.terms)


@pytest.mark.parametrize("case", kernels(CONVOLUTIONS, 8))
def test_conv2d_kernel(case: Case, run_op: RunOp):
    check_kernel(case, run_op)


LAST = [
    (conv((2, 5, 4, 6), (7, 5, 1, 1)), (True, True)),
    (conv((1, 4, 6, 5), (6, 2, 3, 2), groups=2, pads=[1, 0, 2, 1]), (True, True)),
    (conv((1, 3, 6, 5), (3, 1, 3, 3), groups=3, strides=[1, 2]), (False, True)),
]


@pytest.mark.parametrize(("case", "last"), LAST, ids=str)
def test_conv2d_with_channels_last(case: Case, last: tuple[bool, bool], run_op: RunOp):
    """Channels that are last make no difference but where they are."""
    x, *others = case.arrays()
    names = {"groups": "group"}
    attributes = {names.get(k, k): v for k, v in case.properties.items()}
    expected = run_onnx("Conv", [x, *others], **attributes)
    x = np.ascontiguousarray(np.moveaxis(x, 1, -1)) if last[0] else x
    expected = np.moveaxis(expected, 1, -1) if last[1] else expected
    flags = {"input_last": last[0], "result_last": last[1]}
    shapes = [array.shape for array in (x, *others)]
    moved = Case(Conv2dOp, shapes, {**case.properties, **flags}, terms=case.terms)
    assert_close(evaluate(moved, x, *others), expected, case.terms)
    (result,) = run_op(moved.op(x, *others), x, *others)
    assert_close(result, expected, case.terms)
    assert moved.op(x, *others).flops() == case.op(*case.arrays()).flops()


@pytest.mark.parametrize(
    ("case", "is_depthwise"),
    [
        (conv((1, 2, 4, 4), (3, 2, 3, 3), bias=False), False),
        (conv((1, 2, 4, 4), (3, 2, 3, 3)), False),
        (conv((1, 2, 4, 4), (2, 1, 3, 3), groups=2), True),
        (conv((1, 2, 15, 15), (2, 1, 15, 15), groups=2), True),
        (conv((1, 2, 4, 9), (2, 1, 3, 3), groups=2), True),
        (conv((1, 2, 4, 9), (4, 1, 3, 3), groups=2), True),
        (conv((1, 2, 4, 4), (3, 2, 3, 3), pads=[0, 0, 0, 1]), False),
    ],
)
def test_conv2d_stage(case: Case, is_depthwise: bool):
    """All sums are one contraction, whose loops have no condition."""
    body = kernel_body(case.op(*zeros(*case.shapes)))
    (op,) = stages_of(body.block)
    assert isinstance(op, ContractOp)
    assert (op.depthwise() is not None) is is_depthwise
    assert not any(isinstance(inner, scf.IfOp) for inner in loops_of(op).walk())


def test_conv2d_of_integers(run_op: RunOp):
    """Sums of integers wrap, so that all orders of summation give the same."""
    case = conv((1, 2, 4, 4), (3, 2, 2, 2), pads=[1, 0, 1, 0])._replace(dtype="int32")
    x, w, b = case.arrays()
    padded = np.pad(x, [(0, 0), (0, 0), (1, 1), (0, 0)])
    expected = np.tile(b[:, None, None], (1, 1, 5, 3))
    for i, j in np.ndindex(5, 3):
        products = padded[0, :, i : i + 2, j : j + 2] * w
        expected[0, :, i, j] += products.sum(axis=(1, 2, 3), dtype=np.int32)
    assert_close(evaluate(case, x, w, b), expected)
    check_kernel(case, run_op)


################################################################################
# Pooling                                                                      #
################################################################################


def max_pool(x: Sequence[int], **properties: Property) -> Case:
    return Case(MaxPool2dOp, [x], properties)


def average_pool(x: Sequence[int], **properties: Property) -> Case:
    return Case(AveragePool2dOp, [x], properties, terms=9)


MAX_POOLS = [
    max_pool((2, 3, 6, 7), kernel=[2, 3]),
    max_pool((1, 1, 1, 1), kernel=[1, 1]),
    max_pool((1, 2, 9, 8), kernel=[3, 3], strides=[2, 2], pads=[1, 0, 2, 1]),
    max_pool((1, 2, 8, 9), kernel=[3, 2], strides=[2, 3], ceil_mode=True),
    max_pool((1, 2, 9, 8), kernel=[3, 2], dilations=[2, 3], pads=[1, 1, 1, 1]),
    max_pool((1, 2, 3, 3), kernel=[1, 1], strides=[3, 2], ceil_mode=True),
    max_pool((1, 3, 19, 37), kernel=[3, 3], strides=[1, 1], pads=[1, 1, 1, 1]),
    max_pool((1, 2, 11, 75), kernel=[3, 3], strides=[2, 2], ceil_mode=True),
    max_pool((1, 2, 7, 81), kernel=[2, 5], strides=[3, 3], pads=[1, 2, 0, 4]),
    max_pool((2, 1, 7, 90), kernel=[2, 2], strides=[1, 5]),
]

AVERAGE_POOLS = [
    average_pool((2, 3, 6, 7), kernel=[2, 3]),
    average_pool((1, 1, 1, 1), kernel=[1, 1]),
    average_pool((1, 2, 9, 8), kernel=[3, 3], strides=[2, 2], pads=[1, 0, 2, 1]),
    average_pool(
        (1, 2, 9, 8),
        kernel=[3, 3],
        strides=[2, 2],
        pads=[1, 0, 2, 1],
        count_include_pad=True,
    ),
    average_pool((1, 2, 8, 9), kernel=[3, 2], strides=[2, 3], ceil_mode=True),
    average_pool((1, 3, 19, 37), kernel=[3, 3], pads=[1, 1, 1, 1]),
    average_pool((1, 2, 11, 75), kernel=[3, 3], strides=[2, 2], ceil_mode=True),
    average_pool(
        (1, 2, 8, 9),
        kernel=[3, 3],
        strides=[2, 3],
        pads=[0, 1, 0, 1],
        ceil_mode=True,
        count_include_pad=True,
    ),
]

ONNX_POOLS = {MaxPool2dOp: "MaxPool", AveragePool2dOp: "AveragePool"}


def run_onnx_pool(case: Case, arrays: Sequence[Array]) -> Array:
    attributes = dict(case.properties)
    attributes["kernel_shape"] = attributes.pop("kernel")
    (name,) = (name for cls, name in ONNX_POOLS.items() if case.cls is cls)
    return run_onnx(name, arrays, **attributes)


@pytest.mark.parametrize("case", MAX_POOLS + AVERAGE_POOLS, ids=str)
def test_pool(case: Case):
    arrays = case.arrays()
    expected = run_onnx_pool(case, arrays)
    assert_close(evaluate(case, *arrays), expected, case.terms)


@pytest.mark.parametrize("cls", ONNX_POOLS)
@pytest.mark.parametrize("seed", range(draws(20)))
def test_pool_of_random_shape(cls: type[TensorOp], seed: int):
    rng = np.random.default_rng(seed)
    kernel: list[int] = rng.integers(1, 5, 2).tolist()
    properties: dict[str, Property] = {
        "kernel": kernel,
        "strides": rng.integers(1, 4, 2).tolist(),
        "pads": [int(rng.integers(0, taps)) for taps in kernel * 2],
        "ceil_mode": bool(rng.integers(2)),
    }
    if cls is MaxPool2dOp:
        properties["dilations"] = rng.integers(1, 3, 2).tolist()
    else:
        properties["count_include_pad"] = bool(rng.integers(2))
    shape = [2, 2, *rng.integers(7, 14, 2).tolist()]
    case = Case(cls, [shape], properties, terms=prod(kernel))
    arrays = case.arrays(seed)
    expected = run_onnx_pool(case, arrays)
    assert_close(evaluate(case, *arrays), expected, case.terms)


@pytest.mark.parametrize("case", kernels([*MAX_POOLS[2:], *AVERAGE_POOLS[2:]], 8))
def test_pool_kernel(case: Case, run_op: RunOp):
    check_kernel(case, run_op)


@pytest.mark.parametrize("dtype", ["int8", "bool"])
def test_max_pool_of_other_elements(dtype: str, run_op: RunOp):
    """The pads of integers are their lowest number, not zero."""
    case = max_pool((1, 2, 4, 4), kernel=[2, 2], pads=[1, 1, 0, 0])._replace(
        dtype=dtype
    )
    (x,) = case.arrays()
    x[..., :2, :2] = 0 if dtype == "bool" else -7
    result = evaluate(case, x)
    assert (result[..., 0, 0] == x[..., 0, 0]).all()
    assert (result[..., 3, 3] == x[..., 2:, 2:].max(axis=(2, 3))).all()
    check_kernel(case, run_op)


def test_max_pool_where_all_taps_are_padding(run_op: RunOp):
    case = max_pool((1, 1, 2, 2), kernel=[2, 2], dilations=[3, 3], pads=[1, 1, 1, 1])
    assert evaluate(case, *case.arrays()).tolist() == [[[[-np.inf]]]]
    check_kernel(case, run_op)


GLOBAL_POOLS = [
    Case(GlobalAveragePoolOp, [(2, 3, 5, 7)], terms=35),
    Case(GlobalAveragePoolOp, [(2, 3, 5)], terms=5),
    Case(GlobalAveragePoolOp, [(1, 2, 3, 4, 5)], terms=60),
]


@pytest.mark.parametrize("case", GLOBAL_POOLS, ids=str)
def test_global_average_pool(case: Case):
    arrays = case.arrays()
    expected = run_onnx("GlobalAveragePool", arrays)
    assert_close(evaluate(case, *arrays), expected, case.terms)


@pytest.mark.parametrize("case", kernels(GLOBAL_POOLS, 1))
def test_global_average_pool_kernel(case: Case, run_op: RunOp):
    check_kernel(case, run_op)


################################################################################
# Normalisation                                                                #
################################################################################

BATCH_NORMS = [
    Case(BatchNormOp, [(2, 3, 4, 5), *[(3,)] * 4]),
    Case(BatchNormOp, [(4, 3), *[(3,)] * 4], {"epsilon": 0.5}),
    Case(BatchNormOp, [(1, 5, 3), *[(5,)] * 4]),
]


def with_variance(arrays: Sequence[Array]) -> list[Array]:
    """The operands of a batch norm, with no negative variance."""
    *others, variance = arrays
    return [*others, np.abs(variance)]


@pytest.mark.parametrize("case", BATCH_NORMS, ids=str)
def test_batch_norm(case: Case):
    arrays = with_variance(case.arrays())
    expected = run_onnx("BatchNormalization", arrays, **case.properties)
    assert_close(evaluate(case, *arrays), expected, 4)


@pytest.mark.parametrize("case", kernels(BATCH_NORMS, 1))
def test_batch_norm_kernel(case: Case, run_op: RunOp):
    arrays = with_variance(case.arrays())
    (result,) = run_op(case.op(*arrays), *arrays)
    assert_close(result, evaluate(case, *arrays))


def layer_norm(
    x: Sequence[int], axis: int, bias: bool = True, **properties: Property
) -> Case:
    columns = x[axis:]
    shapes = [x, columns, columns] if bias else [x, columns]
    return Case(LayerNormOp, shapes, {"axis": axis, **properties}, terms=prod(columns))


LAYER_NORMS = [
    layer_norm((3, 4, 5), -1),
    layer_norm((3, 4, 5), 0, epsilon=0.5),
    layer_norm((3, 4, 5), 1, bias=False),
    layer_norm((4, 1), -1),
    layer_norm((2, 768), -1, epsilon=1e-6),
]


@pytest.mark.parametrize("case", LAYER_NORMS, ids=str)
def test_layer_norm(case: Case):
    arrays = case.arrays()
    expected = run_onnx("LayerNormalization", arrays, **case.properties)
    assert_close(evaluate(case, *arrays), expected, case.terms)


@pytest.mark.parametrize("case", kernels(LAYER_NORMS, 3))
def test_layer_norm_kernel(case: Case, run_op: RunOp):
    check_kernel(case, run_op)


def test_layer_norm_far_from_zero(run_op: RunOp):
    """The variance is that around the mean: no difference of large squares."""
    case = layer_norm((2, 64), -1)
    x, *parameters = case.arrays()
    x = x + np.float32(1000)
    wide = x.astype(np.float64)
    centered = wide - wide.mean(-1, keepdims=True)
    scale, bias = parameters
    expected = centered / np.sqrt(wide.var(-1, keepdims=True) + 1e-5) * scale + bias
    # The mean is off by a few roundings of 1000, a variance from squares would be by
    # that of 1000000.
    for result in (
        evaluate(case, x, *parameters),
        run_op(case.op(x, *parameters), x, *parameters)[0],
    ):
        np.testing.assert_allclose(result, expected, atol=2e-3)


SOFTMAXES = [
    Case(cls, [shape], {"axis": axis}, dtype, shape[axis])
    for cls in (SoftmaxOp, LogSoftmaxOp)
    for shape, axis, dtype in (
        ((3, 10), -1, "float32"),
        ((3, 4, 5), 1, "float32"),
        ((6, 5), 0, "float64"),
        ((4, 1), 1, "float32"),
    )
]


@pytest.mark.parametrize("case", SOFTMAXES, ids=str)
def test_softmax(case: Case):
    (x,) = case.arrays()
    name = "softmax" if case.cls is SoftmaxOp else "log_softmax"
    function: Callable[..., Array] = getattr(special, name)
    expected = function(x.astype("float64"), axis=case.properties["axis"])
    assert_close(evaluate(case, x), expected.astype(x.dtype), case.terms)


@pytest.mark.parametrize("case", kernels(SOFTMAXES, 2))
def test_softmax_kernel(case: Case, run_op: RunOp):
    check_kernel(case, run_op)


IN_PLACE = [BATCH_NORMS[0], LAYER_NORMS[0], SOFTMAXES[1], SOFTMAXES[-3]]


@pytest.mark.parametrize("case", IN_PLACE, ids=str)
def test_normalisation_in_place(case: Case):
    """The kernels read no element after they have written it."""
    arrays = with_variance(case.arrays())
    op = case.op(*arrays)
    assert list(op.in_place_pairs()) == [InPlacePair(0, 0)]
    expected = evaluate(case, *arrays)
    kernel = KernelOp("kernel", "cpu", kernel_body(op))
    assert run_source(kernel_source(kernel), [*arrays, arrays[0]]) == 0
    assert_close(arrays[0], expected, case.terms)


@pytest.mark.parametrize("cls", [SoftmaxOp, LogSoftmaxOp])
def test_softmax_of_large_numbers(cls: type[TensorOp], run_op: RunOp):
    """Nothing overflows, minus infinity has no weight, and NaN spreads in its line."""
    x = np.array(
        [[1000, 1000, 0], [-1000, -1000, -1000], [0, -np.inf, 0], [0, np.nan, 0]],
        "float32",
    )
    half, third, none, low = 0.5, 1 / 3, 0, 0
    if cls is LogSoftmaxOp:
        half, third, none, low = -log(2), -log(3), -inf, -1000 - log(2)
    expected = np.array(
        [[half, half, low], [third] * 3, [half, none, half], [np.nan] * 3], "float32"
    )
    op = op_on(cls, {}, x)
    for result in (*op.evaluate(x), *run_op(op, x)):
        np.testing.assert_allclose(np.asarray(result, "float32"), expected, rtol=1e-6)


################################################################################
# Reductions                                                                   #
################################################################################

REDUCTIONS = {
    ReduceMaxOp: "ReduceMax",
    ReduceMeanOp: "ReduceMean",
    ReduceMinOp: "ReduceMin",
    ReduceProdOp: "ReduceProd",
    ReduceSumOp: "ReduceSum",
}


def reduce(
    cls: type[TensorOp],
    shape: Sequence[int],
    axes: Sequence[int] = (),
    keepdims: bool = False,
    dtype: str = "float32",
) -> Case:
    axes = list(axes)
    terms = prod(shape[axis] for axis in axes or range(len(shape)))
    return Case(cls, [shape], {"axes": axes, "keepdims": keepdims}, dtype, terms)


REDUCED_AXES = [(), (0,), (-1,), (1, 2), (2, -3), (0, 1, 2)]


@pytest.mark.parametrize("cls", REDUCTIONS)
@pytest.mark.parametrize("axes", REDUCED_AXES, ids=str)
@pytest.mark.parametrize("keepdims", [False, True])
def test_reduce(cls: type[TensorOp], axes: Sequence[int], keepdims: bool):
    case = reduce(cls, (3, 4, 5), axes, keepdims)
    (x,) = case.arrays()
    (name,) = (name for known, name in REDUCTIONS.items() if known is cls)
    inputs = [x, np.array(axes, "int64")] if axes else [x]
    expected = run_onnx(name, inputs, keepdims=keepdims)
    assert_close(evaluate(case, x), expected, case.terms)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64"])
@pytest.mark.parametrize(
    ("cls", "function"),
    [
        (ReduceMaxOp, max),
        (ReduceMinOp, min),
        (ReduceProdOp, prod),
        (ReduceSumOp, sum),
    ],
)
def test_reduce_integers(
    cls: type[TensorOp], function: Callable[[Sequence[int]], int], dtype: str
):
    """Integers wrap: in terms of Python's, their last bits are right."""
    case = reduce(cls, (3, 4), [1], dtype=dtype)
    (x,) = case.arrays()
    exact = [function(row) for row in x.tolist()]
    bits = 8 * x.itemsize
    wrapped = [(n + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1) for n in exact]
    assert_close(evaluate(case, x), np.array(wrapped, dtype))


REDUCE_KERNELS = [
    *(reduce(cls, (3, 4, 5), [-1]) for cls in REDUCTIONS),
    *(reduce(cls, (3, 4, 5), [0, 2], keepdims=True) for cls in REDUCTIONS),
    reduce(ReduceMaxOp, (3, 5), [1], dtype="int64"),
    reduce(ReduceMinOp, (8, 2), [1], dtype="bool"),
    reduce(ReduceMinOp, (3, 5), [1], dtype="int8"),
    reduce(ReduceMaxOp, (8, 2), [1], dtype="bool"),
    reduce(ReduceSumOp, (3, 5), [0], dtype="int32"),
    reduce(ReduceProdOp, (3, 5), [0], dtype="int64"),
    reduce(ReduceMeanOp, (3, 5), dtype="float64"),
    reduce(ReduceSumOp, ()),
    reduce(ReduceSumOp, (3, 0), [1]),
    reduce(ReduceProdOp, (3, 0), [1]),
    reduce(ReduceMaxOp, (0, 3), [1]),
    reduce(ReduceMeanOp, (2, 0), [1]),
]


@pytest.mark.parametrize("case", kernels(REDUCE_KERNELS, 12))
def test_reduce_kernel(case: Case, run_op: RunOp):
    check_kernel(case, run_op)


def test_reduced_loops_are_not_parallel():
    case = reduce(ReduceSumOp, (3, 4, 5), [-3, 1])
    body = kernel_body(case.op(*case.arrays()))
    (row,) = (op for op in body.block.ops if isinstance(op, RowOp))
    extents, reductions = row.loops()
    assert dict(zip(extents, reductions, strict=True)) == {3: True, 4: True, 5: False}
    (stage,) = (op for op in loops_of(row).block.ops if isinstance(op, GenericOp))
    iterators = [iterator.data for iterator in stage.iterator_types]
    assert iterators == ["reduction", "reduction", "parallel"]


@pytest.mark.parametrize("cls", [ReduceMaxOp, ReduceMinOp])
def test_extremum_of_nan(cls: type[TensorOp], run_op: RunOp):
    x = np.array([[1, np.nan, 2], [3, np.inf, -np.inf]], "float32")
    expected = [np.nan, np.inf if cls is ReduceMaxOp else -np.inf]
    op = op_on(cls, {"axes": [1]}, x)
    for result in (*op.evaluate(x), *run_op(op, x)):
        np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(
    ("cls", "expected"), [(ReduceSumOp, 0), (ReduceProdOp, 1), (ReduceMeanOp, np.nan)]
)
def test_reduction_of_nothing(cls: type[TensorOp], expected: float):
    x = np.empty((2, 0), "float32")
    (result,) = op_on(cls, {"axes": [1]}, x).evaluate(x)
    np.testing.assert_array_equal(result, [expected] * 2)


################################################################################
# Costs and windows                                                            #
################################################################################


FLOPS = [
    # 2 * 5 * 3 results * 7 products
    (Case(MatmulOp, [(5, 7), (7, 3)]), 210),
    (Case(MatmulOp, [(7, 5), (2, 7, 3)], {"transpose_a": True}), 420),
    (Case(MatmulOp, [(7,), (7,)]), 14),
    # and an addition a result, a multiplication by alpha each, one by beta for C
    (Case(GemmOp, [(5, 7), (7, 3)]), 210),
    (Case(GemmOp, [(5, 7), (7, 3), (3,)]), 225),
    (Case(GemmOp, [(7, 5), (7, 3), (3,)], {"transpose_a": True, "alpha": 0.5}), 240),
    (Case(GemmOp, [(5, 7), (7, 3), (3,)], {"alpha": 0.5, "beta": 2.0}), 243),
    # 4 * 4 * 5 results * 3 * 3 * 2 products, and the bias
    (conv((1, 3, 6, 6), (4, 3, 3, 2), bias=False), 2 * 80 * 18),
    (conv((1, 3, 6, 6), (4, 3, 3, 2)), 2 * 80 * 18 + 80),
    (conv((1, 4, 6, 6), (4, 2, 3, 2), groups=2, bias=False), 2 * 80 * 12),
    # a corner has 2 * 2 taps inside, an edge 2 * 3, the middle 3 * 3: 7 * 7 in all
    (conv((1, 1, 3, 3), (1, 1, 3, 3), pads=[1] * 4, bias=False), 2 * 49),
    (max_pool((1, 2, 4, 4), kernel=[2, 2], strides=[2, 2]), 2 * 4 * 4),
    (average_pool((1, 2, 4, 4), kernel=[2, 2], strides=[2, 2]), 2 * 4 * 5),
    (Case(GlobalAveragePoolOp, [(2, 3, 4, 5)]), 120 + 6),
    # 3 for each channel of an image, 3 for each element
    (Case(BatchNormOp, [(2, 3, 4), *[(3,)] * 4]), 3 * 6 + 3 * 24),
    (layer_norm((3, 4), -1), 5 * 3 + 8 * 12),
    (layer_norm((3, 4), -1, bias=False), 5 * 3 + 7 * 12),
    (Case(SoftmaxOp, [(3, 4)]), 5 * 12),
    (Case(LogSoftmaxOp, [(3, 4)]), 6 * 12 + 3),
    (Case(LogSoftmaxOp, [(3, 0)]), 0),
    (reduce(ReduceSumOp, (3, 4), [1]), 12),
    (reduce(ReduceMeanOp, (3, 4), [1]), 12 + 3),
]


@pytest.mark.parametrize(("case", "flops"), FLOPS, ids=str)
def test_flops(case: Case, flops: int):
    assert case.op(*zeros(*case.shapes)).flops() == flops


def test_cost_counts_each_value_once():
    x = Block(arg_types=[TensorType(f32, [4, 4])]).args[0]
    cost = MatmulOp.inferred([x, x]).cost()
    assert cost.bytes == 2 * 4 * 4 * 4


UNKNOWN = DYNAMIC_INDEX

UNKNOWN_EXTENTS = [
    (Case(MatmulOp, [(UNKNOWN, 1, 2, 3), (5, UNKNOWN, 4)]), (UNKNOWN, 5, 2, 4)),
    (Case(MatmulOp, [(1, 2, 3), (UNKNOWN, 3, 4)]), (UNKNOWN, 2, 4)),
    (Case(GemmOp, [(UNKNOWN, 3), (3, 4), (2, 4)]), (UNKNOWN, 4)),
    (conv((UNKNOWN, UNKNOWN, 8, UNKNOWN), (6, 4, 3, 3)), (UNKNOWN, 6, 6, UNKNOWN)),
    (conv((1, 4, 8, 8), (UNKNOWN, UNKNOWN, UNKNOWN, 3)), (1, UNKNOWN, UNKNOWN, 6)),
    (max_pool((UNKNOWN, 4, 8, UNKNOWN), kernel=[3, 3]), (UNKNOWN, 4, 6, UNKNOWN)),
    (Case(GlobalAveragePoolOp, [(UNKNOWN, 4, UNKNOWN)]), (UNKNOWN, 4, 1)),
    (layer_norm((UNKNOWN, UNKNOWN, 4), 1), (UNKNOWN, UNKNOWN, 4)),
    (Case(SoftmaxOp, [(UNKNOWN, 4)]), (UNKNOWN, 4)),
    (Case(ReduceSumOp, [(UNKNOWN, 4, UNKNOWN)], {"axes": [1, 2]}), (UNKNOWN,)),
    # There may be nothing to take a maximum of, and no result either.
    (Case(ReduceMaxOp, [(UNKNOWN, 0)], {"axes": [1]}), (UNKNOWN,)),
]


@pytest.mark.parametrize(("case", "shape"), UNKNOWN_EXTENTS, ids=str)
def test_unknown_extents(case: Case, shape: Sequence[int]):
    """An extent of a result is known where the operands tell it."""
    types = [TensorType(f32, shape) for shape in case.shapes]
    properties = {name: attribute(value) for name, value in case.properties.items()}
    op = case.cls.inferred(Block(arg_types=types).args, properties)
    assert op.results[0].type == TensorType(f32, shape)


@pytest.mark.parametrize("ceil", [False, True])
def test_windows_are_all_that_fit(ceil: bool):
    """
    Without `ceil` a window ends inside the pads. With it, one more follows as long as
    the last one ended before them and it starts inside the dimension.
    """
    for extent, taps, stride in product(range(1, 7), range(1, 4), range(1, 5)):
        for before, after in product(range(taps), repeat=2):
            end = extent + after
            if taps - before > end:
                continue
            starts = [-before]
            while (
                starts[-1] + taps < end and starts[-1] + stride < extent
                if ceil
                else starts[-1] + stride + taps <= end
            ):
                starts.append(starts[-1] + stride)
            window = Window(taps, stride, before, after, ceil=ceil)
            assert window.count(extent) == len(starts)
