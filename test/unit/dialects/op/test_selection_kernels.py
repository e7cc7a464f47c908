"""Kernels of argmax, argmin and top-k on lines of many lengths, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from draws import fresh
from numpy.typing import NDArray
from xdsl.dialects.builtin import IntegerAttr, TensorType, UnitAttr, i64
from xdsl.utils.test_value import create_ssa_value

from penstock.dialects.kernel.builder import kernel_body
from penstock.dialects.launch import KernelOp
from penstock.dialects.op.selection import ArgMaxOp, ArgMinOp, ArgOp, TopKOp
from penstock.dialects.utils.numpy_types import element_type_of
from penstock.lowering.codegen.target import kernel_source

Array: TypeAlias = NDArray[Any]
RunOp: TypeAlias = Callable[..., list[Array]]

EXTENTS = [1, 2, 15, 16, 17, 63, 64, 65, 131, 300]
KINDS = ["normal", "equal", "special", "ascending", "descending"]


def lines(kind: str, shape: tuple[int, ...], axis: int, dtype: str = "f4") -> Array:
    """Random numbers along an axis: few different ones, NaNs and zeros, or in order."""
    random = fresh()
    values = random.normal(size=shape)
    match kind:
        case "equal":
            values = random.integers(0, 3, shape).astype(float)
        case "special":
            some = np.array([np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0])
            values = np.where(
                random.random(shape) < 0.3, values, random.choice(some, shape)
            )
        case "ascending":
            values = np.sort(values, axis)
        case "descending":
            values = np.flip(np.sort(values, axis), axis)
        case _:
            pass
    return np.ascontiguousarray(values.astype(dtype))


def number(value: int) -> IntegerAttr:
    """An attribute of an op."""
    return IntegerAttr(value, i64)


def operand(array: Array) -> Any:
    """A value of the type of an array."""
    return create_ssa_value(TensorType(element_type_of(array.dtype), array.shape))


def arg_op(type: type[ArgOp], array: Array, axis: int, last: bool) -> ArgOp:
    """An op on an array."""
    properties = {"axis": number(axis), **({"last": UnitAttr()} if last else {})}
    shape = [1 if n == axis else extent for n, extent in enumerate(array.shape)]
    return type.create(
        operands=[operand(array)],
        properties=properties,
        result_types=[TensorType(i64, shape)],
    )


def top_k(array: Array, count: int, axis: int, smallest: bool) -> TopKOp:
    """An op on an array."""
    flags = {"smallest": UnitAttr()} if smallest else {}
    shape = [count if n == axis else extent for n, extent in enumerate(array.shape)]
    return TopKOp.create(
        operands=[operand(array)],
        properties={"count": number(count), "axis": number(axis), **flags},
        result_types=[
            TensorType(element_type_of(array.dtype), shape),
            TensorType(i64, shape),
        ],
    )


def first_of(array: Array, axis: int, largest: bool, last: bool) -> Array:
    """The place that NumPy finds, but of the last one of equal numbers if asked."""
    find = np.argmax if largest else np.argmin
    first: Array = find(array, axis, keepdims=True)
    if not last:
        return first
    turned = array.shape[axis] - 1 - find(np.flip(array, axis), axis, keepdims=True)
    found: Array = np.where(np.isnan(array).any(axis, keepdims=True), first, turned)
    return found


@pytest.mark.parametrize("type", [ArgMaxOp, ArgMinOp])
@pytest.mark.parametrize("extent", EXTENTS)
def test_places_of_the_largest_and_smallest(
    extent: int, type: type[ArgOp], run_op: RunOp
) -> None:
    """First or last places along rows or columns, all four with both ops in turns."""
    number, is_max = EXTENTS.index(extent), type is ArgMaxOp
    columns = EXTENTS[(3 * number + 1) % len(EXTENTS)]
    is_rows, last = (number + is_max) % 2, (number // 2 + is_max) % 2 == 1
    shape = (3, extent) if is_rows else (2, extent, columns)
    for kind in KINDS:
        array = lines(kind, shape, 1)
        (found,) = run_op(arg_op(type, array, 1, last), array)
        wanted = first_of(array, 1, is_max, last)
        np.testing.assert_array_equal(found, wanted, err_msg=f"{kind} {shape}")


def test_places_along_columns_are_found_in_vectors() -> None:
    op = arg_op(ArgMaxOp, lines("normal", (40, 300), 0), 0, last=False)
    source = kernel_source(KernelOp("kernel", "cpu", kernel_body(op)))
    assert "memory=['f32', 'i64']" in source
    assert "x.i64(i1)" in source


@pytest.mark.parametrize("extent", EXTENTS)
def test_the_first_in_order(extent: int, run_op: RunOp) -> None:
    """One, some and all of rows or columns, from one end, all four in turns."""
    number = EXTENTS.index(extent)
    counts = {1, extent - extent // 3, extent}
    shapes = (3, extent), (2, extent, 3)
    for place, count in enumerate(sorted(counts)):
        shape, smallest = shapes[(number + place) % 2], (number // 2 + place) % 2 == 1
        for kind in KINDS:
            array = lines(kind, shape, 1)
            # NaNs come last in NumPy's order, and are larger than all numbers here.
            turned = np.flip(array, 1)
            order = np.argsort(array if smallest else turned, 1, kind="stable")
            if not smallest:
                order = np.flip(extent - 1 - order, 1)
            wanted = np.take(order, range(count), 1)
            values, places = run_op(top_k(array, count, 1, smallest), array)
            text = f"{kind} {shape} {count}"
            np.testing.assert_array_equal(places, wanted, err_msg=text)
            taken = np.take_along_axis(array, wanted, 1)
            np.testing.assert_array_equal(values, taken, err_msg=text)


@pytest.mark.parametrize("dtype", ["f8", "f2", "i4", "u1", "i8"])
def test_the_first_in_order_of_other_types(dtype: str, run_op: RunOp) -> None:
    array = (lines("normal", (5, 200), 1, "f8") * 40 + 100).astype(dtype)
    order = np.flip(199 - np.argsort(np.flip(array, 1), 1, kind="stable"), 1)
    values, places = run_op(top_k(array, 7, 1, smallest=False), array)
    np.testing.assert_array_equal(places, order[:, :7])
    np.testing.assert_array_equal(values, np.take_along_axis(array, order[:, :7], 1))
