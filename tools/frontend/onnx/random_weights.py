"""Random weights for ONNX models, scaled so that activations stay near one."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from functools import partial
from math import erf, exp, pi, prod, sqrt
from typing import NamedTuple

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from penstock.tools.frontend.onnx.graph import Array

FIRST_IR_VERSION = 4
"""The version from which on an initializer need not be an input as well."""

FLOAT_TYPES = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.FLOAT16)

BIAS_DEVIATION = 0.1

PIECE = 1 << 14
"""The numbers that are drawn at once, each of 64 bits whatever the weight's type."""


class Role(Enum):
    """The use of a weight."""

    MATRIX = auto()
    """Sums of products: normal around 0, so that these sums have the mean square 1."""
    BIAS = auto()
    """Added, or a mean that is subtracted: normal around 0, `BIAS_DEVIATION` wide."""
    SCALE = auto()
    """A factor: uniform in 0.5..1.5."""
    VARIANCE = auto()
    """Uniform in 0.5..1.5 times the mean square of the dividend."""
    TABLE = auto()
    """Rows to choose from: normal around 0, with the variance 1."""


ROLES: Mapping[str, Mapping[int, Role]] = {
    "Add": {0: Role.BIAS, 1: Role.BIAS},
    "BatchNormalization": {
        1: Role.SCALE,
        2: Role.BIAS,
        3: Role.BIAS,
        4: Role.VARIANCE,
    },
    "Conv": {1: Role.MATRIX, 2: Role.BIAS},
    "Div": {1: Role.SCALE},
    "Gather": {0: Role.TABLE},
    "Gemm": {0: Role.MATRIX, 1: Role.MATRIX, 2: Role.BIAS},
    "LayerNormalization": {1: Role.SCALE, 2: Role.BIAS},
    "MatMul": {0: Role.MATRIX, 1: Role.MATRIX},
    "Mul": {0: Role.SCALE, 1: Role.SCALE},
    "Sub": {0: Role.BIAS, 1: Role.BIAS},
    "Sum": {0: Role.BIAS, 1: Role.BIAS},
}
"""The role of a weight by the op that uses it and the number of the operand."""

VIEWS = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Ops through which a weight goes on to the op that uses it."""

RECTIFIERS = frozenset({"Clip", "Gelu", "LeakyRelu", "PRelu", "Relu"})
"""Ops that remove negative elements, at least about."""

NORMALIZED_BY = frozenset(
    {"BatchNormalization", "Conv", "Gemm", "LayerNormalization", "MatMul"}
)
"""Ops whose results are about standard normal if their weights are drawn here."""


def with_random_weights(model: ModelProto, seed: int) -> ModelProto:
    """
    The same model with its weights replaced by random ones, which keep the mean square
    of activations near one through any number of layers if that of the inputs is one.

    Weights are tensors of several floats that have a `Role` and are initializers, or
    made by `ConstantOfShape`. Matrices and the weights of convolutions have the
    variance 1 / (fan-in * mean square of the operand): behind a rectifier that is 2 /
    fan-in (He et al. 2015), behind a sum of branches it is less. Mean squares are
    estimated op by op, as if all values were normal. The numbers depend on the seed and
    the weight's name alone, their scale also on the weight's use.
    """
    changed = ModelProto()
    changed.CopyFrom(model)
    changed.ir_version = max(model.ir_version, FIRST_IR_VERSION)
    graph = changed.graph
    drawing = _Drawing(weights_of(graph), seed)
    for node in graph.node:
        drawing.visit(node)
    replace(graph, drawing.drawn)
    return changed


class Weight(NamedTuple):
    """A tensor that may be replaced, as it is seen through views."""

    name: str
    shape: Sequence[int]
    dtype: np.dtype[np.generic]


def weights_of(graph: GraphProto) -> dict[str, Weight]:
    """The tensors of several floats that initializers or `ConstantOfShape` hold."""
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    found = [
        Weight(name, tuple(tensor.dims), dtype_of(tensor.data_type))
        for name, tensor in tensors.items()
        if tensor.data_type in FLOAT_TYPES
    ]
    for node in graph.node:
        if node.op_type == "ConstantOfShape" and node.input[0] in tensors:
            shape = numpy_helper.to_array(tensors[node.input[0]]).tolist()
            kind = next((a.t.data_type for a in node.attribute), TensorProto.FLOAT)
            if kind in FLOAT_TYPES:
                found.append(Weight(node.output[0], shape, dtype_of(kind)))
    return {weight.name: weight for weight in found if prod(weight.shape) > 1}


def dtype_of(element: int) -> np.dtype[np.generic]:
    """The dtype of a number of ONNX's enumeration."""
    return helper.tensor_dtype_to_np_dtype(element)


def replace(graph: GraphProto, values: Mapping[str, Array]) -> None:
    """Replace initializers and the nodes that make weights by new initializers."""
    kept = [node for node in graph.node if node.output[0] not in values]
    tensors = [tensor for tensor in graph.initializer if tensor.name not in values]
    del graph.node[:], graph.initializer[:]
    graph.node.extend(kept)
    graph.initializer.extend(tensors)
    for name, value in values.items():
        # Made in place: to append a tensor copies it.
        graph.initializer.add(
            name=name,
            data_type=helper.np_dtype_to_tensor_dtype(value.dtype),
            dims=value.shape,
            raw_data=value.tobytes(),
        )


