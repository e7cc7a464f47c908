"""
Expansion of nodes: function bodies that ONNX defines ops by, and graphs inside of
nodes.

The nodes inside are inlined under names of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol, TypeAlias, cast

import onnx
from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    NodeProto,
    TypeProto,
    helper,
)
from xdsl.ir import SSAValue

from penstock.dialects.utils.numpy_types import dtype_of
from penstock.dialects.utils.tensors import tensor_type
from penstock.tools.frontend.onnx.graph import Item

Rename: TypeAlias = Callable[[str], str]


class _Schema(Protocol):
    """Of the definition of an op, what `onnx` leaves without annotations."""

    has_function: bool
    has_context_dependent_function: bool
    function_opset_versions: Sequence[int]
    context_dependent_function_opset_versions: Sequence[int]
    attributes: Mapping[str, _Default]

    def get_function_with_opset_version(self, version: int) -> bytes: ...
    def get_context_dependent_function_with_opset_version(
        self, version: int, node: bytes, types: Sequence[bytes]
    ) -> bytes: ...


class _Default(Protocol):
    """Of the definition of an attribute, what `onnx` leaves without annotations."""

    default_value: AttributeProto


def function_of(
    proto: NodeProto, version: int, operands: Sequence[Item]
) -> FunctionProto | None:
    """
    The function body of a node of an opset, for operands like these; None if it has
    none. Attributes are filled in.
    """
    schema = schema_of(proto, version)
    if schema is None:
        return None
    found: bytes | None = None
    if schema.has_context_dependent_function:
        newest = latest(schema.context_dependent_function_opset_versions, version)
        types = [type_of(value).SerializeToString() for value in operands]
        found = schema.get_context_dependent_function_with_opset_version(
            newest, proto.SerializeToString(), types
        )
    elif schema.has_function:
        newest = latest(schema.function_opset_versions, version)
        found = schema.get_function_with_opset_version(newest)
    if not found:
        return None
    function = FunctionProto.FromString(found)
    defaults = {
        name: attribute.default_value
        for name, attribute in schema.attributes.items()
        if attribute.default_value.name
    }
    given = {attribute.name: attribute for attribute in proto.attribute}
    for node in function.node:
        fill_in(node, {**defaults, **given})
    return function


def schema_of(proto: NodeProto, version: int) -> _Schema | None:
    """The definition of a node's op, if there is one that has a function."""
    if not onnx.defs.has(proto.op_type, version, proto.domain):
        return None
    schema = cast(_Schema, onnx.defs.get_schema(proto.op_type, version, proto.domain))
    has_any = schema.has_function or schema.has_context_dependent_function
    return schema if has_any else None


def latest(versions: Iterable[int], limit: int) -> int:
    """The newest of some versions that is not above a limit, else the oldest one."""
    ordered = sorted(versions)
    return max((v for v in ordered if v <= limit), default=ordered[0])


def type_of(value: Item) -> TypeProto:
    """
    The type of a value as ONNX writes it; nothing for one that is left out, or for a
    sequence of nothing.
    """
    if value is None or value == []:
        return TypeProto()
    if isinstance(value, list):
        element = type_of(value[0])
        element.tensor_type.ClearField("shape")
        return helper.make_sequence_type_proto(element)
    if isinstance(value, SSAValue):
        type = tensor_type(value)
        dtype, shape = dtype_of(type.element_type), type.get_shape()
    else:
        dtype, shape = value.dtype, value.shape
    element = helper.np_dtype_to_tensor_dtype(dtype)
    return helper.make_tensor_type_proto(element, list(shape))


def fill_in(node: NodeProto, given: Mapping[str, AttributeProto]) -> None:
    """Replace what refers to attributes of the function; without one it is left out."""
    filled: list[AttributeProto] = []
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            if attribute.ref_attr_name not in given:
                continue
            copy = AttributeProto()
            copy.CopyFrom(given[attribute.ref_attr_name])
            copy.name = attribute.name
            attribute = copy
        if attribute.HasField("g"):
            for inner in attribute.g.node:
                fill_in(inner, given)
        filled.append(attribute)
    copies = [AttributeProto.FromString(each.SerializeToString()) for each in filled]
    del node.attribute[:]
    node.attribute.extend(copies)


def renamed(node: NodeProto, rename: Rename) -> NodeProto:
    """A node whose values have other names, also where graphs inside of it use them."""
    copy = NodeProto.FromString(node.SerializeToString())
    copy.input[:] = [rename(name) for name in node.input]
    copy.output[:] = [rename(name) for name in node.output]
    for attribute in copy.attribute:
        if attribute.HasField("g"):
            rename_graph(attribute.g, rename)
    return copy


def rename_graph(graph: GraphProto, rename: Rename) -> None:
    """Rename the values around a graph that it uses."""
    own = {value.name for value in graph.input}
    own |= {tensor.name for tensor in graph.initializer}
    own |= {name for node in graph.node for name in node.output}

    def inside(name: str) -> str:
        return name if name in own else rename(name)

    for index, node in enumerate(graph.node):
        graph.node[index].CopyFrom(renamed(node, inside))
    for value in graph.output:
        value.name = inside(value.name)


def passed_on(graph: GraphProto) -> Mapping[str, str]:
    """The inputs of a graph that outputs of it are, by the names of these."""
    origins = {value.name: value.name for value in graph.input}
    for node in graph.node:
        if node.op_type == "Identity" and node.input[0] in origins:
            origins[node.output[0]] = origins[node.input[0]]
    names = (value.name for value in graph.output)
    return {name: origins[name] for name in names if name in origins}


def graph_of(proto: NodeProto, name: str) -> GraphProto:
    """The graph that is an attribute of a node."""
    return next(each.g for each in proto.attribute if each.name == name)


def inner_names(node: NodeProto) -> set[str]:
    """The names that graphs inside of a node use, their own ones among them."""
    graphs = [each.g for each in node.attribute if each.HasField("g")]
    inner = [proto for graph in graphs for proto in graph.node]
    found = {value.name for graph in graphs for value in graph.output}
    found |= {name for proto in inner for name in proto.input}
    return found.union(*map(inner_names, inner))
