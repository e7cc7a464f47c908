"""Sums of products with the elementwise op that follows, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from penstock.dialects import get_all_dialects
from penstock.dialects.job import JobOp
from penstock.dialects.op.epilogue import EpilogueOp
from penstock.lowering.op_fuse_epilogues import fuse_job
from penstock.tools.session import Model, Session

Array: TypeAlias = NDArray[np.generic]
RunOp: TypeAlias = Callable[..., list[Array]]

JOB = """
job.job @net placement <cpu, [0:0]> {{
  %x = job.input "x" : tensor<5x7x{type}>
  %w = job.input "w" : tensor<7x19x{type}>
  %b = job.input "b" : tensor<19x{type}>
  %r = job.input "r" : tensor<5x19x{type}>
  %m = op.matmul %x, %w : tensor<5x7x{type}>, tensor<7x19x{type}> -> tensor<5x19x{type}>
  %y = op.fused %b, %m, %r : tensor<19x{type}>, tensor<5x19x{type}>, tensor<5x19x{type}> -> tensor<5x19x{type}> {{
  ^bb0(%p: tensor<19x{type}>, %q: tensor<5x19x{type}>, %s: tensor<5x19x{type}>):
    %t = op.sub %q, %p : tensor<5x19x{type}>, tensor<19x{type}> -> tensor<5x19x{type}>
    %u = op.mul %t, %q : tensor<5x19x{type}>, tensor<5x19x{type}> -> tensor<5x19x{type}>
    %v = op.add %u, %s : tensor<5x19x{type}>, tensor<5x19x{type}> -> tensor<5x19x{type}>
    op.yield %v : tensor<5x19x{type}>
  }}
  job.output "y", %y : tensor<5x19x{type}>
}}"""  # noqa: E501 types are long
TYPES = {"f16": 2e-2, "f32": 1e-5, "f64": 1e-13}
"""The error, relative to the largest number, for each type of elements."""


def job_of(type: str) -> ModuleOp:
    """A module with a job whose elements have this type."""
    context = Context()
    for name, factory in get_all_dialects().items():
        context.register_dialect(name, factory)
    module = Parser(context, JOB.format(type=type)).parse_module()
    module.verify()
    return module


def arrays(type: str) -> dict[str, Array]:
    """The inputs of the job by name."""
    random = np.random.default_rng(6)
    dtype = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[type]
    shapes = (5, 7), (7, 19), (19,), (5, 19)
    values = (random.normal(size=shape).astype(dtype) for shape in shapes)
    return dict(zip("xwbr", values, strict=True))


def expected(type: str) -> NDArray[np.float64]:
    """What the job computes, in 64 bits."""
    x, w, b, r = (array.astype(np.float64) for array in arrays(type).values())
    return (x @ w - b) * (x @ w) + r


def epilogue_of(module: ModuleOp) -> EpilogueOp:
    """The op that the job's ops become."""
    (job,) = (op for op in module.walk() if isinstance(op, JobOp))
    fuse_job(job)
    module.verify()
    (found,) = (op for op in module.walk() if isinstance(op, EpilogueOp))
    return found


def check(found: Array, type: str) -> None:
    """Compare a result with what is expected."""
    wanted = expected(type)
    atol = TYPES[type] * abs(wanted).max()
    np.testing.assert_allclose(found.astype(np.float64), wanted, 0, atol)


@pytest.mark.parametrize("type", TYPES)
def test_kernel_and_meaning(type: str, run_op: RunOp) -> None:
    op = epilogue_of(job_of(type))
    given = arrays(type)
    operands = [given[value.name_hint or ""] for value in op.operands]
    check(np.asarray(op.evaluate(*operands)[0]), type)
    check(run_op(op, *operands)[0], type)


@pytest.mark.parametrize("type", TYPES)
@pytest.mark.parametrize("threads", [1, 2])
def test_the_pipeline_computes_them_in_one_kernel(type: str, threads: int) -> None:
    model = Model(job_of(type), {}, Path())
    given = arrays(type)
    with Session(model, threads=threads) as session:
        check(session.run(given)["y"], type)


def test_flops_are_those_of_both_ops() -> None:
    # 2 x 7 for each product, and a difference, a product and a sum for each element.
    assert epilogue_of(job_of("f32")).flops() == 5 * 19 * (2 * 7 + 3)
