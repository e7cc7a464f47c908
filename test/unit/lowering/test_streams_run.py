"""Jobs on several streams, with chosen slots and reduced control, compute the same."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.dialects.plan import PlanOp
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.session.session import Model, Session

LENGTH = 24

PASSES = (
    "convert-job-to-plan",
    'plan-assign-streams{policy=critical-path streams=3 machine="cpu switch_ns=0"}',
    "plan-create-registers",
    "regst-alias-registers",
    "regst-choose-slots{interval-ns=2000}",
    "regst-plan-memory",
    "verify-plan",
    "plan-reduce-events",
    "verify-deadlock",
    "verify-plan",
)


class Case:
    """A random job of sums and products, and what it computes."""

    def __init__(self, seed: int):
        rng = random.Random(seed)
        self.steps: list[tuple[str, int, int]] = []
        lines = ["!t = tensor<8x8xf64>", "job.job @j placement <cpu, [0:0]> {"]
        lines += ['%v0 = job.input "x" : !t', "%v1 = op.relu %v0 : !t -> !t"]
        for index in range(2, LENGTH):
            op = rng.choice(["add", "sub", "matmul"])
            a, b = (rng.randrange(max(0, index - 5), index) for _ in "ab")
            self.steps.append((op, a, b))
            lines.append(f"%v{index} = op.{op} %v{a}, %v{b} : !t, !t -> !t")
        lines += [f'job.output "y", %v{LENGTH - 1} : !t', "}"]
        self.text = "\n".join(lines)

    def evaluate(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        values = [x, np.maximum(x, 0)]
        for op, a, b in self.steps:
            match op:
                case "add":
                    values.append(values[a] + values[b])
                case "sub":
                    values.append(values[a] - values[b])
                case _:
                    values.append(values[a] @ values[b])
        return values[-1]


@pytest.mark.parametrize("seed", range(4))
def test_pieces_that_overlap_are_right(seed: int):
    case = Case(seed)
    compiler, passes = installed_compiler()
    module = compiler.parse(case.text.encode(), "random.mlir")
    run_pipeline(compiler, passes, module, ",".join(PASSES))
    plan = next(op for op in module.walk() if isinstance(op, PlanOp))
    assert len({task.stream for task in plan.tasks}) > 1
    assert any(register.slots.value.data > 1 for register in plan.registers)
    rng = np.random.default_rng(seed)
    # Entries are small enough for no product to overflow.
    pieces = [rng.uniform(-0.1, 0.1, (8, 8)) for _ in range(20)]
    model = Model(module, {}, Path())
    with Session(model, threads=2, compiler=(compiler, passes)) as session:
        found = session.run_many([{"x": piece} for piece in pieces])
    for piece, outputs in zip(pieces, found, strict=True):
        np.testing.assert_allclose(
            np.asarray(outputs["y"], np.float64),
            case.evaluate(piece),
            rtol=1e-9,
            atol=1e-12,
        )
