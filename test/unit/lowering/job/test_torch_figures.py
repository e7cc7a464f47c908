"""
Training against figures of PyTorch, which `benchmarks/torch_figures.py` has written.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from optimizer_formulas import CASES
from torch_models import (
    FIGURES,
    INPUTS,
    RESNET,
    RESNET_STEPS,
    START,
    STEPS,
    TABLE,
    Wide,
    batch_of,
    gradient,
    rows_of,
    weights_of,
)

import penstock
from penstock import Session, Tensor, optim

Array: TypeAlias = NDArray[Any]
Weights: TypeAlias = Mapping[str, Any]

ops: Any = penstock.ops

NAMES = {"f32": np.float32, "f64": np.float64}

KEPT: Any = json.loads(FIGURES.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", KEPT["optimizers"])
def test_formulas_of_optimizers_are_those_of_torch(name: str) -> None:
    """With these formulas `test_updates` compares what kernels compute."""
    text, step = CASES[name]
    state: dict[str, Wide] = {"w": START}
    for t in range(1, STEPS + 1):
        step(state, gradient(t), t)
    np.testing.assert_allclose(
        state["w"], KEPT["optimizers"][name], rtol=1e-13, atol=1e-13, err_msg=text
    )


TABLES = ("sparse_adam", "sgd", "adagrad")


def table_step() -> Any:
    """A job that updates tables by gradients of rows."""

    def train(
        indices: Annotated[Tensor, (3,), "i64"],
        values: Annotated[Tensor, (3, 2), "f64"],
    ) -> None:
        for name in TABLES:
            w = penstock.variable(name, init=TABLE)

            def loss(w: Any) -> Any:
                return (ops.gather(w, indices, axis=0) * values).sum()

            gradients = penstock.grad(loss)(w)
            optim.Optimizer(name, 0.1).update(gradients)

    return penstock.job(train)


def test_tables_are_updated_by_rows_as_those_of_torch() -> None:
    """With rows that come twice in a step, and from a state in the middle on."""
    state: dict[str, Array] = {}
    for half in (range(1, STEPS // 2 + 1), range(STEPS // 2 + 1, STEPS + 1)):
        with Session() as session:
            train = table_step()
            session.add(train)
            if state:
                session.write_variables(state)
            for step in half:
                train(*rows_of(step))
            state = dict(session.read_variables())
    assert state.pop("train/step") == STEPS
    assert state.keys() == KEPT["tables"].keys()
    for name, array in state.items():
        np.testing.assert_allclose(
            array.reshape(-1), KEPT["tables"][name], 1e-12, 1e-13, err_msg=name
        )


def mlp(w: Weights, x: Any) -> Any:
    return np.tanh(x @ w["w1"] + w["b1"]) @ w["w2"] + w["b2"]


def cnn(w: Weights, x: Any) -> Any:
    h = ops.conv2d(x, w["c1"], pads=[1, 1, 1, 1])
    mean, variance = ops.batch_norm_statistics(h)
    h = ops.batch_norm(h, w["scale"], w["shift"], mean, variance)
    h = ops.max_pool2d(np.maximum(h, 0), kernel=[2, 2], strides=[2, 2])
    h = np.maximum(ops.conv2d(h, w["c2"], strides=[2, 2], pads=[1, 1, 1, 1]), 0)
    return h.reshape(4, 32) @ w["f"] + w["fb"]


def gpt(w: Weights, x: Any) -> Any:
    h = ops.gather(w["table"], x, axis=0) + w["places"]
    for a in "ab":
        n = ops.layer_norm(h, w[a + "s1"], w[a + "h1"], axis=2)
        q, k, v = (
            np.transpose((n @ w[a + part]).reshape(2, 8, 2, 4), (0, 2, 1, 3))
            for part in "qkv"
        )
        seen = ops.attention(q, k, v, causal=0, scale=0.5)
        h = h + np.transpose(seen, (0, 2, 1, 3)).reshape(2, 8, 8) @ w[a + "o"]
        n = ops.layer_norm(h, w[a + "s2"], w[a + "h2"], axis=2)
        h = h + ops.gelu(n @ w[a + "up"] + w[a + "upb"]) @ w[a + "down"]
    return h @ np.transpose(w["table"], (1, 0))


def lstm(w: Weights, x: Any) -> Any:
    by_state = w["by_state"]

    def cell(state: Any, gates: Any) -> Any:
        h, c = state
        i, g, o, z = np.split(gates + h @ by_state, 4, axis=1)
        c = ops.sigmoid(g) * c + ops.sigmoid(i) * np.tanh(z)
        h = ops.sigmoid(o) * np.tanh(c)
        return (h, c), h

    gates = ops.gather(w["by_input"], x, axis=0) + w["bias"]
    zero = gates[0, :, :8] * 0
    _, hidden = ops.loop(cell, (zero, zero), gates)
    return hidden @ w["out"]


NETWORKS: Mapping[str, Callable[[Weights, Any], Any]] = {
    "mlp": mlp,
    "cnn": cnn,
    "gpt": gpt,
    "lstm": lstm,
    "resnet18": RESNET["scores"],
}
SMALL = ("mlp", "cnn", "gpt", "lstm")
OPTIMIZERS: Mapping[str, Callable[[], Any]] = {
    "mlp": lambda: optim.AdamW(0.05, weight_decay=0.01),
    "cnn": lambda: optim.Momentum(0.05, nesterov=True),
    "gpt": lambda: optim.Adam(0.01, clip_norm=1.0),
    "lstm": lambda: optim.RMSprop(0.01),
    "resnet18": lambda: optim.Momentum(0.01),
}


def step_of(model: str, type: str) -> Any:
    """The job of a training step of a model."""
    shape, kinds, labels, _ = INPUTS[model]

    start = weights_of(model)

    def train(x: Any, y: Any) -> Any:
        w = {
            name: penstock.variable(name, init=value.astype(NAMES[type]))
            for name, value in start.items()
        }
        loss, gradients = penstock.value_and_grad(
            lambda: ops.cross_entropy(NETWORKS[model](w, x), y)
        )()
        OPTIMIZERS[model]().update(gradients)
        return loss

    train.__annotations__ = {
        "x": Annotated[Tensor, shape, type if kinds is None else "i64"],
        "y": Annotated[Tensor, labels, "i64"],
    }
    return penstock.job(train)


@contextmanager
def training(
    model: str, type: str, threads: int = 1
) -> Generator[tuple[Session, Callable[[range], list[float]]]]:
    """A session for steps of a model, and a function that does some: their losses."""
    with Session(threads=threads) as session:
        train = step_of(model, type)
        session.add(train)

        def steps(numbers: range) -> list[float]:
            losses: list[float] = []
            for number in numbers:
                x, y = batch_of(model, number)
                if x.dtype != np.int64:
                    x = x.astype(NAMES[type])
                losses.append(float(train(x, y)))
            return losses

        yield session, steps


def distance(losses: list[float], model: str) -> float:
    """The largest difference from PyTorch's losses in f64."""
    wanted = np.array(KEPT["losses"][model]["float64"])
    return float(np.abs(np.array(losses) - wanted).max())


@pytest.mark.slow
@pytest.mark.parametrize("model", SMALL)
def test_losses_follow_those_of_torch(model: str) -> None:
    """In f32 on two threads, and again from the middle, with the same bits."""
    with training(model, "f64") as (_, steps):
        assert distance(steps(range(STEPS)), model) <= 1e-9
    with training(model, "f32") as (session, steps):
        losses = steps(range(STEPS))
        end = dict(session.read_variables())
    assert distance(losses, model) <= 2 * distance(
        KEPT["losses"][model]["float32"], model
    )
    with training(model, "f32", threads=2) as (session, steps):
        half = steps(range(STEPS // 2))
        middle = dict(session.read_variables())
        for _ in range(2):
            assert half + steps(range(STEPS // 2, STEPS)) == losses
            again = session.read_variables()
            assert end.keys() == again.keys()
            for name, array in end.items():
                np.testing.assert_array_equal(array, again[name], err_msg=name)
            session.write_variables(middle)


@pytest.mark.slow
def test_a_resnet_follows_that_of_torch() -> None:
    """All 20 convolutions and norms, of fewer channels; its kernels take the time."""
    with training("resnet18", "f64") as (_, steps):
        assert distance(steps(range(RESNET_STEPS)), "resnet18") <= 1e-9
