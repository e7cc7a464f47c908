"""`op.attention`: scaled dot-product attention."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING

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
from xdsl.ir import SSAValue
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

from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.op.axes import I64List
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.verify import may_equal, same_element_type
from penstock.dialects.utils.tensors import (
    broadcast_shapes,
    element_count,
    shape_text,
    tensor_type,
)

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
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

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        order = order_of(self.by, memref_type(outs[0]).get_num_dims())
        shape = [0] * len(order)
        for axis, extent in zip(order, memref_type(outs[0]).get_shape(), strict=True):
            shape[axis] = extent
        *place, depth = shape
        k.parallel(
            place,
            lambda k, at: _Row(self, ins, outs[0], at, depth).build(k),
        )


@dataclass(frozen=True)
class _Row:
    """A row of the result, and the row of queries that it is made for."""

    op: AttentionOp
    ins: Sequence[SSAValue]
    out: SSAValue
    place: Sequence[SSAValue]
    """Where it is in the stack, and its number."""
    depth: int

    def build(self, k: KernelBuilder) -> None:
        """
        Build a loop over keys that carries the largest score and the sum of powers so
        far. The mean so far lies in the result: a new largest score makes it smaller.
        """
        type = memref_type(self.out).element_type
        zero, one, lowest = (k.constant(number, type) for number in (0, 1, -inf))
        k.each(self.depth, lambda k, at: k.store(zero, self.out, self._at(k, at)))

        def turn(
            k: KernelBuilder, key: SSAValue, carried: Sequence[SSAValue]
        ) -> Sequence[SSAValue]:
            before, total = carried
            score = self._score(k, key)
            largest = k.larger(before, score)
            # Nothing may be subtracted from -inf that is -inf itself.
            base = k.select(k.compare("eq", largest, lowest), zero, largest)
            decay, power = k.exp(k.sub(before, base)), k.exp(k.sub(score, base))

            def mix(k: KernelBuilder, at: SSAValue) -> None:
                so_far = k.load(self.out, self._at(k, at))
                value = self._load(k, 2, [key, at])
                new = k.add(k.mul(so_far, decay), k.mul(value, power))
                k.store(new, self.out, self._at(k, at))

            k.each(self.depth, mix)
            return [largest, k.add(k.mul(total, decay), power)]

        _, total = k.loop(k.index(0), self._seen(k), [lowest, zero], turn)
        share = k.div(one, total)

        def finish(k: KernelBuilder, at: SSAValue) -> None:
            mean = k.mul(k.load(self.out, self._at(k, at)), share)
            k.store(mean, self.out, self._at(k, at))

        k.each(self.depth, finish)

    @property
    def _keys(self) -> int:
        shape = memref_type(self.ins[1]).get_shape()
        return shape[order_of(self.op.k_by, len(shape))[-2]]

    def _seen(self, k: KernelBuilder) -> SSAValue:
        """The number of keys that count for the row, from the first one on."""
        keys, offset = k.index(self._keys), self.op.offset
        if offset is None or offset + 1 >= self._keys:
            return keys
        return k.minimum(k.add(self.place[-1], k.index(offset + 1)), keys)

    def _score(self, k: KernelBuilder, key: SSAValue) -> SSAValue:
        """The score of a key for the row of queries."""
        type = memref_type(self.out).element_type
        shape = memref_type(self.ins[0]).get_shape()
        width = shape[order_of(self.op.q_by, len(shape))[-1]]

        def add(k: KernelBuilder, at: Sequence[SSAValue], total: SSAValue) -> SSAValue:
            q = self._load(k, 0, [self.place[-1], *at])
            return k.add_term(total, k.mul(q, self._load(k, 1, [key, *at])))

        bounds = [(k.index(0), k.index(width))]
        score = k.accumulate(bounds, k.constant(0, type), add)
        if (scale := self.op.scale.value.data) != 1:
            score = k.mul(score, k.constant(scale, type))
        if len(self.ins) > 3:
            score = k.add(score, self._load(k, 3, [self.place[-1], key]))
        return score

    def _load(self, k: KernelBuilder, number: int, at: Sequence[SSAValue]) -> SSAValue:
        """An element of an operand, given the indices of its last two axes."""
        shape = memref_type(self.ins[number]).get_shape()
        order = order_of(([*self.op.orders[:3], None])[number], len(shape))
        full = [*self.place[:-1], *at]
        full = full[len(full) - len(shape) :]
        indices = list(full)
        for axis, index in zip(order, full, strict=True):
            indices[axis] = k.index(0) if shape[axis] == 1 else index
        return k.load(self.ins[number], indices)

    def _at(self, k: KernelBuilder, column: SSAValue) -> Sequence[SSAValue]:
        """Where an element of the row lies in the result."""
        place = [*self.place, column]
        return [place[axis] for axis in order_of(self.op.by, len(place))]


def scores_of(rows: int, keys: int, offset: int | None) -> int:
    """
    The number of scores that count if row i sees the keys up to number i + `offset`.
    """
    if offset is None:
        return rows * keys
    cut = min(rows, max(0, keys - offset - 1))
    return cut * (cut + 1) // 2 + cut * offset + (rows - cut) * keys


def order_of(order: Order | None, rank: int) -> Sequence[int]:
    """An order of axes as numbers; as they are if there is none."""
    return tuple(range(rank)) if order is None else order.get_values()


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
