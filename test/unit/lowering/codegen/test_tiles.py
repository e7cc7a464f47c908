"""Contractions that have a schedule, printed as source and run, against NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TypeAlias

import numpy as np
import pytest
import scipy.special
from draws import draws
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kernel_runs import result_of, run_on_copies
from numpy.typing import NDArray

from penstock.dialects.kernel.interface import SCHEDULE
from penstock.dialects.launch import KernelOp
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.lowering.codegen.cpu.kernel_schedule import schedule_kernel
from penstock.lowering.codegen.target import kernel_source

Array: TypeAlias = NDArray[np.floating | np.integer]
ParseKernel: TypeAlias = Callable[[str], KernelOp]

SHARED = [HealthCheck.function_scoped_fixture]
"""The fixture that parses keeps nothing between examples."""
"""The padding around arrays."""
EPSILON = {"f32": 2.0**-24, "f64": 2.0**-53}
DTYPES = {"f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}
INTEGERS = {"i32": np.dtype(np.int32), "i64": np.dtype(np.int64)}


def memref(shape: Sequence[int], type: str) -> str:
    """The type of a memref."""
    return f"memref<{''.join(f'{extent}x' for extent in shape)}{type}>"


def contraction(
    maps: Sequence[str],
    shapes: Sequence[Sequence[int]],
    loops: str,
    type: str = "f32",
    schedule: str = "",
    after: str = "",
    more: str = "",
) -> str:
    """A kernel that sums products: o = a * b, whose last loops are those of terms."""
    a, b, o = (memref(shape, type) for shape in shapes)
    parallel = maps[2].count(",") + 1 if maps[2] else 0
    count = loops.count(",") + 1
    kinds = ['"parallel"'] * parallel + ['"reduction"'] * (count - parallel)
    affine = ", ".join(f"affine_map<({loops}) -> ({map})>" for map in maps)
    attributes = f"attrs = {{schedule = {schedule}}} " if schedule else ""
    zero, kind = ("0", "i") if type in INTEGERS else ("0.0", "f")
    return f"""
    launch.kernel @k target "cpu" (%a: {a}, %b: {b}{more}, %o: {o}) {{
      %z = arith.constant {zero} : {type}
      linalg.fill ins(%z : {type}) outs(%o : {o})
      linalg.generic {{indexing_maps = [{affine}],
                       iterator_types = [{", ".join(kinds)}]}}
        ins(%a, %b : {a}, {b}) outs(%o : {o}) {attributes}{{
      ^bb0(%x: {type}, %y: {type}, %s: {type}):
        %p = arith.mul{kind} %x, %y : {type}
        %t = arith.add{kind} %s, %p : {type}
        linalg.yield %t : {type}
      }}
      {after}
    }}"""


def matmul(
    m: int, n: int, k: int, a: bool, b: bool, type: str = "f32", schedule: str = ""
) -> str:
    """A product of two matrices, each of which may be stored transposed."""
    return contraction(
        ["k, m" if a else "m, k", "n, k" if b else "k, n", "m, n"],
        [(k, m) if a else (m, k), (n, k) if b else (k, n), (m, n)],
        "m, n, k",
        type,
        schedule,
    )


def check_sums(found: Array, a: Array, b: Array, terms: int, type: str) -> None:
    """
    Compare sums of products with those of NumPy in 64 bits (or 128), within the error
    that any order of the terms may have: terms * eps / (1 - terms * eps) of their size.
    """
    wide = np.float64 if type == "f32" else np.longdouble
    a, b = a.astype(wide), b.astype(wide)
    unit = (terms + 2) * EPSILON[type]
    bound = unit / (1 - unit) * np.matmul(abs(a), abs(b))
    assert (abs(found - np.matmul(a, b)) <= bound).all()


def floats(seed: int, type: str, *shape: int) -> Array:
    """Random numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype(DTYPES[type])


