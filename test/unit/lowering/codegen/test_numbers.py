"""Kernels whose numbers are arguments, with others than they were compiled with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.dialects.kernel.interface import SCHEDULE
from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.schedules.cpu_map import MapAttr
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.lowering.codegen.body.numbers import loops_in_code
from penstock.lowering.codegen.target import kernel_source
from penstock.lowering.pipelines import PipelineOptions, pipeline
from penstock.runtime.jit import cache
from penstock.runtime.jit.cpu import KernelFunction, compile_cpu, key_of
from penstock.runtime.jit.source_head import split_head
from penstock.tools.driver.compiler import installed_compiler, run_pipeline

Array: TypeAlias = NDArray[Any]
Extents: TypeAlias = tuple[int, ...]
GUARD = 64
"""Elements around each array, which no kernel writes."""


def kernel_of(op: str, result: str, *operands: str) -> KernelOp:
    """The only kernel of a job of one op, whose operands are `%a`, `%b`..."""
    inputs = [
        f'%{name} = job.input "{name}" : tensor<{type}>'
        for name, type in zip("ab", operands, strict=False)
    ]
    names = ", ".join(f"%{name}" for name in "ab"[: len(operands)])
    types = ", ".join(f"tensor<{type}>" for type in operands)
    word, _, rest = op.partition(" ")
    lines = [
        *inputs,
        f"%y = op.{word} {names} {rest} : {types} -> tensor<{result}>",
        f'job.output "y", %y : tensor<{result}>',
    ]
    return kernel_in(lines)


def kernel_in(lines: Sequence[str]) -> KernelOp:
    """The only kernel of a job of these lines."""
    text = f"job.job @net placement <cpu, [0:0]> {{ {' '.join(lines)} }}"
    compiler, passes = installed_compiler()
    module = compiler.parse(text.encode(), "test.mlir")
    run_pipeline(compiler, passes, module, pipeline(PipelineOptions("cpu")))
    (kernel,) = (op for op in module.walk() if isinstance(op, KernelOp))
    return kernel


@dataclass(frozen=True)
class Case:
    """
    A kernel by its extents: `make` gives it, `numbers` those of its arguments, `shapes`
    the shapes of operands and the result, which is computed by `expected`.
    """

    make: Callable[[Extents], KernelOp]
    compiled: Extents
    others: Sequence[Extents]
    numbers: Callable[[Extents], Sequence[int]]
    shapes: Callable[[Extents], Sequence[Extents]]
    expected: Callable[[Sequence[Array]], Array]
    dtype: type[np.number[Any]] = np.float32


def blocks(n: int) -> int:
    return -(-n // 4096)


CASES = {
    "long map": Case(
        lambda e: kernel_of("relu", f"{e[0]}xf32", f"{e[0]}xf32"),
        (20011,),
        [(0,), (1,), (63,), (64,), (4096,), (4097,), (30000,)],
        lambda e: [e[0], blocks(e[0])],
        lambda e: [(e[0],), (e[0],)],
        lambda arrays: np.maximum(arrays[0], 0),
    ),
    "whole vectors": Case(
        lambda e: kernel_of(
            "add", f"{e[0]}x{e[1]}xf32", f"{e[0]}x{e[1]}xf32", f"{e[1]}xf32"
        ),
        (40, 192),
        [(0, 64), (1, 128), (3, 640)],
        lambda e: [e[0], e[1], e[1]],
        lambda e: [(e[0], e[1]), (e[1],), (e[0], e[1])],
        lambda arrays: arrays[0] + arrays[1],
    ),
    "broadcast": Case(
        lambda e: kernel_of(
            "add", f"{e[0]}x{e[1]}xf32", f"{e[0]}x{e[1]}xf32", f"{e[1]}xf32"
        ),
        (40, 1027),
        [(0, 5), (1, 1), (7, 0), (3, 65), (2, 2047)],
        lambda e: [e[0], e[1], e[1]],
        lambda e: [(e[0], e[1]), (e[1],), (e[0], e[1])],
        lambda arrays: arrays[0] + arrays[1],
    ),
    "short lines": Case(
        lambda e: kernel_of(
            "add", f"{e[0]}x{e[1]}xf32", f"{e[0]}x{e[1]}xf32", f"{e[1]}xf32"
        ),
        (40, 196),
        [(0, 5), (1, 1), (7, 15), (3, 16), (5, 31), (4, 32), (2, 47), (3, 49), (2, 67)],
        lambda e: [e[0], e[1], e[1]],
        lambda e: [(e[0], e[1]), (e[1],), (e[0], e[1])],
        lambda arrays: arrays[0] + arrays[1],
    ),
    "planes of a pool": Case(
        lambda e: kernel_of(
            "max_pool2d kernel [2, 2] strides [2, 2]",
            f"1x{e[0]}x5x6xf32",
            f"1x{e[0]}x10x12xf32",
        ),
        (30,),
        [(0,), (1,), (2,), (7,)],
        lambda e: [e[0]],
        lambda e: [(e[0], 10, 12), (e[0], 5, 6)],
        lambda arrays: arrays[0].reshape(-1, 5, 2, 6, 2).max((2, 4)),
    ),
    "channels": Case(
        lambda e: kernel_of(
            f"conv2d groups {e[1]}",
            f"{e[0]}x{e[1]}x7x10xf32",
            f"{e[0]}x{e[1]}x9x12xf32",
            f"{e[1]}x1x3x3xf32",
        ),
        (2, 20),
        [(1, 1), (0, 3), (3, 5), (5, 2)],
        lambda e: [e[0] * e[1], e[1]],
        lambda e: [(e[0], e[1], 9, 12), (e[1], 3, 3), (e[0], e[1], 7, 10)],
        lambda arrays: np.einsum(
            "ncyxpq,cpq->ncyx",
            np.lib.stride_tricks.sliding_window_view(arrays[0], (3, 3), (2, 3)),
            arrays[1],
        ),
    ),
    "halves": Case(
        lambda e: kernel_of("add", f"{e[0]}xf16", f"{e[0]}xf16", f"{e[0]}xf16"),
        (1027,),
        [(1,), (2,), (33,), (1500,)],
        lambda e: [e[0]],
        lambda e: [(e[0],), (e[0],), (e[0],)],
        lambda arrays: arrays[0] + arrays[1],
        np.float16,
    ),
    "integers": Case(
        lambda e: kernel_of("add", f"{e[0]}x30xi64", f"{e[0]}x30xi64", "30xi64"),
        (40,),
        [(0,), (1,), (17,)],
        lambda e: [e[0]],
        lambda e: [(e[0], 30), (30,), (e[0], 30)],
        lambda arrays: arrays[0] + arrays[1],
        np.int64,
    ),
    "transpose": Case(
        lambda e: kernel_of(
            "transpose by [1, 0, 2]",
            f"{e[1]}x{e[0]}x{e[2]}xf32",
            f"{e[0]}x{e[1]}x{e[2]}xf32",
        ),
        (20, 30, 1030),
        [(1, 2, 3), (3, 1, 65), (0, 4, 5), (5, 4, 1)],
        lambda e: [e[1], e[0], e[2], e[1] * e[2], e[2], e[0] * e[2], e[2]],
        lambda e: [(e[0], e[1], e[2]), (e[1], e[0], e[2])],
        lambda arrays: arrays[0].transpose(1, 0, 2),
    ),
    "sums of rows": Case(
        lambda e: kernel_of("reduce_sum axes [1]", f"{e[0]}xf32", f"{e[0]}x2001xf32"),
        (50,),
        [(0,), (1,), (64,)],
        lambda e: [e[0]],
        lambda e: [(e[0], 2001), (e[0],)],
        lambda arrays: arrays[0].sum(1, dtype=np.float64),
    ),
    "sums of planes": Case(
        lambda e: kernel_of(
            "reduce_sum axes [0, 2]", f"{e[1]}xf32", f"{e[0]}x{e[1]}x{e[2]}xf32"
        ),
        (20, 192, 1027),
        [(1, 64, 1), (3, 128, 17), (0, 64, 5), (2, 64, 2000)],
        lambda e: [e[1], e[1], e[2], e[0], e[1] * e[2], e[2]],
        lambda e: [(e[0], e[1], e[2]), (e[1],)],
        lambda arrays: arrays[0].sum((0, 2), dtype=np.float64),
    ),
    "maxima of columns": Case(
        lambda e: kernel_of(
            "reduce_max axes [1]", f"{e[0]}x{e[2]}xf32", f"{e[0]}x{e[1]}x{e[2]}xf32"
        ),
        (20, 30, 2001),
        [(1, 1, 1), (3, 2, 65), (2, 5, 4099)],
        lambda e: [
            e[0] * e[2],
            blocks(e[0] * e[2]),
            e[0],
            e[1],
            e[2],
            e[1] * e[2],
            e[2],
            e[2],
        ],
        lambda e: [(e[0], e[1], e[2]), (e[0], e[2])],
        lambda arrays: arrays[0].max(1),
    ),
}


def check_numbers(case: Case) -> None:
    """Check which numbers are arguments of a kernel."""
    row = split_head(kernel_source(case.make(case.compiled))).row
    words = [word for word in row if isinstance(word, int)]
    assert words == [*case.numbers(case.compiled)]


def run(case: Case, extents: Extents, parts: int, seed: int) -> None:
    """Run the code of the compiled extents on others, and compare with NumPy."""
    check_numbers(case)
    kernel = compile_cpu(kernel_source(case.make(case.compiled)), "kernel")
    random = np.random.default_rng(seed)
    shapes = case.shapes(extents)
    # Integers, whose sums are exact in any order.
    arrays = [random.integers(-8, 8, shape).astype(case.dtype) for shape in shapes]
    buffers = [np.full(array.size + 2 * GUARD, 77, case.dtype) for array in arrays]
    for array, buffer in zip(arrays, buffers, strict=True):
        buffer[GUARD : GUARD + array.size] = array.reshape(-1)
    first = GUARD * np.dtype(case.dtype).itemsize
    addresses = [buffer.ctypes.data + first for buffer in buffers]
    row = np.array([*addresses, *case.numbers(extents)], np.int64)
    for part in range(parts):
        assert KernelFunction(kernel.address)(row.ctypes.data, part, parts) == 0
    result = buffers[-1]
    wanted = case.expected(arrays[:-1]).astype(case.dtype)
    got = result[GUARD : GUARD + wanted.size].reshape(wanted.shape)
    np.testing.assert_allclose(got, wanted, rtol=2e-6, err_msg=f"seed {seed}")
    assert (result[:GUARD] == 77).all()
    assert (result[GUARD + wanted.size :] == 77).all()


@pytest.mark.parametrize("name", CASES)
def test_code_is_good_for_other_extents(name: str) -> None:
    case = CASES[name]
    for seed, extents in enumerate([case.compiled, *case.others]):
        run(case, extents, 1, seed)


def test_parts_share_any_extent() -> None:
    for seed, parts in enumerate((2, 3)):
        run(CASES["maxima of columns"], (3, 2, 65), parts, seed)


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_numbers_in_the_code(name: str) -> None:
    case = CASES[name]
    kernel = case.make(case.compiled)
    random = np.random.default_rng(7)
    arrays = [
        random.standard_normal(shape).astype(np.float32).astype(case.dtype)
        for shape in case.shapes(case.compiled)
    ]
    results: list[bytes] = []
    for is_fixed in (True, False):
        source = kernel_source(kernel, is_fixed=is_fixed)
        assert bool(split_head(source).row) != is_fixed
        row = np.array([array.ctypes.data for array in arrays], np.int64)
        assert compile_cpu(source, "kernel")(row.ctypes.data) == 0
        results.append(arrays[-1].tobytes())
    assert results[0] == results[1]


def test_a_lookup_is_compiled_once_for_tables_of_any_height() -> None:
    def lookup(rows: int) -> str:
        lines = [
            f'%a = job.input "a" : tensor<{rows}x20xf32>',
            '%b = job.input "b" : tensor<30xi64>',
            f"%y = op.gather %a[%b] axis 0 : tensor<{rows}x20xf32>, tensor<30xi64> "
            "-> tensor<30x20xf32>",
            'job.output "y", %y : tensor<30x20xf32>',
        ]
        return kernel_source(kernel_in(lines))

    rows, random = 37, np.random.default_rng(5)
    source = lookup(rows)
    assert split_head(source).code == split_head(lookup(1000)).code
    table = random.standard_normal((rows, 20)).astype(np.float32)
    indices = random.integers(-rows, rows, 30)
    result = np.zeros((30, 20), np.float32)
    row = np.array([x.ctypes.data for x in (table, indices, result)], np.int64)
    kernel = compile_cpu(source, "kernel")
    assert kernel(row.ctypes.data) == 0
    assert result.tobytes() == table[indices].tobytes()
    for wrong in (rows, -rows - 1):
        indices[11] = wrong
        assert kernel(row.ctypes.data) == 1


def matmul(extents: Extents) -> str:
    """A kernel that multiplies, in tiles with rows and columns left, and blocks."""
    m, n, k = extents
    a, b, o = (f"memref<{x}x{y}xf32>" for x, y in ((m, k), (k, n), (m, n)))
    schedule = "#launch.contraction<outer, tile [6, 2, 16], block [12, 24], packed>"
    return f"""launch.kernel @k target "cpu" (%a: {a}, %b: {b}, %o: {o}) {{
        linalg.matmul {{schedule = {schedule}}} ins(%a, %b : {a}, {b}) outs(%o : {o})
    }}"""


def windows(extents: Extents) -> str:
    """A kernel that convolves padded images with windows of 3 by 3, 2 apart."""
    c, height, width = extents
    lines, columns = (height + 1) // 2, (width + 1) // 2
    w, x = f"memref<7x{c}x3x3xf32>", f"memref<{c}x{height}x{width}xf32>"
    p = f"memref<{c}x{height + 2}x{width + 2}xf32>"
    o = f"memref<7x{lines}x{columns}xf32>"
    loops = "(o, y, x, c, p, q) -> "
    terms = ("(o, c, p, q)", "(c, y * 2 + p, x * 2 + q)", "(o, y, x)")
    maps = ", ".join(f"affine_map<{loops}{term}>" for term in terms)
    kinds = ", ".join(['"parallel"'] * 3 + ['"reduction"'] * 3)
    schedule = "#launch.contraction<outer, tile [4, 1, 16], block [8, 18], packed>"
    return f"""launch.kernel @k target "cpu" (%w: {w}, %x: {x}, %o: {o}) {{
      %p = kernel.padded %x low [0, 1, 1] high [0, 1, 1] : {x} to {p}
      linalg.generic {{indexing_maps = [{maps}], iterator_types = [{kinds}]}}
        ins(%w, %p : {w}, {p}) outs(%o : {o}) attrs = {{schedule = {schedule}}} {{
      ^bb0(%a: f32, %b: f32, %s: f32):
        %u = arith.mulf %a, %b : f32
        %t = arith.addf %s, %u : f32
        linalg.yield %t : f32 }} }}"""


def convolved(w: Array, x: Array) -> Array:
    """Products of windows of 3 by 3 and images with a pad of 1, 2 apart."""
    x = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    seen = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))[:, ::2, ::2]
    return np.einsum("ocpq,cyxpq->oyx", w, seen)


Form: TypeAlias = tuple[Callable[[Extents], str], Callable[..., Array], list[Extents]]
"""The text of a kernel of some extents, its result, and extents of one form."""

FORMS: dict[str, Form] = {
    "matmul": (
        matmul,
        np.matmul,
        # Blocks of 12 rows and 24 terms; tiles of 6 rows and 32 columns, and 3 and up
        # to 15 more.
        [(15, 33, 2), (21, 47, 23), (15, 79, 24), (27, 41, 25), (33, 109, 97)],
    ),
    "windows": (
        windows,
        convolved,
        # More than 16 windows, which are no whole vectors.
        [(2, 9, 7), (3, 9, 9), (5, 11, 13), (7, 33, 17), (16, 6, 38), (13, 29, 12)],
    ),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_contraction_is_compiled_once_for_all_extents(
    name: str, parse_raised: Callable[[str], KernelOp]
) -> None:
    make, expected, cases = FORMS[name]
    codes: set[str] = set()
    for seed, extents in enumerate(cases):
        kernel = parse_raised(make(extents))
        source = kernel_source(kernel)
        codes.add(split_head(source).code)
        random = np.random.default_rng(seed)
        # Integers, whose sums are exact in any order, and have the same bits.
        arrays = [
            random.integers(-8, 8, type.get_shape()).astype(np.float32)
            for type in kernel.arguments
        ]
        wanted = arrays[-1] + expected(*arrays[:-1])
        buffers = [np.pad(array.ravel(), GUARD, constant_values=77) for array in arrays]
        addresses = [buffer.ctypes.data + 4 * GUARD for buffer in buffers]
        row = np.array(addresses, np.int64)
        for part in range(2):
            assert compile_cpu(source, "kernel")(row.ctypes.data, part, 2) == 0
        got = buffers[-1]
        assert got[GUARD:-GUARD].tobytes() == wanted.tobytes(), f"seed {seed}"
        assert (got[:GUARD] == 77).all()
        assert (got[-GUARD:] == 77).all()
    assert len(codes) == 1


def test_a_contraction_has_no_more_loops_to_fix(
    parse_raised: Callable[[str], KernelOp],
) -> None:
    kernel = parse_raised(matmul((15, 33, 2)).replace("packed>", "packed, fixed [3]>"))
    with pytest.raises(LocatedPassFailure) as raised:
        kernel_source(kernel)
    messages = [message for _, message in raised.value.findings]
    assert messages == ["kernel @k: there are 3 loops, got fixed [3]"]


@pytest.mark.parametrize("stage", ["map", "row"])
def test_a_loop_that_is_not_there_cannot_be_fixed(
    stage: str, parse_kernel: Callable[[str], KernelOp]
) -> None:
    maps = (
        "indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>]"
    )
    types = "ins(%a : memref<4x8xf32>) outs(%o : memref<4x8xf32>)"
    text = {
        "map": f"""linalg.generic {{{maps}, iterator_types = ["parallel", "parallel"]}}
            {types} attrs = {{schedule = #launch.map<fixed [2]>}} {{
            ^bb0(%x: f32, %y: f32): linalg.yield %x : f32 }}""",
        "row": f"""kernel.row along [1] {maps} {types}
            attributes {{schedule = #launch.vector_loops<lines, fixed [2]>}} {{
            ^bb0(%x: f32):
              %s = kernel.all_reduce add %x : f32
              kernel.yield %s : f32 }}""",
    }[stage]
    arguments = "%a: memref<4x8xf32>, %o: memref<4x8xf32>"
    kernel = f'launch.kernel @k target "cpu" ({arguments}) {{ {text} }}'
    with pytest.raises(LocatedPassFailure) as raised:
        kernel_source(parse_kernel(kernel))
    messages = [message for _, message in raised.value.findings]
    assert messages == ["kernel @k: there are 2 loops, got fixed [2]"]


def test_two_extents_share_one_entry_of_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "cache"))
    first, second = (
        kernel_source(kernel_of("neg", f"{n}xf32", f"{n}xf32")) for n in (20099, 31007)
    )
    assert first != second
    assert key_of(first) == key_of(second)
    kernels = [compile_cpu(source, "kernel") for source in (first, second)]
    assert kernels[0].address == kernels[1].address
    assert [kernel.row[2:] for kernel in kernels] == [(20099, 5), (31007, 8)]
    assert len([*(tmp_path / "cache").rglob("*.o")]) == 1


NO_LOOPS = frozenset[int]()


@pytest.mark.parametrize(
    ("kernel", "loops"),
    [
        (("softmax axis 1", "8x64xf32", "8x64xf32"), {0, 1}),
        (("reduce_sum axes [1]", "8xf32", "8x64xf32"), NO_LOOPS),
        (("matmul", "8x8xf32", "8x8xf32", "8x8xf32"), NO_LOOPS),
        (("relu", "8x64xf32", "8x64xf32"), NO_LOOPS),
    ],
)
def test_ops_and_schedules_say_which_loops_are_in_the_code(
    kernel: tuple[str, str, *tuple[str, ...]], loops: Collection[int]
) -> None:
    op, result, *operands = kernel
    (stage,) = kernel_of(op, result, *operands).body.block.ops
    assert {*loops_in_code(stage)} == {*loops}


def test_a_map_says_the_loops_that_its_schedule_fixes() -> None:
    (stage,) = kernel_of("transpose by [1, 0]", "64x8xf32", "8x64xf32").body.block.ops
    stage.attributes[SCHEDULE] = MapAttr((1,))
    assert {*loops_in_code(stage)} == {1}


def test_a_kernel_may_be_bound_to_a_row_for_many_calls() -> None:
    source = kernel_source(kernel_of("neg", "100000xf32", "100000xf32"))
    assert any(isinstance(word, int) for word in split_head(source).row)
    x = np.random.default_rng(5).normal(size=100_000).astype(np.float32)
    y = np.zeros_like(x)
    words = np.array([x.ctypes.data, y.ctypes.data], np.int64)
    call = compile_cpu(source, "kernel").bound(words.ctypes.data)
    # Its row is one of its own.
    words[:] = 0
    for _ in range(2):
        y.fill(0)
        assert [call(0, 2), call(1, 2)] == [0, 0]
        np.testing.assert_array_equal(y, -x)
