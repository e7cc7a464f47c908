"""The gradient of attention, in 64 bits and on kernels, with each of its settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from central_differences import check_gradients, check_op, gradient_job, shape_of
from draws import fresh
from xdsl.ir import Block, Region, SSAValue

from penstock.dialects.op import AttentionOp, IfOp, YieldOp
from penstock.dialects.op.op_builder import OpBuilder
from penstock.tools.session.session import Session

CASES: list[tuple[list[tuple[int, ...]], dict[str, Any]]] = [
    ([(3, 2), (4, 2), (4, 3)], {}),
    ([(3, 2), (4, 2), (4, 3), (3, 4)], {"scale": 0.7}),
    ([(2, 3, 2), (2, 3, 2), (2, 3, 2), (3,)], {"causal": 0, "scale": 0.5}),
    ([(2, 3, 2), (4, 2), (2, 1, 4, 2), (3, 1)], {"causal": 1}),
    (
        [(3, 2, 2), (2, 2, 4), (4, 2, 3)],
        {"q_by": [1, 0, 2], "k_by": [0, 2, 1], "v_by": [1, 0, 2], "by": [2, 0, 1]},
    ),
    # The loss depends on the sums of rows, too.
    ([(2, 3, 2), (2, 4, 2), (2, 4, 3), (3, 4)], {"with_lse": True, "causal": 1}),
    # Queries for all stacks.
    ([(3, 2), (2, 4, 2), (2, 4, 3)], {"scale": 0.5}),
]


@pytest.mark.parametrize(("shapes", "settings"), CASES, ids=str)
def test_attention(shapes: list[tuple[int, ...]], settings: dict[str, Any]) -> None:
    rng = fresh()
    operands: Any = [rng.normal(size=shape) for shape in shapes]
    check_op(AttentionOp, *operands, **settings)


def test_only_the_sums_of_rows() -> None:
    rng = np.random.default_rng(3)
    operands: Any = [rng.normal(size=shape) for shape in ((3, 2), (4, 2), (4, 3))]
    check_gradients(
        lambda o, ins: o.results(AttentionOp, *ins, with_lse=True)[1:], operands, [0, 1]
    )


@pytest.mark.parametrize("truth", [False, True])
def test_within_a_body_sums_of_rows_are_made_again(truth: bool) -> None:
    rng = np.random.default_rng(4)
    operands: Any = [rng.normal(size=shape) for shape in ((3, 2), (4, 2), (4, 3))]

    def build(o: OpBuilder, ins: Sequence[SSAValue]) -> Sequence[SSAValue]:
        regions: list[Region] = []
        for causal in (0, 1):
            block = Block(arg_types=[value.type for value in ins[1:]])
            inner = OpBuilder(block.add_op)
            mixed = inner.one(AttentionOp, *block.args, causal=causal)
            block.add_op(YieldOp(mixed))
            regions.append(Region(block))
        op = IfOp.create(operands=ins, result_types=[mixed.type], regions=regions)
        o.insert(op)
        return op.results

    check_gradients(build, [np.asarray(truth), *operands])


SHAPES = [
    ((2, 3, 24, 8), (2, 3, 24, 8), (2, 3, 24, 16)),
    # Two heads share keys and values.
    ((2, 2, 17, 8), (2, 1, 40, 8), (2, 1, 40, 8)),
]


@pytest.mark.parametrize("causal", [None, 0])
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_kernels_compute_what_the_formula_of_a_softmax_gives(
    shapes: Sequence[tuple[int, ...]], causal: int | None, tmp_path: Path
) -> None:
    rng = fresh()
    arrays = [rng.normal(size=shape).astype(np.float32) for shape in shapes]

    def build(o: OpBuilder, ins: Sequence[SSAValue]) -> Sequence[SSAValue]:
        return o.results(AttentionOp, *ins, causal=causal, scale=0.25)

    module = gradient_job(build, arrays, [0, 1, 2])
    inputs = {f"x{i}": array for i, array in enumerate(arrays)}
    weights = rng.normal(size=shape_of(module, "r0")).astype(np.float32)
    inputs["r0"] = weights
    q, k, v, g = (array.astype(np.float64) for array in (*arrays, weights))
    scores = q @ np.swapaxes(k, -1, -2) * 0.25
    if causal is not None:
        hidden = np.triu(np.ones(scores.shape[-2:], bool), causal + 1)
        scores[..., hidden] = -np.inf
    shares = np.exp(scores - scores.max(-1, keepdims=True))
    shares /= shares.sum(-1, keepdims=True)
    of_shares = g @ np.swapaxes(v, -1, -2)
    of_sums = shares * (of_shares - (shares * of_shares).sum(-1, keepdims=True)) * 0.25
    wanted = [
        of_sums @ k,
        np.swapaxes(of_sums, -1, -2) @ q,
        np.swapaxes(shares, -1, -2) @ g,
    ]
    path = tmp_path / "step.mlir"
    path.write_text(str(module), encoding="utf-8")
    with Session.open(path) as session:
        found = session.run(inputs)
    for i, exact in enumerate(wanted):
        axes = tuple(
            n for n, extent in enumerate(shapes[i]) if extent != exact.shape[n]
        )
        exact = exact.sum(axes, keepdims=True) if axes else exact
        scale = 2e-5 * max(1.0, float(np.abs(exact).max()))
        gradient = found[f"g{i}"].astype(np.float64)
        np.testing.assert_allclose(gradient, exact, rtol=0, atol=scale)
