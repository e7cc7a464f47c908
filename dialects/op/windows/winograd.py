"""
Input and output transforms of Winograd convolution F(4x4, 3x3), as ops on tiles.

The pass `op-use-winograd` replaces convolutions by a split, 36 matmuls and a join, with
the matrices `SPLIT` and `JOIN`. Weights are transformed when they are loaded, with a
matrix G that is not in the IR (`penstock.runtime.loading.weight_layout`).

A convolution of stride 1 with 3 x 3 weights g is done on tiles of m x m results, each
from (m + 2) x (m + 2) elements d of a channel: A' [ sum over channels of (G g G') * (B'
d B) ] A, where * multiplies element by element (A', B', G' are the transposes). That is
(m + 2)^2 products a tile and pair of channels instead of 9 m^2.

The sum of the absolute values of all that is added on the way, times the rounding of
one operation and the number of operations that a term goes through, bounds the error:
`(channels + 4 (m + 2) + 8) eps |A'| [sum (|G| |g| |G'|) * (|B'| |d| |B|)] |A|`. For
random images and m = 4 that is at most about 1e-5 of the largest result in `f32`, where
direct convolution has 1e-6; a result that is small among large ones may have no correct
digit. An infinity or NaN makes the whole tile NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr, AffineMap
from xdsl.irdl import (
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.kernel.builder import memref_type
from penstock.dialects.kernel.finish_builder import Finish
from penstock.dialects.kernel.interface import element_of
from penstock.dialects.kernel.tile_transform import TileTransformOp
from penstock.dialects.op.axes import I64Attr
from penstock.dialects.op.elementwise import FLOATS
from penstock.dialects.op.tensor_op import ContractionOp, Ending, TensorOp
from penstock.dialects.op.verify import check_rank, check_shape, same_element_type
from penstock.dialects.utils.tensors import element_count, tensor_type

if TYPE_CHECKING:
    from penstock.dialects.kernel.builder import KernelBuilder
    from penstock.dialects.kernel.sums import Operand
    from penstock.dialects.utils.tensors import Array

SPLIT: tuple[tuple[float, ...], ...] = (
    (4, 0, -5, 0, 1, 0),
    (0, -4, -4, 1, 1, 0),
    (0, 4, -4, -1, 1, 0),
    (0, -2, -1, 2, 1, 0),
    (0, 2, -1, -2, 1, 0),
    (0, 4, 0, -5, 0, 1),
)
"""B' for tiles of 4 x 4 results, from the points 0, 1, -1, 2, -2 and infinity."""

JOIN: tuple[tuple[float, ...], ...] = (
    (1, 1, 1, 1, 1, 0),
    (0, 1, -1, 2, -2, 0),
    (0, 1, 1, 4, 4, 0),
    (0, 1, -1, 8, -8, 1),
)
"""A' for tiles of 4 x 4 results."""

RESULTS = len(JOIN)
"""m: the results of a tile on each axis."""


MADE_LATER = "gradients are added before convolutions are made of it"


@irdl_op_definition
class WinogradSplitOp(TensorOp):
    """
    B' d B of each tile d of images [n, channels, h, w], for a matrix B' [s, s]. Tiles
    have s x s elements and begin `step` elements after each other; elements left at the
    end of an image are in none. The result is [s, s, channels, n, tiles down, tiles
    across].

    ```mlir
    %v = op.winograd_split %b, %x step 4
      : tensor<6x6xf32>, tensor<1x3x10x14xf32> -> tensor<6x6x3x1x2x3xf32>
    ```
    """

    name = "op.winograd_split"
    NO_GRADIENT: ClassVar = MADE_LATER

    matrix = operand_def(TensorType)
    input = operand_def(TensorType)
    step = prop_def(I64Attr)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$matrix `,` $input `step` $step attr-dict "
        "`:` type($matrix) `,` type($input) `->` type($result)"
    )

    def __init__(self, matrix: SSAValue, input: SSAValue, step: int):
        self.call(matrix, input, step=step)

    def infer_types(self) -> Sequence[TensorType]:
        return (_split_type(self.matrix, self.input, self.step.value.data),)

    def flops(self) -> int:
        size = tensor_type(self.matrix).get_shape()[0]
        return 4 * size * element_count(self.result.type)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        matrix, input = operands
        size, step = len(matrix), self.step.value.data
        tiles = np.lib.stride_tricks.sliding_window_view(input, (size, size), (2, 3))
        # [channels, n, down, across, size, size], with s x s matrices at the end.
        tiles = tiles[:, :, ::step, ::step].transpose(1, 0, 2, 3, 4, 5)
        found = np.matmul(np.matmul(matrix, tiles), matrix.T)
        return (np.ascontiguousarray(found.transpose(4, 5, 0, 1, 2, 3)),)

    def build_kernel(
        self, k: KernelBuilder, ins: Sequence[SSAValue], outs: Sequence[SSAValue]
    ) -> None:
        step = self.step.value.data
        dims = [AffineExpr.dimension(index) for index in range(8)]
        i, j, channel, image, down, across, row, column = dims
        place = image, channel, down * step + row, across * step + column
        _build_transform(k, ins, outs, ((i, row), (j, column), place, dims[:6]))


