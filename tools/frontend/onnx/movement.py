"""Converters of reshapes, transposes, slices, pads and other moves of elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from xdsl.ir import SSAValue

from penstock.dialects.op.movement import ExpandOp, GatherOp, ReshapeOp, TransposeOp
from penstock.dialects.op.padding import PadMode, PadOp
from penstock.dialects.op.slicing import ConcatOp, SliceOp, SplitOp
from penstock.dialects.op.verify import normal_axis
from penstock.dialects.utils.tensors import broadcast_shapes
from penstock.tools.frontend.onnx.graph import Converter, Node, Unsupported
from penstock.tools.frontend.onnx.ops import Value


def reshape(node: Node) -> None:
    """The same elements in another shape; 0 keeps an extent."""
    source, target = node.shape(), node.known_ints(1, "the shape")
    if not node.int("allowzero", 0):
        if 0 in target[len(source) :]:
            raise Unsupported(f"0 in {target} keeps none of {len(source)} extents")
        target = [
            source[axis] if extent == 0 else extent
            for axis, extent in enumerate(target)
        ]
    give_reshaped(node, target)


def give_reshaped(node: Node, shape: Sequence[int]) -> None:
    """Let the first operand in another shape be the output."""
    node.give(ReshapeOp, node.tensor(), shape=shape)


def flatten(node: Node) -> None:
    """A matrix of the axes before one and those from it on."""
    shape, axis = node.shape(), node.int("axis", 1)
    if axis != len(shape):
        axis = normal_axis(axis, len(shape))
    give_reshaped(node, [prod(shape[:axis]), prod(shape[axis:])])


def squeeze(node: Node) -> None:
    """Fewer axes of extent 1."""
    shape = node.shape()
    given = node.ints_or_operand("axes", 1)
    if given is None:
        gone = {axis for axis, extent in enumerate(shape) if extent == 1}
    else:
        gone = {normal_axis(axis, len(shape)) for axis in given}
    give_reshaped(node, [x for axis, x in enumerate(shape) if axis not in gone])


def unsqueeze(node: Node) -> None:
    """More axes of extent 1."""
    given = node.ints_or_operand("axes", 1) or []
    shape, rank = node.shape(), len(node.shape()) + len(given)
    for axis in sorted(normal_axis(axis, rank) for axis in given):
        shape.insert(axis, 1)
    give_reshaped(node, shape)


def transpose(node: Node) -> None:
    """The axes in another order; reversed if none is given."""
    order = node.ints("perm") or list(reversed(range(len(node.shape()))))
    node.give(TransposeOp, *node.tensors(), permutation=order)


def expand(node: Node) -> None:
    """Broadcasting with a shape, in both directions."""
    shape = broadcast_shapes([node.shape(), node.known_ints(1, "the shape")])
    node.give(ExpandOp, node.tensor(), shape=shape)


def concat(node: Node) -> None:
    """Tensors one after the other along an axis."""
    node.give(ConcatOp, node.tensors(), axis=node.int("axis", 0))


def split(node: Node) -> None:
    """Parts of a tensor along an axis; without sizes, equal ones but for the last."""
    axis = node.axis(0)
    extent, count = node.shape()[axis], len(node.outputs)
    sizes = node.ints_or_operand("split", 1)
    if sizes is None:
        part = -(-extent // count)
        sizes = [min(part, extent - part * index) for index in range(count)]
    if len(sizes) != count:
        raise Unsupported(f"{count} outputs do not fit the sizes {sizes}")
    node.give(SplitOp, node.tensor(), axis=axis, sizes=sizes)


def slice_(node: Node) -> None:
    """A range of elements along some axes."""
    extents = node.shape()
    starts, ends = node.known_ints(1, "the start"), node.known_ints(2, "the end")
    axes = list(range(len(starts)))
    if node.has(3):
        axes = node.known_ints(3, "the axes")
    steps = node.known_ints(4, "the step") if node.has(4) else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise Unsupported("starts, ends, axes and steps should be as many")
    ranges = [(0, extent, 1) for extent in extents]
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        axis = normal_axis(axis, len(extents))
        ranges[axis] = range_of(start, end, step, extents[axis])
    first, last, by = zip(*ranges, strict=True)
    node.give(SliceOp, node.tensor(), starts=first, ends=last, steps=by)


def range_of(start: int, end: int, step: int, extent: int) -> tuple[int, int, int]:
    """
    The range that `Slice` means along an axis, as `op.slice` says it: a start behind
    an end of the axis is moved to the element there.
    """
    start, end = (place + extent if place < 0 else place for place in (start, end))
    if step > 0:
        return min(max(start, 0), extent), min(max(end, 0), extent), step
    start, end = min(max(start, 0), extent - 1), min(max(end, -1), extent - 1)
    # Below zero `op.slice` counts from the end of the axis.
    return max(start, 0), end if end >= 0 else -extent - 1, step


def pad(node: Node) -> None:
    """More elements before and after those of a tensor; fewer if negative."""
    rank, mode = len(node.shape()), node.text("mode", "constant")
    if mode not in (*PadMode, "wrap"):
        raise Unsupported(f"the padding mode '{mode}' is not known")
    pads = node.known_ints(1, "the padding")
    axes = node.known_ints(3, "the axes") if node.has(3) else list(range(rank))
    if len(pads) != 2 * len(axes):
        raise Unsupported(f"{len(axes)} axes do not fit the pads {pads}")
    before, after = [0] * rank, [0] * rank
    for axis, first, last in zip(axes, pads, pads[len(axes) :], strict=False):
        axis = normal_axis(axis, rank)
        before[axis], after[axis] = first, last
    if mode == "wrap":
        node.give_value(wrapped(node, before, after))
        return
    value = node.known_number(2, "the value") if node.has(2) else 0.0
    node.give(
        PadOp,
        cropped(node, before, after),
        before=[max(0, count) for count in before],
        after=[max(0, count) for count in after],
        mode=mode,
        value=value,
    )


def wrapped(node: Node, before: Sequence[int], after: Sequence[int]) -> Value:
    """The first operand as if each axis were a ring."""
    ops, value = node.ops, node.value()
    pairs = zip(node.shape(), before, after, strict=True)
    for axis, (extent, first, last) in enumerate(pairs):
        if first or last:
            places = np.arange(-first, extent + last) % extent
            value = ops.one(GatherOp, value, places, axis=axis)
    return value


def cropped(node: Node, before: Sequence[int], after: Sequence[int]) -> SSAValue:
    """The first operand without the elements that negative pads take away."""
    extents = node.shape()
    starts = [max(0, -count) for count in before]
    ends = [
        extent + min(0, count) for extent, count in zip(extents, after, strict=True)
    ]
    if ends == extents and not any(starts):
        return node.tensor()
    ends, steps = [max(0, end) for end in ends], [1] * len(extents)
    bounds = {"starts": starts, "ends": ends, "steps": steps}
    return node.builder.add(SliceOp, node.tensor(), **bounds)[0]


def gather(node: Node) -> None:
    """Parts of a tensor that another one numbers."""
    node.give(GatherOp, *node.tensors(), axis=node.int("axis", 0))


def shape(node: Node) -> None:
    """The shape of a tensor, which is known, but for an extent that is a count."""
    extents, counted = node.shape(), node.builder.extents.of(node.value())
    first, last = node.int("start", 0), node.int("end", len(extents))
    wanted = range(len(extents))[first:last]
    node.builder.extents.is_settled = True
    if counted is None or counted.axis not in wanted:
        node.give_value(np.array(extents[first:last], np.int64))
        return
    count = node.ops.reshape(counted.count, [1])
    parts: list[Value] = [
        count if axis == counted.axis else np.array(extents[axis : axis + 1])
        for axis in wanted
    ]
    node.give_value(node.ops.concat(parts, 0))


CONVERTERS: Mapping[str, Converter] = {
    "Concat": concat,
    "Expand": expand,
    "Flatten": flatten,
    "Gather": gather,
    "Pad": pad,
    "Reshape": reshape,
    "Shape": shape,
    "Slice": slice_,
    "Split": split,
    "Squeeze": squeeze,
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
}
"""The converters of ops that move elements."""
