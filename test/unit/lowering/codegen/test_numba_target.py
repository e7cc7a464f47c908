"""The stages of kernels, printed as source and run, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.dialects.launch import KernelOp
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.lowering.codegen.target import kernel_source

Array: TypeAlias = NDArray[np.generic]
ParseKernel: TypeAlias = Callable[[str], KernelOp]
RunKernel: TypeAlias = Callable[[KernelOp, Sequence[Array]], None]


class Run:
    """Parses and runs kernels on random arrays."""

    def __init__(self, parse: ParseKernel, run: RunKernel):
        self._parse, self._run = parse, run
        self._random = np.random.default_rng(20)

    def floats(self, *shape: int) -> NDArray[np.float32]:
        """Random numbers."""
        return self._random.normal(size=shape).astype(np.float32)

    def __call__(self, arguments: str, body: str, *arrays: Array) -> None:
        """Run a kernel of these arguments and body, which writes to the arrays."""
        text = f'launch.kernel @k target "cpu" ({arguments}) {{ {body} }}'
        self._run(self._parse(text), arrays)


@pytest.fixture
def run(parse_kernel: ParseKernel, run_kernel: RunKernel) -> Run:
    return Run(parse_kernel, run_kernel)


def generic(
    maps: Sequence[str], kinds: str, ins: str, out: str, body: str, loops: str
) -> str:
    """A `linalg.generic`; `kinds` has a letter a loop: p or r."""
    iterators = ", ".join({"p": '"parallel"', "r": '"reduction"'}[k] for k in kinds)
    map_texts = ", ".join(f"affine_map<({loops}) -> ({map})>" for map in maps)
    return f"""
      linalg.generic {{indexing_maps = [{map_texts}], iterator_types = [{iterators}]}}
        ins({ins}) outs({out}) {{ {body} }}"""


def copy_op(source: str, target: str, type: str) -> str:
    """A `memref.copy`."""
    return f'"memref.copy"({source}, {target}) : ({type}, {type}) -> ()'


def parallel(arguments: str, lower: str, upper: str, step: str, body: str) -> str:
    """An `scf.parallel`; arguments and bounds are lists of names."""
    count = arguments.count("%")
    types = ", ".join(["index"] * 3 * count)
    arguments = arguments.replace(",", ": index,")
    return f"""
      "scf.parallel"({lower}, {upper}, {step})
        <{{operandSegmentSizes = array<i32: {count}, {count}, {count}, 0>}}> ({{
      ^bb0({arguments}: index):
        {body}
        scf.reduce
      }}) : ({types}) -> ()"""


ADD_PRODUCT = """^bb0(%x: f32, %y: f32, %s: f32):
  %p = arith.mulf %x, %y : f32
  %t = arith.addf %s, %p : f32
  linalg.yield %t : f32"""
ADD_TO_SUM = """^bb0(%x: f32, %s: f32):
  %t = arith.addf %x, %s : f32
  linalg.yield %t : f32"""
COPY = """^bb0(%x: f32, %s: f32):
  linalg.yield %x : f32"""


def test_fill_writes_every_element(run: Run) -> None:
    out = np.zeros((3, 5), np.int32)
    run(
        "%o: memref<3x5xi32>",
        """%c = arith.constant 7 : i32
           linalg.fill ins(%c : i32) outs(%o : memref<3x5xi32>)""",
        out,
    )
    np.testing.assert_array_equal(out, np.full((3, 5), 7))


@pytest.mark.parametrize("type", ["f16", "f32", "f64", "i8", "i16", "i32", "i64"])
def test_copy_moves_every_bit(type: str, run: Run) -> None:
    dtype = np.dtype({"f": "float", "i": "int"}[type[0]] + type[1:])
    bits = np.random.default_rng(1).integers(0, 256, 12 * dtype.itemsize, np.uint8)
    source = bits.view(dtype).reshape(3, 4).copy()
    if dtype.kind == "f":
        source[np.isnan(source)] = 1
    out = np.zeros((3, 4), dtype)
    memref = f"memref<3x4x{type}>"
    run(
        f"%a: {memref}, %o: {memref}",
        copy_op("%a", "%o", memref),
        source,
        out,
    )
    np.testing.assert_array_equal(out, source)


def test_copy_of_booleans(run: Run) -> None:
    source = np.array([True, False, True])
    out = np.zeros(3, np.bool_)
    run(
        "%a: memref<3xi1>, %o: memref<3xi1>",
        copy_op("%a", "%o", "memref<3xi1>"),
        source,
        out,
    )
    np.testing.assert_array_equal(out, source)


MATMULS = {
    "a @ b": ("i, k", "k, j", (5, 7), (7, 6)),
    "a @ b.T": ("i, k", "j, k", (5, 7), (6, 7)),
    "a.T @ b": ("k, i", "k, j", (7, 5), (7, 6)),
    "a.T @ b.T": ("k, i", "j, k", (7, 5), (6, 7)),
}


@pytest.mark.parametrize("name", MATMULS)
def test_products_of_matrices(name: str, run: Run) -> None:
    a_map, b_map, a_shape, b_shape = MATMULS[name]
    a, b, start = run.floats(*a_shape), run.floats(*b_shape), run.floats(5, 6)
    out = start.copy()
    a_type, b_type = (f"memref<{s[0]}x{s[1]}xf32>" for s in (a_shape, b_shape))
    body = generic(
        [a_map, b_map, "i, j"],
        "ppr",
        f"%a, %b : {a_type}, {b_type}",
        "%o : memref<5x6xf32>",
        ADD_PRODUCT,
        "i, j, k",
    )
    run(f"%a: {a_type}, %b: {b_type}, %o: memref<5x6xf32>", body, a, b, out)
    left, right = a.T if "a.T" in name else a, b.T if "b.T" in name else b
    np.testing.assert_allclose(out, start + left @ right, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("map", "kinds", "axes"),
    [("i", "pr", 1), ("j", "rp", 0), ("", "rr", (0, 1))],
)
def test_sums_over_axes(
    map: str, kinds: str, axes: int | tuple[int, int], run: Run
) -> None:
    a = run.floats(9, 33)
    out = np.zeros(np.sum(a, axes).shape, np.float32)
    out_type = "x".join(["memref<" + str(n) for n in out.shape[:1]] or ["memref<"])
    out_type += "xf32>" if out.shape else "f32>"
    body = generic(
        ["i, j", map],
        kinds,
        "%a : memref<9x33xf32>",
        f"%o : {out_type}",
        ADD_TO_SUM,
        "i, j",
    )
    run(f"%a: memref<9x33xf32>, %o: {out_type}", body, a, out)
    np.testing.assert_allclose(out, np.sum(a.astype("f8"), axes), rtol=1e-5, atol=1e-5)


def test_maximum_over_an_axis_keeps_nan(run: Run) -> None:
    a = run.floats(4, 19)
    a[2, 5] = np.nan
    out = np.full(4, -np.inf, np.float32)
    body = generic(
        ["i, j", "i"],
        "pr",
        "%a : memref<4x19xf32>",
        "%o : memref<4xf32>",
        """^bb0(%x: f32, %s: f32):
          %t = arith.maximumf %x, %s : f32
          linalg.yield %t : f32""",
        "i, j",
    )
    run("%a: memref<4x19xf32>, %o: memref<4xf32>", body, a, out)
    np.testing.assert_array_equal(out, np.max(a, 1))


def test_integer_sums_wrap(run: Run) -> None:
    a = np.full(3, 100, np.int8)
    out = np.zeros((), np.int8)
    body = generic(
        ["i", ""],
        "r",
        "%a : memref<3xi8>",
        "%o : memref<i8>",
        """^bb0(%x: i8, %s: i8):
          %t = arith.addi %x, %s : i8
          linalg.yield %t : i8""",
        "i",
    )
    run("%a: memref<3xi8>, %o: memref<i8>", body, a, out)
    assert out == np.sum(a, dtype=np.int8) == 44


def test_no_comparison_takes_sums_of_64_bits_for_exact(run: Run) -> None:
    """LLVM may not conclude from x + 1 that it is larger than x."""
    a = np.array([5, 2**63 - 1, -(2**63)], np.int64)
    out = np.zeros(3, np.bool_)
    body = generic(
        ["i", "i"],
        "p",
        "%a : memref<3xi64>",
        "%o : memref<3xi1>",
        """^bb0(%x: i64, %s: i1):
          %one = arith.constant 1 : i64
          %next = arith.addi %x, %one : i64
          %is_larger = arith.cmpi sgt, %next, %x : i64
          linalg.yield %is_larger : i1""",
        "i",
    )
    run("%a: memref<3xi64>, %o: memref<3xi1>", body, a, out)
    assert out.tolist() == [True, False, True]


def test_convolution_with_stride_and_offset(run: Run) -> None:
    a, w = run.floats(1, 3, 9, 9), run.floats(4, 3, 2, 3)
    out = np.zeros((1, 4, 4, 3), np.float32)
    body = generic(
        ["n, c, h * 2 + r, q * 3 + s", "f, c, r, s", "n, f, h, q"],
        "pppprrr",
        "%a, %w : memref<1x3x9x9xf32>, memref<4x3x2x3xf32>",
        "%o : memref<1x4x4x3xf32>",
        ADD_PRODUCT,
        "n, f, h, q, c, r, s",
    )
    run(
        "%a: memref<1x3x9x9xf32>, %w: memref<4x3x2x3xf32>, %o: memref<1x4x4x3xf32>",
        body,
        a,
        w,
        out,
    )
    windows = np.lib.stride_tricks.sliding_window_view(a, (2, 3), (2, 3))
    windows = windows[:, :, ::2, ::3][:, :, :4]
    expected = np.einsum("nchqrs,fcrs->nfhq", windows, w)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-5)


def test_transposed_and_broadcast_inputs(run: Run) -> None:
    a, b = run.floats(6, 1, 4), run.floats(5)
    out = np.zeros((4, 5, 6), np.float32)
    body = generic(
        ["k, 0, i", "j", "i, j, k"],
        "ppp",
        "%a, %b : memref<6x1x4xf32>, memref<5xf32>",
        "%o : memref<4x5x6xf32>",
        """^bb0(%x: f32, %y: f32, %s: f32):
          %t = arith.subf %x, %y : f32
          linalg.yield %t : f32""",
        "i, j, k",
    )
    run(
        "%a: memref<6x1x4xf32>, %b: memref<5xf32>, %o: memref<4x5x6xf32>",
        body,
        a,
        b,
        out,
    )
    np.testing.assert_array_equal(out, a[:, 0].T[:, None, :] - b[None, :, None])


def test_reading_with_an_offset(run: Run) -> None:
    a, out = run.floats(8), np.zeros(3, np.float32)
    body = generic(
        ["i * 2 + 3", "i"], "p", "%a : memref<8xf32>", "%o : memref<3xf32>", COPY, "i"
    )
    run("%a: memref<8xf32>, %o: memref<3xf32>", body, a, out)
    np.testing.assert_array_equal(out, a[3::2])


def test_a_scalar_input(run: Run) -> None:
    a, out = run.floats(8), np.zeros(8, np.float32)
    body = "%c = arith.constant 0.3 : f32" + generic(
        ["i", "", "i"],
        "p",
        "%a, %c : memref<8xf32>, f32",
        "%o : memref<8xf32>",
        """^bb0(%x: f32, %y: f32, %s: f32):
          %t = arith.mulf %x, %y : f32
          linalg.yield %t : f32""",
        "i",
    )
    run("%a: memref<8xf32>, %o: memref<8xf32>", body, a, out)
    np.testing.assert_array_equal(out, a * np.float32(0.3))


def test_index_of_a_loop(run: Run) -> None:
    out = np.zeros((3, 4), np.int64)
    body = generic(
        ["i, j"],
        "pp",
        "",
        "%o : memref<3x4xi64>",
        """^bb0(%s: i64):
          %i = linalg.index 0 : index
          %j = linalg.index 1 : index
          %ten = arith.constant 10 : index
          %p = arith.muli %i, %ten : index
          %q = arith.addi %p, %j : index
          %r = arith.index_cast %q : index to i64
          linalg.yield %r : i64""",
        "i, j",
    ).replace("ins()", "")
    run("%o: memref<3x4xi64>", body, out)
    np.testing.assert_array_equal(out, np.add.outer(np.arange(3) * 10, np.arange(4)))


def test_the_output_may_be_an_input(run: Run) -> None:
    a, b = run.floats(3, 4), run.floats(3)
    out = a.copy()
    body = generic(
        ["i, j", "i", "i, j"],
        "pp",
        "%o, %b : memref<3x4xf32>, memref<3xf32>",
        "%o : memref<3x4xf32>",
        """^bb0(%x: f32, %y: f32, %s: f32):
          %t = arith.addf %x, %y : f32
          linalg.yield %t : f32""",
        "i, j",
    )
    run("%b: memref<3xf32>, %o: memref<3x4xf32>", body, b, out)
    np.testing.assert_array_equal(out, a + b[:, None])


def test_named_linalg_ops(run: Run) -> None:
    a, b = run.floats(5, 7), run.floats(7, 6)
    product, total = np.zeros((5, 6), np.float32), np.zeros((5, 7), np.float32)
    run(
        "%a: memref<5x7xf32>, %b: memref<7x6xf32>, "
        "%p: memref<5x6xf32>, %t: memref<5x7xf32>",
        """linalg.matmul ins(%a, %b : memref<5x7xf32>, memref<7x6xf32>)
             outs(%p : memref<5x6xf32>)
           linalg.add ins(%a, %a : memref<5x7xf32>, memref<5x7xf32>)
             outs(%t : memref<5x7xf32>)""",
        a,
        b,
        product,
        total,
    )
    np.testing.assert_allclose(product, a @ b, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(total, a + a)


def test_named_linalg_transpose(run: Run) -> None:
    a, out = run.floats(3, 5), np.zeros((5, 3), np.float32)
    run(
        "%a: memref<3x5xf32>, %o: memref<5x3xf32>",
        """linalg.transpose ins(%a : memref<3x5xf32>) outs(%o : memref<5x3xf32>)
             permutation = [1, 0]""",
        a,
        out,
    )
    np.testing.assert_array_equal(out, a.T)


def test_views_are_the_same_elements(run: Run) -> None:
    a, out = run.floats(2, 3, 4), np.zeros((4, 6), np.float32)
    run(
        "%a: memref<2x3x4xf32>, %o: memref<4x6xf32>",
        """%flat = memref.collapse_shape %a [[0 : i64, 1 : i64, 2 : i64]]
             : memref<2x3x4xf32> into memref<24xf32>
           %view = memref.expand_shape %flat [[0 : i64, 1 : i64]] output_shape [4, 6]
             : memref<24xf32> into memref<4x6xf32>
        """
        + copy_op("%view", "%o", "memref<4x6xf32>"),
        a,
        out,
    )
    np.testing.assert_array_equal(out, a.reshape(4, 6))


def test_empty_tensors_are_left_alone(run: Run) -> None:
    out = np.zeros((3, 0), np.float32)
    run(
        "%o: memref<3x0xf32>",
        """%c = arith.constant 1.0 : f32
           linalg.fill ins(%c : f32) outs(%o : memref<3x0xf32>)""",
        out,
    )


CONSTANTS = "".join(
    f"%c{number} = arith.constant {number} : index\n"
    for number in (0, 1, 3, 4, 5, 7, 9)
)


def four_times(body: str) -> str:
    """A stage for `%i` from 0 to 3."""
    return CONSTANTS + parallel("%i", "%c0", "%c4", "%c1", body)


def test_loops_carry_values_all_at_once(run: Run) -> None:
    a, out = run.floats(4, 7), np.zeros((4, 2), np.float32)
    body = four_times("""
      %p = memref.load %a[%i, %c0] : memref<4x7xf32>
      %q = memref.load %a[%i, %c1] : memref<4x7xf32>
      %r:2 = scf.for %j = %c1 to %c7 step %c1
          iter_args(%x = %p, %y = %q) -> (f32, f32) {
        %v = memref.load %a[%i, %j] : memref<4x7xf32>
        %z = arith.addf %x, %v : f32
        scf.yield %y, %z : f32, f32
      }
      memref.store %r#0, %o[%i, %c0] : memref<4x2xf32>
      memref.store %r#1, %o[%i, %c1] : memref<4x2xf32>""")
    run("%a: memref<4x7xf32>, %o: memref<4x2xf32>", body, a, out)
    for row, (x, y) in zip(a, out, strict=True):
        p, q = row[0], row[1]
        for v in row[1:]:
            p, q = q, np.float32(p + v)
        assert (x, y) == (p, q)


