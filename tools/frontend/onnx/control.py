"""Converters of control flow: branches, loops and scans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from onnx import GraphProto, NodeProto, OperatorSetIdProto
from xdsl.ir import Block, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.body import YieldOp, isolate, values_outside, yield_of
from penstock.dialects.op.condition import IfOp
from penstock.dialects.op.tensor_op import can_fail
from penstock.dialects.utils.tensors import tensor_type
from penstock.tools.frontend.onnx.expansion import (
    graph_of,
    inner_names,
    passed_on,
)
from penstock.tools.frontend.onnx.graph import (
    AlreadyReported,
    JobBuilder,
    Node,
    NotKnown,
    Unsupported,
)
from penstock.tools.frontend.onnx.loops import Iteration, Made, add_loop
from penstock.tools.frontend.onnx.ops import Array, Value

Opsets: TypeAlias = Sequence[OperatorSetIdProto]

MOST_STEPS = 10_000
"""The most iterations of a loop that is unrolled."""

YES = np.asarray(True)
ENDLESS = "how often it runs is only known at run time"


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

    def trial(self) -> AbstractContextManager[None]:
        """Take back all that is read, where that ends in an exception."""
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


class Step(NamedTuple):
    """The values of an iteration, and the condition that another one follows."""

    made: Made
    goes_on: Value


@dataclass(frozen=True)
class Steps:
    """A graph inside of a node, which runs several times."""

    bodies: Bodies
    proto: NodeProto
    name: str
    opsets: Opsets
    graph: GraphProto
    is_loop: bool
    """Whether it is given the number of an iteration and a condition, and makes one."""

    def read(self, given: Iteration | Known, prefix: str) -> Step:
        """The values of an iteration."""
        counted = [given.number, YES] if self.is_loop else []
        inputs = [*counted, *given.state, *given.slices]
        results = self.bodies.read_graph(
            self.proto, self.graph, self.name, inputs, self.opsets, prefix
        )
        goes_on = results.pop(0) if self.is_loop else YES
        kept = len(given.state)
        return Step(Made(results[:kept], results[kept:]), goes_on)

    def repeated(
        self,
        count: int | None,
        state: Sequence[Value],
        slices: Sequence[Value],
        *,
        backward: bool = False,
    ) -> Made:
        """
        The results of `count` iterations: a loop where that can be said, or else they
        are read one after the other, which is enough where all they need is known.
        """
        if count is not None and count != 1 and not self._is_known():
            try:
                with self.bodies.trial():
                    return self.looped(count, state, slices, backward=backward)
            except (AlreadyReported, Unsupported, VerifyException):
                pass  # Numbers of iterations may tell shapes.
        return self.unrolled(count, state, slices, backward=backward)

    def _is_known(self) -> bool:
        """Whether all values that it reads are known."""
        values = self.bodies.builder.values
        names = {*self.proto.input, *inner_names(self.proto)} & values.keys()
        return not any(isinstance(values[name], SSAValue) for name in names)

    def looped(
        self,
        count: int,
        state: Sequence[Value],
        slices: Sequence[Value],
        *,
        backward: bool = False,
    ) -> Made:
        """The results of a loop of which each iteration is followed by another one."""
        kept, all_state = self._carried(len(state)), [*state]

        def body(given: Iteration) -> Made:
            inside = [*all_state]
            for index, value in zip(kept, given.state, strict=True):
                inside[index] = value
            step = self.read(Iteration(given.number, inside, given.slices), "")
            if isinstance(step.goes_on, SSAValue) or not step.goes_on.all():
                raise Unsupported(ENDLESS)
            return Made([step.made.state[index] for index in kept], step.made.rows)

        builder, carried = self.bodies.builder, [state[index] for index in kept]
        made = add_loop(builder, count, carried, slices, body, backward=backward)
        for index, value in zip(kept, made.state, strict=True):
            all_state[index] = value
        return Made(all_state, made.rows)

    def _carried(self, count: int) -> list[int]:
        """The places of the state that an iteration does not leave as it is."""
        same, first = passed_on(self.graph), 2 if self.is_loop else 0
        outputs = [value.name for value in self.graph.output][
            1 if self.is_loop else 0 :
        ]
        inputs = [value.name for value in self.graph.input][first:]
        return [i for i in range(count) if same.get(outputs[i]) != inputs[i]]

    def unrolled(
        self,
        count: int | None,
        state: Sequence[Value],
        slices: Sequence[Value],
        *,
        backward: bool = False,
    ) -> Made:
        """The results of iterations that are read one after the other."""
        ops, rows = self.bodies.builder.ops, list[Sequence[Value]]()
        while count is None or len(rows) < count:
            if len(rows) == MOST_STEPS:
                raise Unsupported(f"it takes more than {MOST_STEPS} steps")
            number = count - 1 - len(rows) if backward and count else len(rows)
            parts = [ops.pick(value, 0, number) for value in slices]
            given = Known(np.asarray(number), state, parts)
            (state, row), goes_on = self.read(given, f"{len(rows)}/")
            if isinstance(goes_on, SSAValue):
                raise Unsupported(ENDLESS)
            rows.append(row)
            if not goes_on.all():
                break
        if not rows and len(self.graph.output) - self.is_loop > len(state):
            raise Unsupported("it has no steps that tell the shapes of its outputs")
        if backward:
            rows.reverse()
        columns = zip(*rows, strict=True)
        return Made(state, [ops.stack(column, 0) for column in columns])


class Known(NamedTuple):
    """The values that an iteration of a known number is given."""

    number: Array
    state: Sequence[Value]
    slices: Sequence[Value]


def read_loop(bodies: Bodies, proto: NodeProto, name: str, opsets: Opsets) -> None:
    """Read a loop whose number of iterations follows from what is known."""
    node, graph = Node(proto, bodies.builder), graph_of(proto, "body")
    most = int(node.known_number(0, "the trip count")) if node.has(0) else None
    if node.has(1) and not node.known_number(1, "the condition"):
        most = 0
    steps = Steps(bodies, proto, name, opsets, graph, is_loop=True)
    state = [node.value(index) for index in range(2, len(node.inputs))]
    made = steps.repeated(None if most is None else max(most, 0), state, [])
    for index, value in enumerate([*made.state, *made.rows]):
        node.give_value(value, index)


def read_scan(bodies: Bodies, proto: NodeProto, name: str, opsets: Opsets) -> None:
    """Read a graph that runs once for each place of an axis."""
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
    backward = bool(in_back[0])
    slices: list[Value] = []
    for value, axis, back in zip(scanned, in_axes, in_back, strict=True):
        first = ops.moved(value, axis, 0)
        slices.append(ops.reversed(first, 0) if bool(back) != backward else first)
    extents = [ops.shape(value)[0] for value in slices]
    if len({*extents}) > 1:
        raise Unsupported(f"its inputs should have one number of steps, got {extents}")
    steps = Steps(bodies, proto, name, opsets, graph, is_loop=False)
    made = steps.repeated(extents[0], state, slices, backward=backward)
    for index, value in enumerate(made.state):
        node.give_value(value, index)
    # Rows lie where their slices do, so that a loop that goes backward ends at the
    # first one, as an output does to which rows are prepended.
    for index, row in enumerate(made.rows):
        if bool(out_back[index]) != backward:
            row = ops.reversed(row, 0)
        node.give_value(ops.moved(row, 0, out_axes[index]), len(state) + index)


CONTROL: Mapping[str, Callable[[Bodies, NodeProto, str, Opsets], None]] = {
    "If": read_if,
    "Loop": read_loop,
    "Scan": read_scan,
}
"""The readers of nodes with graphs inside, by their ops."""
