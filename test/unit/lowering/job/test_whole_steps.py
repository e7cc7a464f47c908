"""Whole networks and their gradients on kernels, against f64."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import GenericAlias
from typing import Annotated, Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from draws import fresh
from smooth_points import smooth_inputs

import penstock
from penstock import Tensor
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.model import read_model
from penstock.tools.session.oracle import evaluate_model
from penstock.tools.session.session import Session

Array: TypeAlias = npt.NDArray[Any]
Arrays: TypeAlias = Mapping[str, Array]
Shapes: TypeAlias = Mapping[str, tuple[int, ...]]
Network: TypeAlias = Callable[[Mapping[str, Any], Any, Any], Any]

ops: Any = penstock.ops


def normal(x: Any, w: Mapping[str, Any], name: str) -> Any:
    """Batch norm in training."""
    mean, variance = ops.batch_norm_statistics(x)
    return ops.batch_norm(x, w[f"{name}s"], w[f"{name}b"], mean, variance)


def convolutional(w: Mapping[str, Any], x: Any, labels: Any) -> Any:
    """Convolutions that are dense, by channel, and by group with a stride."""
    h = np.maximum(normal(ops.conv2d(x, w["c1"], pads=[1, 1, 1, 1]), w, "n1"), 0)
    h = ops.max_pool2d(h, kernel=[2, 2], strides=[2, 2])
    h = normal(ops.conv2d(h, w["c2"], pads=[1, 1, 1, 1], groups=4), w, "n2")
    h = ops.conv2d(
        np.maximum(h, 0), w["c3"], strides=[2, 2], pads=[1, 1, 1, 1], groups=2
    )
    h = ops.average_pool2d(h, kernel=[2, 2]).reshape(4, 8) @ w["f"] + w["fb"]
    return ops.cross_entropy(h, labels)


CONVOLUTIONAL: Shapes = {
    "c1": (4, 3, 3, 3),
    "n1s": (4,),
    "n1b": (4,),
    "c2": (4, 1, 3, 3),
    "n2s": (4,),
    "n2b": (4,),
    "c3": (8, 2, 3, 3),
    "f": (8, 5),
    "fb": (5,),
}


def block(w: Mapping[str, Any], x: Any, name: str, stride: int) -> Any:
    """Two convolutions beside the input, or beside one of its pixels."""
    h = ops.conv2d(x, w[f"{name}c1"], strides=[stride] * 2, pads=[1, 1, 1, 1])
    h = np.maximum(normal(h, w, f"{name}n1"), 0)
    h = normal(ops.conv2d(h, w[f"{name}c2"], pads=[1, 1, 1, 1]), w, f"{name}n2")
    if stride > 1:
        x = normal(ops.conv2d(x, w[f"{name}c3"], strides=[stride] * 2), w, f"{name}n3")
    return np.maximum(h + x, 0)


def residual(w: Mapping[str, Any], x: Any, labels: Any) -> Any:
    """A ResNet of two blocks."""
    h = np.maximum(normal(ops.conv2d(x, w["c1"], pads=[1, 1, 1, 1]), w, "n1"), 0)
    h = block(w, block(w, h, "a", 1), "b", 2)
    h = ops.global_average_pool(h).reshape(4, 8) @ w["f"] + w["fb"]
    return ops.cross_entropy(h, labels)


def norms(**channels: int) -> Shapes:
    return {f"{name}{part}": (n,) for name, n in channels.items() for part in "sb"}


RESIDUAL: Shapes = {
    "c1": (4, 3, 3, 3),
    **norms(n1=4, an1=4, an2=4, bn1=8, bn2=8, bn3=8),
    "ac1": (4, 4, 3, 3),
    "ac2": (4, 4, 3, 3),
    "bc1": (8, 4, 3, 3),
    "bc2": (8, 8, 3, 3),
    "bc3": (8, 4, 1, 1),
    "f": (8, 5),
    "fb": (5,),
}


def transformer(w: Mapping[str, Any], x: Any, labels: Any) -> Any:
    """A block of GPT-2 between an embedding and its transposed self."""
    h = ops.gather(w["e"], x, axis=0) + w["p"]
    n = ops.layer_norm(h, w["n1s"], w["n1b"], axis=2)
    q, k, v = (
        np.transpose((n @ w[part]).reshape(2, 8, 2, 4), (0, 2, 1, 3)) for part in "qkv"
    )
    mixed = ops.attention(q, k, v, causal=0, scale=0.5)
    h = h + np.transpose(mixed, (0, 2, 1, 3)).reshape(2, 8, 8) @ w["o"]
    n = ops.layer_norm(h, w["n2s"], w["n2b"], axis=2)
    h = h + ops.gelu(n @ w["up"] + w["upb"]) @ w["down"]
    return ops.cross_entropy(h @ np.transpose(w["e"], (1, 0)), labels)


TRANSFORMER: Shapes = {
    "e": (8, 8),
    "p": (8, 8),
    **norms(n1=8, n2=8),
    **dict.fromkeys("qkvo", (8, 8)),
    "up": (8, 8),
    "upb": (8,),
    "down": (8, 8),
}

IMAGES = (4, 3, 8, 8)
TOKENS = (2, 8)


def text_of(network: Network, shapes: Shapes, float: str) -> str:
    """The job of a network's loss and gradients by all its parameters."""

    def step(w: Any, x: Any, labels: Any) -> Any:
        named = dict(zip(shapes, w, strict=True))
        loss, found = penstock.value_and_grad(network, argnums=0)(named, x, labels)
        return {"loss": loss, **found}

    tokens = Annotated[Tensor, TOKENS, "i64"]
    pictures = Annotated[Tensor, IMAGES, float], Annotated[Tensor, (4,), "i64"]
    x, labels = (tokens, tokens) if network is transformer else pictures
    fields = tuple(Annotated[Tensor, each, float] for each in shapes.values())
    w = GenericAlias(tuple, fields)
    step.__annotations__ = {"w": w, "x": x, "labels": labels}
    return penstock.job(step).trace().ir


