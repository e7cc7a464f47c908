"""Streams of a session's jobs: inputs of unequal numbers, from iterators."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.runtime.errors import PenstockError
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.session.session import Model, Session

Rows = NDArray[np.float32]
ADD = """
job.job @add placement <cpu, [0:0]> {
  %x = job.input "x" : tensor<3xf32>
  %z = job.input "z" : tensor<3xf32>
  %y = op.add %x, %z : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
  job.output "y", %y : tensor<3xf32>
}
"""
OTHER = """
job.job @other placement <cpu, [0:0]> {
  %y = job.input "y" : tensor<3xf32>
  %e = op.exp %y : tensor<3xf32> -> tensor<3xf32>
  job.output "e", %e : tensor<3xf32>
}
"""


def opened(text: str = ADD, engine: str = "actors") -> Session:
    front = installed_compiler()
    model = Model(front[0].parse(text.encode(), "job.mlir"), {}, Path())
    return Session(model, compiler=front, engine=engine)


def rows(count: int, seed: int) -> list[Rows]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=3).astype(np.float32) for _ in range(count)]


@pytest.mark.parametrize("engine", ["actors", "sequential", "sim"])
@pytest.mark.parametrize("counts", [(7, 7), (40, 3), (2, 30), (0, 4), (5, 0)])
def test_inputs_of_unequal_numbers_are_drained_and_counted(
    engine: str, counts: tuple[int, int]
) -> None:
    x, z = rows(counts[0], 1), rows(counts[1], 2)
    with opened(engine=engine) as session:
        with session.stream() as stream:
            ending = stream.run({"x": iter(x), "z": iter(z)})
        found, least = ending.outputs["y"], min(counts)
        assert len(found) == least
        for ours, a, b in zip(found, x[:least], z[:least], strict=True):
            np.testing.assert_array_equal(ours, a + b)
        left = max(counts) - least
        name = "x/out" if counts[0] > least else "z/out"
        assert {(register, n) for (_, register), n in ending.left_over.items()} == (
            {(name, left)} if left else set()
        )
        # After that it runs as before.
        (one,), (two,) = rows(1, 3), rows(1, 4)
        np.testing.assert_array_equal(session.run({"x": one, "z": two})["y"], one + two)


def test_an_input_that_is_not_named_has_no_pieces() -> None:
    with opened() as session, session.stream() as stream:
        ending = stream.run({"x": rows(3, 1)})
        assert ending.outputs["y"] == []
        assert set(ending.left_over.values()) == {3}


def failing() -> Iterator[Rows]:
    yield np.ones(3, np.float32)
    raise ValueError("no more of this file")


@pytest.mark.parametrize("engine", ["actors", "sequential"])
def test_what_an_input_raises_ends_the_stream(engine: str) -> None:
    with opened(engine=engine) as session:
        stream = session.stream()
        with pytest.raises(ValueError, match="no more of this file"):
            stream.run({"x": failing(), "z": rows(9, 1)})
        stream.close()
        one = np.ones(3, np.float32)
        assert session.run({"x": one, "z": one})["y"].tolist() == [2, 2, 2]


def test_what_does_not_fit_is_refused() -> None:
    with opened() as session:
        with (
            session.stream() as stream,
            pytest.raises(PenstockError, match="input 'x'"),
        ):
            stream.run({"x": [np.ones(4, np.float32)], "z": rows(9, 1)})
        with session.stream() as stream, pytest.raises(PenstockError, match="'q'"):
            stream.run({"q": rows(1, 1)})


def test_jobs_that_take_turns_have_no_streams() -> None:
    message = "job 'add' takes turns with others, piece by piece"
    with opened(ADD + OTHER) as session, pytest.raises(PenstockError, match=message):
        session.stream("add")
