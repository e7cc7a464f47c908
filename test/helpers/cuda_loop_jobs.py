"""
Jobs with loops, conditions and counts on a CUDA device, and what NumPy makes of their
inputs. Rows of loops have 24 bytes, so that half of them lie where no vector may.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.model import Model

Arrays: TypeAlias = dict[str, NDArray[Any]]

EDITS = ("skip op-select-branches", "skip op-unroll-loops")
"""Loops and conditions of so little work would be no loops and conditions."""


@dataclass(frozen=True)
class Case:
    """A job, a piece of random inputs, and what NumPy makes of it."""

    text: str
    piece: Callable[[np.random.Generator], Arrays]
    expected: Callable[[Arrays], Arrays]


# A condition with a loop in one branch, in a loop with a count and a condition, whose
# rows are stacked; one that goes back with a count; one of a condition alone.
LOOPS = """
job.job @loops placement <cuda, [0:0]> {
  %n = job.input "n" : tensor<i64>
  %h0 = job.input "h" : tensor<6xf32>
  %xs = job.input "xs" : tensor<7x6xf32>
  %w = job.input "w" : tensor<6x6xf32>
  %end = job.input "end" : tensor<f32>
  %yes = op.constant dense<true> : tensor<i1>
  %c, %h, %ys, %made = op.loop up to 7 count(%n) while(%yes)
      carries(%h0 : tensor<6xf32>) slices(%xs : tensor<7x6xf32>)
      reads(%w, %end : tensor<6x6xf32>, tensor<f32>) made
      -> tensor<i1>, tensor<6xf32>, tensor<7x6xf32>, tensor<i64> {
  ^bb0(%i: tensor<i64>, %going: tensor<i1>, %g: tensor<6xf32>, %x: tensor<6xf32>,
       %v: tensor<6x6xf32>, %e: tensor<f32>):
    %p = op.matmul %g, %v : tensor<6xf32>, tensor<6x6xf32> -> tensor<6xf32>
    %s = op.add %p, %x : tensor<6xf32>, tensor<6xf32> -> tensor<6xf32>
    %most = op.reduce_max %s axes [0] : tensor<6xf32> -> tensor<f32>
    %zero = op.constant dense<0.0> : tensor<f32>
    %any = op.greater %most, %zero : tensor<f32>, tensor<f32> -> tensor<i1>
    %y = op.if %any reads(%s : tensor<6xf32>) -> tensor<6xf32> {
    ^bb0(%a: tensor<6xf32>):
      %t = op.loop 3 carries(%a : tensor<6xf32>) -> tensor<6xf32> {
      ^bb0(%j: tensor<i64>, %b: tensor<6xf32>):
        %u = op.tanh %b : tensor<6xf32> -> tensor<6xf32>
        op.yield %u : tensor<6xf32>
      }
      op.yield %t : tensor<6xf32>
    } else {
    ^bb0(%b: tensor<6xf32>):
      %t = op.neg %b : tensor<6xf32> -> tensor<6xf32>
      op.yield %t : tensor<6xf32>
    }
    %again = op.less %most, %e : tensor<f32>, tensor<f32> -> tensor<i1>
    op.yield %again, %y, %s : tensor<i1>, tensor<6xf32>, tensor<6xf32>
  }
  %back, %rows = op.loop up to 7 count(%n) backward carries(%h : tensor<6xf32>)
      slices(%ys : tensor<7x6xf32>) -> tensor<6xf32>, tensor<7x6xf32> {
  ^bb0(%i: tensor<i64>, %g: tensor<6xf32>, %y: tensor<6xf32>):
    %half = op.constant dense<0.5> : tensor<f32>
    %d = op.mul %g, %half : tensor<6xf32>, tensor<f32> -> tensor<6xf32>
    %s = op.add %d, %y : tensor<6xf32>, tensor<6xf32> -> tensor<6xf32>
    op.yield %s, %s : tensor<6xf32>, tensor<6xf32>
  }
  %start = op.less_equal %end, %end : tensor<f32>, tensor<f32> -> tensor<i1>
  %stop, %small = op.loop up to 40 while(%start) carries(%back : tensor<6xf32>)
      -> tensor<i1>, tensor<6xf32> {
  ^bb0(%i: tensor<i64>, %going: tensor<i1>, %g: tensor<6xf32>):
    %half = op.constant dense<0.5> : tensor<f32>
    %d = op.mul %g, %half : tensor<6xf32>, tensor<f32> -> tensor<6xf32>
    %size = op.abs %d : tensor<6xf32> -> tensor<6xf32>
    %most = op.reduce_max %size axes [0] : tensor<6xf32> -> tensor<f32>
    %limit = op.constant dense<0.125> : tensor<f32>
    %again = op.greater %most, %limit : tensor<f32>, tensor<f32> -> tensor<i1>
    op.yield %again, %d : tensor<i1>, tensor<6xf32>
  }
  job.output "ys", %ys : tensor<7x6xf32>
  job.output "made", %made : tensor<i64>
  job.output "rows", %rows : tensor<7x6xf32>
  job.output "small", %small : tensor<6xf32>
}
"""


def _loops_piece(random: np.random.Generator) -> Arrays:
    floats = {"h": (6,), "xs": (7, 6), "w": (6, 6)}
    return {
        **{x: random.standard_normal(y).astype("f4") for x, y in floats.items()},
        "n": np.asarray(random.integers(0, 8)),
        "end": np.asarray(random.choice([1.0, 50.0]), "f4"),
    }


def _loops_expected(given: Arrays) -> Arrays:
    h, xs, w = (given[name] for name in ("h", "xs", "w"))
    count, made = int(given["n"]), 0
    ys, rows = np.zeros((2, 7, 6), np.float32)
    is_going = True
    while made < count and is_going:
        ys[made] = s = h @ w + xs[made]
        h = np.tanh(np.tanh(np.tanh(s))) if s.max() > 0 else -s
        is_going, made = bool(s.max() < given["end"]), made + 1
    for number in reversed(range(count)):
        rows[number] = h = h / 2 + ys[number]
    is_going = True
    while is_going:
        h = h / 2
        is_going = bool(np.abs(h).max() > 0.125)
    return {"ys": ys, "made": np.asarray(made), "rows": rows, "small": h}


# Elements of each row, and boxes, as many as there are; a sum over the rows of all that
# were found; a state that grows.
COUNTS = """
job.job @counts placement <cuda, [0:0]> {
  %m = job.input "m" : tensor<5x3xf32>
  %boxes = job.input "boxes" : tensor<1x9x4xf32>
  %scores = job.input "scores" : tensor<1x2x9xf32>
  %limit = job.input "limit" : tensor<f32>
  %none = op.constant dense<0> : tensor<i64>
  %sum, %counts, %places = op.loop 5 carries(%none : tensor<i64>)
      slices(%m : tensor<5x3xf32>)
      -> tensor<i64>, tensor<5xi64>, tensor<5x1x3xi64> {
  ^bb0(%i: tensor<i64>, %so_far: tensor<i64>, %row: tensor<3xf32>):
    %p, %n = op.non_zero %row : tensor<3xf32> -> tensor<1x3xi64>, tensor<i64>
    %total = op.add %so_far, %n : tensor<i64>, tensor<i64> -> tensor<i64>
    op.yield %total, %n, %p : tensor<i64>, tensor<i64>, tensor<1x3xi64>
  }
  %found, %most, %kept = op.non_max_suppression %boxes, %scores, %limit most 4
    : tensor<1x9x4xf32>, tensor<1x2x9xf32>, tensor<f32>
    -> tensor<8x3xi64>, tensor<i64>, tensor<1x2x9xi64>
  %zero = op.constant dense<0.0> : tensor<4xf32>
  %one = op.slice %boxes from [0, 0, 0] to [1, 8, 4] by [1, 1, 1]
    : tensor<1x9x4xf32> -> tensor<1x8x4xf32>
  %rows = op.reshape %one to [8, 4] : tensor<1x8x4xf32> -> tensor<8x4xf32>
  %outline = op.loop up to 8 count(%most) carries(%zero : tensor<4xf32>)
      slices(%rows : tensor<8x4xf32>) -> tensor<4xf32> {
  ^bb0(%i: tensor<i64>, %o: tensor<4xf32>, %b: tensor<4xf32>):
    %l = op.maximum %o, %b : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
    op.yield %l : tensor<4xf32>
  }
  job.output "sum", %sum : tensor<i64>
  job.output "counts", %counts : tensor<5xi64>
  job.output "places", %places : tensor<5x1x3xi64>
  job.output "found", %found cut by "most" axis 0 : tensor<8x3xi64>
  job.output "most", %most : tensor<i64>
  job.output "outline", %outline : tensor<4xf32>
}
"""


def _counts_piece(random: np.random.Generator) -> Arrays:
    corners = random.random((1, 9, 2))
    boxes = np.concatenate([corners, corners + random.random((1, 9, 2))], -1)
    return {
        "m": (random.standard_normal((5, 3)) * random.integers(0, 2, (5, 3))).astype(
            "f4"
        ),
        "boxes": boxes.astype("f4"),
        "scores": random.random((1, 2, 9)).astype("f4"),
        "limit": np.asarray(random.uniform(0.1, 0.6), "f4"),
    }


def _counts_expected(given: Arrays) -> Arrays:
    places, counts = np.zeros((5, 1, 3), np.int64), np.zeros(5, np.int64)
    for number, row in enumerate(given["m"]):
        (there,) = np.nonzero(row)
        counts[number] = len(there)
        places[number, 0, : len(there)] = there
    boxes = given["boxes"][0].astype(np.float64)
    chosen = [
        (0, label, box)
        for label, scores in enumerate(given["scores"][0])
        for box in _suppressed(boxes, scores, float(given["limit"]))[:4]
    ]
    outline = np.max([np.zeros(4), *boxes[: len(chosen)]], axis=0)
    return {
        "sum": counts.sum(),
        "counts": counts,
        "places": places,
        "found": np.asarray(chosen, np.int64).reshape(-1, 3),
        "outline": outline.astype(np.float32),
    }


def _suppressed(boxes: NDArray[Any], scores: NDArray[Any], limit: float) -> list[int]:
    """The boxes that stay, the best one first."""
    stays: list[int] = []
    for number in np.argsort(-scores, kind="stable"):
        if all(_overlap(boxes[number], boxes[other]) <= limit for other in stays):
            stays.append(int(number))
    return stays


def _overlap(one: NDArray[Any], other: NDArray[Any]) -> float:
    """The intersection of two boxes over their union."""
    inside = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
    common = float(np.prod(np.maximum(inside, 0)))
    areas = (float(np.prod(x[2:] - x[:2])) for x in (one, other))
    return common / (sum(areas) - common)


CASES = {
    "loops": Case(LOOPS, _loops_piece, _loops_expected),
    "counts": Case(COUNTS, _counts_piece, _counts_expected),
}

# Rows at places that are given, of which some are none; a variable has their sum.
FAILING = """
job.job @failing placement <cuda, [0:0]> {
  %n = job.input "n" : tensor<i64>
  %at = job.input "at" : tensor<i64>
  %table = job.input "table" : tensor<6x3xf32>
  %w = job.variable "w" init <zeros> : tensor<3xf32>
  %h = op.loop up to 4 count(%n) carries(%w : tensor<3xf32>)
      reads(%table, %at : tensor<6x3xf32>, tensor<i64>) -> tensor<3xf32> {
  ^bb0(%i: tensor<i64>, %g: tensor<3xf32>, %t: tensor<6x3xf32>, %a: tensor<i64>):
    %s = op.loop 2 carries(%g : tensor<3xf32>)
        reads(%t, %a, %i : tensor<6x3xf32>, tensor<i64>, tensor<i64>)
        -> tensor<3xf32> {
    ^bb0(%j: tensor<i64>, %c: tensor<3xf32>, %u: tensor<6x3xf32>, %b: tensor<i64>,
         %k: tensor<i64>):
      %l = op.add %b, %k : tensor<i64>, tensor<i64> -> tensor<i64>
      %m = op.add %l, %j : tensor<i64>, tensor<i64> -> tensor<i64>
      %row = op.gather %u[%m] axis 0
        : tensor<6x3xf32>, tensor<i64> -> tensor<3xf32>
      %d = op.add %c, %row : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
      op.yield %d : tensor<3xf32>
    }
    op.yield %s : tensor<3xf32>
  }
  job.assign %h to %w : tensor<3xf32>
  job.output "h", %h : tensor<3xf32>
}
"""


def model_of(text: str) -> Model:
    """The model of a job."""
    compiler, _ = installed_compiler()
    return Model(compiler.parse(text.encode(), "job.mlir"), {}, Path())


def check(found: Arrays, case: Case, given: Arrays) -> None:
    """Compare the outputs of a job with those that NumPy makes of its inputs."""
    wanted = case.expected(given)
    assert found.keys() == wanted.keys()
    for name, array in wanted.items():
        # Sums of six products, at most seven times in each other.
        np.testing.assert_allclose(
            found[name], array, rtol=1e-3, atol=1e-4, err_msg=f"{name} of {given}"
        )
