"""`kernel.gather`: the slices of a memref that indices name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import IntegerAttr, MemRefType, i64
from xdsl.ir import SSAValue
from xdsl.irdl import irdl_op_definition, operand_def
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.indices import (
    IndexedOp,
    Sides,
    checked_place,
    places_from_front,
)
from penstock.dialects.kernel.interface import (
    Effect,
    How,
    element_of,
    shape_of,
)
from penstock.dialects.kernel.views import root_of

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array


@irdl_op_definition
class GatherOp(IndexedOp):
    """
    The slices of the first operand along `axis` that the second one, the indices,
    names: in the result their dimensions stand in place of the axis.

    Negative indices count from the end. An index out of range is an error: the loops
    check each one with `cf.assert`.

    ```mlir
    kernel.gather axis 0 ins(%table, %ids : memref<50x8xf32>, memref<2x3xi64>)
      outs(%y : memref<2x3x8xf32>)
    ```
    """

    name = "kernel.gather"

    data = operand_def(MemRefType)
    indices = operand_def(MemRefType)
    out = operand_def(MemRefType)

    assembly_format = (
        "`axis` $axis `ins` `(` $data `,` $indices `:` type($data) `,` type($indices) "
        "`)` `outs` `(` $out `:` type($out) `)` attr-dict-with-keyword"
    )

    def __init__(self, data: SSAValue, indices: SSAValue, out: SSAValue, axis: int):
        super().__init__(
            operands=[data, indices, out], properties={"axis": IntegerAttr(axis, i64)}
        )

    @property
    def sides(self) -> Sides:
        return Sides(self.data, self.indices, self.out)

    def outs_at(self) -> range:
        return range(1, 2)

    def work(self) -> int:
        return prod(self.loops().extents)

    def effects(self) -> Iterator[Effect]:
        yield Effect(self.data, How.READ)
        yield from super().effects()

    def verify_structure(self) -> None:
        if element_of(self.data) != element_of(self.out):
            raise VerifyException(
                f"elements of {element_of(self.data)} are gathered as they are, got a "
                f"result of {element_of(self.out)}"
            )
        if root_of(self.data) is root_of(self.out):
            raise VerifyException(
                "the data must not lie where the result does, which is written before "
                "all of it is read"
            )

    # Meaning

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        data, indices, _ = operands
        axis = self.axis.value.data
        places = places_from_front(indices, data.shape[axis])
        return (np.asarray(np.take(data, places, axis)),)

    def build_loops(self, k: KernelBuilder) -> None:
        rank, loops = len(shape_of(self.out)), self.indexed
        extent = shape_of(self.data)[loops.axis]

        def read(k: KernelBuilder, at: Sequence[SSAValue]) -> None:
            index = k.load(self.indices, at[loops.axis : loops.end])
            place = loops.place(at[:rank], checked_place(k, index, extent))
            k.store(k.load(self.data, place), self.out, at[:rank])

        # A loop over no extents is none: a scalar is computed by one iteration.
        k.parallel(shape_of(self.out) or (1,), read)
