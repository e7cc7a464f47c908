"""Lines of integers that are cast from and to floats of 32 bits: vectors, exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pytest
from draws import fresh
from numpy.typing import NDArray

from penstock.dialects.launch import KernelOp
from penstock.lowering.codegen.target import kernel_source

Array: TypeAlias = NDArray[np.generic]
ParseKernel: TypeAlias = Callable[[str], KernelOp]
RunKernel: TypeAlias = Callable[[KernelOp, Sequence[Array]], None]

EXTENTS = [2, 7, 16, 33, 100]
SIGNS = {"s": "int", "u": "uint"}


def along(ins: Sequence[str], out: str, extent: int, body: str) -> str:
    """A kernel of rows of this many elements from `%a0`, `%a1`... to `%o`."""
    names = [f"%a{number}" for number in range(len(ins))]
    types = [f"memref<3x{extent}x{type}>" for type in (*ins, out)]
    maps = ", ".join(["affine_map<(i, j) -> (i, j)>"] * len(types))
    arguments = zip((*names, "%o"), types, strict=True)
    given = ", ".join(f"%x{n}: {type}" for n, type in enumerate(ins))
    iterators = '["parallel", "parallel"]'
    return f"""
      launch.kernel @k target "cpu" ({", ".join(map(": ".join, arguments))}) {{
        linalg.generic {{indexing_maps = [{maps}], iterator_types = {iterators}}}
          ins({", ".join(names)} : {", ".join(types[:-1])}) outs(%o : {types[-1]}) {{
        ^bb0({given}, %z: {out}):
          {body}
          linalg.yield %r : {out}
        }}
      }}"""


def run(
    kernel: KernelOp, arrays: list[Array], out: str, run_kernel: RunKernel
) -> Array:
    """The result of a kernel that is one line; nothing around its result is touched."""
    assert "line(" in kernel_source(kernel)
    whole = np.full(arrays[0].size + 64, 77, out)
    result = whole[32:-32].reshape(arrays[0].shape)
    run_kernel(kernel, [*arrays, result])
    assert (whole[:32] == 77).all()
    assert (whole[-32:] == 77).all()
    return result


def integers(dtype: str, *shape: int) -> Array:
    limits = np.iinfo(dtype)
    random = fresh()
    found = random.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    found[0, :2] = limits.min, limits.max
    return found


@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize("sign", SIGNS)
def test_integers_become_floats(
    sign: str, extent: int, parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    ins = ["i8", "i16", "i32"]
    body = "\n".join(
        f"%f{n} = arith.{sign}itofp %x{n} : {t} to f32" for n, t in enumerate(ins)
    )
    body += "\n%g = arith.addf %f0, %f1 : f32\n%r = arith.addf %g, %f2 : f32"
    kernel = parse_kernel(along(ins, "f32", extent, body))
    arrays = [integers(f"{SIGNS[sign]}{t[1:]}", 3, extent) for t in ins]
    found = run(kernel, arrays, "f4", run_kernel)
    a, b, c = (x.astype(np.float32) for x in arrays)
    np.testing.assert_array_equal(found, a + b + c)


@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize("sign", SIGNS)
@pytest.mark.parametrize("bits", [8, 16, 32])
def test_floats_become_integers(
    bits: int,
    sign: str,
    extent: int,
    parse_kernel: ParseKernel,
    run_kernel: RunKernel,
) -> None:
    """Fractions are dropped."""
    body = f"%r = arith.fpto{sign}i %x0 : f32 to i{bits}"
    kernel = parse_kernel(along(["f32"], f"i{bits}", extent, body))
    dtype = f"{SIGNS[sign]}{bits}"
    limits = np.iinfo(dtype)
    random = fresh()
    x = random.uniform(limits.min, limits.max * 0.999, (3, extent)).astype(np.float32)
    found = run(kernel, [x], dtype, run_kernel)
    np.testing.assert_array_equal(found, x.astype(dtype))


@pytest.mark.parametrize("extent", EXTENTS)
def test_sums_are_made_bytes(
    extent: int, parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    """Less a number each, scaled, rounded to the nearest, moved, and cut to a byte."""
    body = """
      %c = arith.constant 3 : i32
      %d = arith.muli %x1, %c : i32
      %m = arith.subi %x0, %d : i32
      %f = arith.sitofp %m : i32 to f32
      %s = arith.constant 0.0078125 : f32
      %g = arith.mulf %f, %s : f32
      %h = math.roundeven %g : f32
      %t = arith.constant 12.0 : f32
      %i = arith.addf %h, %t : f32
      %l = arith.constant -128.0 : f32
      %j = arith.maximumf %i, %l : f32
      %u = arith.constant 127.0 : f32
      %k = arith.minimumf %j, %u : f32
      %r = arith.fptosi %k : f32 to i8
    """
    kernel = parse_kernel(along(["i32", "i32"], "i8", extent, body))
    random = fresh()
    a, b = (random.integers(-20000, 20000, (3, extent), np.int32) for _ in "ab")
    found = run(kernel, [a, b], "i1", run_kernel)
    wanted = np.round((a - 3 * b).astype(np.float32) * np.float32(0.0078125)) + 12
    np.testing.assert_array_equal(found, np.clip(wanted, -128, 127))


def test_integers_are_extended_cut_and_compared(
    parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    body = """
      %a = arith.extsi %x0 : i8 to i32
      %b = arith.extui %x0 : i8 to i16
      %c = arith.extsi %b : i16 to i32
      %d = arith.maxsi %a, %x1 : i32
      %e = arith.minsi %c, %d : i32
      %f = arith.trunci %e : i32 to i8
      %g = arith.sitofp %f : i8 to f32
      %r = arith.addf %g, %g : f32
    """
    kernel = parse_kernel(along(["i8", "i32"], "f32", 50, body))
    x, y = integers("i1", 3, 50), integers("i4", 3, 50)
    found = run(kernel, [x, y], "f4", run_kernel)
    least = np.minimum(x.view(np.uint8).astype(np.int32), np.maximum(x, y))
    wanted = least.astype(np.int8).astype(np.float32)
    np.testing.assert_array_equal(found, wanted + wanted)
