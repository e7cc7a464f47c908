"""Lookup of ops in the opsets that a model imports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import onnx
from onnx import ModelProto, NodeProto, OperatorSetIdProto

UNDEFINED = "penstock.undefined"
"""
The domain that ops without a definition get, so that the checker of ONNX, and its
converter of old models, pass them by.
"""


def is_standard(proto: NodeProto) -> bool:
    """Whether an op is meant to be one of ONNX's own."""
    return proto.domain in ("", "ai.onnx")


def is_undefined(proto: NodeProto, opsets: Iterable[OperatorSetIdProto]) -> bool:
    """Whether an op of ONNX's own domain is none of its opset, or was none."""
    if not is_standard(proto):
        return proto.domain == UNDEFINED
    versions = (each.version for each in opsets if each.domain in ("", "ai.onnx"))
    version = next(versions, 1)
    return not onnx.defs.has(proto.op_type, version, "")


def undefined_nodes(model: ModelProto) -> list[NodeProto]:
    """
    The nodes of ops that neither ONNX nor the model defines, those in graphs inside of
    other nodes too.
    """
    own = {function.name for function in model.functions}
    return [
        proto
        for proto in nodes_in(model.graph.node)
        if proto.op_type not in own and is_undefined(proto, model.opset_import)
    ]


def nodes_in(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Nodes, and those of the graphs inside of them."""
    for proto in nodes:
        yield proto
        for attribute in proto.attribute:
            for graph in (attribute.g, *attribute.graphs):
                yield from nodes_in(graph.node)
