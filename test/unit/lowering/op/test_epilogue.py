"""Sums of products with the elementwise op that follows, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from penstock.dialects import get_all_dialects
from penstock.dialects.job import JobOp
from penstock.dialects.launch import RegisterOp
from penstock.dialects.op.groups.fused import FusedOp
from penstock.lowering.op.fuse_epilogues import fuse_job
from penstock.tools.session.session import Model, Session

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


def parsed(text: str) -> ModuleOp:
    """The module of a text."""
    context = Context()
    for name, factory in get_all_dialects().items():
        context.register_dialect(name, factory)
    module = Parser(context, text).parse_module()
    module.verify()
    return module


def job_of(type: str) -> ModuleOp:
    """A module with a job whose elements have this type."""
    return parsed(JOB.format(type=type))


def arrays(type: str) -> dict[str, Array]:
    """The inputs of the job by name."""
    random = np.random.default_rng(6)
    dtype = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[type]
    shapes = (5, 7), (7, 19), (19,), (5, 19)
    values = (random.normal(size=shape).astype(dtype) for shape in shapes)
    return dict(zip("xwbr", values, strict=True))


def expected(type: str) -> NDArray[np.float64]:
    """The result of the job, in `f64`."""
    x, w, b, r = (array.astype(np.float64) for array in arrays(type).values())
    return (x @ w - b) * (x @ w) + r


def epilogue_of(module: ModuleOp) -> FusedOp:
    """The op that the job's ops become."""
    (job,) = (op for op in module.walk() if isinstance(op, JobOp))
    fuse_job(job)
    module.verify()
    (found,) = (op for op in module.walk() if isinstance(op, FusedOp))
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


def shares(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The softmax of lines."""
    powers = np.exp(x)
    return powers / powers.sum(-1, keepdims=True)


class Started(NamedTuple):
    """Sums that start from what another op makes, of two operands of these shapes."""

    op: str
    shapes: tuple[Sequence[int], Sequence[int], Sequence[int]]
    type: str = "f32"
    bias: int = 0
    pads: int = 0
    """On all sides of images."""

    def text(self) -> str:
        """The job: the relu of the sums and of what they start from."""
        a, b, y = ("x".join(map(str, (*shape, self.type))) for shape in self.shapes)
        pads = f" pads {[self.pads] * 4}" if self.pads else ""
        call = f"%x, %w{pads} : tensor<{a}>, tensor<{b}>"
        read = ""
        if self.bias:
            bias = f"tensor<{self.bias}x{self.type}>"
            call = f"%x, %w, %b{pads} : tensor<{a}>, tensor<{b}>, {bias}"
            read = f'%b = job.input "b" : {bias}'
        y = f"tensor<{y}>"
        return f"""
job.job @net placement <cpu, [0:0]> {{
  %x = job.input "x" : tensor<{a}>
  %w = job.input "w" : tensor<{b}>
  %r = job.input "r" : {y}
  {read}
  %s = op.softmax %r : {y} -> {y}
  %m = op.{self.op} {call} -> {y}
  %t = op.add %m, %s : {y}, {y} -> {y}
  %u = op.relu %t : {y} -> {y}
  job.output "y", %u : {y}
}}"""

    def inputs(self) -> dict[str, Array]:
        """Random inputs by name."""
        random = np.random.default_rng(8)
        shapes = dict(zip("xwr", self.shapes, strict=True))
        if self.bias:
            shapes["b"] = (self.bias,)
        dtype = np.float32 if self.type == "f32" else np.float64
        return {k: random.normal(size=v).astype(dtype) for k, v in shapes.items()}

    def expected(self) -> NDArray[np.float64]:
        """The result of the job, in `f64`."""
        given = {k: v.astype(np.float64) for k, v in self.inputs().items()}
        x, w = given["x"], given["w"]
        if self.op == "matmul":
            sums = x @ w
        else:
            sides = [(0, 0), (0, 0), (self.pads,) * 2, (self.pads,) * 2]
            x = np.pad(x, sides)
            windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
            sums = np.einsum("nchwpq,ocpq->nohw", windows, w, optimize=True)
        if self.bias:
            sums += given["b"].reshape(-1, 1, 1)
        return np.maximum(sums + shares(given["r"]), 0)


STARTED = {
    "one block of terms": Started("matmul", ((21, 30), (30, 70), (21, 70))),
    "several blocks": Started("matmul", ((70, 700), (700, 50), (70, 50))),
    "64 bits": Started("matmul", ((9, 300), (300, 33), (9, 33)), "f64"),
    "a stack": Started("matmul", ((3, 5, 20), (3, 20, 17), (3, 5, 17))),
    "pixels": Started("conv2d", ((2, 40, 9, 11), (24, 40, 1, 1), (2, 24, 9, 11))),
    "a bias": Started(
        "conv2d", ((1, 40, 13, 7), (32, 40, 1, 1), (1, 32, 13, 7)), bias=32
    ),
    "windows": Started("conv2d", ((1, 32, 18, 19), (64, 32, 3, 3), (1, 64, 16, 17))),
    "padded windows": Started(
        "conv2d", ((1, 32, 16, 17), (64, 32, 3, 3), (1, 64, 16, 17)), pads=1
    ),
    "few rows": Started("conv2d", ((1, 3, 8, 8), (2, 3, 3, 3), (1, 2, 6, 6))),
}


@pytest.mark.parametrize("case", STARTED.values(), ids=STARTED)
def test_results_lie_over_what_sums_start_from(case: Started) -> None:
    module = parsed(case.text())
    with Session(Model(module, {}, Path()), threads=2) as session:
        registers = {
            op.sym_name.data: (op.chunk, op.offset)
            for op in session.program.walk()
            if isinstance(op, RegisterOp)
        }
        found = session.run(case.inputs())["y"].astype(np.float64)
    assert registers["s/out"] == registers["u/out"]
    wanted = case.expected()
    # An error of f32 for each term, as for any other product.
    tolerance = 1e-5 if case.type == "f32" else 1e-13
    np.testing.assert_allclose(found, wanted, 0, tolerance * abs(wanted).max())


def test_what_is_multiplied_too_is_not_overwritten() -> None:
    text = """
job.job @net placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<6x6xf32>
  %e = op.softmax %x : tensor<6x6xf32> -> tensor<6x6xf32>
  %m = op.matmul %e, %x : tensor<6x6xf32>, tensor<6x6xf32> -> tensor<6x6xf32>
  %y = op.add %m, %e : tensor<6x6xf32>, tensor<6x6xf32> -> tensor<6x6xf32>
  job.output "y", %y : tensor<6x6xf32>
}"""
    x = np.random.default_rng(9).normal(size=(6, 6)).astype(np.float32)
    with Session(Model(parsed(text), {}, Path())) as session:
        found = session.run({"x": x})["y"].astype(np.float64)
    e = shares(x.astype(np.float64))
    np.testing.assert_allclose(found, e @ x + e, 1e-5, 1e-5)
