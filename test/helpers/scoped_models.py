"""ONNX models in small, whose nodes have the scopes that exporters give them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper


class ModelBuilder:
    """A model that is made node by node; each node lies in a scope."""

    def __init__(self) -> None:
        self._nodes: list[NodeProto] = []
        self._known: list[TensorProto] = []
        self._random = np.random.default_rng(7)

    def weight(self, *shape: int) -> str:
        """A random initializer of this shape."""
        array = self._random.standard_normal(shape).astype(np.float32)
        return self.known(array)

    def known(self, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> str:
        """An initializer."""
        name = f"w{len(self._known)}"
        self._known.append(numpy_helper.from_array(array, name))
        return name

    def add(
        self, scope: str, op: str, *inputs: str, **attributes: int | Sequence[int]
    ) -> str:
        """A node in a scope, by its one result."""
        name = f"/{scope}/{op}_{len(self._nodes)}"
        result = f"{name}_output_0"
        node = helper.make_node(op, inputs, [result], name)
        node.attribute.extend(starmap(helper.make_attribute, attributes.items()))
        self._nodes.append(node)
        return result

    def model(self, name: str, shape: Sequence[int], result: str) -> ModelProto:
        """The model of one input `x`."""
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        graph = helper.make_graph(
            self._nodes, name, [x], [onnx.ValueInfoProto(name=result)], self._known
        )
        opsets = [helper.make_opsetid("", 18)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def bert(layers: int = 3, rows: int = 8, width: int = 16, heads: int = 4) -> ModelProto:
    """The encoder of BERT, small."""
    made = ModelBuilder()
    split = made.known(np.array([1, rows, heads, width // heads]))
    whole = made.known(np.array([1, rows, width]))
    scale = made.known(np.array(0.5, np.float32))

    def linear(scope: str, x: str, inner: int, outer: int) -> str:
        product = made.add(scope, "MatMul", x, made.weight(inner, outer))
        return made.add(scope, "Add", product, made.weight(outer))

    def norm(scope: str, x: str) -> str:
        return made.add(
            scope, "LayerNormalization", x, made.weight(width), made.weight(width)
        )

    def attention(scope: str, x: str) -> str:
        parts: list[str] = []
        for name, order in (
            ("query", [0, 2, 1, 3]),
            ("key", [0, 2, 3, 1]),
            ("value", [0, 2, 1, 3]),
        ):
            part = linear(f"{scope}/{name}", x, width, width)
            part = made.add(scope, "Reshape", part, split)
            parts.append(made.add(scope, "Transpose", part, perm=order))
        scores = made.add(scope, "MatMul", parts[0], parts[1])
        scores = made.add(scope, "Mul", scores, scale)
        weights = made.add(scope, "Softmax", scores, axis=-1)
        mixed = made.add(scope, "MatMul", weights, parts[2])
        mixed = made.add(scope, "Transpose", mixed, perm=[0, 2, 1, 3])
        return made.add(scope, "Reshape", mixed, whole)

    x = "x"
    for layer in range(layers):
        scope = f"encoder/layer.{layer}"
        mixed = attention(f"{scope}/attention/self", x)
        mixed = linear(f"{scope}/attention/output", mixed, width, width)
        x = norm(
            f"{scope}/attention/output",
            made.add(f"{scope}/attention/output", "Add", mixed, x),
        )
        inner = linear(f"{scope}/intermediate", x, width, 4 * width)
        inner = made.add(f"{scope}/intermediate", "Relu", inner)
        outer = linear(f"{scope}/output", inner, 4 * width, width)
        x = norm(f"{scope}/output", made.add(f"{scope}/output", "Add", outer, x))
    return made.model("bert", [1, rows, width], x)


def unet(depth: int = 3, side: int = 16, channels: int = 4) -> ModelProto:
    """U-Net, small: a way down, and one up that concatenates what was met before."""
    made = ModelBuilder()

    def block(scope: str, x: str, inner: int, outer: int) -> str:
        for number, count in ((0, inner), (1, outer)):
            weight = made.weight(outer, count, 3, 3)
            name = f"{scope}/conv.{number}"
            x = made.add(name, "Conv", x, weight, made.weight(outer), pads=[1, 1, 1, 1])
            x = made.add(name, "Relu", x)
        return x

    met: list[str] = []
    x, count = "x", 1
    for level in range(depth):
        wide = channels << level
        x = block(f"down.{level}", x, count, wide)
        met.append(x)
        x = made.add(f"down.{level}", "MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
        count = wide
    x = block("middle", x, count, channels << depth)
    for level in reversed(range(depth)):
        wide, scope = channels << level, f"up.{level}"
        weight = made.weight(2 * wide, wide, 2, 2)
        x = made.add(
            scope, "ConvTranspose", x, weight, strides=[2, 2], kernel_shape=[2, 2]
        )
        x = made.add(scope, "Concat", met[level], x, axis=1)
        x = block(scope, x, 2 * wide, wide)
    return made.model("unet", [1, 1, side, side], x)
