"""The ops that move data, against index formulas, and their kernels against those."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from xdsl.dialects.builtin import DYNAMIC_INDEX, TensorType, f32
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.test_value import create_ssa_value

from penstock.dialects.op.movement import (
    OUT_OF_RANGE,
    ExpandOp,
    GatherOp,
    ReshapeOp,
    TransposeOp,
)
from penstock.dialects.op.number import number_text
from penstock.dialects.op.padding import PadMode, PadOp
from penstock.dialects.op.slicing import ConcatOp, SliceOp, SplitOp
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp
from penstock.dialects.utils.numpy_types import element_type_of
from penstock.dialects.utils.tensors import are_compatible, tensor_type

Array: TypeAlias = NDArray[np.generic]
Shape: TypeAlias = tuple[int, ...]
RunOp: TypeAlias = Callable[..., list[Array]]
Build: TypeAlias = Callable[[Sequence[SSAValue]], TensorOp]

RANDOM = np.random.default_rng(20)


def numbers(shape: Sequence[int], dtype: str = "float32") -> Array:
    """Random numbers, among them all that are special to the dtype."""
    if dtype == "bool":
        return RANDOM.integers(0, 2, shape).astype(dtype)
    if dtype.startswith("int"):
        info = np.iinfo(dtype)
        return RANDOM.integers(info.min, info.max, shape, endpoint=True, dtype=dtype)
    values = RANDOM.standard_normal(shape)
    special = RANDOM.choice([np.nan, np.inf, -np.inf, -0.0], shape)
    return np.asarray(np.where(RANDOM.random(shape) < 0.2, special, values), dtype)


def value_like(array: Array) -> SSAValue:
    """A value of an array's type."""
    return create_ssa_value(TensorType(element_type_of(array.dtype), array.shape))


def evaluated(build: Build, *arrays: Array) -> list[Array]:
    """The results of the op that `build` makes of values, as inferred to be."""
    op = build(list(map(value_like, arrays)))
    op.verify()
    results = list(op.evaluate(*arrays))
    for value, result in zip(op.results, results, strict=True):
        assert value.type == value_like(result).type
        assert result.flags.c_contiguous
    return results


def assert_same_bits(got: Array, wanted: Array) -> None:
    assert (got.shape, got.dtype) == (wanted.shape, wanted.dtype)
    assert got.tobytes() == wanted.tobytes()


def by_index(
    source: Array, shape: Sequence[int], origin: Callable[[Shape], Shape]
) -> Array:
    """The array of a shape whose element at a place is the source's at `origin`."""
    result = np.empty(shape, source.dtype)
    for place in np.ndindex(*shape):
        result[place] = source[origin(place)]
    return result


################################################################################
# The meaning in NumPy                                                         #
################################################################################

few = settings(max_examples=60, deadline=None, derandomize=True)
extents = st.integers(0, 4)
shapes = st.lists(extents, max_size=4).map(tuple)
shapes_with_axes = st.lists(extents, min_size=1, max_size=4).map(tuple)


@st.composite
def factored(draw: st.DrawFn) -> tuple[Shape, Shape]:
    """Two shapes with as many elements, the second with a -1 at times."""
    factors = draw(st.lists(st.integers(1, 4), max_size=4))
    shuffled = draw(st.permutations(factors))
    cut = draw(st.integers(0, len(factors)))
    target = [int(np.prod(shuffled[:cut], dtype=int)), *shuffled[cut:]]
    if draw(st.booleans()):
        target[draw(st.integers(0, len(target) - 1))] = -1
    return tuple(factors), tuple(target)


@few
@given(factored())
def test_reshape_keeps_the_row_major_order(pair: tuple[Shape, Shape]):
    shape, target = pair
    a = numbers(shape)
    (result,) = evaluated(lambda v: ReshapeOp(v[0], target), a)
    assert list(result.flat) == pytest.approx(list(a.flat), nan_ok=True)
    assert all(t in (-1, e) for t, e in zip(target, result.shape, strict=True))


def test_reshape_takes_0_for_an_extent():
    (result,) = evaluated(lambda v: ReshapeOp(v[0], [0, 7]), numbers([4, 0]))
    assert result.shape == (0, 7)


