"""Convolutions of channels on their own, in vectors along lines, against NumPy."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, TensorType, UnitAttr, f32, f64, i64
from xdsl.ir import Block

from penstock.dialects.diagnostics import LocatedPassFailure
from penstock.dialects.kernel import kernel_body
from penstock.dialects.launch import KernelOp
from penstock.dialects.launch.depthwise import DepthwiseAttr
from penstock.dialects.launch.schedule import SCHEDULE
from penstock.dialects.op.axes import int_list
from penstock.dialects.op.convolution import Conv2dOp
from penstock.dialects.op.pooling import MaxPool2dOp
from penstock.dialects.op.windows import WINDOWS
from penstock.lowering.launch_schedule_contractions import schedule_kernel
from penstock.lowering.numba_target import kernel_source
from penstock.runtime.jit import compile_cpu

Array: TypeAlias = NDArray[np.floating]
GUARD = 7.5


def operands(
    images: int,
    groups: int,
    times: int,
    image: tuple[int, int],
    taps: tuple[int, int],
    dtype: type[np.floating] = np.float32,
) -> list[Array]:
    """Random images, weights and a bias."""
    random = np.random.default_rng([groups, *image, *taps])
    outputs = groups * times
    shapes = (images, groups, *image), (outputs, 1, *taps), (outputs,)
    return [random.normal(size=shape).astype(dtype) for shape in shapes]


def kernel_of(ins: list[Array], **properties: list[int]) -> KernelOp:
    """The kernel of such a convolution, with a bias if there is one."""
    element = f32 if ins[0].dtype == np.float32 else f64
    args = Block(arg_types=[TensorType(element, array.shape) for array in ins]).args
    numbers = {name: int_list(values) for name, values in properties.items()}
    groups = {"groups": IntegerAttr(ins[0].shape[1], i64)}
    return KernelOp("k", "cpu", kernel_body(Conv2dOp.inferred(args, numbers | groups)))


def run(kernel: KernelOp, ins: list[Array], parts: int = 1) -> Array:
    """What a kernel makes of operands that have NaN around them; parts in any order."""
    compiled = compile_cpu(kernel_source(kernel), "k")
    shape = kernel.arguments[-1].get_shape()
    arrays = [*ins, np.empty(shape, ins[0].dtype)]
    wholes = [np.full(array.size + 128, np.nan, array.dtype) for array in arrays]
    for array, whole in zip(arrays, wholes, strict=True):
        whole[64:-64] = array.ravel()
    wholes[-1][...] = GUARD
    row = np.array([whole[64:].ctypes.data for whole in wholes], np.int64)
    for part in reversed(range(parts)):
        assert compiled(row.ctypes.data, part, parts) == 0
    assert (wholes[-1][:64] == GUARD).all()
    assert (wholes[-1][-64:] == GUARD).all()
    return wholes[-1][64:-64].reshape(shape)


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
    "only pads at an end": ((1, 2, 1, (5, 6), (3, 3)), (1, 1), (2, 2, 2, 2), (1, 1)),
}


@pytest.mark.parametrize("case", CASES)
def test_windows_of_all_kinds(case: str) -> None:
    sizes, strides, pads, dilations = CASES[case]
    ins = operands(*sizes)
    kernel = kernel_of(ins, strides=[*strides], pads=[*pads], dilations=[*dilations])
    schedule_kernel(kernel, 64)
    assert "depthwise_strip" in kernel_source(kernel)
    found = run(kernel, ins, parts=3)
    exact = expected(ins, strides, pads, dilations)
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=2e-6)


POOLS: dict[str, tuple[tuple[int, int], tuple[int, int], tuple[int, int, int, int]]] = {
    "next to each other": ((26, 70), (1, 1), (1, 1, 1, 1)),
    "every second": ((19, 75), (2, 2), (0, 0, 1, 1)),
    "short lines": ((7, 7), (1, 1), (1, 1, 1, 1)),
    "uneven": ((9, 21), (3, 2), (2, 1, 0, 2)),
}


@pytest.mark.parametrize("case", POOLS)
def test_the_largest_elements_of_windows(case: str) -> None:
    image, strides, pads = POOLS[case]
    x = -abs(operands(2, 3, 1, image, (1, 1))[0])
    x[0, 1, 3, 4], x[1, 2, -1, -1] = np.nan, -np.inf
    (arg,) = Block(arg_types=[TensorType(f32, x.shape)]).args
    numbers = {"kernel": [3, 3], "strides": [*strides], "pads": [*pads]}
    properties = {name: int_list(values) for name, values in numbers.items()}
    op = MaxPool2dOp.inferred([arg], properties)
    kernel = KernelOp("k", "cpu", kernel_body(op))
    schedule_kernel(kernel, 64)
    assert "pool=True" in kernel_source(kernel)
    top, left, bottom, right = pads
    padded = np.pad(
        x, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=-np.inf
    )
    view = sliding_window_view(padded, (3, 3), (2, 3))
    exact = view[:, :, :: strides[0], :: strides[1]].max((4, 5))
    np.testing.assert_array_equal(run(kernel, [x], parts=2), exact)


@pytest.mark.parametrize("lanes", [4, 8])
def test_64_bits_narrow_vectors_and_no_bias(lanes: int) -> None:
    ins = operands(2, 3, 1, (10, 21), (3, 3), np.float64)[:2]
    kernel = kernel_of(ins, pads=[1] * 4)
    (phase,) = (op for op in kernel.walk() if isinstance(op, scf.ParallelOp))
    phase.attributes[SCHEDULE] = DepthwiseAttr(lanes, 3)
    found = run(kernel, ins)
    exact = expected(ins, pads=(1, 1, 1, 1))
    np.testing.assert_allclose(found, exact, rtol=1e-13, atol=1e-14)


def test_zeros_outside_of_an_image_are_multiplied_too() -> None:
    ins = operands(1, 2, 1, (4, 9), (3, 3))
    ins[1][0, 0, 0, 0] = np.inf
    kernel = kernel_of(ins, pads=[1] * 4)
    schedule_kernel(kernel, 64)
    with np.errstate(invalid="ignore"):
        exact = expected(ins, pads=(1, 1, 1, 1))
    np.testing.assert_array_equal(np.isnan(run(kernel, ins)), np.isnan(exact))


@pytest.mark.parametrize(
    ("columns", "vector_bytes", "lanes"),
    [(7, 64, 8), (9, 64, 16), (6, 32, 8), (7, 16, 4)],
)
def test_vectors_are_no_longer_than_lines(
    columns: int, vector_bytes: int, lanes: int
) -> None:
    kernel = kernel_of(operands(1, 2, 1, (13, columns), (3, 3)), pads=[1] * 4)
    schedule_kernel(kernel, vector_bytes)
    (phase,) = (op for op in kernel.walk() if isinstance(op, scf.ParallelOp))
    assert phase.attributes[SCHEDULE] == DepthwiseAttr(lanes, 7)


@pytest.mark.parametrize("change", ["stride", "taps"])
def test_what_vectors_do_not_compute_stays_loops(change: str) -> None:
    taps = (15, 15) if change == "taps" else (3, 3)
    ins = operands(1, 2, 1, (16, 30), taps)
    kernel = kernel_of(ins, strides=[1, 3 if change == "stride" else 1], pads=[1] * 4)
    schedule_kernel(kernel, 64)
    (phase,) = (op for op in kernel.walk() if isinstance(op, scf.ParallelOp))
    assert SCHEDULE not in phase.attributes
    assert "depthwise_strip" not in kernel_source(kernel)


def test_a_schedule_needs_windows() -> None:
    kernel = kernel_of(operands(1, 2, 1, (4, 9), (3, 3)), pads=[1] * 4)
    schedule_kernel(kernel, 64)
    (phase,) = (op for op in kernel.walk() if isinstance(op, scf.ParallelOp))
    phase.attributes[WINDOWS] = UnitAttr()
    with pytest.raises(LocatedPassFailure, match="does not say windows, which #launch"):
        kernel_source(kernel)
