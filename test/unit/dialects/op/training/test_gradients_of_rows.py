"""Gradients that ops on rows say: softmax, norms and losses, in 64 bits."""

from __future__ import annotations

from typing import Any

import pytest
from central_differences import check_gradients, check_op
from draws import fresh

from penstock.dialects.op import (
    BatchNormOp,
    GroupNormOp,
    LayerNormOp,
    LogSoftmaxOp,
    RmsNormOp,
    SoftmaxOp,
)
from penstock.dialects.op.training.cross_entropy import SoftmaxCrossEntropyOp


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("op", [SoftmaxOp, LogSoftmaxOp])
def test_softmaxes(op: Any, axis: int) -> None:
    check_op(op, fresh().normal(size=(2, 3, 2)), axis=axis)


@pytest.mark.parametrize(("axis", "epsilon"), [(0, 1e-5), (1, 0.5), (-1, 0.01)])
def test_norms(axis: int, epsilon: float) -> None:
    """Norms of few elements that are nearly equal bend in a step with less epsilon."""
    rng, shape = fresh(), (2, 2, 3)
    x, scale, bias = (rng.normal(size=s) for s in (shape, shape[axis:], shape[axis:]))
    settings = {"axis": axis, "epsilon": epsilon}
    check_op(LayerNormOp, x, scale, bias, **settings)
    check_op(LayerNormOp, x, scale, **settings)
    check_op(RmsNormOp, x, scale, **settings)


@pytest.mark.parametrize("shape", [(3, 4), (2, 4, 2), (1, 4, 1, 2)])
def test_norms_of_channels(shape: tuple[int, ...]) -> None:
    rng = fresh()
    x, *others = (rng.normal(size=s) for s in (shape, *[shape[1]] * 3))
    variance = rng.uniform(0.5, 2, shape[1])
    check_op(BatchNormOp, x, *others, variance, epsilon=0.01)
    # A group of two elements bends in a step where they are nearly equal.
    check_op(GroupNormOp, x, *others[:2], groups=2, epsilon=0.01)
    check_op(GroupNormOp, x, others[0], groups=1, epsilon=0.1)


@pytest.mark.parametrize(
    "settings", [{}, {"ignore_index": 1}, {"smoothing": 0.2, "ignore_index": -1}]
)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_cross_entropy(axis: int, settings: dict[str, Any]) -> None:
    rng, shape = fresh(), [2, 3, 2]
    x = rng.normal(size=shape)
    classes = shape.pop(axis)
    least = min(0, settings.get("ignore_index", 0))
    labels = rng.integers(least, classes, shape)
    check_gradients(
        lambda o, ins: [o.one(SoftmaxCrossEntropyOp, *ins, axis=axis, **settings)],
        [x, labels],
    )