@few
@given(shapes, st.randoms())
def test_transpose_moves_axes(shape: Shape, random: Random):
    permutation = list(range(len(shape)))
    random.shuffle(permutation)
    a = numbers(shape)
    (result,) = evaluated(lambda v: TransposeOp(v[0], permutation), a)
    target = [shape[axis] for axis in permutation]

    def origin(place: Shape) -> Shape:
        found = dict(zip(permutation, place, strict=True))
        return tuple(found[axis] for axis in range(len(shape)))

    assert_same_bits(result, by_index(a, target, origin))


@few
@given(shapes, st.lists(extents, max_size=2), st.data())
def test_expand_repeats_extents_of_1(
    shape: Shape, front: list[int], data: st.DataObject
):
    own = [1 if data.draw(st.booleans()) else extent for extent in shape]
    a = numbers(own)
    target = [*front, *shape]

    def origin(place: Shape) -> Shape:
        last = place[len(front) :]
        return tuple(0 if e == 1 else i for i, e in zip(last, own, strict=True))

    (result,) = evaluated(lambda v: ExpandOp(v[0], target), a)
    assert_same_bits(result, by_index(a, target, origin))


@few
@given(shapes_with_axes, shapes, st.data())
def test_gather_replaces_an_axis(shape: Shape, index_shape: Shape, data: st.DataObject):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    front = axis % len(shape)
    if shape[axis] == 0:
        index_shape = (0, *index_shape)
    a = numbers(shape)
    low, high = -shape[axis], max(shape[axis], 1)
    i = RANDOM.integers(low, high, index_shape, dtype=np.int32)
    rank = len(index_shape)
    target = [*shape[:front], *index_shape, *shape[front + 1 :]]

    def origin(place: Shape) -> Shape:
        index = int(i[place[front : front + rank]]) % shape[axis]
        return (*place[:front], index, *place[front + rank :])

    (result,) = evaluated(lambda v: GatherOp(v[0], v[1], axis), a, i)
    assert_same_bits(result, by_index(a, target, origin))


@pytest.mark.parametrize("index", [4, -5, 2**40])
def test_gather_refuses_indices_out_of_range(index: int):
    with pytest.raises(IndexError, match=OUT_OF_RANGE):
        evaluated(lambda v: GatherOp(v[0], v[1], 0), numbers([4]), np.array([0, index]))


@few
@given(shapes_with_axes, st.lists(extents, min_size=1, max_size=3), st.data())
def test_concat_and_split_undo_each_other(
    shape: Shape, sizes: list[int], data: st.DataObject
):
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    front = axis % len(shape)
    parts = [numbers([*shape[:front], size, *shape[front + 1 :]]) for size in sizes]
    places = [(part, index) for part, size in enumerate(sizes) for index in range(size)]
    target = [*shape[:front], len(places), *shape[front + 1 :]]
    (whole,) = evaluated(lambda v: ConcatOp(v, axis), *parts)
    assert whole.shape == tuple(target)
    for place in np.ndindex(*target):
        part, index = places[int(place[front])]
        element = parts[part][(*place[:front], index, *place[front + 1 :])]
        assert element.tobytes() == whole[place].tobytes()
    again = evaluated(lambda v: SplitOp(v[0], axis, sizes), whole)
    for got, wanted in zip(again, parts, strict=True):
        assert_same_bits(got, wanted)


@few
@given(shapes, st.data())
def test_slice_reads_as_python_does(shape: Shape, data: st.DataObject):
    bounds = st.one_of(st.integers(-6, 6), st.sampled_from([-(2**63), 2**63 - 1]))
    steps = st.one_of(st.integers(-3, 3), bounds).filter(bool)
    starts, ends, steps = (
        [data.draw(values) for _ in shape] for values in (bounds, bounds, steps)
    )
    a = numbers(shape)
    taken = [
        list(range(extent))[start:end:step]
        for extent, start, end, step in zip(shape, starts, ends, steps, strict=True)
    ]
    (result,) = evaluated(lambda v: SliceOp(v[0], starts, ends, steps), a)
    target = [len(places) for places in taken]

    def origin(place: Shape) -> Shape:
        return tuple(places[i] for places, i in zip(taken, place, strict=True))

    assert_same_bits(result, by_index(a, target, origin))


