"""Losses of the Python front end, against formulas in NumPy and SciPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import pytest
from scipy import special

import penstock
from penstock.tools.frontend.python.errors import TraceError
from penstock.tools.frontend.python.jobs import Job
from penstock.tools.session.oracle import evaluate_model

SHAPE = 6, 5


def of(loss: Callable[..., Any], *arrays: Any, **settings: Any) -> Any:
    """A loss of two arrays, as the ops of a traced function mean."""
    types = [Annotated[penstock.Tensor, a.shape, a.dtype.name] for a in arrays]

    def traced(x: Any, t: Any) -> Any:
        return loss(x, t, **settings)

    traced.__annotations__ = dict(zip("xt", types, strict=True))
    model = Job(traced).trace().model()
    inputs = dict(zip("xt", arrays, strict=True))
    (found,) = evaluate_model(model, inputs).values()
    return found


def numbers(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).normal(0, 2, shape)


def log_sigmoid(x: Any) -> Any:
    return np.log(special.expit(x))


# pyright: reportUnknownLambdaType=false
FORMULAS: list[tuple[Any, dict[str, Any], Callable[[Any, Any], Any]]] = [
    (penstock.ops.squared_error, {}, lambda x, t: (x - t) ** 2),
    (penstock.ops.absolute_error, {}, lambda x, t: abs(x - t)),
    (
        penstock.ops.huber,
        {"delta": 1.5},
        lambda x, t: np.where(
            abs(x - t) < 1.5, (x - t) ** 2 / 2, 1.5 * abs(x - t) - 1.125
        ),
    ),
    (
        penstock.ops.binary_cross_entropy,
        {},
        lambda x, t: (
            -t * np.log(special.expit(x)) - (1 - t) * np.log(special.expit(-x))
        ),
    ),
]


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize(("loss", "settings", "formula"), FORMULAS)
def test_losses_of_elements(
    loss: Any, settings: Any, formula: Any, reduction: str
) -> None:
    x, t = numbers(*SHAPE), np.random.default_rng(3).random(SHAPE)
    wanted = formula(x, t)
    wanted = wanted if reduction == "none" else getattr(np, reduction)(wanted)
    found = of(loss, x, t, reduction=reduction, **settings)
    np.testing.assert_allclose(found, wanted, 1e-12)


def test_scores_far_away_have_finite_losses() -> None:
    x, t = np.array([1e4, -1e4]), np.array([0.0, 1.0])
    found = of(penstock.ops.binary_cross_entropy, x, t, reduction="none")
    np.testing.assert_allclose(found, [1e4, 1e4])


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_lines_that_are_ignored_do_not_count(reduction: str) -> None:
    x, t = numbers(*SHAPE), np.array([0, 4, -1, 2, -1, 3])
    totals = np.log(np.exp(x).sum(1))
    losses = np.where(t < 0, 0, totals - x[np.arange(len(t)), np.maximum(t, 0)])
    wanted = {"none": losses, "sum": losses.sum(), "mean": losses.sum() / 4}
    settings = {"ignore_index": -1, "reduction": reduction}
    found = of(penstock.ops.cross_entropy, x, t, **settings)
    np.testing.assert_allclose(found, wanted[reduction], 1e-12)


def test_settings_that_are_refused() -> None:
    x = numbers(*SHAPE)
    with pytest.raises(TraceError, match="reduction should be one of"):
        of(penstock.ops.squared_error, x, x, reduction="max")
    with pytest.raises(TraceError, match="delta should be above 0, got 0"):
        of(penstock.ops.huber, x, x, delta=0)
    assert "huber" in dir(penstock.ops)
