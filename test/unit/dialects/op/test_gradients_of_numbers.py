"""Gradients of elementwise ops, reductions, movement and products, in 64 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from central_differences import check_gradients, check_op
from draws import fresh

from penstock.dialects.op import (
    AbsOp,
    AddOp,
    CeilOp,
    ClipOp,
    DivOp,
    ErfOp,
    ExpandOp,
    ExpOp,
    FloorOp,
    GeluOp,
    GemmOp,
    LeakyReluOp,
    LocalResponseNormOp,
    LogOp,
    MatmulOp,
    MaximumOp,
    MinimumOp,
    MulOp,
    NegOp,
    PowOp,
    ReciprocalOp,
    ReduceMeanOp,
    ReduceSumOp,
    ReluOp,
    ReshapeOp,
    RsqrtOp,
    SigmoidOp,
    SqrtOp,
    SubOp,
    TanhOp,
    TransposeOp,
    WhereOp,
)


def apart(rng: np.random.Generator, *shape: int) -> Any:
    """Numbers that are not near to 0, nor to each other: steps keep their order."""
    count = int(np.prod(shape))
    numbers = (rng.permutation(count) + 1 + rng.uniform(-0.2, 0.2, count)) / 4
    return (numbers * rng.choice([-1, 1], count)).reshape(shape)


@pytest.mark.parametrize(
    "op", [AbsOp, ReluOp, SigmoidOp, TanhOp, ErfOp, ExpOp, NegOp, ReciprocalOp]
)
def test_functions(op: Any) -> None:
    check_op(op, apart(fresh(), 3, 4))


@pytest.mark.parametrize("op", [LogOp, SqrtOp, RsqrtOp])
def test_functions_of_positive_numbers(op: Any) -> None:
    check_op(op, np.abs(apart(fresh(), 3, 4)))


@pytest.mark.parametrize("op", [FloorOp, CeilOp])
def test_steps_have_a_zero_gradient(op: Any) -> None:
    check_op(op, fresh().uniform(0.1, 0.9, (3, 4)))


@pytest.mark.parametrize(
    ("op", "values"),
    [
        (LeakyReluOp, {"alpha": 0.3}),
        (ClipOp, {"min": -0.9, "max": 1.1}),
        (ClipOp, {"min": -0.9}),
        (ClipOp, {"max": 1.1}),
        (GeluOp, {}),
        (GeluOp, {"approximate": "tanh"}),
    ],
)
def test_functions_with_values(op: Any, values: dict[str, Any]) -> None:
    check_op(op, apart(fresh(), 3, 4), **values)


SHAPES = [((3, 4), (3, 4)), ((3, 4), (4,)), ((3, 1), (2, 1, 4)), ((), (2, 3))]


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("op", [AddOp, SubOp, MulOp, DivOp, MaximumOp, MinimumOp])
def test_two_numbers(op: Any, shapes: Any) -> None:
    rng = fresh()
    # Elements of the two are no neighbours, either.
    check_op(op, apart(rng, *shapes[0]), apart(rng, *shapes[1]) + 0.12)


@pytest.mark.parametrize("shapes", SHAPES)
def test_power(shapes: Any) -> None:
    rng = fresh()
    bases = np.exp(apart(rng, *shapes[0]) / 8)
    check_op(PowOp, bases, apart(rng, *shapes[1]) / 4)


def test_power_of_a_negative_number() -> None:
    operands = np.array([-1.5, 2.0, -0.5]), np.array([2.0, 3.0, 3.0])
    check_gradients(lambda o, ins: [o.one(PowOp, *ins)], operands, by=[0])


def test_choice() -> None:
    rng = fresh()
    condition = rng.random((3, 1)) < 0.5
    check_op(WhereOp, condition, rng.normal(size=(3, 4)), rng.normal(size=4))


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axes", [[0], [-1], [0, 2], [0, 1, 2]])
@pytest.mark.parametrize("op", [ReduceSumOp, ReduceMeanOp])
def test_sums(op: Any, axes: list[int], keepdims: bool) -> None:
    check_op(op, fresh().normal(size=(2, 3, 4)), axes=axes, keepdims=keepdims)


def test_movement() -> None:
    rng = fresh()
    check_op(ReshapeOp, rng.normal(size=(2, 6)), shape=[3, -1])
    check_op(TransposeOp, rng.normal(size=(2, 3, 4)), permutation=[2, 0, 1])
    check_op(ExpandOp, rng.normal(size=(3, 1)), shape=[2, 3, 4])


BOTH = True, True


@pytest.mark.parametrize(("size", "channels"), [(1, 3), (2, 3), (3, 2), (5, 4)])
def test_division_by_squares_of_channels_around(size: int, channels: int) -> None:
    values = {"size": size, "alpha": 0.7, "beta": 0.6, "bias": 1.3}
    check_op(LocalResponseNormOp, fresh().normal(size=(2, channels, 3)), **values)


MATRICES = [
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (6, 3, 4)),
    ((3,), (3, 4)),
    ((2, 3), (3,)),
    ((3,), (3,)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)),
]


def turned(shape: tuple[int, ...], turn: bool) -> tuple[int, ...]:
    return (*shape[:-2], shape[-1], shape[-2]) if turn and len(shape) > 1 else shape


@pytest.mark.parametrize("flags", [(False, False), (True, False), (False, True), BOTH])
@pytest.mark.parametrize("shapes", MATRICES)
def test_products(shapes: Any, flags: Any) -> None:
    flags = [flag and len(x) > 1 for flag, x in zip(flags, shapes, strict=True)]
    rng, (a, b) = fresh(), map(turned, shapes, flags)
    names = {"transpose_a": flags[0], "transpose_b": flags[1]}
    check_op(MatmulOp, rng.normal(size=a), rng.normal(size=b), **names)


@pytest.mark.parametrize("flags", [(False, False), (True, False), (False, True), BOTH])
@pytest.mark.parametrize("c", [None, (4,), (2, 1), ()])
def test_products_with_an_addend(c: Any, flags: Any) -> None:
    rng, (a, b) = fresh(), map(turned, ((2, 3), (3, 4)), flags)
    names = {"transpose_a": flags[0], "transpose_b": flags[1]}
    shapes = [a, b] if c is None else [a, b, c]
    check_op(
        GemmOp,
        *(rng.normal(size=shape) for shape in shapes),
        **names,
        alpha=0.7,
        beta=-1.3,
    )
