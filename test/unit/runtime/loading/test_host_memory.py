"""Chunks of the memory of the host."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.runtime.errors import PenstockError
from penstock.runtime.loading.memory import HUGE_PAGE, PAGE, HostChunk, host_bytes


@pytest.mark.parametrize(
    ("size", "page"),
    [(1, PAGE), (HUGE_PAGE // 2 - 1, PAGE), (HUGE_PAGE // 2, HUGE_PAGE)],
)
def test_chunks_begin_at_pages_and_are_zeros(size: int, page: int) -> None:
    chunk = HostChunk(size)
    assert chunk.address % page == 0
    assert not chunk.read(0, size).any()


def test_what_is_written_is_in_the_memory_at_the_address() -> None:
    chunk = HostChunk(3 * PAGE)
    numbers = np.random.default_rng(2).normal(size=(7, 5))
    chunk.write(PAGE, numbers)
    found = host_bytes(chunk.address + PAGE, numbers.nbytes)
    np.testing.assert_array_equal(found.view(np.float64).reshape(7, 5), numbers)
    np.testing.assert_array_equal(chunk.read(PAGE, numbers.nbytes), found)
    assert not chunk.read(PAGE + numbers.nbytes, PAGE).any()


def test_more_memory_than_there_is() -> None:
    with pytest.raises(PenstockError, match=f"there is no memory for {1 << 60} bytes"):
        HostChunk(1 << 60)
