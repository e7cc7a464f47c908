"""
`StructuredOp`: the interface of the stages of a kernel that say their meaning.

An op is defined in one place: its operands by role, the maps by which its loops index
them, its NumPy meaning, and the loops of upstream ops that compute the same. Passes,
analyses and the printers of all targets ask it for nothing else. A map is a sum of
multiples of loops for each dimension; a loop that a map of `outs` has is parallel, any
other one is reduced, unless the op says otherwise.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from math import prod
from typing import TYPE_CHECKING, NamedTuple, cast

from xdsl.dialects.builtin import AffineMapAttr, ArrayAttr, MemRefType, NoneAttr
from xdsl.ir import Attribute, Block, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap
from xdsl.irdl import IRDLOperation, traits_def
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.loops import (
    Access,
    Nest,
    access_of,
    extents_of,
    is_linear,
    reach_of,
)
from penstock.dialects.kernel.views import MayReadPadded, PaddedOp, root_of
from penstock.dialects.utils.attributes import KnownAttributes
from penstock.dialects.utils.half_precision import ScalarRegions
from penstock.dialects.utils.hints import isa

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array

SCHEDULE = "schedule"
"""The attribute of a stage that says how a target computes it."""

REFUSAL = "no_schedule"
"""The attribute of a stage that says why it has no schedule, a text."""

NO_FINISH = "no_finish"
"""The attribute of a stage that says why what follows it is not its finish, a text."""


class How(Enum):
    """The kind of access of an op to a memref."""

    READ = "read"
    WRITE = "write"


class Effect(NamedTuple):
    """
    The access of an op to one of its operands, and the number of elements that it
    writes; `None` stands for all.
    """

    value: SSAValue
    how: How
    elements: int | None = None


class Loops(NamedTuple):
    """The trip count of each loop of an op, and whether it is reduced."""

    extents: tuple[int, ...]
    reductions: tuple[bool, ...]


class Alias(NamedTuple):
    """
    An operand, by its number among those with maps, and a result, by its number, that
    may be one memref.
    """

    operand: int
    out: int


class StructuredOp(IRDLOperation, ScalarRegions, ABC):
    """
    A stage of a kernel that is one op: it writes its results, which are operands too.
    Operands are dense memrefs of static shape, or views of them.
    """

    traits = traits_def(KnownAttributes(SCHEDULE, REFUSAL, NO_FINISH), MayReadPadded())

    # Given by each op

    @abstractmethod
    def outs_at(self) -> range:
        """The numbers of the operands that are results, among those with maps."""

    @abstractmethod
    def roles(self) -> Mapping[str, Sequence[int]]:
        """The loops, by their numbers, that play each role, such as `row` or `term`."""

    @abstractmethod
    def work(self) -> int:
        """The scalar operations of all its elements, a multiply-add as two."""

    @abstractmethod
    def evaluate(self, *operands: Array) -> Sequence[Array]:
        """
        The results as NumPy computes them of one array an operand, in the order of
        operands and with the dtypes of the memrefs' elements. The arrays of results are
        their elements before; none is changed.
        """

    @abstractmethod
    def build_loops(self, k: KernelBuilder) -> None:
        """Build stages of upstream ops that write the same, on the same operands."""

    def verify_structure(self) -> None:
        """Raise `VerifyException` where its operands do not fit its own rules."""

    def accessed(self) -> Sequence[SSAValue]:
        """The operands that have maps, in the order of these: by default all."""
        return self.operands

    def written(self) -> Sequence[SSAValue]:
        """The memrefs that it writes: its results, in order."""
        values = self.accessed()
        return [values[number] for number in self.outs_at()]

    def maps(self) -> Sequence[AffineMap]:
        """The index of each of `accessed` as a function of the loops."""
        maps = self.properties["indexing_maps"]
        # The constraints have checked it, and passes ask for maps all the time.
        return [each.data for each in cast("ArrayAttr[AffineMapAttr]", maps)]

    def loaded_arguments(self, block: Block) -> Sequence[SSAValue]:
        return block.args

    def stored_values(self) -> Sequence[SSAValue]:
        return self.written()

    def aliases(self) -> Sequence[Alias]:
        """
        The operands and results that may be one memref, besides the memrefs of sums
        that start from their result.
        """
        return ()

    def numbered_loops(self) -> Collection[int]:
        """The loops of which its region may ask the turn: by default all."""
        return range(self.maps()[0].num_dims)

    def loops_in_code(self) -> Collection[int]:
        """
        The loops whose extents and strides are in the code of a kernel, whatever
        computes it: by default none. Those of its schedule come on top
        (`lowering/codegen/body/numbers.py`).
        """
        return ()

    def failures(self) -> Sequence[str]:
        """
        The texts of the errors that it may end in, in the order in which its loops
        check for them (`cf.assert`).
        """
        return ()

    # Derived

    def loops(self) -> Loops:
        """The loops of the maps."""
        maps = self.maps()
        shapes = [shape_of(value) for value in self.accessed()]
        kept = self.loops_of_results()
        count = maps[0].num_dims
        return Loops(
            tuple(extents_of(maps, shapes)),
            tuple(loop not in kept for loop in range(count)),
        )

    def loops_of_results(self) -> set[int]:
        """The loops that its results have."""
        maps = self.maps()
        return {loop for number in self.outs_at() for loop in maps[number].used_dims()}

    def accesses(self) -> Sequence[Access]:
        """The access to each of `accessed`, by the loops."""
        pairs = zip(self.accessed(), self.maps(), strict=True)
        return [linear_access(value, map) for value, map in pairs]

    def are_alike(self, first: int, second: int) -> bool:
        """
        Whether two of `accessed`, by their numbers, that are one memref would be
        accessed at the same element in each turn of the loops. A loop that runs once
        leads nowhere.
        """
        values, maps = self.accessed(), self.maps()
        if maps[first] == maps[second]:
            # The loops lead the same way through memrefs of one shape.
            memrefs = values[first], values[second]
            is_padded = any(isinstance(each.owner, PaddedOp) for each in memrefs)
            if not is_padded and shape_of(memrefs[0]) == shape_of(memrefs[1]):
                return True
        extents = self.loops().extents
        found = [
            (
                access.offset,
                access.bounds,
                [n for n, run in zip(access.strides, extents, strict=True) if run != 1],
            )
            for access in (linear_access(values[n], maps[n]) for n in (first, second))
        ]
        return found[0] == found[1]

    def nest(self, operands: Sequence[int] | None = None) -> Nest:
        """
        The loops with the accesses of some of `accessed`, by their numbers; by default
        of all, in their order.
        """
        extents, reductions = self.loops()
        accesses = self.accesses()
        chosen = range(len(accesses)) if operands is None else operands
        return Nest(extents, reductions, tuple(accesses[n] for n in chosen))

    def effects(self) -> Iterator[Effect]:
        """Its accesses to memrefs, reads first."""
        outs, values, maps = self.outs_at(), self.accessed(), self.maps()
        for number, value in enumerate(values):
            if number not in outs and isinstance(value.type, MemRefType):
                yield Effect(value, How.READ)
        extents = self.loops().extents
        for number in outs:
            count = prod(extents[loop] for loop in maps[number].used_dims())
            yield Effect(values[number], How.WRITE, count)

    def verify_(self) -> None:
        for value in self.operands:
            if isa(value.type, MemRefType):
                verify_buffer(value.type)
        verify_maps(self)
        self.verify_structure()
        verify_places(self)


def listed(types: Iterable[Attribute]) -> str:
    """Types as a part of a message."""
    return ", ".join(map(str, types)) or "nothing"


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The shape of a memref; that of a scalar has no dimensions."""
    return value.type.get_shape() if isa(value.type, MemRefType) else ()


