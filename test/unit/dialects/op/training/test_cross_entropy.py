"""
The softmax cross entropy of labels: against a formula in `f64` that is written line by
line, its gradient against central differences, and kernels of all floats.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import exp, log
from typing import Any, TypeAlias

import numpy as np
import pytest
from kernel_runs import run_source
from ml_dtypes import bfloat16
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType
from xdsl.utils.test_value import create_ssa_value

from penstock.dialects.kernel.builder import kernel_body
from penstock.dialects.launch import KernelOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.training.cross_entropy import (
    SoftmaxCrossEntropyGradientOp,
    SoftmaxCrossEntropyOp,
)
from penstock.dialects.utils.numpy_types import element_type_of
from penstock.lowering.codegen.target import kernel_source

Array: TypeAlias = NDArray[Any]
Wide: TypeAlias = NDArray[np.float64]
Labels: TypeAlias = NDArray[np.int64]
RunOp: TypeAlias = Callable[..., list[Array]]
Settings: TypeAlias = Mapping[str, int | float]

EPSILONS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10} | {
    "bfloat16": 2.0**-7
}
SETTINGS: list[Settings] = [
    {},
    {"smoothing": 0.1},
    {"smoothing": 1.0},
    {"ignore_index": -100},
    {"ignore_index": 2, "smoothing": 0.25},
]
SHAPES = [((6, 5), -1), ((3, 4, 2), 1), ((4, 3), 0), ((5,), 0), ((4, 1), 1)]


def made(kind: type[TensorOp], *arrays: Array, **settings: float) -> TensorOp:
    """An op on values like the arrays."""
    types = [TensorType(element_type_of(a.dtype), a.shape) for a in arrays]
    op = kind.of(*map(create_ssa_value, types), **settings)
    op.verify()
    return op


def meaning(op: TensorOp, *arrays: Array) -> Array:
    """The only result of an op, in terms of NumPy."""
    (result,) = op.evaluate(*arrays)
    return np.asarray(result)


def operands(
    shape: tuple[int, ...], axis: int, settings: Settings, type: str = "float64"
) -> tuple[Array, Labels, Array]:
    """Scores, labels, some of which are ignored, and gradients of losses."""
    rng = np.random.default_rng([3, *shape])
    of_lines = [extent for at, extent in enumerate(shape) if at != axis % len(shape)]
    labels = rng.integers(0, shape[axis], of_lines)
    if "ignore_index" in settings:
        labels = np.where(rng.random(of_lines) < 0.4, settings["ignore_index"], labels)
        labels = np.where(labels >= shape[axis], 0, labels)
    if settings.get("ignore_index", 0) < 0 and labels.ndim:
        labels.reshape(-1)[:1] = settings["ignore_index"]
    dtype = bfloat16 if type == "bfloat16" else type
    scores, grad = rng.normal(0, 3, shape), rng.standard_normal(of_lines)
    return scores.astype(dtype), np.asarray(labels), np.asarray(grad).astype(dtype)


def loss_of_line(line: Wide, label: int, settings: Settings) -> float:
    """The loss of one line, term by term."""
    if label == settings.get("ignore_index"):
        return 0.0
    largest = max(line.tolist())
    total = largest + log(sum(exp(score - largest) for score in line.tolist()))
    smoothing = settings.get("smoothing", 0.0)
    smooth = sum(total - score for score in line.tolist()) / len(line)
    return (1 - smoothing) * (total - float(line[label])) + smoothing * smooth


def losses(scores: Wide, labels: Labels, axis: int, settings: Settings) -> Wide:
    lines = np.moveaxis(scores, axis, -1)
    found = np.zeros(labels.shape)
    for at in np.ndindex(labels.shape):
        found[at] = loss_of_line(lines[at], int(labels[at]), settings)
    return found


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_loss_and_its_gradient(
    shape: tuple[int, ...], axis: int, settings: Settings
) -> None:
    scores, labels, grad = operands(shape, axis, settings)
    wanted = losses(scores.astype(np.float64), labels, axis, settings)
    op = made(SoftmaxCrossEntropyOp, scores, labels, axis=axis, **settings)
    np.testing.assert_allclose(meaning(op, scores, labels), wanted, 1e-12, 1e-12)
    op = made(
        SoftmaxCrossEntropyGradientOp, scores, labels, grad, axis=axis, **settings
    )
    found = meaning(op, scores, labels, grad)
    slopes, step = np.zeros(shape), 1e-5
    for at in np.ndindex(shape):
        for sign in (1, -1):
            moved = scores.astype(np.float64)
            moved[at] += sign * step
            each = losses(moved, labels, axis, settings) * grad.astype(np.float64)
            slopes[at] += sign * float(np.sum(each)) / (2 * step)
    np.testing.assert_allclose(found, slopes, 1e-6, 1e-8)


@pytest.mark.parametrize(
    ("shape", "axis", "type", "settings"),
    [
        *(((9, 67), -1, "float32", settings) for settings in SETTINGS),
        *(((9, 67), -1, type, SETTINGS[-1]) for type in EPSILONS if type != "float32"),
        ((2, 7, 70), 1, "float32", SETTINGS[-1]),
        ((2, 7, 70), 1, "bfloat16", SETTINGS[0]),
        ((5,), 0, "float64", SETTINGS[0]),
    ],
    ids=str,
)
def test_kernels(
    shape: tuple[int, ...], axis: int, type: str, settings: Settings, run_op: RunOp
) -> None:
    scores, labels, grad = operands(shape, axis, settings, type)
    wide, rates = scores.astype(np.float64), grad.astype(np.float64)
    sums = EPSILONS[type if type == "float64" else "float32"] * 64
    op = made(SoftmaxCrossEntropyOp, scores, labels, axis=axis, **settings)
    exact = meaning(op, wide, labels)
    (found,) = run_op(op, scores, labels)
    assert found.dtype == scores.dtype
    np.testing.assert_allclose(
        found.astype(np.float64), exact, EPSILONS[type] + sums, 16 * sums
    )
    op = made(
        SoftmaxCrossEntropyGradientOp, scores, labels, grad, axis=axis, **settings
    )
    exact = meaning(op, wide, labels, rates)
    (found,) = run_op(op, scores, labels, grad)
    # The element of the label is rounded twice, once before its weight goes.
    largest = float(np.max(np.abs(rates)))
    np.testing.assert_allclose(
        found.astype(np.float64), exact, sums, (EPSILONS[type] + sums) * largest
    )


def test_labels_of_other_integers_and_far_scores(run_op: RunOp) -> None:
    scores = np.array([[1e4, 1e4 + 1], [-1e4, 1e4]], np.float32)
    labels = np.array([0, 1], np.int32)
    op = made(SoftmaxCrossEntropyOp, scores, labels)
    for found in (meaning(op, scores, labels), *run_op(op, scores, labels)):
        np.testing.assert_allclose(found, [log(1 + exp(1)), 0], 1e-6)


@pytest.mark.parametrize("label", [-1, 4])
def test_label_that_is_no_class(label: int, run_op: RunOp) -> None:
    scores, labels = np.zeros((3, 4), np.float32), np.array([0, label, 1])
    grad = np.ones(3, np.float32)
    ops = [
        (made(SoftmaxCrossEntropyOp, scores, labels), [scores, labels]),
        (
            made(SoftmaxCrossEntropyGradientOp, scores, labels, grad),
            [scores, labels, grad],
        ),
    ]
    for op, arrays in ops:
        with pytest.raises(IndexError, match="label out of range"):
            _ = op.evaluate(*arrays)
        with pytest.raises(RuntimeError, match="label out of range"):
            _ = run_op(op, *arrays)


def test_gradient_may_lie_over_the_scores() -> None:
    arrays = operands((4, 33), -1, {"ignore_index": 2}, "float32")
    op = made(SoftmaxCrossEntropyGradientOp, *arrays, ignore_index=2)
    wanted = meaning(op, *arrays)
    kernel = KernelOp("kernel", "cpu", kernel_body(op))
    assert run_source(kernel_source(kernel), [*arrays, arrays[0]]) == 0
    np.testing.assert_allclose(arrays[0], wanted, 1e-5, 1e-6)
