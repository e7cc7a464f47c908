"""Jobs whose values come at different rates, launched by a main job."""

from collections.abc import Mapping
from functools import cache

import numpy as np
import pytest
from loaded_programs import load_program

from penstock.dialects.launch import KernelOp, ProgramOp
from penstock.lowering.codegen.target import kernel_source
from penstock.lowering.pipelines import PIPELINES
from penstock.runtime.executors.executor import Executor
from penstock.runtime.executors.stream import Stream
from penstock.tools.driver.compiler import installed_compiler, run_pipeline

JOBS = """
!x = tensor<4xf32>
job.job @train placement <cpu, [0:0]> {
  %t = job.input "t" : !x
  %w = job.variable "w" init <ones> : !x
  %d = op.mul %w, %t : !x, !x -> !x
  %s = op.acc %d every 3 : !x -> !x
  %n = op.sub %w, %s : !x, !x -> !x
  job.assign %n to %w : !x
  job.output "step", %s : !x
}
job.job @eval placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  %w = job.variable "w" init <ones> : !x
  %r = op.repeat %x times 2 : !x -> !x
  %e = op.mul %r, %w : !x, !x -> !x
  job.output "y", %e : !x
}
"""

TRAIN, EVAL = range(2)


@cache
def compiled() -> tuple[ProgramOp, Mapping[str, str]]:
    """The program of both jobs, and the sources of its kernels."""
    compiler, known = installed_compiler()
    module = compiler.parse(JOBS.encode(), "jobs.mlir")
    run_pipeline(compiler, known, module, PIPELINES["main"])
    (program,) = (op for op in module.body.block.ops if isinstance(op, ProgramOp))
    kernels = (x for x in program.body.block.ops if isinstance(x, KernelOp))
    return program, {x.sym_name.data: kernel_source(x) for x in kernels}


@pytest.mark.parametrize(
    ("engine", "threads"), [("actors", 1), ("actors", 2), ("sequential", 1), ("sim", 1)]
)
def test_a_launch_takes_and_gives_as_many_pieces_as_its_rates_want(
    engine: str, threads: int
) -> None:
    random = np.random.default_rng(5)
    jobs = [int(x) for x in random.integers(0, 2, 30)]
    t = random.random((3 * jobs.count(TRAIN), 4), np.float32) - 0.5
    x = random.random((jobs.count(EVAL), 4), np.float32)
    program = load_program(*compiled(), threads=threads)
    names = [actor.name for actor in program.tables.actors]
    with (
        Executor(program, engine),
        Stream(program, engine, 4, [1 for _ in names]) as stream,
    ):
        ending = stream.run(
            {
                "System-Launch": [np.array(job, np.int64) for job in jobs],
                "t": list(t),
                "x": list(x),
            }
        )
    assert ending.left_over == {}
    w, terms, points = np.ones(4, np.float32), iter(t), iter(x)
    steps: list[np.ndarray] = []
    results: list[np.ndarray] = []
    for job in jobs:
        if job == TRAIN:
            steps.append(w * next(terms) + w * next(terms) + w * next(terms))
            w = w - steps[-1]
        else:
            results += [next(points) * w] * 2
    for name, expected in (("step", steps), ("y", results)):
        found = np.array(ending.outputs[name], np.float64)
        np.testing.assert_allclose(found, np.array(expected), rtol=1e-4, atol=1e-6)