def element_of(value: SSAValue) -> Attribute:
    """The type of the elements of a memref; a scalar is its own only one."""
    return value.type.element_type if isa(value.type, MemRefType) else value.type


def linear_access(value: SSAValue, map: AffineMap) -> Access:
    """The access to an operand by a map that the verifier has found to be linear."""
    owner = value.owner
    if isinstance(owner, PaddedOp):
        access = access_of(map, owner.shape, owner.pads, owner.number)
    else:
        access = access_of(map, shape_of(value))
    assert access is not None, "checked by the verifier"
    return access


def verify_buffer(type: MemRefType) -> None:
    """Raise `VerifyException` for a memref that is not dense, or of no static shape."""
    if not isinstance(type.layout, NoneAttr) or not type.has_static_shape():
        raise VerifyException(
            f"a stage of a kernel works on dense memrefs of static shape, got {type}"
        )


def verify_maps(op: StructuredOp) -> None:
    """Raise `VerifyException` where maps are not those of the operands."""
    maps, values = op.maps(), op.accessed()
    if len(maps) != len(values):
        raise VerifyException(
            f"there are {len(values)} operands to index, got {len(maps)} maps"
        )
    shapes = [shape_of(value) for value in values]
    for number, (map, shape) in enumerate(zip(maps, shapes, strict=True)):
        if (map.num_dims, map.num_symbols) != (maps[0].num_dims, 0):
            raise VerifyException(
                f"all maps are functions of the same loops, got {maps[0]} and {map}"
            )
        if len(map.results) != len(shape):
            raise VerifyException(
                f"map {number} should have {len(shape)} results, one a dimension of "
                f"{values[number].type}, got {map}"
            )
        if not all(is_linear(expr) for expr in map.results):
            raise VerifyException(
                f"maps are sums of multiples of loops and numbers, got {map}"
            )
    _verify_reach(op, maps, shapes)
    _verify_written_once(op, maps)


