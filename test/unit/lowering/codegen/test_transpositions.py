"""Transpositions: stages whose results are contiguous along another loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any, TypeAlias

import numpy as np
import pytest
from draws import fresh
from numpy.typing import NDArray

from penstock.dialects.launch import KernelOp
from penstock.lowering.codegen.target import kernel_source

Array: TypeAlias = NDArray[Any]
ParseKernel: TypeAlias = Callable[[str], KernelOp]
RunKernel: TypeAlias = Callable[[KernelOp, Sequence[Array]], None]

DTYPES = {
    **{f"f{8 * n}": np.dtype(f"f{n}") for n in (2, 4, 8)},
    **{f"i{8 * n}": np.dtype(f"i{n}") for n in (1, 2, 4, 8)},
    "i1": np.dtype(bool),
}

EXTENTS = [2, 3, 5, 7, 8, 15, 16, 17, 31, 33, 64, 65, 97, 130]


def memref(shape: Sequence[int], type: str) -> str:
    """The type of a dense buffer."""
    return f"memref<{'x'.join(map(str, (*shape, type)))}>"


def moved(shape: Sequence[int], axes: Sequence[int], type: str) -> str:
    """A kernel whose result has the axes of an operand in another order."""
    loops = [f"d{n}" for n in range(len(shape))]
    read = [f"d{axes.index(n)}" for n in range(len(shape))]
    ins, outs = memref(shape, type), memref([shape[n] for n in axes], type)
    kinds = ", ".join(['"parallel"'] * len(shape))
    maps = [
        f"affine_map<({', '.join(loops)}) -> ({', '.join(of)})>" for of in (read, loops)
    ]
    return f"""
      launch.kernel @k target "cpu" (%a: {ins}, %o: {outs}) {{
        linalg.generic
          {{indexing_maps = [{", ".join(maps)}], iterator_types = [{kinds}]}}
          ins(%a : {ins}) outs(%o : {outs}) {{
        ^bb0(%x: {type}, %so_far: {type}):
          linalg.yield %x : {type}
        }}
      }}"""


def drawn(random: np.random.Generator, shape: Sequence[int], type: str) -> Array:
    """Random numbers of a type, of all of its bytes where these are integers."""
    dtype = DTYPES[type]
    if dtype.kind == "f":
        return random.normal(size=shape).astype(dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype)
    count = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer(random.bytes(count), dtype).reshape(shape).copy()


@pytest.mark.parametrize("type", DTYPES)
@pytest.mark.parametrize("rows", EXTENTS)
def test_matrices(
    rows: int, type: str, parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    random = fresh()
    columns = int(random.choice(EXTENTS))
    a = drawn(random, (rows, columns), type)
    made = parse_kernel(moved(a.shape, (1, 0), type))
    assert "= transposition(" in kernel_source(made)
    out = drawn(random, (columns, rows), type)
    run_kernel(made, [a, out])
    np.testing.assert_array_equal(out, a.T, strict=True)


@pytest.mark.parametrize("axes", [*permutations(range(4))], ids=str)
def test_permutations(
    axes: tuple[int, ...], parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    random = fresh()
    shape = [int(n) for n in random.integers(1, 24, 4)]
    for type in ("f32", "i16"):
        a = drawn(random, shape, type)
        wanted = a.transpose(axes)
        out = drawn(random, wanted.shape, type)
        run_kernel(parse_kernel(moved(shape, axes, type)), [a, out])
        np.testing.assert_array_equal(out, wanted, strict=True, err_msg=str(shape))


@pytest.mark.parametrize("shape", [(300, 70), (257, 65), (64, 512), (1030, 129)])
def test_blocks_in_parts(
    shape: tuple[int, int], parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    a = drawn(fresh(), shape, "f32")
    out = np.full(shape[::-1], np.nan, np.float32)
    run_kernel(parse_kernel(moved(shape, (1, 0), "f32")), [a, out])
    np.testing.assert_array_equal(out, a.T)


def test_large_matrices_are_cut_into_parts(parse_kernel: ParseKernel) -> None:
    source = kernel_source(parse_kernel(moved((1024, 1024), (1, 0), "f32")))
    assert "PARTS = 16\n" in source
    assert "range(n3 * part // parts, n3 * (part + 1) // parts)" in source


COMPUTED = """
  launch.kernel @k target "cpu"
    (%a: memref<COLxROWxTYPE>, %b: memref<ROWxCOLxTYPE>, %r: memref<ROWxTYPE>,
     %c: memref<COLxTYPE>, %n: memref<1xTYPE>, %o: memref<ROWxCOLxTYPE>,
     %p: memref<ROWxCOLxTYPE>) {
    linalg.generic {indexing_maps = [
        affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>,
        affine_map<(i, j) -> (i)>, affine_map<(i, j) -> (j)>,
        affine_map<(i, j) -> (0)>, affine_map<(i, j) -> (i, j)>,
        affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]}
      ins(%a, SECOND, %r, %c, %n : memref<COLxROWxTYPE>, memref<ROWxCOLxTYPE>,
          memref<ROWxTYPE>, memref<COLxTYPE>, memref<1xTYPE>)
      outs(%o, %p : memref<ROWxCOLxTYPE>, memref<ROWxCOLxTYPE>) {
    ^bb0(%x: TYPE, %y: TYPE, %of_row: TYPE, %of_column: TYPE, %z: TYPE, %f: TYPE,
         %g: TYPE):
      %s = arith.subf %x, %y : TYPE
      %t = arith.mulf %s, %of_row : TYPE
      %u = arith.subf %t, %of_column : TYPE
      %v = arith.mulf %u, %z : TYPE
      %w = math.absf %s : TYPE
      linalg.yield %v, %w : TYPE, TYPE
    }
  }"""


@pytest.mark.parametrize("type", ["f32", "f64"])
@pytest.mark.parametrize("rows", EXTENTS)
def test_bodies_that_compute(
    rows: int, type: str, parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    """With an operand apart from the results, or in place, in turns."""
    second = "%b" if (EXTENTS.index(rows) + (type == "f64")) % 2 else "%o"
    random = fresh()
    columns = int(random.choice([*EXTENTS, 300]))
    text = COMPUTED.replace("ROW", str(rows)).replace("COL", str(columns))
    made = parse_kernel(text.replace("TYPE", type).replace("SECOND", second))
    assert "= transposition(" in kernel_source(made)
    shapes = (columns, rows), (rows, columns), (rows,), (columns,), (1,)
    a, b, r, c, n = (drawn(random, shape, type) for shape in shapes)
    o, p = (drawn(random, (rows, columns), type) for _ in range(2))
    y = b if second == "%b" else o.copy()
    run_kernel(made, [a, b, r, c, n, o, p])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(o, ((a.T - y) * r[:, None] - c) * n)
    np.testing.assert_array_equal(p, np.abs(a.T - y))


HALVES = """
  launch.kernel @k target "cpu"
    (%a: memref<COLxROWxf16>, %o: memref<ROWxCOLxf16>) {
    linalg.generic {indexing_maps = [
        affine_map<(i, j) -> (j, i)>, affine_map<(i, j) -> (i, j)>],
        iterator_types = ["parallel", "parallel"]}
      ins(%a : memref<COLxROWxf16>) outs(%o : memref<ROWxCOLxf16>) {
    ^bb0(%x: f16, %so_far: f16):
      %w = arith.extf %x : f16 to f32
      %y = arith.addf %w, %w : f32
      %z = arith.truncf %y : f32 to f16
      linalg.yield %z : f16
    }
  }"""


@pytest.mark.parametrize("rows", EXTENTS)
def test_halves_are_computed_in_f32(
    rows: int, parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    random = fresh()
    columns = int(random.choice(EXTENTS))
    made = parse_kernel(HALVES.replace("ROW", str(rows)).replace("COL", str(columns)))
    assert "memory=['f16', 'f16']" in kernel_source(made)
    a = drawn(random, (columns, rows), "f16")
    out = drawn(random, (rows, columns), "f16")
    run_kernel(made, [a, out])
    np.testing.assert_array_equal(out, a.T + a.T)


def test_operands_that_lie_in_the_result_are_no_transposition(
    parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    text = moved((8, 8), (1, 0), "f32").replace("ins(%a", "ins(%o")
    assert "transposition" not in kernel_source(parse_kernel(text))


def test_operands_with_steps_in_all_loops_are_no_transposition(
    parse_kernel: ParseKernel, run_kernel: RunKernel
) -> None:
    text = moved((9, 16), (1, 0), "f32").replace("-> (d1, d0)", "-> (d1, d0 * 2)")
    text = text.replace("memref<16x9xf32>", "memref<8x9xf32>")
    made = parse_kernel(text)
    assert "transposition" not in kernel_source(made)
    a = drawn(fresh(), (9, 16), "f32")
    out = np.zeros((8, 9), np.float32)
    run_kernel(made, [a, out])
    np.testing.assert_array_equal(out, a[:, ::2].T)
