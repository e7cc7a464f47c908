"""
Choose the data layout of images: channels first (NCHW) or last (NHWC).

Jobs have images as [n, channels, h, w], and kernels of convolutions read them so. With
channels last, [n, h, w, channels], a 1 x 1 convolution reads and writes whole pixels,
which are contiguous; with channels first it touches a piece of each channel, which all
lie in other pages. This pass chooses between the two for the values inside a job, by
the modelled time of kernels (in products of vectors of 64 bytes, the unit of
`launch-schedule-contractions`):

* *Groups*. Elementwise ops read and write one layout. So the values that they connect,
  of one shape, form a group with one decision. Only groups count that a 1 x 1
  convolution (`op.conv2d` with one group, no pads; `f32` or `f64`) makes or reads. It
  computes any layout of its input from any layout of its result, but with strides only
  results with channels first.
* *The time of a convolution*: that of its tiles; of packing its columns; and, where an
  input or a result has channels first, 1 MiB and channels of 4 KiB or more, 64 products
  for each piece of a channel, which is fetched from another page (twice that if it is
  written). With a result whose channels are last it takes 8 % more, as was measured.
* *The time of a conversion*: 8 products an element, as was measured. One is
  needed for a value that some other op makes, and one for a value that others read.
* *Decision*. All begin with channels first. The layout of a group is changed if that
  makes all of this less, by at least 2 % of the time that the group takes part in, with
  the other groups as they are; until none changes. So no conversion is made that does
  not pay by itself.

Each convolution says in `layouts` the decision for the groups of its input and of its
result, with both sums; one with windows that they are computed with channels first, and
the share of packing in its time: the most that another layout could save.

Ops with an attribute other than a placement stay as they are, and so do those that do
not run on a single `cpu`. Values that have channels last already are left alone.

Example: `test/lowering/op/op-assign-layouts-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil, inf, prod

from xdsl.context import Context
from xdsl.dialects.builtin import (
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    UnitAttr,
    f32,
    f64,
)
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from penstock.dialects.job import JobOp, placement_of
from penstock.dialects.op.movement import TransposeOp
from penstock.dialects.op.tensor_op import ElementwiseOp, TensorOp
from penstock.dialects.op.windows.convolution import Conv2dOp
from penstock.dialects.utils.attributes import own_attributes
from penstock.dialects.utils.tensors import as_tensor, tensor_type
from penstock.lowering.analysis.body_jobs import jobs_and_bodies
from penstock.lowering.codegen.cpu.matmul_schedule import PACKED_ROWS
from penstock.lowering.codegen.cpu.tile_model import (
    PACKING,
    PACKING_APART,
    TRANSPOSING,
    best_edged_tile,
    best_tile,
    strip_time,
    tile_seconds,
)
from penstock.lowering.codegen.cpu.vector_width import REGISTERS

LAYOUTS = "layouts"
"""The decision for a convolution, with figures: an attribute of it."""
VECTOR = 64
"""The bytes of the vectors that are counted."""
FAR, FAR_BYTES, PAGE = 64, 1 << 20, 4096
"""
The time of fetching a piece of another page, and the least bytes of a tensor that does
not stay in L2: measured at 64 -> 256 channels of 56 x 56 pixels.
"""
RESULT_LAST = 1.08
"""The factor on the time of convolutions if the channels of the result are last."""
TO_LAST, TO_FIRST = 8, 8
"""The time of converting an element, in products."""
LEAST_GAIN = 0.02
"""The share of modelled time that a change has to gain."""

################################################################################
# Choice of layouts                                                            #
################################################################################


@dataclass(frozen=True)
class Convolution:
    """A 1 x 1 convolution, by its numbers."""

    images: int
    outputs: int
    channels: int
    pixels: int
    """Of the result, and of one image, as everywhere here."""
    input_pixels: int
    size: int
    """The bytes of an element."""

    @property
    def lanes(self) -> int:
        """The elements of a vector."""
        return VECTOR // self.size

    @property
    def is_strided(self) -> bool:
        """Whether pixels of the input are left out."""
        return self.pixels != self.input_pixels

    def products(self, input_last: bool, result_last: bool) -> float:
        """
        The time of the kernel in products, with channels last or first; inf if there is
        none.
        """
        if not result_last:
            return self.images * self._with_result_first(input_last)
        if self.is_strided:
            return inf
        return self.images * self._with_result_last(input_last)

    def _with_result_first(self, input_last: bool) -> float:
        """Rows are out channels, columns pixels."""
        rows, columns, terms = self.outputs, self.pixels, self.channels
        (_, vectors), time = tiles(rows, columns, terms, self.lanes)
        pieces = ceil(columns / (vectors * self.lanes))
        packing = 0
        if self.is_strided:
            packing = PACKING_APART
        elif input_last:
            packing = TRANSPOSING / self.lanes
        elif rows >= PACKED_ROWS:
            packing = PACKING
        time += packing * terms * ceil(columns / self.lanes)
        if not input_last and self._is_far(terms, self.input_pixels):
            time += FAR * terms * pieces
        if self._is_far(rows, columns):
            time += 2 * FAR * rows * pieces
        return time

    def _with_result_last(self, input_last: bool) -> float:
        """Rows are pixels, columns out channels."""
        rows, columns, terms = self.pixels, self.outputs, self.channels
        (height, vectors), time = tiles(rows, columns, terms, self.lanes)
        time *= RESULT_LAST
        if columns > vectors * self.lanes:
            # Several tiles share a copy of the rows.
            return time + PACKING * terms * ceil(rows / self.lanes)
        if not input_last and self._is_far(terms, rows):
            time += FAR * terms * ceil(rows / height)
        return time

    def _is_far(self, channels: int, pixels: int) -> bool:
        """Whether pieces of channels, which are first, come from another page each."""
        size = pixels * self.size
        return size >= PAGE and self.images * channels * size >= FAR_BYTES


def tiles(
    rows: int, columns: int, terms: int, lanes: int
) -> tuple[tuple[int, int], float]:
    """The rows and vectors of the best tile, and what all tiles take."""
    facts = rows, columns, terms, lanes, REGISTERS[VECTOR]
    tile = best_tile(*facts)
    time = tile_seconds(tile, rows, columns, terms, lanes)
    if (edged := best_edged_tile(*facts)) is None:
        return tile, time
    count = columns // (edged[1] * lanes + 1)
    return edged, count * strip_time(edged, rows, edged[1], terms, 1)


def convolution_of(op: Operation) -> Convolution | None:
    """The numbers of a 1 x 1 convolution, None for any other op."""
    if not isinstance(op, Conv2dOp) or op.input_last or op.result_last:
        return None
    input, result = tensor_type(op.input), tensor_type(op.result)
    if not (is_image(input) and is_image(result)):
        return None
    outputs, channels, *taps = tensor_type(op.weights).get_shape()
    if taps != [1, 1] or op.groups.value.data != 1 or any(op.pads.iter_values()):
        return None
    if result.element_type not in (f32, f64):
        return None
    images, _, *extents = result.get_shape()
    pixels = prod(extents), prod(input.get_shape()[2:])
    size = 4 if result.element_type == f32 else 8
    return Convolution(images, outputs, channels, *pixels, size)


def is_image(type: TensorType | None) -> bool:
    """Whether a type is that of images with elements."""
    if type is None or not type.has_static_shape() or len(type.get_shape()) != 4:
        return False
    return 0 not in type.get_shape()


def packing_share(op: Conv2dOp) -> tuple[int, int] | None:
    """
    The time of packing the windows of a convolution, and its whole time, in products;
    None if its shapes are not known, or it has several groups.
    """
    types = [tensor_type(value) for value in (op.input, op.weights, op.result)]
    if not all(map(is_image, types)) or op.groups.value.data != 1:
        return None
    images, outputs, *extents = types[2].get_shape()
    terms, columns = prod(types[1].get_shape()[1:]), prod(extents)
    lanes = VECTOR // (8 if types[2].element_type == f64 else 4)
    _, time = tiles(outputs, columns, terms, lanes)
    packing = PACKING * terms * ceil(columns / lanes)
    return images * packing, images * round(packing + time)


################################################################################
# Groups                                                                       #
################################################################################


@dataclass(eq=False)
class Group:
    """Values of one shape that have one layout."""

    values: list[SSAValue]
    is_last: bool = False
    reason: str = ""
    """The sums by which its layout was chosen."""

    @property
    def elements(self) -> int:
        """The elements of each value."""
        return prod(tensor_type(self.values[0]).get_shape())


class Layouts:
    """The groups of a job, and what their layouts take."""

    def __init__(self, job: JobOp) -> None:
        self.job = job
        self.convolutions: dict[Operation, Convolution] = {
            op: found
            for op in job.body.block.ops
            if self.is_free(op) and (found := convolution_of(op)) is not None
        }
        self.known = {
            op
            for op in job.body.block.ops
            if op in self.convolutions or self._is_elementwise(op)
        }
        """The ops that can be changed to another layout."""
        self.groups: dict[SSAValue, Group] = {}
        for op in job.body.block.ops:
            if op in self.convolutions:
                for value in (op.operands[0], op.results[0]):
                    self.groups.setdefault(value, Group([value]))
            elif op in self.known:
                self._join(images_of(op))

    @cached_property
    def _of_group(self) -> Mapping[Group, Sequence[Operation]]:
        """The convolutions that make or read a value of each group."""
        found: dict[Group, dict[Operation, None]] = {}
        for op in self.convolutions:
            for value in (op.operands[0], op.results[0]):
                found.setdefault(self.groups[value], {})[op] = None
        return {group: [*ops] for group, ops in found.items()}

    def is_free(self, op: Operation) -> bool:
        """Whether an op says nothing of how it runs, and that on one processor."""
        if set(own_attributes(op)) - {"placement", LAYOUTS}:
            return False
        device = placement_of(op, self.job).single_device()
        return device is not None and device.kind.data == "cpu"

    def _is_elementwise(self, op: Operation) -> bool:
        """Whether an op computes images of any layout from such of the same."""
        if not isinstance(op, ElementwiseOp) or op.regions or not self.is_free(op):
            return False
        result = as_tensor(op.results[0].type)
        if result is None or not is_image(result):
            return False
        shape = result.get_shape()
        shapes = [tensor_type(value).get_shape() for value in op.operands]
        return all(one == shape or prod(one) == 1 for one in shapes)

    def _join(self, values: Sequence[SSAValue]) -> None:
        """Let values be of one group."""
        first, *others = (self.groups.get(v) or Group([v]) for v in values)
        for value in first.values:
            self.groups[value] = first
        for group in others:
            if group is first or self.groups.get(group.values[0]) is first:
                continue
            first.values += group.values
            for value in group.values:
                self.groups[value] = first

    def choose(self) -> None:
        """Choose the layout of each group."""
        changed = True
        while changed:
            changed = False
            for group in self._of_group:
                changed |= self._choose(group)

    def _choose(self, group: Group) -> bool:
        """Change the layout of a group if that pays; whether it did."""
        here = self._products(group)
        group.is_last = not group.is_last
        there = self._products(group)
        pays = there < (1 - LEAST_GAIN) * here
        if not pays:
            group.is_last = not group.is_last
        sums = (there, here) if pays else (here, there)
        kept, left = ("no kernel" if x == inf else f"{x:.0f} products" for x in sums)
        names = ("last", "first") if group.is_last else ("first", "last")
        group.reason = f"{names[0]}: {kept}, {names[1]}: {left}"
        return pays

    def _products(self, group: Group) -> float:
        """
        The time of the convolutions of a group and of conversions of its values, in
        products.
        """
        total = 0.0
        for op in self._of_group[group]:
            sides = (self.is_last(value) for value in (op.operands[0], op.results[0]))
            total += self.convolutions[op].products(*sides)
        if group.is_last:
            for value in group.values:
                if value.owner not in self.known:
                    total += TO_LAST * group.elements
                elif self.is_read_first(value):
                    total += TO_FIRST * group.elements
        return total

    def is_last(self, value: SSAValue) -> bool:
        """Whether a value has its channels last."""
        return value in self.groups and self.groups[value].is_last

    def is_read_first(self, value: SSAValue) -> bool:
        """Whether some op reads a value with channels first, whatever is chosen."""
        return any(use.operation not in self.known for use in value.uses)


def images_of(op: Operation) -> list[SSAValue]:
    """The result of an elementwise op, and the operands of its shape."""
    result = op.results[0]
    shape = tensor_type(result).get_shape()
    same = (v for v in op.operands if tensor_type(v).get_shape() == shape)
    return [result, *dict.fromkeys(same)]


################################################################################
# Rewriting                                                                    #
################################################################################


@dataclass
class Rewrite:
    """Rewrites the ops of a job in their order."""

    layouts: Layouts
    last: dict[SSAValue, SSAValue] = field(default_factory=dict[SSAValue, SSAValue])
    """Values by what they were, or are where channels are first."""

    def run(self) -> None:
        """Rewrite what makes or reads a value with channels last."""
        ops = [*self.layouts.job.body.block.ops]
        sides = {op: self._sides(op) for op in ops}
        values = {op: [v for v in op.results if self.layouts.is_last(v)] for op in ops}
        for op in ops:
            if any(sides[op]):
                self._change(op, *sides[op])
            else:
                for value in values[op]:
                    self.last[value] = self._converted(op, value, op, [0, 2, 3, 1])
        for op in reversed(ops):
            if any(sides[op]):
                Rewriter.erase_op(op)

    def _sides(self, op: Operation) -> tuple[bool, bool]:
        """Whether an op has to read, and to make, values with channels last."""
        if op not in self.layouts.known:
            return False, False
        result = self.layouts.is_last(op.results[0])
        if op not in self.layouts.convolutions:
            return result, result
        return self.layouts.is_last(op.operands[0]), result

    def _change(self, op: Operation, input_last: bool, result_last: bool) -> None:
        """Replace an op by one of another layout."""
        assert isinstance(op, TensorOp), "no others are known"
        operands, properties = list(op.operands), dict(op.properties)
        if op in self.layouts.convolutions:
            properties |= {"input_last": UnitAttr()} if input_last else {}
            properties |= {"result_last": UnitAttr()} if result_last else {}
        if input_last:
            operands = [self.last.get(value, value) for value in operands]
        new = type(op).inferred(operands, properties)
        new.attributes |= op.attributes
        new.location = op.location
        Rewriter.insert_op(new, InsertPoint.before(op))
        value, made = op.results[0], new.results[0]
        made.name_hint = value.name_hint
        if not result_last:
            value.replace_all_uses_with(made)
            return
        self.last[value] = made
        if self.layouts.is_read_first(value):
            back = self._converted(op, made, new, [0, 3, 1, 2])
            back.name_hint, made.name_hint = made.name_hint, back.name_hint
            value.replace_all_uses_with(back)
            self.last[back] = made

    def _converted(
        self, op: Operation, value: SSAValue, after: Operation, order: Sequence[int]
    ) -> SSAValue:
        """A value in another layout, made after an op, where another one runs."""
        made = TransposeOp(value, order)
        made.location = op.location
        if placement := op.attributes.get("placement"):
            made.attributes["placement"] = placement
        if value.name_hint:
            made.result.name_hint = f"{value.name_hint}_last"
        Rewriter.insert_op(made, InsertPoint.after(after))
        return made.result


def note(layouts: Layouts) -> None:
    """Write what was decided on the convolutions of a job."""
    for op in layouts.job.body.block.ops:
        if not isinstance(op, Conv2dOp) or op.input_last or op.result_last:
            continue
        if op in layouts.convolutions:
            groups = layouts.groups[op.input], layouts.groups[op.result]
            texts = zip(("input", "result"), groups, strict=True)
            found: dict[str, Attribute] = {k: StringAttr(g.reason) for k, g in texts}
            op.attributes[LAYOUTS] = DictionaryAttr(found)
        elif layouts.is_free(op) and (share := packing_share(op)) is not None:
            text = f"first: of {share[1]} products, {share[0]} are to pack windows"
            op.attributes[LAYOUTS] = DictionaryAttr({"windows": StringAttr(text)})


def assign_layouts(job: JobOp) -> None:
    """Choose and change the layouts of a job."""
    layouts = Layouts(job)
    layouts.choose()
    note(layouts)
    Rewrite(layouts).run()


@dataclass(frozen=True)
class OpAssignLayoutsPass(ModulePass):
    """
    Let images have their channels last where that takes less, with all conversions.
    """

    name = "op-assign-layouts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for job in jobs_and_bodies(op):
            assign_layouts(job)
