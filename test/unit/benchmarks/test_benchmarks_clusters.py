"""The benchmark of plans for clusters, on a transformer of a few numbers."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

# Ahead of site-packages, where another package of the name `benchmarks` lies.
sys.path.insert(0, str(Path(__file__).parents[3]))

from benchmarks.clusters import Transformer, found_of, passes_of, rows_of


@pytest.mark.slow
def test_a_transformer_of_two_stages_is_planned_and_predicted():
    found = found_of(Transformer(2, 2, 2, width=64, heads=4, tokens=16))
    assert found.iteration_ns > 0
    assert found.tasks > 2 * 2 * 40
    names = {row[0] for row in passes_of(found)}
    assert {"plan-order-tasks", "regst-plan-memory", "verify-plan"} <= names
    twice = replace(found, tasks=2 * found.tasks, plan=2 * found.plan)
    _, row = rows_of([found, twice])
    assert row[0] == "2 layers, 4 devices"
    assert (row[3], row[5]) == ("1.00", "0.00")
