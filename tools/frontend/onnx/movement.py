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
from penstock.dialects.utils.numpy_types import dtype_of
from penstock.dialects.utils.tensors import broadcast_shapes
from penstock.tools.frontend.onnx.counted import (
    counted_slice,
    is_plain,
    places_in,
    scalar,
)
from penstock.tools.frontend.onnx.extents import CannotFollow
from penstock.tools.frontend.onnx.graph import Converter, Node, NotKnown, Unsupported
from penstock.tools.frontend.onnx.ops import Value
from penstock.tools.frontend.onnx.sizes import is_same


def reshape(node: Node) -> None:
    """The same elements in another shape; 0 keeps an extent."""
    source, target = node.shape(), node.sizes(1, "the shape")
    counted = {axis for axis, size in enumerate(target) if isinstance(size, SSAValue)}
    free = {axis for axis, size in enumerate(target) if size in (0, -1)}
    shape = [-1 if isinstance(size, SSAValue) else size for size in target]
    if shape.count(-1) > 1:
        shape = [node.room(size, 1, "the shape") for size in target]
    if not node.int("allowzero", 0):
        if 0 in shape[len(source) :]:
            raise Unsupported(f"0 in {shape} keeps none of {len(source)} extents")
        shape = [
            source[axis] if extent == 0 else extent for axis, extent in enumerate(shape)
        ]
    give_reshaped(node, shape, counted, free)


def give_reshaped(
    node: Node,
    shape: Sequence[int],
    counted: set[int] | None = None,
    free: set[int] | None = None,
) -> None:
    """
    Let the first operand in another shape be the output, of which some axes are
    counted, some are free to be, and others are not; any may be if that is not said.
    """
    if counted is None or free is None:
        node.give(ReshapeOp, node.tensor(), shape=shape)
        return
    extents, value = node.builder.extents, node.tensor()
    try:
        node.give_value(extents.reshaped(value, shape, counted, free))
    except CannotFollow as error:
        inputs = node.builder.inputs_of_counts([value])
        name = node.inputs[1] if counted and not inputs else node.outputs[0]
        raise NotKnown(str(error), name, inputs) from None


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
    node.give_value(expanded(node, node.tensor(), 1))


def expanded(node: Node, value: Value, index: int) -> Value:
    """A value broadcast with a shape, an operand that may follow from counts."""
    extents, sizes = node.ops.shape(value), node.sizes(index, "the shape")
    target = [node.room(size, index, "the shape") for size in sizes]
    shape = broadcast_shapes([extents, target])
    result = node.builder.as_tensor(node.ops.one(ExpandOp, value, shape=shape))
    own = [1] * (len(shape) - len(extents)) + extents
    new = len(shape) - len(sizes)
    for axis, size in enumerate(sizes, start=new):
        if isinstance(size, SSAValue):
            count = scalar(node, size)
            there = node.builder.extents.of(result).get(axis)
            if own[axis] != 1 and (there is None or not is_same(there, count)):
                text = "an extent is a count, and that of its operand is another one"
                raise NotKnown(text, node.outputs[0])
            node.builder.extents.set(result, axis, count, is_blank=False)
    return result


def constant_of_shape(node: Node) -> None:
    """A number in all places of a shape that follows from counts."""
    number = node.array("value", np.zeros([1], np.float32)).reshape([])
    node.give_value(expanded(node, number, 0))


def number_range(node: Node) -> None:
    """Numbers from 0 on, as many as a count says."""
    start, step = (node.known_number(index, "a number") for index in (0, 2))
    (size,) = node.sizes(1, "the end")
    dtype = dtype_of(node.element())
    if not isinstance(size, SSAValue):
        # A known extent beside counted ones.
        node.give_value(np.arange(start, size, step, dtype=dtype))
        return
    if (start, step) != (0, 1):
        raise NotKnown("the end is only known at run time", node.inputs[1])
    numbers = np.arange(node.room(size, 1, "the end"), dtype=dtype)
    node.give_value(node.builder.extents.first(numbers, scalar(node, size)))


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
    starts, ends = node.sizes(1, "the start"), node.sizes(2, "the end")
    axes = list(range(len(starts)))
    if node.has(3):
        axes = node.known_ints(3, "the axes")
    steps = node.known_ints(4, "the step") if node.has(4) else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise Unsupported("starts, ends, axes and steps should be as many")
    ranges = [(0, extent, 1) for extent in extents]
    value: Value = node.tensor()
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        axis = normal_axis(axis, len(extents))
        if (
            isinstance(start, int)
            and isinstance(end, int)
            and is_plain(node, axis, start, end, step)
        ):
            ranges[axis] = range_of(start, end, step, extents[axis])
        else:
            value = counted_slice(node, value, axis, (start, end, step))
    first, last, by = zip(*ranges, strict=True)
    node.give_value(node.ops.one(SliceOp, value, starts=first, ends=last, steps=by))


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
    axis = node.axis(0)
    places = places_in(node, node.value(1), axis)
    node.give_value(node.builder.extents.taken(node.tensor(), places, axis))


def shape(node: Node) -> None:
    """The shape of a tensor, which is known, but for an extent that is a count."""
    extents, counts = node.shape(), node.builder.extents.of(node.value())
    first, last = node.int("start", 0), node.int("end", len(extents))
    wanted = range(len(extents))[first:last]
    node.builder.extents.is_settled = True
    if not counts.keys() & {*wanted}:
        node.give_value(np.array(extents[first:last], np.int64))
        return
    parts: list[Value] = [
        node.ops.reshape(counts[axis], [1])
        if axis in counts
        else np.array(extents[axis : axis + 1])
        for axis in wanted
    ]
    node.give_value(node.ops.concat(parts, 0))


CONVERTERS: Mapping[str, Converter] = {
    "Concat": concat,
    "ConstantOfShape": constant_of_shape,
    "Expand": expand,
    "Flatten": flatten,
    "Gather": gather,
    "Pad": pad,
    "Range": number_range,
    "Reshape": reshape,
    "Shape": shape,
    "Slice": slice_,
    "Split": split,
    "Squeeze": squeeze,
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
}
"""The converters of ops that move elements."""
