"""Ops whose results have as many elements as data says: their counts, and maxima."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import pytest
from draws import fresh
from numpy.typing import NDArray
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, f32, i1
from xdsl.utils.test_value import create_ssa_value

from penstock.dialects.op import (
    CompressOp,
    NonMaxSuppressionOp,
    NonZeroOp,
    UniqueOp,
)
from penstock.dialects.op.tensor_op import TensorOp, can_fail
from penstock.dialects.utils.numpy_types import element_type_of
from penstock.dialects.utils.tensors import tensor_type

Array: TypeAlias = NDArray[Any]
RunOp: TypeAlias = Callable[..., list[Array]]
MANY = "there are more elements than the maximum 3"


def made(op: type[TensorOp], arrays: Sequence[Array], **settings: object) -> TensorOp:
    types = (TensorType(element_type_of(a.dtype), a.shape) for a in arrays)
    return op.of(*map(create_ssa_value, types), **settings)


def boxes_apart(count: int) -> list[Array]:
    """Boxes that do not touch, their scores, and a threshold."""
    left = np.arange(count, dtype=np.float32)[:, None] * 2
    boxes = np.concatenate([left, left, left + 1, left + 1], 1)[None]
    scores = np.linspace(0, 1, count, dtype=np.float32).reshape(1, 1, count)
    return [boxes, scores, np.asarray(0.5, np.float32)]


def with_found(count: int) -> list[tuple[type[TensorOp], list[Array], dict[str, int]]]:
    """Each op that has a maximum, with data of which so many elements are found."""
    mask = np.arange(9) < count
    return [
        (NonZeroOp, [mask.astype(np.int32)], {"max": 3}),
        (CompressOp, [np.arange(18.0).reshape(2, 9), mask], {"axis": 1, "max": 3}),
        (NonMaxSuppressionOp, boxes_apart(count), {"most": 9, "max": 3}),
    ]


@pytest.mark.parametrize("number", range(3))
def test_more_elements_than_the_maximum_are_an_error(
    run_op: RunOp, number: int
) -> None:
    op, arrays, settings = with_found(3)[number]
    results = made(op, arrays, **settings).evaluate(*arrays)
    assert results[1] == 3
    for found, wanted in zip(
        run_op(made(op, arrays, **settings), *arrays), results, strict=True
    ):
        np.testing.assert_array_equal(found, wanted)
    op, arrays, settings = with_found(4)[number]
    with pytest.raises(ValueError, match=MANY):
        made(op, arrays, **settings).evaluate(*arrays)
    with pytest.raises(RuntimeError, match=MANY):
        run_op(made(op, arrays, **settings), *arrays)


@pytest.mark.parametrize(
    ("shape", "axis", "dtype"),
    [((2, 9, 3), 1, np.int8), ((19, 21), 0, np.float32), ((3, 9), 1, np.float16)],
)
def test_slices_are_compressed_whether_they_are_short_or_long(
    run_op: RunOp, shape: tuple[int, ...], axis: int, dtype: Any
) -> None:
    random = np.random.default_rng(24)
    array = random.integers(1, 99, shape).astype(dtype)
    mask = random.permutation(np.arange(shape[axis] - 1) < 5)
    wanted = np.compress(mask, array, axis)
    for room in (len(mask), 5):
        op = made(CompressOp, [array, mask], axis=axis, max=room)
        kept, count = run_op(op, array, mask)
        found, rest = np.split(kept, [5], axis)
        np.testing.assert_array_equal(found, wanted)
        assert count == 5
        assert not rest.any()


def test_only_what_may_have_no_room_can_fail() -> None:
    mask = np.ones(4, np.bool_)
    assert not can_fail(made(NonZeroOp, [mask]))
    assert not can_fail(made(NonZeroOp, [mask], max=4))
    assert can_fail(made(NonZeroOp, [mask], max=3))
    open_mask = create_ssa_value(TensorType(i1, [DYNAMIC_INDEX]))
    assert can_fail(NonZeroOp.of(open_mask, max=3))
    assert not can_fail(NonZeroOp.of(open_mask))


def test_extents_that_are_open_stay_open() -> None:
    mask = create_ssa_value(TensorType(i1, [DYNAMIC_INDEX]))
    data = create_ssa_value(TensorType(f32, [4, DYNAMIC_INDEX]))
    scores = create_ssa_value(TensorType(f32, [1, 2, DYNAMIC_INDEX]))
    boxes = create_ssa_value(TensorType(f32, [1, DYNAMIC_INDEX, 4]))
    scalar = create_ssa_value(TensorType(f32, []))
    open_ops = [
        NonZeroOp.of(mask),
        CompressOp.of(data, mask, axis=1),
        NonMaxSuppressionOp.of(boxes, scores, scalar, most=3),
    ]
    shapes = [tensor_type(op.results[0]).get_shape() for op in open_ops]
    assert shapes == [(1, DYNAMIC_INDEX), (4, DYNAMIC_INDEX), (DYNAMIC_INDEX, 3)]
    at_most = NonMaxSuppressionOp.of(boxes, scores, scalar, most=3, max=5)
    assert tensor_type(at_most.results[0]).get_shape() == (5, 3)


def many_rows(kind: str) -> Array:
    """More rows than a byte has values, some of them equal."""
    random = np.random.default_rng(24)
    if kind == "rows of i16":
        return random.integers(-300, 300, (600, 2)).astype(np.int16) // 97
    if kind == "bool":
        return random.integers(0, 2, 300).astype(np.bool_)
    if kind[0] in "iu":
        limits = np.iinfo(kind)
        wide = random.integers(limits.min, limits.max, 300, kind, endpoint=True)
        return np.concatenate([wide, wide[:50], [limits.min, limits.max]])
    dtype = ml_dtypes.bfloat16 if kind == "bfloat16" else np.dtype(kind)
    wide = random.standard_normal(300) * 10.0 ** random.integers(-4, 4, 300)
    special = [0.0, -0.0, np.nan, np.inf, -np.inf, -np.nan, 0.0]
    return np.concatenate([wide, special, wide[:50], special]).astype(dtype)


@pytest.mark.parametrize(
    "kind",
    [
        "bool",
        "int8",
        "int64",
        "uint64",
        "float16",
        "bfloat16",
        "float64",
        "rows of i16",
    ],
)
def test_many_rows_are_sorted_by_bytes(run_op: RunOp, kind: str) -> None:
    array = many_rows(kind)
    plain = array.astype(np.float32) if kind == "bfloat16" else array
    wanted = np.unique(
        plain,
        return_index=True,
        return_inverse=True,
        return_counts=True,
        axis=0 if plain.ndim > 1 else None,
    )
    *found, count = run_op(made(UniqueOp, [array], sorted=True), array)
    assert count == len(wanted[0])
    for whole, values in zip(found, wanted, strict=True):
        own = whole[: len(values)].astype(values.dtype)
        np.testing.assert_array_equal(own, values)
        assert not whole[len(values) :].any()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.uint8, np.int64])
def test_elements_of_any_type_are_told_apart(run_op: RunOp, dtype: Any) -> None:
    array = np.array([250, 3, 250, 0, 3, 7, 0], np.float64).astype(dtype)
    rows, first, place, times, count = run_op(
        made(UniqueOp, [array], sorted=True), array
    )
    assert rows.astype(np.float64).tolist() == [0, 3, 7, 250, 0, 0, 0]
    assert first.tolist() == [3, 1, 5, 0, 0, 0, 0]
    assert place.tolist() == [3, 1, 3, 0, 1, 2, 0]
    assert times.tolist() == [2, 2, 1, 2, 0, 0, 0]
    assert count == 4


def test_numbers_that_are_none_are_one_row_at_the_end(run_op: RunOp) -> None:
    array = np.array([np.nan, 2.0, -0.0, np.nan, 0.0], np.float32)
    op = made(UniqueOp, [array], sorted=True)
    for found in (run_op(op, array), op.evaluate(array)):
        np.testing.assert_array_equal(found[0], [0, 2, np.nan, 0, 0])
        assert found[3].tolist() == [2, 1, 2, 0, 0]


def test_many_boxes_are_selected_as_their_order_says(run_op: RunOp) -> None:
    rng = fresh()
    corners = rng.random((1, 3000, 4), np.float32)
    corners[..., 2:] = corners[..., :2] + 0.1 * corners[..., 2:]
    scores = rng.random((1, 1, 3000), np.float32)
    arrays = [corners, scores, np.asarray(0.5, np.float32)]
    op = made(NonMaxSuppressionOp, arrays, most=3000)
    selected, count, kept = run_op(op, *arrays)
    places = selected[: int(count), 2]
    # The best score is never suppressed, scores fall, and no box comes twice.
    assert places[0] == scores[0, 0].argmax()
    assert (np.diff(scores[0, 0, places]) <= 0).all()
    assert len(set(places.tolist())) == len(places)
    assert kept[0, 0, : len(places)].tolist() == places.tolist()
    # Each other box overlaps a better one that stays, and those that stay do not.
    shares = shares_of(corners[0], places)
    better = scores[0, 0, places] > scores[0, 0][:, None]
    assert ((shares * better).max(1)[np.delete(np.arange(3000), places)] > 0.499).all()
    assert ((shares * better).max(1)[places] < 0.501).all()


def shares_of(boxes: Array, places: Array) -> Array:
    """Intersection over union of all boxes with some of them."""
    wide = boxes.astype(np.float64)
    low = np.maximum(wide[:, None, :2], wide[None, places, :2])
    high = np.minimum(wide[:, None, 2:], wide[None, places, 2:])
    common = np.maximum(high - low, 0).prod(2)
    areas = (wide[:, 2:] - wide[:, :2]).prod(1)
    return common / (areas[:, None] + areas[places] - common)
