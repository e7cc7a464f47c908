"""Random jobs with loops and conditions mean the same however they are rewritten."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from random_flow import RandomJob

from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.session.model import Model
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
    print(f"seed {seed}")
    return RandomJob(np.random.default_rng(seed))


def seeds(count: int) -> list[int]:
    return [int(x) for x in np.random.default_rng().integers(1 << 32, size=count)]


@pytest.mark.parametrize("number", range(6))
def test_rewritten_jobs_give_the_same_bits(number: int):
    (seed,) = seeds(1)
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


@pytest.mark.slow
def test_kernels_of_random_jobs_give_the_same_bits():
    (seed,) = seeds(1)
    made = random_job(seed)
    text, given = made.text(depth=2, size=3), made.inputs()
    compiler, passes = installed_compiler()
    model = Model(compiler.parse(text, "random.mlir"), {}, Path())
    wanted = evaluate_model(model, given)
    with Session(model, compiler=(compiler, passes)) as session:
        found = session.run(given)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array, f"seed {seed}\n{text}")
