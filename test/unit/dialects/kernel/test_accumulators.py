"""
Sums of halves, against NumPy in 64 bits: accumulators have 32 bits, in all loops.

A result is rounded once: half a unit in the last place of the right number, and beside
it what `n` terms lose in `f32`, at most `n` units of the sum of their absolute values.
A finish that a target leaves to a stage of its own adds a rounding of the sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
import pytest
from draws import fresh
from kernel_runs import run_on_copies
from numpy.typing import NDArray

from penstock.dialects.kernel.interface import SCHEDULE, StructuredOp
from penstock.dialects.kernel.reference import replace_by_loops
from penstock.dialects.launch import KernelOp
from penstock.lowering.codegen.cuda.kernel_schedule import schedule_kernel
from penstock.lowering.convert.raise_linalg_to_kernel import raise_kernel

Array: TypeAlias = NDArray[Any]
Parse: TypeAlias = Callable[[str], KernelOp]
Meaning: TypeAlias = Callable[..., Array]
"""The sums of absolute values, or the result, of arrays in 64 bits."""

HALVES = {"f16": np.dtype("float16"), "bf16": np.dtype(ml_dtypes.bfloat16)}
BITS = {"f16": 10, "bf16": 7}
TERMS = 1200
"""So many that partial sums are far larger than a term, and lose bits of it."""


@dataclass(frozen=True)
class Case:
    """A stage on `x`, others and a result `y`, with its meaning."""

    text: str
    shapes: Sequence[tuple[int, ...]]
    """Of all arguments, the result last."""
    value: Meaning
    terms: int = TERMS

    def kernel(self, parse: Parse, type: str, target: str) -> KernelOp:
        """The kernel; `!x` in the text is the type of `x`, and `H` that of elements."""
        names = "xwc"[: len(self.shapes) - 1] + "y"
        text, arguments = self.text.replace("H", type), list[str]()
        for name, shape in zip(names, self.shapes, strict=True):
            memref = f"memref<{''.join(f'{n}x' for n in shape)}{type}>"
            text = text.replace(f"!{name}", memref)
            arguments.append(f"%{name}: {memref}")
        head = f'launch.kernel @k target "{target}" ({", ".join(arguments)})'
        return parse(f"{head} {{{text}}}")


PRODUCT = """kernel.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>,
    affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>"""
FINISH = """finish(%c : !c) {
    ^bb0(%sum: f32, %v: H):
      %e = arith.extf %v : H to f32
      %0 = arith.addf %sum, %e : f32
      %1 = arith.truncf %0 : f32 to H
      kernel.yield %1 : H
    }"""


def sums(dims: str, axis: int) -> str:
    """The sums of a matrix of these dimensions along an axis, rounded at their end."""
    return f"""kernel.row along [{axis}] indexing_maps = [
          affine_map<({dims}) -> ({dims})>, affine_map<({dims}) -> (r)>]
          ins(%x : !x) outs(%y : !y) {{
        ^bb0(%v: H):
          %e = arith.extf %v : H to f32
          %s = kernel.all_reduce add %e : f32
          %t = arith.truncf %s : f32 to H
          kernel.yield %t : H
        }}"""


def product(x: Array, w: Array) -> Array:
    return x @ w


def ended_product(x: Array, w: Array, c: Array) -> Array:
    return x @ w + 2 * c


def sums_of_rows(x: Array) -> Array:
    return x.sum(1)


def sums_of_columns(x: Array) -> Array:
    return x.sum(0)


def padded(x: Array) -> Array:
    return np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))


def depthwise(x: Array, w: Array, c: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(padded(x), w.shape[2:], (2, 3))
    return np.einsum("ncyxij,cij->ncyx", windows, w[:, 0]) + c[None, :, None, None]


def tiles(x: Array, w: Array) -> Array:
    return np.einsum("ik,jl,klt->ijt", x, x, w)


def means(x: Array) -> Array:
    return np.lib.stride_tricks.sliding_window_view(x, (40, 30), (1, 2)).mean((3, 4))


CASES = {
    "product": Case(
        f"{PRODUCT}] ins(%x, %w : !x, !w) outs(%y : !y)",
        [(2, TERMS), (TERMS, 3), (2, 3)],
        product,
    ),
    "product with a start and a finish": Case(
        f"{PRODUCT}, affine_map<(m, n, k) -> (n)>, affine_map<(m, n, k) -> (n)>] "
        f"ins(%x, %w : !x, !w) outs(%y : !y) start(%c : !c) {FINISH}",
        [(2, TERMS), (TERMS, 3), (3,), (2, 3)],
        ended_product,
    ),
    "matmul of linalg": Case(
        "linalg.generic {indexing_maps = [affine_map<(m, n, k) -> (m, k)>, "
        "affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>], "
        'iterator_types = ["parallel", "parallel", "reduction"]} '
        "ins(%x, %w : !x, !w) outs(%y : !y) {\n^bb0(%a: H, %b: H, %s: H):\n"
        "%p = arith.mulf %a, %b : H\n%t = arith.addf %s, %p : H\n"
        "linalg.yield %t : H\n}",
        [(2, TERMS), (TERMS, 3), (2, 3)],
        product,
    ),
    "depthwise convolution": Case(
        """%p = kernel.padded %x low [0, 0, 1, 1] high [0, 0, 1, 1]
             : !x to memref<1x2x8x11xH>
        kernel.contract indexing_maps = [
          affine_map<(n, c, y, x, i, j) -> (n, c, y + i, x + j)>,
          affine_map<(n, c, y, x, i, j) -> (c, 0, i, j)>,
          affine_map<(n, c, y, x, i, j) -> (n, c, y, x)>,
          affine_map<(n, c, y, x, i, j) -> (c)>]
          ins(%p, %w : memref<1x2x8x11xH>, !w) outs(%y : !y) """
        + FINISH,
        [(1, 2, 6, 9), (2, 1, 4, 6), (2,), (1, 2, 5, 6)],
        depthwise,
        24,
    ),
    "transform of tiles": Case(
        """kernel.tile_transform indexing_maps = [
          affine_map<(i, j, t, k, l) -> (i, k)>, affine_map<(i, j, t, k, l) -> (j, l)>,
          affine_map<(i, j, t, k, l) -> (k, l, t)>,
          affine_map<(i, j, t, k, l) -> (i, j, t)>]
          ins(%x, %x, %w : !x, !x, !w) outs(%y : !y)""",
        [(4, 6), (6, 6, 9), (4, 4, 9)],
        tiles,
        36,
    ),
    "sums of rows": Case(sums("r, e", 1), [(3, TERMS), (3,)], sums_of_rows),
    "sums of columns": Case(sums("e, r", 0), [(TERMS, 3), (3,)], sums_of_columns),
    "means of windows": Case(
        "kernel.pool mean window [40, 30] dims [1, 2] ins(%x : !x) outs(%y : !y)",
        [(1, 41, 31), (1, 2, 2)],
        means,
    ),
}
KINDS = [
    *((name, "f16") for name in CASES),
    *((name, "bf16") for name in ("product with a start and a finish", "sums of rows")),
]


def check(
    case: Case, type: str, kernel: KernelOp, rng: np.random.Generator, cuts: int = 1
) -> None:
    """Compare a kernel, which rounds sums so often, with its meaning."""
    dtype = HALVES[type]
    *ins, out = (rng.uniform(0.1, 1, shape).astype(dtype) for shape in case.shapes)
    out[...] = 0
    found = run_on_copies(kernel, [*ins, out])[-1].astype(np.float64)
    # All is positive, so that it is the sum of absolute values, too.
    right = case.value(*(array.astype(np.float64) for array in ins))
    ulp = np.exp2(np.floor(np.log2(right)) - BITS[type])
    bound = cuts * ulp * 0.5 + case.terms * 2.0**-24 * right
    np.testing.assert_array_less(np.abs(found - right), bound * (1 + 1e-9))


@pytest.mark.parametrize(("name", "type"), KINDS)
@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_loops_keep_accumulators_of_32_bits(
    parse_kernel: Parse, target: str, name: str, type: str
) -> None:
    case = CASES[name]
    kernel = case.kernel(parse_kernel, type, target)
    raise_kernel(kernel)
    for op in [*kernel.body.block.ops]:
        if isinstance(op, StructuredOp):
            replace_by_loops(op)
    kernel.verify()
    check(case, type, kernel, fresh())


@pytest.mark.parametrize(("name", "type"), KINDS)
def test_schedules_of_devices_keep_accumulators_of_32_bits(
    parse_kernel: Parse, name: str, type: str
) -> None:
    case = CASES[name]
    kernel = case.kernel(parse_kernel, type, "cuda")
    raise_kernel(kernel)
    schedule_kernel(kernel, 132)
    ops = kernel.body.block.ops
    shares = any("launch.rows" in str(op.attributes.get(SCHEDULE)) for op in ops)
    # Threads that share terms add them to the result before another stage ends it.
    check(case, type, kernel, fresh(), 2 if shares and "finish" in name else 1)
