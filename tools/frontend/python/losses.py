"""
Losses: functions on tensors that give one number, or one for each element.

All have a `reduction`: `"mean"` and `"sum"` give a scalar, `"none"` all losses. They
are made of ops on elements, which are fused with the reduction; the softmax cross
entropy is an op of its own, as its gradient is.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

from penstock.tools.frontend.python.calls import functions_of
from penstock.tools.frontend.python.errors import refuse
from penstock.tools.frontend.python.functions import sum_, where
from penstock.tools.frontend.python.tensor import Tensor

Reduction: TypeAlias = Literal["none", "mean", "sum"]
REDUCTIONS = ("none", "mean", "sum")


def _reduced(losses: Tensor, reduction: str) -> Tensor:
    if reduction not in REDUCTIONS:
        raise refuse(f"reduction should be one of {REDUCTIONS}, got {reduction!r}")
    if reduction == "none":
        return losses
    return functions_of("op")[f"reduce_{reduction}"](losses, [])


def cross_entropy(
    scores: Tensor,
    labels: Tensor,
    *,
    axis: int = -1,
    ignore_index: int | None = None,
    smoothing: float = 0.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """
    The softmax cross entropy of scores, one a class along an axis, for integer labels:
    see `op.softmax_cross_entropy`. Lines whose label is `ignore_index` have loss 0 and
    do not count in the mean, which is NaN if there are no others.
    """
    losses: Tensor = functions_of("op")["softmax_cross_entropy"](
        scores, labels, axis=axis, ignore_index=ignore_index, smoothing=smoothing
    )
    if reduction != "mean" or ignore_index is None:
        return _reduced(losses, reduction)
    counts = functions_of("op")["cast"](labels != ignore_index, to=losses.dtype)
    return sum_(losses) / sum_(counts)


def binary_cross_entropy(
    scores: Tensor, targets: Tensor, *, reduction: Reduction = "mean"
) -> Tensor:
    """
    The cross entropy of targets from 0 to 1 and the sigmoid of scores, computed of the
    scores, so that no logarithm is of 0.
    """
    # Both choices take the side of 0 together, so that the slope is right there.
    is_positive = scores >= 0
    positive = where(is_positive, scores, 0)
    rest = np.log1p(np.exp(where(is_positive, -scores, scores)))
    return _reduced(positive - scores * targets + rest, reduction)


def squared_error(
    values: Tensor, targets: Tensor, *, reduction: Reduction = "mean"
) -> Tensor:
    """The squares of differences; their mean is the mean squared error."""
    return _reduced(np.square(values - targets), reduction)


def absolute_error(
    values: Tensor, targets: Tensor, *, reduction: Reduction = "mean"
) -> Tensor:
    """The sizes of differences."""
    return _reduced(np.abs(values - targets), reduction)


def huber(
    values: Tensor,
    targets: Tensor,
    *,
    delta: float = 1.0,
    reduction: Reduction = "mean",
) -> Tensor:
    """
    Half the squares of differences up to `delta`, and from there on what goes on in a
    straight line.
    """
    if delta <= 0:
        raise refuse(f"delta should be above 0, got {delta}")
    difference = values - targets
    size = np.abs(difference)
    line = (size - delta / 2) * delta
    square = np.square(difference) / 2
    losses = where(size <= delta, square, line)
    return _reduced(losses, reduction)
