"""Gradients of trigonometric and hyperbolic ops and of rounding, in 64 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from central_differences import check_op
from draws import fresh

from penstock.dialects.op import (
    AcoshOp,
    AcosOp,
    AsinhOp,
    AsinOp,
    AtanhOp,
    AtanOp,
    CoshOp,
    CosOp,
    Log1pOp,
    RemOp,
    RoundOp,
    SinhOp,
    SinOp,
    TanOp,
)


@pytest.mark.parametrize(
    ("op", "low", "high"),
    [
        (SinOp, -3, 3),
        (CosOp, -3, 3),
        (TanOp, -1.2, 1.2),
        (AsinOp, -0.9, 0.9),
        (AcosOp, -0.9, 0.9),
        (AtanOp, -3, 3),
        (SinhOp, -2, 2),
        (CoshOp, -2, 2),
        (AsinhOp, -3, 3),
        (AcoshOp, 1.2, 4),
        (AtanhOp, -0.9, 0.9),
        (Log1pOp, -0.6, 3),
        (RoundOp, 0.6, 1.4),
    ],
)
def test_functions(op: Any, low: float, high: float) -> None:
    check_op(op, fresh().uniform(low, high, (3, 4)))


@pytest.mark.parametrize("shapes", [((3, 4), (3, 4)), ((2, 3), (3,)), ((), (2, 2))])
def test_remainders(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    rng = fresh()
    # The quotients lie between whole numbers.
    wholes = np.asarray(rng.integers(-4, 4, shapes[0]), np.float64)
    parts = np.asarray(rng.uniform(0.4, 0.6, shapes[0]), np.float64)
    check_op(RemOp, np.asarray((wholes + parts) * 1.1), np.full(shapes[1], 1.1))
