"""Training steps as jobs: models, a loss, and steps of gradient descent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.ir import Attribute, Block, Region, SSAValue

from penstock.dialects.job import (
    AssignOp,
    GradientsOp,
    InitAttr,
    InputOp,
    JobOp,
    OutputOp,
    PlacementAttr,
    VariableOp,
)
from penstock.dialects.op.op_builder import OpBuilder

RATE = 0.01


class StepBuilder(OpBuilder):
    """Builds the job of a training step."""

    def __init__(self, element: Attribute = f32):
        self.block = Block()
        super().__init__(self.block.add_op)
        self._element = element
        self.variables: list[SSAValue] = []

    def input(self, name: str, *shape: int) -> SSAValue:
        op = InputOp(name, TensorType(self._element, shape))
        self.block.add_op(op)
        return op.result

    def variable(self, name: str, *shape: int, init: str = "he_normal") -> SSAValue:
        type = TensorType(self._element, shape)
        seed = {} if init in ("ones", "zeros") else {"seed": len(self.variables)}
        op = VariableOp(name, InitAttr(init, seed), type)
        self.block.add_op(op)
        self.variables.append(op.result)
        return op.result

    def step(self, loss: SSAValue) -> ModuleOp:
        """The job, with a step of gradient descent."""
        self.block.add_op(OutputOp("loss", loss))
        self.block.add_op(gradients := GradientsOp(loss, self.variables))
        for value, gradient in zip(self.variables, gradients.gradients, strict=True):
            new = self.sub(value, self.mul(gradient, RATE))
            self.block.add_op(AssignOp(new, value))
        body = Region(self.block)
        return ModuleOp([JobOp("train", PlacementAttr("cpu", [(0, 0)]), body)])


def gelu(o: StepBuilder, x: SSAValue) -> SSAValue:
    return o.mul(x, o.mul(o.add(o.erf(o.mul(x, 0.5**0.5)), 1.0), 0.5))


def norm(o: StepBuilder, x: SSAValue, name: str) -> SSAValue:
    """Layer norm as a formula."""
    width = o.shape(x)[-1]
    axis = [len(o.shape(x)) - 1]
    centred = o.sub(x, o.mean(x, axis, keepdims=True))
    variance = o.mean(o.mul(centred, centred), axis, keepdims=True)
    normal = o.mul(centred, o.rsqrt(o.add(variance, 1e-5)))
    scale = o.variable(f"{name}.scale", width, init="ones")
    return o.add(o.mul(normal, scale), o.variable(f"{name}.shift", width, init="zeros"))


def linear(o: StepBuilder, x: SSAValue, name: str, width: int) -> SSAValue:
    weight = o.variable(f"{name}.weight", o.shape(x)[-1], width)
    bias = o.variable(f"{name}.bias", width, init="zeros")
    return o.add(o.matmul(x, weight), bias)


def softmax(o: StepBuilder, x: SSAValue) -> SSAValue:
    e = o.exp(x)
    return o.div(e, o.sum(e, [len(o.shape(x)) - 1], keepdims=True))


def squares(o: StepBuilder, x: SSAValue) -> SSAValue:
    return o.mean(o.mul(x, x), range(len(o.shape(x))))


def perceptron(
    depth: int = 8, width: int = 128, batch: int = 256, element: Attribute = f32
) -> ModuleOp:
    """Linear layers with `gelu` between them."""
    o = StepBuilder(element)
    x = o.input("x", batch, width)
    for layer in range(depth):
        x = gelu(o, linear(o, x, f"layer{layer}", width))
    return o.step(squares(o, x))


def attention(o: StepBuilder, x: SSAValue, name: str, heads: int) -> SSAValue:
    rows, tokens, width = o.shape(x)
    qkv = [linear(o, x, f"{name}.{part}", width) for part in "qkv"]
    shape = [rows, tokens, heads, width // heads]
    q, k, v = (o.transpose(o.reshape(y, shape), [0, 2, 1, 3]) for y in qkv)
    scores = o.mul(o.matmul(q, k, transpose_b=True), (width // heads) ** -0.5)
    mixed = o.matmul(softmax(o, scores), v)
    joined = o.reshape(o.transpose(mixed, [0, 2, 1, 3]), [rows, tokens, width])
    return linear(o, joined, f"{name}.out", width)


def transformer(
    layers: int = 4,
    width: int = 256,
    rows: int = 4,
    tokens: int = 128,
    element: Attribute = f32,
) -> ModuleOp:
    """The blocks of GPT-2 with a linear layer at the end; no mask, no embedding."""
    o = StepBuilder(element)
    x = o.input("x", rows, tokens, width)
    for layer in range(layers):
        name = f"block{layer}"
        mixed = attention(o, norm(o, x, f"{name}.norm1"), f"{name}.attention", 4)
        x = o.add(x, mixed)
        inner = linear(o, norm(o, x, f"{name}.norm2"), f"{name}.up", 4 * width)
        x = o.add(x, linear(o, gelu(o, inner), f"{name}.down", width))
    return o.step(squares(o, norm(o, x, "norm")))


def recurrent(
    steps: int = 24, width: int = 128, batch: int = 64, element: Attribute = f32
) -> ModuleOp:
    """An LSTM whose steps are ops."""
    o = StepBuilder(element)
    xs = o.input("x", batch, steps, width)
    own = [o.variable(f"{gate}.own", width, width) for gate in "ifgo"]
    back = [o.variable(f"{gate}.back", width, width) for gate in "ifgo"]
    h = o.reshape(o.slice(xs, 1, 0, 1), [batch, width])
    c = h
    for step in range(steps):
        x = o.reshape(o.slice(xs, 1, step, step + 1), [batch, width])
        i, f, g, out = (
            o.add(o.matmul(x, w), o.matmul(h, u))
            for w, u in zip(own, back, strict=True)
        )
        kept = o.mul(o.sigmoid(f), c)
        c = o.add(kept, o.mul(o.sigmoid(i), o.tanh(g)))
        h = o.mul(o.sigmoid(out), o.tanh(c))
    return o.step(squares(o, h))


def mixer(
    layers: int = 4,
    rows: int = 8,
    patches: int = 64,
    width: int = 128,
    element: Attribute = f32,
) -> ModuleOp:
    """An MLP-Mixer: layers over patches and over channels in turns."""
    o = StepBuilder(element)
    x = o.input("x", rows, patches, width)
    for layer in range(layers):
        name = f"block{layer}"
        turned = o.transpose(norm(o, x, f"{name}.norm1"), [0, 2, 1])
        inner = gelu(o, linear(o, turned, f"{name}.patches1", 2 * patches))
        mixed = linear(o, inner, f"{name}.patches2", patches)
        x = o.add(x, o.transpose(mixed, [0, 2, 1]))
        inner = gelu(o, linear(o, norm(o, x, f"{name}.norm2"), f"{name}.up", 4 * width))
        x = o.add(x, linear(o, inner, f"{name}.down", width))
    return o.step(squares(o, norm(o, x, "norm")))


def gated(
    layers: int = 6, batch: int = 256, width: int = 128, element: Attribute = f32
) -> ModuleOp:
    """Residual gated layers (SwiGLU) without attention, as in Llama's feed-forward."""
    o = StepBuilder(element)
    x = o.input("x", batch, width)
    for layer in range(layers):
        inner = norm(o, x, f"layer{layer}.norm")
        gate = linear(o, inner, f"layer{layer}.gate", 3 * width)
        up = linear(o, inner, f"layer{layer}.up", 3 * width)
        product = o.mul(o.mul(gate, o.sigmoid(gate)), up)
        x = o.add(x, linear(o, product, f"layer{layer}.down", width))
    return o.step(squares(o, x))


