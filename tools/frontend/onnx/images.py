"""Converters of batch normalization, tiling, and moves between channels and places."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import f32, f64
from xdsl.ir import SSAValue

from penstock.dialects.op.normalization import BatchNormOp
from penstock.dialects.op.training import BatchNormStatisticsOp
from penstock.tools.frontend.onnx.graph import Converter, Node
from penstock.tools.frontend.onnx.ops import Array


def depth_to_space(node: Node) -> None:
    """Channels become places."""
    ops, size = node.ops, node.int("blocksize", 1)
    images, channels, height, width = node.shape()
    outputs = channels // size**2
    if node.text("mode", "DCR") == "DCR":
        split, order = [size, size, outputs], [0, 3, 4, 1, 5, 2]
    else:
        split, order = [outputs, size, size], [0, 1, 4, 2, 5, 3]
    value = ops.reshape(node.value(), [images, *split, height, width])
    value = ops.transpose(value, order)
    node.give_value(ops.reshape(value, [images, outputs, height * size, width * size]))


def space_to_depth(node: Node) -> None:
    """Places become channels."""
    ops, size = node.ops, node.int("blocksize", 1)
    images, channels, height, width = node.shape()
    split = [images, channels, height // size, size, width // size, size]
    order = [0, 3, 5, 1, 2, 4]
    if node.text("mode", "DCR") == "CRD":
        order = [0, 1, 3, 5, 2, 4]
    value = ops.transpose(ops.reshape(node.value(), split), order)
    shape = [images, channels * size**2, height // size, width // size]
    node.give_value(ops.reshape(value, shape))


def tile(node: Node) -> None:
    """A tensor repeated along each axis."""
    repeats = node.known_ints(1, "the repeats")
    node.give_value(node.ops.tile(node.value(), repeats))


def batch_norm(node: Node) -> None:
    """
    Normalisation by statistics that are given, or in training by the batch's own. Known
    statistics become a factor and an addend, which go with the op before or after.
    """
    epsilon = node.float("epsilon", 1e-5)
    if not node.int("training_mode", 0):
        if (line := known_line(node)) is not None:
            factor, addend = line
            node.give_value(node.ops.add(node.ops.mul(node.value(), factor), addend))
            return
        node.give(BatchNormOp, *node.tensors(), epsilon=epsilon)
        return
    ops, momentum = node.ops, node.float("momentum", 0.9)
    value = node.value()
    found = ops.results(BatchNormStatisticsOp, value)
    scale, bias = node.value(1), node.value(2)
    node.give_value(ops.one(BatchNormOp, value, scale, bias, *found, epsilon=epsilon))
    for index, own in enumerate(found, 1):
        old = ops.mul(node.value(index + 2), momentum)
        node.give_value(ops.add(old, ops.mul(own, 1 - momentum)), index)


def known_line(node: Node) -> tuple[Array, Array] | None:
    """
    The factor and the addend of each channel of a batch normalisation, if all of its
    statistics are known; computed in `f64`.
    """
    known = [node.value(index) for index in range(1, 5)]
    arrays = [value for value in known if not isinstance(value, SSAValue)]
    if len(arrays) < len(known) or node.element() not in (f32, f64):
        return None
    rank, dtype = len(node.shape()), arrays[0].dtype
    shape = [-1, *[1] * (rank - 2)]
    scale, bias, mean, variance = (np.asarray(each, np.float64) for each in arrays)
    with np.errstate(invalid="ignore", divide="ignore"):
        factor = scale / np.sqrt(variance + node.float("epsilon", 1e-5))
        addend = bias - mean * factor
    return factor.astype(dtype).reshape(shape), addend.astype(dtype).reshape(shape)


CONVERTERS: Mapping[str, Converter] = {
    "BatchNormalization": batch_norm,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
    "Tile": tile,
}
"""The converters of ops on channels and places."""
