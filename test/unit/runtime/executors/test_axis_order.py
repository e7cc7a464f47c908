"""Runs on arrays whose axes lie in another order than the usual one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import permutations
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import pytest
from numpy.typing import NDArray

from penstock.runtime.errors import PenstockError
from penstock.runtime.program.executable import image_from_json
from penstock.tools.session.session import Session

Array: TypeAlias = NDArray[Any]

POINTWISE = """
  %m = job.input "m" : tensor<4x5x6xi1>
  %x = job.input "x" : tensor<4x5x6xf32>
  %s = job.input "s" : tensor<f32>
  %y = op.mul %x, %s : tensor<4x5x6xf32>, tensor<f32> -> tensor<4x5x6xf32>
  %w = op.where %m, %y, %x
    : tensor<4x5x6xi1>, tensor<4x5x6xf32>, tensor<4x5x6xf32> -> tensor<4x5x6xf32>
  %t = op.neg %s : tensor<f32> -> tensor<f32>
  job.output "w", %w : tensor<4x5x6xf32>
  job.output "t", %t : tensor<f32>
"""

OTHERS = {
    "a row": """
  %x = job.input "x" : tensor<6x6xf32>
  %r = job.input "r" : tensor<6xf32>
  %y = op.add %x, %r : tensor<6x6xf32>, tensor<6xf32> -> tensor<6x6xf32>
  job.output "y", %y : tensor<6x6xf32>
""",
    "a variable": """
  %x = job.input "x" : tensor<6x6xf32>
  %v = job.variable "r" init <zeros> : tensor<6x6xf32>
  %y = op.add %x, %v : tensor<6x6xf32>, tensor<6x6xf32> -> tensor<6x6xf32>
  job.assign %y to %v : tensor<6x6xf32>
  job.output "y", %y : tensor<6x6xf32>
""",
    "a transposition": """
  %x = job.input "x" : tensor<6x6xf32>
  %y = op.transpose %x by [1, 0] : tensor<6x6xf32> -> tensor<6x6xf32>
  job.output "y", %y : tensor<6x6xf32>
""",
    "a running sum": """
  %x = job.input "x" : tensor<6x6xf32>
  %y = op.cum_sum %x axis 1 : tensor<6x6xf32> -> tensor<6x6xf32>
  job.output "y", %y : tensor<6x6xf32>
""",
    "two pieces for one": """
  %x = job.input "x" : tensor<6x6xf32>
  %r = op.repeat %x times 2 : tensor<6x6xf32> -> tensor<6x6xf32>
  %y = op.neg %r : tensor<6x6xf32> -> tensor<6x6xf32>
  job.output "y", %y : tensor<6x6xf32>
""",
}
WANTED: Mapping[str, Callable[[Array, Array], Array]] = {
    "a row": lambda x, r: x + r,
    "a variable": lambda x, r: x,
    "a transposition": lambda x, r: x.T,
    "a running sum": lambda x, r: x.cumsum(1),
    "two pieces for one": lambda x, r: np.stack([-x, -x]),
}


def opened(
    folder: Path, body: str, engine: Literal["actors", "sequential"] = "actors"
) -> Session:
    path = folder / "job.mlir"
    path.write_text(f"job.job @job placement <cpu, [0:0]> {{{body}}}")
    return Session.open(path, engine=engine)


def piece(*order: int) -> dict[str, Array]:
    """Random arrays whose axes lie in an order."""
    random = np.random.default_rng(24)
    extents = [(4, 5, 6)[axis] for axis in order]
    x = random.standard_normal(extents, np.float32)
    m = random.integers(0, 2, extents).astype(np.bool_)
    s = random.standard_normal((), np.float32)
    back = np.argsort(order)
    return {"m": m.transpose(back), "x": x.transpose(back), "s": np.asarray(s)}


@pytest.mark.parametrize("engine", ["actors", "sequential"])
def test_results_of_elements_lie_as_the_arrays_do(
    tmp_path: Path, engine: Literal["actors", "sequential"]
) -> None:
    with opened(tmp_path, POINTWISE, engine) as session:
        for order in permutations(range(3)):
            given = piece(*order)
            wanted = np.where(given["m"], given["x"] * given["s"], given["x"])
            # The first run starts threads; the second one is made by compiled code.
            for found in (session.run(given), session.run(given)):
                np.testing.assert_array_equal(found["w"], wanted)
                assert found["w"].strides == given["x"].strides
                assert found["t"] == -given["s"]


def test_arrays_in_several_orders_are_copied_to_the_usual_one(tmp_path: Path) -> None:
    given = piece(2, 1, 0) | {"x": piece(1, 0, 2)["x"]}
    wanted = np.where(given["m"], given["x"] * given["s"], given["x"])
    with opened(tmp_path, POINTWISE) as session:
        found = session.run(given)
        # Steps from the last to the first, and of two elements.
        turned = session.run(given | {"x": given["x"][:, ::-1]})
        apart = session.run(given | {"x": np.repeat(given["x"], 2, 2)[..., ::2]})
    assert found["w"].flags.c_contiguous
    np.testing.assert_array_equal(found["w"], wanted)
    np.testing.assert_array_equal(apart["w"], wanted)
    x = given["x"][:, ::-1]
    np.testing.assert_array_equal(turned["w"], np.where(given["m"], x * given["s"], x))


def test_arrays_that_do_not_fit_are_refused_in_any_order(tmp_path: Path) -> None:
    given = piece(2, 1, 0)
    with opened(tmp_path, POINTWISE) as session:
        with pytest.raises(PenstockError, match=r"'m' has shape \(4, 5, 6\)"):
            session.run(given | {"x": given["x"].T, "m": given["m"].T})
        with pytest.raises(PenstockError, match="'x' has dtype float32"):
            session.run(given | {"x": given["x"].astype(np.float64)})
        with pytest.raises(PenstockError, match="no arrays are given for inputs m"):
            session.run({"x": given["x"], "s": given["s"]})
        with pytest.raises(PenstockError, match="inputs are arrays by name, got list"):
            session.run(cast("dict[str, Array]", [given["x"]]))


@pytest.mark.parametrize("kind", OTHERS)
def test_programs_of_more_than_elements_read_the_usual_order(
    tmp_path: Path, kind: str
) -> None:
    random = np.random.default_rng(25)
    x = random.standard_normal((6, 6), np.float32).T
    r = random.standard_normal(6, np.float32)
    with opened(tmp_path, OTHERS[kind]) as session:
        image = session.executor.program.image
        assert not image.is_pointwise
        found = session.run({"x": x, "r": r} if kind == "a row" else {"x": x})["y"]
        assert np.allclose(found, WANTED[kind](x, r), 1e-5, 1e-6)
        assert found.flags.c_contiguous


def test_a_program_that_is_pointwise_stays_so_as_text(tmp_path: Path) -> None:
    with opened(tmp_path, POINTWISE) as session:
        image = session.executor.program.image
    assert image.is_pointwise
    assert image_from_json(image.to_json()) == image
