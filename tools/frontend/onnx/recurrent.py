"""Converters of recurrent layers: loops over the steps of a sequence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import i64
from xdsl.ir import SSAValue

from penstock.dialects.op import activation, comparison, elementwise, unary_math
from penstock.dialects.op.linear import MatmulOp
from penstock.tools.frontend.onnx import arithmetic
from penstock.tools.frontend.onnx.graph import Converter, Node, Unsupported
from penstock.tools.frontend.onnx.loop_builder import Iteration, Made, add_loop
from penstock.tools.frontend.onnx.ops import Ops, Value

Function: TypeAlias = Callable[[Ops, Value, float | None, float | None], Value]


def _or(given: float | None, default: float) -> float:
    return default if given is None else given


def elu(ops: Ops, value: Value, alpha: float) -> Value:
    """The exponential linear unit: x, or alpha * (exp(x) - 1) where it is negative."""
    below = ops.mul(ops.sub(ops.one(unary_math.ExpOp, value), 1), alpha)
    return ops.where(ops.two(comparison.GreaterOp, value, 0), value, below)


def hard_sigmoid(ops: Ops, value: Value, alpha: float, beta: float) -> Value:
    """The hard sigmoid: alpha * x + beta, between 0 and 1."""
    line = ops.add(ops.mul(value, alpha), beta)
    line = ops.two(elementwise.MaximumOp, line, 0)
    return ops.two(elementwise.MinimumOp, line, 1)


FUNCTIONS: Mapping[str, Function] = {
    "Affine": lambda ops, x, a, b: ops.add(ops.mul(x, _or(a, 1.0)), _or(b, 0.0)),
    "Elu": lambda ops, x, a, b: elu(ops, x, _or(a, 1.0)),
    "HardSigmoid": lambda ops, x, a, b: hard_sigmoid(ops, x, _or(a, 0.2), _or(b, 0.5)),
    "Relu": lambda ops, x, a, b: ops.one(activation.ReluOp, x),
    "Sigmoid": lambda ops, x, a, b: ops.one(activation.SigmoidOp, x),
    "Softplus": lambda ops, x, a, b: arithmetic.soft_plus(ops, x),
    "Tanh": lambda ops, x, a, b: ops.one(activation.TanhOp, x),
}
"""The functions that a layer may apply, by their names."""


@dataclass
class Layer:
    """One direction of a recurrent layer: its operands without that axis."""

    ops: Ops
    recurrent: Value
    """[gates x size, size]"""
    bias: Value | None
    """That of the last gate's recurrence, where it is not one of the inputs: [size]."""
    peepholes: Value | None
    functions: Sequence[Callable[[Value], Value]]
    size: int
    linear_before_reset: bool
    input_forget: bool

    def gates(self, value: Value) -> list[Value]:
        """The gates that lie next to each other on the last axis."""
        last = len(self.ops.shape(value)) - 1
        count = self.ops.shape(value)[last] // self.size
        return [
            self.ops.slice(value, last, index * self.size, (index + 1) * self.size)
            for index in range(count)
        ]

    def recurred(self, hidden: Value) -> Value:
        """A state times the recurrent weights."""
        return self.ops.one(MatmulOp, hidden, self.recurrent, transpose_b=True)


State: TypeAlias = Sequence[Value]
Step: TypeAlias = Callable[[Layer, Value, State], State]


def rnn_step(layer: Layer, given: Value, state: State) -> State:
    """One function of the input and the state."""
    (apply,) = layer.functions
    return [apply(layer.ops.add(given, layer.recurred(state[0])))]


