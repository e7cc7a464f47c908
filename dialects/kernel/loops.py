"""
The loop nest of a stage: accesses, merging of loops, and their order.

An access is linear: element `offset + sum(stride * loop)` of a dense buffer. Where the
buffer has padding around it, an element is a number if an index is out of bounds. The
order of the loops follows a rule on the strides alone, see `loop_order`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod

from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)


@dataclass(frozen=True)
class Bound:
    """Index `offset + sum(strides[l] * loop l)` should be one of `extent` elements."""

    strides: tuple[int, ...]
    offset: int
    extent: int


@dataclass(frozen=True)
class Access:
    """
    Element `offset + sum(strides[l] * loop l)` of a buffer, or a number out of bounds.
    """

    strides: tuple[int, ...]
    offset: int = 0
    bounds: tuple[Bound, ...] = ()
    outside: float = 0
    """The number out of bounds."""

    @property
    def loops(self) -> set[int]:
        """The loops that an element depends on."""
        linear = (self.strides, *(bound.strides for bound in self.bounds))
        return {n for strides in linear for n, step in enumerate(strides) if step}


@dataclass(frozen=True)
class Nest:
    """
    Loops and how they touch the operands; the last accesses are those of the outputs.
    Only a nest without reductions has several.
    """

    extents: tuple[int, ...]
    reductions: tuple[bool, ...]
    accesses: tuple[Access, ...]
    outputs: int = 1

    @property
    def written(self) -> tuple[Access, ...]:
        """The accesses of the outputs."""
        return self.accesses[-self.outputs :]

    @property
    def has_bounds(self) -> bool:
        """Whether some of what is read has padding around it."""
        return any(access.bounds for access in self.accesses)


@dataclass(frozen=True)
class Order:
    """
    Loops from the outermost to the innermost.

    With `in_register` the reductions are innermost and the element of the output is
    kept in a register while they run.
    """

    loops: tuple[int, ...]
    in_register: bool


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """The stride of each dimension of a dense buffer, in elements."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def is_linear(expr: AffineExpr) -> bool:
    """Whether an expression is made of loops, constants, sums and multiples."""
    match expr:
        case AffineDimExpr() | AffineConstantExpr():
            return True
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Add):
            return is_linear(expr.lhs) and is_linear(expr.rhs)
        case AffineBinaryOpExpr(kind=AffineBinaryOpKind.Mul):
            sides = expr.lhs, expr.rhs
            constant = any(isinstance(side, AffineConstantExpr) for side in sides)
            return constant and all(map(is_linear, sides))
        case _:
            return False


def access_of(
    map: AffineMap,
    shape: Sequence[int],
    pads: Sequence[tuple[int, int]] = (),
    outside: float = 0,
) -> Access | None:
    """
    The access to a dense buffer by an affine map of loops, or None if it is not linear.
    `pads` count the elements before and after each dimension, which the map counts too,
    and which are all the number `outside`.
    """
    if not all(is_linear(expr) for expr in map.results):
        return None
    pads = pads or [(0, 0)] * len(shape)
    units = [[int(a == b) for b in range(map.num_dims)] for a in range(map.num_dims)]
    begin = map.eval([0] * map.num_dims, [])
    ends = [map.eval(unit, []) for unit in units]
    indices = [
        Bound(tuple(end[axis] - first for end in ends), first - pads[axis][0], extent)
        for axis, (first, extent) in enumerate(zip(begin, shape, strict=True))
    ]
    weights = row_major(shape)

    def element(parts: Iterable[int]) -> int:
        return sum(part * weight for part, weight in zip(parts, weights, strict=True))

    return Access(
        tuple(
            element(index.strides[loop] for index in indices)
            for loop in range(map.num_dims)
        ),
        element(index.offset for index in indices),
        tuple(index for index, pad in zip(indices, pads, strict=True) if any(pad)),
        outside,
    )


def extents_of(maps: Sequence[AffineMap], shapes: Sequence[Sequence[int]]) -> list[int]:
    """
    The extent of each loop: that of the first dimension which it alone indexes. The
    verifier sees to it that there is one.
    """
    extents: dict[int, int] = {}
    for map, shape in zip(maps, shapes, strict=True):
        for expr, extent in zip(map.results, shape, strict=True):
            if isinstance(expr, AffineDimExpr):
                extents.setdefault(expr.position, extent)
    return [extents[loop] for loop in range(maps[0].num_dims)]


