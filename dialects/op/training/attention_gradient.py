"""`op.attention_gradient`: the gradients of attention without a matrix of scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import (
    AnyFloat,
    FloatAttr,
    IntegerAttr,
    TensorType,
    f64,
    i64,
)
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.ir.affine import AffineMap
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
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.attention_gradient import (
    AttentionGradientOp as AttentionGradientOfKernelOp,
)
from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.kernel.scores import scores_of
from penstock.dialects.op.attention import (
    Order,
    back,
    check_mask,
    check_order,
    loops_of_attention,
    order_of,
    reordered,
    score_region,
    sums_of_rows,
)
from penstock.dialects.op.axes import I64List
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.verify import same_element_type
from penstock.dialects.utils.gradients import NO_SECOND
from penstock.dialects.utils.tensors import (
    are_compatible,
    broadcast_shapes,
    element_count,
    shape_text,
    tensor_type,
)

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array


@irdl_op_definition
class AttentionGradientOp(TensorOp):
    """
    The gradients of `op.attention` by its queries, keys and values, from `grad`, that
    of its result, and two numbers of each row: `lse`, its second result, and `delta`,
    the sum of the products of its result with `grad`, less the gradient of `lse`.

    Shares are made again of queries, keys and `lse`, block by block, so that no matrix
    of scores is in memory. Each result has the shape of its operand, over which
    broadcast stacks are added up. Numbers of rows and results are `f32` for `f16` and
    `bf16`, else of the element type; `lse` is not less than a score of its row.

    ```mlir
    %dq, %dk, %dv = op.attention_gradient %q, %k, %v, %g, %l, %d causal 0 scale 0.5
      : tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x4x6xf32>, tensor<2x4x6xf32>,
        tensor<2x4xf32>, tensor<2x4xf32>
      -> tensor<2x4x8xf32>, tensor<2x4x8xf32>, tensor<2x4x6xf32>
    ```
    """

    name = "op.attention_gradient"
    NO_GRADIENT: ClassVar = NO_SECOND

    q = operand_def(TensorType)
    k = operand_def(TensorType)
    v = operand_def(TensorType)
    grad = operand_def(TensorType)
    lse = operand_def(TensorType)
    delta = operand_def(TensorType)
    mask = opt_operand_def(TensorType)
    causal = opt_prop_def(IntegerAttr.constr(eq(i64), value=AtLeast(0)))
    scale = prop_def(FloatAttr.constr(eq(f64)), default_value=FloatAttr(1.0, f64))
    q_by = opt_prop_def(I64List)
    k_by = opt_prop_def(I64List)
    v_by = opt_prop_def(I64List)
    by = opt_prop_def(I64List)
    q_grad = result_def(TensorType)
    k_grad = result_def(TensorType)
    v_grad = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$q `,` $k `,` $v `,` $grad `,` $lse `,` $delta (`mask` $mask^)? "
        "(`causal` $causal^)? (`scale` $scale^)? "
        "(`q_by` $q_by^)? (`k_by` $k_by^)? (`v_by` $v_by^)? (`by` $by^)? attr-dict "
        "`:` type($q) `,` type($k) `,` type($v) `,` type($grad) `,` type($lse) `,` "
        "type($delta) (`mask` type($mask)^)? "
        "`->` type($q_grad) `,` type($k_grad) `,` type($v_grad)"
    )

    @property
    def orders(self) -> list[Order | None]:
        """The permutations of the axes of queries, keys, values and the gradient."""
        return [self.q_by, self.k_by, self.v_by, self.by]

    @property
    def offset(self) -> int | None:
        """The number of keys past its own that a row sees; all of them if None."""
        return None if self.causal is None else self.causal.value.data

    def _matrices(self) -> list[list[int]]:
        """The shapes of queries, keys, values, and the gradient as matrices."""
        operands = zip(
            ("q", "k", "v", "the gradient"),
            (self.q, self.k, self.v, self.grad),
            [*self.orders[:3], None],
            strict=True,
        )
        q, k, v, grad = (
            reordered(name, tensor_type(value).get_shape(), order)
            for name, value, order in operands
        )
        order = order_of(self.by, len(grad))
        check_order("the gradient", order, len(grad))
        return [q, k, v, [grad[axis] for axis in back(self.by, len(grad))]]

    def infer_types(self) -> Sequence[TensorType]:
        given = [self.q, self.k, self.v, self.grad]
        masks = [] if self.mask is None else [self.mask]
        element = same_element_type([*given, *masks])
        if not isinstance(element, AnyFloat):
            raise VerifyException(f"attention is for floats, got {element}")
        q, k, v, grad = self._matrices()
        stack = broadcast_shapes([q[:-2], k[:-2], v[:-2]])
        wide = sums_of_rows(element)
        rows = TensorType(wide, [*stack, q[-2]])
        for name, value in (("lse", self.lse), ("delta", self.delta)):
            if not are_compatible(value.type, rows):
                raise VerifyException(f"{name} should be {rows}, got {value.type}")
        wanted = TensorType(element, [*stack, q[-2], v[-1]])
        if not are_compatible(TensorType(element, grad), wanted):
            raise VerifyException(
                f"the gradient should be of {shape_text(wanted.get_shape())} elements "
                f"as matrices, got {shape_text(grad)}"
            )
        if (q[-1], k[-2]) != (k[-1], v[-2]):
            raise VerifyException(
                f"queries, keys and values of {shape_text(q[-2:])}, "
                f"{shape_text(k[-2:])} and {shape_text(v[-2:])} do not fit"
            )
        check_mask(self.mask, [*stack, q[-2], k[-2]])
        return [TensorType(wide, tensor_type(value).get_shape()) for value in given[:3]]

    def flops(self) -> int:
        # Five products, and what makes scores, shares and their gradients.
        _, (*_, keys, width), _, (*stack, rows, depth) = self._matrices()
        count = element_count(TensorType(f64, stack))
        scores = scores_of(rows, keys, self.offset)
        return count * scores * (6 * width + 4 * depth + 9)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        q, k, v = (
            operand.transpose(order_of(order, operand.ndim))
            for operand, order in zip(operands[:3], self.orders[:3], strict=True)
        )
        grad = operands[3].transpose(back(self.by, operands[3].ndim))
        lse, delta = (operand[..., None] for operand in operands[4:6])
        scale = q.dtype.type(self.scale.value.data)
        scores = np.matmul(q, k.swapaxes(-1, -2)) * scale
        for mask in operands[6:]:
            scores = scores + mask
        if self.offset is not None:
            hidden = np.triu(np.ones(scores.shape[-2:], np.bool_), self.offset + 1)
            scores[..., hidden] = -np.inf
        with np.errstate(invalid="ignore"):
            shares = np.exp(scores - lse)
            of_scores = shares * (np.matmul(grad, v.swapaxes(-1, -2)) - delta)
        found = (
            np.matmul(of_scores, k) * scale,
            np.matmul(of_scores.swapaxes(-1, -2), q) * scale,
            np.matmul(shares.swapaxes(-1, -2), grad),
        )
        return [
            _added(value, tensor_type(own).get_shape(), order)
            for value, own, order in zip(
                found, (self.q, self.k, self.v), self.orders[:3], strict=True
            )
        ]

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        shapes = [memref_type(value).get_shape() for value in ins]
        masks = ins[6:]
        keys = shapes[1]
        count = keys[order_of(self.k_by, len(keys))[-2]]
        is_cut = self.offset is not None and self.offset + 1 < count
        k.effect(
            AttentionGradientOfKernelOp(
                ins[:6],
                masks,
                outs,
                self._maps(shapes),
                self._score(memref_type(outs[0]).element_type, masks),
                self.offset if is_cut else None,
            )
        )

    def _maps(self, shapes: Sequence[Sequence[int]]) -> Sequence[AffineMap]:
        q, k, v, grad, *_ = shapes
        loops = loops_of_attention(len(grad) - 2)
        ins = [
            loops.of_matrix(shape, order, ends)
            for shape, order, ends in zip(
                (q, k, v),
                self.orders[:3],
                (loops.queries, loops.keys, loops.values),
                strict=True,
            )
        ]
        rows = loops.of_rows()
        masks = [loops.of_mask(shape) for shape in shapes[6:]]
        return [*ins, loops.of_result(self.by), rows, rows, *masks, *ins]

    def _score(self, type: Attribute, masks: Sequence[SSAValue]) -> Region:
        """The sum, scaled and with the mask added, and its derivative."""
        return score_region(
            type,
            [memref_type(value).element_type for value in masks],
            self.scale.value.data,
            has_slope=True,
        )


def _added(value: Array, shape: Sequence[int], order: Order | None) -> Array:
    """A gradient as its operand lies, added up over stacks that were broadcast."""
    import numpy as np

    own = [shape[axis] for axis in order_of(order, len(shape))]
    lead = value.ndim - len(own)
    added = tuple(range(lead))
    value = np.sum(value, added) if added else value
    spread = tuple(n for n, extent in enumerate(own) if extent != value.shape[n])
    value = np.sum(value, spread, keepdims=True) if spread else value
    return np.ascontiguousarray(value.transpose(back(order, len(own))))
