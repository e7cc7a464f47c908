"""Each pass over jobs and plans with bodies keeps what they mean, or says why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from penstock.lowering import get_all_passes
from penstock.lowering.analysis.levels import Level, level_of
from penstock.runtime.loading.initializers import Array
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.driver.diagnostics import Rejected
from penstock.tools.driver.errors import UsageError
from penstock.tools.session.model import Model
from penstock.tools.session.oracle import evaluate_model

# A condition in a loop in a condition, in two jobs.
JOBS = """
job.job @{name} placement <cpu, [0:0]> {{
  %x = job.input "x" : tensor<2x4xi64>
  %w = job.input "w" : tensor<4x4xi64>
  %c = job.input "c" : tensor<i1>
  %n = job.input "n" : tensor<i64>
  %y = op.if %c reads(%x, %w, %n : tensor<2x4xi64>, tensor<4x4xi64>, tensor<i64>)
      -> tensor<2x4xi64> {{
  ^bb0(%a: tensor<2x4xi64>, %v: tensor<4x4xi64>, %m: tensor<i64>):
    %b, %rows = op.loop {loop} carries(%a : tensor<2x4xi64>)
        reads(%v, %m : tensor<4x4xi64>, tensor<i64>)
        -> tensor<2x4xi64>, tensor<3x2x4xi64> {{
    ^bb0(%i: tensor<i64>, %d: tensor<2x4xi64>, %u: tensor<4x4xi64>, %k: tensor<i64>):
      %p = op.matmul %d, %u : tensor<2x4xi64>, tensor<4x4xi64> -> tensor<2x4xi64>
      %q = op.add %p, %i : tensor<2x4xi64>, tensor<i64> -> tensor<2x4xi64>
      %late = op.less %i, %k : tensor<i64>, tensor<i64> -> tensor<i1>
      %r = op.if %late reads(%q : tensor<2x4xi64>) -> tensor<2x4xi64> {{
      ^bb0(%e: tensor<2x4xi64>):
        %f = op.neg %e : tensor<2x4xi64> -> tensor<2x4xi64>
        op.yield %f : tensor<2x4xi64>
      }} else {{
      ^bb0(%g: tensor<2x4xi64>):
        op.yield %g : tensor<2x4xi64>
      }}
      op.yield %r, %q : tensor<2x4xi64>, tensor<2x4xi64>
    }}
    %s = op.reduce_sum %rows axes [0] : tensor<3x2x4xi64> -> tensor<2x4xi64>
    %t = op.add %b, %s : tensor<2x4xi64>, tensor<2x4xi64> -> tensor<2x4xi64>
    op.yield %t : tensor<2x4xi64>
  }} else {{
  ^bb0(%h: tensor<2x4xi64>, %v_1: tensor<4x4xi64>, %m_1: tensor<i64>):
    op.yield %h : tensor<2x4xi64>
  }}
  job.output "{name}", %y : tensor<2x4xi64>
}}"""

FORMS = {"known": "3", "counted": "up to 3 count(%m)"}

TEXT = "\n".join(JOBS.format(name=name, loop=form) for name, form in FORMS.items())

PLACED = "job-place,job-infer-sbp"
PLANNED = f"{PLACED},convert-job-to-plan,plan-order-tasks,plan-assign-streams"
REGISTERED = f"{PLANNED},plan-create-registers,regst-plan-memory"

STAGES: Mapping[Level | None, Sequence[str]] = {
    Level.JOB: [PLACED],
    Level.PLAN: [PLANNED, REGISTERED],
}


def cases() -> list[tuple[str, str]]:
    """Each pass with a pipeline before it that ends at its level."""
    found: list[tuple[str, str]] = []
    for name in get_all_passes():
        stages = STAGES.get(level_of(name), [REGISTERED])
        found += [(stage, name) for stage in stages]
    return found


CASES = cases()


@cache
def inputs() -> dict[str, Array]:
    seed = int(np.random.default_rng().integers(1 << 32))
    print(f"seed {seed}")
    random = np.random.default_rng(seed)
    return {
        "x": random.integers(-5, 6, (2, 4)),
        "w": random.integers(-5, 6, (4, 4)),
        "c": np.asarray(random.random() < 0.7),
        "n": np.asarray(random.integers(0, 4)),
    }


@cache
def staged(pipeline: str) -> ModuleOp:
    """The jobs after some passes."""
    compiler, passes = installed_compiler()
    module = compiler.parse(TEXT.encode(), "jobs.mlir")
    run_pipeline(compiler, passes, module, pipeline)
    return module


def expected(name: str) -> NDArray[np.int64]:
    """The output of a job, by NumPy."""
    state, weights = (inputs()[name].astype(np.int64) for name in ("x", "w"))
    if not inputs()["c"]:
        return state
    total, limit = np.zeros_like(state), int(inputs()["n"])
    for number in range(limit if name == "counted" else 3):
        row = state @ weights + number
        state, total = -row if number < limit else row, total + row
    return state + total


@pytest.mark.parametrize(
    ("stage", "name"), CASES, ids=[f"{x.count('-')}:{y}" for x, y in CASES]
)
def test_each_pass_keeps_what_bodies_mean_or_says_why_not(stage: str, name: str):
    compiler, passes = installed_compiler()
    module = staged(stage).clone()
    with suppress(Rejected, UsageError):
        run_pipeline(compiler, passes, module, name)
        for job in FORMS:
            found = outputs(Model(module, {}, Path()), job)
            if job in found:
                np.testing.assert_array_equal(found[job], expected(job))


def outputs(model: Model, job: str) -> dict[str, Array]:
    """The outputs of a job; none where a program, or a part of it, has no meaning."""
    try:
        return evaluate_model(model, inputs(), [job])
    except UsageError as error:
        reasons = "NumPy", "no array is given", "there is no job"
        if any(reason in str(error) for reason in reasons):
            return {}
        raise AssertionError(str(error)) from error
