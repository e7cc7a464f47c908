"""Plans of the models that ship with the package `onnx`, and of our examples."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx
from xdsl.dialects.builtin import ModuleOp

from penstock.lowering.pipelines import PipelineOptions, pipeline, text_of
from penstock.tools.driver.compiler import installed_compiler
from penstock.tools.frontend.onnx.model import import_file
from penstock.tools.session.session import read_model

ROOT = Path(__file__).parents[1]

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


def light_models(only: Collection[str] = ()) -> Iterator[tuple[str, ModuleOp]]:
    """
    The jobs of the nine light models by name, without weights worth anything; of these
    names only, if there are some.
    """
    for path in sorted(LIGHT.glob("*.onnx")):
        name = path.stem.removeprefix("light_")
        if not only or name in only:
            yield name, import_file(path).module


def exported_models(only: Collection[str] = ()) -> Iterator[tuple[str, ModuleOp]]:
    """
    The jobs of models of PyTorch in full size by name, with random weights; of these
    names only, if there are some. None where PyTorch is not installed.
    """
    if find_spec("torch") is None:
        return
    from penstock.tools.reports.compare.exports.export import MODELS, export

    for name in MODELS:
        if only and name not in only:
            continue
        with TemporaryDirectory() as folder:
            path = Path(folder) / f"{name}.onnx"
            export(name, path, small=False)
            yield name, import_file(path).module


def example_models() -> Iterator[tuple[str, ModuleOp]]:
    """The jobs of our examples by name."""
    for name in ("digits", "encoder"):
        path = ROOT / "examples" / f"{name}.mlir"
        yield name, read_model(installed_compiler()[0], path).module


def passes_between(first: str | None, last: str) -> str:
    """The passes of the standard pipeline from one to another, both included."""
    passes = pipeline(PipelineOptions("cpu"))
    bare = [each.name for each in passes]
    start = 0 if first is None else bare.index(first)
    return text_of(passes[start : bare.index(last) + 1])
