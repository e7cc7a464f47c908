"""`kernel.contract`: sums of products, with what they start from and what ends them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import (
    AffineMapAttr,
    ArrayAttr,
    IntegerType,
    MemRefType,
    UnitAttr,
)
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.depthwise import (
    Depthwise,
    depthwise_of,
    may_be_depthwise,
)
from penstock.dialects.kernel.interface import element_of, shape_of
from penstock.dialects.kernel.loops import access_of
from penstock.dialects.kernel.sums import SumOp, can_hold, extended
from penstock.dialects.kernel.views import PaddedOp
from penstock.dialects.kernel.windows import Window, WindowedAxis

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array

FACTORS = 2
"""The first two of the operands that have maps are those which are multiplied."""


@irdl_op_definition
class ContractOp(SumOp):
    """
    A contraction: `outs[..] = finish(start + sum a[..] * b[..])`, which a matmul, a
    convolution and its gradients are.

    The maps say what each loop is: one of `a`, `b` and the result is a *batch* loop,
    one of `a` and the result has *rows*, one of `b` and the result *columns*, and one
    of both factors, which the result does not have, *terms*, which are summed. A loop
    that runs once may be missing anywhere. Windows on an image are columns and terms in
    one index; zeros around it are a `kernel.padded` view. With a batch loop over
    channels they are a depthwise convolution (`depthwise`). A sum leaves out products
    with zeros around a factor. Loops and schedules may add them as well, which shows
    where the other factor is infinite or NaN: there the sum may be NaN.

    Sums are in the type of the results' elements, in `f32` for halves, or in that which
    `accumulate` names. Signless integers with fewer bits are extended by their sign,
    but for `unsigned_a` and `unsigned_b`. Sums begin with the elements of `start`, or
    with 0; `start(%o)` on the result itself adds to what is there. The region ends the
    sums: it is given a sum and an element of each operand of `finish`, and yields the
    element of each result. Terms may be added in any order.

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
    FACTORS: ClassVar[int] = FACTORS

    indexing_maps = prop_def(ArrayAttr[AffineMapAttr])
    accumulate = opt_prop_def()
    unsigned_a = opt_prop_def(UnitAttr)
    unsigned_b = opt_prop_def(UnitAttr)
    a = operand_def(MemRefType)
    b = operand_def(MemRefType)

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

    @property
    def unsigned(self) -> tuple[bool, bool]:
        """Whether bytes of each factor have no sign."""
        return self.unsigned_a is not None, self.unsigned_b is not None

    @property
    def sum_type(self) -> Attribute:
        return self.accumulate or super().sum_type

    # Loops

    def roles(self) -> Mapping[str, Sequence[int]]:
        of_a, of_b, *_ = (map.used_dims() for map in self.maps())
        kept = self.loops_of_results()
        loops = range(self.maps()[0].num_dims)
        return {
            "batch": [x for x in loops if x in of_a & of_b & kept],
            "row": [x for x in loops if x in (of_a & kept) - of_b],
            "column": [x for x in loops if x in (of_b & kept) - of_a],
            "term": [x for x in loops if x in (of_a & of_b) - kept],
        }

    def terms(self) -> Sequence[int]:
        return self.roles()["term"]

    def windows(self) -> Sequence[WindowedAxis]:
        """The columns and terms that index a dimension of a factor together."""
        terms = {*self.roles()["term"]}
        extents = self.loops().extents
        found: list[WindowedAxis] = []
        for number, value in enumerate((self.a, self.b)):
            owner = value.owner
            shape, pads = shape_of(value), [(0, 0)] * len(shape_of(value))
            if isinstance(owner, PaddedOp):
                shape, pads = owner.shape, owner.pads
            for axis, expr in enumerate(self.maps()[number].results):
                used = expr.used_dims()
                of_terms, others = used & terms, used - terms
                if len(of_terms) != 1 or len(others) != 1:
                    continue
                (term,), (column,) = of_terms, others
                access = access_of(AffineMap(len(extents), 0, (expr,)), (1,))
                assert access is not None, "checked by the verifier"
                stride, dilation = access.strides[column], access.strides[term]
                window = Window(extents[term], stride, *pads[axis], dilation)
                found.append(
                    WindowedAxis(number, axis, column, term, shape[axis], window)
                )
        return found

    def depthwise(self) -> Depthwise | None:
        """The depthwise convolution that it is but for its finish, if it is one."""
        if not may_be_depthwise(*self.maps()[: FACTORS + 1]):
            return None
        read = [self.a] if self.start is None else [self.a, self.start]
        types = {element_of(value) for value in (*read, *self.outs)}
        if len(types) > 1 or len(self.outs) > 1 or self.held is None:
            return None
        return depthwise_of(self, self.windows(), self.start)

    def work(self) -> int:
        return 2 * prod(self.loops().extents) + self.work_of_finish()

    # Rules

    def verify_structure(self) -> None:
        self.verify_results()
        self._verify_loops()
        self._verify_padding()
        self._verify_types()
        self.verify_finish()

    def _verify_loops(self) -> None:
        extents = self.loops().extents
        known = set[int]()
        for loops in self.roles().values():
            known.update(loops)
        for loop, extent in enumerate(extents):
            if loop not in known and extent != 1:
                raise VerifyException(
                    f"loop {loop} should be one of two of a, b and the result at least"
                )
        if not self.roles()["term"]:
            raise VerifyException("a loop of terms, of a and b only, is missing")
        self.verify_kept()

    def _verify_padding(self) -> None:
        if any(isinstance(x.owner, PaddedOp) for x in self.operands[FACTORS:]):
            raise VerifyException("only a and b may be padded")

    def _verify_types(self) -> None:
        a, b = element_of(self.a), element_of(self.b)
        total = self.sum_type
        if a != b:
            raise VerifyException(f"factors are of one type, got {a} and {b}")
        if not can_hold(total, a):
            raise VerifyException(f"products of {a} cannot be summed in {total}")
        if any(self.unsigned) and not isinstance(a, IntegerType):
            raise VerifyException(f"only integers may have no sign, got {a}")
        if self.start is not None and not can_hold(total, element_of(self.start)):
            raise VerifyException(
                f"sums in {total} cannot start from {element_of(self.start)}"
            )

    # Meaning

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        from penstock.dialects.kernel.evaluation import (
            dtype_of_scalar,
            unsigned,
            view_over_loops,
        )

        extents, reductions = self.loops()
        maps, dtype = self.maps(), dtype_of_scalar(self.sum_type)
        factors = [
            view_over_loops(unsigned(x) if flag else np.asarray(x), map, extents)
            for x, map, flag in zip(operands, maps, self.unsigned, strict=False)
        ]
        terms = tuple(n for n, is_term in enumerate(reductions) if is_term)
        with np.errstate(all="ignore"):
            a, b = (x.astype(dtype) for x in factors)
            products = np.where(self._are_inside(), a * b, np.zeros((), dtype))
            total = np.sum(products, axis=terms, dtype=dtype, keepdims=True)
        return self.finished(total, operands)

    def _are_inside(self) -> Array:
        """Whether no factor is a zero of the padding, over the loops."""
        import numpy as np

        from penstock.dialects.kernel.evaluation import view_over_loops

        extents, found = self.loops().extents, np.asarray(True)
        for value, map in zip((self.a, self.b), self.maps(), strict=False):
            owner = value.owner
            if isinstance(owner, PaddedOp) and owner.number == 0:
                inside = np.pad(np.ones(owner.shape, np.bool_), owner.pads)
                found = np.logical_and(found, view_over_loops(inside, map, extents))
        return found

    # Loops of upstream ops

    def build_loops(self, k: KernelBuilder) -> None:
        convolution = self.depthwise()
        is_exact = self.finish is None or not self.are_rounded
        if convolution is None or not convolution.has_lines or not is_exact:
            super().build_loops(k)
            return
        convolution.build(k)
        self.build_finish(k)

    def product(
        self, k: KernelBuilder, factors: Sequence[SSAValue], type: Attribute
    ) -> SSAValue:
        flags = zip(factors, self.unsigned, strict=True)
        return k.mul(*(extended(k, value, type, flag) for value, flag in flags))
