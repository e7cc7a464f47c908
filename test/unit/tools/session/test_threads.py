"""Results of kernels that several threads share, in any number of parts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from draws import fresh
from numpy.typing import NDArray

from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.session import Model, Session

SHAPES = {
    "a": (200, 333),
    "b": (333, 515),
    "x": (2, 24, 28, 28),
    "w": (40, 24, 3, 3),
    "d": (24, 1, 5, 5),
    "t": (1040, 1031),
}

OPS = """
  %m = op.matmul %a, %b : @a, @b -> tensor<200x515xf32>
  %s = op.softmax %m axis 1 : tensor<200x515xf32> -> tensor<200x515xf32>
  %r = op.reduce_sum %t axes [0] : @t -> tensor<1031xf32>
  %l = op.reduce_sum %t axes [1] : @t -> tensor<1040xf32>
  %c = op.conv2d %x, %w pads [1, 1, 1, 1] : @x, @w -> tensor<2x40x28x28xf32>
  %n = op.reduce_mean %c axes [0, 2, 3] : tensor<2x40x28x28xf32> -> tensor<40xf32>
  %e = op.conv2d %x, %d pads [2, 2, 2, 2] groups 24 : @x, @d -> @x
  job.output "s", %s : tensor<200x515xf32>
  job.output "r", %r : tensor<1031xf32>
  job.output "l", %l : tensor<1040xf32>
  job.output "n", %n : tensor<40xf32>
  job.output "e", %e : @x
"""


def text() -> str:
    """The job of products, convolutions, softmax and sums along several axes."""
    types = {
        name: f"tensor<{'x'.join(map(str, shape))}xf32>"
        for name, shape in SHAPES.items()
    }
    inputs = [f'  %{n} = job.input "{n}" : {type}' for n, type in types.items()]
    ops = re.sub(r"@(\w)", lambda found: types[found[1]], OPS)
    head = "job.job @shared placement <cpu, [0:0]> {"
    return "\n".join([head, *inputs, ops, "}"])


def results(threads: int, feeds: Mapping[str, NDArray[np.float32]]) -> dict[str, bytes]:
    """The bytes of all results with so many threads, compiled for as many."""
    compiler, _ = installed_compiler()
    model = Model(compiler.parse(text().encode(), "job"), {}, Path())
    with Session(model, threads=threads) as session:
        sources = session.executable.sources.values()
        parts = re.findall(r"^PARTS = (\d+)$", "\n".join(sources), re.MULTILINE)
        assert threads == 1 or sum(int(count) > 1 for count in parts) >= 5
        return {n: value.tobytes() for n, value in session.run(feeds).items()}


@pytest.mark.slow  # Kernels of several schedules are compiled.
@pytest.mark.filterwarnings("ignore:.*threads on .* CPUs wait for each other")
@pytest.mark.parametrize("threads", [3, 16])
def test_results_are_the_same_bits_for_any_number_of_threads(threads: int) -> None:
    random = fresh()
    feeds = {
        name: random.normal(size=shape).astype(np.float32)
        for name, shape in SHAPES.items()
    }
    expected = results(1, feeds)
    assert all(any(value) for value in expected.values())
    assert results(threads, feeds) == expected