def check_matmul(
    parse: ParseKernel,
    extents: tuple[int, int, int],
    transposed: tuple[bool, bool],
    type: str = "f32",
    schedule: str = "",
    vector_bytes: int = 64,
    parts: int = 1,
) -> None:
    """Run a product of matrices as it is scheduled, and compare."""
    m, n, k = extents
    kernel = parse(matmul(m, n, k, *transposed, type, schedule))
    schedule_kernel(kernel, vector_bytes)
    assert any(SCHEDULE in op.attributes for op in kernel.walk())
    a, b = floats(1, type, m, k), floats(2, type, k, n)
    stored = [
        np.ascontiguousarray(x.T) if swap else x
        for x, swap in zip((a, b), transposed, strict=True)
    ]
    found = result_of(kernel, stored, parts)
    check_sums(found, a, b, k, type)


extents = st.integers(1, 40) | st.sampled_from([48, 61, 64, 67, 96, 97, 127])


@pytest.mark.slow
@settings(max_examples=draws(5), deadline=None, suppress_health_check=SHARED)
@given(
    m=extents,
    n=extents,
    k=extents,
    transposed=st.tuples(st.booleans(), st.booleans()),
    type=st.sampled_from(["f32", "f64"]),
    vector_bytes=st.sampled_from([16, 32, 64]),
    parts=st.integers(1, 3),
)
def test_matrices_of_any_size(
    m: int,
    n: int,
    k: int,
    transposed: tuple[bool, bool],
    type: str,
    vector_bytes: int,
    parts: int,
    parse_raised: ParseKernel,
) -> None:
    check_matmul(parse_raised, (m, n, k), transposed, type, "", vector_bytes, parts)


