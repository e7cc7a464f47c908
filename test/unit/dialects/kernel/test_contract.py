"""`kernel.contract`: its NumPy meaning, and the loops that it stands for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest
from kernel_runs import run_on_copies
from numpy.typing import NDArray

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.interface import Alias
from penstock.dialects.kernel.reference import replace_by_loops
from penstock.dialects.kernel.windows import Window, WindowedAxis
from penstock.dialects.launch import KernelOp

Array: TypeAlias = NDArray[Any]
ParseKernel: TypeAlias = Callable[[str], KernelOp]
MAPS = (
    "affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, "
    "affine_map<(m, n, k) -> (m, n)>"
)
EACH, COLUMN = "affine_map<(m, n, k) -> (m, n)>", "affine_map<(m, n, k) -> (n)>"


def kernel_of(parse: ParseKernel, text: str, **types: str) -> KernelOp:
    """A kernel of a text, on arguments of such types."""
    arguments = ", ".join(f"%{name}: memref<{type}>" for name, type in types.items())
    source = f'launch.kernel @k target "cpu" ({arguments}) {{\n{text}\n}}'
    return parse(source)


def contract_of(kernel: KernelOp) -> ContractOp:
    (op,) = (op for op in kernel.walk() if isinstance(op, ContractOp))
    return op


def run_loops(kernel: KernelOp, arrays: Sequence[Array]) -> list[Array]:
    """The arguments of a kernel after its loops have run."""
    op = contract_of(kernel)
    replace_by_loops(op)
    kernel.verify()
    return run_on_copies(kernel, arrays)


def numbers(seed: int, *shape: int, dtype: str = "float32") -> Array:
    """Small whole numbers, of which sums are exact."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


SHAPES = [(0, 3, 2), (1, 1, 1), (5, 7, 3), (4, 6, 0), (1, 9, 17)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32"])
def test_finish(
    parse_kernel: ParseKernel, shape: tuple[int, int, int], dtype: str
) -> None:
    (m, n, k), seed = shape, sum(shape)
    name = {"float16": "f16", "float32": "f32", "float64": "f64"}.get(dtype, "i32")
    total, add, maximum = ("f32", "addf", "maximumf")
    extend, cut, last = "", "", "%1"
    if name == "f16":
        extend = "%e = arith.extf %v : f16 to f32"
        cut, last = "%2 = arith.truncf %1 : f32 to f16", "%2"
    else:
        total = name
    if name == "i32":
        add, maximum = "addi", "maxsi"
    term = "%e" if extend else "%v"
    types = {
        **{"a": f"{m}x{k}x{name}", "b": f"{k}x{n}x{name}", "s": f"{n}x{name}"},
        **{"c": f"{m}x{n}x{name}", "y": f"{m}x{n}x{name}"},
    }
    a, b, s, c, y = (f"memref<{type}>" for type in types.values())
    kernel = kernel_of(
        parse_kernel,
        f"kernel.contract indexing_maps = [{MAPS}, {COLUMN}, {EACH}] "
        f"ins(%a, %b : {a}, {b}) outs(%y : {y}) start(%s : {s}) finish(%c : {c}) {{\n"
        f"^bb0(%sum: {total}, %v: {name}):\n {extend}\n"
        f" %0 = arith.{add} %sum, {term} : {total}\n"
        f" %1 = arith.{maximum} %0, {term} : {total}\n {cut}\n"
        f" kernel.yield {last} : {name}\n}}",
        **types,
    )
    factors = [numbers(seed, *size, dtype=dtype) for size in ((m, k), (k, n), (n,))]
    given = [*factors, numbers(9, m, n, dtype=dtype), np.full((m, n), 7, dtype)]
    op = contract_of(kernel)
    (found,) = op.evaluate(given[0], given[1], given[4], given[2], given[3])
    wide = [array.astype("float64") for array in given]
    wanted = np.maximum(wide[2] + wide[0] @ wide[1] + wide[3], wide[3])
    np.testing.assert_array_equal(found, wanted.astype(dtype), f"seed {seed}")
    assert op.roles() == {"batch": [], "row": [0], "column": [1], "term": [2]}
    if 0 not in (m, n):
        np.testing.assert_array_equal(
            run_loops(kernel, given)[-1], wanted.astype(dtype)
        )


def test_padded_windows(parse_kernel: ParseKernel) -> None:
    kernel = kernel_of(
        parse_kernel,
        """
  %p = kernel.padded %x low [0, 0, 1, 2] high [0, 0, 1, 0]
    : memref<2x3x7x8xf32> to memref<2x3x9x10xf32>
  kernel.contract indexing_maps = [
      affine_map<(n, f, y, x, c, i, j) -> (f, c, i, j)>,
      affine_map<(n, f, y, x, c, i, j) -> (n, c, y * 2 + i, x + j * 3)>,
      affine_map<(n, f, y, x, c, i, j) -> (n, f, y, x)>,
      affine_map<(n, f, y, x, c, i, j) -> (n, f, y, x)>]
      ins(%w, %p : memref<5x3x3x2xf32>, memref<2x3x9x10xf32>)
      outs(%y, %z : memref<2x5x4x7xf32>, memref<2x5x4x7xf64>) {
  ^bb0(%sum: f32):
    %i = kernel.index 1 : index
    %0 = arith.index_cast %i : index to i64
    %1 = arith.sitofp %0 : i64 to f64
    kernel.yield %sum, %1 : f32, f64
  }""",
        **{"x": "2x3x7x8xf32", "w": "5x3x3x2xf32"},
        **{"y": "2x5x4x7xf32", "z": "2x5x4x7xf64"},
    )
    x, w = numbers(1, 2, 3, 7, 8), numbers(2, 5, 3, 3, 2)
    y, z = np.zeros((2, 5, 4, 7), "float32"), np.zeros((2, 5, 4, 7))
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (2, 0)))
    wanted = np.zeros((2, 5, 4, 7))
    for i in range(3):
        for j in range(2):
            part = padded[:, :, i : i + 7 : 2, 3 * j : 3 * j + 7]
            wanted += np.einsum("ncyx,fc->nfyx", part, w[:, :, i, j])
    channel = np.broadcast_to(np.arange(5.0)[:, None, None], wanted.shape)
    op = contract_of(kernel)
    found = op.evaluate(w, padded, y, z)
    np.testing.assert_array_equal(found[0], wanted)
    np.testing.assert_array_equal(found[1], channel)
    assert op.windows() == [
        WindowedAxis(1, 2, 2, 5, 7, Window(3, 2, 1, 1)),
        WindowedAxis(1, 3, 3, 6, 8, Window(2, 1, 2, 0, 3)),
    ]
    *_, first, second = run_loops(kernel, [x, w, y, z])
    np.testing.assert_array_equal(first, wanted)
    np.testing.assert_array_equal(second, channel)


