"""Contractions with several results, in tiles of all forms, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from crafted_schedules import set_schedule
from kernel_runs import run_on_copies
from numpy.typing import NDArray
from scipy import special
from xdsl.context import Context
from xdsl.dialects.builtin import StringAttr
from xdsl.parser import Parser

from penstock.dialects import get_all_dialects
from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.interface import NO_FINISH, SCHEDULE
from penstock.dialects.kernel.reference import replace_by_loops
from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.schedules.cpu_matmul import ContractionAttr
from penstock.lowering.codegen.body.epilogue import stages_of
from penstock.lowering.codegen.cpu import kernel_schedule as cpu
from penstock.lowering.codegen.cuda import kernel_schedule as cuda
from penstock.runtime.loading.weight_layout import as_stored
from penstock.tools.session.program_export import panels_of
from penstock.tools.session.session import Model, Session

Array: TypeAlias = NDArray[Any]
ParseKernel: TypeAlias = Callable[[str], KernelOp]

TEXT = """
launch.kernel @k target "{target}" (%a: memref<{m}x{k}x{t}>, %b: memref<{shape}x{t}>,
    %c: memref<{n}x{t}>, %r: memref<{m}x{n}x{t}>, %x: memref<{m}x{n}x{t}>,
    %y: memref<{m}x{n}x{t}>, %z: memref<{m}x{n}x{t}>) {{
  kernel.contract indexing_maps = [
      affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> {index}>,
      affine_map<(m, n, k) -> (m, n)>, affine_map<(m, n, k) -> (m, n)>,
      affine_map<(m, n, k) -> (m, n)>, {first}affine_map<(m, n, k) -> (n)>,
      affine_map<(m, n, k) -> (m, n)>]
      ins(%a, %b : memref<{m}x{k}x{t}>, memref<{shape}x{t}>)
      outs(%x, %y, %z : memref<{m}x{n}x{t}>, memref<{m}x{n}x{t}>, memref<{m}x{n}x{t}>)
      {start} finish(%c, %r : memref<{n}x{t}>, memref<{m}x{n}x{t}>) {{
  ^bb0(%sum: {t}, %d: {t}, %e: {t}):
    %zero = arith.constant 0.0 : {t}
    %0 = arith.addf %sum, %d : {t}
    %1 = arith.maximumf %0, %zero : {t}
    %2 = arith.mulf %sum, %e : {t}
    kernel.yield %1, %sum, %2 : {t}, {t}, {t}
  }}
}}"""
DTYPES = {"f32": np.float32, "f64": np.float64}


def text_of(
    extents: Sequence[int], *, type: str = "f32", inner: bool = False, start: str = ""
) -> str:
    m, n, k = extents
    facts = {"shape": f"{n}x{k}" if inner else f"{k}x{n}", "target": "cpu", "first": ""}
    if start:
        facts["start"] = f"start(%{start} : memref<{m}x{n}x{type}>)"
        facts["first"] = "affine_map<(m, n, k) -> (m, n)>, "
    index = "(n, k)" if inner else "(k, n)"
    return TEXT.format(m=m, n=n, k=k, t=type, index=index, **{"start": "", **facts})


def contraction_in(kernel: KernelOp) -> ContractOp:
    (op,) = (op for op in kernel.walk() if isinstance(op, ContractOp))
    return op


CASES: dict[str, tuple[tuple[int, int, int], dict[str, Any], str]] = {
    "whole tiles": ((8, 32, 5), {}, "outer"),
    "a masked vector": ((7, 19, 20), {}, "outer"),
    "blocks of terms": ((5, 40, 3000), {}, "outer"),
    "what is there": ((6, 20, 3000), {"start": "y"}, "outer"),
    "one row": ((1, 33, 12), {}, "outer"),
    "one column": ((9, 1, 64), {}, "inner"),
    "terms in vectors": ((5, 7, 70), {"inner": True}, "inner"),
    "64 bits": ((7, 19, 20), {"type": "f64"}, "outer"),
    "an edge": ((24, 49, 16), {"constant": 0}, "edge"),
    "upright": ((32, 33, 9), {"constant": 0, "upright": True}, "upright"),
}


@pytest.mark.parametrize("case", CASES)
def test_all_results_are_stored(case: str, parse_kernel: ParseKernel) -> None:
    (m, n, k), facts, form = CASES[case]
    constants = {facts["constant"]} if "constant" in facts else set[int]()
    given = {x: y for x, y in facts.items() if x not in ("constant", "upright")}
    kernel = parse_kernel(text_of((m, n, k), **given))
    cpu.schedule_kernel(kernel, 64, 1, constants)
    op = contraction_in(kernel)
    schedule = op.attributes[SCHEDULE]
    assert isinstance(schedule, ContractionAttr)
    if facts.get("upright"):
        upright = ContractionAttr("upright", (8, 2, 16), (8, k), panels="a")
        set_schedule(kernel, op, upright)
    found = schedule.form if not schedule.edge else "edge"
    assert form in (found, "upright")
    assert NO_FINISH not in op.attributes
    dtype = DTYPES[facts.get("type", "f32")]
    random = np.random.default_rng([m, n, k])
    b = (n, k) if facts.get("inner") else (k, n)
    shapes = (m, k), b, (n,), (m, n), (m, n), (m, n), (m, n)
    arrays = [random.integers(-3, 4, shape).astype(dtype) for shape in shapes]
    left, right, c, r, _, y, _ = (array.astype(np.float64) for array in arrays)
    total = left @ (right.T if facts.get("inner") else right)
    total = total + y if "start" in facts else total
    wanted = np.maximum(total + c, 0), total, total * r
    lies = kernel.panels[0] and panels_of(kernel.panels[0])
    stored = [as_stored(arrays[0], lies), *arrays[1:]]
    results = run_on_copies(kernel, stored, parts=2)[-3:]
    for result, exact in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(result, exact)
    start = [arrays[5]] if "start" in facts else []
    meant = op.evaluate(*arrays[:2], *arrays[4:], *start, *arrays[2:4])
    for result, exact in zip(meant, wanted, strict=True):
        np.testing.assert_array_equal(result, exact)
    replace_by_loops(op)
    kernel.attributes.pop("panels", None)
    for result, exact in zip(run_on_copies(kernel, arrays)[-3:], wanted, strict=True):
        np.testing.assert_array_equal(result, exact)


def test_results_in_another_order_are_a_stage_behind(parse_kernel: ParseKernel) -> None:
    last = "affine_map<(m, n, k) -> ({})>, affine_map<(m, n, k) -> (n)>"
    text = text_of((16, 16, 8))
    assert last.format("m, n") in text
    kernel = parse_kernel(text.replace(last.format("m, n"), last.format("n, m")))
    cpu.schedule_kernel(kernel, 64)
    op = contraction_in(kernel)
    why = "finish: its results do not lie alike"
    assert op.attributes[NO_FINISH] == StringAttr(why)
    assert [x.name for x in stages_of(kernel.body.block)][1:] == ["linalg.generic"]


def test_tiles_on_devices_store_one_result(parse_kernel: ParseKernel) -> None:
    text = text_of((16, 16, 8)).replace('target "cpu"', 'target "cuda"')
    kernel = parse_kernel(text)
    cuda.schedule_kernel(kernel, 132)
    op = contraction_in(kernel)
    why = "finish: tiles on devices store one result"
    assert op.attributes[NO_FINISH] == StringAttr(why)
    random = np.random.default_rng(3)
    shapes = [type.get_shape() for type in kernel.arguments]
    arrays = [random.integers(-3, 4, x).astype(np.float32) for x in shapes]
    a, b, c, r, *_ = arrays
    wanted = np.maximum(a @ b + c, 0), a @ b, (a @ b) * r
    results = run_on_copies(kernel, arrays)[-3:]
    for result, exact in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(result, exact)


JOB = """
job.job @net placement <cpu, [0:0]> {{
  %x = job.input "x" : tensor<9x33x{t}>
  %w = job.input "w" : tensor<33x19x{t}>
  %r = job.input "r" : tensor<9x19x{t}>
  %m = op.matmul %x, %w : tensor<9x33x{t}>, tensor<33x19x{t}> -> tensor<9x19x{t}>
  %g = op.gelu %m : tensor<9x19x{t}> -> tensor<9x19x{t}>
  %s = op.add %m, %r : tensor<9x19x{t}>, tensor<9x19x{t}> -> tensor<9x19x{t}>
  job.output "g", %g : tensor<9x19x{t}>
  job.output "s", %s : tensor<9x19x{t}>
}}"""


BOUNDS = [("f16", 2e-2), ("f32", 1e-5), ("f64", 1e-13)]


@pytest.mark.parametrize(("type", "bound"), BOUNDS)
def test_gelu_and_a_sum_of_one_matmul_are_one_kernel(type: str, bound: float) -> None:
    context = Context()
    for name, factory in get_all_dialects().items():
        context.register_dialect(name, factory)
    module = Parser(context, JOB.format(t=type)).parse_module()
    seed = int(np.random.SeedSequence().generate_state(1)[0])
    print(f"seed {seed}")
    random = np.random.default_rng(seed)
    shapes = {"x": (9, 33), "w": (33, 19), "r": (9, 19)}
    given = {
        name: random.normal(size=shape).astype(np.dtype(type.replace("f", "float")))
        for name, shape in shapes.items()
    }
    model = Model(module, {}, Path())
    with Session(model) as session:
        found = session.run(given)
    x, w, r = (array.astype(np.float64) for array in given.values())
    m = x @ w
    gelu = m * 0.5 * (1 + special.erf(m / np.sqrt(2)))
    for name, exact in (("g", gelu), ("s", m + r)):
        atol = bound * abs(exact).max()
        np.testing.assert_allclose(found[name].astype(np.float64), exact, 0, atol)
