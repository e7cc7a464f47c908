"""Lines, in vectors of every length, and which loops become lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pytest
from kernel_runs import run_source
from numpy.typing import NDArray

from penstock.dialects.launch import KernelOp
from penstock.lowering.codegen.target import kernel_source
from penstock.runtime.jit.cpu import compile_cpu

Array: TypeAlias = NDArray[np.generic]
ParseKernel: TypeAlias = Callable[[str], KernelOp]
RunKernel: TypeAlias = Callable[[KernelOp, Sequence[Array]], None]

EXTENTS = [2, 3, 7, 8, 15, 16, 17, 31, 33, 63, 64, 65, 100, 129, 1000, 4097]
DTYPES = {"f32": np.float32, "f64": np.float64}
FOLDS = {
    "addf": np.sum,
    "mulf": np.prod,
    "maximumf": np.max,
    "minimumf": np.min,
    "maxnumf": np.fmax.reduce,
    "minnumf": np.fmin.reduce,
}


def numbers(extent: int, type: str) -> Array:
    """Random numbers near 1."""
    random = np.random.default_rng(extent)
    values: Array = (1 + random.normal(size=extent) / 50).astype(DTYPES[type])
    return values


def generic(ins: Sequence[str], out: str, body: str) -> str:
    """A loop over i; `ins` and `out` are buffers of the loop, or `%o` a fold."""
    maps = [*("(i)" for _ in ins), "()" if out == "%s" else "(i)"]
    text = ", ".join(f"affine_map<(i) -> {map}>" for map in maps)
    kind = "reduction" if out == "%s" else "parallel"
    vector = "memref<EXTENTxTYPE>"
    out_type = "memref<TYPE>" if out == "%s" else vector
    names = ", ".join(f"%x{n}: TYPE" for n in range(len(ins)))
    return f"""
      linalg.generic {{indexing_maps = [{text}], iterator_types = ["{kind}"]}}
        ins({", ".join(ins)} : {", ".join([vector] * len(ins))})
        outs({out} : {out_type}) {{
      ^bb0({names}, %so_far: TYPE):
        {body}
        linalg.yield %r : TYPE
      }}"""


def kernel(arguments: str, body: str, extent: int, type: str) -> str:
    """The text of a kernel."""
    text = f'launch.kernel @k target "cpu" ({arguments}) {{ {body} }}'
    return text.replace("EXTENT", str(extent)).replace("TYPE", type)


@pytest.mark.parametrize("type", DTYPES)
@pytest.mark.parametrize("extent", EXTENTS)
def test_each_element_is_written_once(
    extent: int, type: str, parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    a, b = numbers(extent, type), numbers(extent, type)[::-1].copy()
    out = np.zeros_like(a)
    body = """%p = arith.mulf %x0, %x1 : TYPE
              %c = arith.cmpf ult, %x0, %x1 : TYPE
              %r = arith.select %c, %p, %x0 : TYPE"""
    vector = "memref<EXTENTxTYPE>"
    arguments = f"%a: {vector}, %b: {vector}, %o: {vector}"
    text = kernel(arguments, generic(["%a", "%b"], "%o", body), extent, type)
    assert "line(" in kernel_source(parse_kernel(text))
    run_kernel(parse_kernel(text), [a, b, out])
    np.testing.assert_array_equal(out, np.where(np.less(a, b), np.multiply(a, b), a))


@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize("fold", FOLDS)
def test_folds(
    fold: str, extent: int, parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    """Each length and each fold meet both types in turns."""
    turn = EXTENTS.index(extent) + [*FOLDS].index(fold)
    type = [*DTYPES][turn % len(DTYPES)]
    a = numbers(extent, type)
    total = a[:1].reshape(()).copy()
    total[...] = 1.5
    body = f"%r = arith.{fold} %so_far, %x0 : TYPE"
    arguments = "%a: memref<EXTENTxTYPE>, %s: memref<TYPE>"
    text = kernel(arguments, generic(["%a"], "%s", body), extent, type)
    assert "folds=" in kernel_source(parse_kernel(text))
    run_kernel(parse_kernel(text), [a, total])
    wanted = FOLDS[fold]([1.5, *a.tolist()])
    tolerance = 4 * np.sqrt(extent) * np.finfo(DTYPES[type]).eps
    assert abs(total.item() / wanted - 1) <= tolerance


@pytest.mark.parametrize("fold", ["maximumf", "minimumf", "maxnumf", "minnumf"])
@pytest.mark.parametrize("where", [0, 5, 16, 40])
def test_folds_know_nan(
    fold: str, where: int, parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    a = numbers(41, "f32")
    a[where] = np.nan
    total = np.array(1.0, np.float32)
    body = f"%r = arith.{fold} %x0, %so_far : TYPE"
    arguments = "%a: memref<EXTENTxTYPE>, %s: memref<TYPE>"
    run_kernel(
        parse_kernel(kernel(arguments, generic(["%a"], "%s", body), 41, "f32")),
        [a, total],
    )
    np.testing.assert_array_equal(total, FOLDS[fold](np.array([1.0, *a])))


@pytest.mark.skipif(
    os.environ.get("PENSTOCK_TEST_TARGET", "cpu") != "cpu",
    reason="one thread adds the terms in their order, where each sum is rounded",
)
def test_a_sum_of_products_is_rounded_once_a_term(
    parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    a = np.array([1 + 2.0**-12, 0] * 8, np.float32)
    b = np.array([1 - 2.0**-12, 0] * 8, np.float32)
    total = np.array(-8.0, np.float32)
    body = """%p = arith.mulf %x0, %x1 : TYPE
              %r = arith.addf %so_far, %p : TYPE"""
    arguments = "%a: memref<EXTENTxTYPE>, %b: memref<EXTENTxTYPE>, %s: memref<TYPE>"
    text = kernel(arguments, generic(["%a", "%b"], "%s", body), 16, "f32")
    run_kernel(parse_kernel(text), [a, b, total])
    assert total == -8 * 2.0**-24


def test_what_is_stored_may_lie_over_what_is_loaded(
    parse_kernel: ParseKernel,
) -> None:
    a = numbers(1003, "f32")
    body = "%r = arith.mulf %x0, %x0 : TYPE"
    arguments = "%a: memref<EXTENTxTYPE>, %o: memref<EXTENTxTYPE>"
    text = kernel(arguments, generic(["%a"], "%o", body), 1003, "f32")
    wanted = np.multiply(a, a)
    assert run_source(kernel_source(parse_kernel(text)), [a, a]) == 0
    np.testing.assert_array_equal(a, wanted)


LOOP = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c9 = arith.constant 9 : index
  %f = arith.constant 2.0 : f32
  "scf.parallel"(%c0, %c9, %c1) <{operandSegmentSizes = array<i32: 1, 1, 1, 0>}> ({
  ^bb0(%i: index):
    scf.for %j = %c0 to %c9 step %c1 {
      BODY
    }
    scf.reduce
  }) : (index, index, index) -> ()"""

