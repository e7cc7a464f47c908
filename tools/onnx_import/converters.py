"""
What each op of ONNX is in terms of the op dialect.

Where versions differ, a converter reads all of them from version 13 on; older models
are brought to a newer version first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, StringAttr, UnitAttr, f64, i64
from xdsl.ir import Attribute

from penstock.dialects.interfaces import TensorOp, tensor_type
from penstock.dialects.op import activation, comparison, elementwise, functions
from penstock.dialects.op.axes import int_list
from penstock.dialects.op.cast import CastOp
from penstock.dialects.op.convolution import Conv2dOp
from penstock.dialects.op.linear import GemmOp, MatmulOp
from penstock.dialects.op.movement import (
    ExpandOp,
    GatherOp,
    ReshapeOp,
    TransposeOp,
)
from penstock.dialects.op.normalization import BatchNormOp, LayerNormOp, SoftmaxOp
from penstock.dialects.op.padding import PadMode, PadModeAttr, PadOp
from penstock.dialects.op.parts import ConcatOp, SliceOp, SplitOp
from penstock.dialects.op.pooling import (
    AveragePool2dOp,
    GlobalAveragePoolOp,
    MaxPool2dOp,
)
from penstock.dialects.op.reduction import (
    ReduceMaxOp,
    ReduceMeanOp,
    ReduceMinOp,
    ReduceOp,
    ReduceProdOp,
    ReduceSumOp,
)
from penstock.tools.onnx_import.graph import (
    Node,
    Unsupported,
    element_type_of_onnx,
)

Converter: TypeAlias = Callable[[Node], None]


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
    node.give_value(node.builder.values[node.proto.input[0]])


def dropout(node: Node) -> None:
    """Nothing is dropped outside of training."""
    if len(node.outputs) > 1:
        raise Unsupported("the mask of Dropout is not computed")
    if node.has(2) and bool(node.known(2, "training_mode")):
        raise Unsupported("training is not imported")
    identity(node)


def conv(node: Node) -> None:
    """A convolution of images."""
    if len(node.shape()) != 4:
        raise Unsupported(f"only images are convolved, got {len(node.shape())} axes")
    kernel = node.shape(1)[2:]
    strides = node.ints("strides") or [1, 1]
    dilations = node.ints("dilations") or [1, 1]
    node.give(
        Conv2dOp,
        node.tensors(),
        {
            "strides": int_list(strides),
            "pads": int_list(pads_of(node, kernel, strides, dilations)),
            "dilations": int_list(dilations),
            "groups": IntegerAttr(node.int("group", 1), i64),
        },
    )


def pads_of(
    node: Node, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]
) -> list[int]:
    """Top, left, bottom, right, as `pads` or `auto_pad` say."""
    auto = node.text("auto_pad", "NOTSET")
    if auto in ("NOTSET", "VALID"):
        explicit = node.ints("pads") if auto == "NOTSET" else None
        return explicit or [0, 0, 0, 0]
    total = [
        max(0, (-(-extent // stride) - 1) * stride + (size - 1) * dilation + 1 - extent)
        for extent, size, stride, dilation in zip(
            node.shape()[2:], kernel, strides, dilations, strict=True
        )
    ]
    small, large = [t // 2 for t in total], [t - t // 2 for t in total]
    return [*small, *large] if auto == "SAME_UPPER" else [*large, *small]


def pool(op: type[MaxPool2dOp | AveragePool2dOp]) -> Converter:
    """The largest element or the average of each window of images."""

    def convert(node: Node) -> None:
        if len(node.shape()) != 4:
            raise Unsupported(f"only images are pooled, got {len(node.shape())} axes")
        if len(node.outputs) > 1:
            raise Unsupported("the indices of maxima are not computed")
        kernel = node.ints("kernel_shape") or []
        strides = node.ints("strides") or [1, 1]
        dilations = node.ints("dilations") or [1, 1]
        properties: dict[str, Attribute | None] = {
            "kernel": int_list(kernel),
            "strides": int_list(strides),
            "pads": int_list(pads_of(node, kernel, strides, dilations)),
            "ceil_mode": flag(node.int("ceil_mode", 0) == 1),
        }
        if op is MaxPool2dOp:
            properties["dilations"] = int_list(dilations)
        elif dilations != [1, 1]:
            raise Unsupported("averages of dilated windows are not computed")
        else:
            include = node.int("count_include_pad", 0) == 1
            properties["count_include_pad"] = flag(include)
        node.give(op, node.tensors(), properties)

    return convert


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


def batch_norm(node: Node) -> None:
    """Normalisation by statistics that are given."""
    if node.int("training_mode", 0) or len(node.outputs) > 1:
        raise Unsupported("training is not imported")
    epsilon = number(node.float("epsilon", 1e-5))
    node.give(BatchNormOp, node.tensors(), {"epsilon": epsilon})


def layer_norm(node: Node) -> None:
    """Normalisation over the last axes."""
    if len(node.outputs) > 1:
        raise Unsupported("the mean and deviation of LayerNormalization are not given")
    node.give(
        LayerNormOp,
        node.tensors(),
        {
            "axis": IntegerAttr(node.int("axis", -1), i64),
            "epsilon": number(node.float("epsilon", 1e-5)),
        },
    )


def softmax(node: Node) -> None:
    """Exponentials that sum to one."""
    axis = IntegerAttr(node.int("axis", -1), i64)
    node.give(SoftmaxOp, node.tensors(), {"axis": axis})


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
    bounds = {
        name: number(float(node.known(index, f"'{name}'").reshape(())))
        for index, name in ((1, "min"), (2, "max"))
        if node.has(index)
    }
    node.give(activation.ClipOp, [node.tensor(0)], bounds)


def power(node: Node) -> None:
    """A power, whose exponent may be of another type."""
    base, exponent = node.tensors()
    element = tensor_type(base).element_type
    if tensor_type(exponent).element_type != element:
        (exponent,) = node.builder.add(CastOp, [exponent], {"to": element})
    node.give(elementwise.PowOp, [base, exponent])


def reduce(op: type[ReduceOp]) -> Converter:
    """One number for all elements along some axes."""

    def convert(node: Node) -> None:
        axes = node.ints_or_operand("axes", 1)
        if not axes and node.int("noop_with_empty_axes", 0):
            identity(node)
            return
        properties = {
            "axes": int_list(axes or []),
            "keepdims": flag(node.int("keepdims", 1) == 1),
        }
        node.give(op, [node.tensor(0)], properties)

    return convert


def reshape(node: Node) -> None:
    """The same elements in another shape; 0 keeps an extent."""
    target = node.known_ints(1, "the shape")
    if not node.int("allowzero", 0):
        source = node.shape()
        target = [
            source[axis] if extent == 0 else extent
            for axis, extent in enumerate(target)
        ]
    give_reshaped(node, target)


def give_reshaped(node: Node, shape: Sequence[int]) -> None:
    """Let the first operand in another shape be the output."""
    node.give(ReshapeOp, [node.tensor(0)], {"shape": int_list(shape)})


def flatten(node: Node) -> None:
    """A matrix of the axes before one and those from it on."""
    shape, axis = node.shape(), node.int("axis", 1)
    axis += len(shape) * (axis < 0)
    rows = int(np.prod(shape[:axis], dtype=np.int64))
    give_reshaped(node, [rows, int(np.prod(shape[axis:], dtype=np.int64))])


def squeeze(node: Node) -> None:
    """Fewer axes of extent 1."""
    shape = node.shape()
    given = node.ints_or_operand("axes", 1)
    axes = [axis for axis, extent in enumerate(shape) if extent == 1]
    if given is not None:
        axes = [axis % len(shape) for axis in given]
    give_reshaped(node, [x for axis, x in enumerate(shape) if axis not in axes])


def unsqueeze(node: Node) -> None:
    """More axes of extent 1."""
    given = node.ints_or_operand("axes", 1) or []
    shape, rank = node.shape(), len(node.shape()) + len(given)
    for axis in sorted(axis % rank for axis in given):
        shape.insert(axis, 1)
    give_reshaped(node, shape)


def transpose(node: Node) -> None:
    """The axes in another order; reversed if none is given."""
    order = node.ints("perm") or list(reversed(range(len(node.shape()))))
    node.give(TransposeOp, node.tensors(), {"permutation": int_list(order)})


def expand(node: Node) -> None:
    """Broadcasting with a shape, in both directions."""
    shape = np.broadcast_shapes(node.shape(), node.known_ints(1, "the shape"))
    node.give(ExpandOp, [node.tensor(0)], {"shape": int_list(list(shape))})


def concat(node: Node) -> None:
    """Tensors one after the other along an axis."""
    axis = IntegerAttr(node.int("axis", 0), i64)
    node.give(ConcatOp, node.tensors(), {"axis": axis})


def split(node: Node) -> None:
    """Parts of a tensor along an axis; without sizes, equal ones but for the last."""
    axis = node.int("axis", 0)
    extent, count = node.shape()[axis], len(node.outputs)
    sizes = node.ints_or_operand("split", 1)
    if sizes is None:
        part = -(-extent // count)
        sizes = [min(part, extent - part * index) for index in range(count)]
    node.give(
        SplitOp,
        [node.tensor(0)],
        {"axis": IntegerAttr(axis, i64), "sizes": int_list(sizes)},
    )


def slice_(node: Node) -> None:
    """A range of elements along some axes."""
    rank = len(node.shape())
    starts, ends = node.known_ints(1, "the start"), node.known_ints(2, "the end")
    axes = node.known_ints(3, "the axes") if node.has(3) else list(range(len(starts)))
    steps = node.known_ints(4, "the steps") if node.has(4) else [1] * len(starts)
    ranges = [slice(None)] * rank
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        ranges[axis] = slice(start, end, step)
    bounds = [
        one.indices(extent) for one, extent in zip(ranges, node.shape(), strict=True)
    ]
    # A range that ends before the first element cannot be told from one that ends
    # before the last unless its end is out of range.
    ends = [
        end if end >= 0 else -extent - 1
        for (_, end, _), extent in zip(bounds, node.shape(), strict=True)
    ]
    node.give(
        SliceOp,
        [node.tensor(0)],
        {
            "starts": int_list([start for start, _, _ in bounds]),
            "ends": int_list(ends),
            "steps": int_list([step for _, _, step in bounds]),
        },
    )


def pad(node: Node) -> None:
    """More elements before and after those of a tensor."""
    rank, mode = len(node.shape()), node.text("mode", "constant")
    if mode not in tuple(PadMode):
        raise Unsupported(f"the padding mode '{mode}' is not known")
    pads = node.known_ints(1, "the padding")
    axes = node.known_ints(3, "the axes") if node.has(3) else list(range(rank))
    before, after = [0] * rank, [0] * rank
    for axis, first, last in zip(axes, pads, pads[len(axes) :], strict=False):
        before[axis], after[axis] = first, last
    value = float(node.known(2, "the value").reshape(())) if node.has(2) else 0.0
    node.give(
        PadOp,
        [node.tensor(0)],
        {
            "before": int_list(before),
            "after": int_list(after),
            "mode": PadModeAttr(PadMode(mode)),
            "value": number(value),
        },
    )


def gather(node: Node) -> None:
    """Parts of a tensor that another one numbers."""
    axis = IntegerAttr(node.int("axis", 0), i64)
    node.give(GatherOp, node.tensors(), {"axis": axis})


def cast(node: Node) -> None:
    """The same numbers in another type."""
    element = element_type_of_onnx(node.int("to", 0))
    node.give(CastOp, [node.tensor(0)], {"to": element})


def shape(node: Node) -> None:
    """The shape of a tensor, which is known."""
    extents = node.shape()
    first, last = node.int("start", 0), node.int("end", len(extents))
    node.give_value(np.array(extents[first:last], np.int64))


CONVERTERS: Mapping[str, Converter] = {
    "Abs": same(elementwise.AbsOp),
    "Add": same(elementwise.AddOp),
    "And": same(comparison.LogicalAndOp),
    "AveragePool": pool(AveragePool2dOp),
    "BatchNormalization": batch_norm,
    "Cast": cast,
    "Ceil": same(functions.CeilOp),
    "Clip": clip,
    "Concat": concat,
    "Conv": conv,
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
    "LayerNormalization": layer_norm,
    "LeakyRelu": leaky_relu,
    "Less": same(comparison.LessOp),
    "LessOrEqual": same(comparison.LessEqualOp),
    "Log": same(functions.LogOp),
    "MatMul": same(MatmulOp),
    "Max": variadic(elementwise.MaximumOp),
    "MaxPool": pool(MaxPool2dOp),
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
    "Softmax": softmax,
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
