"""Reductions that compute what they combine, against NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.parser import Parser

from penstock.dialects import get_all_dialects
from penstock.dialects.launch import KernelOp
from penstock.tools.session.session import Model, Session

Wide: TypeAlias = NDArray[np.float64]

JOB = """
!x = tensor<{rows}x3x{columns}x{type}>
!y = tensor<{rows}x3x{type}>
job.job @net placement <cpu, [0:0]> {{
  %x = job.input "x" : !x
  %t = job.input "t" : !x
  %d = op.sub %x, %t : !x, !x -> !x
  %s = op.mul %d, %d : !x, !x -> !x
  %y = op.{reduction} %s axes [2] : !x -> !y
  job.output "y", %y : !y
}}"""


ULPS = {"reduce_sum": 8, "reduce_mean": 8, "reduce_max": 4, "reduce_min": 4}
"""The errors of reductions of squares, in units of the last place."""


def combined(name: str, x: Wide) -> Wide:
    """The result of a reduction of rows."""
    match name:
        case "reduce_sum":
            return np.sum(x, 2)
        case "reduce_mean":
            return np.mean(x, 2)
        case "reduce_max":
            return np.max(x, 2)
        case _:
            return np.min(x, 2)


DTYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


@pytest.mark.parametrize(
    ("name", "type", "threads"),
    [
        ("reduce_sum", "f32", 3),
        ("reduce_mean", "f16", 1),
        ("reduce_mean", "f64", 3),
        ("reduce_max", "f32", 1),
        ("reduce_min", "f16", 1),
    ],
)
def test_squares_are_combined_as_they_are_computed(
    name: str, type: str, threads: int
) -> None:
    seed = 5
    print(f"seed {seed}")
    random = np.random.default_rng(seed)
    rows, columns = (int(n) for n in random.integers(6, 90, 2))
    text = JOB.format(rows=rows, columns=columns, type=type, reduction=name)
    shape = rows, 3, columns
    x, t = (random.normal(size=shape).astype(DTYPES[type]) for _ in "xt")
    with Session(model_of(text), threads=threads) as session:
        kernels = [op for op in session.program.walk() if isinstance(op, KernelOp)]
        assert f"fused_{name}_0" in [op.sym_name.data for op in kernels]
        found = session.run({"x": x, "t": t})["y"].astype(np.float64)
    wanted = combined(name, np.square(x.astype(np.float64) - t))
    facts = np.finfo(DTYPES[type])
    ulp, least = float(facts.eps), float(facts.smallest_subnormal)
    assert (np.abs(found - wanted) <= ULPS[name] * ulp * wanted + least).all()


def test_numbers_that_are_none_and_rows_of_none() -> None:
    for columns, values in ((3, [np.nan, 1, np.inf]), (0, [])):
        text = JOB.format(rows=8, columns=columns, type="f32", reduction="reduce_sum")
        x = np.tile(np.array(values, np.float32), (8, 3, 1))
        with Session(model_of(text)) as session:
            found = session.run({"x": x, "t": np.zeros_like(x)})["y"]
        np.testing.assert_array_equal(found, np.square(x).sum(2, dtype=np.float32))


def model_of(text: str) -> Model:
    """The job of a text."""
    context = Context()
    for name, factory in get_all_dialects().items():
        context.register_dialect(name, factory)
    return Model(Parser(context, text).parse_module(), {}, Path())
