"""
The models that contenders run: the same weights as ONNX and for PyTorch by hand.

Everything is made from fixed seeds, so that each process makes the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import onnx
from onnx import ModelProto, TensorProto, helper, numpy_helper

from penstock.runtime.loading.initializers import Array
from penstock.tools.frontend.onnx.model import read_onnx, with_random_weights

if TYPE_CHECKING:
    from torch import Tensor

    Forward: TypeAlias = Callable[[Mapping[str, Tensor], Tensor], Tensor]
    """The output for all weights by name and the input."""

SEED = 2026
EXAMPLES = Path(__file__).parents[1] / "examples"


@dataclass(frozen=True)
class Workload:
    """A model with one input and one output, and what PyTorch does for it."""

    model: ModelProto
    inputs: Mapping[str, Array]
    forward: Forward

    @property
    def weights(self) -> dict[str, Array]:
        """The weights by name."""
        return {
            tensor.name: numpy_helper.to_array(tensor)
            for tensor in self.model.graph.initializer
        }


def normal(*shape: int, mean: float = 0.0, scale: float = 1.0) -> Array:
    """Normal f32 numbers that depend on the arguments alone."""
    generator = np.random.default_rng([SEED, *shape])
    return generator.normal(mean, scale, shape).astype(np.float32)


# SqueezeNet 1.0 --------------------------------------------------------------------


def squeezenet() -> Workload:
    """An image of 224 x 224 pixels in 1000 classes; random weights."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    model = with_random_weights(read_onnx(folder / "light_squeezenet.onnx"), SEED)
    # Since this version, weights need not be inputs.
    model.ir_version = max(model.ir_version, 8)
    return Workload(model, {"data_0": normal(1, 3, 224, 224)}, _squeezenet)


FIRES = ((2, 3), (4, 5), (6, 7, 8, 9))
"""The numbers of the fire modules between pools."""


