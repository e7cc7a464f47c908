"""`penstock.grad` and `penstock.value_and_grad` in traced functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeAlias

import numpy as np
import pytest

import penstock
from penstock import PenstockError, Tensor
from penstock.tools.frontend.python.errors import TraceError

SEED = 20
X: TypeAlias = Annotated[Tensor, (8, 4), "f32"]
Y: TypeAlias = Annotated[Tensor, (8,), "f32"]
Any3: TypeAlias = Annotated[Tensor, (3,), "f32"]
Ints: TypeAlias = Annotated[Tensor, (3,), "i64"]


def data() -> tuple[Any, Any]:
    random = np.random.default_rng(SEED)
    x = random.standard_normal((8, 4), np.float32)
    return x, random.standard_normal(8, np.float32)


def floats(*values: float) -> Any:
    return np.array(values, np.float32)


def weights() -> tuple[Any, Any]:
    w = penstock.variable("w", (4,), init="normal", seed=3)
    return w, penstock.variable("b", (), init="constant", value=0.5)


def loss_of(x: Any, y: Any) -> Any:
    w, b = weights()
    return ((x @ w + b - y) ** 2).mean()


def expected(w: Any, b: Any) -> tuple[Any, Any, Any]:
    """The loss and the gradients by w and b, in f64."""
    x, y = (array.astype(np.float64) for array in data())
    error = x @ w + b - y
    return (error**2).mean(), 2 * x.T @ error / 8, 2 * error.mean()


def square(a: Any) -> Any:
    return (a * a).sum()


def traced(function: Callable[..., object], *examples: object) -> str:
    return penstock.job(function).trace(*examples).ir


def test_gradients_by_all_variables_are_those_of_numpy() -> None:
    @penstock.job
    def step(x: X, y: Y) -> Any:
        loss, gradients = penstock.value_and_grad(loss_of)(x, y)
        return loss, gradients, weights()

    with penstock.Session() as session:
        loss, gradients, (w, b) = session.call(step, *data())
    wanted = expected(w.astype(np.float64), b.astype(np.float64))
    assert list(gradients) == ["w", "b"]
    for got, exact in zip((loss, *gradients.values()), wanted, strict=True):
        np.testing.assert_allclose(got, exact, rtol=1e-5)


def test_a_pattern_leaves_the_other_variables_frozen() -> None:
    def step(x: X, y: Y) -> Any:
        return penstock.grad(loss_of, by="w*")(x, y)

    ir = traced(step)
    assert " by %w : tensor<f32>, tensor<4xf32>" in ir
    assert "%b" in ir


def test_gradients_by_tensors_have_their_structure() -> None:
    def step(x: X, y: Y) -> Any:
        w, b = weights()
        return penstock.grad(loss_of, by={"bias": b, "weight": w})(x, y)

    ir = traced(step)
    assert 'job.output "out.bias", %b_grad' in ir
    assert 'job.output "out.weight", %w_grad' in ir


def test_gradients_by_arguments_have_their_structure() -> None:
    @penstock.job
    def step(a: Any3, b: Any3) -> Any:
        def product(pair: dict[str, Any], factor: Any) -> Any:
            return (pair["a"] * pair["b"] * factor).sum()

        pair = {"a": a, "b": b}
        one = penstock.grad(product, argnums=0)(pair, a)
        two = penstock.grad(product, argnums=(1,))(pair, a)
        return one, two

    a, b = floats(1, 2, 3), floats(4, 5, 6)
    with penstock.Session() as session:
        one, (two,) = session.call(step, a, b)
    # Both ways through `a` count, as it is one tensor.
    assert one["a"].tolist() == (2 * a * b).tolist()
    assert one["b"].tolist() == (a * a).tolist()
    assert two.tolist() == (2 * a * b).tolist()


def test_more_than_the_loss_is_returned_beside_it() -> None:
    @penstock.job
    def step(x: X, y: Y) -> Any:
        def with_mean(x: Any, y: Any) -> Any:
            return loss_of(x, y), {"mean": y.mean()}

        (loss, aux), gradients = penstock.value_and_grad(with_mean, has_aux=True)(x, y)
        same, also = penstock.grad(with_mean, has_aux=True)(x, y)
        return loss, aux, gradients["w"], same["w"], also

    with penstock.Session() as session:
        _, aux, gradient, same, also = session.call(step, *data())
    assert aux["mean"] == also["mean"]
    assert gradient.tobytes() == same.tobytes()


def tied() -> Any:
    return penstock.variable("e", (4, 4), init="normal", seed=1)


def test_tied_weights_have_the_sum_of_both_gradients() -> None:
    @penstock.job
    def step(x: X) -> Any:
        def loss(x: Any) -> Any:
            return np.tanh(x @ tied() @ tied().T).sum()

        e = tied()
        return penstock.grad(loss)(x)["e"], e

    x, _ = data()
    with penstock.Session() as session:
        gradient, e = session.call(step, x)
    x, e = x.astype(np.float64), e.astype(np.float64)
    slope = 1 - np.tanh(x @ e @ e.T) ** 2
    wanted = x.T @ (slope @ e) + slope.T @ (x @ e)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-4, atol=1e-5)


def test_a_stopped_value_is_a_constant() -> None:
    @penstock.job
    def step(a: Any3) -> Any:
        def product(a: Any) -> Any:
            return (a * penstock.ops.stop_gradient(a * a)).sum()

        return penstock.grad(product, argnums=0)(a)

    with penstock.Session() as session:
        assert session.call(step, floats(1, 2, 3)).tolist() == [1, 4, 9]


def test_a_job_is_derived_like_its_function() -> None:
    @penstock.job
    def loss(x: X, y: Y) -> Any:
        return loss_of(x, y)

    def step(x: X, y: Y) -> Any:
        return penstock.grad(loss)(x, y)

    def same(x: X, y: Y) -> Any:
        return penstock.grad(loss_of)(x, y)

    assert traced(step) == traced(same).replace("@same", "@step")


def test_a_gradient_has_a_gradient() -> None:
    @penstock.job
    def step(a: Any3) -> Any:
        def cubes(a: Any) -> Any:
            return (a * a * a).sum()

        def slopes(a: Any) -> Any:
            return penstock.grad(cubes, argnums=0)(a).sum()

        return penstock.grad(slopes, argnums=0)(a)

    with penstock.Session() as session:
        assert session.call(step, floats(1, 2, 3)).tolist() == [6, 12, 18]


# Errors: one line, that begins with the place


def refused(function: Callable[..., object], message: str) -> None:
    """Check an error's line whole, which names a place in this file."""
    with pytest.raises(TraceError) as caught:
        traced(function)
    place, _, text = str(caught.value).partition(": ")
    assert place.split(":")[0] == __file__
    assert text == message


