"""`op.attention`: scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Self

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    UnitAttr,
    f32,
    f64,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    AtLeast,
    eq,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.rewriter import InsertPoint
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.attention import AttentionOp as AttentionOfKernelOp
from penstock.dialects.kernel.body_ops import YieldOp
from penstock.dialects.kernel.builder import KernelBuilder, memref_type
from penstock.dialects.kernel.scores import scores_of
from penstock.dialects.op.axes import I64List
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.verify import may_equal, same_element_type
from penstock.dialects.utils.gradients import (
    GradientBuilder,
    Gradients,
    in_f32,
)
from penstock.dialects.utils.half_precision import is_half
from penstock.dialects.utils.tensors import (
    broadcast_shapes,
    element_count,
    shape_text,
    tensor_type,
)

if TYPE_CHECKING:
    from penstock.dialects.utils.tensors import Array

Order = DenseArrayBase[IntegerType]


@irdl_op_definition
class AttentionOp(TensorOp):
    """
    `softmax(scale * q * k^T + mask) * v` for stacks of matrices, without the matrix of
    scores in memory: each row of the result is a mean of the rows of `v`, weighted with
    the exponentials of the scores of the rows of `k` for one row of `q`.

    The last two dimensions are rows and terms; those before are broadcast, as the mask
    is to the scores. `q_by`, `k_by` and `v_by` reorder the axes of an operand before,
    `by` those of the result after, as `op.transpose` does.

    With `causal` n row i sees the keys up to number i + n only: no others count. The
    result of a row is not defined if values of keys that it does not see are not
    finite.

    Exponentials and sums are in the element type; for `f16` and `bf16` in `f32`, but
    that rows of the result are rounded with each key where a kernel has no schedule. A
    row of which the mask leaves nothing, as it adds -inf everywhere, is NaN, and so is
    one with a score of NaN or inf.

    `with_lse` asks for a second result: of each row the logarithm of the sum of the
    exponentials of its scores, `f32` for `f16` and `bf16`. Gradients are made of it.

    ```mlir
    %y = op.attention %q, %k, %v mask %m scale 5.000000e-01 q_by [1, 0, 2] by [1, 0, 2]
      : tensor<3x2x4xf32>, tensor<2x5x4xf32>, tensor<2x5x8xf32> mask tensor<3x5xf32>
      -> tensor<3x2x8xf32>
    ```
    """

    name = "op.attention"
    PRECISION: ClassVar = "white"

    q = operand_def(TensorType)
    k = operand_def(TensorType)
    v = operand_def(TensorType)
    mask = opt_operand_def(TensorType)
    causal = opt_prop_def(IntegerAttr.constr(eq(i64), value=AtLeast(0)))
    scale = prop_def(FloatAttr.constr(eq(f64)), default_value=FloatAttr(1.0, f64))
    q_by = opt_prop_def(I64List)
    k_by = opt_prop_def(I64List)
    v_by = opt_prop_def(I64List)
    by = opt_prop_def(I64List)
    with_lse = opt_prop_def(UnitAttr)
    result = result_def(TensorType)
    lse = opt_result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$q `,` $k `,` $v (`mask` $mask^)? (`causal` $causal^)? (`scale` $scale^)? "
        "(`q_by` $q_by^)? (`k_by` $k_by^)? (`v_by` $v_by^)? (`by` $by^)? "
        "(`with_lse` $with_lse^)? attr-dict "
        "`:` type($q) `,` type($k) `,` type($v) (`mask` type($mask)^)? "
        "`->` type($result) (`,` type($lse)^)?"
    )

    def infer_types(self) -> Sequence[TensorType]:
        element = same_element_type(self.operands)
        if not isinstance(element, AnyFloat):
            raise VerifyException(f"attention is for floats, got {element}")
        q, k, v = self._stacks()
        if not may_equal(q[-1], k[-1]):
            raise VerifyException(
                f"queries of {q[-1]} terms do not fit keys of {k[-1]}"
            )
        if not may_equal(k[-2], v[-2]):
            raise VerifyException(f"{k[-2]} keys do not fit {v[-2]} values")
        if 0 in (k[-2], v[-2]):
            raise VerifyException("there should be a key at least")
        stack = broadcast_shapes([q[:-2], k[:-2], v[:-2]])
        check_mask(self.mask, [*stack, q[-2], k[-2]])
        shape = [*stack, q[-2], v[-1]]
        mixed = TensorType(element, [shape[axis] for axis in self._order_after(shape)])
        if self.with_lse is None:
            return (mixed,)
        return mixed, TensorType(sums_of_rows(element), shape[:-1])

    def _stacks(self) -> list[list[int]]:
        """The shapes of queries, keys and values once their axes are reordered."""
        operands = zip("qkv", (self.q, self.k, self.v), self.orders[:3], strict=True)
        return [
            reordered(name, tensor_type(value).get_shape(), order)
            for name, value, order in operands
        ]

    @property
    def orders(self) -> list[Order | None]:
        """The permutations of the axes of queries, keys, values and the result."""
        return [self.q_by, self.k_by, self.v_by, self.by]

    def _order_after(self, shape: Sequence[int]) -> Sequence[int]:
        order = order_of(self.by, len(shape))
        check_order("the result", order, len(shape))
        return order

    def flops(self) -> int:
        # Products for scores and values; scaling, a mask, and what a softmax takes.
        (*_, rows, width), (*_, keys, _), (*_, depth) = self._stacks()
        stack = element_count(self.result.type) // max(1, rows * depth)
        scores = scores_of(rows, keys, self.offset)
        return stack * scores * (2 * width + 2 * depth + 7)

    @property
    def offset(self) -> int | None:
        """
        The number of keys past its own number that a row sees; all of them if None.
        """
        return None if self.causal is None else self.causal.value.data

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        q, k, v = (
            operand.transpose(order_of(order, operand.ndim))
            for operand, order in zip(operands[:3], self.orders[:3], strict=True)
        )
        scores = np.matmul(q, k.swapaxes(-1, -2))
        scores = scores * scores.dtype.type(self.scale.value.data)
        for mask in operands[3:]:
            scores = scores + mask
        if self.offset is not None:
            hidden = np.triu(np.ones(scores.shape[-2:], np.bool_), self.offset + 1)
            scores[..., hidden] = -np.inf
        with np.errstate(invalid="ignore", divide="ignore"):
            largest = np.max(scores, -1, keepdims=True)
            powers = np.exp(scores - largest)
            totals = np.sum(powers, -1, keepdims=True)
            mixed = np.matmul(powers / totals, v)
            sums: Array = np.add(largest, np.log(totals))[..., 0]
        # A row that sees nothing is NaN, but the logarithm of its sum is known.
        sums = np.where(largest[..., 0] == -np.inf, largest[..., 0], sums)
        stack = mixed.shape[:-1]
        mixed = np.ascontiguousarray(mixed.transpose(order_of(self.by, mixed.ndim)))
        if self.with_lse is None:
            return (mixed,)
        return mixed, np.ascontiguousarray(np.broadcast_to(sums, stack))

    # Gradients

    def with_kept(self) -> Self | None:
        if self.with_lse is not None:
            return None
        new = self.inferred(self.operands, {**self.properties, "with_lse": UnitAttr()})
        if new.lse is not None and (hint := self.result.name_hint):
            new.lse.name_hint = f"{hint}_lse"
        return new

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        grad, of_lse = (*grads, None)[:2]
        result, lse = self.result, self.lse
        assert lse is not None, "it is the op that keeps more"
        if grad is None:
            grad = o.zeros(result)
        products = o.mul(in_f32(o, result), in_f32(o, grad))
        delta = self._sums_of_rows(o, products)
        if of_lse is not None:
            delta = o.sub(delta, of_lse)
        q, k, v, orders = self._contiguous(o)
        found = o.results(
            "op.attention_gradient",
            *(q, k, v, grad, lse, delta, self.mask),
            **self._settings([*orders, self.by]),
        )
        gradients = [
            o.cast(self._as_it_lies(o, value, own, order), o.element(self.q))
            for value, own, order in zip(found, self.orders[:3], orders, strict=True)
        ]
        if self.mask is not None:
            gradients.append(self._gradient_of_mask(o, grad, lse, delta))
        return gradients

    def _settings(self, orders: Sequence[Order | None]) -> dict[str, object]:
        """The properties as Python values, with these orders of axes."""
        names = "q_by", "k_by", "v_by", "by"
        return {
            "causal": self.offset,
            "scale": self.scale.value.data,
            **{
                name: None if order is None else order.get_values()
                for name, order in zip(names, orders, strict=True)
            },
        }

    def _sums_of_rows(self, o: GradientBuilder, value: SSAValue) -> SSAValue:
        """The sum of each row of a tensor that lies as the result does."""
        axes = order_of(self.by, len(o.shape(value)))
        column = axes.index(len(axes) - 1)
        left = [axis for axis in axes if axis != len(axes) - 1]
        sums = o.sum(value, [column])
        return o.transpose(sums, [left.index(axis) for axis in sorted(left)])

    def _contiguous(
        self, o: GradientBuilder
    ) -> tuple[SSAValue, SSAValue, SSAValue, list[Order | None]]:
        """Queries, keys and values whose rows are contiguous, and their orders."""
        values: list[SSAValue] = []
        orders: list[Order | None] = []
        for value, order in zip(self.operands[:3], self.orders[:3], strict=True):
            axes = order_of(order, len(o.shape(value)))
            is_contiguous = axes[-1] == len(axes) - 1
            values.append(value if is_contiguous else o.transpose(value, axes))
            orders.append(order if is_contiguous else None)
        q, k, v = values
        return q, k, v, orders

    def _as_it_lies(
        self, o: GradientBuilder, value: SSAValue, own: Order | None, made: Order | None
    ) -> SSAValue:
        """A gradient as its operand lies, which was transposed if orders differ."""
        if own == made:
            return value
        return o.transpose(value, back(own, len(o.shape(value))))

    def _gradient_of_mask(
        self, o: GradientBuilder, grad: SSAValue, lse: SSAValue, delta: SSAValue
    ) -> SSAValue:
        """The gradient by the mask, of all scores, which are in memory here."""
        assert self.mask is not None, "it is asked for its gradient"
        q, k, v = (
            o.transpose(in_f32(o, value), order_of(order, len(o.shape(value))))
            for value, order in zip(self.operands[:3], self.orders[:3], strict=True)
        )
        grad = in_f32(o, grad)
        grad = o.transpose(grad, back(self.by, len(o.shape(grad))))
        scores = o.mul(o.matmul(q, k, transpose_b=True), self.scale.value.data)
        scores = o.add(scores, in_f32(o, self.mask))
        if self.offset is not None:
            ends = o.scalar(0, scores), o.scalar(-inf, scores)
            shape = o.shape(scores)[-2:]
            hidden = o.one("op.triangle", *ends, shape=shape, offset=self.offset)
            scores = o.add(scores, hidden)
        lse, delta = (o.reshape(x, [*o.shape(x), 1]) for x in (lse, delta))
        of_shares = o.sub(o.matmul(grad, v, transpose_b=True), delta)
        of_scores = o.mul(o.exp(o.sub(scores, lse)), of_shares)
        return o.cast(o.unbroadcast(of_scores, self.mask), o.element(self.mask))

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        q, keys, values, *masks = ins
        k.effect(
            AttentionOfKernelOp(
                (q, keys, values),
                masks,
                outs[0],
                self._maps([memref_type(value).get_shape() for value in (*ins, *outs)]),
                self._score(ins, outs[0]),
                self._causal(memref_type(keys).get_shape()),
                *outs[1:],
            )
        )

    def _maps(self, shapes: Sequence[Sequence[int]]) -> Sequence[AffineMap]:
        """The maps of all operands and results, of these shapes."""
        count = len(self.operands)
        loops = loops_of_attention(len(shapes[count]) - 2)
        ends = loops.queries, loops.keys, loops.values
        return [
            *map(loops.of_matrix, shapes[:3], self.orders[:3], ends),
            *map(loops.of_mask, shapes[3:count]),
            loops.of_result(self.by),
            *[loops.of_rows() for _ in shapes[count + 1 :]],
        ]

    def _causal(self, keys: Sequence[int]) -> int | None:
        """The keys past its own that a row sees, unless all rows see all of them."""
        count = keys[order_of(self.k_by, len(keys))[-2]]
        is_cut = self.offset is not None and self.offset + 1 < count
        return self.offset if is_cut else None

    def _score(self, ins: Sequence[SSAValue], out: SSAValue) -> Region:
        """The sum, scaled and with the mask added."""
        type = memref_type(out).element_type
        masks = [memref_type(value).element_type for value in ins[3:]]
        return score_region(type, masks, self.scale.value.data)


def score_region(
    type: Attribute,
    masks: Sequence[Attribute],
    scale: float,
    *,
    has_slope: bool = False,
) -> Region:
    """
    The region that makes a score of a sum of a type, with masks of some types added to
    it; it yields the derivative by the sum, too, if it `has_slope`.
    """
    block = Block(arg_types=[type, *masks])
    k = KernelBuilder(InsertPoint.at_end(block))
    score, *added = block.args
    value: SSAValue = score
    if scale != 1:
        value = k.mul(value, k.constant(scale, type))
    for mask in added:
        value = k.add(value, mask)
    k.effect(YieldOp(value, *[k.constant(scale, type)] * has_slope))
    return Region(block)


class LoopsOfAttention(NamedTuple):
    """The loops of a kernel of attention: those of the stack, and four others."""

    stack: int
    """The number of loops of the stack."""
    queries: tuple[int, int]
    """Those of rows and terms."""
    keys: tuple[int, int]
    """Those of keys and terms."""
    values: tuple[int, int]
    """Those of keys and columns."""

    @property
    def rows(self) -> int:
        """The loop of rows."""
        return self.queries[0]

    def of_matrix(
        self, shape: Sequence[int], order: Order | None, ends: tuple[int, int]
    ) -> AffineMap:
        """The map of an operand whose last two axes, once in order, are as long."""
        return self._map(shape, order, ends, ends)

    def of_mask(self, shape: Sequence[int]) -> AffineMap:
        """The map of an operand that is broadcast to scores."""
        return self._map(shape, None, (self.rows, self.keys[0]), ())

    def of_rows(self) -> AffineMap:
        """The map of a number of each row."""
        loops = [*range(self.stack), self.rows]
        return AffineMap(
            self.stack + 4, 0, tuple(AffineExpr.dimension(loop) for loop in loops)
        )

    def of_result(self, order: Order | None) -> AffineMap:
        """The map of rows of values, whose axes are in an order."""
        place = [*range(self.stack), self.rows, self.values[1]]
        axes = order_of(order, len(place))
        exprs = tuple(AffineExpr.dimension(place[axis]) for axis in axes)
        return AffineMap(self.stack + 4, 0, exprs)

    def _map(
        self,
        shape: Sequence[int],
        order: Order | None,
        ends: tuple[int, int],
        long: Sequence[int],
    ) -> AffineMap:
        """The map of an operand that is broadcast along all but the `long` loops."""
        loops = [*range(self.stack), *ends][self.stack + 2 - len(shape) :]
        exprs = [AffineExpr.constant(0)] * len(shape)
        for axis, loop in zip(order_of(order, len(shape)), loops, strict=True):
            if shape[axis] != 1 or loop in long:
                exprs[axis] = AffineExpr.dimension(loop)
        return AffineMap(self.stack + 4, 0, tuple(exprs))


def loops_of_attention(stack: int) -> LoopsOfAttention:
    """The loops of attention with so many of the stack."""
    row, key, term, column = range(stack, stack + 4)
    return LoopsOfAttention(stack, (row, term), (key, term), (key, column))


def sums_of_rows(element: Attribute) -> AnyFloat:
    """The type of the sums of rows of floats."""
    assert isinstance(element, AnyFloat), "attention is of floats"
    return f32 if is_half(element) else element


def check_mask(mask: SSAValue | None, scores: Sequence[int]) -> None:
    """Refuse a mask that does not broadcast to scores of a shape."""
    if mask is None:
        return
    shape = tensor_type(mask).get_shape()
    own = scores[len(scores) - len(shape) :] if len(shape) <= len(scores) else None
    if own is None or not all(
        extent == 1 or may_equal(extent, score)
        for extent, score in zip(shape, own, strict=True)
    ):
        raise VerifyException(
            f"a mask of {shape_text(shape)} does not broadcast to scores of "
            f"{shape_text(scores)}"
        )


def order_of(order: Order | None, rank: int) -> Sequence[int]:
    """An order of axes as numbers; as they are if there is none."""
    return tuple(range(rank)) if order is None else order.get_values()


def back(order: Order | None, rank: int) -> Sequence[int]:
    """The order that undoes an order of axes."""
    axes = order_of(order, rank)
    return sorted(range(rank), key=lambda axis: axes[axis])


def reordered(name: str, shape: Sequence[int], order: Order | None) -> list[int]:
    if len(shape) < 2:
        raise VerifyException(f"{name} should have 2 dimensions at least")
    axes = order_of(order, len(shape))
    check_order(name, axes, len(shape))
    return [shape[axis] for axis in axes]


def check_order(name: str, order: Sequence[int], rank: int) -> None:
    """Refuse an order that does not have each axis once."""
    if sorted(order) != list(range(rank)):
        raise VerifyException(
            f"the order of {name} should have each of {rank} axes once, got {[*order]}"
        )
