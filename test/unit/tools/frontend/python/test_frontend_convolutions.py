"""Transposed convolutions of the Python front end, against sums written tap by tap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import numpy as np
import pytest
from draws import fresh

import penstock
from penstock.tools.frontend.python.errors import TraceError
from penstock.tools.frontend.python.jobs import Job
from penstock.tools.session.oracle import evaluate_model

Values = dict[str, Any]


def traced(function: Callable[..., Any], *arrays: Any) -> list[Any]:
    """The results of a function on tensors like the arrays, as its ops mean them."""
    names = [f"x{at}" for at in range(len(arrays))]
    types = [Annotated[penstock.Tensor, a.shape, a.dtype.name] for a in arrays]

    def job(x0: Any, x1: Any, x2: Any) -> Any:
        return function(x0, x1, x2)

    job.__annotations__ = dict(zip(names, types, strict=True))
    model = Job(job).trace().model()
    return [*evaluate_model(model, dict(zip(names, arrays, strict=True))).values()]


def drawn(rng: np.random.Generator, *shape: int) -> Any:
    return rng.normal(size=shape)


def sums(x: Any, w: Any, bias: Any, values: Values) -> Any:
    """Each element times all weights of its channel, added where they come to lie."""
    (sh, sw), (dh, dw) = values["strides"], values["dilations"]
    top, left, bottom, right = values["pads"]
    groups, (more_h, more_w) = values["groups"], values["output_pads"]
    (n, channels, h, width), (_, outputs, taps_h, taps_w) = x.shape, w.shape
    rows, columns = (h - 1) * sh + (taps_h - 1) * dh + 1, (width - 1) * sw + 1
    columns += (taps_w - 1) * dw
    # More than there may be of what is left out or comes behind.
    whole = np.zeros((n, groups * outputs, rows + more_h, columns + more_w))
    own = channels // groups
    for image, channel, i, j in np.ndindex(*x.shape):
        first = channel // own * outputs
        for tap_h, tap_w in np.ndindex(taps_h, taps_w):
            place = i * sh + tap_h * dh, j * sw + tap_w * dw
            product = x[image, channel, i, j] * w[channel, :, tap_h, tap_w]
            whole[(image, slice(first, first + outputs), *place)] += product
    rows, columns = whole.shape[2:]
    return (
        whole[:, :, top : rows - bottom, left : columns - right] + bias[:, None, None]
    )


DEFAULTS: Values = {
    "strides": (1, 1),
    "pads": (0, 0, 0, 0),
    "dilations": (1, 1),
    "groups": 1,
    "output_pads": (0, 0),
}


@pytest.mark.parametrize(
    ("weights", "own"),
    [
        ((4, 3, 3, 2), {}),
        ((4, 3, 2, 2), {"strides": (2, 2)}),
        ((4, 1, 3, 3), {"strides": (2, 3), "pads": (1, 0, 1, 2), "groups": 4}),
        ((4, 2, 3, 2), {"dilations": (2, 3), "groups": 2, "output_pads": (1, 2)}),
        (
            (4, 2, 1, 3),
            {"strides": (3, 2), "pads": (0, 1, 0, 1), "output_pads": (2, 1)},
        ),
    ],
)
def test_sums_and_their_gradients(weights: tuple[int, ...], own: Values) -> None:
    rng, values = fresh(), DEFAULTS | own
    x, w = drawn(rng, 2, 4, 3, 4), drawn(rng, *weights)
    bias = drawn(rng, weights[1] * values["groups"])
    wanted = sums(x, w, bias, values)
    factors = drawn(rng, *wanted.shape)

    def function(x: Any, w: Any, bias: Any) -> Any:
        def loss(x: Any, w: Any, bias: Any) -> Any:
            y = penstock.ops.conv2d_transposed(x, w, bias, **values)
            return (y * factors).sum(), y

        argnums = (0, 1, 2)
        made = penstock.value_and_grad(loss, argnums=argnums, has_aux=True)(x, w, bias)
        (_, y), gradients = made
        return [y, *gradients]

    y, *gradients = traced(function, x, w, bias)
    np.testing.assert_allclose(y, wanted, 1e-12, 1e-12)
    # The sums are linear in each operand, so that differences have no error of method.
    for at, gradient in enumerate(gradients):
        moved: list[Any] = [x, w, bias]
        change = drawn(rng, *moved[at].shape)
        moved[at] = moved[at] + change
        slope = ((sums(*moved, values=values) - wanted) * factors).sum()
        np.testing.assert_allclose((gradient * change).sum(), slope, 1e-10, 1e-10)


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"groups": 3}, "an input of 4 channels in 3 groups does not fit weights of 4"),
        ({"groups": 0}, "an input of 4 channels in 0 groups does not fit weights of 4"),
        ({"strides": (0, 1)}, "strides should be 2 numbers of at least 1, got [0, 1]"),
        (
            {"output_pads": (0,)},
            "output pads should be 2 numbers of at least 0, got [0]",
        ),
        ({"pads": (3, 0, 3, 0)}, "pads leave images of [-1, 4] elements"),
    ],
)
def test_numbers_that_are_refused(own: Values, message: str) -> None:
    def function(x: Any, w: Any, bias: Any) -> Any:
        return penstock.ops.conv2d_transposed(x, w, bias, **own)

    arrays = np.ones((2, 4, 3, 4)), np.ones((4, 2, 3, 1)), np.ones(2)
    with pytest.raises(TraceError) as caught:
        traced(function, *arrays)
    place, told = str(caught.value).split(": conv2d_transposed: ")
    assert place.startswith(__file__)
    assert told.startswith(message)


def test_shapes_that_do_not_fit_are_refused() -> None:
    def function(x: Any, w: Any, bias: Any) -> Any:
        return penstock.ops.conv2d_transposed(x, w, bias)

    for shapes, message in (
        (((4, 3, 4), (4, 2, 3, 1), (2,)), "the input should have four known extents"),
        (((2, 4, 3, 4), (3, 2, 3, 1), (2,)), "does not fit weights of 3 channels"),
        (((2, 4, 3, 4), (4, 2, 3, 1), (3,)), "3"),
    ):
        with pytest.raises(TraceError, match=message):
            traced(function, *map(np.ones, shapes))