def autoencoder(
    widths: Sequence[int] = (512, 256, 64), batch: int = 256, element: Attribute = f32
) -> ModuleOp:
    """Layers that get narrow, and wide again, with skips between those alike."""
    o = StepBuilder(element)
    x = given = o.input("x", batch, widths[0])
    skips: list[SSAValue] = []
    for i, width in enumerate(widths[1:]):
        skips.append(x)
        x = gelu(o, linear(o, x, f"down{i}", width))
    for i, skip in enumerate(reversed(skips)):
        x = o.add(gelu(o, linear(o, x, f"up{i}", o.shape(skip)[-1])), skip)
    return o.step(squares(o, o.sub(x, given)))


Make: TypeAlias = Callable[..., ModuleOp]

MODELS: dict[str, Make] = {
    "perceptron": perceptron,
    "deep perceptron": partial(perceptron, depth=32),
    "transformer": transformer,
    "recurrent": recurrent,
    "mixer": mixer,
    "gated": gated,
    "autoencoder": autoencoder,
}

SMALL: dict[str, Make] = {
    "perceptron": partial(perceptron, depth=5, width=16, batch=8),
    "transformer": partial(transformer, layers=2, width=16, rows=2, tokens=8),
    "recurrent": partial(recurrent, steps=5, width=8, batch=4),
    "mixer": partial(mixer, layers=2, rows=2, patches=4, width=8),
    "gated": partial(gated, layers=3, batch=8, width=16),
    "autoencoder": partial(autoencoder, widths=(32, 16, 8), batch=8),
}
"""Those that tests can run."""
