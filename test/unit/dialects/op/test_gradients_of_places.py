"""Gradients of slices, joins, padding, scans and choices of elements, in 64 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from central_differences import check_gradients, check_op
from draws import fresh

from penstock.dialects.op import (
    CompressOp,
    ConcatOp,
    CumProdOp,
    CumSumOp,
    PadOp,
    ReduceMaxOp,
    ReduceMinOp,
    ReduceProdOp,
    RequireOp,
    SliceOp,
    SplitOp,
    TriangleOp,
    UniqueOp,
)
from penstock.dialects.op.padding import PadMode


def apart(rng: np.random.Generator, *shape: int) -> Any:
    """Numbers that are not near to each other: steps keep their order."""
    count = int(np.prod(shape))
    numbers = rng.permutation(count) + rng.uniform(-0.2, 0.2, count)
    return numbers.reshape(shape)


@pytest.mark.parametrize(
    ("starts", "ends", "steps"),
    [
        ([1, 0], [3, 7], [1, 1]),
        ([0, 1], [5, 7], [2, 3]),
        ([1, 2], [5, 6], [4, 2]),
        ([-1, -1], [-100, -100], [-1, -3]),
        ([4, 5], [0, 1], [-2, -1]),
        ([-3, -2], [100, 100], [2, 1]),
        ([2, 6], [3, 5], [7, -1]),
    ],
)
def test_slices(starts: list[int], ends: list[int], steps: list[int]) -> None:
    x = fresh().normal(size=(5, 7))
    check_op(SliceOp, x, starts=starts, ends=ends, steps=steps)


def test_a_slice_of_nothing_has_a_zero_gradient() -> None:
    x = fresh().normal(size=(3, 4))
    check_op(SliceOp, x, starts=[2, 0], ends=[2, 4], steps=[1, 1])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_joins_and_parts(axis: int) -> None:
    rng = fresh()
    shapes = [(2, 3), (2, 3), (2, 3)]
    shapes[1] = (1, 3) if axis == 0 else (2, 5)
    operands = [rng.normal(size=shape) for shape in shapes]
    check_gradients(lambda o, ins: [o.concat(ins, axis)], operands)
    sizes = [1, 0, 2] if axis == 0 else [2, 3, 1]
    x = rng.normal(size=(3, 6))
    check_op(SplitOp, x, axis=axis, sizes=sizes)


def test_parts_that_the_loss_does_not_need() -> None:
    x = fresh().normal(size=(3, 6))
    check_gradients(
        lambda o, ins: [o.results(SplitOp, *ins, axis=1, sizes=[2, 3, 1])[1]], [x]
    )


def test_a_value_joined_with_itself() -> None:
    x = fresh().normal(size=(2, 3))
    check_gradients(lambda o, ins: [o.one(ConcatOp, [ins[0], ins[0]], axis=0)], [x])


@pytest.mark.parametrize(
    ("shape", "before", "after"),
    [
        ((4, 3), [1, 0], [2, 0]),
        ((4, 3), [3, 2], [3, 2]),
        ((2, 5), [0, 4], [1, 0]),
        ((3, 4), [2, 0], [0, 3]),
    ],
)
@pytest.mark.parametrize("mode", list(PadMode))
def test_padding(
    mode: PadMode, shape: Any, before: list[int], after: list[int]
) -> None:
    x = apart(fresh(), *shape)
    check_op(PadOp, x, before=before, after=after, mode=mode, value=-1.5)


def test_edges_of_a_single_element() -> None:
    x = fresh().normal(size=(1, 2))
    check_op(PadOp, x, before=[3, 1], after=[2, 5], mode=PadMode.EDGE)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axes", [[0], [-1], [0, 2], []])
@pytest.mark.parametrize("op", [ReduceMaxOp, ReduceMinOp, ReduceProdOp])
def test_reductions(op: Any, axes: list[int], keepdims: bool) -> None:
    x = apart(fresh(), 2, 3, 4) / 8
    check_op(op, x, axes=axes, keepdims=keepdims)


@pytest.mark.parametrize("op", [ReduceMaxOp, ReduceMinOp])
def test_equal_elements_share_the_gradient(op: Any) -> None:
    """As torch.amax has it: a step of one side alone is half of a central one."""
    from central_differences import gradient_job, outputs_of
    from xdsl.context import Context

    from penstock.lowering import pass_of

    x = np.array([[2.0, 2.0, 2.0, 2.0], [1.0, 3.0, 1.0, 3.0]])
    module = gradient_job(lambda o, ins: [o.one(op, *ins, axes=[1])], [x], [0])
    pass_of("job-add-gradients")().apply(Context(), module)
    found = outputs_of(module, {"x0": x, "r0": np.array([8.0, 6.0])})["g0"]
    largest = op is ReduceMaxOp
    second = [0.0, 3.0, 0.0, 3.0] if largest else [3.0, 0.0, 3.0, 0.0]
    np.testing.assert_array_equal(found, [[2.0] * 4, second])


def with_zeros(x: Any, count: int) -> Any:
    """The array with zeros in each line along its last axis."""
    x = x.copy()
    x[..., 1 : 1 + count] = 0
    return x


@pytest.mark.parametrize("zeros", [1, 2])
@pytest.mark.parametrize("axes", [[1], [0, 1], [0]])
def test_products_with_zeros(axes: list[int], zeros: int) -> None:
    x = with_zeros(fresh().uniform(0.5, 1.5, (3, 4)), zeros)
    check_op(ReduceProdOp, x, axes=axes)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scans(axis: int, exclusive: bool, reverse: bool) -> None:
    flags = {"axis": axis, "exclusive": exclusive, "reverse": reverse}
    x = fresh().uniform(0.5, 1.5, (4, 3, 5))
    check_op(CumSumOp, x, **flags)
    check_op(CumProdOp, x, **flags)
    for zeros in (1, 2):
        check_op(CumProdOp, with_zeros(x, zeros), **flags)


@pytest.mark.parametrize(("axis", "most"), [(0, None), (1, None), (1, 3), (-1, 2)])
def test_slices_that_a_mask_keeps(axis: int, most: int | None) -> None:
    x = fresh().normal(size=(4, 5))
    mask = np.array([True, False, True, False])
    check_op(CompressOp, x, mask, axis=axis, max=most)


def test_rows_that_differ() -> None:
    rng = fresh()
    check_op(UniqueOp, apart(rng, 5, 2), sorted=True)
    check_op(UniqueOp, apart(rng, 6), sorted=False)


def test_triangles() -> None:
    rng = fresh()
    numbers = np.asarray(rng.normal()), np.asarray(rng.normal())
    check_op(TriangleOp, *numbers, shape=[2, 3, 5], offset=1)
    check_op(TriangleOp, *numbers, shape=[4, 3], offset=-2)
    check_op(TriangleOp, rng.normal(size=(4, 3)), numbers[1], shape=[4, 3], offset=0)


def test_a_value_under_a_condition() -> None:
    x = fresh().normal(size=(3, 1))
    truth = np.ones((2, 3, 4), np.bool_)
    check_op(RequireOp, truth, x, message="never")
