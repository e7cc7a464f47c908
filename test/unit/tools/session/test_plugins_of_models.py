"""Initialisers and importers of plug-ins: their values, and rubbish that is refused."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.plugins import forget, register
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.driver.errors import PenstockError, Rejected, UsageError
from penstock.tools.session.model import read_model
from penstock.tools.session.session import Session

JOB = """
job.job @start placement <cpu, [0:0]> {{
  %w = job.variable "w" init <{}> : tensor<2x3xf32>
  job.output "y", %w : tensor<2x3xf32>
}}
"""


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    yield
    forget(__name__)


def output(folder: Path, init: str) -> np.ndarray:
    """The values of a variable with an initialiser."""
    path = folder / "job.mlir"
    path.write_text(JOB.format(init), encoding="utf-8")
    with Session.open(path) as session:
        return session.run({})["y"]


def test_an_initialiser_gets_shape_generator_and_parameters(tmp_path: Path) -> None:
    @register("initialiser", "acme")
    def acme(
        shape: tuple[int, ...], generator: np.random.Generator, scale: float = 2.0
    ) -> np.ndarray:
        return scale * generator.normal(size=shape)

    expected = np.random.default_rng([7, zlib.crc32(b"w")]).normal(size=(2, 3))
    for text, scale in (("", 2), (", scale = 3", 3)):
        found = output(tmp_path, f"acme, seed = 7{text}")
        np.testing.assert_array_equal(found, (scale * expected).astype(np.float32))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros(3), r"returns shape \(3,\) for 'w' of \(2, 3\)"),
        (np.full((2, 3), np.inf), "returns numbers for 'w' that are not finite"),
        (np.full((2, 3), "x"), "returns str32 for 'w'"),
    ],
)
def test_rubbish_of_an_initialiser_is_refused(
    value: object, message: str, tmp_path: Path
) -> None:
    @register("initialiser", "acme")
    def acme(shape: tuple[int, ...], generator: object) -> object:
        return value

    expected = rf"^initialiser 'acme' {message} \(.*test_plugins_of_models.py:\d+\)$"
    with pytest.raises(PenstockError, match=expected):
        output(tmp_path, "acme")


@pytest.mark.parametrize(
    ("init", "message"),
    [
        ("acme", "initialiser 'acme' needs scale"),
        ("acme, scale = 1, mean = 2", "initialiser 'acme' does not take mean"),
        ("acmee, scale = 1", "no initialiser 'acmee', did you mean 'acme'?"),
        ("acme, scale = 0.0", "fails: ZeroDivisionError: .*models.py:.*"),
    ],
)
def test_parameters_are_those_of_the_function(
    init: str, message: str, tmp_path: Path
) -> None:
    @register("initialiser", "acme")
    def acme(shape: tuple[int, ...], generator: object, scale: float) -> np.ndarray:
        return np.full(shape, 1 / scale)

    with pytest.raises(PenstockError, match=message):
        output(tmp_path, init)


def test_an_importer_makes_text_and_arrays(tmp_path: Path) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)

    @register("importer", "acme")
    def acme(path: Path) -> tuple[str, dict[str, Any]]:
        return path.read_text(encoding="utf-8"), {"w": array}

    path = tmp_path / "model.ACME"
    path.write_text(JOB.format("zeros"))
    model = read_model(installed_compiler()[0], path)
    with Session(model) as session:
        np.testing.assert_array_equal(session.run({})["y"], array)
    with Session.open(path) as session:
        np.testing.assert_array_equal(session.run({})["y"], array)


MODELS: list[tuple[object, str]] = [
    (5, "returns no text of IR but int"),
    (("", {}, 1), "returns 3 things, not a text and arrays"),
    (("", []), "returns no arrays by name but list"),
    (("", {"w": [1]}), "returns list for variable 'w'"),
    ((JOB.format("zeros"), {"v": np.zeros(1)}), "no variable 'v' for an array"),
    ((JOB.format("zeros"), {"w": np.zeros((9, 7, 5))}), "variable 'w' has shape"),
]


@pytest.mark.parametrize(("model", "message"), MODELS)
def test_rubbish_of_an_importer_is_refused(
    model: object, message: str, tmp_path: Path
) -> None:
    @register("importer", "acme")
    def acme(path: Path) -> object:
        return model

    path = tmp_path / "model.acme"
    path.write_text("")
    with pytest.raises(UsageError, match=message) as caught:
        read_model(installed_compiler()[0], path)
    assert "importer 'acme'" in str(caught.value)


def test_bad_text_of_an_importer_is_its_own(tmp_path: Path) -> None:
    @register("importer", "acme")
    def acme(path: Path) -> str:
        return "\n%x = op.nothing"

    path = tmp_path / "model.acme"
    path.write_text("")
    with pytest.raises(Rejected) as caught:
        read_model(installed_compiler()[0], path)
    assert str(caught.value).startswith(f"{path} (importer 'acme'):2:1: ")
