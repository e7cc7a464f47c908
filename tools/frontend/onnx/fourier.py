"""
Converters of Fourier transforms, to matmuls with matrices of sines and cosines.

Numbers with a real and an imaginary part have one more axis, the last, of two; without
the latter of one. A transform of n numbers takes n * n products, so this is for those
of some hundred numbers, as of spectrograms. They are computed in `f64`.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import pi

import numpy as np
from xdsl.dialects.builtin import f64

from penstock.dialects.op.linear import MatmulOp
from penstock.dialects.op.movement import GatherOp
from penstock.dialects.op.verify import normal_axis
from penstock.tools.frontend.onnx.graph import Converter, Node, Unsupported
from penstock.tools.frontend.onnx.ops import Array, Ops, Value


def transform(extent: int, parts: int, kept: int, *, inverse: bool) -> Array:
    """
    The matrix [extent * parts, kept * 2] of a transform of `extent` numbers, of which
    the first `kept` results are wanted.
    """
    # Angles beyond a turn lose digits.
    turns = np.outer(np.arange(extent), np.arange(kept)) % extent / extent
    angles = 2 * pi * turns * (1 if inverse else -1)
    cos, sin = np.cos(angles), np.sin(angles)
    real, imaginary = np.stack([cos, sin], -1), np.stack([-sin, cos], -1)
    rows = np.stack([real, imaginary][:parts], 1)
    scale = extent if inverse else 1
    return rows.reshape(extent * parts, kept * 2) / scale


def real_inverse(extent: int, given: int) -> Array:
    """
    The matrix [given * 2, extent] that makes `extent` real numbers of the first half of
    their transform; the other half mirrors it.
    """
    whole = transform(extent, 2, extent, inverse=True).reshape(extent, 2, extent, 2)
    real = whole[..., 0]
    matrix = np.zeros((given, 2, extent))
    for place in range(extent):
        mirrored = place >= extent // 2 + 1
        source = extent - place if mirrored else place
        if source < given:
            matrix[source, 0] += real[place, 0]
            matrix[source, 1] += -real[place, 1] if mirrored else real[place, 1]
    return matrix.reshape(given * 2, extent)


def resized(ops: Ops, value: Value, axis: int, extent: int) -> Value:
    """The first numbers of an axis, zeros after them where there are too few."""
    shape = ops.shape(value)
    if shape[axis] >= extent:
        return ops.slice(value, axis, 0, extent)
    after = [0] * len(shape)
    after[axis] = extent - shape[axis]
    return ops.pad(value, [0] * len(shape), after)


def multiplied(ops: Ops, value: Value, axis: int, matrix: Array, parts: int) -> Value:
    """The product of an axis and its parts, the last axis, with a matrix."""
    rank = len(ops.shape(value))
    order = [each for each in range(rank - 1) if each != axis] + [axis, rank - 1]
    moved = ops.transpose(value, order)
    outer = ops.shape(moved)[:-2]
    # As many terms as there are numbers would lose more than a fast transform does.
    flat = ops.cast(ops.reshape(moved, [*outer, matrix.shape[0]]), f64)
    product = ops.cast(ops.one(MatmulOp, flat, matrix), ops.element(value))
    result = ops.reshape(product, [*outer, matrix.shape[1] // parts, parts])
    return ops.transpose(result, [order.index(each) for each in range(rank)])


def dft(node: Node) -> None:
    """The discrete transform along an axis, or its inverse."""
    ops, value = node.ops, node.value()
    inverse, half = bool(node.int("inverse", 0)), bool(node.int("onesided", 0))
    *extents, parts = node.shape()
    if parts not in (1, 2):
        raise Unsupported(f"numbers have one part or two, got {parts}")
    default = -2 if not node.given("axis") else node.int("axis", 1)
    axis = node.known_ints(2, "the axis")[0] if node.has(2) else default
    axis = normal_axis(axis, len(extents) + 1)
    length = extents[axis]
    if inverse and half:
        length = 2 * (length - 1)
    if node.has(1):
        length = node.known_ints(1, "the length")[0]
    if inverse and half:
        given = extents[axis]
        result = multiplied(ops, value, axis, real_inverse(length, given), 1)
    else:
        kept = length // 2 + 1 if half else length
        matrix = transform(length, parts, kept, inverse=inverse)
        result = multiplied(ops, resized(ops, value, axis, length), axis, matrix, 2)
    node.give_value(result)


def stft(node: Node) -> None:
    """Transforms of frames of a signal, each times a window."""
    ops, shape = node.ops, node.shape()
    step = node.known_ints(1, "the step of frames")[0]
    if node.has(3):
        length = node.known_ints(3, "the length of frames")[0]
    elif node.has(2):
        length = node.shape(2)[0]
    else:
        raise Unsupported("frames have neither a window nor a length")
    parts = shape[2] if len(shape) > 2 else 1
    count = (shape[1] - length) // step + 1
    if count < 1:
        raise Unsupported(f"a signal of {shape[1]} has no frames of {length}")
    places = np.arange(count)[:, None] * step + np.arange(length)
    signal = ops.reshape(node.value(), [*shape[:2], parts])
    frames = ops.one(GatherOp, signal, places, axis=1)
    if (window := node.optional(2)) is not None:
        frames = ops.mul(frames, ops.reshape(window, [length, 1]))
    half = parts == 1 and bool(node.int("onesided", 1))
    kept = length // 2 + 1 if half else length
    matrix = transform(length, parts, kept, inverse=False)
    node.give_value(multiplied(ops, frames, 2, matrix, 2))


CONVERTERS: Mapping[str, Converter] = {"DFT": dft, "STFT": stft}
"""The converters of Fourier transforms."""
