"""`kernel.row`: its NumPy meaning, its passes, and the loops that it stands for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest
from kernel_runs import run_source
from xdsl.dialects.builtin import IntegerAttr, i64

from penstock.dialects.kernel.body_ops import IndexOp, KeepOp
from penstock.dialects.kernel.interface import Alias, Effect, How
from penstock.dialects.kernel.reference import replace_by_loops
from penstock.dialects.kernel.row import RowOp
from penstock.dialects.kernel.row_passes import passes_of
from penstock.dialects.launch import KernelOp
from penstock.lowering.codegen.target import kernel_source

Array: TypeAlias = Any
Parse: TypeAlias = Callable[[str], KernelOp]

ID, OF_ROW, OF_POINT = (f"affine_map<(r, e) -> ({x})>" for x in ("r, e", "r", "e"))
SOFTMAX = """
  %m = kernel.all_reduce maxnumf %a : f32
  %d = arith.subf %a, %m : f32
  %e = math.exp %d : f32
  %p = kernel.keep %e : f32
  %s = kernel.all_reduce add %p : f32
  %r = arith.divf %p, %s : f32
  kernel.yield %r : f32
"""
NORM = """
  %n = arith.constant 33.0 : f64
  %x = arith.addf %a, %b : f64
  %h = kernel.keep %x : f64
  %t = kernel.all_reduce add %h : f64
  %m = arith.divf %t, %n : f64
  %d = arith.subf %h, %m : f64
  %d2 = arith.mulf %d, %d : f64
  %v = kernel.all_reduce add %d2 : f64
  %y = arith.divf %d, %v : f64
  %z = arith.mulf %y, %g : f64
  kernel.yield %z, %h, %m : f64, f64, f64
"""


def kernel_text(
    ins: Sequence[tuple[str, str, str]],
    outs: Sequence[tuple[str, str, str]],
    body: str,
    along: str = "[1]",
) -> str:
    """A kernel of one row op: of each operand the argument, the memref and the map."""
    names = [f"%in{n}" for n in range(len(ins))], [f"%out{n}" for n in range(len(outs))]
    types = [[memref for _, memref, _ in each] for each in (ins, outs)]
    maps = ", ".join(map for _, _, map in (*ins, *outs))
    arguments = ", ".join(
        f"{name}: {type}"
        for each, own in zip(names, types, strict=True)
        for name, type in zip(each, own, strict=True)
    )
    groups = [
        f"{word}({', '.join(each)} : {', '.join(own)})"
        for word, each, own in zip(("ins", "outs"), names, types, strict=True)
        if each
    ]
    elements = ", ".join(
        f"%{argument}: {memref.rstrip('>').split('x')[-1].split('<')[-1]}"
        for argument, memref, _ in ins
    )
    return f"""launch.kernel @k target "cpu" ({arguments}) {{
      kernel.row along {along} indexing_maps = [{maps}] {" ".join(groups)} {{
        ^bb0({elements}):
        {body}
      }}
    }}"""


def softmax_text(rows: int, points: int, type: str = "f32") -> str:
    memref = f"memref<{rows}x{points}x{type}>"
    body = SOFTMAX.replace("f32", type)
    return kernel_text([("a", memref, ID)], [("", memref, ID)], body)


def norm_text() -> str:
    memref = "memref<5x33xf64>"
    of_row = ("", "memref<5xf64>", OF_ROW)
    ins = [("a", memref, ID), ("b", memref, ID), ("g", "memref<33xf64>", OF_POINT)]
    return kernel_text(ins, [("", memref, ID), ("", memref, ID), of_row], NORM)


def row_of(kernel: KernelOp) -> RowOp:
    (op,) = (op for op in kernel.body.block.ops if isinstance(op, RowOp))
    return op


def evaluated(kernel: KernelOp, *arrays: Array) -> list[Array]:
    """The results of a kernel's row op in NumPy."""
    return [*row_of(kernel).evaluate(*arrays)]


