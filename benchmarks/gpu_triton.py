"""The same as some cases of `gpu_cases`, written in Triton."""

# Triton carries no types, and is not installed everywhere.
from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 1024
"""The elements that a program computes where each is computed on its own."""


@triton.jit
def elementwise_kernel(x, b, r, o, count, columns, size: tl.constexpr):
    """A bias, GELU, and what is added."""
    at = tl.program_id(0) * size + tl.arange(0, size)
    inside = at < count
    s = tl.load(x + at, mask=inside) + tl.load(b + at % columns, mask=inside)
    g = 0.5 * s * (1 + tl.erf(s * 0.7071067811865476))
    tl.store(o + at, g + tl.load(r + at, mask=inside), mask=inside)


@triton.jit
def softmax_kernel(x, o, columns, size: tl.constexpr):
    """Softmax of a row."""
    column = tl.arange(0, size)
    at = tl.program_id(0).to(tl.int64) * columns + column
    row = tl.load(x + at, mask=column < columns, other=-float("inf"))
    powers = tl.exp(row - tl.max(row, 0))
    tl.store(o + at, powers / tl.sum(powers, 0), mask=column < columns)


@triton.jit
def layer_norm_kernel(x, g, b, o, columns, size: tl.constexpr):
    """Layer normalization of a row."""
    column = tl.arange(0, size)
    at = tl.program_id(0).to(tl.int64) * columns + column
    inside = column < columns
    row = tl.load(x + at, mask=inside, other=0.0)
    centred = tl.where(inside, row - tl.sum(row, 0) / columns, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / columns + 1e-5)
    found = centred * scale * tl.load(g + column, mask=inside)
    tl.store(o + at, found + tl.load(b + column, mask=inside), mask=inside)


def warps(size: int) -> int:
    """The warps that share a row."""
    return min(max(size // 256, 4), 16)


def elementwise(given: dict[str, Any]) -> Any:
    """A bias, GELU, and what is added."""
    x, b, r = given.values()
    out = torch.empty_like(x)
    grid = (triton.cdiv(x.numel(), BLOCK),)
    elementwise_kernel[grid](x, b, r, out, x.numel(), x.shape[1], size=BLOCK)
    return out


def softmax(given: dict[str, Any]) -> Any:
    """Softmax of rows."""
    (x,) = given.values()
    rows, columns = x.shape
    out, size = torch.empty_like(x), triton.next_power_of_2(columns)
    softmax_kernel[(rows,)](x, out, columns, size=size, num_warps=warps(size))
    return out


def layer_norm(given: dict[str, Any]) -> Any:
    """Layer normalization of rows."""
    x, g, b = given.values()
    rows, columns = x.shape
    out, size = torch.empty_like(x), triton.next_power_of_2(columns)
    layer_norm_kernel[(rows,)](x, g, b, out, columns, size=size, num_warps=warps(size))
    return out


FUNCTIONS = {"bias": elementwise, "softmax": softmax, "layer": layer_norm}
"""By the first word of the name of a case."""