def reach_of(map: AffineMap, extents: Sequence[int]) -> tuple[list[int], list[int]]:
    """
    The least and the largest index of each dimension that a linear map gives for loops
    of these extents, none of which is 0.
    """
    first = map.eval([0] * len(extents), [])
    low, high = [*first], [*first]
    for loop, extent in enumerate(extents):
        last = [extent - 1 if at == loop else 0 for at in range(len(extents))]
        for axis, end in enumerate(map.eval(last, [])):
            low[axis] += min(0, end - first[axis])
            high[axis] += max(0, end - first[axis])
    return low, high


def is_onto(map: AffineMap, extents: Sequence[int], shape: Sequence[int]) -> bool:
    """
    Whether a map leads loops to each element of a buffer, if it leads to none of them
    twice.
    """
    return prod(extents[loop] for loop in map.used_dims()) == prod(shape)


def merged(nest: Nest) -> Nest:
    """
    The nest without loops that run once, and with neighbouring loops made one where
    every operand allows it: both are parallel or both reductions, and a step of the
    outer one is a whole inner one.
    """
    nest = _kept(nest, [loop for loop, n in enumerate(nest.extents) if n != 1])
    loop = 0
    while loop + 1 < len(nest.extents):
        if _are_mergeable(nest, loop):
            nest = _merge(nest, loop)
        else:
            loop += 1
    return nest


def _are_mergeable(nest: Nest, outer: int) -> bool:
    inner, extent = outer + 1, nest.extents[outer + 1]
    return nest.reductions[outer] == nest.reductions[inner] and all(
        linear.strides[outer] == linear.strides[inner] * extent
        for access in nest.accesses
        for linear in (access, *access.bounds)
    )


def _merge(nest: Nest, outer: int) -> Nest:
    extents = list(nest.extents)
    extents[outer + 1] *= extents[outer]
    loops = [loop for loop in range(len(extents)) if loop != outer]
    return _kept(replace(nest, extents=tuple(extents)), loops)


def _kept(nest: Nest, loops: Sequence[int]) -> Nest:
    """The nest of some of its loops."""

    def kept(strides: Sequence[int]) -> tuple[int, ...]:
        return tuple(strides[loop] for loop in loops)

    accesses = (
        replace(
            access,
            strides=kept(access.strides),
            bounds=tuple(replace(b, strides=kept(b.strides)) for b in access.bounds),
        )
        for access in nest.accesses
    )
    reductions = tuple(nest.reductions[loop] for loop in loops)
    return Nest(kept(nest.extents), reductions, tuple(accesses), nest.outputs)


def loop_order(nest: Nest) -> Order:
    """
    The order in which loops run.

    1. Without reductions: as they are written.
    2. If the last loop that walks the output element by element walks every input so
       or not at all, it goes innermost and the reductions just outside of it, so that
       it can be vectorised: `o[i, j] += a[i, k] * b[k, j]` runs as i, k, j.
    3. Else if the last reduction walks every input element by element or not at all,
       the reductions go innermost, and the output is kept in a register:
       `o[i, j] += a[i, k] * b[j, k]` runs as i, j, k.
    4. Else as in 2, if there is a loop that walks the output element by element, and
       as in 3 if there is none.
    """
    loops = range(len(nest.extents))
    outer = [loop for loop in loops if not nest.reductions[loop]]
    inner = [loop for loop in loops if nest.reductions[loop]]
    if not inner:
        return Order(tuple(outer), in_register=False)
    contiguous = [loop for loop in outer if nest.accesses[-1].strides[loop] == 1]
    if not contiguous or _in_register(nest, contiguous[-1], inner[-1]):
        return Order((*outer, *inner), in_register=True)
    vector = contiguous[-1]
    outer.remove(vector)
    return Order((*outer, *inner, vector), in_register=False)


def _in_register(nest: Nest, vector: int, reduction: int) -> bool:
    return not _walks_inputs(nest, vector) and _walks_inputs(nest, reduction)


def _walks_inputs(nest: Nest, loop: int) -> bool:
    """Whether a loop walks every input element by element or not at all."""
    return all(access.strides[loop] in (0, 1) for access in nest.accesses[:-1])