def run_loops(kernel: KernelOp, *arrays: Array) -> None:
    """Run the loops of a kernel's row op on arrays, the last of which are written."""
    replace_by_loops(row_of(kernel))
    assert run_source(kernel_source(kernel), arrays) == 0


@pytest.mark.parametrize("shape", [(3, 37), (1, 1), (0, 4), (4, 0)])
def test_softmax_in_numpy(shape: tuple[int, int], parse_kernel: Parse) -> None:
    x = np.random.default_rng(5).normal(size=shape).astype(np.float32)
    before = np.full(shape, 7, np.float32)
    (found,) = evaluated(parse_kernel(softmax_text(*shape)), x, before)
    wide = x.astype(np.float64)
    powers = np.exp(wide - wide.max(1, keepdims=True, initial=-np.inf))
    np.testing.assert_allclose(found, powers / powers.sum(1, keepdims=True), 1e-6)
    assert found.dtype == np.float32
    assert (before == 7).all()


def test_loops_of_softmax(parse_kernel: Parse) -> None:
    kernel = parse_kernel(softmax_text(3, 37))
    x = np.random.default_rng(6).normal(size=(3, 37)).astype(np.float32)
    x[1, 5] = np.nan
    out = np.zeros_like(x)
    (wanted,) = evaluated(kernel, x, out)
    run_loops(kernel, x, out)
    np.testing.assert_allclose(out, wanted, 1e-6)


def test_loops_of_several_results(parse_kernel: Parse) -> None:
    kernel = parse_kernel(norm_text())
    random = np.random.default_rng(7)
    a, b, g = (random.normal(size=n) for n in ((5, 33), (5, 33), 33))
    outs = [np.zeros((5, 33)), np.zeros((5, 33)), np.zeros(5)]
    wanted = evaluated(kernel, a, b, g, *outs)
    x = a + b
    d = x - x.mean(1, keepdims=True)
    y = d / (d * d).sum(1, keepdims=True) * g
    for found, expected in zip(wanted, (y, x, x.mean(1)), strict=True):
        np.testing.assert_allclose(found, expected, 1e-12)
    run_loops(kernel, a, b, g, *outs)
    for found, expected in zip(outs, wanted, strict=True):
        np.testing.assert_allclose(found, expected, 1e-12)


def test_passes_keep_values_in_results(parse_kernel: Parse) -> None:
    first, second, last = passes_of(row_of(parse_kernel(norm_text()))).passes
    assert [len(each.folds) for each in (first, second, last)] == [1, 1, 0]
    assert [[s.result for s in each.stores] for each in (first, second, last)] == [
        [1],
        [],
        [0],
    ]
    assert [len(each.loads) for each in (first, second, last)] == [2, 1, 2]


def test_folds_that_do_not_need_each_other_are_one_pass(parse_kernel: Parse) -> None:
    body = """
      %s = kernel.all_reduce add %a : f32
      %q = arith.mulf %a, %a : f32
      %t = kernel.all_reduce add %q : f32
      %r = arith.divf %s, %t : f32
      kernel.yield %r : f32
    """
    text = kernel_text(
        [("a", "memref<4x9xf32>", ID)], [("", "memref<4xf32>", OF_ROW)], body
    )
    (only,) = passes_of(row_of(parse_kernel(text))).passes
    assert len(only.folds) == 2


def test_passes_are_those_of_the_body_as_it_is(parse_kernel: Parse) -> None:
    row = row_of(parse_kernel(softmax_text(3, 4)))
    before = passes_of(row)
    assert passes_of(row) is before
    kept = next(op for op in row.body.block.ops if isinstance(op, KeepOp))
    kept.result.replace_all_uses_with(kept.value)
    assert [len(each.ops) for each in before.passes] == [0, 3, 1]
    assert [len(each.ops) for each in passes_of(row).passes] == [0, 2, 3]


