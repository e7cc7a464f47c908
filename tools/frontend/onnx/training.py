"""Converters of optimizers: `Adagrad`, `Adam` and `Momentum`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import f32

from penstock.dialects.op import comparison, elementwise
from penstock.dialects.op import unary_math as functions
from penstock.tools.frontend.onnx.graph import Converter, Node, Unsupported
from penstock.tools.frontend.onnx.ops import Ops, Value

Step: TypeAlias = Callable[[Node, Sequence[Value]], Sequence[Value]]
"""The update of a parameter and of its state, by its gradient."""

RATE, TIME = 0, 1
"""The operands that all parameters have in common."""


def each(kept: int, step: Step) -> Converter:
    """
    A step for each parameter: operands are all parameters, then all gradients, then all
    of each kind of their state, and so are results.
    """

    def convert(node: Node) -> None:
        count = (len(node.inputs) - 2) // (kept + 2)
        for index in range(count):
            places = range(2 + index, len(node.inputs), count)
            results = step(node, [node.value(place) for place in places])
            for kind, result in enumerate(results):
                node.give_value(result, kind * count + index)

    return convert


def regularized(node: Node, parameter: Value, gradient: Value) -> Value:
    """The gradient with that of half the parameter's square."""
    norm = node.float("norm_coefficient", 0.0)
    return node.ops.add(node.ops.mul(parameter, norm), gradient)


def has_begun(node: Node) -> Value:
    """Whether there was a step before."""
    return node.ops.two(comparison.GreaterOp, node.value(TIME), 0)


def adagrad(node: Node, values: Sequence[Value]) -> Sequence[Value]:
    """Steps as long as the root of the sum of all squares says."""
    ops, (parameter, gradient, squares) = node.ops, values
    time = ops.cast(node.value(TIME), ops.element(node.value(RATE)))
    decay = ops.add(ops.mul(time, node.float("decay_factor", 0.0)), 1)
    rate = ops.div(node.value(RATE), decay)
    gradient = regularized(node, parameter, gradient)
    squares = ops.add(squares, ops.mul(gradient, gradient))
    root = ops.one(functions.SqrtOp, squares)
    root = ops.add(root, node.float("epsilon", 0.0))
    step = ops.div(ops.mul(gradient, rate), root)
    return ops.sub(parameter, step), squares


def adam(node: Node, values: Sequence[Value]) -> Sequence[Value]:
    """Steps along a mean of gradients, as long as a mean of squares says."""
    ops, (parameter, gradient, mean, squares) = node.ops, values
    alpha, beta = node.float("alpha", 0.9), node.float("beta", 0.999)
    gradient = regularized(node, parameter, gradient)
    mean = mixed(ops, mean, gradient, alpha)
    squares = mixed(ops, squares, ops.mul(gradient, gradient), beta)
    root = ops.one(functions.SqrtOp, squares)
    root = ops.add(root, node.float("epsilon", 0.0))
    step = ops.mul(ops.div(mean, root), adam_rate(node, alpha, beta))
    parameter = ops.sub(parameter, step)
    left = 1 - node.float("norm_coefficient_post", 0.0)
    return ops.mul(parameter, left), mean, squares


def mixed(ops: Ops, old: Value, new: Value, share: float) -> Value:
    """A mean, in which `share` is old."""
    return ops.add(ops.mul(old, share), ops.mul(new, 1 - share))


def adam_rate(node: Node, alpha: float, beta: float) -> Value:
    """The rate, with what means lack at first made up for."""
    ops, rate = node.ops, node.value(RATE)
    time = ops.cast(node.value(TIME), f32)
    missing = [
        ops.sub(1, ops.two(elementwise.PowOp, base, time)) for base in (alpha, beta)
    ]
    factor = ops.div(ops.one(functions.SqrtOp, missing[1]), missing[0])
    factor = ops.cast(factor, ops.element(rate))
    return ops.where(has_begun(node), ops.mul(rate, factor), rate)


def momentum(node: Node, values: Sequence[Value]) -> Sequence[Value]:
    """Steps along a decaying sum of gradients."""
    ops, (parameter, gradient, sums) = node.ops, values
    mode = node.text("mode", "standard")
    if mode not in ("standard", "nesterov"):
        raise Unsupported(f"the mode '{mode}' is not known")
    alpha, beta = node.float("alpha", 0.9), node.float("beta", 1.0)
    gradient = regularized(node, parameter, gradient)
    # The first gradient counts as it is.
    new = ops.where(has_begun(node), ops.mul(gradient, beta), gradient)
    sums = ops.add(ops.mul(sums, alpha), new)
    step = sums
    if mode == "nesterov":
        step = ops.add(gradient, ops.mul(sums, alpha))
    return ops.sub(parameter, ops.mul(step, node.value(RATE))), sums


CONVERTERS: Mapping[str, Converter] = {
    f"ai.onnx.preview.training.{name}": converter
    for name, converter in {
        "Adagrad": each(1, adagrad),
        "Adam": each(2, adam),
        "Momentum": each(1, momentum),
    }.items()
}
"""The converters of optimizers."""