LOAD = "%x = memref.load %a[%i, %j] : memref<9x9xf32>"
STORE = "memref.store %y, %o[%i, %j] : memref<9x9xf32>"
DECLINED = {
    "columns": """%y = memref.load %a[%j, %i] : memref<9x9xf32>
                  memref.store %y, %o[%i, %j] : memref<9x9xf32>""",
    "one place": f"""{LOAD}
                     memref.store %x, %o[%i, %i] : memref<9x9xf32>""",
    "a diagonal": """%y = memref.load %a[%j, %j] : memref<9x9xf32>
                     memref.store %y, %o[%i, %j] : memref<9x9xf32>""",
    "an element that was stored": f"""{LOAD}
      memref.store %x, %o[%i, %j] : memref<9x9xf32>
      %z = memref.load %o[%i, %j] : memref<9x9xf32>
      memref.store %z, %a[%i, %j] : memref<9x9xf32>""",
    "an element that others store": f"""
      %y = memref.load %o[%i, %c1] : memref<9x9xf32>
      {STORE}""",
    "an index": f"""%k = arith.index_cast %j : index to i64
      %y = arith.sitofp %k : i64 to f32
      {STORE}""",
}
TAKEN = {
    "elements": f"{LOAD} %y = arith.mulf %x, %f : f32 {STORE}",
    "one that all turns read": f"""
      %z = memref.load %a[%i, %c1] : memref<9x9xf32>
      {LOAD} %y = arith.addf %x, %z : f32 {STORE}""",
    "one before it is stored": f"""
      %x = memref.load %o[%i, %j] : memref<9x9xf32>
      %y = arith.addf %x, %f : f32 {STORE}""",
}


def loop_kernel(body: str) -> str:
    """A kernel with a loop over the elements of rows."""
    text = LOOP.replace("BODY", body)
    arguments = "%a: memref<9x9xf32>, %o: memref<9x9xf32>"
    return f'launch.kernel @k target "cpu" ({arguments}) {{ {text} }}'


@pytest.mark.parametrize("name", [*DECLINED, *TAKEN])
def test_which_loops_are_lines(
    name: str, parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    body = {**DECLINED, **TAKEN}[name]
    made = parse_kernel(loop_kernel(body))
    assert ("line(" in kernel_source(made)) == (name in TAKEN)
    a = np.random.default_rng(2).normal(size=(9, 9)).astype(np.float32)
    out = np.full((9, 9), 3, np.float32)
    wanted = {
        "columns": a.T,
        "a diagonal": np.broadcast_to(np.diag(a), (9, 9)),
        "an element that was stored": a,
        "an element that others store": out,
        "an index": np.broadcast_to(np.arange(9), (9, 9)),
        "elements": a * np.float32(2),
        "one that all turns read": a + a[:, 1:2],
        "one before it is stored": out + np.float32(2),
        "one place": np.where(np.eye(9) > 0, a[:, 8:], out),
    }[name].copy()
    run_kernel(made, [a, out])
    np.testing.assert_array_equal(out, wanted)


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_parts_do_all_of_the_work(parts: int, parse_kernel: ParseKernel) -> None:
    for shape in ("100003", "300x401"):
        extents = [int(word) for word in shape.split("x")]
        a = np.random.default_rng(4).normal(size=extents).astype(np.float32)
        row = numbers(extents[-1], "f32")
        out = np.zeros_like(a)
        loops = ", ".join("ij"[: a.ndim])
        maps = ", ".join(
            f"affine_map<({loops}) -> ({map})>" for map in (loops, loops[-1], loops)
        )
        kinds = ", ".join(['"parallel"'] * a.ndim)
        types = f"memref<{shape}xf32>", f"memref<{extents[-1]}xf32>"
        text = f"""
          launch.kernel @k target "cpu"
            (%a: {types[0]}, %b: {types[1]}, %o: {types[0]}) {{
            linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
              ins(%a, %b : {types[0]}, {types[1]}) outs(%o : {types[0]}) {{
            ^bb0(%x: f32, %y: f32, %z: f32):
              %e = math.exp %x : f32
              %r = arith.addf %e, %y : f32
              linalg.yield %r : f32
            }}
          }}"""
        source = kernel_source(parse_kernel(text))
        assert compile_cpu(source, "kernel").parts >= 3
        assert run_source(source, [a, row, out], parts=parts) == 0
        np.testing.assert_allclose(out, np.exp(a) + row, rtol=3e-7, atol=3e-7)