def most_added(mode: PadMode, extent: int) -> int:
    """The most elements that a test adds at one end of an axis."""
    most = {PadMode.CONSTANT: 3, PadMode.EDGE: 3 * extent, PadMode.REFLECT: extent - 1}
    return max(most[mode], 0)


@few
@given(shapes, st.sampled_from(PadMode), st.data())
def test_pad_adds_elements(shape: Shape, mode: PadMode, data: st.DataObject):
    befores, afters = (
        [data.draw(st.integers(0, most_added(mode, extent))) for extent in shape]
        for _ in range(2)
    )
    a = numbers(shape)
    # What lies beyond each axis, spelled out: 2 1 [0 1 2] 1 0, or 0 0 [0 1 2] 2 2.
    lines: list[list[int | None]] = []
    for extent, before, after in zip(shape, befores, afters, strict=True):
        own = list(range(extent))
        left, right = {
            "constant": ([None] * before, [None] * after),
            "edge": (own[:1] * before, own[-1:] * after),
            "reflect": (own[1:][:before][::-1], own[:-1][::-1][:after]),
        }[mode.value]
        lines.append([*left, *own, *right])
    (result,) = evaluated(lambda v: PadOp(v[0], befores, afters, mode, -1.5), a)
    assert result.shape == tuple(map(len, lines))
    for place, origin in zip(
        np.ndindex(*result.shape), itertools.product(*lines), strict=True
    ):
        known = tuple(index for index in origin if index is not None)
        wanted = a[known] if len(known) == len(origin) else a.dtype.type(-1.5)
        assert result[place].tobytes() == wanted.tobytes()


################################################################################
# Inference                                                                    #
################################################################################

