"""The benchmark of predictions, with rates and times that are made up."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks.predictions import Compared, Rates, placed, predicted

FLOPS = {
    "data_parallel": 2 * 256 * 1024 * (2 * 512 + 3 * 128),
    "pipeline": 4 * 2 * 128 * 512 * 512 * 11,
}
"""
Those of all products of matrices: of each weight one in the forward pass, one for its
gradient, and but for the first one for that of what it is multiplied with.
"""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "ranks"), [("data_parallel", 2), ("pipeline", 4)])
def test_an_example_is_predicted_and_compared(name: str, ranks: int) -> None:
    rates = Rates(
        gflops=10.0, gbytes=10.0, task_ns=1e3, link_gbytes=2.0, latency_ns=5e3
    )
    found = predicted(placed(name, ranks), rates.cluster(ranks))
    assert len(found.devices) == ranks
    flops = sum(device.flops for device in found.devices)
    assert FLOPS[name] < flops < 1.1 * FLOPS[name]
    # The real run took twice as long.
    seconds = 2 * found.first / 1e9
    row = Compared(name, ranks, found, seconds, gflops=10.0)
    assert row.ratio == pytest.approx(0.5)
    computes = flops / 10 / ranks / (2 * found.first)
    assert row.waits == pytest.approx(1 - computes)
    assert row.row[0] == f"{name}, {ranks} ranks"
    assert row.row[3] == "0.50"
