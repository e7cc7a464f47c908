"""Kernels of the gradients of windows against sums in 64 bits that are written here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import pytest
from draws import fresh
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.utils.test_value import create_ssa_value

from penstock.dialects.kernel.builder import kernel_body
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.training import (
    BatchNormGradientSumsOp,
    BatchNormStatisticsOp,
    Conv2dFilterGradientOp,
    MaxPool2dGradientOp,
)
from penstock.dialects.utils.numpy_types import element_type_of
from penstock.lowering.codegen.body.contraction import Contraction, contraction_of
from penstock.lowering.codegen.body.epilogue import stages_of

Array: TypeAlias = NDArray[Any]
RunOp: TypeAlias = Callable[..., list[Array]]

HALVES = [np.float16, ml_dtypes.bfloat16]
TYPES = [np.float32, *HALVES]
TERMS = 8
"""The units in the last place of the sum of all magnitudes that a sum may be off."""


def given(rng: np.random.Generator, type: Any, *shape: int) -> Array:
    return rng.normal(size=shape).astype(type)


def value_of(array: Array) -> SSAValue:
    return create_ssa_value(TensorType(element_type_of(array.dtype), array.shape))


def made(op: type[TensorOp], arrays: Sequence[Array], **values: Any) -> TensorOp:
    found = op.of(*map(value_of, arrays), **values)
    found.verify()
    return found


def check(found: Array, wanted: Array, magnitudes: Array | float) -> None:
    """Compare sums with those of 64 bits, by the sum of their terms' magnitudes."""
    assert found.shape == wanted.shape
    eps = 2.0 ** -{2: 10, 4: 23}[found.itemsize]
    if found.dtype == ml_dtypes.bfloat16:
        eps = 2.0**-7
    bound = TERMS * eps * (np.abs(wanted) + np.asarray(magnitudes)) + 1e-30
    assert np.all(np.abs(found.astype(np.float64) - wanted) <= bound)


def filter_gradient(x: Array, g: Array, taps: Any, values: dict[str, Any]) -> Array:
    """The sums of products, tap by tap."""
    (sh, sw), (dh, dw) = values["strides"], values["dilations"]
    top, left, bottom, right = values["pads"]
    groups = values["groups"]
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), (top, bottom), (left, right)])
    g = g.astype(np.float64)
    _, k, oh, ow = g.shape
    own = x.shape[1] // groups
    found = np.zeros((k, own, *taps))
    for i, j in np.ndindex(*taps):
        part = x[:, :, i * dh :, j * dw :][:, :, : (oh - 1) * sh + 1 : sh]
        part = part[:, :, :, : (ow - 1) * sw + 1 : sw]
        for out in range(k):
            group = out // (k // groups)
            images = part[:, group * own : (group + 1) * own]
            found[out, :, i, j] = np.einsum("nhw,nchw->c", g[:, out], images)
    return found


FILTERS: list[tuple[tuple[int, ...], int, tuple[int, int], dict[str, Any]]] = [
    ((2, 3, 9, 8), 8, (3, 3), {"pads": [1, 1, 1, 1]}),
    ((1, 8, 2, 260), 8, (3, 3), {"pads": [1, 1, 1, 1]}),
    ((1, 8, 9, 8), 16, (3, 3), {"pads": [1, 1, 1, 1], "strides": [2, 2]}),
    ((3, 4, 7, 8), 8, (1, 1), {"strides": [2, 2]}),
    ((2, 4, 9, 11), 6, (2, 3), {"groups": 2, "dilations": [3, 2]}),
    ((2, 3, 7, 9), 3, (3, 3), {"groups": 3, "pads": [0, 1, 2, 1]}),
    ((1, 5, 9, 9), 5, (3, 3), {"groups": 5, "strides": [2, 1]}),
]


