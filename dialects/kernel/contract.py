"""`kernel.contract`: sums of products, with what they start from and what ends them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from xdsl.dialects import linalg
from xdsl.dialects.arith import AndIOp, ExtFOp, ExtSIOp, ExtUIOp
from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    IntegerType,
    MemRefType,
    UnitAttr,
    f32,
    i1,
)
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_region_def,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException
from xdsl.utils.hints import isa

from penstock.dialects.kernel.body_ops import IndexOp, YieldOp
from penstock.dialects.kernel.interface import (
    Alias,
    StructuredOp,
    element_of,
    listed,
    shape_of,
)
from penstock.dialects.kernel.loops import access_of
from penstock.dialects.kernel.views import PaddedOp, root_of
from penstock.dialects.utils.half_precision import is_half

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder, ScalarBody
    from penstock.dialects.utils.tensors import Array

PARALLEL, REDUCTION = "parallel", "reduction"
FACTORS = 2
"""The first two of the operands that have maps are those which are multiplied."""


class Window(NamedTuple):
    """A column and a term that index one dimension of a factor together."""

    operand: int
    """The number of the factor."""
    axis: int
    column: int
    """The loop over places, as the next one over what lies in the window at each."""
    term: int
    stride: int
    dilation: int
    extent: int
    """The elements of the dimension, without zeros around them."""
    before: int
    """The zeros before them."""
    taps: int


@irdl_op_definition
class ContractOp(StructuredOp):
    """
    A contraction: `outs[..] = finish(start + sum a[..] * b[..])`, which a matmul, a
    convolution and its gradients are.

    The maps say what each loop is: one of `a`, `b` and the result is a *batch* loop,
    one of `a` and the result has *rows*, one of `b` and the result *columns*, and one
    of both factors, which the result does not have, *terms*, which are summed. A loop
    that runs once may be missing anywhere. Windows on an image are columns and terms in
    one index; zeros around it are a `kernel.padded` view.

    Sums are in the type of the results' elements, in `f32` for halves, or in that which
    `accumulate` names. Signless integers with fewer bits are extended by their sign,
    but for `unsigned_a` and `unsigned_b`. Sums begin with the elements of `start`, or
    with 0; `start(%o)` on the result itself adds to what is there. The region ends the
    sums: it is given a sum and an element of each operand of `finish`, and yields the
    element of each result. Terms may be added in any order.

    The loops that it stands for keep sums in the result where its type can hold them:
    halves are rounded to it between terms, unless all terms follow each other.

    ```mlir
    kernel.contract indexing_maps = [
        affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
        affine_map<(m, n, k) -> (m, n)>, affine_map<(m, n, k) -> (n)>]
        ins(%x, %w : memref<64x784xf32>, memref<784x256xf32>)
        outs(%y : memref<64x256xf32>) finish(%bias : memref<256xf32>) {
    ^bb0(%sum: f32, %c: f32):
      %zero = arith.constant 0.0 : f32
      %0 = arith.addf %sum, %c : f32
      %1 = arith.maximumf %0, %zero : f32
      kernel.yield %1 : f32
    }
    ```
    """

    name = "kernel.contract"

    indexing_maps = prop_def(ArrayAttr[AffineMapAttr])
    accumulate = opt_prop_def()
    unsigned_a = opt_prop_def(UnitAttr)
    unsigned_b = opt_prop_def(UnitAttr)
    a = operand_def(MemRefType)
    b = operand_def(MemRefType)
    outs = var_operand_def(MemRefType)
    start = opt_operand_def()
    extra = var_operand_def()
    finish = opt_region_def("single_block")

    irdl_options = (
        AttrSizedOperandSegments(as_property=True),
        ParsePropInAttrDict(),
    )

    traits = traits_def(IsolatedFromAbove())

    assembly_format = (
        "`indexing_maps` `=` $indexing_maps (`accumulate` $accumulate^)? "
        "(`unsigned_a` $unsigned_a^)? (`unsigned_b` $unsigned_b^)? "
        "`ins` `(` $a `,` $b `:` type($a) `,` type($b) `)` "
        "`outs` `(` $outs `:` type($outs) `)` "
        "(`start` `(` $start^ `:` type($start) `)`)? "
        "(`finish` `(` $extra^ `:` type($extra) `)`)? "
        "attr-dict-with-keyword ($finish^)?"
    )

    def __init__(
        self,
        factors: tuple[SSAValue, SSAValue],
        outs: Sequence[SSAValue],
        maps: Sequence[AffineMap],
        *,
        start: SSAValue | None = None,
        extra: Sequence[SSAValue] = (),
        finish: Region | None = None,
        accumulate: Attribute | None = None,
        unsigned: tuple[bool, bool] = (False, False),
    ) -> None:
        flags = [UnitAttr() if flag else None for flag in unsigned]
        super().__init__(
            operands=[*factors, outs, start, extra],
            properties={
                "indexing_maps": ArrayAttr(map(AffineMapAttr, maps)),
                "accumulate": accumulate,
                "unsigned_a": flags[0],
                "unsigned_b": flags[1],
            },
            regions=[finish],
        )

    # Operands

    def outs_at(self) -> range:
        return range(FACTORS, FACTORS + len(self.outs))

    @property
    def unsigned(self) -> tuple[bool, bool]:
        """Whether bytes of each factor have no sign."""
        return self.unsigned_a is not None, self.unsigned_b is not None

    @property
    def sum_type(self) -> Attribute:
        """The type that products are summed in."""
        if self.accumulate is not None:
            return self.accumulate
        element = element_of(self.outs[0])
        return f32 if is_half(element) else element

    @property
    def is_started_by_itself(self) -> bool:
        """Whether sums are added to what the result holds."""
        return self.start is not None and self.start in self.outs

    @property
    def start_map(self) -> AffineMap | None:
        """The map of what sums start from."""
        return None if self.start is None else self.maps()[FACTORS + len(self.outs)]

    @property
    def extra_maps(self) -> Sequence[AffineMap]:
        """The maps of the operands of the finish."""
        return self.maps()[len(self.operands) - len(self.extra) :]

    def aliases(self) -> Sequence[Alias]:
        types = [value.type for value in self.operands]
        after = range(FACTORS + len(self.outs), len(self.operands))
        return [
            Alias(number, out)
            for number in after
            for out in range(len(self.outs))
            if self.are_alike(number, FACTORS + out)
            and types[number] == types[FACTORS + out]
        ]

    def loaded_arguments(self, block: Block) -> Sequence[SSAValue]:
        return block.args[1:]

    # Loops

    def roles(self) -> Mapping[str, Sequence[int]]:
        of_a, of_b, *_ = (map.used_dims() for map in self.maps())
        kept = self._loops_of_results()
        loops = range(self.maps()[0].num_dims)
        return {
            "batch": [x for x in loops if x in of_a & of_b & kept],
            "row": [x for x in loops if x in (of_a & kept) - of_b],
            "column": [x for x in loops if x in (of_b & kept) - of_a],
            "term": [x for x in loops if x in (of_a & of_b) - kept],
        }

    def windows(self) -> Sequence[Window]:
        """The columns and terms that index a dimension of a factor together."""
        terms = {*self.roles()["term"]}
        extents = self.loops().extents
        found: list[Window] = []
        for number, value in enumerate((self.a, self.b)):
            for axis, expr in enumerate(self.maps()[number].results):
                used = expr.used_dims()
                of_terms, others = used & terms, used - terms
                if len(of_terms) != 1 or len(others) != 1:
                    continue
                (term,), (column,) = of_terms, others
                access = access_of(AffineMap(len(extents), 0, (expr,)), (1,))
                assert access is not None, "checked by the verifier"
                owner = value.owner
                is_padded = isinstance(owner, PaddedOp)
                found.append(
                    Window(
                        *(number, axis, column, term),
                        *(access.strides[column], access.strides[term]),
                        (owner.shape if is_padded else shape_of(value))[axis],
                        owner.pads[axis][0] if is_padded else 0,
                        extents[term],
                    )
                )
        return found

    def work(self) -> int:
        extents, reductions = self.loops()
        kept = (
            n for n, is_term in zip(extents, reductions, strict=True) if not is_term
        )
        block = None if self.finish is None else self.finish.block
        after = 0 if block is None else sum(1 for op in block.ops if op.results)
        return 2 * prod(extents) + after * prod(kept)

    # Rules

    def verify_structure(self) -> None:
        if not self.outs:
            raise VerifyException("a contraction has a result")
        self._verify_loops()
        self._verify_padding()
        self._verify_types()
        self._verify_finish()

    def _verify_loops(self) -> None:
        extents = self.loops().extents
        kept, known = self._loops_of_results(), set[int]()
        for loops in self.roles().values():
            known.update(loops)
        for loop, extent in enumerate(extents):
            if loop not in known and extent != 1:
                raise VerifyException(
                    f"loop {loop} should be one of two of a, b and the result at least"
                )
        if not self.roles()["term"]:
            raise VerifyException("a loop of terms, of a and b only, is missing")
        for number, map in enumerate(self.maps()[FACTORS:], FACTORS):
            used = map.used_dims()
            if not used <= kept:
                raise VerifyException(
                    f"operand {number} should not change from term to term, got {map}"
                )
            is_result = number < FACTORS + len(self.outs)
            if is_result and any(extents[loop] != 1 for loop in kept - used):
                raise VerifyException(
                    f"results are indexed by the same loops, got {map} for one of them"
                )

    def _verify_padding(self) -> None:
        if any(isinstance(x.owner, PaddedOp) for x in self.operands[FACTORS:]):
            raise VerifyException("only a and b may be padded")

    def _verify_types(self) -> None:
        a, b = element_of(self.a), element_of(self.b)
        total = self.sum_type
        if a != b:
            raise VerifyException(f"factors are of one type, got {a} and {b}")
        if not _holds(total, a):
            raise VerifyException(f"products of {a} cannot be summed in {total}")
        if any(self.unsigned) and not isinstance(a, IntegerType):
            raise VerifyException(f"only integers may have no sign, got {a}")
        if self.start is not None and not _holds(total, element_of(self.start)):
            raise VerifyException(
                f"sums in {total} cannot start from {element_of(self.start)}"
            )

    def _verify_finish(self) -> None:
        results = [element_of(value) for value in self.outs]
        if self.finish is None:
            if self.extra:
                raise VerifyException("operands of finish are read by a region")
            if len(results) > 1 or not _rounds_to(self.sum_type, results[0]):
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

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        from penstock.dialects.kernel.evaluation import (
            dtype_of_scalar,
            evaluate_region,
            unsigned,
            view_over_loops,
        )

        extents, reductions = self.loops()
        maps, dtype = self.maps(), dtype_of_scalar(self.sum_type)
        factors = [
            view_over_loops(unsigned(x) if flag else np.asarray(x), map, extents)
            for x, map, flag in zip(operands, maps, self.unsigned, strict=False)
        ]
        kept = [
            1 if is_term else n for n, is_term in zip(extents, reductions, strict=True)
        ]
        terms = tuple(n for n, is_term in enumerate(reductions) if is_term)
        with np.errstate(all="ignore"):
            a, b = (x.astype(dtype) for x in factors)
            total = np.sum(a * b, axis=terms, dtype=dtype, keepdims=True)
        first = FACTORS + len(self.outs)
        others = [
            view_over_loops(np.asarray(array), map, kept)
            for array, map in zip(operands[first:], maps[first:], strict=True)
        ]
        if self.start is not None:
            total = (others.pop(0).astype(dtype) + total).astype(dtype)
        values: Sequence[Array] = [total]
        if self.finish is not None:
            values = evaluate_region(self.finish.block, [total, *others], kept)
        found: list[Array] = []
        pairs = zip(operands[FACTORS:first], maps[FACTORS:first], values, strict=True)
        for before, map, value in pairs:
            result = np.array(before, order="C")
            view = view_over_loops(result, map, kept, writeable=True)
            if 0 not in kept:
                view[...] = value
            found.append(result)
        return found

    # Loops of upstream ops

    def build_loops(self, k: KernelBuilder) -> None:
        if not self.is_held:
            self._build_scalar_loops(k)
            return
        self.build_start(k)
        self.build_sums(k)
        self.build_finish(k)

    @property
    def is_held(self) -> bool:
        """
        Whether the result can hold the sums until they are finished: there is one, of
        their type, and nothing else is read where it lies.
        """
        if len(self.outs) != 1 or not _rounds_to(
            self.sum_type, element_of(self.outs[0])
        ):
            return False
        place = root_of(self.outs[0])
        return all(root_of(value) is not place for value in self.extra)

    def build_start(self, k: KernelBuilder) -> None:
        """A stage that writes to the result what sums start from."""
        (out,) = self.outs
        if self.start is None:
            k.fill(out, 0)
        elif self.start is out:
            return
        elif not isinstance(self.start.type, MemRefType):
            k.effect(linalg.ops.FillOp([self.start], [out], res=()))
        else:
            map = self.start_map
            assert map is not None, "there is a start"

            def body(k: KernelBuilder, scalars: Sequence[SSAValue]) -> SSAValue:
                return extended(k, scalars[0], scalars[1].type)

            self._elementwise(k, [(self.start, map)], body)

    def build_sums(self, k: KernelBuilder) -> None:
        """A stage that adds the products to the result."""
        reductions = self.loops().reductions
        iterators = [REDUCTION if is_term else PARALLEL for is_term in reductions]
        maps = self.maps()[: FACTORS + 1]
        k.generic((self.a, self.b), self.outs[0], maps, iterators, self._multiply_add)

    def _multiply_add(self, k: KernelBuilder, scalars: Sequence[SSAValue]) -> SSAValue:
        """The sum so far and the product of two scalars, which are extended first."""
        *factors, total = scalars
        flags = zip(factors, self.unsigned, strict=True)
        wide = [extended(k, value, total.type, flag) for value, flag in flags]
        return k.add(total, k.mul(*wide))

    def build_finish(self, k: KernelBuilder) -> None:
        """A stage that makes the elements of the result of the sums in it."""
        finish = self.finish
        if finish is None:
            return
        loops = self._loops_of_result()

        def body(k: KernelBuilder, scalars: Sequence[SSAValue]) -> SSAValue:
            *extra, total = scalars
            total = extended(k, total, self.sum_type)
            made = index_by(
                lambda k, loop: k.insert(linalg.ops.IndexOp(loops.index(loop)))
            )
            return k.inline(finish.block, [total, *extra], made)[0]

        pairs = zip(self.extra, self.extra_maps, strict=True)
        self._elementwise(k, [*pairs], body)

    def _loops_of_result(self) -> list[int]:
        """The loops that are no terms, in the order in which the result has them."""
        kept = self._loops_of_results()
        first = [
            expr.position
            for expr in self.maps()[FACTORS].results
            if isinstance(expr, AffineDimExpr)
        ]
        first = [*dict.fromkeys(first)]
        return [*first, *sorted(kept - {*first})]

    def _elementwise(
        self,
        k: KernelBuilder,
        operands: Sequence[tuple[SSAValue, AffineMap]],
        body: ScalarBody,
    ) -> None:
        """A stage on each element of the result, of operands with maps of the loops."""
        loops = self._loops_of_result()
        count = self.maps()[0].num_dims
        exprs: list[AffineExpr] = [AffineExpr.constant(0)] * count
        for at, loop in enumerate(loops):
            exprs[loop] = AffineExpr.dimension(at)
        maps = [
            map.replace_dims_and_symbols(exprs, [], len(loops), 0)
            for map in (*(map for _, map in operands), self.maps()[FACTORS])
        ]
        k.generic(
            [value for value, _ in operands],
            self.outs[0],
            maps,
            [PARALLEL] * len(loops),
            body,
        )

    def _build_scalar_loops(self, k: KernelBuilder) -> None:
        """A stage of scalar loops, for results that cannot hold sums."""
        extents = self.loops().extents
        kept, terms = self._loops_of_result(), self.roles()["term"]
        once = [x for x in range(len(extents)) if x not in kept and x not in terms]
        maps = self.maps()

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
                    load_padded(k, value, k.indices(map, inside))
                    for value, map in zip((self.a, self.b), maps, strict=False)
                ]
                return self._multiply_add(k, [*factors, total])

            first = FACTORS + len(self.outs)
            others = [element(number) for number in range(first, len(self.operands))]
            init = k.constant(0, self.sum_type)
            if self.start is not None:
                init = extended(k, others.pop(0), self.sum_type)
            bounds = [(k.index(0), k.index(extents[loop])) for loop in terms]
            total = k.accumulate(bounds, init, step)
            values: Sequence[SSAValue] = [total]
            if self.finish is not None:
                block = self.finish.block
                made = index_by(lambda _, loop: at[loop])
                values = k.inline(block, [total, *others], made)
            for number, value in enumerate(values):
                map = maps[FACTORS + number]
                k.store(value, self.outs[number], k.indices(map, at))

        k.parallel([extents[loop] for loop in kept], stage)


def _holds(total: Attribute, element: Attribute) -> bool:
    """Whether sums of one type can be of numbers of another."""
    if isinstance(total, AnyFloat) and isinstance(element, AnyFloat):
        return total == element or total.bitwidth > element.bitwidth
    if not isa(total, IntegerType) or not isa(element, IntegerType):
        return False
    return total.width.data >= element.width.data


def _rounds_to(total: Attribute, element: Attribute) -> bool:
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


def load_padded(
    k: KernelBuilder, source: SSAValue, places: Sequence[SSAValue]
) -> SSAValue:
    """An element of a memref, or a zero around it."""
    owner = source.owner
    if not isinstance(owner, PaddedOp):
        return k.load(source, places)
    inside = k.constant(1, i1)
    held: list[SSAValue] = []
    for place, (low, _), extent in zip(places, owner.pads, owner.shape, strict=True):
        own, last = k.sub(place, k.index(low)), k.index(extent - 1)
        nearest = k.minimum(k.maximum(own, k.index(0)), last)
        inside = k.insert(AndIOp(inside, k.compare("eq", own, nearest)))
        held.append(nearest)
    element = k.load(owner.source, held)
    return k.select(inside, element, k.constant(0, element.type))


def index_by(
    made: Callable[[KernelBuilder, int], SSAValue],
) -> Callable[[KernelBuilder, Operation], SSAValue | None]:
    """The results of `kernel.index` in a region, given the index of each loop."""

    def special(k: KernelBuilder, op: Operation) -> SSAValue | None:
        return made(k, op.loop.value.data) if isinstance(op, IndexOp) else None

    return special
