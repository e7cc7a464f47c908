"""The extension that Model Explorer loads: it needs `ai-edge-model-explorer`."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from penstock.tools.reports.model_explorer.graphs import graph_of
from penstock.tools.session.program_file import program_in

# It is no dependency: with what it needs it takes 661 MB.
_EXPLORER: Any = import_module("model_explorer")


class PenstockAdapter(_EXPLORER.Adapter):
    """Shows IR of any level, and saved plans, by their launch programs."""

    metadata = _EXPLORER.AdapterMetadata(
        id="penstock",
        name="Penstock",
        description="Tasks of programs that Penstock compiles",
        fileExts=["mlir", "penstock"],
    )

    def convert(self, model_path: str, settings: dict[str, Any]) -> dict[str, Any]:
        """The graphs of a file. Model Explorer shows the text of errors."""
        graph = graph_of(program_in(Path(model_path)))
        return {"graphs": [_EXPLORER.graph_builder.Graph(**graph)]}