@pytest.mark.parametrize(
    ("type", "shape", "outputs", "taps", "own"),
    [
        *((np.float32, *case) for case in FILTERS),
        *((type, *FILTERS[0]) for type in HALVES),
    ],
)
def test_filter_gradient(
    run_op: RunOp, type: Any, shape: Any, outputs: int, taps: Any, own: dict[str, Any]
) -> None:
    rng = fresh()
    defaults: dict[str, Any] = {
        "strides": [1, 1],
        "dilations": [1, 1],
        "pads": [0] * 4,
        "groups": 1,
    }
    values: dict[str, Any] = {**defaults, **own}
    x = given(rng, type, *shape)
    pads, counts = values["pads"], list[int]()
    for axis in range(2):
        spare = shape[2 + axis] + pads[axis] + pads[2 + axis] - 1
        spare -= (taps[axis] - 1) * values["dilations"][axis]
        counts.append(spare // values["strides"][axis] + 1)
    g = given(rng, type, shape[0], outputs, *counts)
    op = made(Conv2dFilterGradientOp, [x, g], kernel=taps, **values)
    (found,) = run_op(op, x, g)
    wanted = filter_gradient(x, g, taps, values)
    size = filter_gradient(np.abs(x), np.abs(g), taps, values)
    check(found, wanted, size)


def pool_gradient(
    x: Array, g: Array, kernel: Any, strides: Any, pads: Any, dilations: Any
) -> tuple[Array, Array]:
    """The largest elements of windows, and where their gradients go."""
    largest, given = np.zeros(g.shape), np.zeros(x.shape)
    for at in np.ndindex(*g.shape):
        best = None
        for i, j in np.ndindex(*kernel):
            row = at[2] * strides[0] - pads[0] + i * dilations[0]
            column = at[3] * strides[1] - pads[1] + j * dilations[1]
            if not (0 <= row < x.shape[2] and 0 <= column < x.shape[3]):
                continue
            value = x[at[0], at[1], row, column]
            if best is None or value > best[0]:
                best = value, row, column
        assert best is not None
        largest[at] = best[0]
        given[at[0], at[1], best[1], best[2]] += g[at]
    return largest, given


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize(
    ("kernel", "strides", "pads", "dilations", "counts"),
    [
        ((3, 3), (2, 2), (1, 1, 1, 1), (1, 1), (4, 5)),
        ((2, 3), (1, 1), (0, 1, 1, 0), (1, 1), (8, 8)),
        ((2, 2), (3, 1), (0, 0, 0, 0), (3, 2), (2, 7)),
        # Too many taps for code without a loop over them.
        ((6, 7), (1, 1), (0, 0, 0, 0), (1, 1), (3, 3)),
    ],
)
def test_max_pool_gradient(
    run_op: RunOp,
    type: Any,
    kernel: Any,
    strides: Any,
    pads: Any,
    dilations: Any,
    counts: Any,
) -> None:
    rng = fresh()
    # Few numbers, so that most windows have their largest one several times.
    x = rng.integers(-2, 3, (2, 3, 8, 9)).astype(type)
    g = rng.integers(-9, 10, (2, 3, *counts)).astype(type)
    largest, wanted = pool_gradient(x, g, kernel, strides, pads, dilations)
    values = {"kernel": kernel, "strides": strides, "pads": pads}
    arrays = [x, largest.astype(type), g]
    op = made(MaxPool2dGradientOp, arrays, **values, dilations=dilations)
    (found,) = run_op(op, *arrays)
    np.testing.assert_array_equal(found.astype(np.float64), wanted)


def test_a_nan_gets_the_gradient_of_its_windows(run_op: RunOp) -> None:
    x = np.array([[[[1, np.nan, 3], [np.nan, 2, 1]]]], np.float32)
    y = np.array([[[[np.nan, np.nan]]]], np.float32)
    g = np.array([[[[2, 5]]]], np.float32)
    op = made(MaxPool2dGradientOp, [x, y, g], kernel=[2, 2])
    wanted = np.array([[[[0, 7, 0], [0, 0, 0]]]], np.float32)
    np.testing.assert_array_equal(run_op(op, x, y, g)[0], wanted)
    np.testing.assert_array_equal(op.evaluate(x, y, g)[0], wanted)


SHAPES = [(4, 3, 5, 7), (2, 16, 9), (33, 5)]


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_batch_norm_statistics(run_op: RunOp, type: Any, shape: Any) -> None:
    rng = fresh()
    x = (given(rng, np.float64, *shape) + 100).astype(type)
    axes = (0, *range(2, x.ndim))
    wide = x.astype(np.float64)
    mean, variance = run_op(made(BatchNormStatisticsOp, [x]), x)
    check(mean, wide.mean(axes), 0)
    # The first element lies some deviations from the mean.
    check(variance, wide.var(axes), 16 * wide.var(axes))


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_batch_norm_gradient_sums(run_op: RunOp, type: Any, shape: Any) -> None:
    rng = fresh()
    x, g = (given(rng, type, *shape) for _ in range(2))
    mean = given(rng, type, shape[1])
    axes = (0, *range(2, x.ndim))
    wide = g.astype(np.float64)
    moved = x.astype(np.float64) - mean.astype(np.float64).reshape(
        -1, *[1] * (x.ndim - 2)
    )
    sums, products = run_op(made(BatchNormGradientSumsOp, [x, g, mean]), x, g, mean)
    check(sums, wide.sum(axes), np.abs(wide).sum(axes))
    check(products, (wide * moved).sum(axes), np.abs(wide * moved).sum(axes))


def test_no_images(run_op: RunOp) -> None:
    x, y = np.zeros((0, 2, 4, 4), np.float32), np.zeros((0, 2, 3, 3), np.float32)
    mean = np.zeros(2, np.float32)
    pool = made(MaxPool2dGradientOp, [x, y, y], kernel=[2, 2])
    assert run_op(pool, x, y, y)[0].shape == pool.evaluate(x, y, y)[0].shape == x.shape
    filters = made(Conv2dFilterGradientOp, [x, y], kernel=[2, 2])
    sums = made(BatchNormGradientSumsOp, [x, x, mean])
    found = [*run_op(filters, x, y), *run_op(sums, x, x, mean)]
    wanted = [*filters.evaluate(x, y), *sums.evaluate(x, x, mean)]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
        assert not one.any()
    statistics = made(BatchNormStatisticsOp, [x])
    for array in (*run_op(statistics, x), *statistics.evaluate(x)):
        assert np.isnan(array).all()


def test_sums_over_one_tall_image_are_a_contraction() -> None:
    x, g = np.zeros((1, 8, 26, 8), np.float32), np.zeros((1, 8, 24, 8), np.float32)
    values = {"kernel": [3, 3], "pads": [0, 1, 0, 1]}
    op = made(Conv2dFilterGradientOp, [x, g], **values)
    (stage,) = stages_of(kernel_body(op).block)
    assert isinstance(contraction_of(stage), Contraction)
