"""
A double of cuBLAS and cuDNN: the problems of `penstock.runtime.cuda.libraries.problems`
in NumPy, on flat arrays, with sums of halves in `f32`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from penstock.runtime.cuda.libraries.problems import Convolution, Product

Array: TypeAlias = NDArray[Any]


def solve(kind: str, facts: Mapping[str, Any], arrays: Sequence[Array]) -> None:
    """
    Compute a library call of a kernel: a problem by its kind and fields, of two factors
    and the result, which is written in place.
    """
    if kind == "Product":
        multiply(Product(**facts), arrays)
    else:
        convolve(Convolution(**facts), arrays)


def multiply(wanted: Product, arrays: Sequence[Array]) -> None:
    """Compute products of matrices."""
    rows, columns, terms = wanted.extents
    shapes = (rows, terms), (terms, columns), (rows, columns)
    steps = wanted.a_steps, wanted.b_steps, (wanted.row_step, 1)
    a, b, out = (
        view(array, (wanted.batch, *shape), (stride, *step))
        for array, shape, step, stride in zip(
            arrays, shapes, steps, wanted.strides, strict=True
        )
    )
    store(out, np.matmul(wide(a), wide(b)), adds=wanted.adds)


def convolve(wanted: Convolution, arrays: Sequence[Array]) -> None:
    """Compute a convolution, the images of which have borders already."""
    n, g, c, f = wanted.batch, wanted.groups, wanted.channels, wanted.filters
    image, channel, *places = wanted.x_steps
    first = zip(places, wanted.strides, strict=True)
    taps = zip(places, wanted.dilations, strict=True)
    x = view(
        arrays[0],
        (n, g, c, *wanted.places, *wanted.window),
        (
            *(image, c * channel, channel),
            *(step * stride for step, stride in first),
            *(step * dilation for step, dilation in taps),
        ),
    )
    w = arrays[1].reshape(-1)[: g * f * c * int(np.prod(wanted.window))]
    w = w.reshape(g, f, c, *wanted.window)
    image, channel, *steps = wanted.o_steps
    out = view(
        arrays[2], (n, g, f, *wanted.places), (image, f * channel, channel, *steps)
    )
    rank = len(wanted.window)
    p, k = "uvw"[:rank], "xyz"[:rank]
    sums = np.einsum(f"ngc{p}{k},gfc{k}->ngf{p}", wide(x), wide(w))
    store(out, sums, adds=wanted.adds)


def view(array: Array, shape: Sequence[int], steps: Sequence[int]) -> Array:
    """The elements of a flat array, so many steps apart."""
    last = sum((n - 1) * step for n, step in zip(shape, steps, strict=True))
    assert last < array.size, f"element {last} is beyond {array.size}"
    size = array.itemsize
    return as_strided(array, shape, [size * step for step in steps])


def wide(array: Array) -> Array:
    """Numbers in the type that products are summed in."""
    return array if array.dtype == np.float64 else array.astype(np.float32)


def store(out: Array, sums: Array, *, adds: bool) -> None:
    """Write sums, added to what is there, or not."""
    out[...] = (wide(out) + sums if adds else sums).astype(out.dtype)
