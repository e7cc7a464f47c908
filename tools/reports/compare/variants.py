"""Variants of a compilation: each has a name, and all that a model is compiled for."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from penstock.tools.driver.errors import UsageError
from penstock.tools.session.options import CompileOptions

LIGHT_FOLDER = "backend/test/data/light"
"""The folder of the package `onnx` with nine models whose weights are all alike."""


@dataclass(frozen=True)
class Variant:
    """A way of compiling models, by the name that tables have for it."""

    name: str
    options: CompileOptions


@dataclass(frozen=True)
class JobFile:
    """A file to compile: IR, or an ONNX model, by the name that tables have for it."""

    name: str
    path: Path
    has_random_weights: bool = False
    """Whether its weights are to be drawn, as it comes without any of worth."""


def light_models() -> list[JobFile]:
    """
    The nine light models that come with the package `onnx`. Raises UsageError where
    that is not installed.
    """
    spec = find_spec("onnx")
    if spec is None or spec.origin is None:
        raise UsageError("the suite 'light' needs a package: pip install onnx")
    folder = Path(spec.origin).parent / LIGHT_FOLDER
    return [
        JobFile(path.stem.removeprefix("light_"), path, has_random_weights=True)
        for path in sorted(folder.glob("*.onnx"))
    ]