CASES: dict[str, tuple[Build, list[Array]]] = {
    "reshape": (lambda v: ReshapeOp(v[0], [2, -1]), [numbers([4, 3])]),
    "transpose": (lambda v: TransposeOp(v[0], [2, 0, 1]), [numbers([4, 3, 2])]),
    "expand": (lambda v: ExpandOp(v[0], [2, 4, 3]), [numbers([4, 1])]),
    "gather": (
        lambda v: GatherOp(v[0], v[1], 1),
        [numbers([4, 3, 2]), np.array([[0, -3], [2, 1]])],
    ),
    "concat": (
        lambda v: ConcatOp(v, 1),
        [numbers([4, 1]), numbers([4, 3]), numbers([4, 2])],
    ),
    "split": (lambda v: SplitOp(v[0], 0, [1, 0, 3]), [numbers([4, 3])]),
    "slice": (lambda v: SliceOp(v[0], [3, -1], [0, -9], [-2, -1]), [numbers([4, 3])]),
    "pad": (lambda v: PadOp(v[0], [1, 0], [2, 1]), [numbers([4, 3])]),
    "pad_edge": (
        lambda v: PadOp(v[0], [1, 0], [7, 1], PadMode.EDGE),
        [numbers([4, 3])],
    ),
    "pad_reflect": (
        lambda v: PadOp(v[0], [3, 0], [2, 1], PadMode.REFLECT),
        [numbers([4, 3])],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_less_known_operands_give_no_other_results(name: str):
    build, arrays = CASES[name]
    op = build(list(map(value_like, arrays)))
    shapes = [array.shape for array in arrays]
    axes = [(i, axis) for i, shape in enumerate(shapes) for axis in range(len(shape))]
    for choice in itertools.product([False, True], repeat=len(axes)):
        unknown = set(itertools.compress(axes, choice))
        values = [
            create_ssa_value(
                TensorType(
                    tensor_type(operand).element_type,
                    [
                        DYNAMIC_INDEX if (i, axis) in unknown else extent
                        for axis, extent in enumerate(shapes[i])
                    ],
                )
            )
            for i, operand in enumerate(op.operands)
        ]
        for result, type in zip(op.results, build(values).infer_types(), strict=True):
            assert are_compatible(result.type, type)
            if not unknown:
                assert result.type == type


@pytest.mark.parametrize("name", CASES)
def test_moving_data_takes_no_arithmetic(name: str):
    build, arrays = CASES[name]
    op = build(list(map(value_like, arrays)))
    results = op.evaluate(*arrays)
    assert op.cost() == (0, sum(array.nbytes for array in (*arrays, *results)))


def is_run(places: Array) -> bool:
    """Whether numbers in row-major order count up by one."""
    flat = places.ravel()
    return bool((np.diff(flat) == 1).all())


def moved_places(data: st.DataObject, shape: Shape) -> Build:
    """An op that moves the elements of one tensor, or takes some of them."""
    rank = len(shape)
    starts = [data.draw(st.integers(-extent - 1, extent)) for extent in shape]
    ends = [data.draw(st.integers(-extent - 2, extent + 1)) for extent in shape]
    steps = [data.draw(st.sampled_from([1, 1, 2, -1])) for _ in shape]
    axis = data.draw(st.integers(0, rank - 1))
    cut = data.draw(st.integers(0, shape[axis]))
    order = data.draw(st.permutations(range(rank)))
    builds: list[Build] = [
        lambda v: SliceOp(v[0], starts, ends, steps),
        lambda v: SplitOp(v[0], axis, [cut, shape[axis] - cut]),
        lambda v: TransposeOp(v[0], order),
        lambda v: ExpandOp(v[0], [2, *shape]),
        lambda v: ExpandOp(v[0], [1, *shape]),
        lambda v: ReshapeOp(v[0], [-1, 1] if 0 not in shape else [0]),
    ]
    return data.draw(st.sampled_from(builds))


@few
@given(shapes_with_axes, st.data())
def test_what_follows_each_other_is_a_view_of_its_place(
    shape: Shape, data: st.DataObject
):
    build = moved_places(data, shape)
    numbered = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    op = build([value_like(numbered)])
    results = op.evaluate(numbered)
    pairs = {pair.result: pair for pair in op.in_place_pairs()}
    # A split is one as a whole.
    assert bool(pairs) == all(map(is_run, results))
    for index, result in enumerate(results):
        if pairs and result.size:
            first = 4 * int(result.flat[0])
            assert pairs[index] == InPlacePair(0, index, first, view=True)


@few
@given(shapes_with_axes, st.integers(0, 3), st.integers(0, 3))
def test_what_lies_next_to_each_other_may_be_put_there(
    shape: Shape, axis: int, other: int
):
    axis %= len(shape)
    first = np.zeros(shape, np.int64)
    second = np.ones([*shape[:axis], other, *shape[axis + 1 :]], np.int64)
    arrays = first, second
    op = ConcatOp(list(map(value_like, arrays)), axis)
    (result,) = op.evaluate(*arrays)
    flat = result.ravel().tolist()
    follow = [InPlacePair(0, 0, 0, True), InPlacePair(1, 0, -8 * first.size, True)]
    if first.size and second.size:
        assert list(op.in_place_pairs()) == (follow if sorted(flat) == flat else [])


def test_views_of_unknown_shapes_are_none():
    value = create_ssa_value(TensorType(f32, [DYNAMIC_INDEX, 2]))
    ops = [
        SliceOp(value, [0, 0], [1, 2], [1, 1]),
        SplitOp(value, 0, [1, 1]),
        ConcatOp([value, value], 0),
        ExpandOp(value, [3, 2]),
    ]
    assert not any(op.in_place_pairs() for op in ops)


@pytest.mark.parametrize("name", ["gather", "pad"])
def test_what_makes_other_bytes_is_no_view(name: str):
    build, arrays = CASES[name]
    assert not build(list(map(value_like, arrays))).in_place_pairs()


def test_ops_that_do_not_fit_cannot_be_built():
    value = value_like(numbers([4, 3]))
    with pytest.raises(VerifyException, match="cannot reshape 12 elements to"):
        ReshapeOp(value, [5])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-0.0, "-0.0"),
        (1e300, "1.0e+300"),
        (-1.2345678901234567e-20, "-1.2345678901234567e-20"),
        (12345678901234567.0, "1.2345678901234568e+16"),
        (float("inf"), "inf"),
        (float("-inf"), "neg_inf"),
        (float("nan"), "nan"),
    ],
)
def test_numbers_are_written_so_that_they_can_be_read(value: float, text: str):
    assert number_text(value) == text