class Moments(NamedTuple):
    """An estimate of the moments of the elements of a value."""

    mean: float = 0.0
    variance: float = 1.0

    @property
    def square(self) -> float:
        """The mean square."""
        return self.mean**2 + self.variance

    @classmethod
    def of_square(cls, mean: float, square: float) -> Moments:
        """The moments with a mean and a mean square."""
        return cls(mean, max(0.0, square - mean**2))

    def rectified(self) -> Moments:
        """The moments after a rectifier, of what was normal."""
        deviation = sqrt(self.variance)
        if not deviation:
            return Moments(max(0.0, self.mean), 0.0)
        place = self.mean / deviation
        density = exp(-(place**2) / 2) / sqrt(2 * pi)
        above = (1 + erf(place / sqrt(2))) / 2
        mean = self.mean * above + deviation * density
        square = self.square * above + self.mean * deviation * density
        return Moments.of_square(mean, square)


class _Drawing:
    """Draws weights where they are first used, along estimates of moments."""

    def __init__(self, weights: Mapping[str, Weight], seed: int):
        self.drawn: dict[str, Array] = {}
        self._weights = dict(weights)
        self._moments: dict[str, Moments] = {}
        self._seed = seed

    def visit(self, node: NodeProto) -> None:
        """Draw the weights that a node uses and estimate its results."""
        first = self._weights.get(node.input[0]) if node.input else None
        if first is not None and node.op_type in VIEWS:
            self._weights[node.output[0]] = viewed(first, node)
            return
        operands = [
            self._moments.get(name, Moments())
            for name in node.input
            if name and name not in self._weights
        ]
        moments = combined(node, operands)
        for index, role in ROLES.get(node.op_type, {}).items():
            if index < len(node.input) and node.input[index] in self._weights:
                weight = self._weights[node.input[index]]
                self._draw(weight, role, node, index, moments.square)
        has_weights = any(name in self._weights for name in node.input)
        if has_weights and node.op_type in NORMALIZED_BY:
            moments = Moments()
        if node.op_type in RECTIFIERS:
            moments = moments.rectified()
        self._moments.update(dict.fromkeys(node.output, moments))

    def _draw(
        self, weight: Weight, role: Role, node: NodeProto, index: int, square: float
    ) -> None:
        if weight.name in self.drawn:
            return
        generator = np.random.default_rng(
            [self._seed, zlib.crc32(weight.name.encode())]
        )
        match role:
            case Role.MATRIX:
                deviation = 1 / sqrt(max(1, fan_in(node, index, weight.shape)) * square)
                draw = partial(generator.normal, 0.0, deviation)
            case Role.BIAS:
                draw = partial(generator.normal, 0.0, BIAS_DEVIATION)
            case Role.SCALE:
                draw = partial(generator.uniform, 0.5, 1.5)
            case Role.VARIANCE:
                draw = partial(generator.uniform, 0.5 * square, 1.5 * square)
            case Role.TABLE:
                draw = partial(generator.normal, 0.0, 1.0)
        value = np.empty(self._weights[weight.name].shape, weight.dtype)
        flat = value.reshape(-1)
        for start in range(0, len(flat), PIECE):
            piece = flat[start : start + PIECE]
            piece[:] = draw(len(piece))
        self.drawn[weight.name] = value


def viewed(weight: Weight, node: NodeProto) -> Weight:
    """A weight behind a view. Its shape after a reshape is not looked up."""
    if node.op_type != "Transpose":
        return weight
    order = next((list(a.ints) for a in node.attribute if a.name == "perm"), None)
    axes = order or list(reversed(range(len(weight.shape))))
    return weight._replace(shape=[weight.shape[axis] for axis in axes])


def combined(node: NodeProto, operands: Sequence[Moments]) -> Moments:
    """The moments of a node's operand other than its weights."""
    if not operands:
        return Moments()
    means = [each.mean for each in operands]
    match node.op_type:
        case "Add" | "Sub" | "Sum":
            return Moments(sum(means), sum(each.variance for each in operands))
        case "Mul":
            squares = prod(each.square for each in operands)
            return Moments.of_square(prod(means), squares)
        case "Concat":
            squares = sum(each.square for each in operands) / len(operands)
            return Moments.of_square(sum(means) / len(operands), squares)
        case _:
            return operands[0]


def fan_in(node: NodeProto, index: int, shape: Sequence[int]) -> int:
    """The number of terms of each sum of a matmul or convolution."""
    if node.op_type == "Conv":
        return prod(shape[1:])
    if len(shape) < 2:
        return prod(shape)
    flags = {attribute.name: attribute.i for attribute in node.attribute}
    is_flipped = bool(flags.get(("transA", "transB")[index], 0))
    # The terms of a sum lie along a row of A and a column of B.
    return shape[-1] if is_flipped != (index == 0) else shape[-2]
