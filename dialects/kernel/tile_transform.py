"""`kernel.tile_transform`: tiles between two matrices, as Winograd convolution has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import (
    AffineMapAttr,
    AnyFloat,
    ArrayAttr,
    MemRefType,
    f32,
)
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineDimExpr, AffineExpr, AffineMap
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
)
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.interface import StructuredOp, element_of
from penstock.dialects.utils.half_precision import is_half

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.utils.tensors import Array

PARALLEL, REDUCTION = "parallel", "reduction"
P, Q, D, OUT, START = range(5)
"""The operands by their numbers."""
ROLES = {
    (P, OUT): ("row", "a loop of rows, of p and the result only"),
    (P, D): ("row_term", "a loop of terms of rows, of p and the tiles only"),
    (Q, OUT): ("column", "a loop of columns, of q and the result only"),
    (Q, D): ("column_term", "a loop of terms of columns, of q and the tiles only"),
}
"""The one loop that two operands have, and no other one, with the words for it."""


@irdl_op_definition
class TileTransformOp(StructuredOp):
    """
    `P d Q'` of each tile `d`, for matrices `P` and `Q`:
    `out[i, j, t] = start + sum p[i, k] * q[j, l] * d[k, l, t]`.

    The maps say what each loop is: one of `p` and the result has *rows*, one of `p` and
    the tiles *terms of rows*, one of `q` and the result *columns*, and one of `q` and
    the tiles *terms of columns*; the others are of the tiles and the result, and count
    tiles. Sums begin with the elements of `start`, or with 0, and are of the type of
    the elements, or `f32` for halves. Terms may be added in any order, and rows and
    columns be summed one after the other.

    The loops that it stands for round halves in the result, unless all terms follow
    each other.

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

    indexing_maps = prop_def(ArrayAttr[AffineMapAttr])
    p = operand_def(MemRefType)
    q = operand_def(MemRefType)
    tiles = operand_def(MemRefType)
    out = operand_def(MemRefType)
    start = opt_operand_def(MemRefType)

    assembly_format = (
        "`indexing_maps` `=` $indexing_maps "
        "`ins` `(` $p `,` $q `,` $tiles `:` type($p) `,` type($q) `,` type($tiles) `)` "
        "`outs` `(` $out `:` type($out) `)` "
        "(`start` `(` $start^ `:` type($start) `)`)? attr-dict"
    )

    def __init__(
        self,
        operands: tuple[SSAValue, SSAValue, SSAValue],
        out: SSAValue,
        maps: Sequence[AffineMap],
        start: SSAValue | None = None,
    ) -> None:
        super().__init__(
            operands=[*operands, out, start],
            properties={"indexing_maps": ArrayAttr(map(AffineMapAttr, maps))},
        )

    def outs_at(self) -> range:
        return range(OUT, OUT + 1)

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

    def work(self) -> int:
        extents = self.loops().extents
        i, k, j, l, tiles = (  # noqa: E741
            prod(extents[loop] for loop in loops) for loops in self.roles().values()
        )
        return 2 * tiles * (k * j * l + i * k * j)

    def verify_structure(self) -> None:
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
        if self.start is not None:
            map = self.maps()[START]
            if map.used_dims() - self.maps()[OUT].used_dims():
                raise VerifyException(
                    f"the start should not change from term to term, got {map}"
                )
        elements = [element_of(value) for value in self.operands]
        if not isinstance(elements[0], AnyFloat) or len({*elements}) > 1:
            types = ", ".join(str(element) for element in elements)
            raise VerifyException(f"tiles are of floats of one type, got {types}")

    # Meaning

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        from penstock.dialects.kernel.evaluation import (
            dtype_of_scalar,
            view_over_loops,
        )

        extents, reductions = self.loops()
        maps, element = self.maps(), element_of(self.out)
        dtype = dtype_of_scalar(f32 if is_half(element) else element)
        kept = [
            1 if is_term else n for n, is_term in zip(extents, reductions, strict=True)
        ]

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
            if self.start is not None:
                total = np.add(over(START), total)
        result = operands[OUT].copy()
        if 0 not in kept:
            view_over_loops(result, maps[OUT], kept, writeable=True)[...] = total
        return (result,)

    # Loops of upstream ops

    def build_loops(self, k: KernelBuilder) -> None:
        if self.start is None:
            k.fill(self.out, 0)
        else:
            self._build_start(k, self.start)

        def body(k: KernelBuilder, scalars: Sequence[SSAValue]) -> SSAValue:
            p, q, tile, total = scalars
            return k.add(total, k.mul(k.mul(p, q), tile))

        reductions = self.loops().reductions
        iterators = [REDUCTION if is_term else PARALLEL for is_term in reductions]
        ins = self.p, self.q, self.tiles
        k.generic(ins, self.out, self.maps()[: OUT + 1], iterators, body)

    def _build_start(self, k: KernelBuilder, start: SSAValue) -> None:
        """A stage that writes to the result what sums start from."""
        maps = self.maps()
        loops = [
            expr.position
            for expr in maps[OUT].results
            if isinstance(expr, AffineDimExpr)
        ]
        loops += sorted(maps[OUT].used_dims() - {*loops})
        exprs: list[AffineExpr] = [AffineExpr.constant(0)] * maps[0].num_dims
        for at, loop in enumerate(loops):
            exprs[loop] = AffineExpr.dimension(at)
        own = [
            maps[number].replace_dims_and_symbols(exprs, [], len(loops), 0)
            for number in (START, OUT)
        ]
        k.generic([start], self.out, own, [PARALLEL] * len(loops), lambda _, x: x[0])
