"""
The accesses of a kernel that are proven to lie inside of their memrefs, for all
contents.

An access is proven if each of its indices is one of the dimension's by the facts that
hold where it stands: constants, the bounds of loops around it, and the conditions of
`scf.if` and `cf.assert` before it in the same blocks
(`penstock.lowering.analysis.index_values` has the rules). A `linalg` op is, if the map
of each operand stays inside for all turns of its loops. Views have as many elements as
their sources. Other ops on memrefs are not proven.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from xdsl.dialects import cf, memref, scf
from xdsl.dialects.builtin import MemRefType, NoneAttr
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Block, Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineMap

from penstock.dialects.kernel.interface import StructuredOp
from penstock.dialects.kernel.loops import extents_of, is_linear, reach_of
from penstock.dialects.kernel.views import PaddedOp
from penstock.dialects.launch import KernelOp
from penstock.dialects.utils.hints import isa
from penstock.lowering.analysis.index_ranges import Bound, Interval, Linear
from penstock.lowering.analysis.index_values import IndexValues, interval_of

MAX_ROUNDS = 3
"""
The number of times that a loop is looked at; carried values may be any number after
that.
"""
MAX_LOOPS = 5
"""The number of loops, one inside the other, in which that is tried."""


def unproven_accesses(kernel: KernelOp) -> list[Operation]:
    """The ops of a kernel that are not proven to stay inside of their memrefs."""
    walk = _Walk()
    walk.block(kernel.body.block)
    return walk.unproven


class _Walk:
    """Walks a kernel in the order of the text."""

    def __init__(self) -> None:
        self.unproven: list[Operation] = []
        self._values = IndexValues()
        self._loops = 0

    def block(self, block: Block) -> None:
        """Look at the ops of a block."""
        for op in block.ops:
            self._visit(op)

    def _visit(self, op: Operation) -> None:
        match op:
            case memref.LoadOp() | memref.StoreOp():
                self._demand(op, self._is_inside(op.memref, op.indices))
            case memref.CollapseShapeOp() | memref.ExpandShapeOp():
                self._demand(op, _is_view(op.operands[0], op.result))
            case memref.CopyOp():
                self._demand(op, _is_view(op.source, op.destination))
            case PaddedOp() | scf.YieldOp() | scf.ReduceOp():
                # The verifier sees to it that padding lies around what there is.
                pass
            case StructuredOp():
                # So it does for the maps of structured ops.
                self._demand(op, _touches_no_memory(op))
            case LinalgStructuredOperation():
                self._demand(op, _is_computation(op))
            case scf.ForOp() if _is_regular(op):
                self._for(op)
            case scf.ParallelOp() if not op.initVals:
                self._parallel(op)
            case scf.IfOp() if _is_complete(op):
                self._if(op)
            case cf.AssertOp():
                self._values.assume(op.arg)
            case _:
                touches = any(isinstance(x.type, MemRefType) for x in op.operands)
                makes = any(isinstance(x.type, MemRefType) for x in op.results)
                self._demand(op, not (touches or makes or op.regions))
                self._values.define(op)

    def _demand(self, op: Operation, holds: bool) -> None:
        if not holds:
            self.unproven.append(op)

    def _is_inside(self, buffer: SSAValue, indices: Sequence[SSAValue]) -> bool:
        extents = _extents(buffer)
        if extents is None or len(extents) != len(indices):
            return False
        return all(
            Interval(0, extent - 1).has(self._values.interval(index))
            for index, extent in zip(indices, extents, strict=True)
        )

    # Regions

    def _turn(self, block: Block) -> Sequence[SSAValue]:
        """Look at the block of a loop or a condition; the values that it passes on."""
        self._loops += 1
        self.block(block)
        self._loops -= 1
        return () if block.last_op is None else block.last_op.operands

    def _if(self, op: scf.IfOp) -> None:
        found: dict[SSAValue, Interval] = {}
        for region, holds in ((op.true_region, True), (op.false_region, False)):
            with self._values.ranges.scope():
                self._values.assume(op.cond, holds)
                for block in region.blocks:
                    self._join(found, op.results, self._turn(block))
        self._set_all(found)

    def _parallel(self, op: scf.ParallelOp) -> None:
        bounds = zip(op.lowerBound, op.upperBound, op.step, strict=True)
        with self._values.ranges.scope():
            runs = [
                self._enter(variable, *ends)
                for variable, ends in zip(op.body.block.args, bounds, strict=True)
            ]
            if all(runs):
                self._turn(op.body.block)

    def _for(self, op: scf.ForOp) -> None:
        carried: dict[SSAValue, Interval] = {}
        variable, *arguments = op.body.block.args
        self._join(carried, arguments, op.iter_args)
        with self._values.ranges.scope():
            runs = self._enter(variable, op.lb, op.ub, op.step)
        if runs and carried:
            self._settle(op, carried)
        if runs:
            with self._values.ranges.scope():
                self._enter(variable, op.lb, op.ub, op.step)
                self._set_all(carried)
                self._turn(op.body.block)
        for argument, result in zip(arguments, op.results, strict=True):
            if argument in carried:
                self._values.set_within(result, carried[argument])

    def _settle(self, op: scf.ForOp, carried: dict[SSAValue, Interval]) -> None:
        """Widen what a loop carries until a turn of it adds no more."""
        variable, *arguments = op.body.block.args
        for _ in range(MAX_ROUNDS if self._loops < MAX_LOOPS else 0):
            before = dict(carried)
            with self._values.ranges.scope(), self._not_demanding():
                self._enter(variable, op.lb, op.ub, op.step)
                self._set_all(carried)
                self._join(carried, arguments, self._turn(op.body.block))
            if carried == before:
                return
        for value in carried:
            limits = interval_of(value.type)
            assert limits is not None, "only integers are carried here"
            carried[value] = limits

    @contextmanager
    def _not_demanding(self) -> Generator[None]:
        """A look at ops that will be looked at again."""
        count = len(self.unproven)
        yield
        del self.unproven[count:]

    def _enter(
        self, variable: SSAValue, lower: SSAValue, upper: SSAValue, step: SSAValue
    ) -> bool:
        """Begin a turn of a loop; whether there can be one."""
        values, ranges = self._values, self._values.ranges
        if values.interval(step).low < 1:
            # A loop that runs down, or for ever.
            values.set_within(variable, _limits(variable))
            return True
        first, end = values.form(lower), values.form(upper)
        if ranges.high(end.minus(first)) < 1:
            return False
        ranges.assume_at_least(end.minus(first), 1)
        last = end.minus(Linear((), 1))
        interval = Interval(ranges.low(first), ranges.high(last))
        atom = ranges.atom(interval, [Bound(last)], [Bound(first)])
        values.set(variable, atom)
        return True

    def _join(
        self,
        found: dict[SSAValue, Interval],
        values: Sequence[SSAValue],
        passed: Sequence[SSAValue],
    ) -> None:
        """Let integers be what is passed on to them, besides what they may be."""
        for value, given in zip(values, passed, strict=True):
            if interval_of(value.type) is not None:
                interval = self._values.interval(given)
                found[value] = interval.joined(found.get(value, interval))

    def _set_all(self, found: dict[SSAValue, Interval]) -> None:
        for value, interval in found.items():
            self._values.set_within(value, interval)


def _limits(value: SSAValue) -> Interval:
    limits = interval_of(value.type)
    assert limits is not None, "loops count integers"
    return limits


# Well-formed loops --------------------------------------------------------------------


def _is_regular(op: scf.ForOp) -> bool:
    """Whether a loop counts integers, and carries as many values everywhere."""
    last, block = op.body.block.last_op, op.body.block
    count = len(op.iter_args)
    return (
        interval_of(op.lb.type) is not None
        and isinstance(last, scf.YieldOp)
        and (len(block.args) - 1, len(last.operands)) == (count, count)
    )


def _is_complete(op: scf.IfOp) -> bool:
    """Whether all results of a condition come from both sides."""
    regions = [region for region in op.regions if region.blocks]
    lasts = [region.block.last_op for region in regions]
    counts = {0 if last is None else len(last.operands) for last in lasts}
    return counts == {len(op.results)} and (len(regions) == 2 or not op.results)


# Shapes ------------------------------------------------------------------------------


def _extents(value: SSAValue) -> tuple[int, ...] | None:
    """The extents of a memref whose elements lie one after the other, if they do."""
    type = value.type
    if not isa(type, MemRefType) or not isinstance(type.layout, NoneAttr):
        return None
    return type.get_shape() if type.has_static_shape() else None


def _is_view(source: SSAValue, result: SSAValue) -> bool:
    """Whether two memrefs have as many elements, of one type."""
    if _extents(source) is None or _extents(result) is None:
        return False
    types = source.type, result.type
    assert isa(types[0], MemRefType), "it has extents"
    assert isa(types[1], MemRefType), "it has extents"
    counts = {type.element_count() for type in types if isa(type, MemRefType)}
    return len(counts) == 1 and types[0].element_type == types[1].element_type


def _touches_no_memory(op: Operation) -> bool:
    """Whether nothing in the regions of an op has a memref as operand."""
    inner = (x for region in op.regions for y in region.walk() for x in y.operands)
    return not any(isinstance(value.type, MemRefType) for value in inner)


def _is_computation(op: LinalgStructuredOperation) -> bool:
    """Whether a `linalg` op stays inside, and does so by its maps alone."""
    if not _touches_no_memory(op):
        return False
    shapes: list[tuple[int, ...]] = []
    for value in op.operands:
        extents = _extents(value) if isinstance(value.type, MemRefType) else ()
        if extents is None:
            return False
        shapes.append(extents)
    maps = [attribute.data for attribute in op.get_indexing_maps()]
    if not _are_for(maps, shapes):
        return False
    loops = extents_of(maps, shapes)
    return 0 in loops or all(
        _is_map_inside(map, loops, shape)
        for map, shape in zip(maps, shapes, strict=True)
    )


def _are_for(maps: Sequence[AffineMap], shapes: Sequence[tuple[int, ...]]) -> bool:
    """Whether maps are for these shapes, and say how often each loop runs."""
    ranks = [(len(map.results), map.num_dims, map.num_symbols) for map in maps]
    loops = maps[0].num_dims if maps else 0
    alone = (x for map in maps for x in map.results if isinstance(x, AffineDimExpr))
    return ranks == [(len(shape), loops, 0) for shape in shapes] and {
        expr.position for expr in alone
    } == {*range(loops)}


def _is_map_inside(map: AffineMap, loops: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether a map stays inside of a shape for all turns of loops."""
    if not all(is_linear(expr) for expr in map.results):
        return False
    low, high = reach_of(map, loops)
    return all(
        least >= 0 and most < extent
        for least, most, extent in zip(low, high, shape, strict=True)
    )
