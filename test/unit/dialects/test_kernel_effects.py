"""The arguments that kernels write and need, for all ops and for small bodies."""

from __future__ import annotations

import pytest

from penstock.dialects.kernel.builder import kernel_body
from penstock.dialects.launch import KernelOp
from penstock.dialects.op import IfOp, LoopOp, Op
from penstock.dialects.op.multirate import AccOp, RateOp
from penstock.dialects.op.tensor_op import TensorOp
from penstock.lowering.analysis.kernel_effects import KernelEffects
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.reports.docs import examples_of, read_example

OPS = [
    op
    for op in Op.operations
    if issubclass(op, TensorOp) and not issubclass(op, RateOp | IfOp | LoopOp)
]
"""The ops that have a kernel of their own, with all of their results."""


@pytest.mark.parametrize("operation", OPS, ids=lambda op: op.name)
def test_kernels_of_ops_need_nothing_of_their_results(operation: type[TensorOp]):
    seen = False
    for text in examples_of(operation):
        for op in read_example(text).walk():
            if isinstance(op, operation):
                effects = KernelEffects(KernelOp("k", "cpu", kernel_body(op)))
                results = range(len(op.operands), len(op.operands) + len(op.results))
                assert effects.written == set(results)
                assert effects.needed.isdisjoint(results)
                seen = True
    assert seen


def test_the_kernel_of_a_sum_over_pieces_needs_the_sum_so_far():
    (text,) = examples_of(AccOp)
    op = next(op for op in read_example(text).walk() if isinstance(op, AccOp))
    effects = KernelEffects(KernelOp("k", "cpu", kernel_body(op)))
    assert (effects.written, effects.needed) == ({1}, {0, 1})


def effects_of(body: str) -> KernelEffects:
    """The effects of a kernel with arguments `%a` and `%o` of two lines of four."""
    text = f"""
      launch.program @p rank 0 {{
        launch.kernel @k target "cpu" (%a: memref<2x4xf32>, %o: memref<2x4xf32>) {{
          %zero = arith.constant 0.0 : f32
          %0 = arith.constant 0 : index
          {body}
        }}
      }}"""
    module = installed_compiler()[0].parse(text.encode(), "kernel.mlir")
    module.verify()
    return next(KernelEffects(op) for op in module.walk() if isinstance(op, KernelOp))


FILL = "linalg.fill ins(%zero : f32) outs(%o : memref<2x4xf32>)"
COPY = '"memref.copy"(%a, %o) : (memref<2x4xf32>, memref<2x4xf32>) -> ()'
LOAD = "%v = memref.load %o[%0, %0] : memref<2x4xf32>"
STORE = "memref.store %zero, %o[%0, %0] : memref<2x4xf32>"
VIEW = (
    "%f = memref.collapse_shape %o [[0 : i64, 1 : i64]] "
    ": memref<2x4xf32> into memref<8xf32>"
)


def generic(output: str, result: str = "%x", source: str = "(i, j) -> (i, j)") -> str:
    """A stage with two loops over `%a` that writes `%o`; `%y` is what `%o` held."""
    return f"""
      linalg.generic {{
        indexing_maps = [affine_map<{source}>, affine_map<(i, j) -> ({output})>],
        iterator_types = ["parallel", "parallel"]
      }} ins(%a : memref<2x4xf32>) outs(%o : memref<2x4xf32>) {{
      ^bb0(%x: f32, %y: f32):
        linalg.yield {result} : f32
      }}"""


@pytest.mark.parametrize(
    ("body", "written", "needed"),
    [
        ("", "", ""),
        (LOAD, "", "1"),
        (f"{STORE}\n{LOAD}", "1", ""),
        (f"{LOAD}\n{STORE}", "1", "1"),
        (f"{FILL}\n{LOAD}", "1", ""),
        (f"{COPY}\n{LOAD}", "1", "0"),
        (generic("i, j"), "1", "0"),
        (generic("i, j", "%y"), "1", "1"),
        (f"{FILL}\n{generic('i, j', '%y')}", "1", ""),
        (f"{generic('i, j')}\n{LOAD}", "1", "0"),
        (f"{generic('0, j')}\n{LOAD}", "1", "01"),
        (f"{generic('0, j')}\n{generic('1, j')}\n{LOAD}", "1", "0"),
        (f"{VIEW}\n%w = memref.load %f[%0] : memref<8xf32>", "", "1"),
        (f"{VIEW}\nmemref.store %zero, %f[%0] : memref<8xf32>\n{LOAD}", "1", ""),
    ],
)
def test_effects_of_bodies(body: str, written: str, needed: str):
    effects = effects_of(body)
    found = ["".join(map(str, sorted(x))) for x in (effects.written, effects.needed)]
    assert found == [written, needed]
