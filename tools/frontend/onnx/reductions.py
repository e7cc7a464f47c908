"""Converters of reductions and normalizations."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from onnx import TensorProto
from xdsl.dialects.builtin import AnyFloat, f16, f32, f64

from penstock.dialects.op import comparison, elementwise
from penstock.dialects.op import unary_math as functions
from penstock.dialects.op.group_norm import GroupNormOp
from penstock.dialects.op.indexing import GatherElementsOp
from penstock.dialects.op.reduction import ReduceMaxOp, ReduceMeanOp, ReduceSumOp
from penstock.dialects.op.selection import ArgMaxOp
from penstock.dialects.op.verify import normal_axis
from penstock.tools.frontend.onnx.graph import Converter, Node, Unsupported
from penstock.tools.frontend.onnx.ops import Ops, Value


def squared(ops: Ops, value: Value) -> Value:
    """The square of each element."""
    return ops.mul(value, value)


def absolute(ops: Ops, value: Value) -> Value:
    """Each element without its sign."""
    return ops.one(elementwise.AbsOp, value)


def plain(ops: Ops, value: Value) -> Value:
    """Each element."""
    return value


def root(ops: Ops, value: Value) -> Value:
    """The square root of each element."""
    return ops.one(functions.SqrtOp, value)


def logarithm(ops: Ops, value: Value) -> Value:
    """The logarithm of each element."""
    return ops.one(functions.LogOp, value)


Change = Callable[[Ops, Value], Value]


def reduced_axes(node: Node) -> list[int] | None:
    """The axes to reduce along; None if nothing is to be reduced."""
    axes = node.ints_or_operand("axes", 1)
    rank = len(node.shape())
    if axes:
        return [normal_axis(axis, rank) for axis in axes]
    return None if node.int("noop_with_empty_axes", 0) else list(range(rank))


def reduce_sum_of(before: Change, after: Change) -> Converter:
    """
    The converter of a reduction: a change of elements, their sum, and a change of that.
    """

    def convert(node: Node) -> None:
        ops, axes = node.ops, reduced_axes(node)
        value, element = node.value(), node.element()
        if not isinstance(element, AnyFloat) and after is not plain:
            value = ops.cast(value, f64)
        value = before(ops, value)
        keepdims = node.int("keepdims", 1) == 1
        if axes is not None:
            value = ops.reduce(ReduceSumOp, value, axes, keepdims=keepdims)
        node.give_value(ops.cast(after(ops, value), element))

    return convert


def reduce_log_sum_exp(node: Node) -> None:
    """The logarithm of the sum of powers, without overflow."""
    ops, axes = node.ops, reduced_axes(node)
    value, element, shape = node.value(), node.element(), node.shape()
    if axes is None:
        node.give_value(value)
        return
    if not axes or any(shape[axis] == 0 for axis in axes):
        reduce_sum_of(lambda ops, x: ops.one(functions.ExpOp, x), logarithm)(node)
        return
    if not isinstance(element, AnyFloat):
        raise Unsupported(f"powers of e of {element} are not summed")
    largest = ops.reduce(ReduceMaxOp, value, axes)
    # The largest may be infinite, which must not become a NaN.
    finite = ops.two(comparison.LessOp, absolute(ops, largest), float("inf"))
    shift = ops.where(finite, largest, 0)
    powers = ops.one(functions.ExpOp, ops.sub(value, shift))
    total = logarithm(ops, ops.reduce(ReduceSumOp, powers, axes))
    result = ops.add(total, shift)
    if not node.int("keepdims", 1):
        kept = [extent for axis, extent in enumerate(shape) if axis not in axes]
        result = ops.reshape(result, kept)
    node.give_value(result)


def lp_normalization(node: Node) -> None:
    """Lines divided by their norm, or 0 where that is 0."""
    ops, value, axis = node.ops, node.value(), node.axis(-1)
    power = node.int("p", 2)
    if power not in (1, 2):
        raise Unsupported(f"there is no norm of order {power}")
    change = absolute if power == 1 else squared
    norm = ops.reduce(ReduceSumOp, change(ops, value), [axis])
    norm = norm if power == 1 else root(ops, norm)
    zero = ops.two(comparison.EqualOp, norm, 0)
    node.give_value(ops.div(value, ops.where(zero, 1, norm)))


def mean_variance(node: Node) -> None:
    """Elements less the mean along some axes, over their deviation."""
    ops, value = node.ops, node.value()
    rank = len(node.shape())
    axes = [normal_axis(axis, rank) for axis in node.ints("axes") or [0, 2, 3]]
    centered = ops.sub(value, ops.reduce(ReduceMeanOp, value, axes))
    variance = ops.reduce(ReduceMeanOp, squared(ops, centered), axes)
    node.give_value(ops.div(centered, ops.add(root(ops, variance), 1e-9)))


def instance_norm(node: Node) -> None:
    """Each channel of each image moved and scaled, as a group of its own."""
    normalized_groups(node, node.shape()[1])


def group_norm(node: Node) -> None:
    """Groups of channels of each image moved and scaled."""
    normalized_groups(node, node.int("num_groups", 1))


def normalized_groups(node: Node, groups: int) -> None:
    """
    Groups of channels moved and scaled; half-precision floats go through f32, unless
    they are said to be computed as they are.
    """
    ops, element, channels = node.ops, node.element(), node.shape()[1]
    if channels % groups:
        raise Unsupported(f"{channels} channels do not make {groups} groups")
    parameters = (per_channel(ops, node.value(index), channels) for index in (1, 2))
    operands = [node.value(), *parameters]
    wide = f32 if element == f16 and node.int("stash_type", 1) == 1 else element
    epsilon = node.float("epsilon", 1e-5)
    value = ops.one(
        GroupNormOp,
        *(ops.cast(each, wide) for each in operands),
        groups=groups,
        epsilon=epsilon,
    )
    node.give_value(ops.cast(value, element))


def per_channel(ops: Ops, value: Value, channels: int) -> Value:
    """One number a channel, where older versions have one a group."""
    (count,) = ops.shape(value)
    if count == channels:
        return value
    repeated = ops.expand(ops.reshape(value, [count, 1]), [count, channels // count])
    return ops.reshape(repeated, [channels])


def layer_norm_statistics(node: Node) -> None:
    """The mean and the inverse deviation that a layer normalisation also gives."""
    ops, axis = node.ops, node.axis(-1)
    axes = list(range(axis, len(node.shape())))
    wide = f32 if node.int("stash_type", 1) == TensorProto.FLOAT else node.element()
    value = ops.cast(node.value(), wide)
    mean = ops.reduce(ReduceMeanOp, value, axes)
    node.give_value(mean, 1)
    if not node.wants(2):
        return
    centered = ops.sub(value, mean)
    variance = ops.reduce(ReduceMeanOp, squared(ops, centered), axes)
    epsilon = node.float("epsilon", 1e-5)
    node.give_value(ops.one(functions.RsqrtOp, ops.add(variance, epsilon)), 2)


def determinant(node: Node) -> None:
    """The determinant of matrices: the product of the pivots of an elimination."""
    ops, (*outer, count, columns) = node.ops, node.shape()
    if count != columns:
        raise Unsupported(f"a matrix of {count} x {columns} has no determinant")
    rest = node.value()
    total = ops.expand(ops.like(1, rest), outer)
    for _ in range(count):
        pivot, rest = eliminated(ops, rest)
        total = ops.mul(total, pivot)
    node.give_value(total)


def eliminated(ops: Ops, value: Value) -> tuple[Value, Value]:
    """
    A factor of the determinant of matrices, and matrices of one row and column less
    that have the others. The pivot is the largest number of the first column.
    """
    *outer, count, _ = ops.shape(value)
    axis = len(outer)
    sizes = ops.one(elementwise.AbsOp, ops.slice(value, axis + 1, 0, 1))
    place = ops.one(ArgMaxOp, sizes, axis=axis)
    rows = np.arange(count).reshape(*[1] * axis, count, 1)
    # The first row takes the place of the pivot's.
    index = ops.where(ops.one(comparison.EqualOp, rows, place), 0, rows)
    index = ops.where(rows == 0, place, index)
    index = ops.expand(index, ops.shape(value))
    value = ops.one(GatherElementsOp, value, index, axis=axis)
    first = ops.slice(value, axis, 0, 1)
    pivot = ops.slice(first, axis + 1, 0, 1)
    moved = ops.two(comparison.NotEqualOp, place, 0)
    factor = ops.where(moved, ops.one(elementwise.NegOp, pivot), pivot)
    # A column of zeros has a pivot of 0, and is nothing to take away.
    divisor = ops.where(ops.two(comparison.EqualOp, pivot, 0), 1, pivot)
    others = ops.slice(ops.slice(value, axis, 1, count), axis + 1, 0, 1)
    taken = ops.mul(ops.div(others, divisor), ops.slice(first, axis + 1, 1, count))
    inner = ops.slice(ops.slice(value, axis, 1, count), axis + 1, 1, count)
    return ops.reshape(factor, outer), ops.sub(inner, taken)


CONVERTERS: Mapping[str, Converter] = {
    "Det": determinant,
    "GroupNormalization": group_norm,
    "InstanceNormalization": instance_norm,
    "LpNormalization": lp_normalization,
    "MeanVarianceNormalization": mean_variance,
    "ReduceL1": reduce_sum_of(absolute, plain),
    "ReduceL2": reduce_sum_of(squared, root),
    "ReduceLogSum": reduce_sum_of(plain, logarithm),
    "ReduceLogSumExp": reduce_log_sum_exp,
    "ReduceSumSquare": reduce_sum_of(squared, plain),
}
"""The converters of reductions and normalizations."""
