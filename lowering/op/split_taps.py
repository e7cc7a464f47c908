"""
Dilated convolutions tap by tap: a sum of products with the pixels that each tap hits.

A tap of a window that is dilated as much as images are large lies in the padding for
most windows. So a convolution becomes one of 1 x 1 for each tap that hits the image, of
the lines and columns that it hits (`op.slice`); their results, with zeros where the tap
lies in the padding (`op.pad`), are added up, and so is the bias. The weights of a tap
are a `part` of their variable from its loading on. Taps that hit nothing are left out.

A convolution is replaced if at least `least_share` percent of the taps of all windows
lie in the padding, and there are at least 32 channels on both sides, so that products
take longer than all that is around them; if it is of `f32` or `f64`, has one group,
channels ahead of lines and columns, known extents, runs on a single `cpu`, and has no
attribute but a placement; and if its weights are a variable, the only one of its name
in the module, that nothing else reads.

Example: `test/lowering/op/op-split-taps-example.mlir`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32, f64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.job import JobOp, VariableOp, placement_of
from penstock.dialects.kernel.windows import Window
from penstock.dialects.op.axes import int_list
from penstock.dialects.op.elementwise import AddOp
from penstock.dialects.op.movement import ReshapeOp
from penstock.dialects.op.padding import PadOp
from penstock.dialects.op.slicing import SliceOp
from penstock.dialects.op.windows.convolution import Conv2dOp
from penstock.dialects.utils.attributes import carry, own_attributes
from penstock.dialects.utils.tensors import tensor_type
from penstock.lowering.analysis.body_jobs import jobs_and_bodies
from penstock.lowering.analysis.op_devices import kind_of

MIN_CHANNELS = 32
"""The least channels of images and results for which products take most of the time."""


class Hits(NamedTuple):
    """The windows along an axis whose tap of some number hits the image, and where."""

    tap: int
    windows: range
    pixels: range


def hits_of(window: Window, extent: int) -> list[Hits]:
    """The hits of each tap along an axis, but of those that hit nothing."""
    found: list[Hits] = []
    for tap in range(window.taps):
        places = [
            index * window.stride - window.before + tap * window.dilation
            for index in range(window.count(extent))
        ]
        inside = [index for index, at in enumerate(places) if 0 <= at < extent]
        if inside:
            first, last = inside[0], inside[-1]
            pixels = range(places[first], places[last] + 1, window.stride)
            found.append(Hits(tap, range(first, last + 1), pixels))
    return found


def share_of_pads(op: Conv2dOp) -> float:
    """The share of the taps of all windows that lie in the padding."""
    taps, inside = 1, 1
    for window, extent in zip(op.windows, op.image_shape[2:], strict=True):
        taps *= window.count(extent) * window.taps
        inside *= window.count_taps(extent)
    return 1 - inside / taps


def is_worth_it(op: Conv2dOp, least_share: int) -> bool:
    """Whether a convolution has products to leave out, and enough of others."""
    types = [tensor_type(value) for value in (*op.operands, op.result)]
    if not all(type.has_static_shape() for type in types):
        return False
    if set(own_attributes(op)) - {"placement"} or op.groups.value.data != 1:
        return False
    if op.input_last is not None or op.result_last is not None:
        return False
    if types[0].element_type not in (f32, f64) or 0 in types[-1].get_shape():
        return False
    if min(types[1].get_shape()[:2]) < MIN_CHANNELS:
        return False
    share = share_of_pads(op)
    return least_share <= 100 * share and share < 1


def weights_of(op: Conv2dOp, ports: Counter[str]) -> VariableOp | None:
    """The variable that only a convolution reads, if its weights are one."""
    variable = op.weights.owner
    if not isinstance(variable, VariableOp) or ports[variable.port.data] > 1:
        return None
    given = variable.offsets, variable.winograd, variable.cuts
    is_whole = all(fact is None for fact in given)
    return variable if is_whole and len([*op.weights.uses]) == 1 else None


@dataclass(frozen=True)
class Rewrite:
    """A convolution with the variable of its weights, to be replaced."""

    op: Conv2dOp
    variable: VariableOp

    def run(self) -> None:
        """Replace the convolution and the variable."""
        op = self.op
        *_, height, width = op.image_shape
        down, across = (
            hits_of(window, extent)
            for window, extent in zip(op.windows, (height, width), strict=True)
        )
        pairs = [(line, column) for line in down for column in across]
        # A sum that needs no zeros around it comes first.
        pairs.sort(key=lambda pair: -len(pair[0].windows) * len(pair[1].windows))
        total, *others = (self._placed(*pair) for pair in pairs)
        for other in others:
            total = self._add(AddOp.of(total, other))
        if op.bias is not None:
            (outputs,) = tensor_type(op.bias).get_shape()
            bias = self._add(ReshapeOp(op.bias, [outputs, 1, 1]))
            total = self._add(AddOp.of(total, bias))
        assert isinstance(total.owner, Operation), "has been made above"
        carry(op, total.owner)
        total.name_hint = op.result.name_hint
        op.result.replace_all_uses_with(total)
        Rewriter.erase_op(op)
        Rewriter.erase_op(self.variable)

    def _placed(self, line: Hits, column: Hits) -> SSAValue:
        """The products of one tap, with zeros where it lies in the padding."""
        op = self.op
        extents, hits = tensor_type(op.result).get_shape()[2:], (line, column)
        pixels = self._pixels(line.pixels, column.pixels)
        weights = self._weights(line.tap, column.tap)
        found = self._add(Conv2dOp.of(pixels, weights))
        before = [0, 0, *(hit.windows.start for hit in hits)]
        after = [
            0,
            0,
            *(n - hit.windows.stop for n, hit in zip(extents, hits, strict=True)),
        ]
        return self._add(PadOp(found, before, after)) if any(before + after) else found

    def _pixels(self, lines: range, columns: range) -> SSAValue:
        """The pixels that one tap hits."""
        images, channels, *extents = self.op.image_shape
        if [lines, columns] == [*map(range, extents)]:
            return self.op.input
        sides = lines, columns
        starts = [0, 0, *(side.start for side in sides)]
        ends = [images, channels, *(side.stop for side in sides)]
        steps = [1, 1, *(side.step for side in sides)]
        return self._add(SliceOp(self.op.input, starts, ends, steps))

    def _weights(self, line: int, column: int) -> SSAValue:
        """The weights of one tap, as a part of the variable."""
        variable = self.variable
        outputs, channels, *_ = variable.shape
        element = tensor_type(variable.result).element_type
        part = VariableOp.create(
            properties={
                **variable.properties,
                "offsets": int_list([0, 0, line, column]),
                "whole": int_list(variable.shape),
            },
            attributes=variable.attributes,
            result_types=[TensorType(element, [outputs, channels, 1, 1])],
            location=variable.location,
        )
        part.result.name_hint = variable.result.name_hint
        Rewriter.insert_op(part, InsertPoint.before(variable))
        return part.result

    def _add(self, made: Operation) -> SSAValue:
        """Insert an op before the convolution, where that one runs; its result."""
        if placement := self.op.attributes.get("placement"):
            made.attributes["placement"] = placement
        made.location = self.op.location
        Rewriter.insert_op(made, InsertPoint.before(self.op))
        return made.results[0]


def split_taps(
    job: JobOp, ports: Counter[str], least_share: int, device: str | None = None
) -> None:
    """
    Split the convolutions of a job, which may be moved to a device, for which that is
    worth it; `ports` counts the variables of a module by name.
    """
    for op in [*job.body.block.ops]:
        if not isinstance(op, Conv2dOp) or not is_worth_it(op, least_share):
            continue
        if kind_of(op, job, device) != "cpu":
            continue
        if placement_of(op, job).single_device() is None:
            continue
        if (variable := weights_of(op, ports)) is not None:
            Rewrite(op, variable).run()


@dataclass(frozen=True)
class OpSplitTapsPass(ModulePass):
    """
    Replace convolutions, many of whose taps lie in the padding, by sums of products
    with the pixels that each tap hits.
    """

    name = "op-split-taps"

    device: str | None = None
    """The kind of device that `job-place` will move jobs to, if it will."""

    least_share: int = 10
    """The least percentage of taps in the padding for which a convolution is split."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if not 1 <= self.least_share <= 100:
            raise PassFailedException(
                f"least-share must be 1 to 100 percent, got {self.least_share}"
            )
        ports = Counter(
            inner.port.data for inner in op.walk() if isinstance(inner, VariableOp)
        )
        for job in jobs_and_bodies(op):
            split_taps(job, ports, self.least_share, self.device)