def gru_step(layer: Layer, given: Value, state: State) -> State:
    """A gated recurrent unit: gates z, r and h."""
    ops, (hidden,) = layer.ops, state
    gate, apply = layer.functions
    given_z, given_r, given_h = layer.gates(given)
    if layer.linear_before_reset:
        own_z, own_r, own_h = layer.gates(layer.recurred(hidden))
        own_h = own_h if layer.bias is None else ops.add(own_h, layer.bias)
        reset = gate(ops.add(given_r, own_r))
        fresh = apply(ops.add(given_h, ops.mul(reset, own_h)))
    else:
        rows = [ops.slice(layer.recurrent, 0, 0, 2 * layer.size)]
        rows.append(ops.slice(layer.recurrent, 0, 2 * layer.size, 3 * layer.size))
        both = ops.one(MatmulOp, hidden, rows[0], transpose_b=True)
        own_z, own_r = layer.gates(both)
        reset = gate(ops.add(given_r, own_r))
        kept = ops.one(MatmulOp, ops.mul(reset, hidden), rows[1], transpose_b=True)
        fresh = apply(ops.add(given_h, kept))
    update = gate(ops.add(given_z, own_z))
    # (1 - z) * h' + z * h, with one product.
    return [ops.add(fresh, ops.mul(update, ops.sub(hidden, fresh)))]


def lstm_step(layer: Layer, given: Value, state: State) -> State:
    """Long short-term memory: gates i, o, f and c."""
    ops, (hidden, cell) = layer.ops, state
    gate, apply, show = layer.functions
    peeps = [None, None, None]
    if layer.peepholes is not None:
        peeps = layer.gates(layer.peepholes)
    gates = layer.gates(ops.add(given, layer.recurred(hidden)))
    enter, leave, forget, fresh = gates

    def seen(value: Value, peep: Value | None, of: Value) -> Value:
        return value if peep is None else ops.add(value, ops.mul(peep, of))

    enter = gate(seen(enter, peeps[0], cell))
    forget = (
        ops.sub(1, enter) if layer.input_forget else gate(seen(forget, peeps[2], cell))
    )
    cell = ops.add(ops.mul(forget, cell), ops.mul(enter, apply(fresh)))
    leave = gate(seen(leave, peeps[1], cell))
    return [ops.mul(leave, show(cell)), cell]


@dataclass(frozen=True)
class Kind:
    """A kind of recurrent layer."""

    gates: int
    states: int
    defaults: Sequence[str]
    """The functions that it applies where a node names none."""
    step: Step


def recurrent(kind: Kind) -> Converter:
    """A recurrent layer, in one or both directions, each of which is a loop."""

    def convert(node: Node) -> None:
        ops, batch_first = node.ops, node.int("layout", 0) == 1
        x = node.value()
        if batch_first:
            x = ops.transpose(x, [1, 0, 2])
        direction = node.text("direction", "forward")
        ways = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
        if direction not in ways:
            raise Unsupported(f"the direction '{direction}' is not known")
        results = [
            run_direction(node, kind, x, index, is_reversed)
            for index, is_reversed in enumerate(ways[direction])
        ]
        if node.wants(0):
            outputs = ops.stack([made.rows[0] for made in results], 1)
            order = [2, 0, 1, 3] if batch_first else [0, 1, 2, 3]
            node.give_value(ops.transpose(outputs, order))
        for index in range(kind.states):
            final = ops.stack([made.state[index] for made in results], 0)
            order = [1, 0, 2] if batch_first else [0, 1, 2]
            node.give_value(ops.transpose(final, order), 1 + index)

    return convert


def run_direction(
    node: Node, kind: Kind, x: Value, index: int, is_reversed: bool
) -> Made:
    """One direction: its last states, and the outputs of all steps if they are read."""
    inputs, bias = inputs_of(node, kind, x, index)
    layer = Layer(
        node.ops,
        node.ops.pick(node.value(2), 0, index),
        bias,
        node.ops.pick(node.value(7), 0, index) if node.has(7) else None,
        functions_of(node, index, kind.defaults),
        node.shape(2)[2],
        node.int("linear_before_reset", 0) == 1,
        node.int("input_forget", 0) == 1,
    )
    steps, lengths = node.ops.shape(x)[0], lengths_of(node, x)

    def body(given: Iteration) -> Made:
        fresh = kind.step(layer, given.slices[0], given.state)
        rows = [fresh[0]] * node.wants(0)
        if lengths is None:
            return Made(fresh, rows)
        inside = node.ops.two(comparison.GreaterOp, lengths, given.number)
        pairs = zip(fresh, given.state, strict=True)
        state = [node.ops.where(inside, new, old) for new, old in pairs]
        return Made(state, [node.ops.where(inside, row, 0) for row in rows])

    first = first_states(node, index, kind.states)
    return add_loop(node.builder, steps, first, [inputs], body, backward=is_reversed)


