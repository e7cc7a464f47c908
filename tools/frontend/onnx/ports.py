"""
Inputs and outputs of models that are no tensors. A sequence `s` is as many tensors,
`s.0`, `s.1` and so on; an optional is its element, or nothing.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from itertools import count, takewhile

from onnx import GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto, helper

from penstock.tools.frontend.onnx.ops import Array


def tensor_name(sequence: str, place: int) -> str:
    """The name of the input or output that is a tensor of a sequence."""
    return f"{sequence}.{place}"


def inputs_of(graph: GraphProto) -> list[ValueInfoProto]:
    """The inputs of a graph that have no value of their own."""
    own = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in own]


def with_tensors(model: ModelProto, arrays: Mapping[str, Array]) -> ModelProto:
    """
    A model whose inputs are tensors, given arrays for them. Those that are sequences,
    or optionals, are made of them by its first nodes.
    """
    others = [x for x in inputs_of(model.graph) if _part(x.type) is not None]
    if not others:
        return model
    changed = ModelProto()
    changed.CopyFrom(model)
    inputs: list[ValueInfoProto] = []
    nodes: list[NodeProto] = []
    for value in model.graph.input:
        if value not in others:
            inputs.append(value)
            continue
        names = _names(value, arrays)
        inputs += [_tensor(name, value.type, arrays[name]) for name in names]
        nodes += _made(value, names)
    del changed.graph.input[:], changed.graph.node[:]
    changed.graph.input.extend(inputs)
    changed.graph.node.extend([*nodes, *model.graph.node])
    return changed


def _part(type: TypeProto) -> TypeProto | None:
    """The type of what a sequence or an optional has; None for other types."""
    if type.HasField("sequence_type"):
        return type.sequence_type.elem_type
    if type.HasField("optional_type"):
        return type.optional_type.elem_type
    return None


def _is_sequence(type: TypeProto) -> bool:
    inner = type.optional_type.elem_type if type.HasField("optional_type") else type
    return inner.HasField("sequence_type")


def _names(value: ValueInfoProto, given: Container[str]) -> list[str]:
    """The tensors that an input is made of."""
    if _is_sequence(value.type):
        names = (tensor_name(value.name, place) for place in count())
        return [*takewhile(lambda name: name in given, names)]
    return [value.name] if value.name in given else []


def _tensor(name: str, type: TypeProto, array: Array) -> ValueInfoProto:
    """An input that is a tensor of another one, of the shape of an array."""
    while (part := _part(type)) is not None:
        type = part
    return helper.make_tensor_value_info(name, type.tensor_type.elem_type, array.shape)


def _made(value: ValueInfoProto, names: list[str]) -> list[NodeProto]:
    """The nodes that make an input of tensors."""
    if names == [value.name]:
        return []
    if names:
        return [helper.make_node("SequenceConstruct", names, [value.name])]
    if value.type.HasField("optional_type"):
        element = value.type.optional_type.elem_type
        return [helper.make_node("Optional", [], [value.name], type=element)]
    return [helper.make_node("SequenceEmpty", [], [value.name])]
