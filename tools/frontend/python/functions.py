"""The functions of NumPy that are no ufuncs, on tensors."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeGuard

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from penstock.runtime.loading.arrays import is_float
from penstock.tools.frontend.python.calls import as_tensor, functions_of
from penstock.tools.frontend.python.dtypes import DType, dtype_named
from penstock.tools.frontend.python.errors import refuse, refusing
from penstock.tools.frontend.python.guards import Array, is_sequence
from penstock.tools.frontend.python.tensor import Tensor
from penstock.tools.frontend.python.trace import current_trace

Axes: TypeAlias = int | Sequence[int] | None
Operand: TypeAlias = "Tensor | Array | bool | int | float"

LARGEST_BOUND = 2**15
"""The largest power of two that is an `f16`."""

FUNCTIONS: dict[Callable[..., Any], Callable[..., object]] = {}


def apply_function(
    function: Callable[..., object],
    args: Sequence[object],
    options: Mapping[str, object],
) -> object:
    """
    The implementation of `__array_function__`. Raises TraceError if it cannot be
    traced.
    """
    what = f"{function.__module__}.{function.__name__}"
    _ = current_trace(what)
    if (ours := FUNCTIONS.get(function)) is None:
        raise refuse(f"{what} cannot be traced: there is no op for it")
    with refusing(what):
        _ = inspect.signature(ours).bind(*args, **options)
    with refusing(what):
        return ours(*args, **options)


def _call(name: str, *args: object, **options: object) -> Tensor:
    """The one result of an op of the op dialect."""
    result: Tensor = functions_of("op")[name](*args, **options)
    return result


def tensor(value: object, dtype: DType | None = None) -> Tensor:
    """A tensor, array, number or list of numbers as a tensor."""
    if is_sequence(value):
        return tensor(np.asarray(value), dtype)
    return as_tensor(current_trace("a constant"), value, dtype, "NumPy")


def common(values: Sequence[Operand]) -> list[Tensor]:
    """Values as tensors of the dtype that NumPy finds for all of them."""
    kinds = [v.dtype if isinstance(v, Tensor) else v for v in values]
    dtype: DType = np.result_type(*kinds)
    return [cast(tensor(value, dtype), dtype) for value in values]


def cast(source: Tensor, dtype: DType) -> Tensor:
    """The elements converted to another dtype."""
    return source if source.dtype == dtype else _call("cast", source, to=dtype)


# Shapes


def reshape(a: Operand, shape: int | Sequence[int]) -> Tensor:
    """`numpy.reshape`"""
    extents = [shape] if isinstance(shape, int) else [int(extent) for extent in shape]
    source = tensor(a)
    return source if source.shape == tuple(extents) else _reshape(source, extents)


def _reshape(source: Tensor, shape: Sequence[int]) -> Tensor:
    return _call("reshape", source, list(shape))


def transpose(a: Operand, axes: Sequence[int] | None = None) -> Tensor:
    """`numpy.transpose`"""
    source = tensor(a)
    order = list(range(source.ndim))[::-1]
    if axes is not None:
        order = [normalize_axis_index(axis, source.ndim) for axis in axes]
    return source if order == sorted(order) else _call("transpose", source, order)


def swapaxes(a: Operand, axis1: int, axis2: int) -> Tensor:
    """`numpy.swapaxes`"""
    source = tensor(a)
    order = list(range(source.ndim))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return transpose(source, order)


def moveaxis(
    a: Operand, source: int | Sequence[int], destination: int | Sequence[int]
) -> Tensor:
    """`numpy.moveaxis`"""
    array = tensor(a)
    old = normalize_axis_tuple(source, array.ndim)
    new = normalize_axis_tuple(destination, array.ndim)
    order = [axis for axis in range(array.ndim) if axis not in old]
    for to, axis in sorted(zip(new, old, strict=True)):
        order.insert(to, axis)
    return transpose(array, order)


def ravel(a: Operand) -> Tensor:
    """`numpy.ravel`"""
    return reshape(a, -1)


def squeeze(a: Operand, axis: Axes = None) -> Tensor:
    """`numpy.squeeze`"""
    source = tensor(a)
    with refusing("squeeze"):
        # NumPy says which axes have more elements.
        shape = np.squeeze(_like(source), axis).shape
    return reshape(source, shape)


def expand_dims(a: Operand, axis: int | Sequence[int]) -> Tensor:
    """`numpy.expand_dims`"""
    source = tensor(a)
    return reshape(source, np.expand_dims(_like(source), axis).shape)


def broadcast_to(array: Operand, shape: int | Sequence[int]) -> Tensor:
    """`numpy.broadcast_to`"""
    source = tensor(array)
    wanted = np.broadcast_to(_like(source), shape).shape
    return source if wanted == source.shape else _call("expand", source, list(wanted))


def _like(source: Tensor) -> Array:
    """An array of the shape and dtype of a tensor that takes no memory."""
    return np.broadcast_to(np.zeros((), source.dtype), source.shape)


# Parts


def concatenate(arrays: Sequence[Operand], axis: int | None = 0) -> Tensor:
    """`numpy.concatenate`"""
    parts = common(arrays)
    if axis is None:
        return _call("concat", [ravel(part) for part in parts], 0)
    return _call("concat", parts, axis)


def stack(arrays: Sequence[Operand], axis: int = 0) -> Tensor:
    """`numpy.stack`"""
    return concatenate([expand_dims(part, axis) for part in common(arrays)], axis)


def split(
    ary: Tensor, indices_or_sections: int | Sequence[int], axis: int = 0
) -> list[Tensor]:
    """`numpy.split`"""
    # NumPy says where; the parts of an array without memory are as cheap as places.
    places = np.arange(ary.shape[axis])
    sizes = [len(part) for part in np.split(places, indices_or_sections)]
    return list(functions_of("op")["split"](ary, axis, sizes))


def take(a: Operand, indices: Operand, axis: int | None = None) -> Tensor:
    """`numpy.take`"""
    source = ravel(a) if axis is None else tensor(a)
    return _call("gather", source, tensor(indices), axis or 0)


def pad(
    array: Operand,
    pad_width: int | Sequence[int] | Sequence[Sequence[int]],
    mode: str = "constant",
    constant_values: float = 0.0,
) -> Tensor:
    """`numpy.pad`"""
    source = tensor(array)
    widths = np.broadcast_to(np.asarray(pad_width), (source.ndim, 2)).tolist()
    before, after = ([width[end] for width in widths] for end in (0, 1))
    value = float(constant_values)
    return _call("pad", source, before, after, mode=mode, value=value)


# Choices


def where(condition: Operand, x: Operand, y: Operand) -> Tensor:
    """`numpy.where` with three arguments"""
    mask = cast(tensor(condition), np.dtype("bool"))
    return _call("where", mask, *common([x, y]))


def clip(
    a: Tensor, a_min: Operand | None = None, a_max: Operand | None = None
) -> Tensor:
    """`numpy.clip`"""
    bounds = {"min": a_min, "max": a_max}
    given = {name: x for name, x in bounds.items() if x is not None}
    numbers = {name: float(x) for name, x in given.items() if _is_small(x)}
    if is_float(a.dtype) and numbers and len(numbers) == len(given):
        # One op, whose gradient keeps nothing but its operand.
        return _call("clip", a, **numbers)
    low = a if a_min is None else _call("maximum", *common([a, a_min]))
    return low if a_max is None else _call("minimum", *common([low, a_max]))


def _is_small(bound: Operand) -> TypeGuard[int | float]:
    """
    Whether a bound is a number that each type of floats has room for, and has no type
    of its own, as a scalar of NumPy does.
    """
    if not isinstance(bound, int | float) or isinstance(bound, np.generic):
        return False
    return abs(bound) <= LARGEST_BOUND


# Reductions


def _reduce(name: str, source: Tensor, axis: Axes, *, keepdims: bool) -> Tensor:
    if isinstance(axis, Sequence) and not axis:
        return source
    axes = () if axis is None else normalize_axis_tuple(axis, source.ndim)
    return _call(name, source, axes, keepdims=keepdims)


def _wide(source: Tensor) -> Tensor:
    """
    The tensor in the dtype that NumPy adds and multiplies in: integers have 64 bits.
    """
    wide = {"b": "int64", "i": "int64", "u": "uint64"}.get(source.dtype.kind)
    return source if wide is None else cast(source, np.dtype(wide))


def sum_(
    a: Tensor, axis: Axes = None, dtype: object = None, *, keepdims: bool = False
) -> Tensor:
    """`numpy.sum`"""
    source = _wide(a) if dtype is None else cast(a, dtype_named(dtype))
    return _reduce("reduce_sum", source, axis, keepdims=keepdims)


def prod(a: Tensor, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """`numpy.prod`"""
    return _reduce("reduce_prod", _wide(a), axis, keepdims=keepdims)


def mean(a: Tensor, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """`numpy.mean`"""
    source = a if is_float(a.dtype) else cast(a, np.dtype("float64"))
    return _reduce("reduce_mean", source, axis, keepdims=keepdims)


def max_(a: Tensor, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """`numpy.max`"""
    return _reduce("reduce_max", a, axis, keepdims=keepdims)


def min_(a: Tensor, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """`numpy.min`"""
    return _reduce("reduce_min", a, axis, keepdims=keepdims)


def var(a: Tensor, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """`numpy.var`"""
    return mean(np.square(a - mean(a, axis, keepdims=True)), axis, keepdims=keepdims)


def std(a: Tensor, axis: Axes = None, *, keepdims: bool = False) -> Tensor:
    """`numpy.std`"""
    return _call("sqrt", var(a, axis, keepdims=keepdims))


# Along one axis


def argmax(a: Tensor, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """`numpy.argmax`"""
    return _place("arg_max", a, axis, keepdims=keepdims)


def argmin(a: Tensor, axis: int | None = None, *, keepdims: bool = False) -> Tensor:
    """`numpy.argmin`"""
    return _place("arg_min", a, axis, keepdims=keepdims)


def _place(name: str, source: Tensor, axis: int | None, *, keepdims: bool) -> Tensor:
    if axis is None:
        found = _call(name, ravel(source), 0)
        return reshape(found, [1] * source.ndim if keepdims else [])
    found = _call(name, source, axis)
    return found if keepdims else squeeze(found, axis)


def cumsum(a: Tensor, axis: int | None = None) -> Tensor:
    """`numpy.cumsum`"""
    return _scan("cum_sum", a, axis)


def cumprod(a: Tensor, axis: int | None = None) -> Tensor:
    """`numpy.cumprod`"""
    return _scan("cum_prod", a, axis)


def _scan(name: str, source: Tensor, axis: int | None) -> Tensor:
    wide = _wide(ravel(source) if axis is None else source)
    return _call(name, wide, axis or 0)


# Properties of a tensor, and constants of its shape


def astype(x: Tensor, dtype: object) -> Tensor:
    """`numpy.astype`"""
    return cast(x, dtype_named(dtype))


def ndim(a: Tensor) -> int:
    """`numpy.ndim`"""
    return a.ndim


def shape(a: Tensor) -> tuple[int, ...]:
    """`numpy.shape`"""
    return a.shape


def size(a: Tensor) -> int:
    """`numpy.size`"""
    return a.size


def zeros_like(a: Tensor) -> Array:
    """`numpy.zeros_like`"""
    return np.zeros(a.shape, a.dtype)


def ones_like(a: Tensor) -> Array:
    """`numpy.ones_like`"""
    return np.ones(a.shape, a.dtype)


def full_like(a: Tensor, fill_value: float) -> Array:
    """`numpy.full_like`"""
    return np.full(a.shape, fill_value, a.dtype)


FUNCTIONS.update(
    {
        np.argmax: argmax,
        np.argmin: argmin,
        np.astype: astype,
        np.broadcast_to: broadcast_to,
        np.clip: clip,
        np.concatenate: concatenate,
        np.cumprod: cumprod,
        np.cumsum: cumsum,
        np.expand_dims: expand_dims,
        np.full_like: full_like,
        np.max: max_,
        np.mean: mean,
        np.min: min_,
        np.moveaxis: moveaxis,
        np.ndim: ndim,
        np.ones_like: ones_like,
        np.pad: pad,
        np.prod: prod,
        np.ravel: ravel,
        np.reshape: reshape,
        np.shape: shape,
        np.size: size,
        np.split: split,
        np.squeeze: squeeze,
        np.stack: stack,
        np.std: std,
        np.sum: sum_,
        np.swapaxes: swapaxes,
        np.take: take,
        np.transpose: transpose,
        np.var: var,
        np.where: where,
        np.zeros_like: zeros_like,
    }
)
