"""Converters of recurrent layers, unrolled step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.dialects.builtin import i64

from penstock.dialects.op import activation, comparison, elementwise, unary_math
from penstock.dialects.op.linear import MatmulOp
from penstock.tools.frontend.onnx import arithmetic
from penstock.tools.frontend.onnx.graph import Converter, Node, Unsupported
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
    inputs: Value
    """The inputs times its weights: [steps, batch, gates x size]."""
    recurrent: Value
    """[gates x size, size]"""
    bias: Value | None
    """That of the recurrence: [gates x size]."""
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
        product = self.ops.one(MatmulOp, hidden, self.recurrent, transpose_b=True)
        return product if self.bias is None else self.ops.add(product, self.bias)


State: TypeAlias = list[Value]
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
        reset = gate(ops.add(given_r, own_r))
        fresh = apply(ops.add(given_h, ops.mul(reset, own_h)))
    else:
        rows = [ops.slice(layer.recurrent, 0, 0, 2 * layer.size)]
        rows.append(ops.slice(layer.recurrent, 0, 2 * layer.size, 3 * layer.size))
        biases: list[Value | None] = [None, None]
        if layer.bias is not None:
            whole = layer.gates(layer.bias)
            biases = [ops.concat(whole[:2], 0), whole[2]]
        both = biased(
            ops, ops.one(MatmulOp, hidden, rows[0], transpose_b=True), biases[0]
        )
        own_z, own_r = layer.gates(both)
        reset = gate(ops.add(given_r, own_r))
        kept = ops.one(MatmulOp, ops.mul(reset, hidden), rows[1], transpose_b=True)
        fresh = apply(ops.add(given_h, biased(ops, kept, biases[1])))
    update = gate(ops.add(given_z, own_z))
    # (1 - z) * h' + z * h, with one product.
    return [ops.add(fresh, ops.mul(update, ops.sub(hidden, fresh)))]


def biased(ops: Ops, value: Value, bias: Value | None) -> Value:
    """A value plus a bias if there is one."""
    return value if bias is None else ops.add(value, bias)


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


def recurrent(
    gates: int, states: int, defaults: Sequence[str], step: Step
) -> Converter:
    """A recurrent layer, in one or both directions."""

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
            run_direction(node, x, index, is_reversed, gates, states, defaults, step)
            for index, is_reversed in enumerate(ways[direction])
        ]
        outputs = ops.stack([steps for steps, _ in results], 1)
        finals = [
            ops.stack([final[index] for _, final in results], 0)
            for index in range(states)
        ]
        if batch_first:
            outputs = ops.transpose(outputs, [2, 0, 1, 3])
            finals = [ops.transpose(final, [1, 0, 2]) for final in finals]
        for index, value in enumerate([outputs, *finals]):
            node.give_value(value, index)

    return convert


def run_direction(
    node: Node,
    x: Value,
    index: int,
    is_reversed: bool,
    gates: int,
    states: int,
    defaults: Sequence[str],
    step: Step,
) -> tuple[Value, State]:
    """The outputs of all steps of one direction, and its last states."""
    ops, size = node.ops, node.shape(2)[2]
    steps, batch, features = ops.shape(x)
    weights, recurrent = (ops.pick(node.value(i), 0, index) for i in (1, 2))
    flat = ops.reshape(x, [steps * batch, features])
    inputs = ops.one(MatmulOp, flat, weights, transpose_b=True)
    bias = None
    if node.has(3):
        whole = ops.pick(node.value(3), 0, index)
        inputs = ops.add(inputs, ops.slice(whole, 0, 0, gates * size))
        bias = ops.slice(whole, 0, gates * size, 2 * gates * size)
    layer = Layer(
        ops,
        ops.reshape(inputs, [steps, batch, gates * size]),
        recurrent,
        bias,
        ops.pick(node.value(7), 0, index) if node.has(7) else None,
        functions_of(node, index, defaults),
        size,
        node.int("linear_before_reset", 0) == 1,
        node.int("input_forget", 0) == 1,
    )
    return run_steps(node, layer, first_states(node, index, states), is_reversed, step)


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


def run_steps(
    node: Node, layer: Layer, state: State, is_reversed: bool, step: Step
) -> tuple[Value, State]:
    """The outputs of all steps, in the order of the inputs, and the last states."""
    ops, (steps, batch, _) = layer.ops, layer.ops.shape(layer.inputs)
    lengths = node.optional(4)
    outputs: list[Value] = []
    order = range(steps)
    for index in reversed(order) if is_reversed else order:
        fresh = step(layer, ops.pick(layer.inputs, 0, index), state)
        output = fresh[0]
        if lengths is not None:
            inside = ops.two(comparison.GreaterOp, ops.cast(lengths, i64), index)
            inside = ops.reshape(inside, [batch, 1])
            output = ops.where(inside, output, 0)
            pairs = zip(fresh, state, strict=True)
            fresh = [ops.where(inside, new, old) for new, old in pairs]
        state = fresh
        outputs.append(output)
    if is_reversed:
        outputs.reverse()
    return ops.stack(outputs, 0), state


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
    "GRU": recurrent(3, 1, ["Sigmoid", "Tanh"], gru_step),
    "LSTM": recurrent(4, 2, ["Sigmoid", "Tanh", "Tanh"], lstm_step),
    "RNN": recurrent(1, 1, ["Tanh"], rnn_step),
}
"""The converters of recurrent layers."""
