"""
The table of converters, from ops of ONNX to ops of the op dialect.

Where versions differ, a converter reads all of them from version 13 on; older models
are brought to a newer version first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from onnx import TensorProto
from xdsl.dialects.builtin import (
    AnyFloat,
    f16,
    f32,
    f64,
)
from xdsl.ir import Attribute, SSAValue

from penstock.dialects.op import activation, comparison, elementwise
from penstock.dialects.op import unary_math as functions
from penstock.dialects.op.cast import CastOp
from penstock.dialects.op.linear import GemmOp, MatmulOp
from penstock.dialects.op.movement import ExpandOp
from penstock.dialects.op.normalization import (
    LayerNormOp,
    LogSoftmaxOp,
    SoftmaxOp,
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
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.verify import highest, lowest, normal_axis
from penstock.dialects.op.windows.pooling import GlobalAveragePoolOp
from penstock.dialects.utils.numpy_types import dtype_of
from penstock.dialects.utils.tensors import tensor_type
from penstock.tools.frontend.onnx import (
    arithmetic,
    attention,
    convolutions,
    counted,
    dequantized,
    einsum,
    fourier,
    images,
    indexing,
    movement,
    pooling,
    quantization,
    recurrent,
    reductions,
    resize,
    sampling,
    training,
)
from penstock.tools.frontend.onnx.dequantized import first_of
from penstock.tools.frontend.onnx.graph import (
    Converter,
    Node,
    Unsupported,
    element_type_of_onnx,
)


def same(op: type[TensorOp]) -> Converter:
    """An op that takes the same operands and has no properties."""

    def convert(node: Node) -> None:
        node.give(op, *node.tensors())

    return convert


def variadic(op: type[TensorOp]) -> Converter:
    """An op on any number of operands that is made of ops on two."""

    def convert(node: Node) -> None:
        first, *others = node.tensors()
        for other in others[:-1]:
            (first,) = node.builder.add(op, first, other)
        if others:
            node.give(op, first, others[-1])
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
    """GEMM: a matmul, scaled, plus a third matrix."""
    node.give(
        GemmOp,
        *node.tensors(),
        transpose_a=node.int("transA", 0) == 1,
        transpose_b=node.int("transB", 0) == 1,
        alpha=node.float("alpha", 1.0),
        beta=node.float("beta", 1.0),
    )


def local_response_norm(node: Node) -> None:
    """Scaling by neighbouring channels; half-precision floats go through f32."""
    size = node.int("size", 0)
    numbers = {"alpha": 1e-4, "beta": 0.75, "bias": 1.0}
    numbers = {name: node.float(name, usual) for name, usual in numbers.items()}
    input = node.tensor()
    element = tensor_type(input).element_type
    if element != f16:
        node.give(LocalResponseNormOp, input, size=size, **numbers)
        return
    wide = cast_to(node, input, f32)
    (result,) = node.builder.add(LocalResponseNormOp, wide, size=size, **numbers)
    node.give(CastOp, result, to=element)


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
    epsilon = node.float("epsilon", 1e-5)
    if node.wants(1) or node.wants(2):
        reductions.layer_norm_statistics(node)
    if element != f16 or node.int("stash_type", 1) != TensorProto.FLOAT:
        node.give(LayerNormOp, *operands, axis=axis, epsilon=epsilon)
        return
    wide = [cast_to(node, operand, f32) for operand in operands]
    (result,) = node.builder.add(LayerNormOp, *wide, axis=axis, epsilon=epsilon)
    node.give(CastOp, result, to=element)


def expanded_to(node: Node, index: int, shape: Sequence[int]) -> SSAValue:
    """An operand broadcast to a shape, unless it has that shape already."""
    if node.shape(index) == list(shape):
        return node.tensor(index)
    return node.builder.add(ExpandOp, node.tensor(index), shape=shape)[0]


def cast_to(node: Node, value: SSAValue, element: Attribute) -> SSAValue:
    """A tensor with elements of another type, unless it has them already."""
    if tensor_type(value).element_type == element:
        return value
    return node.builder.add(CastOp, value, to=element)[0]


def along_axis(op: type[SoftmaxOp | LogSoftmaxOp]) -> Converter:
    """An op that takes lines along the attribute `axis`, the last one by default."""

    def convert(node: Node) -> None:
        node.give(op, *node.tensors(), axis=node.int("axis", -1))

    return convert


def gelu(node: Node) -> None:
    """The Gaussian error linear unit."""
    form = node.text("approximate", "none")
    node.give(activation.GeluOp, *node.tensors(), approximate=form)


def leaky_relu(node: Node) -> None:
    """A small slope for negative elements."""
    alpha = node.float("alpha", 0.01)
    node.give(activation.LeakyReluOp, *node.tensors(), alpha=alpha)


def clip(node: Node) -> None:
    """Elements no smaller and no larger than two numbers."""
    element = tensor_type(node.tensor()).element_type
    given = [index for index in (1, 2) if node.has(index)]
    known = all(not isinstance(node.value(index), SSAValue) for index in given)
    if known and isinstance(element, AnyFloat):
        bounds = {
            ("min", "max")[index - 1]: node.known_number(index, "a bound")
            for index in given
        }
        node.give(activation.ClipOp, node.tensor(), **bounds)
        return
    value = node.tensor()
    for index in given:
        op = (elementwise.MaximumOp, elementwise.MinimumOp)[index - 1]
        (value,) = node.builder.add(op, value, node.tensor(index))
    node.give_value(value)


def power(node: Node) -> None:
    """
    A power, whose exponent may be of another type. Integers go through `f64`, which
    hold them exactly up to 2^53.
    """
    base, exponent = node.tensors()
    element = tensor_type(base).element_type
    if isinstance(element, AnyFloat):
        node.give(elementwise.PowOp, base, cast_to(node, exponent, element))
        return
    wide = [cast_to(node, value, f64) for value in (base, exponent)]
    (result,) = node.builder.add(elementwise.PowOp, *wide)
    node.give(CastOp, result, to=element)


EMPTY = {ReduceMaxOp: lowest, ReduceMinOp: highest}
"""The maximum and the minimum of no elements in ONNX."""


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
        keepdims = node.int("keepdims", 1) == 1
        node.give(op, node.tensor(), axes=axes or [], keepdims=keepdims)

    return convert


def cast(node: Node) -> None:
    """The same numbers in another type."""
    element = element_type_of_onnx(node.int("to", 0))
    node.give(CastOp, node.tensor(), to=element)


CONVERTERS: Mapping[str, Converter] = {
    **arithmetic.CONVERTERS,
    **attention.CONVERTERS,
    **convolutions.CONVERTERS,
    **einsum.CONVERTERS,
    **fourier.CONVERTERS,
    **images.CONVERTERS,
    **counted.CONVERTERS,
    **indexing.CONVERTERS,
    **movement.CONVERTERS,
    **pooling.CONVERTERS,
    **quantization.CONVERTERS,
    **recurrent.CONVERTERS,
    **reductions.CONVERTERS,
    **resize.CONVERTERS,
    **sampling.CONVERTERS,
    **training.CONVERTERS,
    "Abs": same(elementwise.AbsOp),
    "Add": same(elementwise.AddOp),
    "And": same(comparison.LogicalAndOp),
    "Cast": cast,
    "Ceil": same(functions.CeilOp),
    "Clip": clip,
    "Conv": first_of(dequantized.conv, convolutions.conv),
    "Div": same(elementwise.DivOp),
    "Dropout": dropout,
    "Equal": same(comparison.EqualOp),
    "Erf": same(functions.ErfOp),
    "Exp": same(functions.ExpOp),
    "Floor": same(functions.FloorOp),
    "Gelu": gelu,
    "Gemm": first_of(dequantized.gemm, gemm),
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
    "MatMul": first_of(dequantized.matmul, same(MatmulOp)),
    "Max": variadic(elementwise.MaximumOp),
    "Min": variadic(elementwise.MinimumOp),
    "Mul": same(elementwise.MulOp),
    "Neg": same(elementwise.NegOp),
    "Not": same(comparison.LogicalNotOp),
    "Or": same(comparison.LogicalOrOp),
    "Pow": power,
    "Reciprocal": same(elementwise.ReciprocalOp),
    "ReduceMax": reduce(ReduceMaxOp),
    "ReduceMean": reduce(ReduceMeanOp),
    "ReduceMin": reduce(ReduceMinOp),
    "ReduceProd": reduce(ReduceProdOp),
    "ReduceSum": reduce(ReduceSumOp),
    "Relu": same(activation.ReluOp),
    "Sigmoid": same(activation.SigmoidOp),
    "Softmax": along_axis(SoftmaxOp),
    "Sqrt": same(functions.SqrtOp),
    "Sub": same(elementwise.SubOp),
    "Sum": variadic(elementwise.AddOp),
    "Tanh": same(activation.TanhOp),
    "Where": same(comparison.WhereOp),
    "Xor": same(comparison.LogicalXorOp),
}
"""The converter of each op of ONNX, by its name, with the domain of other ones."""