def by_w(loss: Callable[[Any], object], **options: Any) -> Callable[..., object]:
    """A job with a gradient of a function of `w`, and variables of others."""

    def step() -> Any:
        w = penstock.variable("w", (3,))
        penstock.variable("other", (3,))
        penstock.variable("count", (3,), "i64")
        return penstock.grad(lambda: loss(w), **options)()

    return step


Case: TypeAlias = tuple[Callable[[Any], object], dict[str, Any], str]
REFUSED: list[Case] = [
    (lambda w: w * w, {}, "the loss should be a scalar of floats, got 3xf32"),
    (
        lambda w: w.astype("i64").sum(),
        {},
        "the loss should be a scalar of floats, got i64",
    ),
    (lambda w: 3.0, {}, "the loss should be a scalar tensor, got a float"),
    (
        lambda w: (w.sum(), w),
        {},
        "the loss should be a scalar tensor, and others with has_aux=True, got a tuple",
    ),
    (
        lambda w: w.sum(),
        {"has_aux": True},
        "with has_aux=True a function returns a loss and something",
    ),
    (
        lambda w: w.sum(),
        {"by": "other"},
        "the loss does not depend on variable 'other'",
    ),
    (
        lambda w: w.sum(),
        {"by": ["w", "othr"]},
        "there is no variable 'othr', did you mean 'other'?",
    ),
    (
        lambda w: w.sum(),
        {"by": "count"},
        "variable 'count' is 3xi64, and there are gradients by floats only",
    ),
    (
        lambda w: penstock.ops.stop_gradient(w).sum(),
        {},
        "the loss depends on no variable: gradients by arguments need argnums",
    ),
    (lambda w: w.sum(), {"argnums": 0}, "there is no argument 0 of 0"),
    (
        lambda w: w.sum(),
        {"argnums": 0, "by": "w"},
        "gradients are by variables or by arguments, got both",
    ),
    (
        lambda w: w.sum(),
        {"by": [3]},
        "gradients are by tensors, got a int as 'by.0'",
    ),
    (lambda w: w.sum(), {"by": {}}, "gradients are by at least one tensor"),
]
"""Losses of `w`, options, and the error."""


@pytest.mark.parametrize(("loss", "options", "message"), REFUSED)
def test_what_has_no_gradient_is_refused_at_its_line(
    loss: Callable[[Any], object], options: dict[str, Any], message: str
) -> None:
    refused(by_w(loss, **options), message)


def test_a_gradient_by_an_argument_of_integers_is_refused() -> None:
    def step(n: Ints) -> Any:
        def total(n: Any) -> Any:
            return n.astype("f32").sum()

        return penstock.grad(total, argnums=0)(n)

    refused(step, "'argument' is 3xi64, and there are gradients by floats only")


def test_gradients_in_a_body_are_refused() -> None:
    def step(a: Any3) -> Any:
        def body(a: Any, _: object) -> Any:
            return penstock.grad(square, argnums=0)(a), None

        return penstock.ops.loop(body, a, times=2)

    refused(
        step, "there are no gradients in an iteration of a loop: ask for them after"
    )


def test_gradients_outside_of_a_job_are_refused() -> None:
    with pytest.raises(TraceError, match="a gradient outside of a function that is"):
        penstock.grad(square, argnums=0)(3)


def test_an_op_without_a_gradient_names_the_line_that_asks_for_it() -> None:
    @penstock.job
    def step(a: Any3) -> Any:
        def loss(a: Any) -> Any:
            return penstock.ops.bitcast(a, to="f32").sum()

        return penstock.grad(loss, argnums=0)(a)

    with penstock.Session() as session, pytest.raises(PenstockError) as caught:
        session.call(step, floats(1, 2, 3))
    line = step.place.line + 3
    assert str(caught.value).startswith(f"{__file__}:{line}:20: job-add-gradients: ")
    assert "'op.bitcast' has no gradient: " in str(caught.value)
