"""Chains of small kernels: that one function does what its members did."""

# SciPy carries no types.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy import special
from xdsl.dialects.builtin import ModuleOp

from penstock.dialects.launch import CallOp, ProgramOp
from penstock.lowering.pipelines import PipelineOptions, pipeline, text_of
from penstock.tools.driver.compiler import installed_compiler, run_pipeline
from penstock.tools.session.session import Model, Session

JOB = """
!x = tensor<5x8xf32>
job.job @net placement <cpu, [0:0]> {
  %x = job.input "x" : !x
  %w = job.variable "w" init <normal, seed = 3> : tensor<8x8xf32>
  %b = job.variable "b" init <constant, value = 0.25> : tensor<8xf32>
  %h = op.matmul %x, %w : !x, tensor<8x8xf32> -> !x
  %i = op.add %h, %b : !x, tensor<8xf32> -> !x
  %j = op.matmul %i, %w : !x, tensor<8x8xf32> -> !x
  %k = op.softmax %j : !x -> !x
  %l = op.matmul %k, %w : !x, tensor<8x8xf32> -> !x
  job.output "l", %l : !x
}
"""


def lowered(text: str, passes: str) -> ModuleOp:
    """A module after some passes and the check of what they made."""
    compiler, table = installed_compiler()
    module = compiler.parse(text.encode(), "chains.mlir")
    run_pipeline(compiler, table, module, f"{passes},verify-program")
    return module


def test_a_program_with_a_chain() -> None:
    passes = text_of(pipeline(PipelineOptions("cpu")))
    module = lowered(JOB, f"{passes},launch-form-chains")
    calls = [op for op in module.walk() if isinstance(op, CallOp)]
    assert [call.kernel.root_reference.data for call in calls] == ["chain_0"]
    x = np.random.default_rng(1).normal(size=(5, 8)).astype(np.float32)
    with Session(Model(module, {}, Path())) as session:
        w = session.state()["w"].astype(np.float64)
        for array in (x, -x):
            got = session.run({"x": array})["l"].astype(np.float64)
            wanted = special.softmax((array @ w + 0.25) @ w, -1) @ w
            np.testing.assert_allclose(got, wanted, 1e-5, 1e-6)


def test_a_chain_has_few_members() -> None:
    type = "memref<4xf32>"
    lines = [
        "launch.chunk @c0 on <0, host> size 2048",
        f'launch.kernel @k target "cpu" (%o: {type}) attributes '
        '{cost = {bytes = 16 : i64, flops = 0 : i64, op = "op.fill"}} {',
        "%z = arith.constant 1.0 : f32",
        f"linalg.fill ins(%z : f32) outs(%o : {type}) }}",
    ]
    for i in range(18):
        lines += [
            f"launch.register @y{i} in @c0 at {64 * i} slots 1 : {type}",
            f"launch.actor @a{i} on <0, cpu:0> stream 0 reads [] writes [@y{i}] {{",
            f"launch.call @k [@y{i}] }}",
        ]
    body = "\n".join(lines)
    text = f"launch.program @net rank 0 {{\n{body}\n}}"
    module = lowered(text, "launch-form-chains")
    (program,) = (op for op in module.walk() if isinstance(op, ProgramOp))
    names = [actor.sym_name.data for actor in program.actors]
    assert names == ["a0..a15", "a16..a17"]
