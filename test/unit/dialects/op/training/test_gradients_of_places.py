"""Gradients of ops with indices, in 64 bits, and the sums of rows of embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from central_differences import (
    check_gradients,
    check_op,
    gradient_job,
    outputs_of,
)
from draws import fresh
from ml_dtypes import bfloat16
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import TensorType
from xdsl.utils.test_value import create_ssa_value

from penstock.dialects.op import (
    GatherElementsOp,
    GatherNdOp,
    GatherOp,
    ScatterElementsOp,
    ScatterNdOp,
    TopKOp,
)
from penstock.dialects.op.op_builder import OpBuilder
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.training.embedding_gradient import (
    EmbeddingGradientOp,
    shares_of,
)
from penstock.dialects.utils.gradients import NoGradient
from penstock.dialects.utils.numpy_types import element_type_of
from penstock.lowering import pass_of

Array: TypeAlias = NDArray[Any]
RunOp: TypeAlias = Callable[..., list[Array]]


def apart(rng: np.random.Generator, *shape: int) -> Array:
    """Numbers that steps of differences keep in their order."""
    return rng.permutation(int(np.prod(shape))).reshape(shape) / 4.0


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("places", [(), (3,), (2, 2)])
def test_gather(axis: int, places: tuple[int, ...]) -> None:
    rng = fresh()
    check_op(
        GatherOp, rng.normal(size=(3, 2, 3)), rng.integers(-2, 2, places), axis=axis
    )


def test_gather_of_elements_and_parts() -> None:
    rng = fresh()
    data = rng.normal(size=(3, 2, 4))
    check_op(GatherElementsOp, data, rng.integers(-2, 2, (2, 3, 4)), axis=1)
    check_op(GatherNdOp, data, rng.integers(-2, 2, (3, 2)).astype(np.int32), batch=0)
    check_op(GatherNdOp, data, rng.integers(-2, 2, (3, 5, 1)), batch=1)
    check_op(GatherNdOp, data, rng.integers(-2, 2, (3, 2, 2, 1)), batch=2)


@pytest.mark.parametrize("mode", ["set", "add", "max", "min"])
def test_scatter(mode: str) -> None:
    rng = fresh()
    numbers = apart(rng, 4, 10)
    data, updates = numbers[:, :4].copy(), numbers[:, 4:].copy()
    places = rng.integers(-4, 4, (4, 6))
    check_op(ScatterElementsOp, data, places, updates, axis=1, mode=mode)
    check_op(ScatterNdOp, data, places[0, :, None], updates.T.copy(), mode=mode)


def test_equal_numbers_have_equal_shares() -> None:
    """Of three that are the largest, each has a third."""
    op = ScatterElementsOp
    data, places = np.array([1.0, 0.0]), np.array([0, 0])

    def build(o: Any, ins: Any) -> Any:
        return [o.one(op, *ins, axis=0, mode="max")]

    module = gradient_job(build, [data, places, np.ones(2)], [0, 2])
    pass_of("job-add-gradients")().apply(Context(), module)
    inputs = {"x0": data, "x1": places, "x2": np.ones(2), "r0": np.array([3.0, 5.0])}
    found = outputs_of(module, inputs)
    np.testing.assert_allclose(found["g0"], [1, 5])
    np.testing.assert_allclose(found["g2"], [1, 1])


def test_products_of_updates_are_refused() -> None:
    arrays = np.zeros(3), np.zeros(2, int), np.ones(2)
    op = made(ScatterElementsOp, *arrays, axis=0, mode="mul")
    o = OpBuilder(lambda op: op)
    with pytest.raises(NoGradient, match="updates of one place are multiplied"):
        _ = op.gradient(o, op.results[0])


@pytest.mark.parametrize("smallest", [False, True])
def test_top_k(smallest: bool) -> None:
    check_op(TopKOp, apart(fresh(), 4, 5), count=3, axis=0, smallest=smallest)


################################################################################
# Embeddings                                                                   #
################################################################################


def made(kind: type[TensorOp], *arrays: Array, **values: object) -> TensorOp:
    """An op on values like the arrays."""
    types = [TensorType(element_type_of(a.dtype), a.shape) for a in arrays]
    op = kind.of(*map(create_ssa_value, types), **values)
    op.verify()
    return op


def summed(grad: Array, indices: Array, rows: int) -> Array:
    """The sums of rows, one row after the other."""
    columns = grad.shape[indices.ndim :]
    found = np.zeros((rows, *columns), np.float64)
    for at in np.ndindex(indices.shape):
        found[int(indices[at])] += grad[at].astype(np.float64)
    return found


@pytest.mark.parametrize(
    ("indices", "columns", "type"),
    [
        ((3, 7), (64,), "float32"),
        ((40,), (5, 30), "float64"),
        ((33,), (33,), bfloat16),
        ((9,), (), "float32"),
        ((), (4,), "float16"),
        ((0,), (4,), "float32"),
        ((6,), (0,), "float32"),
    ],
    ids=str,
)
def test_rows_are_summed(
    indices: tuple[int, ...], columns: tuple[int, ...], type: Any, run_op: RunOp
) -> None:
    rng = fresh()
    places = rng.integers(-11, 11, indices)
    grad = rng.normal(size=(*indices, *columns)).astype(type)
    op = made(EmbeddingGradientOp, grad, places, rows=11)
    wanted = summed(grad, places, 11)
    epsilon = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10}
    # Each partial sum is rounded, and at most all of them are of one row.
    error = epsilon.get(grad.dtype.name, 2.0**-7) * max(1, places.size)
    wide: Any = op.evaluate(grad.astype(np.float64), places)[0]
    np.testing.assert_allclose(np.asarray(wide), wanted, 1e-12, 1e-12)
    (found,) = run_op(op, grad, places)
    largest = float(np.abs(wanted).max(initial=0))
    np.testing.assert_allclose(found.astype(np.float64), wanted, error, error * largest)


def test_an_index_out_of_range_names_no_row(run_op: RunOp) -> None:
    grad = fresh().normal(size=(6, 3)).astype(np.float32)
    places = np.array([0, 4, -4, -5, 3, 1 << 40])
    op = made(EmbeddingGradientOp, grad, places, rows=4)
    wanted = np.zeros((4, 3), np.float32)
    wanted[0], wanted[3] = grad[0] + grad[2], grad[4]
    np.testing.assert_array_equal(np.asarray(op.evaluate(grad, places)[0]), wanted)
    np.testing.assert_array_equal(run_op(op, grad, places)[0], wanted)


@pytest.mark.parametrize(
    ("width", "shares"), [(0, 1), (31, 1), (32, 2), (768, 32), (4096, 64)]
)
def test_shares_have_more_to_add_than_to_read(width: int, shares: int) -> None:
    assert shares_of(width) == shares


def test_parts_add_in_the_order_of_the_indices() -> None:
    """A gather by its gradient is the same in float32 as one sum after the other."""
    rng = fresh()
    grad = rng.normal(size=(50, 64)).astype(np.float32)
    places = rng.integers(0, 3, 50)
    op = made(EmbeddingGradientOp, grad, places, rows=3)
    wanted = np.zeros((3, 64), np.float32)
    for place, row in zip(places, grad, strict=True):
        wanted[place] += row
    np.testing.assert_array_equal(np.asarray(op.evaluate(grad, places)[0]), wanted)


def test_gather_twice_adds_both() -> None:
    rng = fresh()
    check_gradients(
        lambda o, ins: [
            o.mul(o.one(GatherOp, *ins, axis=0), o.one(GatherOp, *ins, axis=0))
        ],
        [rng.normal(size=(3, 2)), rng.integers(0, 3, 4)],
    )
