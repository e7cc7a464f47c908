"""Converters of control flow: branches, and loops unrolled step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from onnx import GraphProto, NodeProto, OperatorSetIdProto
from xdsl.ir import Block, Region, SSAValue

from penstock.dialects.op.body import YieldOp, isolate, values_outside, yield_of
from penstock.dialects.op.condition import IfOp
from penstock.dialects.op.tensor_op import can_fail
from penstock.dialects.utils.tensors import tensor_type
from penstock.tools.frontend.onnx.expansion import graph_of
from penstock.tools.frontend.onnx.graph import (
    AlreadyReported,
    JobBuilder,
    Node,
    NotKnown,
    Unsupported,
)
from penstock.tools.frontend.onnx.ops import Value

Opsets: TypeAlias = Sequence[OperatorSetIdProto]

MOST_STEPS = 10_000
"""The most iterations of a loop that is unrolled."""


class Bodies(Protocol):
    """The reader of graphs inside of nodes."""

    builder: JobBuilder

    def read_graph(
        self,
        proto: NodeProto,
        graph: GraphProto,
        name: str,
        given: Sequence[Value],
        opsets: Opsets,
        prefix: str,
    ) -> list[Value]:
        """The outputs of a graph inside of a node for some inputs."""
        ...


def read_if(bodies: Bodies, proto: NodeProto, name: str, opsets: Opsets) -> None:
    """Read both branches of a condition, or the one that it is known to choose."""
    node = Node(proto, bodies.builder)
    if isinstance(condition := node.value(0), SSAValue):
        read_branches(bodies, proto, name, opsets, condition)
        return
    branch = "then_branch" if node.known_number(0, "the condition") else "else_branch"
    graph = graph_of(proto, branch)
    results = bodies.read_graph(proto, graph, name, [], opsets, "")
    for index, value in enumerate(results):
        node.give_value(value, index)


def read_branches(
    bodies: Bodies, proto: NodeProto, name: str, opsets: Opsets, condition: SSAValue
) -> None:
    """
    Read a condition as an op. Raises `NotKnown` where both branches cannot be computed
    whatever it is.
    """
    node, builder = Node(proto, bodies.builder), bodies.builder
    blocks: list[Block] = []
    for branch in ("then_branch", "else_branch"):
        graph = graph_of(proto, branch)
        with builder.body() as block:
            try:
                results = bodies.read_graph(
                    proto, graph, name, [], opsets, f"{branch}/"
                )
            except AlreadyReported:
                raise NotKnown(f"'{branch}' cannot be read", node.inputs[0]) from None
            block.add_op(YieldOp(*map(builder.as_tensor, results)))
        blocks.append(block)
    check_branches(blocks, node.inputs[0])
    reads = values_outside(blocks)
    for block in blocks:
        isolate(block, reads)
    shape = tensor_type(condition).get_shape()
    choice = builder.as_tensor(node.ops.reshape(condition, [])) if shape else condition
    made = builder.insert(IfOp(choice, reads, *map(Region, blocks)))
    for index, value in enumerate(made):
        node.give_value(value, index)


def check_branches(blocks: Sequence[Block], condition: str) -> None:
    """Raise `NotKnown` if results differ in type, or ops of a branch can fail."""
    types = [[value.type for value in yield_of(block).values] for block in blocks]
    if types[0] != types[1]:
        raise NotKnown("the types of results follow from its condition", condition)
    for op in (op for block in blocks for op in block.ops if can_fail(op)):
        raise NotKnown(f"{op.name} in a branch can fail", condition)


def read_loop(bodies: Bodies, proto: NodeProto, name: str, opsets: Opsets) -> None:
    """Read a loop whose steps are known as many times."""
    node, graph = Node(proto, bodies.builder), graph_of(proto, "body")
    most = int(node.known_number(0, "the trip count")) if node.has(0) else None
    going = not node.has(1) or bool(node.known_number(1, "the condition"))
    state = [node.value(index) for index in range(2, len(node.inputs))]
    rows: list[list[Value]] = []
    while going and (most is None or len(rows) < most):
        if len(rows) == MOST_STEPS:
            raise Unsupported(f"it takes more than {MOST_STEPS} steps")
        given: list[Value] = [np.asarray(len(rows)), np.asarray(True), *state]
        prefix = f"{len(rows)}/"
        again, *results = bodies.read_graph(proto, graph, name, given, opsets, prefix)
        if isinstance(again, SSAValue):
            raise Unsupported("how often it runs is only known at run time")
        going, state = bool(again), results[: len(state)]
        rows.append(results[len(state) :])
    give_steps(node, state, rows, len(graph.output) - 1 - len(state))


def give_steps(
    node: Node, state: Sequence[Value], rows: list[list[Value]], count: int
) -> None:
    """Give the last state, and what each step has added to the other outputs."""
    for index, value in enumerate(state):
        node.give_value(value, index)
    if count and not rows:
        raise Unsupported("it has no steps that tell the shapes of its outputs")
    for index in range(count):
        node.give_value(
            node.ops.stack([row[index] for row in rows], 0), len(state) + index
        )


def read_scan(bodies: Bodies, proto: NodeProto, name: str, opsets: Opsets) -> None:
    """Read a graph once for each place of an axis."""
    node, graph = Node(proto, bodies.builder), graph_of(proto, "body")
    ops, count = node.ops, node.int("num_scan_inputs", 1)
    if node.inputs and not node.inputs[0]:
        raise Unsupported("the form of opset 8 is not read")
    values = [node.value(index) for index in range(len(node.inputs))]
    state, scanned = values[:-count], values[-count:]
    outputs = len(graph.output) - len(state)
    in_axes, out_axes, in_back, out_back = (
        node.ints(f"scan_{side}_{what}") or [0] * size
        for what in ("axes", "directions")
        for side, size in (("input", count), ("output", outputs))
    )
    extents = [ops.shape(v)[a] for v, a in zip(scanned, in_axes, strict=True)]
    rows: list[list[Value]] = []
    for step in range(extents[0]):
        parts: list[Value] = []
        rows_in = zip(scanned, in_axes, in_back, extents, strict=True)
        for value, axis, back, extent in rows_in:
            place = extent - 1 - step if back else step
            parts.append(ops.pick(value, axis % len(ops.shape(value)), place))
        results = bodies.read_graph(
            proto, graph, name, [*state, *parts], opsets, f"{step}/"
        )
        state = results[: len(state)]
        rows.append(results[len(state) :])
    if not rows:
        raise Unsupported("it has no steps that tell the shapes of its outputs")
    for index, value in enumerate(state):
        node.give_value(value, index)
    for index in range(outputs):
        column = [row[index] for row in rows]
        if out_back[index]:
            column.reverse()
        axis = out_axes[index] % (len(ops.shape(column[0])) + 1)
        node.give_value(ops.stack(column, axis), len(state) + index)


CONTROL: Mapping[str, Callable[[Bodies, NodeProto, str, Opsets], None]] = {
    "If": read_if,
    "Loop": read_loop,
    "Scan": read_scan,
}
"""The readers of nodes with graphs inside, by their ops."""
