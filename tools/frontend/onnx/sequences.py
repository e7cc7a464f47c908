"""
Sequences of tensors whose number is known, such as those that a value is split to, or
that loops append to; and optionals, of which it is known whether they have an element.

Sequences are stacks of tensors of one shape, so that a loop has one for all its
iterations. An optional is its element.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from onnx import GraphProto, NodeProto
from xdsl.ir import SSAValue

from penstock.dialects.op.movement import GatherOp
from penstock.dialects.op.verify import normal_axis
from penstock.tools.frontend.onnx.graph import Node, Unsupported
from penstock.tools.frontend.onnx.ops import Ops, Value

Stacks = list[Value]
"""Tensors one after the other, those of one shape on the first axis of a value."""


def length_of(ops: Ops, stacks: Stacks) -> int:
    """The number of tensors of a sequence."""
    return sum(ops.shape(stack)[0] for stack in stacks)


def items_of(ops: Ops, stacks: Stacks) -> Stacks:
    """A stack for each tensor of a sequence."""
    return [
        ops.slice(stack, 0, place, place + 1)
        for stack in stacks
        for place in range(ops.shape(stack)[0])
    ]


def of_one(ops: Ops, value: Value) -> Value:
    """A tensor as a stack."""
    return ops.reshape(value, [1, *ops.shape(value)])


def construct(node: Node) -> None:
    """A sequence of the operands."""
    values = [node.value(index) for index in range(len(node.inputs))]
    node.give_item([of_one(node.ops, value) for value in values])


def empty(node: Node) -> None:
    """A sequence of nothing."""
    node.give_item([])


def split(node: Node) -> None:
    """A sequence of the parts of a value along an axis."""
    ops, value = node.ops, node.value()
    axis = normal_axis(node.int("axis", 0), len(node.shape()))
    extent = node.shape()[axis]
    if not node.has(1):
        stack = ops.moved(value, axis, 0)
        if node.int("keepdims", 1):
            shape = ops.shape(stack)
            shape.insert(axis + 1, 1)
            stack = ops.reshape(stack, shape)
        node.give_item([stack])
        return
    sizes = node.known_ints(1, "'split'")
    if not node.known(1, "'split'").shape:
        (size,) = sizes
        if size < 1:
            raise Unsupported(f"parts should have at least 1 element, got {size}")
        sizes = [min(size, extent - start) for start in range(0, extent, size)]
    if sum(sizes) != extent or min(sizes, default=0) < 0:
        raise Unsupported(f"parts of {sizes} elements do not make {extent}")
    ends = np.cumsum(sizes).tolist()
    parts = zip([0, *ends], ends, strict=False)
    node.give_item([of_one(ops, ops.slice(value, axis, *part)) for part in parts])


def at(node: Node) -> None:
    """One tensor of a sequence."""
    ops, stacks, position = node.ops, node.stacks(), node.value(1)
    if isinstance(position, SSAValue):
        node.give_value(ops.one(GatherOp, one_stack(ops, stacks), position, axis=0))
        return
    items = items_of(ops, stacks)
    place = place_in(node, 1, len(items) - 1)
    node.give_value(ops.pick(items[place], 0, 0))


def place_in(node: Node, index: int, last: int) -> int:
    """The known place in a sequence that an operand says."""
    (place,) = node.known_ints(index, "the position")
    if not -last - 1 <= place <= last:
        raise Unsupported(f"there is no place {place} in a sequence of {last + 1}")
    return place % (last + 1)


def one_stack(ops: Ops, stacks: Stacks) -> Value:
    """A sequence of tensors of one shape as one stack."""
    shapes = {tuple(ops.shape(stack)[1:]) for stack in stacks}
    if len(shapes) != 1:
        raise Unsupported("tensors of a sequence differ in shape, or there is none")
    return ops.concat(stacks, 0)


def insert(node: Node) -> None:
    """A sequence with one tensor more."""
    stacks, added = node.stacks(), of_one(node.ops, node.value(1))
    if not node.has(2):
        node.give_item([*stacks, added])
        return
    items = items_of(node.ops, stacks)
    (place,) = node.known_ints(2, "the position")
    if not -len(items) <= place <= len(items):
        raise Unsupported(f"there is no place {place} in a sequence of {len(items)}")
    items.insert(place, added)
    node.give_item(items)


def erase(node: Node) -> None:
    """A sequence without one of its tensors."""
    items = items_of(node.ops, node.stacks())
    del items[place_in(node, 1, len(items) - 1) if node.has(1) else -1]
    node.give_item(items)


def length(node: Node) -> None:
    """The number of tensors, which is known but for what loops append."""
    ops, extents, total = node.ops, node.builder.extents, np.asarray(0)
    for stack in node.stacks():
        known = np.asarray(ops.shape(stack)[0])
        total = ops.add(total, extents.of(stack).get(0, known))
    node.give_value(total)


def concat(node: Node) -> None:
    """The tensors of a sequence along an axis that they have, or along a new one."""
    ops, stacks, axis = node.ops, node.stacks(), node.int("axis", 0)
    if not stacks:
        raise Unsupported("there are no tensors in the sequence")
    rank = len(ops.shape(stacks[0])) - 1
    if node.int("new_axis", 0):
        place = normal_axis(axis, rank + 1)
        node.give_value(ops.moved(one_stack(ops, stacks), 0, place))
        return
    place = normal_axis(axis, rank)
    parts: list[Value] = []
    for stack in stacks:
        count, *shape = ops.shape(stack)
        shape[place] *= count
        parts.append(ops.reshape(ops.moved(stack, 0, place), shape))
    node.give_value(ops.concat(parts, place))


def optional(node: Node) -> None:
    """An optional: the operand, or no element."""
    node.give_item(node.item() if node.has(0) else None)


def element(node: Node) -> None:
    """The element of an optional."""
    if (item := node.item()) is None:
        raise Unsupported(f"'{node.inputs[0]}' has no element")
    node.give_item(item)


def has_element(node: Node) -> None:
    """Whether an optional has an element."""
    node.give_value(np.asarray(node.has(0) and node.item() is not None))


SEQUENCES: Mapping[str, Callable[[Node], None]] = {
    "ConcatFromSequence": concat,
    "Optional": optional,
    "OptionalGetElement": element,
    "OptionalHasElement": has_element,
    "SequenceAt": at,
    "SequenceConstruct": construct,
    "SequenceEmpty": empty,
    "SequenceErase": erase,
    "SequenceInsert": insert,
    "SequenceLength": length,
    "SplitToSequence": split,
}
"""The readers of nodes about sequences and optionals, by their ops."""


def appending(graph: GraphProto, given: str, result: str) -> tuple[str, int] | None:
    """
    The value that a body appends to a sequence, and the place of the node; None if that
    is not all that it does with the sequence `given`, of which it makes `result`.
    """
    users = [
        (place, node)
        for place, node in enumerate(graph.node)
        if given in node.input or result in node.input
    ]
    if len(users) != 1:
        return None
    ((place, node),) = users
    is_append = node.op_type == "SequenceInsert" and len(node.input) == 2
    if not is_append or node.input[0] != given or node.output[0] != result:
        return None
    return node.input[1], place


def stacking(
    proto: NodeProto, graph: GraphProto, places: Sequence[int]
) -> tuple[NodeProto, GraphProto]:
    """
    A loop that stacks, as its last outputs, what it has appended to the sequences that
    are its states of these places. Raises `Unsupported` where it does more with them.
    """
    node, body = NodeProto(), GraphProto()
    node.CopyFrom(proto)
    body.CopyFrom(graph)
    node.output.extend([""] * (len(graph.output) - 1 - len(proto.output)))
    removed: list[int] = []
    names: list[str] = []
    for place in places:
        given, result = graph.input[2 + place].name, graph.output[1 + place].name
        if (found := appending(graph, given, result)) is None:
            raise Unsupported(f"it does more with the sequence '{given}' than append")
        value, position = found
        removed.append(position)
        names.append(value)
    for position in sorted(removed, reverse=True):
        del body.node[position]
    for place in sorted(places, reverse=True):
        del body.input[2 + place], body.output[1 + place]
        del node.input[2 + place], node.output[place]
    for name in names:
        body.output.add().name = name
    node.output.extend(proto.output[place] for place in places)
    return node, body
