"""
The analysis of contractions: a `kernel.contract` as a matmul, without printing it.

A contraction adds products of two numbers to its output. Its loops are *rows*, which
only `a` and the result have; *columns*, which only `b` and the result have and along
which the result is contiguous; and *terms*, which only `a` and `b` have and which have
one stride in `a`. Any other loops run outside. Where there are several loops of columns
or terms, as in convolutions, columns are *windows* on `b`, which may have padding
around it. Factors may be narrower than their sums: bytes with `i32` accumulators, or
`bf16` with `f32` ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from xdsl.dialects import arith, linalg
from xdsl.dialects.builtin import MemRefType, bf16, f16, f32, f64, i8, i32, i64
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute, Operation, SSAValue

from penstock.dialects.kernel.contract import FACTORS, ContractOp
from penstock.dialects.kernel.interface import element_of
from penstock.dialects.kernel.loops import (
    Access,
    Bound,
    Nest,
    access_of,
    extents_of,
    merged,
)
from penstock.dialects.kernel.views import PaddedOp
from penstock.dialects.launch.schedules.cpu_matmul import GROUP
from penstock.dialects.utils.half_precision import is_half
from penstock.dialects.utils.hints import isa

ELEMENTS: Mapping[Attribute, str] = {f32: "f32", f64: "f64"}
"""The floats whose products are summed in tiles, with their short names."""

INTEGERS: Mapping[Attribute, str] = {i32: "i32", i64: "i64"}
"""The integers, with or without sign: what is cut off is the same."""

TILE_ELEMENTS: Mapping[Attribute, str] = {**ELEMENTS, **INTEGERS}
"""The types whose products are summed in tiles on CPUs."""

NARROW: Mapping[tuple[Attribute, Attribute], tuple[str, str]] = {
    (i8, i32): ("i8", "ui8"),
    (bf16, f32): ("bf16", "bf16"),
}
"""
The types of factors and sums that tiles on CPUs take in groups of terms, with the names
of factors that have a sign, and that have none.
"""

FACTOR_BYTES: Mapping[str, int] = {"i8": 1, "ui8": 1, "bf16": 2}
"""The bytes of factors that are narrower than their sums."""

EXTENSIONS = (arith.ExtFOp, arith.ExtSIOp, arith.ExtUIOp)
"""The ops by which factors get as many bits as their sum has."""

DEVICE_ELEMENTS: Mapping[Attribute, str] = {**ELEMENTS, f16: "f16", bf16: "bf16"}
"""The types whose products are summed in tiles on devices."""


@dataclass(frozen=True)
class Contraction:
    """A contraction as loops over rows, columns and terms."""

    element: str
    """The type of sums, and of factors unless those are named."""
    a: int
    """The number of the operand that has rows."""
    b: int
    """The number of the operand that has columns."""
    nest: Nest
    outer: tuple[int, ...]
    """The other loops."""
    row: int | None
    columns: tuple[int, ...]
    """From the outermost loop to the innermost, as the terms."""
    terms: tuple[int, ...]
    factors: tuple[str, str] | None = None
    """The types of `a` and of `b` if they are narrower than sums: groups of terms."""
    starts: bool = False
    """Whether sums do not begin with what the result holds."""

    @property
    def group(self) -> int:
        """The terms that are multiplied and added at once."""
        return GROUP // FACTOR_BYTES[self.factors[0]] if self.factors else 1

    @property
    def column(self) -> int | None:
        """The innermost loop of columns."""
        return self.columns[-1] if self.columns else None

    @property
    def term(self) -> int | None:
        """The innermost loop of terms."""
        return self.terms[-1] if self.terms else None

    @property
    def has_windows(self) -> bool:
        """
        Whether terms or columns of `b` are not all equally far apart, or some of them
        are padding.
        """
        return len(self.columns) > 1 or len(self.terms) > 1 or bool(self.bounds)

    @property
    def in_lines(self) -> Contraction:
        """The same one of a single loop of columns, around which all others run."""
        *others, column = self.columns
        return replace(self, outer=(*self.outer, *others), columns=(column,))

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """Out of which elements of `b` are zero, of columns and of inner terms."""
        return self.nest.accesses[self.b].bounds

    @property
    def extents(self) -> tuple[int, int, int]:
        """The rows, columns and terms, 1 where there is no loop."""
        extents = self.nest.extents
        return (
            1 if self.row is None else extents[self.row],
            prod(extents[loop] for loop in self.columns),
            prod(extents[loop] for loop in self.terms),
        )

    @property
    def inner_terms(self) -> int:
        """The terms that the outermost loop of terms has a turn."""
        return prod(self.nest.extents[loop] for loop in self.terms[1:])

    def windows(self, loops: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """The extent of each loop, and how far apart its elements of `b` are."""
        return tuple(
            (self.nest.extents[loop], self.stride(self.b, loop)) for loop in loops
        )

    def stride(self, operand: int, loop: int | None) -> int:
        """From an element of an operand (-1: the result) to the next one of a loop."""
        return 0 if loop is None else self.nest.accesses[operand].strides[loop]

    @property
    def a_steps(self) -> tuple[int, int]:
        """From a row and from a term of `a` to the next."""
        return self.stride(self.a, self.row), self.stride(self.a, self.term)

    @property
    def b_steps(self) -> tuple[int, int]:
        """From a term and from a column of `b` to the next, without windows."""
        return self.stride(self.b, self.term), self.stride(self.b, self.column)

    @property
    def outer_extents(self) -> tuple[int, ...]:
        """The trip counts of the other loops."""
        return tuple(self.nest.extents[loop] for loop in self.outer)

    def outer_strides(self, access: Access) -> tuple[int, ...]:
        """The strides of an access along the other loops, in elements."""
        return tuple(access.strides[loop] for loop in self.outer)


def result_of(op: ContractOp) -> SSAValue:
    """The memref that holds the sums of a contraction."""
    return op.operands[op.held_at]


def sums_nest(op: ContractOp) -> Nest:
    """The loops of a contraction, with its factors and the result that holds sums."""
    return op.nest([*range(FACTORS), op.held_at])


def nest_of(op: LinalgStructuredOperation) -> Nest | str:
    """The loops of an op of `linalg` as they are written, or why there are none."""
    maps = [attr.data for attr in op.get_indexing_maps()]
    shapes = [
        value.type.get_shape() if isa(value.type, MemRefType) else ()
        for value in op.operands
    ]
    accesses: list[Access] = []
    for number, (map, shape) in enumerate(zip(maps, shapes, strict=True)):
        owner = op.operands[number].owner
        if isinstance(owner, PaddedOp):
            access = access_of(map, owner.shape, owner.pads, owner.number)
        else:
            access = access_of(map, shape)
        if access is None:
            return f"the map of operand {number} is not linear: {map}"
        accesses.append(access)
    reductions = (
        iterator.data is not linalg.attrs.IteratorType.PARALLEL
        for iterator in op.get_iterator_types()
    )
    extents, outputs = tuple(extents_of(maps, shapes)), len(op.outputs)
    return Nest(extents, tuple(reductions), tuple(accesses), outputs)


def contraction_of(
    op: Operation, elements: Mapping[Attribute, str] = TILE_ELEMENTS
) -> Contraction | str | None:
    """
    The loops of a contraction of numbers, why they are none that tiles compute, or None
    for any other op. `elements` are the types that tiles are of.
    """
    if not isinstance(op, ContractOp):
        return None
    if op.depthwise() is not None:
        return "each channel is multiplied by weights of its own"
    held = result_of(op)
    factor, total = element_of(op.a), element_of(held)
    element, names = elements.get(total), NARROW.get((factor, total))
    if element is None or not (names or factor == total):
        return f"there are no tiles that sum products of {factor} in {total}"
    if op.sum_type != (f32 if is_half(total) else total):
        return f"sums in {op.sum_type} are stored as {total}"
    found = contraction_in(sums_nest(op), element)
    if isinstance(found, str):
        return found
    found = replace(found, starts=not op.is_started_by_itself)
    if names is not None:
        of_a, of_b = (names[op.unsigned[side]] for side in (found.a, found.b))
        found = replace(found, factors=(of_a, of_b))
        if found.bounds:
            return "a factor that is narrower than its sums has padding around it"
    return found


def contraction_in(nest: Nest, element: str) -> Contraction | str:
    """
    The loops over rows, columns and terms of a nest that sums products of two factors
    of a type, which its last access holds; or why tiles cannot compute them. Sums start
    from zero, or from other numbers than those that the result holds.
    """
    if 0 in nest.extents:
        return "there are no elements"
    found = _sorted_loops(element, merged(nest))
    if isinstance(found, str):
        return found
    return _bounds_refusal(found) or replace(found, starts=True)


def device_contraction_of(op: Operation) -> Contraction | str | None:
    """As `contraction_of`, of numbers and factors that tiles on devices compute."""
    found = contraction_of(op, DEVICE_ELEMENTS)
    if isinstance(found, Contraction) and found.factors:
        return f"there are no tiles that sum products of {found.factors[0]} in f32"
    if isinstance(found, Contraction) and found.bounds:
        return "a factor has padding around it"
    return found


def _bounds_refusal(found: Contraction) -> str | None:
    """Why padding around the factors cannot be skipped when they are packed, if so."""
    if any(access.outside != 0 for access in found.nest.accesses):
        return "a factor has other numbers than 0 around it"
    if found.nest.accesses[found.a].bounds:
        return "the factor with rows has padding around it"
    inside = {*found.columns, *found.terms[1:]}
    for bound in found.bounds:
        if any(step and n not in inside for n, step in enumerate(bound.strides)):
            return "padding depends on the outermost terms, or on other loops"
    return None


def _sorted_loops(element: str, nest: Nest) -> Contraction | str:
    *_, result = nest.accesses
    loops = range(len(nest.extents))
    terms = [loop for loop in loops if nest.reductions[loop]]
    if any(not result.strides[loop] for loop in loops if loop not in terms):
        return "some loop of the result does not change its place"
    others = [loop for loop in loops if loop not in terms]
    along = next((loop for loop in others if result.strides[loop] == 1), None)
    sides = _sides(nest, along)
    if sides is None:
        return "both factors depend on the loop along the result"
    a, b = sides
    of_a, of_b = nest.accesses[a].strides, nest.accesses[b].strides
    if not _follow(nest, terms, of_a):
        return "the terms of a factor are not equally far apart"
    columns = _columns(nest, others, of_a, of_b)
    rows = [loop for loop in others if of_a[loop] and not of_b[loop]]
    row = max(rows, key=lambda loop: nest.extents[loop], default=None)
    outer = tuple(loop for loop in others if loop != row and loop not in columns)
    return Contraction(element, a, b, nest, outer, row, columns, tuple(terms))


def _follow(nest: Nest, loops: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether a turn of each loop goes on where the next one ends."""
    return all(
        strides[outer] == strides[inner] * nest.extents[inner]
        for outer, inner in pairwise(loops)
    )


