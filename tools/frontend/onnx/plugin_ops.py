"""Converters of nodes: ours, and those of plug-ins, of the kind `onnx-op`."""

from __future__ import annotations

from typing import cast

from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.plugins import PlugIn, PluginError, names_of, plugin_of
from penstock.tools.frontend.onnx.converters import CONVERTERS
from penstock.tools.frontend.onnx.graph import Converter, Declined, Node, Unsupported

KIND = "onnx-op"


def converter_of(name: str) -> Converter | None:
    """
    The converter of an op by its name, with its domain unless that is ONNX's own; None
    if there is none.

    That of a plug-in raises `Unsupported` with its name and line, whatever fails in it.
    """
    if name in CONVERTERS:
        return CONVERTERS[name]
    if name not in names_of(KIND):
        return None

    def convert(node: Node) -> None:
        plugin = plugin_of(KIND, name)
        try:
            plugin.call(node)
            check_outputs(node, plugin)
        except PluginError as error:
            # A node of another kind is no fault of the plug-in that asked for it.
            if isinstance(error.__cause__, Unsupported | Declined | VerifyException):
                raise error.__cause__ from None
            raise Unsupported(str(error)) from error

    return convert


def check_outputs(node: Node, plugin: PlugIn) -> None:
    """Refuse outputs that are neither tensors of the job nor arrays."""
    import numpy as np

    for name in filter(None, node.outputs):
        value = cast("object", node.builder.values.get(name))
        if value is not None and not isinstance(value, SSAValue | np.ndarray):
            del node.builder.values[name]
            plugin.refuse(f"gives output '{name}' of type {type(value).__name__}")