def _verify_reach(
    op: StructuredOp, maps: Sequence[AffineMap], shapes: Sequence[tuple[int, ...]]
) -> None:
    alone = {
        expr.position
        for map in maps
        for expr in map.results
        if isinstance(expr, AffineDimExpr)
    }
    for loop in range(maps[0].num_dims if maps else 0):
        if loop not in alone:
            raise VerifyException(
                f"no operand says how often loop {loop} runs: none is indexed by it "
                "alone"
            )
    extents = extents_of(maps, shapes) if maps else []
    if 0 in extents:
        return
    for number, (map, shape) in enumerate(zip(maps, shapes, strict=True)):
        low, high = reach_of(map, extents)
        if any(a < 0 or b >= n for a, b, n in zip(low, high, shape, strict=True)):
            raise VerifyException(
                f"{op.accessed()[number].type} is indexed from {low} to {high} by {map}"
            )


def _verify_written_once(op: StructuredOp, maps: Sequence[AffineMap]) -> None:
    """Raise `VerifyException` where an element of a result is written twice."""
    for map in (maps[number] for number in op.outs_at()):
        loops = [sorted(expr.used_dims()) for expr in map.results]
        used = [loop for each in loops for loop in each]
        is_once = len(set(used)) == len(used) and all(len(each) < 2 for each in loops)
        if not (is_once and _steps_up(map)):
            raise VerifyException(
                "each dimension of a result is indexed by a loop of its own, or by a "
                f"number, got {map}"
            )


def _steps_up(map: AffineMap) -> bool:
    """Whether each loop of a map leads to larger indices."""
    first = map.eval([0] * map.num_dims, [])
    units = (
        [int(at == loop) for at in range(map.num_dims)] for loop in map.used_dims()
    )
    return all(sum(map.eval(unit, [])) > sum(first) for unit in units)


def verify_places(op: StructuredOp) -> None:
    """Raise `VerifyException` where a result is an operand that it must not be."""
    if any(isinstance(value.owner, PaddedOp) for value in op.written()):
        raise VerifyException("a result must not be padded")
    written = [root_of(value) for value in op.written()]
    if len({*written}) < len(written):
        raise VerifyException("each result is a memref of its own")
    outs = op.outs_at()
    shared = [
        Alias(number, written.index(root))
        for number, value in enumerate(op.accessed())
        if number not in outs and (root := root_of(value)) in written
    ]
    # Which operands may lie where results do takes finding out how the op is computed.
    allowed = op.aliases() if shared else ()
    for alias in shared:
        if alias not in allowed:
            raise VerifyException(
                f"operand {alias.operand} must not lie where result {alias.out} does, "
                "which is written before all of it is read"
            )