@pytest.mark.parametrize("unsigned", [(False, True), (True, False)])
def test_bytes_in_floats(
    parse_kernel: ParseKernel, unsigned: tuple[bool, bool]
) -> None:
    words = " ".join(f"unsigned_{x}" for x, u in zip("ab", unsigned, strict=True) if u)
    kernel = kernel_of(
        parse_kernel,
        f"kernel.contract indexing_maps = [{MAPS}, {COLUMN}] accumulate i32 {words} "
        "ins(%a, %b : memref<3x5xi8>, memref<5x4xi8>) outs(%y : memref<3x4xf32>) "
        "finish(%c : memref<4xf32>) {\n^bb0(%sum: i32, %v: f32):\n"
        "%0 = arith.sitofp %sum : i32 to f32\n%1 = arith.mulf %0, %v : f32\n"
        "kernel.yield %1 : f32\n}",
        **{"a": "3x5xi8", "b": "5x4xi8", "c": "4xf32", "y": "3x4xf32"},
    )
    random = np.random.default_rng(3)
    a, b = (random.integers(-128, 128, x).astype("int8") for x in ((3, 5), (5, 4)))
    c, y = numbers(4, 4), np.zeros((3, 4), "float32")
    wide = [
        x.view("uint8").astype(int) if flag else x.astype(int)
        for x, flag in zip((a, b), unsigned, strict=True)
    ]
    wanted = (wide[0] @ wide[1]) * c
    (found,) = contract_of(kernel).evaluate(a, b, y, c)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(run_loops(kernel, [a, b, c, y])[-1], wanted)


def test_in_place(parse_kernel: ParseKernel) -> None:
    kernel = kernel_of(
        parse_kernel,
        f"kernel.contract indexing_maps = [{MAPS}, {EACH}, {EACH}] "
        "ins(%a, %b : memref<3x5xf32>, memref<5x4xf32>) outs(%y : memref<3x4xf32>) "
        "start(%y : memref<3x4xf32>) finish(%y : memref<3x4xf32>) {\n"
        "^bb0(%sum: f32, %old: f32):\n"
        "%0 = arith.mulf %sum, %old : f32\nkernel.yield %0 : f32\n}",
        **{"a": "3x5xf32", "b": "5x4xf32", "y": "3x4xf32"},
    )
    op = contract_of(kernel)
    assert [*op.aliases()] == [Alias(3, 0), Alias(4, 0)]
    assert [(e.value, e.how.name, e.elements) for e in op.effects()] == [
        *((value, "READ", None) for value in (op.a, op.b, op.outs[0], op.outs[0])),
        (op.outs[0], "WRITE", 12),
    ]
    a, b, y = numbers(5, 3, 5), numbers(6, 5, 4), numbers(7, 3, 4)
    wanted = (y + a @ b) * y
    np.testing.assert_array_equal(op.evaluate(a, b, y, y, y)[0], wanted)
    np.testing.assert_array_equal(run_loops(kernel, [a, b, y])[-1], wanted)


def test_work(parse_kernel: ParseKernel) -> None:
    kernel = kernel_of(
        parse_kernel,
        f"kernel.contract indexing_maps = [{MAPS}] ins(%a, %b : memref<3x5xf32>, "
        "memref<5x4xf32>) outs(%y : memref<3x4xf32>)",
        **{"a": "3x5xf32", "b": "5x4xf32", "y": "3x4xf32"},
    )
    assert contract_of(kernel).work() == 2 * 3 * 4 * 5


def test_products_with_zeros_around_a_factor_are_left_out(
    parse_kernel: ParseKernel,
) -> None:
    lines = """
      %p = kernel.padded %x low [1] high [2] : memref<5xf32> to memref<8xf32>
      kernel.contract indexing_maps = [affine_map<(m, k) -> (m + k)>,
        affine_map<(m, k) -> (k)>, affine_map<(m, k) -> (m)>]
        ins(%p, %w : memref<8xf32>, memref<3xf32>) outs(%y : memref<6xf32>)
    """
    kernel = kernel_of(parse_kernel, lines, x="5xf32", w="3xf32", y="6xf32")
    x, w = numbers(3, 5), np.array([np.inf, 2, -np.inf], np.float32)
    (found,) = contract_of(kernel).evaluate(np.pad(x, (1, 2)), w, np.zeros(6, "f"))
    with np.errstate(all="ignore"):
        wanted = [
            sum((x[m + k - 1] * w[k] for k in range(3) if 0 <= m + k - 1 < 5), 0.0)
            for m in range(6)
        ]
    np.testing.assert_array_equal(found, wanted)
