"""
Convolutions of 3 x 3 weights with fewer products, tile by tile: Winograd's F(4x4, 3x3).

A convolution becomes `op.pad` (of its pads, and up to whole tiles),
`op.winograd_split`, a stack of 36 matmuls, `op.winograd_join` and, where results are no
whole tiles, `op.slice`. Its weights become what the products take when they are loaded.
That is less exact: the error has the bound that `penstock.dialects.op.windows.winograd`
states, in f32 about 1e-5 of the largest result. So this pass is in a pipeline only if
that is allowed.

A convolution is replaced if it has stride 1, no dilations, one group, channels ahead of
lines and columns, and no attribute but a placement; if it is of `f32` or `f64`; if its
weights are a variable (the only one of its name in the module) that only such
convolutions of the same job read; if it has at least 16 channels on both sides and
`min_tiles` tiles; and if tiles save at least half of the products. On several devices
everything stays as it is. Convolutions of one value share the tiles they are made of.

Example: `test/lowering/op/op-use-winograd-example.mlir`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    DenseIntOrFPElementsAttr,
    ModuleOp,
    TensorType,
    f32,
    f64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.job import JobOp, VariableOp, placement_of
from penstock.dialects.job.ports import WINOGRAD_PRODUCTS
from penstock.dialects.op.axes import int_list
from penstock.dialects.op.constant import ConstantOp
from penstock.dialects.op.linear import MatmulOp
from penstock.dialects.op.movement import ReshapeOp
from penstock.dialects.op.padding import PadOp
from penstock.dialects.op.slicing import SliceOp
from penstock.dialects.op.windows.convolution import Conv2dOp
from penstock.dialects.op.windows.winograd import (
    JOIN,
    RESULTS,
    SPLIT,
    WinogradJoinOp,
    WinogradSplitOp,
)
from penstock.dialects.utils.attributes import carry, own_attributes
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.analysis.body_jobs import jobs_and_bodies

MIN_CHANNELS = 16
LEAST_SAVING = 2
"""The least factor by which products should get fewer."""


def tiles_of(op: Conv2dOp) -> tuple[int, int]:
    """The tiles down and across that cover the results of an image."""
    *_, height, width = tensor_type(op.result).get_shape()
    return -(-height // RESULTS), -(-width // RESULTS)


def is_eligible(op: Conv2dOp, min_tiles: int) -> bool:
    """Whether a convolution can be done in tiles, and that is worth it."""
    types = [tensor_type(value) for value in (*op.operands, op.result)]
    if not all(type.has_static_shape() for type in types):
        return False
    if set(own_attributes(op)) - {"placement"}:
        return False
    if op.input_last is not None or op.result_last is not None:
        return False
    if types[0].element_type not in (f32, f64) or 0 in types[-1].get_shape():
        return False
    outputs, channels, *taps = types[1].get_shape()
    if taps != [3, 3] or op.groups.value.data != 1:
        return False
    if any(n != 1 for n in (*op.strides.iter_values(), *op.dilations.iter_values())):
        return False
    images, _, *extents = types[-1].get_shape()
    tiles = prod(tiles_of(op))
    saves = 9 * prod(extents) >= LEAST_SAVING * WINOGRAD_PRODUCTS * tiles
    return (
        saves and min(outputs, channels) >= MIN_CHANNELS and images * tiles >= min_tiles
    )


@dataclass
class Rewrite:
    """The convolutions of a job that are replaced, and what they share."""

    job: JobOp
    min_tiles: int
    made: dict[Hashable, SSAValue] = field(default_factory=dict[Hashable, SSAValue])

    def run(self, ports: Counter[str]) -> None:
        """Replace convolutions; `ports` counts the variables of a module by name."""
        ops = list(self.job.body.block.ops)
        variables: dict[SSAValue, SSAValue] = {
            op.result: self._transformed(op)
            for op in ops
            if isinstance(op, VariableOp)
            and ports[op.port.data] == 1
            and self._is_for_tiles(op)
        }
        for op in ops:
            if isinstance(op, Conv2dOp) and op.weights in variables:
                self._replace(op, variables[op.weights])
        for op in ops:
            if isinstance(op, VariableOp) and op.result in variables:
                Rewriter.erase_op(op)

    def _is_for_tiles(self, variable: VariableOp) -> bool:
        """Whether all that reads a variable, if any, are convolutions to replace."""
        if variable.offsets is not None or variable.winograd is not None:
            return False
        uses = list(variable.result.uses)
        return bool(uses) and all(
            use.index == 1
            and isinstance(use.operation, Conv2dOp)
            and self._is_replaced(use.operation)
            for use in uses
        )

    def _transformed(self, variable: VariableOp) -> SSAValue:
        """
        The transformed weights of a variable for products of tiles, made when that is
        loaded.
        """
        outputs, channels, *_ = variable.shape
        element = tensor_type(variable.result).element_type
        type = TensorType(element, [WINOGRAD_PRODUCTS, outputs, channels])
        weights = VariableOp.create(
            properties={**variable.properties, "winograd": int_list(variable.shape)},
            attributes=variable.attributes,
            result_types=[type],
            location=variable.location,
        )
        weights.result.name_hint = variable.result.name_hint
        Rewriter.insert_op(weights, InsertPoint.before(variable))
        return weights.result

    def _is_replaced(self, op: Conv2dOp) -> bool:
        return (
            is_eligible(op, self.min_tiles)
            and placement_of(op, self.job).single_device() is not None
        )

    def _replace(self, op: Conv2dOp, weights: SSAValue) -> None:
        images, outputs, *extents = tensor_type(op.result).get_shape()
        channels = tensor_type(op.input).get_shape()[1]
        down, across = tiles_of(op)
        products = WINOGRAD_PRODUCTS
        tiles = self._tiles(op, (down, across))
        split = ReshapeOp(tiles, [products, channels, images * down * across])
        product = MatmulOp.of(weights, self._add(op, split))
        size = len(SPLIT)
        shape = [size, size, outputs, images, down, across]
        parts = ReshapeOp(self._add(op, product), shape)
        matrix = self._matrix(op, JOIN)
        join = WinogradJoinOp(matrix, self._add(op, parts), op.bias)
        result = self._add(op, join)
        if extents != [down * RESULTS, across * RESULTS]:
            ends = [images, outputs, *extents]
            result = self._add(op, SliceOp(result, [0] * 4, ends, [1] * 4))
        assert isinstance(result.owner, Operation), "has been made above"
        carry(op, result.owner)
        result.name_hint = op.result.name_hint
        op.result.replace_all_uses_with(result)
        Rewriter.erase_op(op)

    def _tiles(self, op: Conv2dOp, tiles: tuple[int, int]) -> SSAValue:
        """The tiles of a convolution's input, made once for all that need the same."""
        placement = op.attributes.get("placement")
        top, left, *_ = op.pads.get_values()
        key = op.input, top, left, tiles, placement
        if key in self.made:
            return self.made[key]
        *_, height, width = tensor_type(op.input).get_shape()
        needed = [RESULTS * count + 2 for count in tiles]
        after = [needed[0] - height - top, needed[1] - width - left]
        image = op.input
        if any((top, left, *after)):
            pad = PadOp(image, [0, 0, top, left], [0, 0, *after])
            image = self._add(op, pad)
        split = WinogradSplitOp(self._matrix(op, SPLIT), image, RESULTS)
        self.made[key] = self._add(op, split)
        return self.made[key]

    def _matrix(self, op: Conv2dOp, rows: tuple[tuple[float, ...], ...]) -> SSAValue:
        """A constant matrix ahead of a convolution."""
        element = tensor_type(op.input).element_type
        assert isinstance(element, AnyFloat), "others are not replaced"
        type = TensorType(element, [len(rows), len(rows[0])])
        numbers = [float(number) for row in rows for number in row]
        constant = ConstantOp(DenseIntOrFPElementsAttr.from_list(type, numbers))
        return self._add(op, constant)

    def _add(self, op: Conv2dOp, made: Operation) -> SSAValue:
        """Insert an op before a convolution, where that one runs; its result."""
        placement: Attribute | None = op.attributes.get("placement")
        if placement is not None:
            made.attributes["placement"] = placement
        made.location = op.location
        Rewriter.insert_op(made, InsertPoint.before(op))
        return made.results[0]


@dataclass(frozen=True)
class OpUseWinogradPass(ModulePass):
    """
    Convolve with 3 x 3 weights tile by tile, with fewer products and less exact.
    """

    name = "op-use-winograd"

    min_tiles: int = 8
    """The least tiles of a convolution, of all images together."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if self.min_tiles < 1:
            raise PassFailedException(
                f"min-tiles must be at least 1, got {self.min_tiles}"
            )
        ports = Counter(
            inner.port.data for inner in op.walk() if isinstance(inner, VariableOp)
        )
        for job in jobs_and_bodies(op):
            Rewrite(job, self.min_tiles).run(ports)
