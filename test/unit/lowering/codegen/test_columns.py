"""Columns, in vectors of every length, and which stages become columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import pytest
from draws import fresh
from kernel_runs import run_on_copies
from numpy.typing import NDArray

from penstock.dialects.launch import KernelOp
from penstock.lowering.codegen.target import kernel_source

Array: TypeAlias = NDArray[Any]
ParseKernel: TypeAlias = Callable[[str], KernelOp]
RunKernel: TypeAlias = Callable[[KernelOp, Sequence[Array]], None]

EXTENTS = [2, 3, 7, 15, 16, 17, 33, 63, 64, 65, 100, 129, 200, 700]
DTYPES = {"f32": np.float32, "f64": np.float64}
HALVES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}

BOUNDS = """
    %zero = arith.constant 0 : index
    %one = arith.constant 1 : index
    %two = arith.constant 2 : index
    %images = arith.constant 3 : index
    %rows = arith.constant 5 : index
    %columns = arith.constant EXTENT : index
"""

SUMS = """
    "scf.parallel"(%zero, %zero, %images, %columns, %one, %one) <{
      operandSegmentSizes = array<i32: 2, 2, 2, 0>
    }> ({
    ^bb0(%i: index, %c: index):
      %first = memref.load %x[%i, %zero, %c] : BUFFER
      memref.store %first, %o[%i, %zero, %c] : BUFFER
      %end = scf.for %r = %one to %rows step %one iter_args(%s = %first) -> (TYPE) {
        %e = memref.load %x[%i, %r, %c] : BUFFER
        %t = arith.addf %s, %e : TYPE
        memref.store %t, %o[%i, %r, %c] : BUFFER
        scf.yield %t : TYPE
      }
      scf.reduce
    }) : ARE_INDICES
"""
"""Running sums over rows, a column at a time."""

SHARED = SUMS.replace("%x[%i, %r, %c]", "%x[%i, %r, %one]")
"""The first row, to which elements of column 1 are added, the same in all columns."""

PRODUCTS = """
    "scf.parallel"(%zero, %zero, %images, %columns, %one, %one) <{
      operandSegmentSizes = array<i32: 2, 2, 2, 0>
    }> ({
    ^bb0(%i: index, %c: index):
      %none = arith.constant 0.0 : TYPE
      scf.for %r = %zero to %two step %one {
        %twice = arith.muli %r, %two : index
        %last = arith.subi %rows, %one : index
        %total = scf.for %k = %zero to %rows step %one iter_args(%s = %none) -> (TYPE) {
          %back = arith.subi %last, %k : index
          %a = memref.load %x[%i, %k, %c] : BUFFER
          %b = memref.load %x[%i, %back, %c] : BUFFER
          %p = arith.mulf %a, %b : TYPE
          %t = arith.addf %s, %p : TYPE
          scf.yield %t : TYPE
        }
        %at = arith.addi %twice, %one : index
        %small = arith.cmpf olt, %total, %none : TYPE
        %y = arith.select %small, %none, %total : TYPE
        memref.store %y, %o[%i, %at, %c] : BUFFER
      }
      scf.reduce
    }) : ARE_INDICES
"""
"""Loops in loops, at computed places: rows 1 and 3 become sums, if not below 0."""

CONSTANTS = """
    "scf.parallel"(%zero, %zero, %images, %columns, %one, %one) <{
      operandSegmentSizes = array<i32: 2, 2, 2, 0>
    }> ({
    ^bb0(%i: index, %c: index):
      %least = arith.constant START : TYPE
      %m = scf.for %r = %zero to %rows step %one iter_args(%s = %least) -> (TYPE) {
        %e = memref.load %x[%i, %r, %c] : BUFFER
        %t = arith.maximumf %s, %e : TYPE
        scf.yield %t : TYPE
      }
      memref.store %m, %o[%i, %two, %c] : BUFFER
      scf.reduce
    }) : ARE_INDICES
"""
"""The maximum of all rows and of a constant, in row 2."""

HALF_SUMS = """
    "scf.parallel"(%zero, %zero, %images, %columns, %one, %one) <{
      operandSegmentSizes = array<i32: 2, 2, 2, 0>
    }> ({
    ^bb0(%i: index, %c: index):
      %first = memref.load %x[%i, %zero, %c] : BUFFER
      memref.store %first, %o[%i, %zero, %c] : BUFFER
      %wide = arith.extf %first : TYPE to f32
      %end = scf.for %r = %one to %rows step %one iter_args(%s = %wide) -> (f32) {
        %e = memref.load %x[%i, %r, %c] : BUFFER
        %f = arith.extf %e : TYPE to f32
        %t = arith.addf %s, %f : f32
        %g = memref.load %x[%i, %r, %one] : BUFFER
        %h = arith.extf %g : TYPE to f32
        %u = arith.addf %t, %h : f32
        %n = arith.truncf %u : f32 to TYPE
        memref.store %n, %o[%i, %r, %c] : BUFFER
        scf.yield %u : f32
      }
      scf.reduce
    }) : ARE_INDICES
"""
"""Running sums of `f32` over rows and over column 1, rounded where they are stored."""

SWAP = """
    "scf.parallel"(%zero, %columns, %one) <{
      operandSegmentSizes = array<i32: 1, 1, 1, 0>
    }> ({
    ^bb0(%c: index):
      scf.for %i = %zero to %images step %one {
        scf.for %r = %zero to %two step %one {
          %last = arith.constant 4 : index
          %back = arith.subi %last, %r : index
          %a = memref.load %o[%i, %r, %c] : BUFFER
          %b = memref.load %o[%i, %back, %c] : BUFFER
          memref.store %b, %o[%i, %r, %c] : BUFFER
          memref.store %a, %o[%i, %back, %c] : BUFFER
        }
      }
      scf.reduce
    }) : ARE_INDICES
