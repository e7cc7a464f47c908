"""Contractions with several results, in tiles of all forms, against NumPy."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from crafted_schedules import set_schedule
from draws import fresh
from kernel_runs import run_on_copies, run_source
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
from penstock.dialects.utils.numpy_types import dtype_of
from penstock.lowering.codegen.body.epilogue import stages_of
from penstock.lowering.codegen.cpu import kernel_schedule as cpu
from penstock.lowering.codegen.cuda import kernel_schedule as cuda
from penstock.lowering.codegen.target import kernel_source
from penstock.runtime.loading.weight_layout import as_stored
from penstock.tools.session.program_export import panels_of
from penstock.tools.session.session import Model, Session

Array: TypeAlias = NDArray[Any]
ParseKernel: TypeAlias = Callable[[str], KernelOp]
DeviceKernels: TypeAlias = Callable[[str], list[KernelOp]]

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


DEVICE_JOB = """
  %x = job.input "x" : tensor<{m}x{k}x{t}>
  %w = job.input "w" : tensor<{k}x{n}x{t}>
  %r = job.input "r" : tensor<{m}x{n}x{t}>
  %y = op.matmul %x, %w
    : tensor<{m}x{k}x{t}>, tensor<{k}x{n}x{t}> -> tensor<{m}x{n}x{t}>
  %p = op.relu %y : tensor<{m}x{n}x{t}> -> tensor<{m}x{n}x{t}>
  %s = op.sub %p, %r : tensor<{m}x{n}x{t}>, tensor<{m}x{n}x{t}> -> tensor<{m}x{n}x{t}>
  job.output "y", %y : tensor<{m}x{n}x{t}>
  job.output "p", %p : tensor<{m}x{n}x{t}>
  job.output "s", %s : tensor<{m}x{n}x{t}>"""
DEVICE_CASES = [
    ("f32", (20, 64, 9), "put_4"),
    ("f32", (17, 67, 9), "store_if"),
    ("f64", (16, 64, 8), "put_2"),
    ("bf16", (32, 64, 24), "copy_back"),
    ("f16", (33, 72, 24), "copy_back_if"),
    ("f16", (24, 70, 9), "store_2_if"),
    ("f16", (16, 33, 8), "store_if"),
]


@pytest.mark.parametrize(("type", "extents", "stores"), DEVICE_CASES)
def test_a_matmul_of_three_results_is_one_kernel_on_a_device(
    device_kernels: DeviceKernels, type: str, extents: tuple[int, ...], stores: str
) -> None:
    m, n, k = extents
    (kernel,) = device_kernels(DEVICE_JOB.format(m=m, n=n, k=k, t=type))
    source = kernel_source(kernel)
    assert len(re.findall(r"\bStage\(stage_[0-9]+,", source)) == 1
    assert f"{stores}(" in source
    random = fresh()
    # Sums of so few terms are exact in 8 bits.
    shapes = [type.get_shape() for type in kernel.arguments]
    dtype = dtype_of(kernel.arguments[0].element_type)
    arrays = [random.integers(-2, 3, shape).astype(dtype) for shape in shapes]
    x, w, r = (array.astype(np.float64) for array in arrays[:3])
    wanted = np.maximum(x @ w, 0) - r, np.maximum(x @ w, 0), x @ w
    for offset in (0, 1):
        given = [array.copy() for array in arrays]
        assert run_source(source, given, target="cuda", offset=offset) == 0
        for result, exact in zip(given[3:], wanted, strict=True):
            np.testing.assert_array_equal(result.astype(np.float64), exact)


def test_results_on_a_device_have_strides_of_their_own(
    parse_kernel: ParseKernel,
) -> None:
    kernel = parse_kernel("""
      launch.kernel @k target "cuda" (%a: memref<3x16x8xf32>, %b: memref<3x8x64xf32>,
          %x: memref<3x16x64xf32>, %y: memref<16x3x64xf32>) {
        kernel.contract indexing_maps = [
            affine_map<(g, m, n, k) -> (g, m, k)>,
            affine_map<(g, m, n, k) -> (g, k, n)>,
            affine_map<(g, m, n, k) -> (g, m, n)>,
            affine_map<(g, m, n, k) -> (m, g, n)>]
            ins(%a, %b : memref<3x16x8xf32>, memref<3x8x64xf32>)
            outs(%x, %y : memref<3x16x64xf32>, memref<16x3x64xf32>) {
        ^bb0(%sum: f32):
          %0 = arith.negf %sum : f32
          kernel.yield %sum, %0 : f32, f32
        }
      }""")
    cuda.schedule_kernel(kernel, 132)
    assert NO_FINISH not in contraction_in(kernel).attributes
    random = fresh()
    shapes = [type.get_shape() for type in kernel.arguments]
    arrays = [random.integers(-3, 4, x).astype(np.float32) for x in shapes]
    a, b, _, _ = arrays
    *_, x, y = run_on_copies(kernel, arrays)
    np.testing.assert_array_equal(x, a @ b)
    np.testing.assert_array_equal(y, -(a @ b).transpose(1, 0, 2))


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
    random = fresh()
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
