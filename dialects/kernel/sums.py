"""
`SumOp`, the base of `kernel.contract` and `kernel.tile_transform`: stages that sum
products, with what sums start from and what ends them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from itertools import product
from math import prod
from typing import TYPE_CHECKING, ClassVar, Self, TypeAlias

from xdsl.dialects import linalg
from xdsl.dialects.arith import ExtFOp, ExtSIOp, ExtUIOp
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    IntegerType,
    MemRefType,
    f32,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    ParsePropInAttrDict,
    opt_operand_def,
    opt_region_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.body_ops import IndexOp, YieldOp
from penstock.dialects.kernel.interface import (
    Alias,
    StructuredOp,
    element_of,
    listed,
    shape_of,
)
from penstock.dialects.kernel.loops import is_onto
from penstock.dialects.kernel.views import root_of
from penstock.dialects.utils.half_precision import is_half
from penstock.dialects.utils.hints import isa

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder, ScalarsBody
    from penstock.dialects.utils.tensors import Array

Operand: TypeAlias = tuple[SSAValue, AffineMap]
"""A memref or a number, and its index as a function of the loops of an op."""

PARALLEL, REDUCTION = "parallel", "reduction"


class SumOp(StructuredOp):
    """
    A stage that adds products of its first operands, the *factors*. Sums begin with the
    elements of `start`, or with 0. The region ends them: it is given a sum and an
    element of each of `extra`, and yields the element of each result.
    """

    FACTORS: ClassVar[int]
    """The first operands that have maps: those which are multiplied."""

    outs = var_operand_def(MemRefType)
    start = opt_operand_def()
    extra = var_operand_def()
    finish = opt_region_def("single_block")

    irdl_options = (
        AttrSizedOperandSegments(as_property=True),
        ParsePropInAttrDict(),
    )

    traits = traits_def(IsolatedFromAbove())

    @abstractmethod
    def terms(self) -> Sequence[int]:
        """The loops of terms, in order; others that no result has run once."""

    @abstractmethod
    def product(
        self, k: KernelBuilder, factors: Sequence[SSAValue], type: Attribute
    ) -> SSAValue:
        """Build the product of an element of each factor, in a type of sums."""

    # Operands

    def outs_at(self) -> range:
        return range(self.FACTORS, self.FACTORS + len(self.outs))

    @property
    def sum_type(self) -> Attribute:
        """The type that products are summed in."""
        element = element_of(self.outs[0])
        return f32 if is_half(element) else element

    @property
    def held(self) -> SSAValue | None:
        """
        The result that can hold the sums until they are finished, if one can: it is of
        their type, and nothing else is read where it lies.
        """
        places = [root_of(value) for value in self.extra]
        started = [out for out in self.outs if out is self.start]
        for out in (*started, *self.outs):
            is_alone = root_of(out) not in places
            if is_alone and rounds_to(self.sum_type, element_of(out)):
                return out
        return None

    @property
    def are_rounded(self) -> bool:
        """Whether the result that holds the sums has fewer bits than they have."""
        held = self.held
        return held is not None and element_of(held) != self.sum_type

    @property
    def held_at(self) -> int:
        """The number of `held`, or else of the first result, in `accessed`."""
        held = self.held
        return self.FACTORS + (0 if held is None else [*self.outs].index(held))

    @property
    def is_started_by_itself(self) -> bool:
        """Whether sums are added to what the result that holds them has."""
        return self.start is not None and self.start is self.held

    @property
    def start_map(self) -> AffineMap | None:
        """The map of what sums start from."""
        return None if self.start is None else self.maps()[self.outs_at().stop]

    @property
    def extra_maps(self) -> Sequence[AffineMap]:
        """The maps of the operands of the finish."""
        return self.maps()[len(self.operands) - len(self.extra) :]

    def aliases(self) -> Sequence[Alias]:
        types = [value.type for value in self.operands]
        outs = self.outs_at()
        return [
            Alias(number, out - outs.start)
            for number in range(outs.stop, len(self.operands))
            for out in outs
            if self.are_alike(number, out) and types[number] == types[out]
        ]

    def loaded_arguments(self, block: Block) -> Sequence[SSAValue]:
        return block.args[1:]

    def started_from(self, start: Operand | None) -> Self:
        """A copy of the op whose sums start from another operand, or from 0."""
        extra = zip(self.extra, self.extra_maps, strict=True)
        outs = range(len(self.outs))
        return self._remade(start, outs, [*extra], [x.clone() for x in self.regions])

    def without_finish(self, start: Operand | None) -> Self:
        """
        A copy of the op that only stores the sums in the result that holds them, and
        starts them from another operand, or from 0.
        """
        return self._remade(start, [self.held_at - self.FACTORS], [], [])

    def _remade(
        self,
        start: Operand | None,
        outs: Sequence[int],
        extra: Sequence[Operand],
        finish: Sequence[Region],
    ) -> Self:
        maps, first = self.maps(), self.outs_at().start
        others = [*([] if start is None else [start]), *extra]
        chosen = [*maps[:first], *(maps[first + n] for n in outs)]
        chosen += [map for _, map in others]
        op = type(self).__new__(type(self))
        IRDLOperation.__init__(
            op,
            operands=[
                *([value] for value in self.operands[:first]),
                [self.outs[number] for number in outs],
                [] if start is None else [start[0]],
                [value for value, _ in extra],
            ],
            properties={
                **self.properties,
                "indexing_maps": ArrayAttr(map(AffineMapAttr, chosen)),
            },
            regions=[finish],
        )
        op.location = self.location
        return op

    def work_of_finish(self) -> int:
        """The scalar operations of the region for all sums."""
        block = None if self.finish is None else self.finish.block
        after = 0 if block is None else sum(1 for op in block.ops if op.results)
        return after * prod(self._kept_extents())

    def _kept_extents(self) -> list[int]:
        """The trip counts of the loops, 1 for those of terms."""
        pairs = zip(*self.loops(), strict=True)
        return [1 if is_term else extent for extent, is_term in pairs]

    # Rules

    def verify_results(self) -> None:
        """Raise `VerifyException` without a result."""
        if not self.outs:
            raise VerifyException("sums have a result")

    def verify_kept(self) -> None:
        """
        Raise `VerifyException` where what starts or ends a sum changes from term to
        term, or a result has not all of them.
        """
        extents, kept = self.loops().extents, self.loops_of_results()
        outs = self.outs_at()
        for number, map in enumerate(self.maps()[outs.start :], outs.start):
            used = map.used_dims()
            if not used <= kept:
                raise VerifyException(
                    f"operand {number} should not change from term to term, got {map}"
                )
            if number in outs and any(extents[loop] != 1 for loop in kept - used):
                raise VerifyException(
                    f"results are indexed by the same loops, got {map} for one of them"
                )
        self._verify_whole(extents)

    def _verify_whole(self, extents: Sequence[int]) -> None:
        """Raise `VerifyException` if some elements of a result are no sums."""
        for out, number in zip(self.outs, self.outs_at(), strict=True):
            map = self.maps()[number]
            if not is_onto(map, extents, shape_of(out)):
                raise VerifyException(
                    "each element of a result is a sum, got some of "
                    f"{out.type} by {map}"
                )

    def verify_finish(self) -> None:
        """Raise `VerifyException` for a region that does not make the results."""
        results = [element_of(value) for value in self.outs]
        if self.finish is None:
            if self.extra:
                raise VerifyException("operands of finish are read by a region")
            if len(results) > 1 or not rounds_to(self.sum_type, results[0]):
                raise VerifyException(
                    f"without a region there is one result, of {self.sum_type}, got "
                    f"{', '.join(map(str, results))}"
                )
            return
        block = self.finish.block
        wanted = [self.sum_type, *map(element_of, self.extra)]
        if (got := [*block.arg_types]) != wanted:
            raise VerifyException(
                f"the region takes {listed(wanted)}, got {listed(got)}"
            )
        last = block.last_op
        if not isinstance(last, YieldOp):
            raise VerifyException("the region ends in kernel.yield")
        if (got := [value.type for value in last.values]) != results:
            raise VerifyException(
                f"the region yields {listed(results)}, got {listed(got)}"
            )

    # Meaning

    def finished(self, total: Array, operands: Sequence[Array]) -> Sequence[Array]:
        """
        The results, given the sums of products over the loops, where those of terms run
        once.
        """
        import numpy as np

        from penstock.dialects.kernel.evaluation import (
            evaluate_region,
            view_over_loops,
        )

        kept, maps, outs = self._kept_extents(), self.maps(), self.outs_at()
        others = [
            view_over_loops(np.asarray(array), map, kept)
            for array, map in zip(operands[outs.stop :], maps[outs.stop :], strict=True)
        ]
        if self.start is not None:
            with np.errstate(all="ignore"):
                begin = others.pop(0).astype(total.dtype)
                total = np.add(begin, total).astype(total.dtype)
        values: Sequence[Array] = [total]
        if self.finish is not None:
            values = evaluate_region(self.finish.block, [total, *others], kept)
        found: list[Array] = []
        for number, value in zip(outs, values, strict=True):
            result = np.array(operands[number], order="C")
            view = view_over_loops(result, maps[number], kept, writeable=True)
            if 0 not in kept:
                view[...] = value
            found.append(result)
        return found

    # Loops of upstream ops

    def build_loops(self, k: KernelBuilder) -> None:
        if self.are_rounded or self.held is None:
            self.build_elements(k)
            return
        self.build_start(k)
        self.build_sums(k)
        self.build_finish(k)

    def build_start(self, k: KernelBuilder) -> None:
        """A stage that writes what sums start from to the result that holds them."""
        out, start, map = self._holder, self.start, self.start_map
        if start is out:
            return
        if start is None or map is None:
            k.fill(out, 0)
        elif not isinstance(start.type, MemRefType):
            k.effect(linalg.ops.FillOp([start], [out], res=()))
        else:

            def body(
                k: KernelBuilder, scalars: Sequence[SSAValue]
            ) -> Sequence[SSAValue]:
                return [extended(k, scalars[0], scalars[1].type)]

            self._elementwise(k, [(start, map)], [self.held_at], body)

    def build_sums(self, k: KernelBuilder) -> None:
        """A stage that adds the products to the result that holds the sums."""
        reductions = self.loops().reductions
        iterators = [REDUCTION if is_term else PARALLEL for is_term in reductions]
        all_maps = self.maps()
        maps = [*all_maps[: self.FACTORS], all_maps[self.held_at]]
        factors = self.operands[: self.FACTORS]
        out = self._holder

        def body(k: KernelBuilder, scalars: Sequence[SSAValue]) -> SSAValue:
            *elements, total = scalars
            return k.add(total, self.product(k, elements, total.type))

        k.generic(factors, out, maps, iterators, body)

    def numbered_loops(self) -> Collection[int]:
        return self.loops_of_results()

    def build_finish(self, k: KernelBuilder) -> None:
        """A stage that makes the elements of the results of the sums."""
        finish = self.finish
        if finish is None:
            return
        loops, count = self._loops_in_order(), len(self.extra)
        held = count + self.held_at - self.FACTORS

        def body(k: KernelBuilder, scalars: Sequence[SSAValue]) -> Sequence[SSAValue]:
            total = extended(k, scalars[held], self.sum_type)
            made = index_by(
                lambda k, loop: k.insert(linalg.ops.IndexOp(loops.index(loop)))
            )
            return k.inline(finish.block, [total, *scalars[:count]], made)

        pairs = zip(self.extra, self.extra_maps, strict=True)
        self._elementwise(k, [*pairs], self.outs_at(), body)

    @property
    def _holder(self) -> SSAValue:
        held = self.held
        assert held is not None, "asked of sums that a result can hold"
        return held

    def _loops_in_order(self) -> list[int]:
        """The loops that are no terms, in the order in which the result has them."""
        first = [
            expr.position
            for expr in self.maps()[self.FACTORS].results
            if isinstance(expr, AffineDimExpr)
        ]
        first = [*dict.fromkeys(first)]
        return [*first, *sorted(self.loops_of_results() - {*first})]

    def _elementwise(
        self,
        k: KernelBuilder,
        operands: Sequence[Operand],
        outs: Sequence[int],
        body: ScalarsBody,
    ) -> None:
        """
        A stage on each element of some results, by their numbers, of operands with maps
        of the loops.
        """
        loops, maps = self._loops_in_order(), self.maps()
        exprs: list[AffineExpr] = [AffineExpr.constant(0)] * maps[0].num_dims
        for at, loop in enumerate(loops):
            exprs[loop] = AffineExpr.dimension(at)
        chosen = [*(map for _, map in operands), *(maps[number] for number in outs)]
        k.generic_of(
            [value for value, _ in operands],
            [self.operands[number] for number in outs],
            [map.replace_dims_and_symbols(exprs, [], len(loops), 0) for map in chosen],
            [PARALLEL] * len(loops),
            body,
        )

    def build_elements(self, k: KernelBuilder, is_unrolled: bool = False) -> None:
        """
        A stage with a turn for each sum, which is in a register while its terms are
        added, one after the other in the code if they are unrolled, or in loops.
        """
        extents = self.loops().extents
        kept, terms = self._loops_in_order(), self.terms()
        once = [x for x in range(len(extents)) if x not in kept and x not in terms]
        maps, outs = self.maps(), self.outs_at()

        def stage(k: KernelBuilder, places: Sequence[SSAValue]) -> None:
            at = dict(zip(kept, places, strict=True))
            at |= {loop: k.index(0) for loop in once}

            def element(number: int) -> SSAValue:
                value = self.operands[number]
                if not isinstance(value.type, MemRefType):
                    return value
                return k.load(value, k.indices(maps[number], at))

            def step(
                k: KernelBuilder, turns: Sequence[SSAValue], total: SSAValue
            ) -> SSAValue:
                inside = {**at, **dict(zip(terms, turns, strict=True))}
                factors = [
                    k.load(value, k.indices(map, inside))
                    for value, map in zip(
                        self.operands[: outs.start], maps, strict=False
                    )
                ]
                term = self.product(k, factors, total.type)
                is_float = isinstance(total.type, AnyFloat)
                return (k.add_term if is_float else k.add)(total, term)

            others = [
                element(number) for number in range(outs.stop, len(self.operands))
            ]
            init = k.constant(0, self.sum_type)
            if self.start is not None:
                init = extended(k, others.pop(0), self.sum_type)
            if is_unrolled:
                total = init
                for turns in product(*(range(extents[loop]) for loop in terms)):
                    total = step(k, [k.index(turn) for turn in turns], total)
            else:
                bounds = [(k.index(0), k.index(extents[loop])) for loop in terms]
                total = k.accumulate(bounds, init, step)
            values: Sequence[SSAValue] = [total]
            if self.finish is not None:
                made = index_by(lambda _, loop: at[loop])
                values = k.inline(self.finish.block, [total, *others], made)
            for number, value in zip(outs, values, strict=True):
                k.store(value, self.operands[number], k.indices(maps[number], at))

        k.parallel([extents[loop] for loop in kept], stage)


def can_hold(total: Attribute, element: Attribute) -> bool:
    """Whether sums of one type can be of numbers of another."""
    if isinstance(total, AnyFloat) and isinstance(element, AnyFloat):
        return total == element or total.bitwidth > element.bitwidth
    if not isa(total, IntegerType) or not isa(element, IntegerType):
        return False
    return total.width.data >= element.width.data


def rounds_to(total: Attribute, element: Attribute) -> bool:
    """Whether elements of a type hold sums, which halves round."""
    return element == total or (total == f32 and is_half(element))


def extended(
    k: KernelBuilder, value: SSAValue, type: Attribute, unsigned: bool = False
) -> SSAValue:
    """A number as one of a type of its kind that may have more bits."""
    if value.type == type or is_half(type):
        return value
    if isinstance(type, AnyFloat):
        return k.insert(ExtFOp(value, type))
    assert isa(type, IntegerType), "numbers are floats or integers"
    extension = ExtUIOp if unsigned else ExtSIOp
    return k.insert(extension(value, type))


def index_by(
    made: Callable[[KernelBuilder, int], SSAValue],
) -> Callable[[KernelBuilder, Operation], SSAValue | None]:
    """The results of `kernel.index` in a region, given the index of each loop."""

    def special(k: KernelBuilder, op: Operation) -> SSAValue | None:
        return made(k, op.loop.value.data) if isinstance(op, IndexOp) else None

    return special
