"""
Importers of formats: plug-ins of the kind `importer`, by the suffix of a file.

An importer is a function of a path that returns the text of a job in IR, or that text
and the arrays of its variables by name. The text is parsed and verified like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
import numpy.typing as npt

from penstock.plugins import PlugIn, PluginError, names_of, plugin_of
from penstock.tools.driver.errors import FileError
from penstock.tools.driver.files import READERS

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from penstock.tools.driver.compiler import Compiler

KIND = "importer"

BUILT_IN: Mapping[str, str] = {
    "mlir": "IR of any level.",
    "onnx": "ONNX models.",
    "penstock": "Plans that penstock-run --save-plan has written.",
}
"""The formats that need no plug-in, by suffix."""


class Imported(NamedTuple):
    """A model that an importer has read."""

    text: str
    """A module of IR."""
    weights: dict[str, npt.NDArray[np.generic]]
    """The arrays of variables by name."""
    by: str
    """The importer, in a message."""


def import_by_plugin(path: Path) -> Imported | None:
    """
    The model in a file, if there is an importer of its format.

    Raises `FileError` if the importer fails, or returns no model.
    """
    suffix = path.suffix.lower()
    if suffix in READERS or suffix[1:] not in names_of(KIND) or not path.is_file():
        return None
    try:
        plugin = plugin_of(KIND, suffix[1:])
        return checked(plugin, plugin.call(path))
    except PluginError as error:
        raise FileError(f"cannot import {path}: {error}") from error


def checked(plugin: PlugIn, found: object) -> Imported:
    """The model that a plug-in has returned. Raises `PluginError` if it is none."""
    text, weights = found, cast("object", {})
    if isinstance(found, tuple):
        parts = cast("tuple[object, ...]", found)
        if len(parts) != 2:
            plugin.refuse(f"returns {len(parts)} things, not a text and arrays")
        text, weights = parts
    if not isinstance(text, str):
        plugin.refuse(f"returns no text of IR but {type(text).__name__}")
    if not isinstance(weights, Mapping):
        plugin.refuse(f"returns no arrays by name but {type(weights).__name__}")
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    for name, array in cast("Mapping[object, object]", weights).items():
        if not isinstance(name, str) or not isinstance(array, np.ndarray):
            plugin.refuse(f"returns {type(array).__name__} for variable {name!r}")
        arrays[name] = cast("npt.NDArray[np.generic]", array)
    return Imported(text, arrays, str(plugin))


def module_of(compiler: Compiler, path: Path, imported: Imported) -> ModuleOp:
    """
    The verified module of a model that was imported from a file.

    Raises `Rejected` for a text that is not accepted, `FileError` for an array that
    belongs to no variable. Lines in messages are those of the importer's text.
    """
    from penstock.dialects.job import VariableOp
    from penstock.dialects.utils.tensors import tensor_type

    name = f"{path} ({imported.by})"
    module = compiler.parse(imported.text.encode(), name)
    compiler.verify(module)
    variables = [op for op in module.walk() if isinstance(op, VariableOp)]
    if strange := sorted(imported.weights.keys() - {op.port.data for op in variables}):
        raise FileError(f"{name}: there is no variable '{strange[0]}' for an array")
    for op in variables:
        array, shape = (
            imported.weights.get(op.port.data),
            tensor_type(op.result).get_shape(),
        )
        # The parts of a variable on devices are loaded from an array of the whole.
        if array is not None and op.whole is None and array.shape != shape:
            raise FileError(
                f"{name}: variable '{op.port.data}' has shape {shape}, got an array of "
                f"shape {array.shape}"
            )
    return module


def set_initialisers(module: ModuleOp, imported: Imported, file: str) -> None:
    """Let variables that have arrays start from those in a file."""
    from penstock.dialects.job import InitAttr, VariableOp

    for op in module.walk():
        if isinstance(op, VariableOp) and op.port.data in imported.weights:
            op.init = InitAttr("npz", {"file": file})