################################################################################
# Kernels                                                                      #
################################################################################

KERNELS: dict[str, tuple[Build, list[Array]]] = {
    **CASES,
    "reshape_scalar": (lambda v: ReshapeOp(v[0], []), [numbers([1, 1], "int8")]),
    "reshape_from_scalar": (
        lambda v: ReshapeOp(v[0], [1, 1]),
        [numbers([], "float64")],
    ),
    "reshape_booleans": (lambda v: ReshapeOp(v[0], [-1]), [numbers([3, 5], "bool")]),
    "transpose_scalar": (lambda v: TransposeOp(v[0], []), [numbers([])]),
    "transpose_half": (
        lambda v: TransposeOp(v[0], [1, 0]),
        [numbers([5, 7], "float16")],
    ),
    "expand_scalar": (lambda v: ExpandOp(v[0], [2, 3]), [numbers([], "int64")]),
    "expand_to_nothing": (lambda v: ExpandOp(v[0], [0, 3]), [numbers([1, 3])]),
    "gather_scalar": (
        lambda v: GatherOp(v[0], v[1], 0),
        [numbers([5], "int32"), np.array(-5, "int32")],
    ),
    "gather_last_axis": (
        lambda v: GatherOp(v[0], v[1], -1),
        [numbers([3, 5]), np.array([4, -5, -1, 0], "int8")],
    ),
    "gather_no_index": (
        lambda v: GatherOp(v[0], v[1], 0),
        [numbers([0, 2]), np.zeros([0, 3], "int64")],
    ),
    "concat_empty": (
        lambda v: ConcatOp(v, -1),
        [numbers([2, 0], "int16"), numbers([2, 3], "int16")],
    ),
    "split_last_axis": (
        lambda v: SplitOp(v[0], -1, [2, 3]),
        [numbers([2, 1, 5], "bool")],
    ),
    "slice_scalar": (lambda v: SliceOp(v[0], [], [], []), [numbers([])]),
    "slice_nothing": (lambda v: SliceOp(v[0], [9], [4], [1]), [numbers([4])]),
    "slice_backwards": (
        lambda v: SliceOp(v[0], [0, 2**63 - 1], [4, -(2**63)], [3, -2]),
        [numbers([5, 6], "int64")],
    ),
    "pad_minus_infinity": (
        lambda v: PadOp(v[0], [0, 2], [1, 0], value=-np.inf),
        [numbers([2, 3])],
    ),
    "pad_images": (
        lambda v: PadOp(v[0], [0, 0, 2, 1], [0, 0, 0, 3], value=1.5),
        [numbers([2, 3, 4, 21])],
    ),
    "pad_rows": (
        lambda v: PadOp(v[0], [0, 0], [0, 5], value=-np.inf),
        [numbers([3, 17], "float64")],
    ),
    "pad_columns": (lambda v: PadOp(v[0], [1, 0], [2, 0]), [numbers([3, 33])]),
    "pad_booleans": (lambda v: PadOp(v[0], [1], [1], value=1), [numbers([3], "bool")]),
    "pad_bytes": (lambda v: PadOp(v[0], [1], [0], value=-128), [numbers([3], "int8")]),
    "pad_nothing": (
        lambda v: PadOp(v[0], [0, 0], [0, 0], PadMode.EDGE),
        [numbers([2, 3])],
    ),
    "pad_reflect_most": (
        lambda v: PadOp(v[0], [0, 2, 0], [0, 2, 1], PadMode.REFLECT),
        [numbers([2, 3, 2], "float64")],
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_do_what_numpy_does(run_op: RunOp, name: str) -> None:
    build, arrays = KERNELS[name]
    op = build(list(map(value_like, arrays)))
    op.verify()
    for got, wanted in zip(run_op(op, *arrays), op.evaluate(*arrays), strict=True):
        assert_same_bits(got, wanted)


def test_a_gather_kernel_stops_at_an_index_out_of_range(
    run_op: RunOp,
) -> None:
    a = numbers([4])
    op = GatherOp(value_like(a), value_like(np.array([0, 0])), 0)
    for index in (4, -5):
        with pytest.raises(RuntimeError, match=OUT_OF_RANGE):
            run_op(op, a, np.array([0, index]))
