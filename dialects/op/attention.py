"""`op.attention`: scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import (
    AnyFloat,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    IntegerType,
    TensorType,
    f64,
    i64,
)
from xdsl.ir import Block, Region, SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    AtLeast,
    eq,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.rewriter import InsertPoint
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.attention import AttentionOp as AttentionOfKernelOp
from penstock.dialects.kernel.attention import scores_of
from penstock.dialects.kernel.body_ops import YieldOp
from penstock.dialects.kernel.builder import KernelBuilder, memref_type
from penstock.dialects.op.axes import I64List
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.verify import may_equal, same_element_type
from penstock.dialects.utils.gradients import (
    GradientBuilder,
    Gradients,
    in_f32,
    only,
)
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
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$q `,` $k `,` $v (`mask` $mask^)? (`causal` $causal^)? (`scale` $scale^)? "
        "(`q_by` $q_by^)? (`k_by` $k_by^)? (`v_by` $v_by^)? (`by` $by^)? attr-dict "
        "`:` type($q) `,` type($k) `,` type($v) (`mask` type($mask)^)? "
        "`->` type($result)"
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
        self._check_mask([*stack, q[-2], k[-2]])
        shape = [*stack, q[-2], v[-1]]
        return (
            TensorType(element, [shape[axis] for axis in self._order_after(shape)]),
        )

    def _stacks(self) -> list[list[int]]:
        """The shapes of queries, keys and values once their axes are reordered."""
        operands = zip("qkv", (self.q, self.k, self.v), self.orders[:3], strict=True)
        return [
            _reordered(name, tensor_type(value).get_shape(), order)
            for name, value, order in operands
        ]

    @property
    def orders(self) -> list[Order | None]:
        """The permutations of the axes of queries, keys, values and the result."""
        return [self.q_by, self.k_by, self.v_by, self.by]

    def _order_after(self, shape: Sequence[int]) -> Sequence[int]:
        order = order_of(self.by, len(shape))
        _check_order("the result", order, len(shape))
        return order

    def _check_mask(self, scores: Sequence[int]) -> None:
        """Refuse a mask that does not broadcast to the scores."""
        if self.mask is None:
            return
        shape = tensor_type(self.mask).get_shape()
        own = scores[len(scores) - len(shape) :] if len(shape) <= len(scores) else None
        if own is None or not all(
            extent == 1 or may_equal(extent, score)
            for extent, score in zip(shape, own, strict=True)
        ):
            raise VerifyException(
                f"a mask of {shape_text(shape)} does not broadcast to scores of "
                f"{shape_text(scores)}"
            )

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
        with np.errstate(invalid="ignore"):
            powers = np.exp(scores - np.max(scores, -1, keepdims=True))
            shares = powers / np.sum(powers, -1, keepdims=True)
            mixed = np.matmul(shares, v)
        mixed = mixed.transpose(order_of(self.by, mixed.ndim))
        return (np.ascontiguousarray(mixed),)

    def gradient(self, o: GradientBuilder, *grads: SSAValue | None) -> Gradients:
        # Scores are computed anew, and are in memory here.
        q, k, v = (
            o.transpose(in_f32(o, value), order_of(order, len(o.shape(value))))
            for value, order in zip(self.operands[:3], self.orders[:3], strict=True)
        )
        grad = in_f32(o, only(grads))
        grad = o.transpose(grad, _back(self.by, len(o.shape(grad))))
        scale = self.scale.value.data
        of_shares = o.matmul(grad, v, transpose_b=True)
        shares = o.broadcast(self._shares(o, q, k), o.shape(of_shares))
        of_scores = o.one("op.softmax_gradient", shares, of_shares)
        found = [
            (q, o.mul(o.matmul(of_scores, k), scale)),
            (k, o.mul(o.matmul(of_scores, q, transpose_a=True), scale)),
            (v, o.matmul(shares, grad, transpose_a=True)),
        ]
        gradients = [
            o.transpose(o.unbroadcast(value, like), _back(order, len(o.shape(like))))
            for (like, value), order in zip(found, self.orders[:3], strict=True)
        ]
        if self.mask is not None:
            gradients.append(o.unbroadcast(of_scores, self.mask))
        return [o.cast(value, o.element(self.q)) for value in gradients]

    def _shares(self, o: GradientBuilder, q: SSAValue, k: SSAValue) -> SSAValue:
        """The weights of values, of queries and keys in the order of matrices."""
        scores = o.mul(o.matmul(q, k, transpose_b=True), self.scale.value.data)
        if self.mask is not None:
            scores = o.add(scores, in_f32(o, self.mask))
        if self.offset is not None:
            ends = o.scalar(0, scores), o.scalar(-inf, scores)
            shape = o.shape(scores)[-2:]
            hidden = o.one("op.triangle", *ends, shape=shape, offset=self.offset)
            scores = o.add(scores, hidden)
        return o.one("op.softmax", scores)

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
            )
        )

    def _maps(self, shapes: Sequence[Sequence[int]]) -> Sequence[AffineMap]:
        """The loops of the stack, then those over rows, keys, terms and columns."""
        stack = len(shapes[-1]) - 2
        row, key, term, column = range(stack, stack + 4)
        ends = [(row, term), (key, term), (key, column)]
        ends += [(row, key)] * (len(shapes) - 4)
        orders = [*self.orders[:3], *[None] * (len(shapes) - 4)]
        maps: list[AffineMap] = []
        for shape, end, order in zip(shapes, ends, orders, strict=False):
            loops = [*range(stack), *end][stack + 2 - len(shape) :]
            exprs = [AffineExpr.constant(0)] * len(shape)
            for axis, loop in zip(order_of(order, len(shape)), loops, strict=True):
                # Those of the last two are as long as the loops; a mask may not be.
                if shape[axis] != 1 or (loop >= stack and len(maps) < 3):
                    exprs[axis] = AffineExpr.dimension(loop)
            maps.append(AffineMap(stack + 4, 0, tuple(exprs)))
        place = [*range(stack), row, column]
        order = order_of(self.by, len(place))
        exprs = [AffineExpr.dimension(place[axis]) for axis in order]
        return [*maps, AffineMap(stack + 4, 0, tuple(exprs))]

    def _causal(self, keys: Sequence[int]) -> int | None:
        """The keys past its own that a row sees, unless all rows see all of them."""
        count = keys[order_of(self.k_by, len(keys))[-2]]
        is_cut = self.offset is not None and self.offset + 1 < count
        return self.offset if is_cut else None

    def _score(self, ins: Sequence[SSAValue], out: SSAValue) -> Region:
        """The sum, scaled and with the mask added."""
        type = memref_type(out).element_type
        masks = [memref_type(value).element_type for value in ins[3:]]
        block = Block(arg_types=[type, *masks])
        k = KernelBuilder(InsertPoint.at_end(block))
        score, *added = block.args
        value: SSAValue = score
        if (scale := self.scale.value.data) != 1:
            value = k.mul(value, k.constant(scale, type))
        for mask in added:
            value = k.add(value, mask)
        k.effect(YieldOp(value))
        return Region(block)


def order_of(order: Order | None, rank: int) -> Sequence[int]:
    """An order of axes as numbers; as they are if there is none."""
    return tuple(range(rank)) if order is None else order.get_values()


def _back(order: Order | None, rank: int) -> Sequence[int]:
    """The order that undoes an order of axes."""
    axes = order_of(order, rank)
    return sorted(range(rank), key=lambda axis: axes[axis])


def _reordered(name: str, shape: Sequence[int], order: Order | None) -> list[int]:
    if len(shape) < 2:
        raise VerifyException(f"{name} should have 2 dimensions at least")
    axes = order_of(order, len(shape))
    _check_order(name, axes, len(shape))
    return [shape[axis] for axis in axes]


def _check_order(name: str, order: Sequence[int], rank: int) -> None:
    """Refuse an order that does not have each axis once."""
    if sorted(order) != list(range(rank)):
        raise VerifyException(
            f"the order of {name} should have each of {rank} axes once, got {[*order]}"
        )