def _squeezenet(weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
    import torch
    import torch.nn.functional as F

    def conv(name: str, x: Tensor, stride: int = 1, padding: int = 0) -> Tensor:
        w, b = weights[f"{name}_w_0"], weights[f"{name}_b_0"]
        return F.conv2d(x, w, b, stride, padding).relu_()

    x = conv("conv1", x, stride=2)
    for group in FIRES:
        x = F.max_pool2d(x, 3, 2)
        for number in group:
            x = conv(f"fire{number}/squeeze1x1", x)
            narrow = conv(f"fire{number}/expand1x1", x)
            wide = conv(f"fire{number}/expand3x3", x, padding=1)
            x = torch.cat([narrow, wide], 1)
    return conv("conv10", x).mean((2, 3), keepdim=True).softmax(1)


# A layer of a transformer encoder ---------------------------------------------------

TOKENS, WIDTH, HEADS, HIDDEN = 128, 768, 12, 3072
"""The sizes of BERT-base."""


def encoder() -> Workload:
    """A post-norm encoder layer as in BERT-base on one sequence of 128 tokens."""
    nodes = [
        *(node for name in "qkv" for node in _projection(name)),
        helper.make_node("MatMul", ["q_heads", "k_heads"], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "v_heads"], ["mixed"]),
        helper.make_node("Transpose", ["mixed"], ["turned"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["turned", "joined"], ["attended"]),
        *_linear("attended", "o", "attention"),
        helper.make_node("Add", ["x", "attention"], ["sum1"]),
        helper.make_node("LayerNormalization", ["sum1", "g1", "n1"], ["y"], axis=-1),
        *_linear("y", "f1", "wide"),
        helper.make_node("Gelu", ["wide"], ["active"]),
        *_linear("active", "f2", "narrow"),
        helper.make_node("Add", ["y", "narrow"], ["sum2"]),
        helper.make_node("LayerNormalization", ["sum2", "g2", "n2"], ["z"], axis=-1),
    ]
    shape = [1, TOKENS, WIDTH]
    model = _model("encoder", nodes, shape, shape, _encoder_weights())
    return Workload(model, {"x": normal(*shape)}, _encoder)


def _linear(source: str, name: str, target: str) -> list[onnx.NodeProto]:
    return [
        helper.make_node("MatMul", [source, f"w{name}"], [f"{name}_product"]),
        helper.make_node("Add", [f"{name}_product", f"b{name}"], [target]),
    ]


def _projection(name: str) -> list[onnx.NodeProto]:
    """Queries, keys or values by head; keys with tokens last, as a product needs."""
    order = [0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]
    return [
        *_linear("x", name, name),
        helper.make_node("Reshape", [name, "split"], [f"{name}_split"]),
        helper.make_node("Transpose", [f"{name}_split"], [f"{name}_heads"], perm=order),
    ]


def _encoder_weights() -> dict[str, Array]:
    weights: dict[str, Array] = {
        "split": np.array([1, TOKENS, HEADS, WIDTH // HEADS], np.int64),
        "joined": np.array([1, TOKENS, WIDTH], np.int64),
        "scale": np.array(1 / sqrt(WIDTH // HEADS), np.float32),
    }
    sizes = {name: (WIDTH, WIDTH) for name in "qkvo"}
    sizes |= {"f1": (WIDTH, HIDDEN), "f2": (HIDDEN, WIDTH)}
    for index, (name, (rows, columns)) in enumerate(sizes.items()):
        generator = np.random.default_rng([SEED, index])
        w = generator.standard_normal((rows, columns)) / sqrt(rows)
        weights[f"w{name}"] = w.astype(np.float32)
        weights[f"b{name}"] = (generator.standard_normal(columns) / 10).astype("f4")
    for name in ("1", "2"):
        weights[f"g{name}"] = normal(WIDTH, scale=0.1, mean=1.0)
        weights[f"n{name}"] = normal(WIDTH, scale=0.1)
    return weights


def _encoder(weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
    import torch.nn.functional as F

    def linear(name: str, x: Tensor) -> Tensor:
        return F.linear(x, weights[f"w{name}"].t(), weights[f"b{name}"])

    def norm(name: str, x: Tensor) -> Tensor:
        return F.layer_norm(x, (WIDTH,), weights[f"g{name}"], weights[f"n{name}"])

    def heads(name: str) -> Tensor:
        return linear(name, x).view(1, TOKENS, HEADS, -1).transpose(1, 2)

    mixed = F.scaled_dot_product_attention(heads("q"), heads("k"), heads("v"))
    attended = mixed.transpose(1, 2).reshape(1, TOKENS, WIDTH)
    y = norm("1", x + linear("o", attended))
    return norm("2", y + linear("f2", F.gelu(linear("f1", y))))


# The network of examples/digits.mlir ------------------------------------------------


def digits(batch: int) -> Workload:
    """Images of 8 x 8 pixels in 10 classes, by 32 hidden numbers; trained weights."""
    with np.load(EXAMPLES / "digits-weights.npz") as file:
        weights: dict[str, Array] = dict(file)
    with np.load(EXAMPLES / "digits-test.npz") as file:
        x: Array = file["x"][:batch]
    nodes = [
        *_linear("x", "1", "hidden"),
        helper.make_node("Relu", ["hidden"], ["active"]),
        *_linear("active", "2", "scores"),
        helper.make_node("Softmax", ["scores"], ["probabilities"], axis=1),
    ]
    model = _model("digits", nodes, [batch, 64], [batch, 10], weights)
    return Workload(model, {"x": x}, _digits)


def _digits(weights: Mapping[str, Tensor], x: Tensor) -> Tensor:
    import torch.nn.functional as F

    hidden = F.linear(x, weights["w1"].t(), weights["b1"]).relu_()
    return F.linear(hidden, weights["w2"].t(), weights["b2"]).softmax(1)


def digits_180() -> Workload:
    """The digits network on all images of its test."""
    return digits(180)


def digits_1() -> Workload:
    """The digits network on one image: what a run costs beyond its arithmetic."""
    return digits(1)


def _model(
    name: str,
    nodes: list[onnx.NodeProto],
    input_shape: list[int],
    output_shape: list[int],
    weights: Mapping[str, Array],
) -> ModelProto:
    """A model of f32 tensors from `x` to what the last node computes."""

    def port(name: str, shape: list[int]) -> onnx.ValueInfoProto:
        return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)

    graph = helper.make_graph(
        nodes,
        name,
        [port("x", input_shape)],
        [port(nodes[-1].output[0], output_shape)],
        [numpy_helper.from_array(value, key) for key, value in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    model.ir_version = 9
    return model


WORKLOADS: Mapping[str, Callable[[], Workload]] = {
    "squeezenet": squeezenet,
    "encoder": encoder,
    "digits-180": digits_180,
    "digits-1": digits_1,
}
"""All workloads by the names of reports."""
