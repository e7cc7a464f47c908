"""Bytes alive at each step, counted step by step by NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.lowering.algorithms.occupancy import Occupancy

STEPS = 9


@pytest.mark.parametrize("seed", range(20))
def test_bytes_alive_are_those_counted_step_by_step(seed: int):
    rng = np.random.default_rng(seed)
    spans = np.sort(rng.integers(0, STEPS, (int(rng.integers(0, 8)), 2)))
    rows = [(a, b, int(rng.integers(0, 5))) for a, b in spans.tolist()]
    counted = np.zeros(STEPS, np.int64)
    for first, last, size in rows:
        counted[first : last + 1] += size
    found = Occupancy(rows)
    assert found.of_steps(range(STEPS)) == counted.tolist()
    assert (found.most, found.peak) == (counted.max(), counted.argmax())
    alive = [i for i, (a, b, _) in enumerate(rows) if a <= found.peak <= b]
    assert sorted(found.owners) == alive
    sizes = [rows[i][2] for i in found.owners]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == found.most