def test_branches_choose_values(run: Run) -> None:
    a, out = np.array([1, -2, 3, -4], np.float32), np.zeros(4, np.float32)
    body = four_times("""
      %v = memref.load %a[%i] : memref<4xf32>
      %z = arith.constant 0.0 : f32
      %c = arith.cmpf olt, %v, %z : f32
      %r = scf.if %c -> (f32) {
        %n = arith.negf %v : f32
        scf.yield %n : f32
      } else {
        %d = arith.addf %v, %v : f32
        scf.yield %d : f32
      }
      memref.store %r, %o[%i] : memref<4xf32>
      scf.if %c {
        memref.store %z, %o[%i] : memref<4xf32>
      }""")
    run("%a: memref<4xf32>, %o: memref<4xf32>", body, a, out)
    np.testing.assert_array_equal(out, [2, 0, 6, 0])


def test_parallel_loops_with_bounds_and_steps(run: Run) -> None:
    out = np.zeros((9, 5), np.int32)
    run(
        "%o: memref<9x5xi32>",
        f"""{CONSTANTS} %v = arith.constant 8 : i32
          {
            parallel(
                "%i, %j",
                "%c1, %c0",
                "%c9, %c5",
                "%c3, %c1",
                "memref.store %v, %o[%i, %j] : memref<9x5xi32>",
            )
        }""",
        out,
    )
    expected = np.zeros((9, 5), np.int32)
    expected[1:9:3] = 8
    np.testing.assert_array_equal(out, expected)


