"""Random jobs with loops and conditions mean the same however they are rewritten."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from draws import draws, fresh_seed
from random_flow import RandomJob

from penstock.runtime.errors import PenstockError
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.session.model import Model
from penstock.tools.session.options import CompileOptions
from penstock.tools.session.oracle import evaluate_model
from penstock.tools.session.session import Session

PIPELINES = [
    "op-unroll-loops,op-select-branches",
    "canonicalize",
    "job-clean",
    "job-clean,op-unroll-loops,op-select-branches,job-clean",
    "op-select-branches,job-clean,op-unroll-loops{up-to=1}",
    "op-infer-shapes,op-fold-constants,job-clean,op-fold-constants",
]


def random_job(seed: int) -> RandomJob:
    return RandomJob(np.random.default_rng(seed))


@pytest.mark.parametrize("number", range(draws(2)))
def test_rewritten_jobs_give_the_same_bits(number: int):
    seed = fresh_seed()
    made = random_job(seed)
    text, given = made.text(depth=3, size=5), made.inputs()
    compiler, passes = installed_compiler()
    module = compiler.parse(text, "random.mlir")
    run_pipeline(compiler, passes, module, ())
    wanted = evaluate_model(Model(module, {}, Path()), given)
    for pipeline in PIPELINES:
        module = compiler.parse(text, "random.mlir")
        run_pipeline(compiler, passes, module, pipeline)
        found = evaluate_model(Model(module, {}, Path()), given)
        for name, array in wanted.items():
            message = f"seed {seed}, {pipeline}\n{text.decode()}"
            np.testing.assert_array_equal(found[name], array, message)


SEVERAL = ["<cpu, [0:0-1]>", "<cpu, [0:0-3], hierarchy = [2, 2]>", "<cpu, [0:0, 1:0]>"]
"""Devices of a process, and of two ranks that one process plays."""

ENGINES = ["actors", "sequential"]


@pytest.mark.slow
@pytest.mark.parametrize("placement", SEVERAL)
def test_loops_over_several_devices_give_the_same_bits(placement: str):
    seed = fresh_seed()
    made = random_job(seed)
    made.placement = placement
    made.others = ("<cpu, [0:0]>", "<cpu, [0:1]>")
    text, given = made.text(depth=2, size=3), made.inputs()
    compiler, _ = installed_compiler()
    model = Model(compiler.parse(text, "random.mlir"), {}, Path())
    wanted = evaluate_model(model, given)
    options = CompileOptions(simulate_ranks=True)
    with Session(model, options, engine=ENGINES[seed % len(ENGINES)]) as session:
        for found in (session.run(given), session.run(given)):
            for name, array in wanted.items():
                message = f"seed {seed}\n{text.decode()}"
                np.testing.assert_array_equal(found[name], array, message)


SPREAD = """
job.job @sums placement <cpu, [0:0-1]> {
  %x = job.input "x" : tensor<4x6xf32>
  %xs = job.input "xs" : tensor<9x4x6xf32>
  %n = job.input "n" : tensor<i64>
  %w = job.variable "w" init <zeros> : tensor<4x6xf32>
  %h = op.loop up to 9 count(%n) carries(%x : tensor<4x6xf32>)
      slices(%xs : tensor<9x4x6xf32>) -> tensor<4x6xf32> {
  ^bb0(%i: tensor<i64>, %c: tensor<4x6xf32>, %s: tensor<4x6xf32>):
    %d = op.mul %c, %s : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x6xf32>
    op.yield %d : tensor<4x6xf32>
  }
  %v = op.add %w, %h : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x6xf32>
  job.assign %v to %w : tensor<4x6xf32>
  job.output "w", %v : tensor<4x6xf32>
}"""


@pytest.mark.slow
def test_a_loop_over_devices_that_fails_leaves_variables_and_later_runs_alone():
    seed = fresh_seed()
    random = np.random.default_rng(seed)
    x, xs = random.random((4, 6), "f4"), 1 + random.random((9, 4, 6), "f4")
    compiler, passes = installed_compiler()
    model = Model(compiler.parse(SPREAD.encode(), "sums.mlir"), {}, Path())
    with Session(model, compiler=(compiler, passes), engine="sequential") as session:
        total = np.zeros((4, 6), np.float32)
        for count in (4, 10, -1, 9, 0):
            given = {"x": x, "xs": xs, "n": np.asarray(count)}
            if count not in range(10):
                with pytest.raises(PenstockError, match="other than 0 to 9 iterations"):
                    session.run(given)
                continue
            total += np.multiply.accumulate([x, *xs[:count]])[-1]
            np.testing.assert_array_equal(session.run(given)["w"], total)


def test_a_value_of_a_loop_over_devices_is_made_by_one_task_a_device():
    compiler, passes = installed_compiler()
    module = compiler.parse(SPREAD.encode(), "sums.mlir")
    run_pipeline(compiler, passes, module, "op-unroll-loops{up-to=2},op-spread-loops")
    found = [op.name for op in module.walk()]
    assert found.count("op.mul") == 1
    assert "op.loop" not in found


@pytest.mark.slow
def test_kernels_of_random_jobs_give_the_same_bits():
    seed = fresh_seed()
    made = random_job(seed)
    text, given = made.text(depth=2, size=3), made.inputs()
    compiler, passes = installed_compiler()
    model = Model(compiler.parse(text, "random.mlir"), {}, Path())
    wanted = evaluate_model(model, given)
    with Session(model, compiler=(compiler, passes)) as session:
        found = session.run(given)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array, f"seed {seed}\n{text}")
