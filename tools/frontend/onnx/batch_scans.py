"""
Scans of opset 8, the only version whose scans run over batches: each is a loop over the
sequences of the batch, with a loop over the elements of one inside.

They are written so before a model is brought to a newer version: the converter of ONNX
takes the batch for an axis that is not there.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
)

from penstock.tools.frontend.onnx.definitions import is_standard
from penstock.tools.frontend.onnx.expansion import graph_of

INSIDE = "//batch"
"""The mark in the names of values that are added, which no other value has."""


def without_batch_scans(model: ModelProto) -> ModelProto:
    """
    A model of opset 8 with loops in place of its scans. Raises ValueError for a scan
    that is given the lengths of its sequences.
    """
    changed = ModelProto()
    changed.CopyFrom(model)
    _rewrite(changed.graph)
    return changed


def _rewrite(graph: GraphProto) -> None:
    nodes: list[NodeProto] = []
    for proto in graph.node:
        for attribute in proto.attribute:
            if attribute.HasField("g"):
                _rewrite(attribute.g)
        is_scan = proto.op_type == "Scan" and is_standard(proto)
        nodes += _loops(proto) if is_scan else [proto]
    copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def _loops(proto: NodeProto) -> list[NodeProto]:
    """The nodes that a scan is."""
    lengths, *operands = proto.input
    if lengths:
        raise ValueError("a scan of sequences of several lengths is not read")
    attributes = {each.name: each for each in proto.attribute}
    count, graph = attributes["num_scan_inputs"].i, graph_of(proto, "body")
    backward = [False] * count
    if "directions" in attributes:
        backward = [*map(bool, attributes["directions"].ints)]
    name = f"{next(filter(None, proto.output))}{INSIDE}"
    state, scanned = operands[:-count], operands[-count:]
    own = [f"{name} {index}" for index in range(len(operands))]
    inner = _inner(graph, name, own[-count:], backward)
    outputs = [f"{name} out {index}" for index in range(len(graph.output))]
    body = helper.make_graph(
        [
            *(
                helper.make_node("Gather", [whole, f"{name} number"], [part], axis=0)
                for whole, part in zip(operands, own, strict=True)
            ),
            *_same_condition(name),
            helper.make_node(
                "Loop", [f"{name} steps", "", *own[: len(state)]], outputs, body=inner
            ),
        ],
        f"{name} body",
        _counters(name),
        [_value(f"{name} goes on", TensorProto.BOOL), *map(_any, outputs)],
    )
    return [
        *_extent(scanned[0], 0, f"{name} extent"),
        *_extent(scanned[0], 1, f"{name} steps"),
        helper.make_node("Loop", [f"{name} extent", ""], proto.output, body=body),
    ]


def _inner(
    graph: GraphProto, name: str, scanned: Sequence[str], backward: Sequence[bool]
) -> GraphProto:
    """The body of a loop over the elements of one sequence."""
    kept = len(graph.input) - len(scanned)
    last = f"{name} last"
    one = helper.make_tensor(f"{name} one", TensorProto.INT64, [], [1])
    own = f"{name} step"
    nodes = [
        helper.make_node("Constant", [], [one.name], value=one),
        helper.make_node("Sub", [f"{name} steps", one.name], [last]),
        helper.make_node("Sub", [last, f"{own} number"], [f"{own} from end"]),
    ]
    for whole, value, is_backward in zip(
        scanned, graph.input[kept:], backward, strict=True
    ):
        place = f"{own} from end" if is_backward else f"{own} number"
        nodes.append(helper.make_node("Gather", [whole, place], [value.name], axis=0))
    return helper.make_graph(
        [*nodes, *graph.node, *_same_condition(own)],
        graph.name,
        [*_counters(own), *graph.input[:kept]],
        [_value(f"{own} goes on", TensorProto.BOOL), *graph.output],
        initializer=graph.initializer,
    )


def _extent(value: str, axis: int, result: str) -> list[NodeProto]:
    """The nodes that make the extent of an axis."""
    place = helper.make_tensor(f"{result} axis", TensorProto.INT64, [], [axis])
    return [
        helper.make_node("Shape", [value], [f"{result} shape"]),
        helper.make_node("Constant", [], [place.name], value=place),
        helper.make_node("Gather", [f"{result} shape", place.name], [result], axis=0),
    ]


def _same_condition(name: str) -> list[NodeProto]:
    """The node that lets another iteration follow."""
    return [helper.make_node("Identity", [f"{name} goes"], [f"{name} goes on"])]


def _counters(name: str) -> list[ValueInfoProto]:
    """The first two inputs of a body."""
    return [
        _value(f"{name} number", TensorProto.INT64),
        _value(f"{name} goes", TensorProto.BOOL),
    ]


def _value(name: str, element: int) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, element, [])


def _any(name: str) -> ValueInfoProto:
    return ValueInfoProto(name=name)
