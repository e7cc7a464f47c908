"""Lines of floats of 16 bits: loads that extend, stores of what was rounded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.dialects.launch import KernelOp
from penstock.lowering.codegen.target import kernel_source

Array: TypeAlias = NDArray[np.generic]
Words: TypeAlias = NDArray[np.uint16]
ParseKernel: TypeAlias = Callable[[str], KernelOp]
RunKernel: TypeAlias = Callable[[KernelOp, Sequence[Array]], None]

DTYPES = {"bf16": np.dtype(ml_dtypes.bfloat16), "f16": np.dtype(np.float16)}
PATTERNS = np.arange(1 << 16).astype(np.uint16)


def along(ins: Sequence[str], out: str, extent: int, body: str) -> str:
    """A kernel of one loop from `%a0`, `%a1`... of some types to `%o`."""
    names = [f"%a{number}" for number in range(len(ins))]
    types = [f"memref<{extent}x{type}>" for type in (*ins, out)]
    maps = ", ".join(["affine_map<(i) -> (i)>"] * len(types))
    arguments = zip((*names, "%o"), types, strict=True)
    given = ", ".join(f"%x{n}: {type}" for n, type in enumerate(ins))
    return f"""
      launch.kernel @k target "cpu" ({", ".join(map(": ".join, arguments))}) {{
        linalg.generic {{indexing_maps = [{maps}], iterator_types = ["parallel"]}}
          ins({", ".join(names)} : {", ".join(types[:-1])}) outs(%o : {types[-1]}) {{
        ^bb0({given}, %z: {out}):
          {body}
          linalg.yield %r : {out}
        }}
      }}"""


def same_bits(got: Array, wanted: Array) -> None:
    """Check that all bits are equal, but for those of NaNs."""
    nan = np.isnan(wanted.astype(np.float32))
    np.testing.assert_array_equal(np.isnan(got.astype(np.float32)), nan)
    word = f"u{got.itemsize}"
    np.testing.assert_array_equal(got.view(word)[~nan], wanted.view(word)[~nan])


@pytest.mark.parametrize("type", DTYPES)
def test_all_patterns_are_extended(
    type: str, parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    a = PATTERNS.view(DTYPES[type])
    out = np.zeros(a.size, np.float32)
    body = f"%r = arith.extf %x0 : {type} to f32"
    kernel = parse_kernel(along([type], "f32", a.size, body))
    assert f"memory=['{type}', 'f32']" in kernel_source(kernel)
    run_kernel(kernel, [a, out])
    same_bits(out, a.astype(np.float32))


def around(type: str) -> NDArray[np.float32]:
    """All numbers of a type, what lies between them, and next to that; and NaNs."""
    if type == "bf16":
        upper = PATTERNS.astype(np.uint32) << 16
        words = [upper + rest for rest in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)]
        return np.concatenate(words).astype(np.uint32).view(np.float32)
    exact = PATTERNS.view(np.float16).astype(np.float64)
    exact = exact[np.isfinite(exact)]
    exact.sort()
    middle = ((exact[1:] + exact[:-1]) / 2).astype(np.float32)
    ends = np.array([65504, 65519, 65520, 65536, 1e30, np.inf, np.nan], np.float32)
    both = [np.nextafter(middle, np.float32(end)) for end in (-np.inf, np.inf)]
    found = [exact.astype(np.float32), middle, *both, ends, np.negative(ends)]
    return np.concatenate(found)


@pytest.mark.parametrize("type", DTYPES)
def test_numbers_are_rounded_to_the_nearest_of_two_to_the_even_one(
    type: str, parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    a = around(type)
    out = np.zeros(a.size, DTYPES[type])
    body = f"%r = arith.truncf %x0 : f32 to {type}"
    kernel = parse_kernel(along(["f32"], type, a.size, body))
    assert f"memory=['f32', '{type}']" in kernel_source(kernel)
    run_kernel(kernel, [a, out])
    with np.errstate(over="ignore", invalid="ignore"):
        same_bits(out, a.astype(DTYPES[type]))


@pytest.mark.parametrize("type", DTYPES)
@pytest.mark.parametrize("extent", [2, 15, 17, 77])
def test_vectors_of_all_lengths(
    extent: int, type: str, parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    a, b = np.random.default_rng(extent).normal(size=(2, extent)).astype(DTYPES[type])
    out = np.zeros_like(a)
    body = f"""%p = arith.extf %x0 : {type} to f32
               %q = arith.extf %x1 : {type} to f32
               %s = arith.mulf %p, %q : f32
               %r = arith.truncf %s : f32 to {type}"""
    run_kernel(parse_kernel(along([type] * 2, type, extent, body)), [a, b, out])
    product = a.astype(np.float32) * b.astype(np.float32)
    same_bits(out, product.astype(DTYPES[type]))


def rows(type: str, step: int) -> str:
    """Per row, each of some elements plus half of their sum, rounded."""
    wide, narrow = f"memref<3x{21 * step}x{type}>", f"memref<3x21x{type}>"
    return f"""
      launch.kernel @k target "cpu" (%a: {wide}, %o: {narrow}) {{
        %c0 = arith.constant 0 : index
        %c1 = arith.constant 1 : index
        %c3 = arith.constant 3 : index
        %n = arith.constant 21 : index
        %step = arith.constant {step} : index
        %zero = arith.constant 0.0 : f32
        %half = arith.constant 0.5 : f32
        "scf.parallel"(%c0, %c3, %c1) <{{operandSegmentSizes = array<i32: 1, 1, 1, 0>}}>
        ({{
        ^bb0(%i: index):
          %sum = scf.for %j = %c0 to %n step %c1 iter_args(%s = %zero) -> (f32) {{
            %k = arith.muli %j, %step : index
            %x = memref.load %a[%i, %k] : {wide}
            %y = arith.extf %x : {type} to f32
            %t = arith.addf %s, %y fastmath<reassoc> : f32
            scf.yield %t : f32
          }}
          scf.for %j = %c0 to %n step %c1 {{
            %k = arith.muli %j, %step : index
            %x = memref.load %a[%i, %k] : {wide}
            %y = arith.extf %x : {type} to f32
            %h = arith.mulf %sum, %half : f32
            %t = arith.addf %y, %h : f32
            %z = arith.truncf %t : f32 to {type}
            memref.store %z, %o[%i, %j] : {narrow}
          }}
          scf.reduce
        }}) : (index, index, index) -> ()
      }}"""


@pytest.mark.parametrize("type", DTYPES)
@pytest.mark.parametrize("step", [1, 2, 3])
def test_folds_and_elements_that_are_apart(
    step: int, type: str, parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    a = np.random.default_rng(step).integers(-9, 9, (3, 21 * step)).astype(DTYPES[type])
    out = np.zeros((3, 21), a.dtype)
    kernel = parse_kernel(rows(type, step))
    assert kernel_source(kernel).count("= line(") == 2
    run_kernel(kernel, [a, out])
    taken = a[:, ::step].astype(np.float32)
    same_bits(out, (taken + taken.sum(1, keepdims=True) / 2).astype(a.dtype))


@pytest.mark.parametrize("type", DTYPES)
def test_sums_that_are_rounded_at_each_term_are_no_lines(
    type: str, parse_kernel: ParseKernel
) -> None:
    text = f"""
      launch.kernel @k target "cpu" (%a: memref<40x{type}>, %o: memref<{type}>) {{
        linalg.generic {{iterator_types = ["reduction"], indexing_maps =
                        [affine_map<(i) -> (i)>, affine_map<(i) -> ()>]}}
          ins(%a : memref<40x{type}>) outs(%o : memref<{type}>) {{
        ^bb0(%x: {type}, %s: {type}):
          %r = arith.addf %s, %x : {type}
          linalg.yield %r : {type}
        }}
      }}"""
    assert "line(" not in kernel_source(parse_kernel(text))
