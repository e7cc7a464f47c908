"""Sources: arrays, files, images, lines of text, iterators, and those of plug-ins."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from penstock.plugins import PluginError, plugin_of
from penstock.tools.data.errors import DataError
from penstock.tools.data.sources.image_folder import images
from penstock.tools.data.sources.in_memory import arrays, npz
from penstock.tools.data.sources.iterated import iterator
from penstock.tools.data.sources.tensor_files import safetensors
from penstock.tools.data.sources.text_lines import text
from penstock.tools.data.types import Samples, Source

BUILT_IN: Mapping[str, Callable[..., Source | Samples]] = {
    "arrays": arrays,
    "images": images,
    "iterator": iterator,
    "npz": npz,
    "safetensors": safetensors,
    "text": text,
}
"""Our own sources, by the names that `penstock-opt --list data-source` shows."""


def source(kind: str, *arguments: object, **options: object) -> Source | Samples:
    """
    The source of a `kind` of ours or of a plug-in, made of `arguments` and `options`.

    `data.source("npz", "train.npz")` is `data.npz("train.npz")`.

    **Raises** DataError for an unknown kind, and if a plug-in fails or returns no
    source.
    """
    if (own := BUILT_IN.get(kind)) is not None:
        return own(*arguments, **options)
    try:
        plugin = plugin_of("data-source", kind)
        made = plugin.call(*arguments, **options)
        if not isinstance(made, Source | Samples):
            plugin.refuse(f"returns no Source or Samples but {type(made).__name__}")
    except PluginError as error:
        raise DataError(str(error)) from error
    return made