@irdl_op_definition
class WinogradJoinOp(ContractionOp):
    """
    A' m A of each tile m of [s, s, channels, n, tiles down, tiles across], for a matrix
    A' [r, s], plus a bias [channels] if there is one: images [n, channels, h, w] of
    tiles of r x r elements.

    ```mlir
    %y = op.winograd_join %a, %m
      : tensor<4x6xf32>, tensor<6x6x5x1x2x3xf32> -> tensor<1x5x8x12xf32>
    ```
    """

    name = "op.winograd_join"
    NO_GRADIENT: ClassVar = MADE_LATER

    matrix = operand_def(TensorType)
    tiles = operand_def(TensorType)
    bias = opt_operand_def(TensorType)
    result = result_def(TensorType)

    traits = traits_def(Pure())

    assembly_format = (
        "$matrix `,` $tiles (`,` $bias^)? attr-dict "
        "`:` type($matrix) `,` type($tiles) (`,` type($bias)^)? `->` type($result)"
    )

    def __init__(self, matrix: SSAValue, tiles: SSAValue, bias: SSAValue | None):
        self.call(matrix, tiles, bias)

    def infer_types(self) -> Sequence[TensorType]:
        _ = same_element_type(self.operands)
        result = _join_type(self.matrix, self.tiles)
        if self.bias is not None:
            check_shape("the bias", tensor_type(self.bias), [result.get_shape()[1]])
        return (result,)

    def flops(self) -> int:
        size = tensor_type(self.matrix).get_shape()[1]
        return 4 * size * element_count(self.result.type)

    def evaluate(self, *operands: Array) -> Sequence[Array]:
        import numpy as np

        matrix, tiles, *bias = operands
        # [n, channels, down, across, size, size]
        found = tiles.transpose(3, 2, 4, 5, 0, 1)
        found = np.matmul(np.matmul(matrix, found), matrix.T)
        shape = tensor_type(self.result).get_shape()
        result = found.transpose(0, 1, 2, 4, 3, 5).reshape(shape)
        for addend in bias:
            result = np.add(result, addend[:, None, None])
        return (result,)

    def build_sums(
        self,
        k: KernelBuilder,
        ins: Sequence[SSAValue],
        outs: Sequence[SSAValue],
        ending: Ending,
    ) -> None:
        matrix, tiles, *bias = ins
        results = memref_type(matrix).get_shape()[0]
        *_, channels, images, down, across = memref_type(tiles).get_shape()
        shape = [images, channels, down, results, across, results]
        dims = [AffineExpr.dimension(index) for index in range(8)]
        image, channel, y, i, x, j, row, column = dims
        result = image, channel, y * results + i, x * results + j
        finish = Finish(element_of(outs[0]))
        ending.build(finish, AffineMap(8, 0, result))
        _build_transform(
            k,
            (matrix, tiles),
            [k.view(out, shape) for out in outs],
            ((i, row), (j, column), (row, column, channel, image, y, x), dims[:6]),
            [(value, AffineMap(8, 0, (channel,))) for value in bias],
            finish,
        )


def _static_shape(what: str, value: SSAValue) -> tuple[int, ...]:
    if not (type := tensor_type(value)).has_static_shape():
        raise VerifyException(f"{what} should have a known shape, got {type}")
    return type.get_shape()


def _split_type(matrix: SSAValue, input: SSAValue, step: int) -> TensorType:
    element = same_element_type((matrix, input))
    FLOATS.verify(tensor_type(matrix))
    check_rank("the matrix", tensor_type(matrix), 2)
    check_rank("the input", tensor_type(input), 4)
    size, width = _static_shape("the matrix", matrix)
    if size != width:
        raise VerifyException(f"the matrix should be square, got {size} x {width}")
    images, channels, *extents = _static_shape("the input", input)
    if step < 1:
        raise VerifyException(f"the step should be at least 1, got {step}")
    if min(extents) < size:
        raise VerifyException(
            f"tiles of {size} x {size} elements do not fit into images of "
            f"{extents[0]} x {extents[1]}"
        )
    tiles = [(extent - size) // step + 1 for extent in extents]
    return TensorType(element, [size, size, channels, images, *tiles])


def _join_type(matrix: SSAValue, tiles: SSAValue) -> TensorType:
    element = same_element_type((matrix, tiles))
    FLOATS.verify(tensor_type(matrix))
    check_rank("the matrix", tensor_type(matrix), 2)
    check_rank("the tiles", tensor_type(tiles), 6)
    results, size = _static_shape("the matrix", matrix)
    *of_tiles, channels, images, down, across = _static_shape("the tiles", tiles)
    if of_tiles != [size, size]:
        raise VerifyException(
            f"a matrix of {size} columns does not fit tiles of "
            f"{of_tiles[0]} x {of_tiles[1]} elements"
        )
    return TensorType(element, [images, channels, down * results, across * results])


def _build_transform(
    k: KernelBuilder,
    ins: Sequence[SSAValue],
    outs: Sequence[SSAValue],
    exprs: Sequence[Sequence[AffineExpr]],
    start: Sequence[Operand] = (),
    finish: Finish | None = None,
) -> None:
    """
    `out = start + P Q d`, with loops of 6 dimensions of the result, and 2 of terms:
    `exprs` are the places in the matrix as P and as Q, in d, and in the result.
    """
    matrix, source = ins
    p, q, d, out = (AffineMap(8, 0, tuple(places)) for places in exprs)
    extra = [] if finish is None else finish.operands
    others = [*start, *extra]
    op = TileTransformOp(
        (matrix, matrix, source),
        outs,
        [p, q, d, *[out] * len(outs), *(map for _, map in others)],
        start=start[0][0] if start else None,
        extra=[value for value, _ in extra],
        finish=None if finish is None else finish.region(),
    )
    k.effect(op)