def test_facts(parse_kernel: Parse) -> None:
    row = row_of(parse_kernel(softmax_text(3, 4)))
    x, y = row.operands
    assert [*row.effects()] == [Effect(x, How.READ), Effect(y, How.WRITE, 12)]
    assert row.roles() == {"row": [0], "along": [1]}
    assert row.loops() == ((3, 4), (False, True))
    # Two folds, a difference, an exponential and a quotient at each point.
    assert row.work() == 5 * 12


def test_operands_that_are_read_late_are_no_aliases(parse_kernel: Parse) -> None:
    assert row_of(parse_kernel(softmax_text(3, 4))).aliases() == [Alias(0, 0)]
    # Both operands are read by the first pass alone, which writes the second result.
    norm = row_of(parse_kernel(norm_text()))
    assert [*norm.aliases()] == [Alias(n, out) for out in (0, 1) for n in (0, 1)]


def test_number_of_a_row_may_lie_where_a_fold_has_read_one(
    parse_kernel: Parse,
) -> None:
    operands = [
        ("a", "memref<4x9xf32>", ID),
        ("b", "memref<4xf32>", OF_ROW),
        ("c", "memref<4xf32>", OF_ROW),
    ]
    body = """
      %p = arith.mulf %a, %b : f32
      %s = kernel.all_reduce add %p : f32
      %r = arith.addf %s, %c : f32
      kernel.yield %r : f32
    """
    text = kernel_text(operands, [("", "memref<4xf32>", OF_ROW)], body)
    assert row_of(parse_kernel(text)).aliases() == [Alias(1, 0)]


FOLDS: Sequence[tuple[str, str, Callable[[Array], Array]]] = [
    ("add", "i32", lambda x: x.sum(0, dtype=np.int32)),
    ("mul", "f64", lambda x: x.prod(0)),
    ("maximumf", "f32", lambda x: x.max(0, initial=-np.inf)),
    ("minnumf", "f32", lambda x: np.fmin.reduce(x, 0, initial=np.inf)),
    ("maxsi", "i8", lambda x: x.max(0, initial=-128)),
    ("minui", "i8", lambda x: x.view(np.uint8).min(0, initial=255).view(np.int8)),
    ("maxui", "i32", lambda x: x.view(np.uint32).max(0, initial=0).view(np.int32)),
    ("andi", "i1", lambda x: x.all(0)),
    ("ori", "i1", lambda x: x.any(0)),
]
DTYPES = {
    "f32": np.float32,
    "f64": np.float64,
    "i1": np.bool_,
    "i8": np.int8,
    "i32": np.int32,
}


@pytest.mark.parametrize("rows", [0, 6])
@pytest.mark.parametrize(("kind", "type", "expected"), FOLDS)
def test_folds_of_columns(
    kind: str,
    type: str,
    expected: Callable[[Array], Array],
    rows: int,
    parse_kernel: Parse,
) -> None:
    """Columns are rows along the first loop."""
    body = f"%s = kernel.all_reduce {kind} %a : {type}\nkernel.yield %s : {type}"
    text = kernel_text(
        [("a", f"memref<{rows}x5x{type}>", ID)],
        [("", f"memref<5x{type}>", OF_POINT)],
        body,
        along="[0]",
    )
    kernel = parse_kernel(text)
    x = np.random.default_rng(8).integers(-99, 99, (rows, 5)).astype(DTYPES[type])
    if type == "f32" and rows:
        x[2, 3] = np.nan
    out = np.zeros(5, DTYPES[type])
    (found,) = evaluated(kernel, x, out)
    np.testing.assert_array_equal(found, expected(x))
    if rows and type in ("i8", "i1"):
        run_loops(kernel, x, out)
        np.testing.assert_array_equal(out, found)