CHECKS = four_times("""
  %v = memref.load %a[%i] : memref<4xi32>
  %zero = arith.constant 0 : i32
  %nine = arith.constant 9 : i32
  %low = arith.cmpi sge, %v, %zero : i32
  cf.assert %low, "too small"
  %high = arith.cmpi sle, %v, %nine : i32
  cf.assert %high, "too large"
  memref.store %v, %o[%i] : memref<4xi32>""")


@pytest.mark.parametrize(("bad", "message"), [(-1, "too small"), (10, "too large")])
def test_a_failed_assertion_is_reported(bad: int, message: str, run: Run) -> None:
    a = np.array([1, 2, bad, 3], np.int32)
    with pytest.raises(RuntimeError, match=f"^{message}$"):
        run("%a: memref<4xi32>, %o: memref<4xi32>", CHECKS, a, np.zeros(4, np.int32))


def test_assertions_that_hold_change_nothing(run: Run) -> None:
    a, out = np.arange(4, dtype=np.int32), np.zeros(4, np.int32)
    run("%a: memref<4xi32>, %o: memref<4xi32>", CHECKS, a, out)
    np.testing.assert_array_equal(out, a)


def test_half_precision_rounds_after_each_operation(run: Run) -> None:
    rng = np.random.default_rng(3)
    a, b, c = (rng.normal(size=31).astype(np.float16) for _ in range(3))
    out = np.zeros(31, np.float16)
    body = generic(
        ["i", "i", "i", "i"],
        "p",
        "%a, %b, %c : memref<31xf16>, memref<31xf16>, memref<31xf16>",
        "%o : memref<31xf16>",
        """^bb0(%x: f16, %y: f16, %z: f16, %s: f16):
          %p = arith.mulf %x, %y : f16
          %q = arith.addf %p, %z : f16
          linalg.yield %q : f16""",
        "i",
    )
    memref = "memref<31xf16>"
    run(f"%a: {memref}, %b: {memref}, %c: {memref}, %o: {memref}", body, a, b, c, out)
    np.testing.assert_array_equal(out, a * b + c)


