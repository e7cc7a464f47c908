"""Convolutions of channels on their own, and pools, in vectors, against NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import pytest
from draws import fresh
from kernel_runs import result_of
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from xdsl.dialects.builtin import (
    IntegerAttr,
    StringAttr,
    TensorType,
    UnitAttr,
    f32,
    f64,
    i32,
    i64,
)
from xdsl.ir import Block

from penstock.dialects.kernel.builder import kernel_body
from penstock.dialects.kernel.interface import (
    REFUSAL,
    SCHEDULE,
    StructuredOp,
    shape_of,
)
from penstock.dialects.kernel.reference import replace_by_loops
from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.schedules.cpu_window import WindowsAttr
from penstock.dialects.op.axes import int_list
from penstock.dialects.op.windows.convolution import Conv2dOp
from penstock.dialects.op.windows.pooling import AveragePool2dOp, MaxPool2dOp, PoolOp
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.lowering.analysis.access_bounds import unproven_accesses
from penstock.lowering.codegen.cpu.kernel_schedule import schedule_kernel
from penstock.lowering.codegen.target import kernel_source

Array: TypeAlias = NDArray[np.floating]


def operands(
    images: int,
    groups: int,
    times: int,
    image: tuple[int, int],
    taps: tuple[int, int],
    dtype: type[np.floating] = np.float32,
) -> list[Array]:
    """Random images, weights and a bias, of which sums are about 1."""
    random = np.random.default_rng([groups, *image, *taps])
    outputs = groups * times
    shapes = (images, groups, *image), (outputs, 1, *taps), (outputs,)
    scales = 1, np.prod(taps) ** -0.5, 1
    pairs = zip(shapes, scales, strict=True)
    return [random.normal(0, scale, shape).astype(dtype) for shape, scale in pairs]


def kernel_of(ins: list[Array], **properties: list[int]) -> KernelOp:
    """The kernel of such a convolution, with a bias if there is one."""
    element = f32 if ins[0].dtype == np.float32 else f64
    args = Block(arg_types=[TensorType(element, array.shape) for array in ins]).args
    numbers = {name: int_list(values) for name, values in properties.items()}
    groups = {"groups": IntegerAttr(ins[0].shape[1], i64)}
    return KernelOp("k", "cpu", kernel_body(Conv2dOp.inferred(args, numbers | groups)))


def expected(
    ins: list[Array],
    strides: tuple[int, int] = (1, 1),
    pads: tuple[int, int, int, int] = (0, 0, 0, 0),
    dilations: tuple[int, int] = (1, 1),
) -> Array:
    """The convolution in 64 bits."""
    x, w, *bias = (array.astype(np.float64) for array in ins)
    top, left, bottom, right = pads
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    spans = [(n - 1) * d + 1 for n, d in zip(w.shape[2:], dilations, strict=True)]
    view = sliding_window_view(x, spans, (2, 3))
    view = view[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]
    view = np.repeat(view, w.shape[0] // x.shape[1], 1)
    found = np.einsum("nchwij,cij->nchw", view, w[:, 0])
    return found + bias[0][:, None, None] if bias else found


@pytest.mark.parametrize("case", ["every second", "uneven pads", "taps apart"])
def test_the_meaning_and_the_loops_of_convolutions(case: str) -> None:
    sizes, strides, pads, dilations = CASES[case]
    ins = operands(*sizes)
    ins[0][0, 0, 2, 3], ins[0][0, 1, 1, 1] = np.nan, np.inf
    kernel = kernel_of(ins, strides=[*strides], pads=[*pads], dilations=[*dilations])
    op = stage_of(kernel)
    top, left, bottom, right = pads
    image = np.pad(ins[0], ((0, 0), (0, 0), (top, bottom), (left, right)))
    unset = np.zeros(shape_of(op.operands[2]), np.float32)
    given = [image, ins[1], unset, ins[2]]
    shapes = map(shape_of, op.operands)
    (found,) = op.evaluate(*(x.reshape(y) for x, y in zip(given, shapes, strict=True)))
    with np.errstate(invalid="ignore"):
        exact = expected(ins, strides, pads, dilations)
    whole = np.asarray(found, np.float32).reshape(exact.shape)
    np.testing.assert_allclose(whole, exact, 1e-5, 2e-6)
    replace_by_loops(op)
    assert not unproven_accesses(kernel)
    np.testing.assert_allclose(result_of(kernel, ins), exact, 1e-5, 2e-6)


def stage_of(kernel: KernelOp) -> StructuredOp:
    """The only stage of a kernel."""
    (stage,) = (op for op in kernel.body.block.ops if isinstance(op, StructuredOp))
    return stage


PoolCase: TypeAlias = tuple[
    tuple[int, int], tuple[int, int], tuple[int, int, int, int], bool
]
"""Taps, strides, pads, and whether the last windows may end behind the pads."""

Windows: TypeAlias = tuple[tuple[int, int], Array, int]

Case: TypeAlias = tuple[
    tuple[int, int, int, tuple[int, int], tuple[int, int]],
    tuple[int, int],
    tuple[int, int, int, int],
    tuple[int, int],
]

CASES: dict[str, Case] = {
    "inner tiles and ends": ((1, 2, 1, (26, 70), (3, 3)), (1, 1), (1, 1, 1, 1), (1, 1)),
    "one short line": ((2, 3, 1, (1, 9), (1, 5)), (1, 1), (0, 2, 0, 2), (1, 1)),
    "every second": ((1, 3, 1, (19, 75), (3, 3)), (2, 2), (1, 1, 1, 1), (1, 1)),
    "uneven pads": ((2, 2, 2, (9, 12), (3, 4)), (2, 1), (0, 3, 2, 1), (1, 1)),
    "taps apart": ((1, 4, 1, (14, 33), (3, 3)), (1, 1), (2, 2, 2, 2), (2, 2)),
    "apart, every second": ((1, 2, 1, (14, 41), (2, 3)), (1, 2), (1, 3, 0, 0), (3, 2)),
    "many taps, no pads": ((1, 2, 1, (12, 23), (5, 5)), (1, 1), (0, 0, 0, 0), (1, 1)),
    "7 x 7": ((1, 3, 1, (30, 50), (7, 7)), (1, 1), (3, 3, 3, 3), (1, 1)),
    "as large as the image": ((2, 3, 1, (7, 7), (7, 7)), (1, 1), (3, 3, 3, 3), (1, 1)),
    "13 x 13, every second": (
        (1, 2, 1, (9, 38), (13, 13)),
        (1, 2),
        (6, 6, 6, 6),
        (1, 1),
    ),
    "7 x 7, apart": ((1, 2, 1, (21, 19), (7, 7)), (1, 1), (9, 9, 9, 9), (3, 3)),
    "beyond the image": ((1, 2, 1, (5, 6), (3, 3)), (1, 1), (7, 7, 7, 7), (7, 7)),
    "three apart": ((2, 2, 2, (13, 60), (5, 4)), (3, 3), (2, 1, 0, 3), (1, 2)),
    "four apart, in one line": (
        (1, 2, 1, (3, 99), (1, 18)),
        (1, 4),
        (0, 4, 0, 9),
        (1, 1),
    ),
    "lines of several vectors": (
        (2, 2, 1, (2, 150), (1, 9)),
        (1, 1),
        (0, 4, 0, 4),
        (1, 1),
    ),
    "taps apart in a line": (
        (1, 2, 1, (1, 190), (1, 5)),
        (1, 2),
        (0, 40, 0, 9),
        (1, 19),
    ),
    "lines of windows in a loop": (
        (1, 2, 2, (19, 37), (15, 9)),
        (1, 1),
        (7, 4, 9, 4),
        (1, 1),
    ),
    "in a loop, all apart": (
        (2, 2, 1, (23, 40), (13, 10)),
        (2, 3),
        (30, 3, 6, 20),
        (3, 2),
    ),
    "in a loop, all inside": (
        (1, 2, 1, (20, 24), (12, 11)),
        (3, 2),
        (0, 0, 0, 0),
        (1, 1),
    ),
    "only pads at an end": ((1, 2, 1, (5, 6), (3, 3)), (1, 1), (2, 2, 2, 2), (1, 1)),
}


@pytest.mark.parametrize("case", CASES)
def test_windows_of_all_kinds(case: str) -> None:
    sizes, strides, pads, dilations = CASES[case]
    ins = operands(*sizes)
    kernel = kernel_of(ins, strides=[*strides], pads=[*pads], dilations=[*dilations])
    schedule_kernel(kernel, 64)
    assert "depthwise_micro_kernel" in kernel_source(kernel)
    found = result_of(kernel, ins, parts=3)
    exact = expected(ins, strides, pads, dilations)
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=2e-6)


def pool_of(
    x: NDArray[np.number],
    op: type[PoolOp],
    vector_bytes: int,
    **properties: list[int] | bool,
) -> KernelOp:
    """The kernel of a pool, with a schedule if there is one."""
    element = {"f": f32, "d": f64, "i": i32}[x.dtype.char]
    (arg,) = Block(arg_types=[TensorType(element, x.shape)]).args
    numbers = {
        name: int_list(values) if isinstance(values, list) else UnitAttr()
        for name, values in properties.items()
        if values is not False
    }
    kernel = KernelOp("k", "cpu", kernel_body(op.inferred([arg], numbers)))
    schedule_kernel(kernel, vector_bytes)
    return kernel


def windows_on(x: Array, kernel: KernelOp, pool: PoolCase) -> Iterator[Windows]:
    """Each window of planes, with the elements inside, and inside of pads, too."""
    taps, strides, (top, left, bottom, right), _ = pool
    height, width = x.shape[2:]
    rows, columns = kernel.arguments[-1].get_shape()[2:]
    for row, column in np.ndindex(rows, columns):
        first = row * strides[0] - top, column * strides[1] - left
        last = first[0] + taps[0], first[1] + taps[1]
        down = min(last[0], height + bottom) - first[0]
        across = min(last[1], width + right) - first[1]
        down_inside = slice(max(0, first[0]), min(height, last[0]))
        across_inside = slice(max(0, first[1]), min(width, last[1]))
        yield (row, column), x[..., down_inside, across_inside], down * across


POOLS: dict[str, tuple[tuple[int, int], PoolCase]] = {
    "next to each other": ((26, 70), ((3, 3), (1, 1), (1, 1, 1, 1), False)),
    "every second": ((19, 75), ((3, 3), (2, 2), (0, 0, 1, 1), False)),
    "short lines": ((7, 7), ((3, 3), (1, 1), (1, 1, 1, 1), False)),
    "short, every second": ((14, 15), ((3, 3), (2, 2), (0, 0, 0, 0), True)),
    "uneven": ((9, 21), ((3, 3), (3, 2), (2, 1, 0, 2), False)),
    "uneven windows": ((11, 18), ((2, 5), (1, 3), (1, 4, 0, 2), True)),
    "many taps": ((6, 9), ((5, 7), (1, 1), (2, 3, 2, 3), False)),
    "one window": ((5, 6), ((5, 6), (1, 1), (0, 0, 0, 0), False)),
    "long lines": ((5, 300), ((3, 2), (1, 2), (1, 0, 1, 1), True)),
}


@pytest.mark.parametrize("case", POOLS)
def test_the_largest_elements_of_windows(case: str) -> None:
    image, pool = POOLS[case]
    x = -abs(operands(2, 3, 1, image, (1, 1))[0])
    x[0, 1, 3, 4], x[1, 2, -1, -1], x[1, 0, 2] = np.nan, -np.inf, -np.inf
    taps, strides, pads, ceil = pool
    kernel = pool_of(
        x,
        MaxPool2dOp,
        64,
        kernel=[*taps],
        strides=[*strides],
        pads=[*pads],
        ceil_mode=ceil,
    )
    assert "pooling_micro_kernel" in kernel_source(kernel)
    found = result_of(kernel, [x], parts=2)
    for place, elements, _ in windows_on(x, kernel, pool):
        np.testing.assert_array_equal(found[..., *place], elements.max((2, 3)))


def test_the_largest_elements_of_taps_apart() -> None:
    (x,) = operands(2, 3, 1, (9, 40), (1, 1))[:1]
    pads = {"pads": [1, 2, 1, 2], "dilations": [2, 3], "strides": [2, 1]}
    kernel = pool_of(x, MaxPool2dOp, 64, kernel=[2, 4], **pads)
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (2, 2)), constant_values=-np.inf)
    view = sliding_window_view(padded, (3, 10), (2, 3))[:, :, ::2, :, ::2, ::3]
    np.testing.assert_array_equal(result_of(kernel, [x]), view.max((4, 5)))


def test_where_all_taps_are_padding_the_largest_element_is_the_lowest_number() -> None:
    x = np.ones((1, 2, 1, 5), np.float32)
    far = {"kernel": [2, 1], "dilations": [2, 1], "pads": [1, 0, 1, 0]}
    kernel = pool_of(x, MaxPool2dOp, 64, **far)
    np.testing.assert_array_equal(result_of(kernel, [x]), np.full_like(x, -np.inf))


def test_a_nan_anywhere_is_the_largest_element() -> None:
    x = np.zeros((63, 1, 7, 9), np.float32)
    x.reshape(63, 63)[range(63), range(63)] = np.nan
    kernel = pool_of(x, MaxPool2dOp, 64, kernel=[3, 2], pads=[1, 0, 1, 1])
    found = result_of(kernel, [x])
    pool = (3, 2), (1, 1), (1, 0, 1, 1), False
    for place, elements, _ in windows_on(x, kernel, pool):
        np.testing.assert_array_equal(found[..., *place], elements.max((2, 3)))


@pytest.mark.parametrize("case", POOLS)
@pytest.mark.parametrize("include", [False, True])
def test_the_means_of_windows(case: str, include: bool) -> None:
    image, pool = POOLS[case]
    (x,) = operands(2, 3, 1, image, (1, 1), np.float64 if include else np.float32)[:1]
    taps, strides, pads, ceil = pool
    kernel = pool_of(
        x,
        AveragePool2dOp,
        32 if include else 64,
        kernel=[*taps],
        strides=[*strides],
        pads=[*pads],
        ceil_mode=ceil,
        count_include_pad=include,
    )
    assert "counted=" in kernel_source(kernel)
    found = result_of(kernel, [x], parts=2)
    tolerance = 1e-14 if include else 1e-6
    for place, elements, count in windows_on(x, kernel, pool):
        if not include:
            count = elements[0, 0].size
        exact = elements.astype(np.float64).sum((2, 3)) / count
        np.testing.assert_allclose(
            found[..., *place], exact, rtol=tolerance, atol=tolerance
        )


def test_means_are_divided_as_a_division_rounds() -> None:
    random = fresh()
    powers = random.integers(-100, 100, (1, 40, 7, 9)).astype(np.float32)
    x = random.normal(size=powers.shape).astype(np.float32) * np.exp2(powers)
    x[0, 0, 0, 0], x[0, 1, 3, 4], x[0, 2, 6, 8] = np.inf, -np.inf, np.nan
    kernel = pool_of(x, AveragePool2dOp, 64, kernel=[3, 1], strides=[3, 1])
    sums = x[:, :, 0:6:3] + x[:, :, 1:7:3] + x[:, :, 2:7:3]
    np.testing.assert_array_equal(result_of(kernel, [x]), sums / np.float32(3))


@pytest.mark.parametrize("lanes", [4, 8])
def test_64_bits_narrow_vectors_and_no_bias(lanes: int) -> None:
    ins = operands(2, 3, 1, (10, 21), (3, 3), np.float64)[:2]
    kernel = kernel_of(ins, pads=[1] * 4)
    stage = stage_of(kernel)
    stage.attributes[SCHEDULE] = WindowsAttr(lanes, 3)
    found = result_of(kernel, ins)
    exact = expected(ins, pads=(1, 1, 1, 1))
    np.testing.assert_allclose(found, exact, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("size", [3, 13])
def test_zeros_outside_of_an_image_are_multiplied_too(size: int) -> None:
    ins = operands(1, 3, 1, (size + 1, 19), (size, size))
    ins[1][0, 0, 0, 0], ins[1][1, 0, -1, 1] = np.inf, np.nan
    half = size // 2
    pads = half, half, half, half
    kernel = kernel_of(ins, pads=[*pads])
    schedule_kernel(kernel, 64)
    with np.errstate(invalid="ignore"):
        exact = expected(ins, pads=pads)
    np.testing.assert_array_equal(np.isnan(result_of(kernel, ins)), np.isnan(exact))


def schedule_of(
    image: tuple[int, int], taps: tuple[int, int], **properties: list[int]
) -> WindowsAttr:
    """The schedule of a convolution of two channels."""
    kernel = kernel_of(operands(1, 2, 1, image, taps), **properties)
    schedule_kernel(kernel, 64)
    schedule = stage_of(kernel).attributes[SCHEDULE]
    assert isinstance(schedule, WindowsAttr)
    return schedule


def test_windows_of_one_line_have_tiles_of_several_vectors() -> None:
    assert schedule_of((1, 512), (1, 7)) == WindowsAttr(16, 1, vectors=8)
    assert schedule_of((28, 34), (1, 7)) == WindowsAttr(16, 4, vectors=2)
    assert schedule_of((1, 400), (1, 190)) == WindowsAttr(16, 1, vectors=2)


def test_lines_of_large_windows_are_in_a_loop() -> None:
    looped = WindowsAttr(16, 1, vectors=2, looped=True)
    assert schedule_of((40, 40), (13, 13)) == looped
    assert schedule_of((40, 40), (11, 11)) == WindowsAttr(16, 3)


def test_pools_have_no_tiles_of_products() -> None:
    kernel = pool_of(np.zeros((1, 2, 4, 9), np.float32), MaxPool2dOp, 64, kernel=[2, 2])
    stage_of(kernel).attributes[SCHEDULE] = WindowsAttr(16, 1, vectors=2)
    with pytest.raises(LocatedPassFailure, match="a pool has tiles of whole lines"):
        kernel_source(kernel)


@pytest.mark.parametrize(
    ("columns", "vector_bytes", "lanes"),
    [(7, 64, 8), (9, 64, 16), (6, 32, 8), (7, 16, 4)],
)
def test_vectors_are_no_longer_than_lines(
    columns: int, vector_bytes: int, lanes: int
) -> None:
    kernel = kernel_of(operands(1, 2, 1, (13, columns), (3, 3)), pads=[1] * 4)
    schedule_kernel(kernel, vector_bytes)
    stage = stage_of(kernel)
    assert stage.attributes[SCHEDULE] == WindowsAttr(lanes, 7)


def refusal_of(kernel: KernelOp) -> str:
    """Why the only stage of a kernel has no schedule."""
    stage = stage_of(kernel)
    assert SCHEDULE not in stage.attributes
    assert "strip" not in kernel_source(kernel)
    why = stage.attributes[REFUSAL]
    assert isinstance(why, StringAttr)
    return why.data


def test_what_vectors_do_not_compute_stays_loops() -> None:
    ins = operands(1, 2, 1, (16, 30), (3, 3))
    kernel = kernel_of(ins, strides=[9, 5], pads=[1] * 4)
    schedule_kernel(kernel, 64)
    assert refusal_of(kernel) == "windows 5 apart are not multiplied in vectors"
    kernel = pool_of(
        np.zeros((1, 1, 4, 999), np.float32),
        MaxPool2dOp,
        64,
        kernel=[2, 2],
        strides=[1, 7],
    )
    why = "a line of windows of 2 x 2 taps, 7 apart, is too much for a tile"
    assert refusal_of(kernel) == why
    integers = np.zeros((1, 1, 4, 9), np.int32)
    kernel = pool_of(integers, MaxPool2dOp, 64, kernel=[2, 2])
    assert refusal_of(kernel) == "windows of i32 are not computed in vectors"


def test_a_schedule_needs_elements_that_vectors_compute() -> None:
    integers = np.zeros((1, 1, 4, 9), np.int32)
    kernel = pool_of(integers, MaxPool2dOp, 64, kernel=[2, 2])
    stage = stage_of(kernel)
    stage.attributes[SCHEDULE] = WindowsAttr(16, 1)
    with pytest.raises(LocatedPassFailure, match="windows of i32 are not computed in"):
        kernel_source(kernel)