@pytest.mark.parametrize("transposed", [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize(
    "extents", [(200, 300, 301), (130, 97, 1100), (97, 1, 900), (201, 97, 40)]
)
def test_blocks_of_terms_and_panels(
    extents: tuple[int, int, int],
    transposed: tuple[bool, bool],
    parse_raised: ParseKernel,
) -> None:
    check_matmul(parse_raised, extents, transposed, parts=3)


@pytest.mark.parametrize(
    ("type", "extents", "transposed", "vector_bytes"),
    [
        ("i32", (7, 19, 23), (False, False), 16),
        ("i32", (100, 33, 1500), (True, False), 64),
        ("i32", (3, 5, 37), (False, True), 64),
        ("i64", (7, 19, 23), (True, False), 64),
        ("i64", (3, 5, 37), (False, True), 16),
    ],
)
def test_products_of_integers_are_cut_to_their_bits(
    type: str,
    extents: tuple[int, int, int],
    transposed: tuple[bool, bool],
    vector_bytes: int,
    parse_raised: ParseKernel,
) -> None:
    (m, n, k), dtype = extents, INTEGERS[type]
    kernel = parse_raised(matmul(m, n, k, *transposed, type))
    schedule_kernel(kernel, vector_bytes)
    assert any(SCHEDULE in op.attributes for op in kernel.walk())
    random, ends = np.random.default_rng(m), np.iinfo(dtype)
    a, b = (
        random.integers(ends.min, ends.max, shape, dtype) for shape in ((m, k), (k, n))
    )
    stored = [
        np.ascontiguousarray(x.T) if swap else x
        for x, swap in zip((a, b), transposed, strict=True)
    ]
    found = result_of(kernel, stored, parts=2)
    # NumPy cuts off what does not fit, too.
    np.testing.assert_array_equal(found, a @ b)


tiles = st.tuples(
    st.integers(1, 7), st.integers(1, 4), st.sampled_from([1, 2, 4, 8, 16])
)


@pytest.mark.slow
@settings(max_examples=draws(4), deadline=None, suppress_health_check=SHARED)
@given(
    tile=tiles,
    heights=st.integers(1, 3),
    depth=st.integers(1, 30),
    packed=st.booleans(),
    prefetch=st.integers(0, 2),
)
def test_any_outer_schedule_computes_the_same(
    tile: tuple[int, int, int],
    heights: int,
    depth: int,
    packed: bool,
    prefetch: int,
    parse_raised: ParseKernel,
) -> None:
    block = [heights * tile[0], depth]
    schedule = (
        f"#launch.contraction<outer, tile {[*tile]}, block {block}"
        f"{', packed' if packed else ''}, prefetch {prefetch}>"
    )
    transposed = (False, packed and depth % 2 == 0)
    check_matmul(parse_raised, (17, 37, 29), transposed, "f32", schedule, parts=2)


@pytest.mark.slow
@settings(max_examples=draws(4), deadline=None, suppress_health_check=SHARED)
@given(
    tile=tiles,
    heights=st.integers(1, 3),
    depth=st.integers(1, 30),
    reuse=st.integers(1, 5),
    packed=st.booleans(),
    transposed=st.booleans(),
    parts=st.integers(1, 3),
)
def test_any_copy_of_rows_is_reused(
    tile: tuple[int, int, int],
    heights: int,
    depth: int,
    reuse: int,
    packed: bool,
    transposed: bool,
    parts: int,
    parse_raised: ParseKernel,
) -> None:
    schedule = (
        f"#launch.contraction<outer, tile {[*tile]}, block {[heights * tile[0], depth]}"
        f"{', packed' if packed else ''}, reuse {reuse}>"
    )
    swaps = transposed, packed and depth % 2 == 0
    check_matmul(parse_raised, (17, 37, 29), swaps, "f32", schedule, parts=parts)


@pytest.mark.slow
@settings(max_examples=draws(3), deadline=None, suppress_health_check=SHARED)
@given(tile=tiles, heights=st.integers(1, 3), depth=st.integers(1, 30))
def test_any_inner_schedule_computes_the_same(
    tile: tuple[int, int, int], heights: int, depth: int, parse_raised: ParseKernel
) -> None:
    block = [heights * tile[0], depth]
    schedule = f"#launch.contraction<inner, tile {[*tile]}, block {block}>"
    check_matmul(parse_raised, (11, 9, 29), (False, True), "f32", schedule, parts=2)


BATCHED = {
    "stacks": ("i, m, k", "i, k, n", (3, 5, 7), (3, 7, 6)),
    "one right": ("i, m, k", "k, n", (3, 5, 7), (7, 6)),
    "one left": ("m, k", "i, k, n", (5, 7), (3, 7, 6)),
    "right transposed": ("i, m, k", "i, n, k", (3, 5, 7), (3, 6, 7)),
}


@pytest.mark.parametrize("case", BATCHED)
def test_stacks_of_matrices(case: str, parse_raised: ParseKernel) -> None:
    map_a, map_b, shape_a, shape_b = BATCHED[case]
    text = contraction(
        [map_a, map_b, "i, m, n"], [shape_a, shape_b, (3, 5, 6)], "i, m, n, k"
    )
    kernel = parse_raised(text)
    schedule_kernel(kernel, 64)
    a, b = floats(1, "f32", *shape_a), floats(2, "f32", *shape_b)
    found = result_of(kernel, [a, b])
    if "n, k" in map_b:
        b = b.swapaxes(-1, -2)
    check_sums(found, a, b, 7, "f32")


def test_a_convolution_of_one_tap(parse_raised: ParseKernel) -> None:
    shapes = [(8, 5, 1, 1), (2, 5, 6, 7), (2, 8, 6, 7)]
    maps = ["o, c, p, q", "i, c, y + p, x + q", "i, o, y, x"]
    kernel = parse_raised(contraction(maps, shapes, "i, o, y, x, c, p, q"))
    schedule_kernel(kernel, 64)
    w, x = floats(1, "f32", *shapes[0]), floats(2, "f32", *shapes[1])
    found = result_of(kernel, [w, x])
    flat = found.reshape(2, 8, 42)
    check_sums(flat, w.reshape(8, 5), x.reshape(2, 5, 42), 5, "f32")


def convolve(w: Array, x: Array, stride: int, dilation: int) -> Array:
    """The convolution [g, o, c, p, q] of [i, g, c, y, x] in 64 bits."""
    taps = w.shape[-1]
    span = dilation * (taps - 1) + 1
    view = np.lib.stride_tricks.sliding_window_view(x, (span, span), (-2, -1))
    view = view[..., ::stride, ::stride, ::dilation, ::dilation]
    return np.einsum("gocpq,igcyxpq->igoyx", w.astype(np.float64), view)


@pytest.mark.slow
@settings(max_examples=draws(4), deadline=None, suppress_health_check=SHARED)
@given(
    extents=st.tuples(*[st.integers(1, 3)] * 2, st.integers(4, 9), st.integers(1, 6)),
    place=st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 2)),
    windows=st.integers(1, 20),
    type=st.sampled_from(["f32", "f64"]),
    vector_bytes=st.sampled_from([16, 32, 64]),
    schedule=st.sampled_from(["", "packed"]),
)
def test_convolutions_of_any_size(
    extents: tuple[int, int, int, int],
    place: tuple[int, int, int],
    windows: int,
    type: str,
    vector_bytes: int,
    schedule: str,
    parse_raised: ParseKernel,
) -> None:
    images, groups, outputs, channels = extents
    taps, stride, dilation = place
    extent = (windows - 1) * stride + dilation * (taps - 1) + 1
    shapes = [
        (groups, outputs, channels, taps, taps),
        (images, groups, channels, extent, extent),
        (images, groups, outputs, windows, windows),
    ]
    places = (f"{loop} * {stride} + {tap} * {dilation}" for loop, tap in ("yp", "xq"))
    maps = ["g, o, c, p, q", f"i, g, c, {', '.join(places)}", "i, g, o, y, x"]
    # Of one window at each place, the channels are the columns.
    if schedule and windows > 1:
        block = [outputs, max(1, channels // 2) * taps * taps]
        schedule = f"<outer, tile [{outputs}, 3, 8], block {block}, {schedule}>"
        schedule = f"#launch.contraction{schedule}"
    else:
        schedule = ""
    text = contraction(maps, shapes, "i, g, o, y, x, c, p, q", type, schedule)
    kernel = parse_raised(text)
    schedule_kernel(kernel, vector_bytes)
    w, x = floats(1, type, *shapes[0]), floats(2, type, *shapes[1])
    found = result_of(kernel, [w, x], parts=2)
    unit = (channels * taps * taps + 2) * EPSILON[type] * 2
    bound = unit * convolve(abs(w), abs(x), stride, dilation)
    assert (abs(found - convolve(w, x, stride, dilation)) <= bound).all()


def test_blocks_of_windows(parse_raised: ParseKernel) -> None:
    shapes = [(200, 70, 3, 3), (1, 70, 12, 13), (1, 200, 10, 11)]
    maps = ["o, c, p, q", "i, c, y + p, x + q", "i, o, y, x"]
    kernel = parse_raised(contraction(maps, shapes, "i, o, y, x, c, p, q"))
    schedule_kernel(kernel, 64)
    assert "range(0, 630, " in kernel_source(kernel, is_fixed=True)
    w, x = floats(1, "f32", *shapes[0]), floats(2, "f32", *shapes[1])
    found = result_of(kernel, [w, x], parts=3)
    expected = convolve(w[None], x[:, None], 1, 1)[:, 0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("shape", [(1, 1), (3, 1), (1, 3), (16, 2)])
@pytest.mark.parametrize("b", [False, True])
def test_nan_and_infinity_reach_what_they_should(
    shape: tuple[int, int], b: bool, parse_raised: ParseKernel
) -> None:
    m, n = shape
    left, right = floats(1, "f32", m, 40), floats(2, "f32", 40, n)
    left[0, 3], right[39, n - 1] = np.inf, np.nan
    kernel = parse_raised(matmul(m, n, 40, False, b))
    schedule_kernel(kernel, 64)
    stored = np.ascontiguousarray(right.T) if b else right
    found = result_of(kernel, [left, stored])
    expected = np.matmul(left.astype(np.float64), right)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(expected))


def elementwise(
    ins: Sequence[tuple[str, str, str]], shape: str, body: str, rank: int = 2
) -> str:
    """A stage on the result `%o`; `ins` are names, types and maps."""
    names = ", ".join(name for name, _, _ in ins)
    types = ", ".join(type for _, type, _ in ins)
    loops = ", ".join("ijkl"[:rank])
    maps = ", ".join(
        f"affine_map<({loops}) -> ({map})>" for map in (*(i[2] for i in ins), loops)
    )
    kinds = ", ".join(['"parallel"'] * rank)
    inputs = f"ins({names} : {types}) " if ins else ""
    return f"""
      linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
        {inputs}outs(%o : {shape}) {{ {body} }}"""


ADD_RELU = """^bb0(%x: f32, %y: f32, %s: f32):
  %zero = arith.constant 0.0 : f32
  %t = arith.addf %s, %x : f32
  %u = arith.addf %t, %y : f32
  %v = arith.maximumf %u, %zero : f32
  linalg.yield %v : f32"""


@pytest.mark.parametrize("extents", [(1, 40, 9), (13, 21, 300), (100, 96, 700)])
@pytest.mark.parametrize("b", [False, True])
def test_bias_residual_and_relu_are_folded(
    extents: tuple[int, int, int], b: bool, parse_raised: ParseKernel
) -> None:
    m, n, k = extents
    row, all = memref((n,), "f32"), memref((m, n), "f32")
    after = elementwise([("%c", row, "j"), ("%d", all, "i, j")], all, ADD_RELU)
    text = contraction(
        ["m, k", "n, k" if b else "k, n", "m, n"],
        [(m, k), (n, k) if b else (k, n), (m, n)],
        "m, n, k",
        after=after,
        more=f", %c: {row}, %d: {all}",
    )
    kernel = parse_raised(text)
    schedule_kernel(kernel, 64)
    assert "def finish_0(x, s, p0, p1):" in kernel_source(kernel)
    left, right = floats(1, "f32", m, k), floats(2, "f32", *((n, k) if b else (k, n)))
    bias, rest = floats(3, "f32", n), floats(4, "f32", m, n)
    found = result_of(kernel, [left, right, bias, rest], 2)
    sums = np.matmul(left.astype(np.float64), right.T if b else right)
    expected = np.maximum(sums + bias + rest, 0)
    bound = (
        (k + 4) * 2.0**-23 * (np.matmul(abs(left), abs(right.T if b else right)) + 9)
    )
    assert (abs(found - expected) <= bound).all()


def test_a_bias_of_rows_starts_the_sums(parse_raised: ParseKernel) -> None:
    all = memref((5, 18), "f32")
    start = elementwise(
        [("%c", "memref<5xf32>", "i")],
        all,
        "^bb0(%x: f32, %s: f32): linalg.yield %x : f32",
    )
    text = contraction(
        ["m, k", "k, n", "m, n"],
        [(5, 7), (7, 18), (5, 18)],
        "m, n, k",
        more=", %c: memref<5xf32>",
    ).replace(f"linalg.fill ins(%z : f32) outs(%o : {all})", start)
    kernel = parse_raised(text)
    schedule_kernel(kernel, 64)
    assert "x.f32" not in (source := kernel_source(kernel))
    assert "+ s" in source
    a, b, c = floats(1, "f32", 5, 7), floats(2, "f32", 7, 18), floats(3, "f32", 5)
    found = result_of(kernel, [a, b, c])
    np.testing.assert_allclose(found, a @ b + c[:, None], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("zero", [True, False])
def test_sums_of_integers_start_from_what_is_read_or_from_nothing(
    zero: bool, parse_raised: ParseKernel
) -> None:
    all = memref((5, 18), "i32")
    start = elementwise(
        [("%c", "memref<5xi32>", "i")],
        all,
        "^bb0(%x: i32, %s: i32): linalg.yield %x : i32",
    )
    text = contraction(
        ["m, k", "k, n", "m, n"],
        [(5, 7), (7, 18), (5, 18)],
        "m, n, k",
        "i32",
        more=", %c: memref<5xi32>",
    )
    if not zero:
        text = text.replace(f"linalg.fill ins(%z : i32) outs(%o : {all})", start)
    kernel = parse_raised(text)
    schedule_kernel(kernel, 64)
    source = kernel_source(kernel)
    assert ("+ s" in source) != zero
    random = np.random.default_rng(5)
    a, b, c = (random.integers(-99, 99, s, np.int32) for s in ((5, 7), (7, 18), (5,)))
    found = result_of(kernel, [a, b, c])
    np.testing.assert_array_equal(found, a @ b + (0 if zero else c[:, None]))


def test_sums_of_integers_do_not_start_from_other_numbers(
    parse_raised: ParseKernel,
) -> None:
    text = matmul(5, 18, 7, False, False, "i32").replace("constant 0 ", "constant 3 ")
    kernel = parse_raised(text)
    schedule_kernel(kernel, 64)
    random = np.random.default_rng(6)
    a, b = (random.integers(-99, 99, shape, np.int32) for shape in ((5, 7), (7, 18)))
    found = result_of(kernel, [a, b])
    np.testing.assert_array_equal(found, a @ b + 3)


BODIES: dict[str, tuple[str, Callable[[Array], Array]]] = {
    "arith.negf %s": ("", lambda s: -s),
    "math.absf %s": ("", abs),
    "math.sqrt %q": ("%q = math.absf %s : f32", lambda s: np.sqrt(abs(s))),
    "math.floor %s": ("", np.floor),
    "math.trunc %s": ("", np.trunc),
    "math.roundeven %s": ("", np.round),
    "math.round %s": ("", lambda s: np.copysign(np.floor(abs(s) + 0.5), s)),
    "math.ceil %s": ("", np.ceil),
    "arith.divf %c, %s": ("%c = arith.constant 3.0 : f32", lambda s: 3 / s),
    "arith.subf %s, %c": ("%c = arith.constant 3.0 : f32", lambda s: s - 3),
    "arith.mulf %s, %s": ("", lambda s: s * s),
    "arith.minimumf %s, %c": ("%c = arith.constant nan : f32", lambda s: s * np.nan),
    "arith.minnumf %s, %c": ("%c = arith.constant 0x7FC00000 : f32", lambda s: s),
    "arith.maxnumf %s, %c": ("%c = arith.constant 0x7FC00000 : f32", lambda s: s),
    "math.copysign %c, %s": (
        "%c = arith.constant 3.0 : f32",
        lambda s: np.copysign(3, s),
    ),
    "math.fma %s, %s, %s": ("", lambda s: s * s + s),
    **{
        f"arith.select %q, %s, %c -- {name}": (
            f"%c = arith.constant 0.5 : f32\n%q = arith.cmpf {name}, %s, %c : f32",
            lambda s, compare=compare: np.where(compare(s, 0.5), s, 0.5),
        )
        for name, compare in {
            "olt": np.less,
            "ole": np.less_equal,
            "ogt": np.greater,
            "oge": np.greater_equal,
        }.items()
    },
}


@pytest.mark.parametrize("op", BODIES)
def test_ops_of_vectors(op: str, parse_raised: ParseKernel) -> None:
    before, expected = BODIES[op]
    before = before.replace("constant nan", "constant 0x7FC00000")
    last = op.split(" --")[0]
    type = "i1, f32" if "select" in op else "f32"
    typed = f"{last} : {'f32' if 'select' in op else type}"
    body = f"^bb0(%s: f32): {before}\n%r = {typed}\nlinalg.yield %r : f32"
    text = contraction(
        ["m, k", "k, n", "m, n"],
        [(3, 5), (5, 20), (3, 20)],
        "m, n, k",
        after=elementwise([], "memref<3x20xf32>", body),
    )
    kernel = parse_raised(text)
    schedule_kernel(kernel, 64)
    assert "finish_0" in kernel_source(kernel)
    # Small whole numbers, so that sums are exact.
    random = np.random.default_rng(5)
    a, b = (random.integers(-3, 4, s).astype(np.float32) for s in [(3, 5), (5, 20)])
    b[0] += 0.25
    sums = a @ b
    found = result_of(kernel, [a, b])
    with np.errstate(divide="ignore", invalid="ignore"):
        np.testing.assert_array_equal(found, expected(sums).astype(np.float32))


LIBRARY: dict[str, Callable[[Array], Array]] = {
    **{name: getattr(np, name) for name in ("exp", "tanh", "sin", "cbrt", "expm1")},
    **{f"a{name}": getattr(np, f"arc{name}") for name in ("tan", "sinh")},
    "erf": scipy.special.erf,
}


@pytest.mark.parametrize("type", ["f32", "f64"])
@pytest.mark.parametrize("name", LIBRARY)
def test_functions_of_the_library(
    name: str, type: str, parse_raised: ParseKernel
) -> None:
    body = f"^bb0(%s: {type}): %r = math.{name} %s : {type}\nlinalg.yield %r : {type}"
    text = contraction(
        ["m, k", "k, n", "m, n"],
        [(7, 2), (2, 20), (7, 20)],
        "m, n, k",
        type,
        after=elementwise([], memref((7, 20), type), body),
    )
    kernel = parse_raised(text)
    schedule_kernel(kernel, 64)
    assert f"x.{name}(s)" in kernel_source(kernel)
    a, b = floats(1, type, 7, 2), floats(2, type, 2, 20)
    a[:, 1] = 0
    found = result_of(kernel, [a, b])
    expected = LIBRARY[name](a @ b)
    np.testing.assert_allclose(found, expected, rtol=16 * EPSILON[type])


def test_powers(parse_raised: ParseKernel) -> None:
    body = """^bb0(%s: f32): %c = math.absf %s : f32
    %r = math.powf %c, %s : f32
    linalg.yield %r : f32"""
    text = contraction(
        ["m, k", "k, n", "m, n"],
        [(3, 1), (1, 20), (3, 20)],
        "m, n, k",
        after=elementwise([], "memref<3x20xf32>", body),
    )
    kernel = parse_raised(text)
    schedule_kernel(kernel, 64)
    a, b = floats(1, "f32", 3, 1), floats(2, "f32", 1, 20)
    found = result_of(kernel, [a, b])
    np.testing.assert_allclose(found, abs(a * b) ** (a * b), rtol=1e-6)


UNFIT = {
    "outer, tile [4, 2, 8], block [4, 5]": (
        True,
        "does not fit kernel.contract: columns are 5 elements apart, and not packed",
    ),
    "inner, tile [1, 2, 8], block [4, 5]": (
        False,
        "does not fit kernel.contract: the terms do not follow each other",
    ),
}


@pytest.mark.parametrize("schedule", UNFIT)
def test_products_that_do_not_fit_are_refused(
    schedule: str, parse_raised: ParseKernel
) -> None:
    transposed, message = UNFIT[schedule]
    text = matmul(6, 7, 5, False, transposed, "f32", f"#launch.contraction<{schedule}>")
    with pytest.raises(LocatedPassFailure) as failure:
        kernel_source(parse_raised(text))
    assert message in str(failure.value)


UNFIT_WINDOWS = {
    ("inner, tile [4, 2, 8], block [4, 12]", 1): "windows are not packed",
    ("outer, tile [4, 2, 8], block [4, 12], reuse 1", 1): "windows are not packed",
    ("outer, tile [4, 2, 8], block [4, 4]", 1): "windows that are not packed add all "
    "12 terms at once",
    ("outer, tile [4, 2, 8], block [4, 12]", 2): "windows 2 elements apart are not "
    "packed",
    ("outer, tile [4, 2, 8], block [4, 6], packed", 1): "a block has no whole windows "
    "of 4 terms",
}


@pytest.mark.parametrize(("schedule", "step"), UNFIT_WINDOWS)
def test_windows_that_do_not_fit_are_refused(
    schedule: str, step: int, parse_raised: ParseKernel
) -> None:
    shapes = [(4, 3, 2, 2), (3, 4 * step + 2, 4 * step + 2), (4, 5, 5)]
    maps = ["o, c, p, q", f"c, {step} * y + p, {step} * x + q", "o, y, x"]
    text = contraction(
        maps, shapes, "o, y, x, c, p, q", "f32", f"#launch.contraction<{schedule}>"
    )
    with pytest.raises(LocatedPassFailure) as failure:
        kernel_source(parse_raised(text))
    assert UNFIT_WINDOWS[schedule, step] in str(failure.value)


def test_windows_with_padding_are_packed(parse_kernel: ParseKernel) -> None:
    text = """
    launch.kernel @k target "cpu" (%a: memref<4x3x2x2xf32>, %b: memref<3x6x5xf32>,
        %o: memref<4x5x5xf32>) {
      %p = kernel.padded %b low [0, 0, 1] high [0, 0, 0]
        : memref<3x6x5xf32> to memref<3x6x6xf32>
      kernel.contract indexing_maps = [
          affine_map<(o, y, x, c, p, q) -> (o, c, p, q)>,
          affine_map<(o, y, x, c, p, q) -> (c, y + p, x + q)>,
          affine_map<(o, y, x, c, p, q) -> (o, y, x)>]
        ins(%a, %p : memref<4x3x2x2xf32>, memref<3x6x6xf32>)
        outs(%o : memref<4x5x5xf32>)
        attributes {
          schedule = #launch.contraction<outer, tile [4, 2, 8], block [4, 12]>
        }
    }"""
    with pytest.raises(LocatedPassFailure) as failure:
        kernel_source(parse_kernel(text))
    assert "windows with padding around them are not packed" in str(failure.value)


IN_PLACE: list[tuple[tuple[int, ...], tuple[int, ...], str, int, int]] = [
    ((1, 5, 3, 3), (2, 16, 37), "f32", 64, 2),
    ((3, 2, 2, 20), (1, 9, 70), "f32", 32, 1),
    ((7, 3, 1, 5), (3, 4, 16), "f64", 64, 3),
    ((2, 4, 18, 1), (2, 3, 21), "f64", 32, 1),
]
"""Weights, images and lines of them, and columns; the element type, vectors, parts."""


@pytest.mark.parametrize(
    ("weights", "places", "type", "vector_bytes", "parts"), IN_PLACE
)
def test_windows_are_read_where_they_lie(
    weights: tuple[int, ...],
    places: tuple[int, ...],
    type: str,
    vector_bytes: int,
    parts: int,
    parse_raised: ParseKernel,
) -> None:
    outputs, channels, down, across = weights
    images, rows, columns = places
    image = images, channels, rows + down - 1, columns + across - 1
    shapes = [weights, image, (images, outputs, rows, columns)]
    maps = ["o, c, p, q", "n, c, y + p, x + q", "n, o, y, x"]
    kernel = parse_raised(contraction(maps, shapes, "n, o, y, x, c, p, q", type))
    schedule_kernel(kernel, vector_bytes, parts)
    source = kernel_source(kernel)
    assert "window=" in source
    assert "pack" not in source
    a, b = floats(1, type, *weights), floats(2, type, *image)
    found = result_of(kernel, [a, b], parts)
    windows = np.lib.stride_tricks.sliding_window_view(b, (down, across), (2, 3))
    terms = channels * down * across
    columns_of = windows.transpose(0, 1, 4, 5, 2, 3).reshape(images, terms, -1)
    found = found.reshape(images, outputs, -1)
    check_sums(found, a.reshape(outputs, terms), columns_of, terms, type)


def test_parts_are_as_many_as_the_work_is_worth(parse_raised: ParseKernel) -> None:
    def parts(m: int, n: int, k: int) -> int:
        kernel = parse_raised(matmul(m, n, k, False, False))
        schedule_kernel(kernel, 64, 8)
        source = kernel_source(kernel)
        (line,) = [line for line in source.splitlines() if line.startswith("PARTS")]
        return int(line.removeprefix("PARTS = "))

    assert parts(16, 16, 16) == 1
    assert 8 <= parts(512, 512, 512) <= 2 * prod((512, 512, 512)) // 400_000
    # Of one row, as in the body of a loop, the time is that of its weights.
    assert parts(1, 768, 256) >= 2
    assert parts(1, 256, 64) == 1


def test_one_product_after_the_other(parse_raised: ParseKernel) -> None:
    a, b, o = memref((9, 40), "f32"), memref((40, 40), "f32"), memref((9, 40), "f32")
    text = f"""
    launch.kernel @k target "cpu" (%a: {a}, %b: {b}, %p: {o}, %o: {o}) {{
      %z = arith.constant 0.0 : f32
      linalg.fill ins(%z : f32) outs(%p : {o})
      linalg.matmul ins(%a, %b : {a}, {b}) outs(%p : {o})
      linalg.fill ins(%z : f32) outs(%o : {o})
      linalg.matmul ins(%p, %b : {o}, {b}) outs(%o : {o})
    }}"""
    kernel = parse_raised(text)
    schedule_kernel(kernel, 64)
    source = kernel_source(kernel)
    assert "PARTS = 1\n" in source
    assert "micro_kernel_1" in source
    left, right = floats(1, "f32", 9, 40), floats(2, "f32", 40, 40)
    made = left @ right
    unset = np.full_like(made, np.nan)
    # A second part would not know when the first product is there.
    *_, found = run_on_copies(source, [left, right, unset, unset.copy()], parts=2)
    np.testing.assert_allclose(found, made @ right, rtol=1e-4, atol=1e-3)
