"""The gradient of attention, in 64 bits, with each of its settings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from central_differences import check_op

from penstock.dialects.op import AttentionOp

CASES: list[tuple[list[tuple[int, ...]], dict[str, Any]]] = [
    ([(3, 2), (4, 2), (4, 3)], {}),
    ([(3, 2), (4, 2), (4, 3), (3, 4)], {"scale": 0.7}),
    ([(2, 3, 2), (2, 3, 2), (2, 3, 2), (3,)], {"causal": 0, "scale": 0.5}),
    ([(2, 3, 2), (4, 2), (2, 1, 4, 2), (3, 1)], {"causal": 1}),
    (
        [(3, 2, 2), (2, 2, 4), (4, 2, 3)],
        {"q_by": [1, 0, 2], "k_by": [0, 2, 1], "v_by": [1, 0, 2], "by": [2, 0, 1]},
    ),
]


@pytest.mark.parametrize(("shapes", "settings"), CASES, ids=str)
def test_attention(shapes: list[tuple[int, ...]], settings: dict[str, Any]) -> None:
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print(f"seed {seed}")
    rng = np.random.default_rng(seed)
    operands: Any = [rng.normal(size=shape) for shape in shapes]
    check_op(AttentionOp, *operands, **settings)
