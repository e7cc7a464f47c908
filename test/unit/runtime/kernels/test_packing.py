"""Panels on the stack of a kernel: rows and columns in the order of micro-kernels."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

from penstock.runtime.jit.cpu import compile_cpu

SOURCE = """
from penstock.runtime.kernels.cpu.support import buffer_f32, c_kernel
from penstock.runtime.kernels.cpu.matmul.packing import pack_rows
from penstock.runtime.kernels.cpu.matmul.tile import address_of

rows = pack_rows("f32", {tile}, {lanes}, a={steps}, rest={rest})


@c_kernel
def kernel(args, part, parts):
    a = buffer_f32(args, 0, 1)
    panels = buffer_f32(args, 1, 1)
    rows(address_of(a), address_of(panels), {height}, {depth})
    return 0
"""
HEIGHT, DEPTH = 59, 21


@pytest.mark.parametrize("lanes", [4, 16])
@pytest.mark.parametrize(
    "steps", [(1, 61), (23, 1), (44, 2)], ids=["rows", "terms", "neither"]
)
@pytest.mark.parametrize("tile", [1, 6, 14])
def test_rows_lie_in_panels_tile_by_tile(
    tile: int, steps: tuple[int, int], lanes: int
) -> None:
    random = np.random.default_rng(tile)
    memory = random.normal(size=HEIGHT * 61).astype(np.float32)
    bytes_apart = (steps[0] * 4, steps[1] * 4)
    a = as_strided(memory, (HEIGHT, DEPTH), bytes_apart)
    panels = np.full(HEIGHT * DEPTH + 64, -1, np.float32)
    facts = {"tile": tile, "lanes": lanes, "rest": HEIGHT % tile}
    text = SOURCE.format(steps=steps, height=HEIGHT, depth=DEPTH, **facts)
    row = np.array([memory.ctypes.data, panels.ctypes.data], np.int64)
    assert compile_cpu(text, "kernel")(row.ctypes.data) == 0

    wanted = [a[first : first + tile].T.ravel() for first in range(0, HEIGHT, tile)]
    np.testing.assert_array_equal(panels[:-64], np.concatenate(wanted))
    np.testing.assert_array_equal(panels[-64:], -1)
