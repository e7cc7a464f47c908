"""Numbers of `f16` on a processor without instructions that convert them."""

# llvmlite and most of numba carry no types.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from penstock.runtime.kernels.cpu import halves, support
from penstock.runtime.kernels.cpu.vector_loop import InnerLoopLanes, line
from penstock.runtime.kernels.cpu_features import Processor

Halves: TypeAlias = NDArray[np.float16]
Floats: TypeAlias = NDArray[np.float32]
Run: TypeAlias = Callable[[NDArray[Any], NDArray[Any]], None]

ALL = np.arange(1 << 16).astype(np.uint16).view(np.float16)
buffer_f16: Any = support.buffer_f16
buffer_f32: Any = support.buffer_f32
round_f16: Any = support.round_f16


@pytest.fixture(autouse=True)
def without_instructions(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Processor(frozenset({"sse2"}))
    monkeypatch.setattr(halves, "processor_here", lambda: plain)


def same(got: NDArray[Any], wanted: NDArray[Any]) -> None:
    """Check that all bits are equal, but for those of NaNs, which keep their sign."""
    nan = np.isnan(wanted)
    np.testing.assert_array_equal(np.isnan(got), nan)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))
    word = f"u{got.itemsize}"
    np.testing.assert_array_equal(got.view(word)[~nan], wanted.view(word)[~nan])


def between() -> Floats:
    """
    The middles between neighbours, the numbers next to them, and those past
    the largest; numbers of `f32` of all exponents; infinities and NaNs of any bits.
    """
    exact = np.unique(ALL[np.isfinite(ALL)].astype(np.float64))
    middle = ((exact[1:] + exact[:-1]) / 2).astype(np.float32)
    near = [np.nextafter(middle, np.float32(end)) for end in (-np.inf, np.inf)]
    ends = np.array([65519, 65520, 65536, 3e38, np.inf, 1e-45, 0], np.float32)
    bits = np.random.default_rng(11).integers(0, 1 << 32, 20_000, np.uint32)
    nans = np.array([0x7F800001, 0x7FFFFFFF, 0xFF801FFF, 0xFFC00000], np.uint32)
    parts = [ALL.astype(np.float32), middle, *near, ends, -ends]
    return np.concatenate([*parts, bits.view(np.float32), nans.view(np.float32)])


def with_addresses(run: Callable[..., None]) -> Run:
    def called(a: NDArray[Any], out: NDArray[Any]) -> None:
        run(np.array([a.ctypes.data, out.ctypes.data]), a.size)

    return called


def numbers_widened() -> Run:
    @njit
    def run(row: Any, count: int) -> None:
        a, out = buffer_f16(row.ctypes.data, 0, 2), buffer_f32(row.ctypes.data, 1, 2)
        for i in range(count):
            out[i] = a[i]

    return with_addresses(run)


def numbers_rounded() -> Run:
    @njit
    def run(row: Any, count: int) -> None:
        a, out = buffer_f32(row.ctypes.data, 0, 2), buffer_f16(row.ctypes.data, 1, 2)
        for i in range(count):
            out[i] = round_f16(a[i])

    return with_addresses(run)


def same_lanes(lanes: InnerLoopLanes, a: Any) -> Any:
    return [a], ()


def rounded_lanes(lanes: InnerLoopLanes, a: Any) -> Any:
    return [lanes.round_f16(a)], ()


def lines_of(body: Callable[..., Any], *memory: str) -> Run:
    convert: Any = line("f32", None, body, 1, 1, memory=memory)

    @njit
    def run(row: Any, count: int) -> None:
        convert((row[0], row[1], count))

    return with_addresses(run)


@pytest.mark.parametrize(
    "make", [numbers_widened, lambda: lines_of(same_lanes, "f16", "f32")]
)
def test_all_numbers_are_widened(make: Callable[[], Run]) -> None:
    out = np.full(ALL.size, 7, np.float32)
    make()(ALL, out)
    same(out, ALL.astype(np.float32))


@pytest.mark.parametrize(
    "make", [numbers_rounded, lambda: lines_of(rounded_lanes, "f32", "f16")]
)
def test_numbers_are_rounded_to_the_nearest_of_two_to_the_even_one(
    make: Callable[[], Run],
) -> None:
    a = between()
    out = np.full(a.size, 7, np.float16)
    make()(a, out)
    with np.errstate(over="ignore", invalid="ignore"):
        same(out, a.astype(np.float16))
