"""Loops that ask for slots go on while what they made is read."""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pytest
from draws import fresh

from penstock.runtime.executors.simulator import Simulation
from penstock.tools.session.session import Session

Array: TypeAlias = npt.NDArray[Any]

JOB = """
job.job @sums placement <cpu, [0:0]> {
  %x = job.input "x" {slots = 4 : i64} : tensor<4x4xi64>
  %w = job.input "w" {slots = 4 : i64} : tensor<4x4xi64>
  %h, %s = op.loop 3 carries(%x : tensor<4x4xi64>) reads(%w : tensor<4x4xi64>)
      -> tensor<4x4xi64>, tensor<3x4x4xi64> attributes {SLOTSplacement = PLACE} {
  ^bb0(%i: tensor<i64>, %a: tensor<4x4xi64>, %b: tensor<4x4xi64>):
    %p = op.matmul %a, %b : tensor<4x4xi64>, tensor<4x4xi64> -> tensor<4x4xi64>
    %q = op.sub %p, %i : tensor<4x4xi64>, tensor<i64> -> tensor<4x4xi64>
    op.yield %q, %p : tensor<4x4xi64>, tensor<4x4xi64>
  }
  %t = op.reduce_sum %s axes [0] {placement = #job.placement<cpu, [0:2]>}
    : tensor<3x4x4xi64> -> tensor<4x4xi64>
  %y = op.mul %h, %t {placement = #job.placement<cpu, [0:2]>}
    : tensor<4x4xi64>, tensor<4x4xi64> -> tensor<4x4xi64>
  job.output "y", %y : tensor<4x4xi64>
}
"""


def wanted(x: Array, w: Array) -> Array:
    rows: list[Array] = []
    for number in range(3):
        rows.append(x @ w)
        x = rows[-1] - number
    return x * sum(rows)


def most_in_flight(found: Simulation) -> int:
    """The most pieces that the loop has made, or makes, and not all have been read."""
    names = [actor.name for actor in found.tables.actors]
    begun = sorted(act.start for act in found.acts if names[act.actor] == "h")
    ends = [
        sorted(act.end for act in found.acts if names[act.actor] == name)
        for name in ("h_cpu", "s_cpu")
    ]
    read = [min(bisect_right(x, start) for x in ends) for start in begun]
    return max(number + 1 - before for number, before in enumerate(read))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("place", "slots"), [("[0:0]", 1), ("[0:0]", 3), ("[0:0-1]", 2)]
)
def test_pieces_in_flight(tmp_path: Path, place: str, slots: int) -> None:
    random = fresh()
    path = tmp_path / "sums.mlir"
    text = JOB.replace("PLACE", f"#job.placement<cpu, {place}>")
    asked = f"slots = {slots} : i64, " if slots > 1 else ""
    path.write_text(text.replace("SLOTS", asked))
    pieces = [
        {name: random.integers(-3, 4, (4, 4)) for name in ("x", "w")} for _ in range(8)
    ]
    with Session.open(path, threads=4) as session:
        actors = session.executor.program.tables.actors
        # Copies to the device that reads are slow.
        times = {x.name: 30 if x.name.endswith("_cpu") else 1 for x in actors}
        simulated, simulation = session.executor.simulate(pieces, times)
        results = session.run_many(pieces)
    for piece, *found in zip(pieces, simulated, results, strict=True):
        for each in found:
            np.testing.assert_array_equal(each["y"], wanted(**piece))
    if place == "[0:0]":
        assert most_in_flight(simulation) == slots
