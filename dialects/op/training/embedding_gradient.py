"""`op.embedding_gradient`: sums of rows by their indices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.kernel.indices import counted_from_front, place_from_front
from penstock.dialects.op.axes import I64Attr
from penstock.dialects.op.counted.heap_sort import within
from penstock.dialects.op.elementwise import FLOATS
from penstock.dialects.op.movement import check_indices
from penstock.dialects.op.sbp import PARTIAL, SbpSignature, signature
from penstock.dialects.op.tensor_op import TensorOp
from penstock.dialects.op.verify import check_shape
from penstock.dialects.utils.gradients import NO_SECOND
from penstock.dialects.utils.tensors import element_count, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array

MOST_SHARES = 64
"""The most iterations that threads share."""

SHARE_OF = 16
"""The columns of a row in which a thread adds while another one reads its index."""


@irdl_op_definition
class EmbeddingGradientOp(TensorOp):
    """
    The gradient of the `data` of `op.gather` along axis 0, from its indices and the
    gradient of the result: row i is the sum of the rows of `grad` whose index is i, in
    their order, and 0 where there is none. Negative indices count from the end. One
    that is out of range names no row: the op cannot fail, as `op.gather` has before.

    Sums are in the element type. They are the same for any number of threads.

    ```mlir
    %r = op.embedding_gradient %g[%i] rows 9
      : tensor<2x3x4xf32>, tensor<2x3xi64> -> tensor<9x4xf32>
    ```
    """

    name = "op.embedding_gradient"
    NO_GRADIENT: ClassVar = NO_SECOND

    grad = operand_def(TensorType)
    indices = operand_def(TensorType)
    rows = prop_def(I64Attr)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$grad `[` $indices `]` `rows` $rows attr-dict "
        "`:` type($grad) `,` type($indices) `->` type($result)"
    )

    def infer_types(self) -> Sequence[TensorType]:
        grad, indices = tensor_type(self.grad), tensor_type(self.indices)
        FLOATS.verify(grad)
        check_indices(indices)
        rank, shape = indices.get_num_dims(), grad.get_shape()
        if (rows := self.rows.value.data) < 0:
            raise VerifyException(f"there cannot be {rows} rows")
        lead = TensorType(grad.element_type, shape[:rank])
        check_shape("each index has a row: the first axes", lead, indices.get_shape())
        return (TensorType(grad.element_type, [rows, *shape[rank:]]),)

    def flops(self) -> int:
        return element_count(self.grad.type)

    def sbp_signatures(self, devices: int) -> Sequence[SbpSignature]:
        grad, indices = (tensor_type(value).get_num_dims() for value in self.operands)
        columns = range(indices, grad)
        return [
            *(signature([i, i], [PARTIAL]) for i in range(indices)),
            *(signature([c, None], [1 + c - indices]) for c in columns),
            signature([PARTIAL, None], [PARTIAL]),
        ]

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        grad, indices = operands
        rows = self.rows.value.data
        columns = grad.shape[indices.ndim :]
        result = np.zeros((rows, *columns), grad.dtype)
        places = counted_from_front(indices, rows).reshape(-1)
        named = np.greater_equal(places, 0) & np.less(places, rows)
        terms = np.reshape(grad, (len(places), *columns))
        with np.errstate(all="ignore"):
            np.add.at(result, places[named], terms[named])
        return (result,)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        rows, *columns = memref_type(outs[0]).get_shape()
        count, width = prod(memref_type(ins[1]).get_shape()), prod(columns)
        grad, indices = k.view(ins[0], [count, width]), k.view(ins[1], [count])
        out = k.view(outs[0], [rows, width])
        k.fill(out, 0)
        if 0 in (rows, count, width):
            return
        shares = shares_of(width)

        def add(k: KernelBuilder, place: SSAValue, number: SSAValue) -> None:
            def one(k: KernelBuilder, column: SSAValue) -> None:
                term = k.load(grad, [number, column])
                total = k.add(k.load(out, [place, column]), term)
                k.store(total, out, [place, column])

            k.each(width, one)

        def share(k: KernelBuilder, at: Sequence[SSAValue]) -> None:
            # Rows in use often follow each other: neighbours are of different shares.
            def visit(k: KernelBuilder, number: SSAValue) -> None:
                index = place_from_front(k, k.load(indices, [number]), rows)
                place = within(k, index, rows)
                own = k.insert(arith.RemSIOp(place, k.index(shares)))
                is_named = k.compare("eq", index, place)
                is_own = k.insert(arith.AndIOp(is_named, k.compare("eq", own, at[0])))
                k.when(is_own, lambda k: add(k, place, number))

            k.each(count, visit)

        k.parallel([shares], share)


def shares_of(width: int) -> int:
    """
    The number of shares of rows of so many columns: each reads all indices, which
    should not take longer than its sums.
    """
    shares = 1
    while 2 * shares <= MOST_SHARES and 2 * shares * SHARE_OF <= width:
        shares *= 2
    return shares