def test_arguments_may_have_any_name(run: Run) -> None:
    a, out = run.floats(4), np.zeros(4, np.float32)
    memref = "memref<4xf32>"
    run(
        ", ".join(f"%{name}: {memref}" for name in ("for", "exp", "v0", "kernel", "0")),
        copy_op("%for", "%exp", memref),
        a,
        out,
        *(np.zeros(4, np.float32) for _ in range(3)),
    )
    np.testing.assert_array_equal(out, a)


def test_all_that_has_no_source_is_reported_at_once(parse_kernel: ParseKernel) -> None:
    text = four_times("""
      %v = memref.load %a[%i] : memref<4xi32>
      %r = math.ctpop %v : i32
      %w = arith.extsi %v : i32 to i33
      memref.store %r, %a[%i] : memref<4xi32>""")
    kernel = parse_kernel(
        'launch.kernel @k target "cpu" (%a: memref<4xi32>, %b: memref<4xtf32>)'
        f" {{ {text} }}"
    )
    with pytest.raises(LocatedPassFailure) as caught:
        kernel_source(kernel)
    assert [message for _, message in caught.value.findings] == [
        "kernel @k: math.ctpop (i32) -> (i32) has no source",
        "kernel @k: arith.extsi (i32) -> (i33) has no source",
        "kernel @k: elements of tf32 have no source",
    ]
    assert [op.name for op, _ in caught.value.findings] == [
        "math.ctpop",
        "arith.extsi",
        "launch.kernel",
    ]
