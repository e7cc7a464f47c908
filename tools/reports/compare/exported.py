"""Models that PyTorch exports, where it is installed, as a suite of jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, cast

from penstock.tools.driver.errors import UsageError
from penstock.tools.reports.compare.variants import JobFile

SUITES: Mapping[str, bool] = {"exported": False, "exported-small": True}
"""Whether the models of each suite are small ones of a few layers."""


class Exporter(Protocol):
    """The module that exports models, which imports PyTorch."""

    MODELS: Mapping[str, object]

    def export(self, name: str, path: Path, *, small: bool) -> object:
        """Write a model of a name."""
        ...


def exporter() -> Exporter:
    """Import the module. Raises UsageError where PyTorch is not installed."""
    if find_spec("torch") is None:
        raise UsageError(
            f"the suites {' and '.join(SUITES)} are exported by PyTorch, which is not "
            "installed: pip install torch onnxscript"
        )
    name = "penstock.tools.reports.compare.exports.export"
    return cast("Exporter", import_module(name))


def exported_models(
    suite: str, folder: Path, tell: Callable[[str], None]
) -> list[JobFile]:
    """
    The models of a suite as files, which are written into a folder; `tell` is told of
    each. Raises UsageError where PyTorch is not installed.
    """
    exports, found = exporter(), list[JobFile]()
    for name in sorted(exports.MODELS):
        tell(f"export {name}")
        path = folder / f"{suite}-{name}.onnx"
        exports.export(name, path, small=SUITES[suite])
        found.append(JobFile(name if suite == "exported" else f"{name}-small", path))
    return found
