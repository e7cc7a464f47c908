"""Ops that read, write, scan and select by indices: kernels against NumPy's meaning."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerAttr, TensorType, UnitAttr, i64
from xdsl.ir import Attribute
from xdsl.utils.test_value import create_ssa_value

from penstock.dialects.op.bits import BitAndOp, BitOrOp, BitXorOp
from penstock.dialects.op.elementwise import UnaryOp
from penstock.dialects.op.indexing import (
    GatherElementsOp,
    GatherNdOp,
    ScatterElementsOp,
    ScatterMode,
    ScatterModeAttr,
    ScatterNdOp,
)
from penstock.dialects.op.movement import OUT_OF_RANGE
from penstock.dialects.op.rounding import Log1pOp, RoundOp
from penstock.dialects.op.scan import CumProdOp, CumSumOp
from penstock.dialects.op.selection import ArgMaxOp, ArgMinOp, TopKOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.trigonometry import (
    AcoshOp,
    AcosOp,
    AsinhOp,
    AsinOp,
    AtanhOp,
    AtanOp,
    CoshOp,
    CosOp,
    SinhOp,
    SinOp,
    TanOp,
)
from penstock.dialects.utils.numpy_types import element_type_of

Array: TypeAlias = NDArray[np.generic]
RunOp: TypeAlias = Callable[..., list[Array]]

Floats: TypeAlias = NDArray[np.float32]

RANDOM = np.random.default_rng(31)


def floats(*shape: int) -> Floats:
    """Random numbers, with NaNs, infinities and equal ones among them."""
    values = RANDOM.integers(-3, 4, shape).astype(np.float32)
    special = RANDOM.choice(np.array([np.nan, np.inf, -np.inf], np.float32), shape)
    return np.where(RANDOM.random(shape) < 0.15, special, values).astype(np.float32)


def integers(low: int, high: int, *shape: int) -> NDArray[np.int64]:
    """Random integers from `low` up to but without `high`."""
    return RANDOM.integers(low, high, shape)


def made(op: type[TensorOp], *arrays: Array, **properties: Attribute) -> TensorOp:
    """The op on values like the arrays."""
    types = [TensorType(element_type_of(a.dtype), a.shape) for a in arrays]
    result = op.inferred(list(map(create_ssa_value, types)), properties)
    result.verify()
    return result


def number(value: int) -> Attribute:
    return IntegerAttr(value, i64)


def mode(name: str) -> Attribute:
    return ScatterModeAttr(ScatterMode(name))


ON = UnitAttr()
Case: TypeAlias = tuple[type[TensorOp], Sequence[Array], dict[str, Attribute]]

CASES: dict[str, Case] = {
    "gather_elements": (
        GatherElementsOp,
        [floats(4, 5, 3), integers(-5, 5, 3, 7, 2)],
        {"axis": number(1)},
    ),
    "gather_elements_of_a_line": (
        GatherElementsOp,
        [floats(5), integers(-5, 5, 9).astype(np.int8)],
        {"axis": number(-1)},
    ),
    "gather_nd": (
        GatherNdOp,
        [floats(4, 5, 3), integers(-4, 4, 6, 2, 2)],
        {"batch": number(0)},
    ),
    "gather_nd_in_batches": (
        GatherNdOp,
        [floats(4, 5, 3), integers(-3, 3, 4, 6, 1)],
        {"batch": number(1)},
    ),
    "gather_nd_one_element": (
        GatherNdOp,
        [floats(4, 5), np.array([2, -1])],
        {"batch": number(0)},
    ),
    "scatter_elements": (
        ScatterElementsOp,
        [floats(4, 5), integers(-5, 5, 3, 9), floats(3, 9)],
        {"axis": number(1), "mode": mode("set")},
    ),
    "scatter_elements_add_first_axis": (
        ScatterElementsOp,
        [floats(4, 5), integers(-4, 4, 9, 5), floats(9, 5)],
        {"axis": number(0), "mode": mode("add")},
    ),
    "scatter_elements_mul_line": (
        ScatterElementsOp,
        [integers(-9, 9, 5), integers(0, 5, 9), integers(-9, 9, 9)],
        {"axis": number(0), "mode": mode("mul")},
    ),
    "scatter_nd": (
        ScatterNdOp,
        [floats(4, 5, 3), integers(-4, 4, 6, 2), floats(6, 3)],
        {"mode": mode("set")},
    ),
    "scatter_nd_max_elements": (
        ScatterNdOp,
        [floats(4, 5), integers(-4, 4, 2, 9, 2), floats(2, 9)],
        {"mode": mode("max")},
    ),
    "scatter_nd_min": (
        ScatterNdOp,
        [floats(4, 5), integers(-4, 4, 9, 1), floats(9, 5)],
        {"mode": mode("min")},
    ),
    "scatter_nd_nothing": (
        ScatterNdOp,
        [floats(4, 5), integers(0, 4, 0, 1), floats(0, 5)],
        {"mode": mode("add")},
    ),
    "cum_sum": (CumSumOp, [floats(3, 7, 2)], {"axis": number(1)}),
    "cum_sum_exclusive_reverse": (
        CumSumOp,
        [integers(-9, 9, 3, 7)],
        {"axis": number(-1), "exclusive": ON, "reverse": ON},
    ),
    "cum_sum_nothing": (CumSumOp, [floats(3, 0)], {"axis": number(1)}),
    "cum_prod_reverse": (CumProdOp, [floats(7)], {"axis": number(0), "reverse": ON}),
    "cum_prod_exclusive": (
        CumProdOp,
        [integers(-9, 9, 2, 9).astype(np.int16)],
        {"axis": number(1), "exclusive": ON},
    ),
    "arg_max": (ArgMaxOp, [floats(9, 6, 4)], {"axis": number(1)}),
    "arg_max_last": (ArgMaxOp, [floats(9, 12)], {"axis": number(1), "last": ON}),
    "arg_min": (ArgMinOp, [integers(-2, 3, 7, 9)], {"axis": number(0)}),
    "arg_min_last": (
        ArgMinOp,
        [integers(-2, 3, 7, 9).astype(np.int8)],
        {"axis": number(-1), "last": ON},
    ),
    "arg_min_floats": (ArgMinOp, [floats(20, 7)], {"axis": number(-1)}),
    "top_k": (TopKOp, [floats(6, 9)], {"count": number(4), "axis": number(1)}),
    "top_k_smallest": (
        TopKOp,
        [floats(9, 6)],
        {"count": number(9), "axis": number(0), "smallest": ON},
    ),
    "top_k_integers": (
        TopKOp,
        [integers(-2, 3, 2, 8, 3)],
        {"count": number(3), "axis": number(1)},
    ),
    "top_k_none": (TopKOp, [floats(6)], {"count": number(0), "axis": number(0)}),
    "bit_and": (BitAndOp, [integers(-99, 99, 4, 5), integers(-99, 99, 5)], {}),
    "bit_or": (BitOrOp, [integers(-99, 99, 4, 5), integers(-99, 99, 5)], {}),
    "bit_xor": (BitXorOp, [integers(-99, 99, 4, 5), integers(-99, 99, 4, 1)], {}),
    "round": (RoundOp, [floats(40) / np.float32(2)], {}),
}


@pytest.mark.parametrize("name", CASES)
def test_kernels_do_what_numpy_does(run_op: RunOp, name: str) -> None:
    kind, arrays, properties = CASES[name]
    op = made(kind, *arrays, **properties)
    for got, wanted in zip(run_op(op, *arrays), op.evaluate(*arrays), strict=True):
        assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
        np.testing.assert_array_equal(got, wanted)


def test_updates_are_written_in_order() -> None:
    data, updates = np.zeros([3]), np.arange(1.0, 6.0)
    places = np.array([0, 2, 0, -1, 0])
    op = made(ScatterElementsOp, data, places, updates, axis=number(0))
    assert list(op.evaluate(data, places, updates)[0]) == [5, 0, 4]


def test_the_first_of_equal_elements_comes_first() -> None:
    line = np.array([2, 5, 5, 2, np.nan, 5], np.float32)
    op = made(TopKOp, line, count=number(5), axis=number(0))
    values, places = op.evaluate(line)
    assert list(places) == [4, 1, 2, 5, 0]
    np.testing.assert_array_equal(values, line[[4, 1, 2, 5, 0]])


INDEXED: dict[str, Case] = {
    "gather_elements": (
        GatherElementsOp,
        [floats(4), np.array([0])],
        {"axis": number(0)},
    ),
    "gather_nd": (GatherNdOp, [floats(4, 2), np.array([[0]])], {"batch": number(0)}),
    "scatter_elements": (
        ScatterElementsOp,
        [floats(4), np.array([0]), floats(1)],
        {"axis": number(0)},
    ),
    "scatter_nd": (ScatterNdOp, [floats(4), np.array([[0]]), floats(1)], {}),
}


@pytest.mark.parametrize("name", INDEXED)
@pytest.mark.parametrize("index", [4, -5])
def test_indices_out_of_range_are_refused(run_op: RunOp, name: str, index: int) -> None:
    kind, arrays, properties = INDEXED[name]
    given = [array.copy() for array in arrays]
    given[1][...] = index
    op = made(kind, *given, **properties)
    with pytest.raises(IndexError, match=OUT_OF_RANGE):
        op.evaluate(*given)
    with pytest.raises(RuntimeError, match=OUT_OF_RANGE):
        run_op(op, *given)


FUNCTIONS: dict[type[UnaryOp], tuple[float, float]] = {
    AcosOp: (-1, 1),
    AcoshOp: (1, 50),
    AsinOp: (-1, 1),
    AsinhOp: (-50, 50),
    AtanOp: (-50, 50),
    AtanhOp: (-1, 1),
    CosOp: (-50, 50),
    CoshOp: (-50, 50),
    Log1pOp: (-1, 9),
    SinOp: (-50, 50),
    SinhOp: (-50, 50),
    TanOp: (-50, 50),
}


@pytest.mark.parametrize("kind", FUNCTIONS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_functions_are_those_of_numpy(
    run_op: RunOp, kind: type[UnaryOp], dtype: str
) -> None:
    low, high = FUNCTIONS[kind]
    inside = RANDOM.uniform(low, high, 200)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-30, 1, -1, -2])
    values = np.concatenate([inside, special]).astype(dtype)
    op = made(kind, values)
    tolerance = 2e-6 if dtype == "float32" else 1e-12
    results = run_op(op, values)[0], op.evaluate(values)[0]
    got, wanted = (result.astype(np.float64) for result in results)
    np.testing.assert_allclose(got, wanted, tolerance, tolerance)
