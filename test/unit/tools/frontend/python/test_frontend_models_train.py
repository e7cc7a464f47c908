"""Models whose weights are variables train on kernels: gradients are those of f64."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from draws import fresh
from smooth_points import smooth_inputs

import penstock
from penstock import Tensor, ops
from penstock.tools.session.oracle import evaluate_model

Array: TypeAlias = npt.NDArray[Any]
Shapes: TypeAlias = Mapping[str, tuple[int, ...]]
Loss: TypeAlias = Callable[[Mapping[str, Tensor], Tensor, Tensor], Tensor]

EPSILON = 2.0**-24
"""The rounding of one operation in f32."""


def normalized(x: Tensor, weights: Mapping[str, Tensor], name: str) -> Tensor:
    """A batch normalization in training, and a ReLU."""
    statistics = ops.batch_norm_statistics(x)
    scale, bias = weights[f"{name}_scale"], weights[f"{name}_bias"]
    return ops.relu(ops.batch_norm(x, scale, bias, *statistics))


CNN: Shapes = {
    "stem": (8, 3, 3, 3),
    "stem_scale": (8,),
    "stem_bias": (8,),
    "down": (16, 8, 3, 3),
    "down_scale": (16,),
    "down_bias": (16,),
    "each": (16, 1, 3, 3),
    "groups": (16, 4, 3, 3),
    "short": (16, 8, 1, 1),
    "head": (16, 5),
    "offset": (5,),
}


def cnn(w: Mapping[str, Tensor], x: Tensor, labels: Tensor) -> Tensor:
    """Convolutions of each kind, pools, a residual sum, and a linear layer."""
    same = (1, 1, 1, 1)
    x = normalized(ops.conv2d(x, w["stem"], pads=same), w, "stem")
    x = ops.max_pool2d(x, kernel=(2, 2), strides=(2, 2))
    y = normalized(ops.conv2d(x, w["down"], strides=(2, 2), pads=same), w, "down")
    y = ops.conv2d(y, w["each"], pads=same, groups=16)
    y = ops.conv2d(y, w["groups"], pads=same, groups=4)
    x = ops.relu(y + ops.conv2d(x, w["short"], strides=(2, 2)))
    scores = ops.gemm(x.mean(axis=(2, 3)), w["head"], w["offset"])
    return ops.cross_entropy(scores, labels)


# As wide as the networks of `test_whole_steps.py`, whose kernels they share.
TRANSFORMER: Shapes = {
    "table": (11, 8),
    "places": (6, 8),
    "scale": (8,),
    "bias": (8,),
    "q": (8, 8),
    "k": (8, 8),
    "v": (8, 8),
    "out": (8, 8),
    "up": (8, 32),
    "down": (32, 8),
}


def transformer(w: Mapping[str, Tensor], x: Tensor, labels: Tensor) -> Tensor:
    """A block on tokens, whose table is also the last layer."""

    def norm(x: Tensor) -> Tensor:
        return ops.layer_norm(x, w["scale"], w["bias"])

    def heads(x: Tensor) -> Tensor:
        return x.reshape(2, 6, 2, 4).transpose(0, 2, 1, 3)

    x = w["table"][x] + w["places"]
    q, k, v = (heads(norm(x) @ w[name]) for name in "qkv")
    seen = ops.attention(q, k, v, causal=0, scale=0.5)
    x = x + seen.transpose(0, 2, 1, 3).reshape(2, 6, 8) @ w["out"]
    x = x + ops.gelu(norm(x) @ w["up"]) @ w["down"]
    return ops.cross_entropy(norm(x) @ w["table"].T, labels, smoothing=0.1)


def images(random: np.random.Generator) -> tuple[Array, Array]:
    return random.normal(size=(4, 3, 12, 10)), random.integers(5, size=4)


def tokens(random: np.random.Generator) -> tuple[Array, Array]:
    text = random.integers(11, size=(2, 7))
    return text[:, :-1].copy(), text[:, 1:].copy()


MODELS: dict[str, tuple[Shapes, Loss, Callable[[np.random.Generator], Any]]] = {
    "cnn": (CNN, cnn, images),
    "transformer": (TRANSFORMER, transformer, tokens),
}


def job_of(loss: Loss, weights: Mapping[str, Array], x: Array, labels: Array) -> Any:
    """The job that returns the loss and its gradients by all weights."""

    def train(x: Tensor, labels: Tensor) -> object:
        def of_weights() -> Tensor:
            by_name = {n: penstock.variable(n, init=w) for n, w in weights.items()}
            return loss(by_name, x, labels)

        return penstock.value_and_grad(of_weights)()

    train.__annotations__ = {
        "x": Annotated[Tensor, x.shape, x.dtype.type],
        "labels": Annotated[Tensor, labels.shape, labels.dtype.type],
    }
    return penstock.job(train)


def drawn(name: str, random: np.random.Generator) -> dict[str, Array]:
    """Weights of a model, and a batch, in f64."""
    shapes, _, batch = MODELS[name]
    weights = {
        n: random.normal(size=s) / max(1, np.prod(s[1:])) ** 0.5
        for n, s in shapes.items()
    }
    x, labels = batch(random)
    return {**weights, "x": x, "labels": labels}


def meaning(name: str, values: Mapping[str, Array]) -> dict[str, Array]:
    """The loss and the gradients in f64, by NumPy."""
    shapes, loss, _ = MODELS[name]
    x, labels = batch = values["x"], values["labels"]
    job = job_of(loss, {key: values[key] for key in shapes}, *batch)
    found = evaluate_model(job.trace().model(), {"x": x, "labels": labels})
    return {key.removeprefix("out.1."): value for key, value in found.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_gradients_on_kernels_are_those_of_f64(name: str) -> None:
    # Some hundred roundings one after the other, those of weights among them.
    share = 256 * EPSILON
    random = fresh()
    values, wanted = smooth_inputs(
        lambda: drawn(name, random), lambda values: meaning(name, values), share / 4
    )
    single = {n: values[n].astype(np.float32) for n in MODELS[name][0]}
    x, labels = values["x"], values["labels"]
    x = x.astype(np.float32) if x.dtype == np.float64 else x
    runs: list[dict[str, Array]] = []
    for threads in (1, 2):
        with penstock.Session(threads=threads):
            loss, gradients = job_of(MODELS[name][1], single, x, labels)(x, labels)
            runs.append({"out.0": loss, **gradients})
    for key, array in wanted.items():
        bound = share * np.abs(array).max()
        assert np.abs(runs[0][key] - array).max() <= bound, key
        np.testing.assert_array_equal(runs[0][key], runs[1][key])