def test_folds_of_halves_are_rounded_when_they_are_done(parse_kernel: Parse) -> None:
    body = """
      %w = arith.extf %a : f16 to f32
      %s = kernel.all_reduce add %w : f32
      %n = arith.constant 4096.0 : f32
      %m = arith.divf %s, %n : f32
      %y = arith.truncf %m : f32 to f16
      kernel.yield %y : f16
    """
    ins = [("a", "memref<4096x5xf16>", ID)]
    outs = [("", "memref<5xf16>", OF_POINT)]
    kernel = parse_kernel(kernel_text(ins, outs, body, along="[0]"))
    # In 16 bits sums would be infinite, and have no room for terms before.
    x = np.random.default_rng(9).uniform(20, 24, (4096, 5)).astype(np.float16)
    y = np.zeros(5, np.float16)
    run_loops(kernel, x, y)
    wanted = x.astype(np.float64).mean(0)
    assert np.abs(y.astype(np.float64) - wanted).max() <= 2**-11 * 24


def test_a_loop_that_runs_once_keeps_no_result_from_its_operand(
    parse_kernel: Parse,
) -> None:
    kernel = parse_kernel("""
      launch.kernel @k target "cpu" (%x: memref<1x4xf32>) {
        kernel.row along [1] indexing_maps = [
            affine_map<(r, e) -> (0, e)>, affine_map<(r, e) -> (r, e)>
          ] ins(%x : memref<1x4xf32>) outs(%x : memref<1x4xf32>) {
        ^bb0(%a: f32):
          %s = kernel.all_reduce add %a : f32
          %y = arith.mulf %s, %s : f32
          kernel.yield %y : f32
        }
      }""")
    assert row_of(kernel).aliases() == [Alias(0, 0)]


def test_unsigned_folds_are_numbers_of_the_type(parse_kernel: Parse) -> None:
    body = """
      %m = kernel.all_reduce maxui %a : i64
      %d = arith.subi %a, %m : i64
      kernel.yield %d : i64
    """
    memref = "memref<2x3xi64>"
    text = kernel_text([("a", memref, ID)], [("", memref, ID)], body)
    big = 2**62
    x = np.array([[big + 1, 5, -7], [big + 1, 3, 2]])
    (found,) = evaluated(parse_kernel(text), x, np.zeros_like(x))
    np.testing.assert_array_equal(found, [[big + 8, 12, 0], [0, 2 - big, 1 - big]])


@pytest.mark.parametrize("type", ["f32", "i64"])
def test_folds_of_columns_leave_elements_between_results(
    type: str, parse_kernel: Parse
) -> None:
    strided = "affine_map<(e, r) -> (r * 2 + 1)>"
    fold = "maxnumf" if type == "f32" else "maxsi"
    body = f"%m = kernel.all_reduce {fold} %a : {type}\nkernel.yield %m : {type}"
    ins = [("a", f"memref<9x3x{type}>", "affine_map<(e, r) -> (e, r)>")]
    outs = [("", f"memref<7x{type}>", strided)]
    kernel = parse_kernel(kernel_text(ins, outs, body, along="[0]"))
    dtype = np.dtype({"f32": "float32", "i64": "int64"}[type])
    x = np.random.default_rng(7).integers(-9, 9, (9, 3)).astype(dtype)
    y = np.full(7, 77, dtype)
    run_loops(kernel, x, y)
    wanted = np.full(7, 77, dtype)
    wanted[1:6:2] = x.max(0)
    np.testing.assert_array_equal(y, wanted)


def test_passes_are_those_of_the_loops_that_indices_count(parse_kernel: Parse) -> None:
    body = """
      %i = kernel.index 1 : index
      %j = arith.index_cast %i : index to i64
      %s = kernel.all_reduce add %a : i64
      %r = arith.addi %s, %j : i64
      kernel.yield %r : i64
    """
    memref = "memref<3x4xi64>"
    kernel = parse_kernel(kernel_text([("a", memref, ID)], [("", memref, ID)], body))
    row = row_of(kernel)
    assert [len(ops) for ops in passes_of(row).shared] == [0, 0, 0]
    index = next(op for op in row.body.block.ops if isinstance(op, IndexOp))
    index.loop = IntegerAttr(0, i64)
    assert [len(ops) for ops in passes_of(row).shared] == [2, 1, 0]