def inputs_of(
    node: Node, kind: Kind, x: Value, index: int
) -> tuple[Value, Value | None]:
    """
    The inputs of all steps times their weights, with all biases but one that is part of
    a product, as [steps, batch, gates x size]; and that one.
    """
    ops, width = node.ops, kind.gates * node.shape(2)[2]
    steps, batch, features = ops.shape(x)
    flat = ops.reshape(x, [steps * batch, features])
    weights = ops.pick(node.value(1), 0, index)
    inputs, inner = ops.one(MatmulOp, flat, weights, transpose_b=True), None
    if node.has(3):
        whole = ops.pick(node.value(3), 0, index)
        given, own = (ops.slice(whole, 0, at, at + width) for at in (0, width))
        if node.int("linear_before_reset", 0) == 1:
            start = width - node.shape(2)[2]
            inner = ops.slice(own, 0, start, width)
            own = ops.pad(ops.slice(own, 0, 0, start), [0], [width - start])
        inputs = ops.add(inputs, ops.add(given, own))
    return ops.reshape(inputs, [steps, batch, width]), inner


def lengths_of(node: Node, x: Value) -> Value | None:
    """The lengths of sequences, [batch, 1]; None where all are as long as the input."""
    if (lengths := node.optional(4)) is None:
        return None
    steps, batch, _ = node.ops.shape(x)
    if not isinstance(lengths, SSAValue) and (lengths == steps).all():
        return None
    return node.ops.reshape(node.ops.cast(lengths, i64), [batch, 1])


def first_states(node: Node, index: int, states: int) -> State:
    """The states that a direction starts from, zeros where they are left out."""
    ops, batch_first = node.ops, node.int("layout", 0) == 1
    batch = node.shape()[0 if batch_first else 1]
    zeros = ops.expand(ops.like(0, node.value()), [batch, node.shape(2)[2]])
    axis = 1 if batch_first else 0
    return [
        ops.pick(node.value(at), axis, index) if node.has(at) else zeros
        for at in range(5, 5 + states)
    ]


def functions_of(
    node: Node, index: int, defaults: Sequence[str]
) -> list[Callable[[Value], Value]]:
    """The functions of one direction, with their numbers; clipped if that is asked."""
    count = len(defaults)
    names = node.texts("activations") or list(defaults) * (index + 1)
    alphas, betas = (
        iter(node.floats(f"activation_{name}") or []) for name in ("alpha", "beta")
    )
    found: list[Callable[[Value], Value]] = []
    for name in names[: count * (index + 1)]:
        if name not in FUNCTIONS:
            raise Unsupported(f"the function '{name}' is not known")
        alpha = next(alphas, None) if name in WITH_ALPHA else None
        beta = next(betas, None) if name in WITH_BETA else None
        found.append(applied(node, name, alpha, beta))
    return found[-count:]


WITH_ALPHA, WITH_BETA = {"Affine", "Elu", "HardSigmoid"}, {"Affine", "HardSigmoid"}
"""The functions that have numbers."""


def applied(
    node: Node, name: str, alpha: float | None, beta: float | None
) -> Callable[[Value], Value]:
    """A function with its numbers, of clipped values if that is asked."""
    ops, bound = node.ops, node.float("clip", 0.0)

    def apply(value: Value) -> Value:
        if bound:
            value = ops.two(elementwise.MaximumOp, value, -bound)
            value = ops.two(elementwise.MinimumOp, value, bound)
        return FUNCTIONS[name](ops, value, alpha, beta)

    return apply


CONVERTERS: Mapping[str, Converter] = {
    "GRU": recurrent(Kind(3, 1, ["Sigmoid", "Tanh"], gru_step)),
    "LSTM": recurrent(Kind(4, 2, ["Sigmoid", "Tanh", "Tanh"], lstm_step)),
    "RNN": recurrent(Kind(1, 1, ["Tanh"], rnn_step)),
}
"""The converters of recurrent layers."""