def _columns(
    nest: Nest, loops: Sequence[int], of_a: Sequence[int], of_b: Sequence[int]
) -> tuple[int, ...]:
    """The loops that only b has and that walk the result element by element."""
    found: list[int] = []
    step = 1
    while True:
        strides = nest.accesses[-1].strides
        fitting = (
            loop
            for loop in loops
            if strides[loop] == step and of_b[loop] and not of_a[loop]
        )
        if (next_loop := next(fitting, None)) is None:
            return tuple(reversed(found))
        found.append(next_loop)
        step *= nest.extents[next_loop]


def _sides(nest: Nest, column: int | None) -> tuple[int, int] | None:
    """
    The operand that has rows, and the one that has columns; None if neither order fits.
    """
    if column is None:
        return 0, 1
    having = [n for n in (0, 1) if nest.accesses[n].strides[column]]
    return None if len(having) == 2 else (0, 1) if having == [1] else (1, 0)


def stride_along(
    loops: Sequence[tuple[int, int, int]], extent: int, step: int
) -> int | None:
    """
    The stride of an operand for each `extent` steps of `step` elements of a result, or
    None if it is not constant.

    `loops` has, for each loop of an op that writes each element of the result once, its
    extent, its stride in the result, and its stride in the operand.
    """
    found = expected = None
    while extent > 1:
        loop = next((x for x in loops if x[1] <= step < x[1] * x[0]), None)
        if loop is None or step % loop[1]:
            return None
        here = loop[2] * (step // loop[1])
        if expected is not None and here != expected:
            return None
        found = here if found is None else found
        room = loop[0] * loop[1] // step
        taken = min(extent, room)
        if extent % taken or (taken < extent and loop[0] * loop[1] % step):
            return None
        extent, step, expected = extent // taken, step * taken, here * taken
    return found or 0
