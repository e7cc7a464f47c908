"""Copies of arrays that are not contiguous."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import pytest
from draws import fresh
from numpy.typing import NDArray

from penstock.runtime.loading import contiguous as module
from penstock.runtime.loading.contiguous import contiguous, joined_axes

Array: TypeAlias = NDArray[Any]


def drawn(shape: Sequence[int], kind: str) -> Array:
    """Elements of random bytes, which all have to arrive as they are."""
    dtype = np.dtype(kind)
    data = fresh().bytes(int(np.prod(shape)) * dtype.itemsize)
    return np.frombuffer(data, dtype).reshape(shape)


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels of copies, `numpy` for one without."""
    found: list[str] = []
    compile, copy_of = module.compile_cpu, module.copy_of.__wrapped__

    def named(source: str, name: str) -> object:
        found[-1] = "squares" if "transposition(" in source else "lines"
        return compile(source, name)

    def noted(shape: Sequence[int], strides: Sequence[int], size: int) -> Any:
        found.append("numpy")
        return copy_of(shape, strides, size)

    monkeypatch.setattr(module, "compile_cpu", named)
    monkeypatch.setattr(module, "copy_of", noted)
    return found


def check(array: Array) -> None:
    copy = contiguous(array)
    assert copy.flags.c_contiguous
    assert (copy.shape, copy.dtype) == (array.shape, array.dtype)
    assert copy.tobytes() == array.tobytes()


@pytest.mark.parametrize("kind", ["i1", "f4"])
def test_axes_in_any_order_are_copied_by_squares(kind: str, kernels: list[str]) -> None:
    random = fresh()
    rows, columns = (int(x) for x in random.integers(260, 300, 2))
    batch, height = int(random.integers(2, 4)), 9
    check(drawn((rows, columns), kind)[::-1].T)
    check(drawn((batch, rows, columns), kind)[:, 1:, 2:-3].transpose(0, 2, 1))
    check(drawn((batch, height, rows, columns), kind)[::2].transpose(0, 3, 1, 2))
    check(drawn((batch, rows, 1, columns), kind).transpose(3, 2, 0, 1))
    assert kernels == ["squares"] * 4


@pytest.mark.parametrize(("kind", "step"), [("i1", 7), ("f4", 2)])
def test_elements_apart_are_copied_by_lines(
    kind: str, step: int, kernels: list[str]
) -> None:
    random = fresh()
    rows, columns = (int(x) for x in random.integers(260, 300, 2))
    # Of the last row nothing follows the last element.
    row = step * (columns - 1) + 1
    check(drawn((rows, row), kind)[:, ::step])
    check(drawn((rows * row,), kind)[::step])
    check(drawn((2, rows, 3, row), kind)[:, ::-1, 1:, ::step])
    check(drawn((rows, columns, step), kind).transpose(2, 0, 1))
    assert kernels == ["lines"] * 4


@pytest.mark.parametrize(
    "array",
    [
        drawn((300, 200), "f4")[:, ::2].T,
        drawn((300, 1000), "f4")[:, ::5],
        drawn((300, 200), "f4")[:, ::-1],
        drawn((300, 200), "f4")[:, 1:],
        np.broadcast_to(drawn((300, 1), "f4"), (300, 200)),
        drawn((4000, 3, 8), "f8").transpose(1, 0, 2),
        drawn((3, 20000), "f4").T,
        drawn((200, 200), "c16").T,
        drawn((10, 10), "f4").T,
        drawn((200, 401), "i1").reshape(-1)[1:80001].view("f4").reshape(100, 200).T,
        drawn((), "f4"),
        drawn((0, 70000), "f4").T,
    ],
)
def test_other_arrays_are_copied_by_numpy(array: Array, kernels: list[str]) -> None:
    check(array)
    assert not {*kernels} - {"numpy"}


def test_a_contiguous_array_is_not_copied() -> None:
    array = drawn((200, 200), "f4")
    assert contiguous(array) is array


def test_axes_that_one_step_leads_along_are_one() -> None:
    def joined(array: Array) -> Sequence[tuple[int, int]]:
        return joined_axes(array.shape, array.strides)

    array = drawn((2, 3, 5, 1, 7), "f4")
    assert joined(array) == [(210, 4)]
    assert joined(array.transpose(0, 4, 1, 2, 3)) == [(2, 420), (7, 4), (15, 28)]