def cast_to(float: type, arrays: Arrays) -> dict[str, Array]:
    return {
        name: array.astype(float) if array.dtype.kind == "f" else array
        for name, array in arrays.items()
    }


def inputs_of(network: Network, shapes: Shapes) -> dict[str, Array]:
    rng = fresh()
    made: dict[str, Array] = {
        f"w.{i}": rng.normal(size=each) / 2 for i, each in enumerate(shapes.values())
    }
    if network is transformer:
        x, labels = rng.integers(0, 8, (2, *TOKENS))
    else:
        x, labels = rng.normal(size=IMAGES), rng.integers(0, 5, 4)
    # Both types get numbers that f32 has.
    return cast_to(np.float32, {**made, "x": x, "labels": labels})


def on_kernels(
    path: Path, inputs: Arrays, threads: int = 1, edits: Sequence[str] = ()
) -> dict[str, Array]:
    with Session.open(path, threads=threads, edits=edits) as session:
        return session.run(inputs)


def drawn(path: Path, network: Network, shapes: Shapes) -> tuple[Arrays, Arrays]:
    """Inputs of a job of `f64`, and what it puts out for them, with no edge near."""
    model = read_model(installed_compiler()[0], path)
    return smooth_inputs(
        lambda: cast_to(np.float64, inputs_of(network, shapes)),
        partial(evaluate_model, model),
        2.0**-14,
    )


def check(found: Arrays, wanted: Arrays, bound: float) -> None:
    assert found.keys() == wanted.keys()
    # Some gradients are 0 but for rounding, such as by a bias ahead of a norm.
    for name, exact in wanted.items():
        error = np.abs(found[name].astype(np.float64) - exact).max()
        assert error <= bound * max(np.abs(exact).max(), 1e-2), (name, error)


NETWORKS = [
    pytest.param(convolutional, CONVOLUTIONAL, id="convolutional"),
    pytest.param(residual, RESIDUAL, id="residual"),
    pytest.param(transformer, TRANSFORMER, id="transformer"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("network", "shapes"), NETWORKS)
def test_gradients_of_networks(
    tmp_path: Path, network: Network, shapes: Shapes
) -> None:
    single, double = tmp_path / "f32.mlir", tmp_path / "f64.mlir"
    single.write_text(text_of(network, shapes, "f32"))
    double.write_text(text_of(network, shapes, "f64"))
    exact, wanted = drawn(double, network, shapes)
    inputs = cast_to(np.float32, exact)
    found = on_kernels(single, inputs)
    check(found, wanted, 2.0**-12)
    again = on_kernels(single, inputs, threads=2)
    for name, array in found.items():
        np.testing.assert_array_equal(array, again[name])
    for policy in ("segments", "min-cut"):
        kept = on_kernels(single, inputs, edits=[f"set job-recompute.policy={policy}"])
        check(kept, wanted, 2.0**-12)
    mixed = on_kernels(single, inputs, edits=["set job-cast-amp.type=bf16"])["out.loss"]
    assert abs(mixed - wanted["out.loss"]) <= 16 * 2.0**-8 * abs(wanted["out.loss"])


@pytest.mark.parametrize(("network", "shapes"), NETWORKS)
def test_networks_against_central_differences(
    tmp_path: Path, network: Network, shapes: Shapes
) -> None:
    path, h = tmp_path / "f64.mlir", 1e-6
    path.write_text(text_of(network, shapes, "f64"))
    inputs, found = drawn(path, network, shapes)
    model = read_model(installed_compiler()[0], path)
    for number, name in list(enumerate(shapes))[::3]:
        losses: list[Any] = []
        for step in (h, -h):
            moved = inputs[f"w.{number}"].copy()
            moved.flat[1] += step
            losses.append(evaluate_model(model, {**inputs, f"w.{number}": moved}))
        slope = (losses[0]["out.loss"] - losses[1]["out.loss"]) / (2 * h)
        assert abs(found[f"out.{name}"].flat[1] - slope) <= 1e-6
