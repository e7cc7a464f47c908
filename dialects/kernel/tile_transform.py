"""`kernel.tile_transform`: tiles between two matrices, as Winograd convolution has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    MemRefType,
)
from xdsl.ir import Attribute, Region, SSAValue
from xdsl.ir.affine import AffineMap
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.interface import Alias, element_of, listed
from penstock.dialects.kernel.sums import SumOp, extended

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array

P, Q, D, OUT = range(4)
"""The operands by their numbers."""
ROLES = {
    (P, OUT): ("row", "a loop of rows, of p and the result only"),
    (P, D): ("row_term", "a loop of terms of rows, of p and the tiles only"),
    (Q, OUT): ("column", "a loop of columns, of q and the result only"),
    (Q, D): ("column_term", "a loop of terms of columns, of q and the tiles only"),
}
"""The one loop that two operands have, and no other one, with the words for it."""


@irdl_op_definition
class TileTransformOp(SumOp):
    """
    `P d Q'` of each tile `d`, for matrices `P` and `Q`:
    `out[i, j, t] = start + sum p[i, k] * q[j, l] * d[k, l, t]`.

    The maps say what each loop is: one of `p` and the result has *rows*, one of `p` and
    the tiles *terms of rows*, one of `q` and the result *columns*, and one of `q` and
    the tiles *terms of columns*; the others are of the tiles and the result, and count
    tiles. Sums begin with the elements of `start`, or with 0, and are of the type of
    the elements, or `f32` for halves. Terms may be added in any order, and rows and
    columns be summed one after the other. The region ends the sums, as that of
    `kernel.contract` does.

    ```mlir
    kernel.tile_transform indexing_maps = [
        affine_map<(i, j, t, k, l) -> (i, k)>, affine_map<(i, j, t, k, l) -> (j, l)>,
        affine_map<(i, j, t, k, l) -> (k, l, t)>,
        affine_map<(i, j, t, k, l) -> (t, i, j)>, affine_map<(i, j, t, k, l) -> (t)>]
      ins(%a, %a, %m : memref<4x6xf32>, memref<4x6xf32>, memref<6x6x9xf32>)
      outs(%y : memref<9x4x4xf32>) start(%c : memref<9xf32>)
    ```
    """

    name = "kernel.tile_transform"
    FACTORS: ClassVar[int] = OUT

    indexing_maps = prop_def(ArrayAttr[AffineMapAttr])
    p = operand_def(MemRefType)
    q = operand_def(MemRefType)
    tiles = operand_def(MemRefType)

    assembly_format = (
        "`indexing_maps` `=` $indexing_maps "
        "`ins` `(` $p `,` $q `,` $tiles `:` type($p) `,` type($q) `,` type($tiles) `)` "
        "`outs` `(` $outs `:` type($outs) `)` "
        "(`start` `(` $start^ `:` type($start) `)`)? "
        "(`finish` `(` $extra^ `:` type($extra) `)`)? "
        "attr-dict-with-keyword ($finish^)?"
    )

    def __init__(
        self,
        operands: tuple[SSAValue, SSAValue, SSAValue],
        outs: Sequence[SSAValue],
        maps: Sequence[AffineMap],
        *,
        start: SSAValue | None = None,
        extra: Sequence[SSAValue] = (),
        finish: Region | None = None,
    ) -> None:
        super().__init__(
            operands=[*operands, outs, start, extra],
            properties={"indexing_maps": ArrayAttr(map(AffineMapAttr, maps))},
            regions=[finish],
        )

    def aliases(self) -> Sequence[Alias]:
        # Rows are summed before columns, of a whole tile.
        return ()

    def roles(self) -> Mapping[str, Sequence[int]]:
        used = [map.used_dims() for map in self.maps()[: OUT + 1]]
        loops = range(self.maps()[0].num_dims)
        owners = {
            loop: tuple(number for number, of in enumerate(used) if loop in of)
            for loop in loops
        }
        found = {
            role: [loop for loop in loops if owners[loop] == pair]
            for pair, (role, _) in ROLES.items()
        }
        return {**found, "tile": [x for x in loops if owners[x] == (D, OUT)]}

    def terms(self) -> Sequence[int]:
        roles = self.roles()
        return sorted([*roles["row_term"], *roles["column_term"]])

    def work(self) -> int:
        extents = self.loops().extents
        i, k, j, l, tiles = (  # noqa: E741
            prod(extents[loop] for loop in loops) for loops in self.roles().values()
        )
        return 2 * tiles * (k * j * l + i * k * j) + self.work_of_finish()

    def verify_structure(self) -> None:
        self.verify_results()
        roles = self.roles()
        for role, words in ROLES.values():
            if (count := len(roles[role])) != 1:
                raise VerifyException(f"there should be {words}, got {count}")
        known = {loop for loops in roles.values() for loop in loops}
        for loop in range(self.maps()[0].num_dims):
            if loop not in known:
                raise VerifyException(
                    f"loop {loop} is none of rows, columns, their terms or tiles"
                )
        self.verify_kept()
        elements = [
            element_of(value) for value in (*self.operands[: D + 1], *self.outs)
        ]
        elements += [] if self.start is None else [element_of(self.start)]
        if not isinstance(elements[0], AnyFloat) or len({*elements}) > 1:
            raise VerifyException(
                f"tiles are of floats of one type, got {listed(elements)}"
            )
        self.verify_finish()

    # Meaning

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        from penstock.dialects.kernel.evaluation import (
            dtype_of_scalar,
            view_over_loops,
        )

        extents, maps = self.loops().extents, self.maps()
        dtype = dtype_of_scalar(self.sum_type)

        def over(number: int) -> Array:
            used = maps[number].used_dims()
            own = [n if loop in used else 1 for loop, n in enumerate(extents)]
            return view_over_loops(operands[number], maps[number], own).astype(dtype)

        roles = self.roles()
        with np.errstate(all="ignore"):
            total = over(D)
            for number, role in ((Q, "column_term"), (P, "row_term")):
                axis = tuple(roles[role])
                products = np.multiply(over(number), total)
                total = np.sum(products, axis=axis, keepdims=True)
        return self.finished(total, operands)

    # Loops of upstream ops

    def product(
        self, k: KernelBuilder, factors: Sequence[SSAValue], type: Attribute
    ) -> SSAValue:
        p, q, tile = (extended(k, factor, type) for factor in factors)
        return k.mul(k.mul(p, q), tile)
