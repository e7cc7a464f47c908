"""
Networks to train: each written once, on functions that a framework provides.

Weights and batches are made from fixed seeds, so that each process makes the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias
from zlib import crc32

import numpy as np

if TYPE_CHECKING:
    from penstock.runtime.loading.initializers import Array

    Arrays: TypeAlias = Mapping[str, Array]

SEED = 2026
WORDS = 2000
"""The vocabulary of the models of language."""
CLASSES = 1000
"""The classes of images."""


class Functions(Protocol):
    """The functions of a framework on its tensors, of which `Any` stands for one."""

    def relu(self, x: Any) -> Any:
        """The larger of each element and 0."""
        ...

    def gelu(self, x: Any) -> Any:
        """The GELU of each element, by tanh as in GPT-2."""
        ...

    def relu6(self, x: Any) -> Any:
        """Each element clipped to 0 and 6."""
        ...

    def conv(self, x: Any, w: Any, stride: int, groups: int) -> Any:
        """A convolution of images with pads of half the window."""
        ...

    def batch_norm(self, x: Any, scale: Any, bias: Any) -> Any:
        """The channels of images normalized by the statistics of the batch."""
        ...

    def max_pool(self, x: Any) -> Any:
        """The largest of windows of 3 x 3 by steps of 2, with pads of 1."""
        ...

    def mean_pixel(self, x: Any) -> Any:
        """The mean over the last two dimensions."""
        ...

    def layer_norm(self, x: Any, scale: Any, bias: Any) -> Any:
        """Rows normalized."""
        ...

    def attention(self, q: Any, k: Any, v: Any) -> Any:
        """Causal attention of stacks of rows."""
        ...

    def lookup(self, table: Any, numbers: Any) -> Any:
        """Rows of a table."""
        ...

    def permute(self, x: Any, axes: Sequence[int]) -> Any:
        """A tensor with its axes in another order."""
        ...

    def split(self, x: Any, count: int) -> Sequence[Any]:
        """Equal parts of rows."""
        ...

    def lstm(self, x: Any, w: Any, r: Any, bias: Any) -> Any:
        """All states of a layer [steps, batch, features] with gates i, f, g, o."""
        ...

    def loss(self, scores: Any, labels: Any) -> Any:
        """The mean cross entropy over the rows of a matrix."""
        ...


Network: TypeAlias = Callable[[Functions, Mapping[str, Any], Any], Any]
"""The scores of a batch, a matrix."""
Shapes: TypeAlias = "dict[str, tuple[int, ...]]"


class Rule(NamedTuple):
    """
    The kind of an optimizer and its rate.

    A step changes the loss by 3 % at most, and gradients in `f32` leave a few ten
    thousandths of that in doubt: losses after updates agree to 1e-5. It changes it by
    more than the tolerance of 1e-4, so that an update that is missing is seen. A larger
    rate multiplies roundings: with 1e-4, ResNet-50 on two images, whose gradient has
    the norm 335, has third losses 5e-3 apart in `f64`, too, where weights begin 6e-8
    apart.
    """

    kind: str
    """`sgd`, `momentum` or `adamw`."""
    rate: float


SGD, MOMENTUM, ADAMW = Rule("sgd", 1e-2), Rule("momentum", 1e-4), Rule("adamw", 1e-5)
FLAT, STEEP = Rule("adamw", 1e-3), Rule("momentum", 1e-6)
"""The rules where gradients are small, and where they are large."""


@dataclass(frozen=True)
class Training:
    """A network, its weights, a batch and its labels, and how weights are updated."""

    network: Network
    shapes: Shapes
    batch: Callable[[np.random.Generator], tuple[Array, Array]]
    rule: Rule
    target: float
    """The time of the best peer over ours that is aimed at."""
    peers: Sequence[str] = field(default=())
    """The peers of the target; all if none is named."""

    def weights(self) -> dict[str, Array]:
        """Normal numbers that keep the size of what passes through; scales of 1."""
        return {name: weight_of(name, shape) for name, shape in self.shapes.items()}

    def drawn_batch(self) -> tuple[Array, Array]:
        """The batch and its labels."""
        return self.batch(np.random.default_rng(SEED))

    def loss(
        self, f: Functions, weights: Mapping[str, Any], x: Any, labels: Any
    ) -> Any:
        """The loss of a batch."""
        return f.loss(self.network(f, weights, x), labels)


def weight_of(name: str, shape: Sequence[int]) -> Array:
    """The first value of a weight."""
    if len(shape) == 1:
        first = np.ones if name.endswith("scale") else np.zeros
        return first(shape, np.float32)
    random = np.random.default_rng([SEED, crc32(name.encode())])
    # Filters have their terms after the first dimension, matrices in it.
    spread = (2 / prod(shape[1:])) ** 0.5 if len(shape) == 4 else shape[0] ** -0.5
    if name in ("table", "places"):
        spread = 0.02
    return random.normal(0, spread, shape).astype(np.float32)


def norm_shapes(name: str, width: int) -> Shapes:
    """The scale and the bias of a normalization."""
    return {f"{name}/scale": (width,), f"{name}/bias": (width,)}


def linear_shapes(name: str, rows: int, columns: int) -> Shapes:
    """The weights of a linear layer."""
    return {f"{name}/w": (rows, columns), f"{name}/b": (columns,)}


def linear(w: Mapping[str, Any], x: Any, name: str) -> Any:
    """A linear layer."""
    return x @ w[f"{name}/w"] + w[f"{name}/b"]


# A perceptron -----------------------------------------------------------------------


def perceptron(sizes: Sequence[int], batch: int) -> Training:
    """Linear layers with ReLUs between them."""
    pairs = list(pairwise(sizes))
    shapes: Shapes = {}
    for number, (rows, columns) in enumerate(pairs):
        shapes |= linear_shapes(f"layer{number}", rows, columns)

    def network(f: Functions, w: Mapping[str, Any], x: Any) -> Any:
        for number in range(len(pairs)):
            x = linear(w, f.relu(x) if number else x, f"layer{number}")
        return x

    def drawn(random: np.random.Generator) -> tuple[Array, Array]:
        x = random.normal(size=(batch, sizes[0])).astype(np.float32)
        return x, random.integers(sizes[-1], size=batch)

    return Training(network, shapes, drawn, SGD, 1.1)


# GPT-2 ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Gpt:
    """The sizes of GPT-2, whose table of words is also its last layer."""

    layers: int
    width: int
    batch: int
    length: int = 128
    head: int = 64
    words: int = WORDS

    def shapes(self) -> Shapes:
        """The shapes of weights."""
        width = self.width
        found: Shapes = {"table": (self.words, width), "places": (self.length, width)}
        for number in range(self.layers):
            name = f"block{number}"
            found |= norm_shapes(f"{name}/norm1", width)
            found |= linear_shapes(f"{name}/qkv", width, 3 * width)
            found |= linear_shapes(f"{name}/out", width, width)
            found |= norm_shapes(f"{name}/norm2", width)
            found |= linear_shapes(f"{name}/up", width, 4 * width)
            found |= linear_shapes(f"{name}/down", 4 * width, width)
        return found | norm_shapes("norm", width)

    def network(self, f: Functions, w: Mapping[str, Any], x: Any) -> Any:
        """The scores of all tokens."""
        x = f.lookup(w["table"], x) + w["places"]
        for number in range(self.layers):
            x = self._block(f, w, x, f"block{number}")
        rows = normalized(f, w, x, "norm").reshape(-1, self.width)
        return rows @ f.permute(w["table"], (1, 0))

    def _block(self, f: Functions, w: Mapping[str, Any], x: Any, name: str) -> Any:
        h = linear(w, normalized(f, w, x, f"{name}/norm1"), f"{name}/qkv")
        heads = self.batch, self.length, self.width // self.head, self.head
        q, k, v = (f.permute(y.reshape(*heads), (0, 2, 1, 3)) for y in f.split(h, 3))
        seen = f.permute(f.attention(q, k, v), (0, 2, 1, 3))
        x = x + linear(w, seen.reshape(self.batch, self.length, -1), f"{name}/out")
        h = linear(w, normalized(f, w, x, f"{name}/norm2"), f"{name}/up")
        return x + linear(w, f.gelu(h), f"{name}/down")

    def drawn(self, random: np.random.Generator) -> tuple[Array, Array]:
        """Tokens, and those that follow."""
        text = random.integers(self.words, size=(self.batch, self.length + 1))
        return text[:, :-1].copy(), text[:, 1:].reshape(-1).copy()


def gpt(layers: int, width: int, batch: int) -> Training:
    """GPT-2 of this size."""
    sizes = Gpt(layers, width, batch)
    return Training(sizes.network, sizes.shapes(), sizes.drawn, ADAMW, 1.3)


def normalized(f: Functions, w: Mapping[str, Any], x: Any, name: str) -> Any:
    """A layer norm."""
    return f.layer_norm(x, w[f"{name}/scale"], w[f"{name}/bias"])


# A recurrent model of language ------------------------------------------------------


def recurrent(width: int, steps: int, batch: int) -> Training:
    """A layer of LSTM between a table of words and a linear layer."""
    shapes: Shapes = {
        "table": (WORDS, width),
        "w": (width, 4 * width),
        "r": (width, 4 * width),
        "bias": (4 * width,),
        **linear_shapes("out", width, WORDS),
    }

    def network(f: Functions, w: Mapping[str, Any], x: Any) -> Any:
        states = f.lstm(f.lookup(w["table"], x), w["w"], w["r"], w["bias"])
        return linear(w, states.reshape(-1, width), "out")

    def drawn(random: np.random.Generator) -> tuple[Array, Array]:
        text = random.integers(WORDS, size=(steps + 1, batch))
        return text[:-1].copy(), text[1:].reshape(-1).copy()

    return Training(network, shapes, drawn, FLAT, 1.5)


# Networks of convolutions -----------------------------------------------------------

Layer: TypeAlias = tuple[str, int, int, int, int, int]
"""The name, channels in and out, window, stride, and groups of a convolution."""


def conv_shapes(layers: Sequence[Layer]) -> Shapes:
    """The shapes of the weights of convolutions with batch norms."""
    found: Shapes = {}
    for name, before, after, window, _, groups in layers:
        found[f"{name}/w"] = (after, before // groups, window, window)
        found |= norm_shapes(name, after)
    return found


def conv(f: Functions, w: Mapping[str, Any], x: Any, layer: Layer) -> Any:
    """A convolution with its batch norm."""
    name, _, _, _, stride, groups = layer
    x = f.conv(x, w[f"{name}/w"], stride, groups)
    return f.batch_norm(x, w[f"{name}/scale"], w[f"{name}/bias"])


@dataclass(frozen=True)
class Block:
    """Convolutions with activations between them, beside a shortcut."""

    layers: Sequence[Layer]
    short: Layer | None = None
    """The convolution of the shortcut."""
    adds: bool = True
    """Whether there is a shortcut."""


def resnet_blocks(depth: int) -> list[Block]:
    """The blocks of ResNet-18 or ResNet-50."""
    counts = {18: (2, 2, 2, 2), 50: (3, 4, 6, 3)}[depth]
    found: list[Block] = []
    before = 64
    for stage, count in enumerate(counts):
        width = 64 << stage
        after = width if depth == 18 else 4 * width
        for number in range(count):
            name, stride = f"s{stage}b{number}", 2 if stage and not number else 1
            layers: list[Layer] = [
                (f"{name}c1", before, width, 3, stride, 1),
                (f"{name}c2", width, width, 3, 1, 1),
            ]
            if depth == 50:
                layers = [
                    (f"{name}c1", before, width, 1, 1, 1),
                    (f"{name}c2", width, width, 3, stride, 1),
                    (f"{name}c3", width, after, 1, 1, 1),
                ]
            differs = stride > 1 or before != after
            short = (f"{name}c0", before, after, 1, stride, 1) if differs else None
            found.append(Block(layers, short))
            before = after
    return found


def mobilenet_blocks() -> list[Block]:
    """The inverted residuals of MobileNetV2."""
    stages = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2)]
    stages += [(6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    found: list[Block] = []
    before = 32
    for stage, (factor, after, count, first) in enumerate(stages):
        for number in range(count):
            name, stride = f"s{stage}b{number}", 1 if number else first
            wide = before * factor
            layers: list[Layer] = [(f"{name}c1", before, wide, 1, 1, 1)] * (factor > 1)
            layers.append((f"{name}c2", wide, wide, 3, stride, wide))
            layers.append((f"{name}c3", wide, after, 1, 1, 1))
            found.append(Block(layers, None, adds=stride == 1 and before == after))
            before = after
    return found


def image_training(
    network: Network,
    layers: Sequence[Layer],
    last: int,
    batch: int,
    rule: Rule = MOMENTUM,
) -> Training:
    """A network of convolutions whose last layer is linear on so many features."""
    shapes = conv_shapes(layers) | linear_shapes("classes", last, CLASSES)

    def drawn(random: np.random.Generator) -> tuple[Array, Array]:
        x = random.normal(size=(batch, 3, 224, 224)).astype(np.float32)
        return x, random.integers(CLASSES, size=batch)

    peers = "PyTorch eager", "torch.compile"
    return Training(network, shapes, drawn, rule, 1.0, peers)


def all_layers(blocks: Sequence[Block]) -> list[Layer]:
    """The convolutions of blocks."""
    shorts = [block.short for block in blocks if block.short is not None]
    return [layer for block in blocks for layer in block.layers] + shorts


def resnet(depth: int, batch: int, rule: Rule = MOMENTUM) -> Training:
    """ResNet-18 or ResNet-50."""
    blocks = resnet_blocks(depth)
    stem: Layer = ("stem", 3, 64, 7, 2, 1)

    def network(f: Functions, w: Mapping[str, Any], x: Any) -> Any:
        x = f.max_pool(f.relu(conv(f, w, x, stem)))
        for block in blocks:
            y = x
            for number, layer in enumerate(block.layers):
                y = conv(f, w, f.relu(y) if number else y, layer)
            short = x if block.short is None else conv(f, w, x, block.short)
            x = f.relu(y + short)
        return linear(w, f.mean_pixel(x), "classes")

    last = blocks[-1].layers[-1][2]
    return image_training(network, [stem, *all_layers(blocks)], last, batch, rule)


def mobilenet(batch: int) -> Training:
    """MobileNetV2."""
    blocks = mobilenet_blocks()
    stem: Layer = ("stem", 3, 32, 3, 2, 1)
    head: Layer = ("head", 320, 1280, 1, 1, 1)

    def network(f: Functions, w: Mapping[str, Any], x: Any) -> Any:
        x = f.relu6(conv(f, w, x, stem))
        for block in blocks:
            y = x
            for layer in block.layers:
                y = conv(f, w, y, layer)
                # What narrows has no activation.
                y = y if layer is block.layers[-1] else f.relu6(y)
            x = x + y if block.adds else y
        x = f.relu6(conv(f, w, x, head))
        return linear(w, f.mean_pixel(x), "classes")

    layers = [stem, *all_layers(blocks), head]
    return image_training(network, layers, 1280, batch)


TRAININGS: Mapping[str, Callable[[], Training]] = {
    "MLP 784-512-512-10, b128": partial(perceptron, (784, 512, 512, 10), 128),
    "GPT-2, 4 layers of 256, 4x128": partial(gpt, 4, 256, 4),
    "GPT-2, 12 layers of 768, 2x128": partial(gpt, 12, 768, 2),
    "LSTM(256), 35 steps, b20": partial(recurrent, 256, 35, 20),
    "ResNet-18, b8": partial(resnet, 18, 8),
    "ResNet-50, b2": partial(resnet, 50, 2, STEEP),
    "MobileNetV2, b4": partial(mobilenet, 4),
}
"""All trainings by the names of reports."""

DEEP: Mapping[str, Callable[[], Training]] = {
    "MLP, 16 layers of 512, b512": partial(perceptron, (512,) * 17, 512)
}
"""A training that keeps much of what its forward pass makes."""

SMALL: Mapping[str, Callable[[], Training]] = {
    "small MLP": partial(perceptron, (20, 16, 10), 8),
    "small GPT-2": partial(gpt, 1, 64, 2),
    "small LSTM": partial(recurrent, 16, 5, 4),
}
"""Trainings of tests."""
