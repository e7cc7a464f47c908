"""Groups of rows: their pairs, found once for each structure, and axes of one point."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from draws import fresh

from penstock.dialects.op.groups.fused import FusedOp
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.session import Session

ROWS = "tensor<4x8xf32>"
COLUMN = "tensor<4x1xf32>"


def pairs_of(body: str, yielded: str) -> list[tuple[int, int]]:
    """The pairs of operands and results of a group of two results."""
    text = f"""\
job.job @rows placement <cpu, [0:0]> {{
  %x = job.input "x" : {ROWS}
  %y, %z = op.fused %x : {ROWS} -> {ROWS}, {ROWS} {{
  ^bb0(%p: {ROWS}):
    {body}
    op.yield {yielded} : {ROWS}, {ROWS}
  }}
  job.output "y", %y : {ROWS}
  job.output "z", %z : {ROWS}
}}
"""
    compiler, _ = installed_compiler()
    module = compiler.parse(text.encode(), "rows")
    (group,) = (op for op in module.walk() if isinstance(op, FusedOp))
    return [(pair.operand, pair.result) for pair in group.in_place_pairs()]


def centred(fold: str) -> str:
    """The members that take a fold of exponentials of rows away from the rows."""
    return f"""\
%a = op.exp %p : {ROWS} -> {ROWS}
    %m = op.{fold} %a axes [1] keepdims : {ROWS} -> {COLUMN}
    %c = op.sub %p, %m : {ROWS}, {COLUMN} -> {ROWS}"""


@pytest.mark.parametrize("fold", ["reduce_mean", "reduce_max"])
def test_pairs_are_those_of_each_structure(fold: str) -> None:
    """Rows that are read again after a result is written may not lie under it."""
    for _ in range(2):
        assert pairs_of(centred(fold), "%a, %c") == [(0, 1)]
        assert pairs_of(centred(fold), "%c, %a") == [(0, 0)]


def test_a_row_of_several_points_may_have_axes_of_one(tmp_path: Path) -> None:
    rows, folds = "tensor<32x32x1xf32>", "tensor<1x32x1xf32>"
    (path := tmp_path / "job.mlir").write_text(
        f"""
job.job @rows placement <cpu, [0:0]> {{
  %x = job.input "x" : {rows}
  %m = op.reduce_sum %x axes [0, 2] keepdims : {rows} -> {folds}
  %r = op.sub %x, %m : {rows}, {folds} -> {rows}
  job.output "m", %m : {folds}
  job.output "r", %r : {rows}
}}
"""
    )
    x = fresh().standard_normal((32, 32, 1), np.float32)
    with Session.open(path) as session:
        found = session.run({"x": x})
    wanted = x.astype(np.float64).sum((0, 2), keepdims=True)
    assert np.allclose(found["m"], wanted, 1e-5, 1e-5)
    assert np.allclose(found["r"], x - wanted, 1e-5, 1e-5)
