"""Converters of control flow: branches, loops and scans."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from onnx import GraphProto, NodeProto
from xdsl.ir import Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.op.body import YieldOp, isolate, values_outside
from penstock.dialects.op.condition import IfOp
from penstock.dialects.utils.tensors import tensor_type
from penstock.tools.frontend.onnx.branches import Joint, pairs_of
from penstock.tools.frontend.onnx.expansion import graph_of
from penstock.tools.frontend.onnx.extents import CannotFollow
from penstock.tools.frontend.onnx.graph import (
    AlreadyReported,
    Item,
    Node,
    NotKnown,
    Unsupported,
)
from penstock.tools.frontend.onnx.loop_builder import Bound
from penstock.tools.frontend.onnx.loops import (
    MOST_STEPS,
    Bodies,
    Endless,
    Opsets,
    Results,
    Steps,
)
from penstock.tools.frontend.onnx.ops import Value
from penstock.tools.frontend.onnx.sequences import stacking


def read_if(bodies: Bodies, proto: NodeProto, name: str, opsets: Opsets) -> None:
    """Read both branches of a condition, or the one that it is known to choose."""
    node = Node(proto, bodies.builder)
    if isinstance(condition := node.value(0), SSAValue):
        read_branches(bodies, proto, name, opsets, condition)
        return
    branch = "then_branch" if node.known_number(0, "the condition") else "else_branch"
    graph = graph_of(proto, branch)
    results = bodies.read_graph(proto, graph, name, [], opsets, "")
    for index, item in enumerate(results):
        node.give_item(item, index)


def read_branches(
    bodies: Bodies, proto: NodeProto, name: str, opsets: Opsets, condition: SSAValue
) -> None:
    """
    Read a condition as an op. Raises `NotKnown` where both branches cannot be read
    whatever it is, or where it decides the types of results.
    """
    node, builder = Node(proto, bodies.builder), bodies.builder

    def read(branch: str) -> list[Item]:
        graph = graph_of(proto, branch)
        try:
            return bodies.read_graph(proto, graph, name, [], opsets, f"{branch}/")
        except AlreadyReported:
            raise NotKnown(f"'{branch}' cannot be read", node.inputs[0]) from None

    with builder.body() as then:
        first = read("then_branch")
        with builder.body() as otherwise:
            second = read("else_branch")
            try:
                joint = Joint(builder, pairs_of(first, second))
            except CannotFollow as error:
                raise NotKnown(str(error), node.inputs[0]) from None
            otherwise.add_op(YieldOp(*joint.ends(1)))
        then.add_op(YieldOp(*joint.ends(0)))
    blocks = then, otherwise
    reads = values_outside(blocks)
    for block in blocks:
        isolate(block, reads)
    shape = tensor_type(condition).get_shape()
    choice = builder.as_tensor(node.ops.reshape(condition, [])) if shape else condition
    made = builder.insert(IfOp(choice, reads, *map(Region, blocks)))
    left = iter(joint.results(made))
    for index, item in enumerate(first):
        is_sequence = isinstance(item, list)
        node.give_item([next(left) for _ in item] if is_sequence else next(left), index)


def read_loop(bodies: Bodies, proto: NodeProto, name: str, opsets: Opsets) -> None:
    """Read a loop, whose number of iterations may only be known at run time."""
    sequences = bodies.builder.sequences
    if any(value in sequences for value in proto.input[2:]):
        try:
            with bodies.trial():
                read_stacking(bodies, proto, name, opsets)
                return
        except (AlreadyReported, Unsupported, VerifyException):
            pass  # Read step by step, it may do with sequences what it likes.
    read_body(bodies, proto, graph_of(proto, "body"), name, opsets)


def read_stacking(bodies: Bodies, proto: NodeProto, name: str, opsets: Opsets) -> None:
    """Read a loop that appends to sequences; it stacks what it appends."""
    sequences = bodies.builder.sequences
    places = [i for i, value in enumerate(proto.input[2:]) if value in sequences]
    node, body = stacking(proto, graph_of(proto, "body"), places)
    read_body(bodies, node, body, name, opsets)
    for place in places:
        if stack := proto.output[place]:
            first = Node(proto, bodies.builder).stacks(2 + place)
            bodies.builder.give(stack, [*first, bodies.builder.values[stack]])


def read_body(
    bodies: Bodies, proto: NodeProto, graph: GraphProto, name: str, opsets: Opsets
) -> None:
    """Read a loop by its body."""
    node = Node(proto, bodies.builder)
    state = [node.item(index) for index in range(2, len(node.inputs))]
    rows = [i for i in range(len(graph.output)) if node.wants(len(state) + i)]
    steps = Steps(bodies, proto, name, opsets, graph, True, rows)
    first = [node.optional(index) for index in (0, 1)]
    if any(isinstance(value, SSAValue) for value in first):
        made = read_unknown_loop(node, steps, state)
    else:
        made = read_known_loop(node, steps, state)
    give_results(node, made, rows)


def read_unknown_loop(node: Node, steps: Steps, state: Sequence[Item]) -> Results:
    """Read a loop of which it is not known how it starts."""
    bound = bound_of(node, steps)
    try:
        with steps.bodies.trial():
            return steps.bounded(bound, state)
    except (AlreadyReported, Unsupported, VerifyException):
        # Iterations of known numbers may be read one by one.
        text = f"iterations are not alike, and {Endless()}"
        raise NotKnown(text, decisive(node)) from None


def decisive(node: Node) -> str:
    """The name of what decides how often a loop runs."""
    place = 0 if isinstance(node.optional(0), SSAValue) else 1
    return node.inputs[place] if node.has(place) else node.outputs[0]


def read_known_loop(node: Node, steps: Steps, state: Sequence[Item]) -> Results:
    """Read a loop of which it is known how it starts."""
    most = int(node.known_number(0, "the trip count")) if node.has(0) else None
    count = None if most is None else max(most, 0)
    if node.has(1) and not node.known_number(1, "the condition"):
        count = 0
    try:
        with steps.bodies.trial():
            return steps.repeated(count, state, [])
    except Endless:
        return steps.bounded(bound_of(node, steps), state)
    except (AlreadyReported, Unsupported, VerifyException):
        return steps.repeated(count, state, [])  # Says why.


def bound_of(node: Node, steps: Steps) -> Bound:
    """
    The maximum of a loop's iterations: that which it is given, or that of `--max`.
    Raises `NotKnown` without any.
    """
    trips, going = (node.optional(index) for index in (0, 1))
    name, limit = maximum_of(steps)
    known = None if trips is None or isinstance(trips, SSAValue) else int(trips.item())
    bounds = node.builder.extents.bounds
    most = bounds.of(trips) if isinstance(trips, SSAValue) else known
    limits = [x for x in (limit, most) if x is not None]
    if limit is None and min(limits, default=MOST_STEPS + 1) > MOST_STEPS:
        raise NotKnown(f"{Endless()}: give --max {name}=N", decisive(node))
    most = max(min(limits), 1)
    if known is not None and known > most:
        trips = None
    if going is not None and not isinstance(going, SSAValue):
        going = None
    scalar = node.ops.reshape
    return Bound(
        most,
        None if trips is None else scalar(trips, []),
        None if going is None else scalar(going, []),
    )


def maximum_of(steps: Steps) -> tuple[str, int | None]:
    """The name of a loop, and the maximum of iterations that it is given by that."""
    names = loop_names(steps.proto)
    return names[0], next((x for x in map(steps.bodies.maxima.get, names) if x), None)


def loop_names(proto: NodeProto) -> list[str]:
    """The names of a node: its own and those of its outputs, also inside of others."""
    outer = [name.rpartition("/")[2] for name in proto.output]
    return [name for name in (proto.name, *proto.output, *outer) if name]


def give_results(node: Node, made: Results, rows: Sequence[int]) -> None:
    """Give the last state, and those of the stacked outputs that are read."""
    for index, item in enumerate(made.state):
        node.give_item(item, index)
    for index, value in zip(rows, made.rows, strict=True):
        node.give_value(value, len(made.state) + index)


def read_scan(bodies: Bodies, proto: NodeProto, name: str, opsets: Opsets) -> None:
    """Read a graph that runs once for each place of an axis."""
    node, graph = Node(proto, bodies.builder), graph_of(proto, "body")
    ops, count = node.ops, node.int("num_scan_inputs", 1)
    values = [node.value(index) for index in range(len(node.inputs))]
    state, scanned = values[:-count], values[-count:]
    outputs = len(graph.output) - len(state)
    rows = [i for i in range(outputs) if node.wants(len(state) + i)]
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
    steps = Steps(bodies, proto, name, opsets, graph, False, rows)
    made = steps.repeated(extents[0], state, slices, backward=backward)
    # Rows lie where their slices do, so that a loop that goes backward ends at the
    # first one, as an output does to which rows are prepended.
    turned: list[Value] = []
    for index, row in zip(rows, made.rows, strict=True):
        if bool(out_back[index]) != backward:
            row = ops.reversed(row, 0)
        turned.append(ops.moved(row, 0, out_axes[index]))
    give_results(node, Results(made.state, turned), rows)


CONTROL: Mapping[str, Callable[[Bodies, NodeProto, str, Opsets], None]] = {
    "If": read_if,
    "Loop": read_loop,
    "Scan": read_scan,
}
"""The readers of nodes with graphs inside, by their ops."""
