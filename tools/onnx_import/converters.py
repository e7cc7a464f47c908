"""
What each op of ONNX is in terms of the op dialect.

Where versions differ, a converter reads all of them from version 13 on; older models
are brought to a newer version first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import numpy as np
from onnx import TensorProto
from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    f16,
    f32,
    f64,
    i64,
)
from xdsl.ir import Attribute, SSAValue

from penstock.dialects.interfaces import TensorOp, broadcast_shapes, tensor_type
from penstock.dialects.numpy_types import dtype_of
from penstock.dialects.op import activation, comparison, elementwise, functions
from penstock.dialects.op.axes import int_list
from penstock.dialects.op.cast import CastOp
from penstock.dialects.op.checks import highest, lowest, normal_axis
from penstock.dialects.op.linear import GemmOp, MatmulOp
from penstock.dialects.op.movement import (
    ExpandOp,
    GatherOp,
    ReshapeOp,
    TransposeOp,
)
from penstock.dialects.op.normalization import (
    LayerNormOp,
    LogSoftmaxOp,
    SoftmaxOp,
)
from penstock.dialects.op.padding import PadMode, PadModeAttr, PadOp
from penstock.dialects.op.parts import ConcatOp, SliceOp, SplitOp
from penstock.dialects.op.pooling import (
    GlobalAveragePoolOp,
)
from penstock.dialects.op.reduction import (
    ReduceMaxOp,
    ReduceMeanOp,
    ReduceMinOp,
    ReduceOp,
    ReduceProdOp,
    ReduceSumOp,
)
from penstock.dialects.op.response_norm import LocalResponseNormOp
from penstock.tools.onnx_import import (
    arithmetic,
    attention,
    einsum,
    fourier,
    images,
    indexing,
    quantization,
    recurrent,
    reductions,
    resize,
)
from penstock.tools.onnx_import.graph import (
    Converter,
    Node,
    Unsupported,
    element_type_of_onnx,
)
from penstock.tools.onnx_import.ops import Value


def flag(condition: bool) -> UnitAttr | None:
    """A property that is there or not."""
    return UnitAttr() if condition else None


def number(value: float) -> FloatAttr:
    """A property that is a number."""
    return FloatAttr(value, f64)


def same(op: type[TensorOp]) -> Converter:
    """An op that takes the same operands and has no properties."""

    def convert(node: Node) -> None:
        node.give(op, node.tensors())

    return convert


def variadic(op: type[TensorOp]) -> Converter:
    """An op on any number of operands that is made of ops on two."""

    def convert(node: Node) -> None:
        first, *others = node.tensors()
        for other in others[:-1]:
            (first,) = node.builder.add(op, [first, other])
        if others:
            node.give(op, [first, others[-1]])
        else:
            node.give_value(first)

    return convert


def identity(node: Node) -> None:
    """The operand itself."""
    node.give_value(node.value())


def dropout(node: Node) -> None:
    """Nothing is dropped outside of training, or if the share to drop is 0."""
    training = node.has(2) and bool(node.known_number(2, "'training_mode'"))
    if training and (not node.has(1) or node.known_number(1, "'ratio'")):
        raise Unsupported("training is not imported")
    identity(node)
    if node.wants(1):
        node.give_value(np.ones(node.shape(), np.bool_), 1)


def gemm(node: Node) -> None:
    """A product of matrices, scaled, plus a third one."""
    node.give(
        GemmOp,
        node.tensors(),
        {
            "transpose_a": flag(node.int("transA", 0) == 1),
            "transpose_b": flag(node.int("transB", 0) == 1),
            "alpha": number(node.float("alpha", 1.0)),
            "beta": number(node.float("beta", 1.0)),
        },
    )


def local_response_norm(node: Node) -> None:
    """Scaling by neighbouring channels; half-precision floats go through f32."""
    properties = {
        "size": IntegerAttr(node.int("size", 0), i64),
        "alpha": number(node.float("alpha", 1e-4)),
        "beta": number(node.float("beta", 0.75)),
        "bias": number(node.float("bias", 1.0)),
    }
    input = node.tensor()
    element = tensor_type(input).element_type
    if element != f16:
        node.give(LocalResponseNormOp, [input], properties)
        return
    wide = cast_to(node, input, f32)
    (result,) = node.builder.add(LocalResponseNormOp, [wide], properties)
    node.give(CastOp, [result], {"to": element})


def layer_norm(node: Node) -> None:
    """Normalisation over the last axes; half-precision floats go through f32."""
    axis, element = node.axis(-1), tensor_type(node.tensor()).element_type
    operands = [
        node.tensor(),
        *(
            expanded_to(node, index, node.shape()[axis:])
            for index in (1, 2)
            if node.has(index)
        ),
    ]
    properties = {
        "axis": IntegerAttr(axis, i64),
        "epsilon": number(node.float("epsilon", 1e-5)),
    }
    if node.wants(1) or node.wants(2):
        reductions.layer_norm_statistics(node)
    if element != f16 or node.int("stash_type", 1) != TensorProto.FLOAT:
        node.give(LayerNormOp, operands, properties)
        return
    wide = [cast_to(node, operand, f32) for operand in operands]
    (result,) = node.builder.add(LayerNormOp, wide, properties)
    node.give(CastOp, [result], {"to": element})


def expanded_to(node: Node, index: int, shape: Sequence[int]) -> SSAValue:
    """An operand broadcast to a shape, unless it has that shape already."""
    if node.shape(index) == list(shape):
        return node.tensor(index)
    properties = {"shape": int_list(shape)}
    return node.builder.add(ExpandOp, [node.tensor(index)], properties)[0]


def cast_to(node: Node, value: SSAValue, element: Attribute) -> SSAValue:
    """A tensor with elements of another type, unless it has them already."""
    if tensor_type(value).element_type == element:
        return value
    return node.builder.add(CastOp, [value], {"to": element})[0]


def along_axis(op: type[SoftmaxOp | LogSoftmaxOp]) -> Converter:
    """An op that takes lines along the attribute `axis`, the last one by default."""

    def convert(node: Node) -> None:
        axis = IntegerAttr(node.int("axis", -1), i64)
        node.give(op, node.tensors(), {"axis": axis})

    return convert


def gelu(node: Node) -> None:
    """The Gaussian error linear unit."""
    form = StringAttr(node.text("approximate", "none"))
    node.give(activation.GeluOp, node.tensors(), {"approximate": form})


def leaky_relu(node: Node) -> None:
    """A small slope for negative elements."""
    alpha = number(node.float("alpha", 0.01))
    node.give(activation.LeakyReluOp, node.tensors(), {"alpha": alpha})


def clip(node: Node) -> None:
    """Elements no smaller and no larger than two numbers."""
    element = tensor_type(node.tensor()).element_type
    given = [index for index in (1, 2) if node.has(index)]
    known = all(not isinstance(node.value(index), SSAValue) for index in given)
    if known and isinstance(element, AnyFloat):
        bounds = {
            ("min", "max")[index - 1]: number(node.known_number(index, "a bound"))
            for index in given
        }
        node.give(activation.ClipOp, [node.tensor()], bounds)
        return
    value = node.tensor()
    for index in given:
        op = (elementwise.MaximumOp, elementwise.MinimumOp)[index - 1]
        (value,) = node.builder.add(op, [value, node.tensor(index)])
    node.give_value(value)


def power(node: Node) -> None:
    """
    A power, whose exponent may be of another type. Integers go through 64-bit floats,
    which hold them exactly up to 2^53.
    """
    base, exponent = node.tensors()
    element = tensor_type(base).element_type
    if isinstance(element, AnyFloat):
        node.give(elementwise.PowOp, [base, cast_to(node, exponent, element)])
        return
    wide = [cast_to(node, value, f64) for value in (base, exponent)]
    (result,) = node.builder.add(elementwise.PowOp, wide)
    node.give(CastOp, [result], {"to": element})


EMPTY = {ReduceMaxOp: lowest, ReduceMinOp: highest}
"""What ONNX takes for the largest and the smallest of no elements."""


def give_bound(
    node: Node, bound: Callable[[Attribute], float], axes: Sequence[int] | None
) -> None:
    """One number for all elements along some axes, of which there are none."""
    shape = node.shape()
    gone = {normal_axis(axis, len(shape)) for axis in axes or range(len(shape))}
    kept = [1 if axis in gone else extent for axis, extent in enumerate(shape)]
    if not node.int("keepdims", 1):
        kept = [extent for axis, extent in enumerate(shape) if axis not in gone]
    element = node.element()
    node.give_value(np.full(kept, bound(element), dtype_of(element)))


def reduce(op: type[ReduceOp]) -> Converter:
    """One number for all elements along some axes."""

    def convert(node: Node) -> None:
        axes = node.ints_or_operand("axes", 1)
        if not axes and node.int("noop_with_empty_axes", 0):
            identity(node)
            return
        if op in EMPTY and 0 in node.shape():
            give_bound(node, EMPTY[op], axes)
            return
        properties = {
            "axes": int_list(axes or []),
            "keepdims": flag(node.int("keepdims", 1) == 1),
        }
        node.give(op, [node.tensor()], properties)

    return convert


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
    node.give(ReshapeOp, [node.tensor()], {"shape": int_list(shape)})


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
    node.give(TransposeOp, node.tensors(), {"permutation": int_list(order)})


def expand(node: Node) -> None:
    """Broadcasting with a shape, in both directions."""
    shape = broadcast_shapes([node.shape(), node.known_ints(1, "the shape")])
    node.give(ExpandOp, [node.tensor()], {"shape": int_list(shape)})


def concat(node: Node) -> None:
    """Tensors one after the other along an axis."""
    axis = IntegerAttr(node.int("axis", 0), i64)
    node.give(ConcatOp, node.tensors(), {"axis": axis})


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
    node.give(
        SplitOp,
        [node.tensor()],
        {"axis": IntegerAttr(axis, i64), "sizes": int_list(sizes)},
        count=count,
    )


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
    properties = {
        "starts": int_list(first),
        "ends": int_list(last),
        "steps": int_list(by),
    }
    node.give(SliceOp, [node.tensor()], properties)


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
        [cropped(node, before, after)],
        {
            "before": int_list([max(0, count) for count in before]),
            "after": int_list([max(0, count) for count in after]),
            "mode": PadModeAttr(PadMode(mode)),
            "value": number(value),
        },
    )


def wrapped(node: Node, before: Sequence[int], after: Sequence[int]) -> Value:
    """The first operand as if each axis were a ring."""
    ops, value = node.ops, node.value()
    pairs = zip(node.shape(), before, after, strict=True)
    for axis, (extent, first, last) in enumerate(pairs):
        if first or last:
            places = np.arange(-first, extent + last) % extent
            value = ops.gather(value, places, axis)
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
    properties = {
        "starts": int_list(starts),
        "ends": int_list([max(0, end) for end in ends]),
        "steps": int_list([1] * len(extents)),
    }
    return node.builder.add(SliceOp, [node.tensor()], properties)[0]


def gather(node: Node) -> None:
    """Parts of a tensor that another one numbers."""
    axis = IntegerAttr(node.int("axis", 0), i64)
    node.give(GatherOp, node.tensors(), {"axis": axis})


def cast(node: Node) -> None:
    """The same numbers in another type."""
    element = element_type_of_onnx(node.int("to", 0))
    node.give(CastOp, [node.tensor()], {"to": element})


def shape(node: Node) -> None:
    """The shape of a tensor, which is known."""
    extents = node.shape()
    first, last = node.int("start", 0), node.int("end", len(extents))
    node.give_value(np.array(extents[first:last], np.int64))


CONVERTERS: Mapping[str, Converter] = {
    **arithmetic.CONVERTERS,
    **attention.CONVERTERS,
    **einsum.CONVERTERS,
    **fourier.CONVERTERS,
    **images.CONVERTERS,
    **indexing.CONVERTERS,
    **quantization.CONVERTERS,
    **recurrent.CONVERTERS,
    **reductions.CONVERTERS,
    **resize.CONVERTERS,
    "Abs": same(elementwise.AbsOp),
    "Add": same(elementwise.AddOp),
    "And": same(comparison.LogicalAndOp),
    "Cast": cast,
    "Ceil": same(functions.CeilOp),
    "Clip": clip,
    "Concat": concat,
    "Div": same(elementwise.DivOp),
    "Dropout": dropout,
    "Equal": same(comparison.EqualOp),
    "Erf": same(functions.ErfOp),
    "Exp": same(functions.ExpOp),
    "Expand": expand,
    "Flatten": flatten,
    "Floor": same(functions.FloorOp),
    "Gather": gather,
    "Gelu": gelu,
    "Gemm": gemm,
    "GlobalAveragePool": same(GlobalAveragePoolOp),
    "Greater": same(comparison.GreaterOp),
    "GreaterOrEqual": same(comparison.GreaterEqualOp),
    "Identity": identity,
    "LRN": local_response_norm,
    "LayerNormalization": layer_norm,
    "LeakyRelu": leaky_relu,
    "Less": same(comparison.LessOp),
    "LessOrEqual": same(comparison.LessEqualOp),
    "Log": same(functions.LogOp),
    "LogSoftmax": along_axis(LogSoftmaxOp),
    "MatMul": same(MatmulOp),
    "Max": variadic(elementwise.MaximumOp),
    "Min": variadic(elementwise.MinimumOp),
    "Mul": same(elementwise.MulOp),
    "Neg": same(elementwise.NegOp),
    "Not": same(comparison.LogicalNotOp),
    "Or": same(comparison.LogicalOrOp),
    "Pad": pad,
    "Pow": power,
    "Reciprocal": same(elementwise.ReciprocalOp),
    "ReduceMax": reduce(ReduceMaxOp),
    "ReduceMean": reduce(ReduceMeanOp),
    "ReduceMin": reduce(ReduceMinOp),
    "ReduceProd": reduce(ReduceProdOp),
    "ReduceSum": reduce(ReduceSumOp),
    "Relu": same(activation.ReluOp),
    "Reshape": reshape,
    "Shape": shape,
    "Sigmoid": same(activation.SigmoidOp),
    "Slice": slice_,
    "Softmax": along_axis(SoftmaxOp),
    "Split": split,
    "Sqrt": same(functions.SqrtOp),
    "Squeeze": squeeze,
    "Sub": same(elementwise.SubOp),
    "Sum": variadic(elementwise.AddOp),
    "Tanh": same(activation.TanhOp),
    "Transpose": transpose,
    "Unsqueeze": unsqueeze,
    "Where": same(comparison.WhereOp),
    "Xor": same(comparison.LogicalXorOp),
}
"""How each op of ONNX is converted, by its name."""
