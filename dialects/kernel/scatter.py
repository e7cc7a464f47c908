"""`kernel.scatter`: updates, written to the slices of a memref that indices name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, MemRefType, i64
from xdsl.ir import Region, SSAValue
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    region_def,
    traits_def,
)
from xdsl.traits import IsolatedFromAbove
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.body_ops import IndexOp, YieldOp
from penstock.dialects.kernel.indices import (
    IndexedOp,
    Sides,
    checked_place,
    places_from_front,
)
from penstock.dialects.kernel.interface import (
    Effect,
    How,
    Loops,
    element_of,
    listed,
    shape_of,
)
from penstock.dialects.kernel.views import root_of

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array


@irdl_op_definition
class ScatterOp(IndexedOp):
    """
    Updates, the second operand, that are written to the slices of the result along
    `axis` that the first one, the indices, names: in the updates the dimensions of the
    indices stand in place of the axis. All other elements of the result stay.

    The region makes the element that is written of the update and of the element that
    lies there. Updates of one slice are written in the order of their indices: each one
    meets what the one before has left. Negative indices count from the end. An index
    out of range is an error: the loops check each one with `cf.assert`, and earlier
    updates may have been written.

    ```mlir
    kernel.scatter axis 0 ins(%ids, %g : memref<3xi64>, memref<3x8xf32>)
      outs(%table : memref<50x8xf32>) {
    ^bb0(%new: f32, %old: f32):
      %0 = arith.addf %old, %new : f32
      kernel.yield %0 : f32
    }
    ```
    """

    name = "kernel.scatter"

    indices = operand_def(MemRefType)
    updates = operand_def(MemRefType)
    out = operand_def(MemRefType)
    body = region_def("single_block")

    traits = traits_def(IsolatedFromAbove())

    assembly_format = (
        "`axis` $axis `ins` `(` $indices `,` $updates `:` type($indices) `,` "
        "type($updates) `)` `outs` `(` $out `:` type($out) `)` "
        "attr-dict-with-keyword $body"
    )

    def __init__(
        self,
        indices: SSAValue,
        updates: SSAValue,
        out: SSAValue,
        axis: int,
        body: Region,
    ):
        super().__init__(
            operands=[indices, updates, out],
            properties={"axis": IntegerAttr(axis, i64)},
            regions=[body],
        )

    @property
    def sides(self) -> Sides:
        return Sides(self.out, self.indices, self.updates)

    def written(self) -> Sequence[SSAValue]:
        return (self.out,)

    def outs_at(self) -> range:
        return range(0)

    def loops(self) -> Loops:
        """The loops of the maps; updates of one slice depend on each other."""
        ordered = self.roles()["place"]
        extents = super().loops().extents
        return Loops(extents, tuple(loop in ordered for loop in range(len(extents))))

    def work(self) -> int:
        computed = sum(
            not isinstance(op, arith.ConstantOp | YieldOp) for op in self.body.block.ops
        )
        return max(1, computed) * prod(self.loops().extents)

    def effects(self) -> Iterator[Effect]:
        yield from super().effects()
        yield Effect(self.out, How.READ)
        # Of no element it is known that it is written.
        yield Effect(self.out, How.WRITE, 0)

    def verify_structure(self) -> None:
        if root_of(self.out) in map(root_of, (self.indices, self.updates)):
            raise VerifyException("indices and updates must not lie in the result")
        block, element = self.body.block, element_of(self.out)
        wanted = [element_of(self.updates), element]
        if [*block.arg_types] != wanted:
            raise VerifyException(
                f"the region takes {listed(wanted)}, an update and an element of the "
                f"result, got {listed(block.arg_types)}"
            )
        last = block.last_op
        if not isinstance(last, YieldOp) or [*last.operand_types] != [element]:
            raise VerifyException(f"the region should yield one element of {element}")
        for op in block.ops:
            is_scalar = (len(op.results) == 1 and not op.regions) or op is last
            types = (value.type for value in (*op.operands, *op.results))
            touches = any(isinstance(type, MemRefType) for type in types)
            if not is_scalar or touches or isinstance(op, IndexOp):
                raise VerifyException(
                    f"the region computes with two elements alone, got {op.name}"
                )

    # Meaning

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        from penstock.dialects.kernel.evaluation import evaluate_region

        indices, updates, out = operands
        axis, extents = self.axis.value.data, self.loops().extents
        result = out.copy()
        places = places_from_front(indices, out.shape[axis])
        before: tuple[Any, ...] = (slice(None),) * axis
        for at in np.ndindex(indices.shape):
            slices = np.asarray(updates[(*before, *at)]), result[(*before, places[at])]
            (written,) = evaluate_region(self.body.block, slices, extents)
            result[(*before, places[at])] = written
        return (result,)

    def build_loops(self, k: KernelBuilder) -> None:
        loops, extents = self.indexed, self.loops().extents
        others = loops.roles()["element"]

        # Elements of a slice never meet; slices are written in order.
        def write(k: KernelBuilder, at: Sequence[SSAValue]) -> None:
            given = at[: len(others)]
            self._write_in_order(k, given, [], extents[loops.axis : loops.end])

        k.parallel([extents[loop] for loop in others] or [1], write)

    def _write_in_order(
        self,
        k: KernelBuilder,
        others: Sequence[SSAValue],
        at: Sequence[SSAValue],
        left: Sequence[int],
    ) -> None:
        """Loops over the indices, from their first dimension that is left."""
        if left and left[0] == 1:
            self._write_in_order(k, others, [*at, k.index(0)], left[1:])
            return
        if left:
            k.each(
                left[0],
                lambda k, i: self._write_in_order(k, others, [*at, i], left[1:]),
            )
            return
        axis = self.indexed.axis
        extent = shape_of(self.out)[axis]
        place = checked_place(k, k.load(self.indices, at), extent)
        target = [*others[:axis], place, *others[axis:]]
        source = [*others[:axis], *at, *others[axis:]]
        block = self.body.block
        new, old = (bool(argument.uses) for argument in block.args)
        lies = [k.load(self.out, target)] if old else []
        comes = [k.load(self.updates, source)] if new else []
        given = [lambda: comes[0], lambda: lies[0]]
        (written,) = k.inline(block, given)
        k.store(written, self.out, target)
