"""
The builder of kernel bodies: structured ops of the kernel dialect, and upstream ops on
memrefs, of the linalg, scf, memref, arith and math dialects.

The body of a kernel is a list of *stages*, run one after the other: structured ops
(`penstock.dialects.kernel.interface`), `linalg.fill`, `linalg.generic`, `memref.copy`,
or `scf.parallel` around scalar loops. Within a stage
the elements (the iterations of parallel loops) are independent, so a device may run
them at once. A kernel has no memory of its own. Between stages stand constants and
views: `memref.collapse_shape`, `memref.expand_shape`, and `kernel.padded`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Protocol, TypeAlias

from xdsl.builder import Builder
from xdsl.dialects import arith, cf, math, memref, scf
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IndexType,
    IntegerAttr,
    IntegerType,
    MemRefType,
    TensorType,
    f32,
    i1,
    i64,
)
from xdsl.dialects.linalg.attrs import IteratorType, IteratorTypeAttr
from xdsl.dialects.linalg.ops import FillOp, GenericOp, YieldOp
from xdsl.dialects.utils.fast_math import FastMathFlag
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import (
    AffineBinaryOpExpr,
    AffineBinaryOpKind,
    AffineConstantExpr,
    AffineDimExpr,
    AffineExpr,
    AffineMap,
)
from xdsl.rewriter import InsertPoint

from penstock.dialects.kernel.views import PaddedOp
from penstock.dialects.utils.half_precision import compute_in_f32, is_half
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.signless import drop_signs, is_unsigned

_INDEX = IndexType()


@lru_cache(1 << 10)
def _index(value: int) -> IntegerAttr[IndexType]:
    """The attribute of an index; kernels have the same ones over and over."""
    return IntegerAttr(value, _INDEX)


PARALLEL = "parallel"
REDUCTION = "reduction"

ScalarOp: TypeAlias = "Callable[..., Operation] | str"
"""The class of a scalar op, or the name of a method of the builder that makes one."""

ScalarBody: TypeAlias = "Callable[[KernelBuilder, Sequence[SSAValue]], SSAValue]"
"""Builds scalar ops from scalars; the value returned is the element written."""


ScalarsBody: TypeAlias = (
    "Callable[[KernelBuilder, Sequence[SSAValue]], Sequence[SSAValue]]"
)
"""Builds scalar ops from scalars; the values returned are the elements written."""


class KernelBuilder:
    """
    Builds ops at one place of a kernel's body.

    Loops and stages take a function that is given a builder for their inside.
    """

    def __init__(self, insertion_point: InsertPoint):
        self._builder = Builder(insertion_point)

    def insert(self, op: Operation) -> SSAValue:
        """Insert an op with one result and return that result."""
        self._builder.insert(op)
        return op.results[0]

    def apply(self, scalar: ScalarOp, *operands: SSAValue) -> SSAValue:
        """Insert the scalar op of a class, or call the method of this name."""
        if isinstance(scalar, str):
            return getattr(self, scalar)(*operands)
        return self.insert(scalar(*operands))

    def effect(self, op: Operation) -> None:
        """Insert an op that has no result."""
        self._builder.insert(op)

    # Scalars

    def constant(self, value: float, type: Attribute) -> SSAValue:
        """A number of a float, integer, boolean or index type."""
        if isinstance(type, AnyFloat):
            # A number that is computed in f32 has all of the number's.
            number = FloatAttr(float(value), f32 if is_half(type) else type)
            properties = {"value": number}
            return self.insert(
                arith.ConstantOp.create(properties=properties, result_types=[type])
            )
        if isinstance(type, IndexType):
            return self.index(int(value))
        assert isa(type, IntegerType), f"there are no constants of type {type}"
        return self.insert(arith.ConstantOp(IntegerAttr(int(value), type)))

    def index(self, value: int) -> SSAValue:
        """An index constant."""
        properties = {"value": _index(value)}
        return self.insert(
            arith.ConstantOp.create(properties=properties, result_types=[_INDEX])
        )

    def compare(self, predicate: str, a: SSAValue, b: SSAValue) -> SSAValue:
        """
        Whether `a` and `b` stand in the relation `eq`, `ne`, `lt`, `le`, `gt` or `ge`.

        Integers have a sign unless their type says no; with a NaN only `ne` holds.
        """
        if isinstance(a.type, AnyFloat):
            prefix = "u" if predicate == "ne" else "o"
            return self.insert(arith.CmpfOp(a, b, prefix + predicate))
        if predicate in ("eq", "ne"):
            return self.insert(arith.CmpiOp(a, b, predicate))
        prefix = "u" if is_unsigned(a.type) else "s"
        return self.insert(arith.CmpiOp(a, b, prefix + predicate))

    def select(self, condition: SSAValue, a: SSAValue, b: SSAValue) -> SSAValue:
        """`a` where the condition holds, else `b`."""
        return self.insert(arith.SelectOp(condition, a, b))

    def add(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The sum of two numbers of one type."""
        if isinstance(a.type, AnyFloat):
            return self.insert(arith.AddfOp(a, b))
        return self.insert(arith.AddiOp(a, b))

    def add_term(self, total: SSAValue, term: SSAValue) -> SSAValue:
        """
        A running sum of floats and one more term. The terms of the sum may be added in
        another order, so that several are added at once.
        """
        flags = FastMathFlagsAttr([FastMathFlag.REASSOC])
        return self.insert(arith.AddfOp(total, term, flags))

    def mul_factor(self, product: SSAValue, factor: SSAValue) -> SSAValue:
        """
        A running product of floats and one more factor; factors may be taken in another
        order.
        """
        flags = FastMathFlagsAttr([FastMathFlag.REASSOC])
        return self.insert(arith.MulfOp(product, factor, flags))

    def sub(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The difference of two numbers of one type."""
        if isinstance(a.type, AnyFloat):
            return self.insert(arith.SubfOp(a, b))
        return self.insert(arith.SubiOp(a, b))

    def mul(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The product of two numbers of one type."""
        if isinstance(a.type, AnyFloat):
            return self.insert(arith.MulfOp(a, b))
        return self.insert(arith.MuliOp(a, b))

    def div(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The quotient of two floats, or of two integers rounded toward zero."""
        if isinstance(a.type, AnyFloat):
            return self.insert(arith.DivfOp(a, b))
        divide = arith.DivUIOp if is_unsigned(a.type) else arith.DivSIOp
        return self.insert(divide(a, b))

    def maximum(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The larger of two numbers; a NaN if either is one; `or` of booleans."""
        if isinstance(a.type, AnyFloat):
            return self.insert(arith.MaximumfOp(a, b))
        choose = arith.MaxUIOp if is_unsigned(a.type) else arith.MaxSIOp
        return self.insert((arith.OrIOp if a.type == i1 else choose)(a, b))

    def larger(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The larger of two floats; the other one if one is a NaN."""
        return self.insert(arith.MaxnumfOp(a, b))

    def minimum(self, a: SSAValue, b: SSAValue) -> SSAValue:
        """The smaller of two numbers; a NaN if either is one; `and` of booleans."""
        if isinstance(a.type, AnyFloat):
            return self.insert(arith.MinimumfOp(a, b))
        choose = arith.MinUIOp if is_unsigned(a.type) else arith.MinSIOp
        return self.insert((arith.AndIOp if a.type == i1 else choose)(a, b))

    def exp(self, value: SSAValue) -> SSAValue:
        """e to the power of a float."""
        return self.insert(math.ExpOp(value))

    def log(self, value: SSAValue) -> SSAValue:
        """The natural logarithm of a float."""
        return self.insert(math.LogOp(value))

    def sqrt(self, value: SSAValue) -> SSAValue:
        """The square root of a float."""
        return self.insert(math.SqrtOp(value))

    def index_to_float(self, value: SSAValue, type: Attribute) -> SSAValue:
        """An index as a float of the type."""
        assert isinstance(type, AnyFloat), f"{type} is no type of floats"
        integer = self.insert(arith.IndexCastOp(value, i64))
        return self.insert(arith.SIToFPOp(integer, type))

    def check(self, condition: SSAValue, message: str) -> None:
        """Stop the kernel with an error of this text unless the condition holds."""
        self.effect(cf.AssertOp(condition, message))

    def inline(
        self,
        block: Block,
        arguments: Sequence[SSAValue | Callable[[], SSAValue]],
        special: Callable[[KernelBuilder, Operation], SSAValue | None] | None = None,
    ) -> Sequence[SSAValue]:
        """
        Copies of the ops of a block up to its terminator; the values that this one
        passes on. An argument that is a function is made where it is first used;
        `special` gives the result of an op that is not copied.
        """
        known: dict[SSAValue, SSAValue] = {}
        given: dict[SSAValue, SSAValue | Callable[[], SSAValue]] = {}
        given.update(zip(block.args, arguments, strict=True))

        def found(value: SSAValue) -> SSAValue:
            if value not in known:
                argument = given[value]
                known[value] = argument() if callable(argument) else argument
            return known[value]

        for op in block.ops:
            operands = [found(value) for value in op.operands]
            if op is block.last_op:
                return operands
            if special is not None and (made := special(self, op)) is not None:
                known[op.results[0]] = made
                continue
            copy = op.clone(dict(zip(op.operands, operands, strict=True)))
            self.effect(copy)
            known.update(zip(op.results, copy.results, strict=True))
        raise AssertionError("a region ends in a terminator")

    # Memory

    def indices(
        self, map: AffineMap, loops: Mapping[int, SSAValue]
    ) -> Sequence[SSAValue]:
        """The indices that a linear map gives for the indices of its loops."""
        return [self._sum(expr, loops) for expr in map.results]

    def _sum(self, expr: AffineExpr, loops: Mapping[int, SSAValue]) -> SSAValue:
        match expr:
            case AffineDimExpr():
                return loops[expr.position]
            case AffineConstantExpr():
                return self.index(expr.value)
            case AffineBinaryOpExpr():
                sides = self._sum(expr.lhs, loops), self._sum(expr.rhs, loops)
                is_sum = expr.kind is AffineBinaryOpKind.Add
                return (self.add if is_sum else self.mul)(*sides)
            case _:
                raise AssertionError(f"{expr} is not linear")

    def load(self, source: SSAValue, indices: Sequence[SSAValue]) -> SSAValue:
        """One element of a memref, or the number around it."""
        if isinstance(source.owner, PaddedOp):
            return self._load_padded(source.owner, indices)
        return self.insert(memref.LoadOp.get(source, indices))

    def _load_padded(self, view: PaddedOp, indices: Sequence[SSAValue]) -> SSAValue:
        """The element of what is padded, or the number around it."""
        element = memref_type(view.result).element_type
        if 0 in view.shape:
            return self.constant(view.number, element)
        inside = self.constant(1, i1)
        held: list[SSAValue] = []
        for index, (low, high), extent in zip(
            indices, view.pads, view.shape, strict=True
        ):
            if low == high == 0:
                held.append(index)
                continue
            own, last = self.sub(index, self.index(low)), self.index(extent - 1)
            nearest = self.minimum(self.maximum(own, self.index(0)), last)
            is_own = self.compare("eq", own, nearest)
            inside = self.insert(arith.AndIOp(inside, is_own))
            held.append(nearest)
        found = self.load(view.source, held)
        return self.select(inside, found, self.constant(view.number, element))

    def store(
        self, value: SSAValue, target: SSAValue, indices: Sequence[SSAValue]
    ) -> None:
        """Write one element of a memref."""
        self.effect(memref.StoreOp.get(value, target, indices))

    def view(self, source: SSAValue, shape: Sequence[int]) -> SSAValue:
        """
        The elements of a memref in the same order, under another shape that has as
        many elements.
        """
        type = memref_type(source)
        if type.get_shape() == tuple(shape):
            return source
        return self._regroup(self._regroup(source, [type.element_count()]), shape)

    def _regroup(self, source: SSAValue, shape: Sequence[int]) -> SSAValue:
        """A view from several dimensions, or none, to one, or the other way."""
        type = memref_type(source)
        ranks = type.get_num_dims(), len(shape)
        if ranks[0] == ranks[1]:
            return source
        dims = ArrayAttr(IntegerAttr(dim, i64) for dim in range(max(ranks)))
        groups = ArrayAttr([dims] if min(ranks) else [])
        result = MemRefType(type.element_type, shape)
        if ranks[0] > ranks[1]:
            return self.insert(
                memref.CollapseShapeOp.create(
                    operands=[source],
                    result_types=[result],
                    properties={"reassociation": groups},
                )
            )
        return self.insert(
            memref.ExpandShapeOp.create(
                operands=[source],
                result_types=[result],
                properties={
                    "reassociation": groups,
                    "static_output_shape": DenseArrayBase.from_list(i64, shape),
                },
            )
        )

    # Stages and loops

    def fill(self, target: SSAValue, value: float) -> None:
        """A stage that writes one number to every element."""
        scalar = self.constant(value, memref_type(target).element_type)
        self.effect(FillOp([scalar], [target], res=()))

    def copy(self, source: SSAValue, target: SSAValue) -> None:
        """A stage that copies a memref to another one of the same type."""
        self.effect(memref.CopyOp(source, target))

    def generic(
        self,
        ins: Sequence[SSAValue],
        out: SSAValue,
        maps: Sequence[AffineMap],
        iterators: Sequence[str],
        body: ScalarBody,
    ) -> GenericOp:
        """
        A stage that computes each element of `out` from elements of `ins`.

        `maps` give the index of each of `ins`, then of `out`, as a function of the
        loops; `body` is given one scalar for each of them (that of `out` is its value
        so far, for reductions) and returns the element to write.
        """
        return self.generic_of(ins, [out], maps, iterators, lambda k, x: [body(k, x)])

    def generic_of(
        self,
        ins: Sequence[SSAValue],
        outs: Sequence[SSAValue],
        maps: Sequence[AffineMap],
        iterators: Sequence[str],
        body: ScalarsBody,
    ) -> GenericOp:
        """As `generic`, for several results: `body` returns an element of each."""
        types = [memref_type(value).element_type for value in (*ins, *outs)]
        block = Block(arg_types=types)
        inside = KernelBuilder(InsertPoint.at_end(block))
        inside.effect(YieldOp(*body(inside, block.args)))
        stage = GenericOp(
            ins,
            outs,
            Region(block),
            [AffineMapAttr(map) for map in maps],
            [IteratorTypeAttr(IteratorType(iterator)) for iterator in iterators],
        )
        self.effect(stage)
        return stage

    def elementwise(
        self, ins: Sequence[SSAValue], out: SSAValue, body: ScalarBody
    ) -> None:
        """
        A stage that computes each element of `out` from those of `ins` at the same
        place, where `ins` are broadcast as NumPy does.
        """
        rank = memref_type(out).get_num_dims()
        maps = [broadcast_map(memref_type(value).get_shape(), rank) for value in ins]
        self.generic(
            ins,
            out,
            [*maps, AffineMap.identity(rank)],
            [PARALLEL] * rank,
            lambda k, scalars: body(k, scalars[:-1]),
        )

    def map(
        self, ins: Sequence[SSAValue], outs: Sequence[SSAValue], body: ScalarsBody
    ) -> None:
        """
        A stage that computes each element of all `outs`, which have one shape, from
        those of `ins` at the same place, where `ins` are broadcast as NumPy does.
        """
        rank, count = memref_type(outs[0]).get_num_dims(), len(ins)
        maps = [broadcast_map(memref_type(value).get_shape(), rank) for value in ins]
        maps += [AffineMap.identity(rank)] * len(outs)
        self.generic_of(
            ins, outs, maps, [PARALLEL] * rank, lambda k, x: body(k, x[:count])
        )

    def parallel(
        self,
        extents: Sequence[int],
        body: Callable[[KernelBuilder, Sequence[SSAValue]], None],
    ) -> scf.ParallelOp:
        """A stage of independent iterations; `body` is given one index an extent."""
        zero, one = self.index(0), self.index(1)
        bounds = [self.index(extent) for extent in extents]
        block = Block(arg_types=[IndexType()] * len(extents))
        inside = KernelBuilder(InsertPoint.at_end(block))
        body(inside, block.args)
        inside.effect(scf.ReduceOp())
        rank = len(extents)
        stage = scf.ParallelOp([zero] * rank, bounds, [one] * rank, Region(block))
        self.effect(stage)
        return stage

    def loop(
        self,
        lower: SSAValue,
        upper: SSAValue,
        init: Sequence[SSAValue],
        body: Callable[
            [KernelBuilder, SSAValue, Sequence[SSAValue]], Sequence[SSAValue]
        ],
    ) -> Sequence[SSAValue]:
        """
        A sequential loop by ones from `lower` up to but without `upper`.

        `body` is given the index and the carried values and returns the next carried
        values; the last ones are returned.
        """
        block = Block(arg_types=[IndexType(), *(value.type for value in init)])
        inside = KernelBuilder(InsertPoint.at_end(block))
        carried = body(inside, block.args[0], block.args[1:])
        inside.effect(scf.YieldOp(*carried))
        loop = scf.ForOp(lower, upper, self.index(1), init, Region(block))
        self.effect(loop)
        return loop.results

    def when(self, condition: SSAValue, body: Callable[[KernelBuilder], None]) -> None:
        """Ops that are done where the condition holds."""
        self.effect(scf.IfOp(condition, [], self._branch(lambda k: body(k) or ())))

    def either(
        self,
        condition: SSAValue,
        then: Callable[[KernelBuilder], SSAValue],
        other: Callable[[KernelBuilder], SSAValue],
    ) -> SSAValue:
        """The value that `then` builds where the condition holds, else `other`'s."""
        holds = self._branch(lambda k: [then(k)])
        fails = self._branch(lambda k: [other(k)])
        made = holds.block.last_op
        assert made is not None, "it ends in a yield"
        return self.insert(scf.IfOp(condition, [made.operands[0].type], holds, fails))

    def _branch(self, body: Callable[[KernelBuilder], Sequence[SSAValue]]) -> Region:
        inside = KernelBuilder(InsertPoint.at_end(block := Block()))
        inside.effect(scf.YieldOp(*body(inside)))
        return Region(block)

    def each(
        self,
        extent: int | SSAValue,
        body: Callable[[KernelBuilder, SSAValue], None],
    ) -> None:
        """A sequential loop over all indices below `extent` that carries nothing."""
        end = self.index(extent) if isinstance(extent, int) else extent
        self._each(self.index(0), end, body)

    def each_in(
        self, indices: range, body: Callable[[KernelBuilder, SSAValue], None]
    ) -> None:
        """A sequential loop over indices by ones that carries nothing."""
        self._each(self.index(indices.start), self.index(indices.stop), body)

    def _each(
        self,
        start: SSAValue,
        end: SSAValue,
        body: Callable[[KernelBuilder, SSAValue], None],
    ) -> None:
        def step(
            k: KernelBuilder, index: SSAValue, carried: Sequence[SSAValue]
        ) -> Sequence[SSAValue]:
            body(k, index)
            return ()

        self.loop(start, end, (), step)

    def accumulate(
        self,
        bounds: Sequence[tuple[SSAValue, SSAValue]],
        init: SSAValue,
        body: Callable[[KernelBuilder, Sequence[SSAValue], SSAValue], SSAValue],
    ) -> SSAValue:
        """
        Nested sequential loops, the outermost first, that carry one value.

        `body` is given the indices and the value so far and returns the next one; the
        last one is returned.
        """
        return self._accumulate(bounds, [], init, body)

    def _accumulate(
        self,
        bounds: Sequence[tuple[SSAValue, SSAValue]],
        indices: Sequence[SSAValue],
        value: SSAValue,
        body: Callable[[KernelBuilder, Sequence[SSAValue], SSAValue], SSAValue],
    ) -> SSAValue:
        if not bounds:
            return body(self, indices, value)
        (value,) = self.loop(
            *bounds[0],
            [value],
            lambda k, index, carried: [
                k._accumulate(bounds[1:], [*indices, index], carried[0], body)
            ],
        )
        return value


def memref_type(value: SSAValue) -> MemRefType:
    """The type of a value that is a memref."""
    type = value.type
    assert isa(type, MemRefType), "kernels work on memrefs"
    return type


def broadcast_map(shape: Sequence[int], rank: int) -> AffineMap:
    """
    The index into a memref of this shape that NumPy broadcasting gives an element of
    a result with `rank` dimensions.
    """
    first = rank - len(shape)
    exprs = [
        AffineExpr.constant(0) if extent == 1 else AffineExpr.dimension(first + axis)
        for axis, extent in enumerate(shape)
    ]
    return AffineMap(rank, 0, tuple(exprs))


class KernelMaker(Protocol):
    """The method of an op that a kernel is made by; every `TensorOp` is one."""

    @property
    def operands(self) -> Sequence[SSAValue]: ...
    @property
    def results(self) -> Sequence[SSAValue]: ...
    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None: ...


def kernel_body(op: KernelMaker) -> Region:
    """
    The body of a kernel for an op: its arguments are memrefs like the op's operands
    `%in0`, `%in1`... and results `%out0`..., whose shapes must be static. Unsigned
    integers are signless there, and `f16` and `bf16` are computed in `f32`.
    """
    values = (*op.operands, *op.results)
    block = Block(arg_types=[as_memref(value.type) for value in values])
    count = len(op.operands)
    ins, outs = block.args[:count], block.args[count:]
    for prefix, args in (("in", ins), ("out", outs)):
        for index, arg in enumerate(args):
            arg.name_hint = f"{prefix}{index}"
    op.build_kernel(KernelBuilder(InsertPoint.at_end(block)), ins, outs)
    body = Region(block)
    compute_in_f32(body)
    drop_signs(body)
    return body


@lru_cache(1 << 10)
def as_memref(type: Attribute) -> MemRefType:
    """The dense memref with the shape and elements of a tensor."""
    assert isa(type, TensorType), "ops on tensors have tensors only"
    assert type.has_static_shape(), "kernels are built once all shapes are known"
    return MemRefType(type.element_type, type.get_shape())
