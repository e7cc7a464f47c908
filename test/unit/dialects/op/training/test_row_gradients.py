"""
Gradients of softmax and of norms: against central differences of the ops themselves in
`f64`, and kernels of all floats against `evaluate` in `f64`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pytest
from kernel_runs import run_source
from ml_dtypes import bfloat16
from numpy.typing import NDArray
from xdsl.dialects.builtin import TensorType
from xdsl.utils.test_value import create_ssa_value

from penstock.dialects import op as ops
from penstock.dialects.kernel.builder import kernel_body
from penstock.dialects.launch import KernelOp
from penstock.dialects.op.tensor_op import InPlacePair, TensorOp
from penstock.dialects.op.training.row_gradients import (
    LayerNormGradientOp,
    LogSoftmaxGradientOp,
    RmsNormGradientOp,
    SoftmaxGradientOp,
)
from penstock.dialects.utils.numpy_types import element_type_of
from penstock.lowering.codegen.target import kernel_source

Array: TypeAlias = NDArray[Any]
Wide: TypeAlias = NDArray[np.float64]
RunOp: TypeAlias = Callable[..., list[Array]]
EPSILONS = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10} | {
    "bfloat16": 2.0**-7
}


class Case(NamedTuple):
    """A gradient, the op that it is of, and operands."""

    gradient: type[TensorOp]
    op: type[TensorOp]
    shape: Sequence[int]
    axis: int
    epsilon: float | None = None
    """That of a norm; the others have none."""

    def __str__(self) -> str:
        shape = "x".join(map(str, self.shape))
        return f"{self.gradient.name}-{shape}-{self.axis}-{self.epsilon}"

    @property
    def settings(self) -> dict[str, object]:
        found: dict[str, object] = {"axis": self.axis}
        return found | ({} if self.epsilon is None else {"epsilon": self.epsilon})

    def arrays(self) -> list[Wide]:
        """The input, the gradient of the result, and the scale if there is one."""
        rng = np.random.default_rng([7, *self.shape])
        columns = [] if self.epsilon is None else [self.shape[self.axis :]]
        shapes = [self.shape, self.shape, *columns]
        return [rng.standard_normal(shape) for shape in shapes]

    def operands(self, type: np.dtype[Any]) -> list[Array]:
        """The operands of the gradient, of this type."""
        x, grad, *scale = (array.astype(type) for array in self.arrays())
        if self.epsilon is None:
            x = self.forward(x.astype(np.float64)).astype(type)
        return [x, grad, *scale]

    def forward(self, x: Wide, *scale: Wide) -> Wide:
        """The op itself, in terms of NumPy."""
        return meaning(made(self.op, [x, *scale], **self.settings), x, *scale)

    def made(self, arrays: Sequence[Array]) -> TensorOp:
        """The gradient on values like the arrays."""
        return made(self.gradient, arrays, **self.settings)


def made(kind: type[TensorOp], arrays: Sequence[Array], **values: object) -> TensorOp:
    """An op on values like the arrays."""
    types = [TensorType(element_type_of(a.dtype), a.shape) for a in arrays]
    op = kind.of(*map(create_ssa_value, types), **values)
    op.verify()
    return op


def meaning(op: TensorOp, *arrays: Array) -> Array:
    """The only result of an op, in terms of NumPy."""
    (result,) = op.evaluate(*arrays)
    return np.asarray(result)


def differences(function: Callable[[Wide], Wide], x: Wide, grad: Wide) -> Wide:
    """The gradient of a function, from differences around each element."""
    step, found = 1e-5, np.zeros_like(x)
    for at in np.ndindex(x.shape):
        ends: list[float] = []
        for sign in (1, -1):
            moved = x.copy()
            moved[at] += sign * step
            ends.append(float(np.sum(function(moved) * grad)))
        found[at] = (ends[0] - ends[1]) / (2 * step)
    return found


def softmaxes(shape: Sequence[int], axis: int) -> list[Case]:
    return [
        Case(SoftmaxGradientOp, ops.SoftmaxOp, shape, axis),
        Case(LogSoftmaxGradientOp, ops.LogSoftmaxOp, shape, axis),
    ]


def norms(shape: Sequence[int], axis: int, epsilon: float = 1e-5) -> list[Case]:
    return [
        Case(LayerNormGradientOp, ops.LayerNormOp, shape, axis, epsilon),
        Case(RmsNormGradientOp, ops.RmsNormOp, shape, axis, epsilon),
    ]


SMALL = [
    *softmaxes((3, 5), -1),
    *softmaxes((2, 4, 3), 1),
    *softmaxes((4, 2), 0),
    *softmaxes((3, 1), 1),
    *norms((3, 6), -1),
    *norms((3, 2, 4), 1, 0.5),
    *norms((2, 3), 0),
    *norms((3, 1), -1),
]
LARGE = [*softmaxes((9, 67), -1), *norms((9, 67), -1), *softmaxes((3, 17, 5), 1)]


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_gradient_is_that_of_differences(case: Case) -> None:
    x, grad, *scale = case.arrays()
    operands = [x, grad, *scale]
    if case.epsilon is None:
        operands[0] = case.forward(x)
    found = meaning(case.made(operands), *operands)
    wanted = differences(lambda x: case.forward(x, *scale), x, grad)
    largest = max(float(np.max(np.abs(wanted))), 1e-3)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6 * largest)


@pytest.mark.parametrize("type", EPSILONS)
@pytest.mark.parametrize("case", [*LARGE, SMALL[2], SMALL[-3]], ids=str)
def test_kernel(case: Case, type: str, run_op: RunOp) -> None:
    dtype = np.dtype(bfloat16 if type == "bfloat16" else type)
    operands = case.operands(dtype)
    wide = [array.astype(np.float64) for array in operands]
    exact = meaning(case.made(wide), *wide)
    (found,) = run_op(case.made(operands), *operands)
    assert found.dtype == dtype
    # One rounding of the result, and those of sums in f32 or f64.
    sums = (
        16
        * prod(case.shape) ** 0.5
        * EPSILONS[type if type == "float64" else "float32"]
    )
    largest = float(np.max(np.abs(np.asarray(exact, np.float64))))
    np.testing.assert_allclose(
        found.astype(np.float64), exact, EPSILONS[type] + sums, sums * largest
    )


@pytest.mark.parametrize("over", [0, 1])
@pytest.mark.parametrize("case", [SMALL[0], SMALL[3], SMALL[8], SMALL[9]], ids=str)
def test_result_may_lie_over_each_row(case: Case, over: int) -> None:
    operands = case.operands(np.dtype("float32"))
    op = case.made(operands)
    assert [*op.in_place_pairs()] == [InPlacePair(0, 0), InPlacePair(1, 0)]
    wanted = meaning(op, *operands)
    kernel = KernelOp("kernel", "cpu", kernel_body(op))
    assert run_source(kernel_source(kernel), [*operands, operands[over]]) == 0
    np.testing.assert_allclose(operands[over], wanted, 1e-5, 1e-6)


@pytest.mark.parametrize("case", SMALL[:2] + SMALL[8:10], ids=str)
def test_no_rows(case: Case, run_op: RunOp) -> None:
    case = case._replace(shape=(0, *case.shape[1:]))
    operands = case.operands(np.dtype("float32"))
    (found,) = run_op(case.made(operands), *operands)
    assert found.shape == tuple(case.shape)
