"""
The workloads of the benchmarks of a GPU: jobs, their results by NumPy, and PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from penstock.runtime.loading.initializers import Array

    Arrays: TypeAlias = Mapping[str, Array]

Torch: TypeAlias = Any
"""The module `torch`, or one of its tensors."""

TOLERANCES = {"f32": 1e-4, "bf16": 2e-2}
"""The tolerance of results, relative to the largest value."""


@dataclass(frozen=True)
class Case:
    """A job on inputs of normal numbers, and the same by NumPy and by PyTorch."""

    name: str
    text: str
    shapes: Mapping[str, tuple[int, ...]]
    meaning: Callable[[Arrays], Array]
    """By NumPy, in 64 bits."""
    torch: Callable[[Torch, Mapping[str, Torch]], Torch]
    """By PyTorch: the module, and the inputs by name."""
    dtype: str = "f32"
    flops: int = 0
    bytes: int = 0
    """The bytes that have to be read and written at least."""

    def inputs(self) -> dict[str, Array]:
        """The same random numbers each time."""
        random = np.random.default_rng(7)
        made = {
            name: random.standard_normal(shape, np.float32)
            for name, shape in self.shapes.items()
        }
        if self.dtype == "bf16":
            from ml_dtypes import bfloat16

            return {name: array.astype(bfloat16) for name, array in made.items()}
        return made

    def figure(self, seconds: float) -> str:
        """The rate of a time: bytes or operations a second."""
        if self.flops:
            return f"{self.flops / seconds / 1e12:.1f} TFLOP/s"
        return f"{self.bytes / seconds / 1e9:.0f} GB/s"


def in_f64(arrays: Arrays) -> list[Array]:
    """The values of arrays in 64 bits."""
    return [array.astype(np.float64) for array in arrays.values()]


def job(body: str) -> str:
    """The text of a job on the first GPU."""
    return f"job.job @case placement <cuda, [0:0]> {{\n{body}\n}}\n"


def elementwise(rows: int, columns: int) -> Case:
    """A bias, GELU and what is added to it, as between the layers of transformers."""
    wide, row = f"tensor<{rows}x{columns}xf32>", f"tensor<1x{columns}xf32>"
    text = job(f"""
  %x = job.input "x" : {wide}
  %b = job.input "b" : {row}
  %r = job.input "r" : {wide}
  %s = op.add %x, %b : {wide}, {row} -> {wide}
  %g = op.gelu %s : {wide} -> {wide}
  %o = op.add %g, %r : {wide}, {wide} -> {wide}
  job.output "o", %o : {wide}""")

    def meaning(given: Arrays) -> Array:
        x, b, r = in_f64(given)
        erf = np.vectorize(math.erf, otypes=[np.float64])
        s = x + b
        return 0.5 * s * (1 + erf(s / math.sqrt(2))) + r

    def torch_does(torch: Torch, given: Mapping[str, Torch]) -> Torch:
        summed = given["x"] + given["b"]
        return torch.nn.functional.gelu(summed) + given["r"]

    shapes = {"x": (rows, columns), "b": (1, columns), "r": (rows, columns)}
    name = f"bias, GELU, add {rows}x{columns}"
    size = 4 * (3 * rows + 1) * columns
    return Case(name, text, shapes, meaning, torch_does, bytes=size)


def softmax(rows: int, columns: int) -> Case:
    """Softmax of rows."""
    wide = f"tensor<{rows}x{columns}xf32>"
    text = job(f"""
  %x = job.input "x" : {wide}
  %o = op.softmax %x axis 1 : {wide} -> {wide}
  job.output "o", %o : {wide}""")

    def meaning(given: Arrays) -> Array:
        (x,) = in_f64(given)
        return shares(x)

    return Case(
        f"softmax {rows}x{columns}",
        text,
        {"x": (rows, columns)},
        meaning,
        lambda torch, given: torch.softmax(given["x"], -1),
        bytes=8 * rows * columns,
    )


def shares(x: Array) -> Array:
    """Softmax of the last dimension."""
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def layer_norm(rows: int, columns: int) -> Case:
    """Layer normalization of rows."""
    wide, row = f"tensor<{rows}x{columns}xf32>", f"tensor<{columns}xf32>"
    text = job(f"""
  %x = job.input "x" : {wide}
  %g = job.input "g" : {row}
  %b = job.input "b" : {row}
  %o = op.layer_norm %x, %g, %b axis 1 epsilon 1.000000e-05
    : {wide}, {row}, {row} -> {wide}
  job.output "o", %o : {wide}""")

    def meaning(given: Arrays) -> Array:
        x, g, b = in_f64(given)
        centred = x - x.mean(-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * g + b

    def torch_does(torch: Torch, given: Mapping[str, Torch]) -> Torch:
        x, g, b = given.values()
        return torch.nn.functional.layer_norm(x, (columns,), g, b, 1e-5)

    shapes = {"x": (rows, columns), "g": (columns,), "b": (columns,)}
    name = f"layer norm {rows}x{columns}"
    size = 8 * (rows + 1) * columns
    return Case(name, text, shapes, meaning, torch_does, bytes=size)


def product(rows: int, columns: int, terms: int, dtype: str = "f32") -> Case:
    """A product of matrices."""
    a, b, o = (
        f"tensor<{m}x{n}x{dtype}>"
        for m, n in ((rows, terms), (terms, columns), (rows, columns))
    )
    text = job(f"""
  %a = job.input "a" : {a}
  %b = job.input "b" : {b}
  %o = op.matmul %a, %b : {a}, {b} -> {o}
  job.output "o", %o : {o}""")

    def meaning(given: Arrays) -> Array:
        a, b = in_f64(given)
        return a @ b

    return Case(
        f"{dtype} {rows}x{columns}x{terms}",
        text,
        {"a": (rows, terms), "b": (terms, columns)},
        meaning,
        lambda torch, given: torch.mm(given["a"], given["b"]),
        dtype,
        flops=2 * rows * columns * terms,
    )


def convolution(channels: int, extent: int, outputs: int) -> Case:
    """A convolution of 3 x 3 taps on one image."""
    inner = extent - 2
    x = f"tensor<1x{channels}x{extent}x{extent}xf32>"
    w = f"tensor<{outputs}x{channels}x3x3xf32>"
    o = f"tensor<1x{outputs}x{inner}x{inner}xf32>"
    text = job(f"""
  %x = job.input "x" : {x}
  %w = job.input "w" : {w}
  %o = op.conv2d %x, %w : {x}, {w} -> {o}
  job.output "o", %o : {o}""")

    def meaning(given: Arrays) -> Array:
        x, w = in_f64(given)
        windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
        return np.einsum("nchwij,ocij->nohw", windows, w)

    return Case(
        f"convolution {channels}x{extent}x{extent} to {outputs}",
        text,
        {"x": (1, channels, extent, extent), "w": (outputs, channels, 3, 3)},
        meaning,
        lambda torch, given: torch.nn.functional.conv2d(given["x"], given["w"]),
        flops=2 * outputs * channels * 9 * inner * inner,
    )


LOWEST = {"f32": "0x000080FF", "bf16": "0x80FF"}
"""The bytes of -inf."""


def attention(
    heads: int, length: int, width: int, dtype: str = "f32", *, causal: bool = False
) -> Case:
    """Attention of some heads, each on so many tokens, or those up to its own."""
    wide = f"tensor<1x{heads}x{length}x{width}x{dtype}>"
    square = f"tensor<1x{heads}x{length}x{length}x{dtype}>"
    scale = 1 / math.sqrt(width)
    flat = f"tensor<{length}x{length}x{dtype}>"
    mask = f"""
  %z = op.constant dense<0.0> : tensor<{dtype}>
  %n = op.constant dense<"{LOWEST[dtype]}"> : tensor<{dtype}>
  %m = op.triangle %z, %n to [{length}, {length}] offset 0
    : tensor<{dtype}>, tensor<{dtype}> -> {flat}
  %u = op.add %t, %m : {square}, {flat} -> {square}"""
    text = job(f"""
  %q = job.input "q" : {wide}
  %k = job.input "k" : {wide}
  %v = job.input "v" : {wide}
  %c = op.constant dense<{scale:e}> : tensor<{dtype}>
  %s = op.matmul %q, %k transpose_b : {wide}, {wide} -> {square}
  %t = op.mul %s, %c : {square}, tensor<{dtype}> -> {square}{mask * causal}
  %p = op.softmax {"%u" if causal else "%t"} axis 3 : {square} -> {square}
  %o = op.matmul %p, %v : {square}, {wide} -> {wide}
  job.output "o", %o : {wide}""")

    def meaning(given: Arrays) -> Array:
        q, k, v = in_f64(given)
        scores = q @ k.swapaxes(-1, -2) * scale
        if causal:
            scores[..., np.triu(np.ones((length, length), np.bool_), 1)] = -np.inf
        return shares(scores) @ v

    def torch_does(torch: Torch, given: Mapping[str, Torch]) -> Torch:
        attend = torch.nn.functional.scaled_dot_product_attention
        return attend(given["q"], given["k"], given["v"], is_causal=causal)

    shape = 1, heads, length, width
    seen = length * (length + 1) // 2 if causal else length * length
    return Case(
        f"attention {dtype} {heads}x{length}x{width}{' causal' * causal}",
        text,
        dict.fromkeys("qkv", shape),
        meaning,
        torch_does,
        dtype,
        flops=4 * heads * seen * width,
    )


def column_sums(rows: int, columns: int) -> Case:
    """Sums over rows, of which there are many."""
    wide = f"tensor<{rows}x{columns}xf32>"
    text = job(f"""
  %x = job.input "x" : {wide}
  %o = op.reduce_sum %x axes [0] : {wide} -> tensor<{columns}xf32>
  job.output "o", %o : tensor<{columns}xf32>""")

    def meaning(given: Arrays) -> Array:
        (x,) = in_f64(given)
        return x.sum(0)

    return Case(
        f"sums of columns {rows}x{columns}",
        text,
        {"x": (rows, columns)},
        meaning,
        lambda torch, given: given["x"].sum(0),
        bytes=4 * rows * columns,
    )


def checked_cases() -> list[Case]:
    """A small case for each kind of kernel, with sizes that fit no tile."""
    return [
        elementwise(33, 130),
        softmax(5, 1000),
        layer_norm(7, 96),
        column_sums(300, 40),
        product(70, 65, 33),
        product(1, 130, 768),
        product(70, 64, 40, "bf16"),
        convolution(5, 12, 9),
        attention(2, 40, 32),
        attention(2, 40, 32, "bf16"),
        attention(2, 40, 32, causal=True),
    ]


def row_cases(*, small: bool) -> list[Case]:
    """The cases that are bound by memory."""
    if small:
        return [elementwise(4, 64), softmax(3, 100), layer_norm(3, 64)]
    return [
        elementwise(8192, 4096),
        *(softmax(1 << (25 - bits), 1 << bits) for bits in (10, 12, 15)),
        layer_norm(32768, 1024),
        layer_norm(8192, 4096),
    ]


def product_cases(*, small: bool) -> list[Case]:
    """The cases that are bound by arithmetic."""
    if small:
        return [product(32, 32, 16), product(32, 32, 32, "bf16"), convolution(4, 8, 8)]
    return [
        product(1024, 1024, 1024),
        product(4096, 4096, 4096),
        product(128, 768, 3072),
        product(1024, 1024, 1024, "bf16"),
        product(4096, 4096, 4096, "bf16"),
        product(8192, 8192, 8192, "bf16"),
        convolution(256, 58, 256),
    ]


def attention_cases(*, small: bool) -> list[Case]:
    """Attention in both kinds of floats."""
    if small:
        return [attention(2, 16, 16), attention(2, 16, 16, "bf16")]
    return [
        attention(12, 128, 64),
        attention(16, 2048, 64),
        attention(16, 2048, 64, "bf16"),
        attention(16, 2048, 64, "bf16", causal=True),
    ]
