"""`penstock.optim` in traced functions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from math import cos, pi
from pathlib import Path
from typing import Annotated, Any, TypeAlias, cast

import numpy as np
import pytest

import penstock
from penstock import Session, Tensor, optim
from penstock.dialects.op.training.optimizers import OPTIMIZERS
from penstock.dialects.op.training.optimizers import Optimizer as Rule
from penstock.dialects.op.training.schedules import SCHEDULES
from penstock.tools.frontend.python.errors import TraceError

SEED = 30
X: TypeAlias = Annotated[Tensor, (8, 4), "f64"]
Y: TypeAlias = Annotated[Tensor, (8,), "f64"]
PLUGIN = str(Path(__file__).parents[5] / "examples" / "plugins" / "optimizer.py")

OURS = {
    "adagrad": optim.Adagrad,
    "adam": optim.Adam,
    "adamw": optim.AdamW,
    "lamb": optim.Lamb,
    "lars": optim.Lars,
    "momentum": optim.Momentum,
    "rmsprop": optim.RMSprop,
    "sgd": optim.SGD,
    "sparse_adam": optim.SparseAdam,
}
RATES = {
    "constant": optim.constant(0.1, warmup=2),
    "cosine": optim.cosine(0.1, total=9),
    "exponential": optim.exponential(0.1, gamma=0.9),
    "linear": optim.linear(0.1, total=9),
    "multistep": optim.multistep(0.1, milestones=[3, 6]),
    "polynomial": optim.polynomial(0.1, total=9, power=2),
    "step": optim.step_decay(0.1, every=3),
}


def data() -> tuple[Any, Any]:
    random = np.random.default_rng(SEED)
    return random.standard_normal((8, 4)), random.standard_normal(8)


def weights() -> tuple[Any, Any]:
    w = penstock.variable("w", (4,), "f64", init="normal", seed=3)
    return w, penstock.variable("bias", (), "f64", init="constant", value=0.5)


def loss_of(x: Any, y: Any) -> Any:
    w, bias = weights()
    return ((x @ w + bias - y) ** 2).mean()


def gradients_of(w: Any, bias: Any) -> list[Any]:
    """The gradients of the loss by both variables, in f64."""
    x, y = data()
    error = x @ w + bias - y
    return [2 * x.T @ error / 8, 2 * error.mean()]


def adamw(w: Any, g: Any, m: Any, v: Any, t: int, rate: float, decay: float) -> Any:
    """AdamW, as its paper has it."""
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g**2
    step = (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
    return w - rate * (step + decay * w), m, v


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-11)


def traced(function: Callable[[], object], **options: Any) -> str:
    return penstock.job(**options)(function).trace().ir


def updating(optimizer: optim.Optimizer, **given: Any) -> Callable[[], None]:
    """A function that updates a variable `w` by itself."""

    def update() -> None:
        w = penstock.variable("w", (3,), init="ones")
        optimizer.update({"w": w}, **given)

    return update


def test_adamw_with_groups_and_a_schedule_is_that_of_numpy() -> None:
    rate = optim.cosine(0.1, total=6, warmup=2)
    optimizer = optim.AdamW(
        rate, weight_decay=0.2, groups={"*bias": {"weight_decay": 0}}
    )

    @penstock.job
    def step(x: X, y: Y) -> Any:
        loss, gradients = penstock.value_and_grad(loss_of)(x, y)
        optimizer.update(gradients)
        return loss, rate.at(dtype="f64")

    rates = [0.05, 0.1, *(0.05 * (1 + cos(pi * t / 4)) for t in range(3))]
    with Session() as session:
        session.add(step)
        start = session.read_variables()
        kept: list[Any] = [[start[x], 0.0, 0.0] for x in ("w", "bias")]
        for t, expected in enumerate(rates, 1):
            found = gradients_of(kept[0][0], kept[1][0])
            x, y = data()
            want = ((x @ kept[0][0] + kept[1][0] - y) ** 2).mean()
            loss, got = step(x, y)
            close((loss, got), (want, expected))
            for i, decay in enumerate((0.2, 0.0)):
                w, m, v = kept[i]
                kept[i] = adamw(w, found[i], m, v, t, expected, decay)
        after = session.read_variables()
    assert after["step/step"] == len(rates)
    for name, arrays in zip(("w", "bias"), kept, strict=True):
        for key, array in zip(("", "/adamw/m", "/adamw/v"), arrays, strict=True):
            close(after[name + key], array)


def test_updates_in_a_structure_are_scaled_and_skipped() -> None:
    @penstock.job
    def step(x: X, y: Y, skip: Annotated[Tensor, (), "i1"]) -> Any:
        parts: Any = {"both": list(weights())}
        loss = loss_of(x, y) * 8
        _, gradients = penstock.value_and_grad(lambda: loss, by=parts)()
        optim.SGD(0.5).update(gradients, parts, skip=skip, scale=8)

    with Session() as session:
        session.add(step)
        before = session.read_variables()
        step(*data(), np.True_)
        skipped = session.read_variables()
        assert all((skipped[name] == before[name]).all() for name in before)
        step(*data(), np.False_)
        after = session.read_variables()
    found = gradients_of(before["w"], before["bias"])
    for name, gradient in zip(("w", "bias"), found, strict=True):
        expected = before[name] - 0.5 * gradient
        close(after[name], expected)
    assert (before["step/step"], after["step/step"]) == (0, 1)


def test_two_jobs_that_are_compiled_apart_count_their_own_steps() -> None:
    @penstock.job
    def one() -> None:
        v = penstock.variable("v", (2,), "f64", init="ones")
        optim.Adam(0.1).update({"v": v})

    @penstock.job
    def two() -> None:
        w = penstock.variable("w", (2,), "f64", init="ones")
        optim.Adam(0.1).update({"w": w})

    expected, m, v = 1.0, 0.0, 0.0
    with Session() as session:
        for t in range(1, 4):
            one()
            expected, m, v = adamw(expected, expected, m, v, t, 0.1, 0.0)
        two()
        found = session.read_variables()
    assert (found["one/step"], found["two/step"]) == (3, 1)
    close(found["v"], expected)
    close(found["w"], adamw(1.0, 1.0, 0.0, 0.0, 1, 0.1, 0.0)[0])


def test_one_schedule_is_made_for_all_variables_of_a_type() -> None:
    def step() -> None:
        parts = [
            penstock.variable(x, (2,), y) for x, y in zip("abc", TYPES, strict=True)
        ]
        optim.SGD(optim.constant(0.1)).update(parts, parts)

    assert traced(step).count("job.schedule") == 2


TYPES = "f32", "f32", "f64"


def test_a_rate_may_be_computed() -> None:
    text = traced(lambda: updating(optim.SGD(optim.step() * 0.5))())
    assert "with <sgd> rate %" in text


def test_a_group_may_have_a_rate() -> None:
    groups = {"w": {"rate": optim.constant(0.1)}}
    text = traced(updating(optim.SGD(0.5, groups=groups)))
    assert "job.schedule <constant" in text
    assert "with <sgd, rate = 0.5> rate" not in text


def test_an_optimizer_of_a_plugin_is_reached_by_its_name() -> None:
    step = updating(optim.Optimizer("lion", 0.1, beta1=0.5))
    assert "with <lion, rate = 0.1, beta1 = 0.5>" in traced(step, load=[PLUGIN])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_all_optimizers_are_there_and_tell_their_parameters(name: str) -> None:
    made = OURS[name](0.1)
    assert made.kind == name
    own = {x.name for x in fields(OPTIMIZERS[name])} - {x.name for x in fields(Rule)}
    told = re.findall(r"`(\w+)`", OURS[name].__doc__ or "")
    assert own <= set(told)
    assert f"with <{name}, rate = 0.1>" in traced(updating(made))


@pytest.mark.parametrize("name", SCHEDULES)
def test_all_schedules_are_there(name: str) -> None:
    assert f"job.schedule <{name}, base = 0.1" in traced(lambda: RATES[name].at())


def test_public_names_are_all_tested() -> None:
    classes = {x.__name__ for x in OURS.values()}
    functions = {x if x != "step" else "step_decay" for x in RATES}
    assert set(optim.__all__) == {
        *classes,
        *functions,
        "Optimizer",
        "Schedule",
        "step",
    }


def other(shape: tuple[int, ...] = (3,), dtype: str = "f32") -> Any:
    return penstock.variable("other", shape, dtype)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: optim.Adam(beta3=1.0), "'adam' does not take beta3"),
        (lambda: optim.Adam(beta1=2.0), "beta1 should be in [0, 1), got 2"),
        (lambda: optim.Adam(rate=cast("Any", "fast")), "'rate' must be a number"),
        (
            lambda: optim.SGD(groups={"*": {"decay": 1}}),
            "'sgd' does not take decay",
        ),
        (lambda: optim.Schedule("cosine", base=0.1), "'cosine' needs total"),
        (lambda: optim.constant(-1.0), "base should not be negative, got -1"),
    ],
)
def test_parameters_are_checked_where_they_are_given(
    make: Callable[[], object], message: str
) -> None:
    with pytest.raises(TraceError, match=re.escape(message)) as error:
        _ = make()
    assert Path(__file__).name in str(error.value)
    assert "\n" not in str(error.value)


W = optim.SGD(0.1)


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (lambda: W.update({"v": other()}), "there is no variable 'v'"),
        (lambda: W.update({"othr": other()}), "did you mean 'other'"),
        (lambda: W.update({"other": 1}), "a gradient should be a tensor, got a int"),
        (
            lambda: W.update([other()], [other() * 2]),
            "only variables are assigned to, got 3xf32",
        ),
        (lambda: W.update([other()], [3]), "only variables are updated, got a int"),
        (
            lambda: W.update([other()], {"a": other()}),
            "in the structure of the variables, got '0' for 'a'",
        ),
        (
            lambda: W.update([other()[0]], [other()]),
            "variable 'other' is 3xf32, got f32",
        ),
        (
            lambda: W.update([other(dtype="i64")], [other(dtype="i64")]),
            "only variables of floats are updated, got i64",
        ),
        (
            lambda: W.update([other(), other()], [other(), other()]),
            "variable 'other' is assigned twice",
        ),
        (
            lambda: W.update([other()], [other()], skip=other()),
            "a skip should be one i1, got 3xf32",
        ),
        (
            lambda: W.update([other()], [other()], scale=other()),
            "a scale should be one number, got 3xf32",
        ),
        (
            lambda: optim.SGD(other()).update([other()], [other()]),
            "a rate should be one number, got 3xf32",
        ),
        (
            lambda: optim.SGD(groups={"bias*": {}}).update([other()], [other()]),
            "no variable that is updated has a name 'bias*'",
        ),
        (
            lambda: optim.SGD(groups={"*": {"clip_norm": optim.step()}}),
            "'clip_norm' should be known, not computed",
        ),
        (updating(optim.Optimizer("leon")), "leon"),
        (lambda: optim.Schedule("sine").at(), "sine"),
        (lambda: optim.constant(0.1).at(other()), "should be one i64, got 3xf32"),
        (lambda: optim.constant(0.1).at(dtype="i64"), "a rate is f32 or f64, got i64"),
        (lambda: penstock.ops.loop(in_body, 1.0, times=2), "not assigned to"),
    ],
)
def test_updates_that_cannot_be_are_refused(
    step: Callable[[], object], message: str
) -> None:
    with pytest.raises(TraceError, match=re.escape(message)) as error:
        _ = traced(lambda: step() and None)
    assert Path(__file__).name in str(error.value)
    assert "\n" not in str(error.value)


def in_body(carry: Any, _: Any) -> Any:
    W.update([other()], [other()])
    return carry, None


@pytest.mark.parametrize(
    ("ask", "what"),
    [
        (optim.step, "the number of a step"),
        (optim.constant(0.1).at, "a rate"),
        (lambda: W.update({}), "an update of variables"),
    ],
)
def test_all_is_asked_for_in_a_job(ask: Callable[[], object], what: str) -> None:
    with pytest.raises(TraceError, match=f"{what} outside of a function"):
        _ = ask()