"""
"""The rows of each image the other way round, in their place."""


def kernel(body: str, extent: int, type: str = "f32") -> str:
    """The text of a kernel on buffers of 3 images of 5 rows."""
    text = (
        f'launch.kernel @k target "cpu" (%x: BUFFER, %o: BUFFER) {{ {BOUNDS}{body} }}'
    )
    indices = ", ".join(["index"] * (3 if body is SWAP else 6))
    text = text.replace("ARE_INDICES", f"({indices}) -> ()")
    text = text.replace("BUFFER", "memref<3x5xEXTENTxTYPE>")
    return text.replace("EXTENT", str(extent)).replace("TYPE", type)


def numbers(extent: int, type: str) -> Array:
    """Random numbers."""
    random = np.random.default_rng(extent)
    values: Array = random.standard_normal((3, 5, extent)).astype(DTYPES[type])
    return values


def products(x: Array) -> Array:
    """The result of `PRODUCTS` on zeros."""
    result = np.zeros_like(x)
    sums = (x * x[:, ::-1]).sum(1)
    result[:, 1] = result[:, 3] = np.maximum(sums, 0)
    return result


def shared(x: Array) -> Array:
    """The result of `SHARED`."""
    added = x[:, :, 1:2].copy()
    added[:, 0] = 0
    return x[:, :1] + np.cumsum(added, 1)


MEANINGS: dict[str, Callable[[Array], Array]] = {
    SUMS: lambda x: np.cumsum(x, 1),
    SHARED: shared,
    PRODUCTS: products,
}


@pytest.mark.parametrize("extent", EXTENTS)
@pytest.mark.parametrize("body", MEANINGS, ids=["sums", "shared", "products"])
def test_columns_of_every_length(
    body: str, extent: int, parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    """Each length and each body meet both types in turns."""
    turn = EXTENTS.index(extent) + [*MEANINGS].index(body)
    type = [*DTYPES][turn % len(DTYPES)]
    parsed = parse_kernel(kernel(body, extent, type))
    assert "= columns(" in kernel_source(parsed)
    x = numbers(extent, type)
    out = np.zeros_like(x)
    run_kernel(parsed, [x, out])
    digits = 1e-5 if type == "f32" else 1e-13
    np.testing.assert_allclose(out, MEANINGS[body](x), rtol=digits, atol=digits)


@pytest.mark.parametrize(("type", "extent"), [("f16", 300), ("bf16", 19)])
def test_columns_of_halves_are_computed_in_f32(
    type: str, extent: int, parse_kernel: ParseKernel
) -> None:
    parsed = parse_kernel(kernel(HALF_SUMS, extent, type))
    assert f"memory=['{type}', '{type}']" in kernel_source(parsed)
    random = fresh()
    x = random.normal(size=(3, 5, extent)).astype(HALVES[type])
    wide = x.astype(np.float32)
    sums = [wide[:, 0]]
    for row in range(1, 5):
        sums.append(sums[-1] + wide[:, row] + wide[:, row, 1:2])
    _, found = run_on_copies(parsed, [x, np.zeros_like(x)])
    wanted = np.stack(sums, 1).astype(x.dtype)
    np.testing.assert_array_equal(found.view(np.uint16), wanted.view(np.uint16))


@pytest.mark.parametrize("extent", EXTENTS)
def test_columns_may_store_where_they_have_loaded(
    extent: int, parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    parsed = parse_kernel(kernel(SWAP, extent))
    assert "= columns(" in kernel_source(parsed)
    x = numbers(extent, "f32")
    out = x.copy()
    run_kernel(parsed, [x, out])
    np.testing.assert_array_equal(out, x[:, ::-1])


@pytest.mark.parametrize("type", DTYPES)
@pytest.mark.parametrize("start", [np.inf, -np.inf, np.nan], ids=str)
def test_columns_of_constants_that_are_no_numbers(
    start: float, type: str, parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    bits = np.array(start, DTYPES[type]).view(f"u{DTYPES[type]().itemsize}")
    text = kernel(CONSTANTS.replace("START", hex(int(bits))), 7, type)
    parsed = parse_kernel(text)
    assert "= columns(" in kernel_source(parsed)
    x = numbers(7, type)
    out = np.zeros_like(x)
    run_kernel(parsed, [x, out])
    np.testing.assert_array_equal(out[:, 2], np.maximum(x.max(1), start))


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 40])
def test_parts_share_blocks_of_columns(parts: int, parse_kernel: ParseKernel) -> None:
    extent = 100_003
    source = kernel_source(parse_kernel(kernel(SUMS, extent)))
    most = next(line for line in source.splitlines() if line.startswith("PARTS = "))
    assert int(most.removeprefix("PARTS = ")) > 1
    x = numbers(extent, "f32")
    out = np.zeros_like(x)
    _, found = run_on_copies(source, [x, out], parts=parts)
    np.testing.assert_allclose(found, np.cumsum(x, 1), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%t, %o[%i, %r, %c]", "%t, %o[%i, %r, %one]"),
        ("%x[%i, %r, %c]", "%x[%i, %c, %r]"),
        ("%one to %rows step %one", "%one to %rows step %two"),
        ("%images, %columns", "%images, %one"),
        ("%one to %rows step %one", "%one to %c step %one"),
    ],
    ids=["stores of one element", "across", "by twos", "one column", "unknown turns"],
)
def test_what_are_no_columns(
    old: str, new: str, parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    assert old in SUMS
    parsed = parse_kernel(kernel(SUMS.replace(old, new), 5))
    assert "columns" not in kernel_source(parsed)
    run_kernel(parsed, [numbers(5, "f32"), numbers(5, "f32")])
