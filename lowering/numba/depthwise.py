"""
Convolutions of channels on their own among the phases of kernels, and their source; and
pools that take the largest element of windows.

Such a phase is an `scf.parallel` that says its `windows`
(`penstock.dialects.op.windows`). With a schedule, a channel of an image is a unit:

    for i0 in range(<units> * part // parts, <units> * (part + 1) // parts):
        strip_0(...)

What `strip_0` is stands in `penstock.runtime.depthwise`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING

from xdsl.dialects import memref, scf
from xdsl.dialects.builtin import DenseArrayBase, MemRefType
from xdsl.ir import Operation, SSAValue
from xdsl.utils.hints import isa

from penstock.dialects.launch.depthwise import MAX_LINES, DepthwiseAttr
from penstock.dialects.op.windows import WINDOWS
from penstock.lowering.numba.contractions import ELEMENTS
from penstock.lowering.numba.finishing import Finish

if TYPE_CHECKING:
    from penstock.lowering.numba.body import BodyPrinter

DEPTHWISE_NAMES = frozenset(("depthwise_strip",))
"""The functions of `penstock.runtime.depthwise`."""
BYTES = {"f32": 4, "f64": 8}
WORK_OF_A_PART = 1 << 18
"""Scalar operations that are worth a part of their own."""
MAX_PRODUCTS = 200
"""The products of vectors of a tile, which are not in loops."""
MAX_STRIDE = 2


@dataclass(frozen=True)
class Depthwise:
    """A convolution of channels on their own, or a pool, by its memrefs and numbers."""

    element: str
    input: SSAValue
    weights: SSAValue | None
    """None if it is a pool."""
    bias: SSAValue | None
    out: SSAValue
    windows: tuple[int, ...]

    @property
    def image(self) -> tuple[int, ...]:
        """Lines and columns of a channel of the image."""
        return shape_of(self.input)[-2:]

    @property
    def result(self) -> tuple[int, ...]:
        """Lines and columns of a channel of the result."""
        return shape_of(self.out)[-2:]

    @property
    def planes(self) -> int:
        """The channels of all images of the result."""
        return prod(shape_of(self.out)[:-2])

    @property
    def taps(self) -> tuple[int, ...]:
        """The taps of a window, down and across."""
        if self.weights is None:
            return self.windows[6:]
        return shape_of(self.weights)[-2:]


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The extents of a memref."""
    assert isa(value.type, MemRefType), "kernels work on memrefs"
    return value.type.get_shape()


def depthwise_of(op: Operation) -> Depthwise | None:
    """The convolution that a phase is, if vectors can compute it."""
    windows = op.attributes.get(WINDOWS)
    if not isinstance(op, scf.ParallelOp) or not isinstance(windows, DenseArrayBase):
        return None
    numbers = tuple(map(int, windows.get_values()))
    inside = [*op.body.walk()]
    loads = dict.fromkeys(i.memref for i in inside if isinstance(i, memref.LoadOp))
    stores = {i.memref for i in inside if isinstance(i, memref.StoreOp)}
    if len(stores) != 1 or len(numbers) < 6 or numbers[1] > MAX_STRIDE:
        return None
    (out,) = stores
    assert isa(out.type, MemRefType), "kernels work on memrefs"
    element = ELEMENTS.get(out.type.element_type)
    if element is None or out in loads or 0 in out.type.get_shape():
        return None
    if len(numbers) == 8 and len(loads) == 1:
        (image,) = loads
        return Depthwise(element, image, None, None, out, numbers)
    return _with_memrefs(element, [*loads], out, numbers)


def _with_memrefs(
    element: str, loads: list[SSAValue], out: SSAValue, windows: tuple[int, ...]
) -> Depthwise | None:
    """The convolution by which of its memrefs have which shape."""
    result = shape_of(out)
    bias = [value for value in loads if len(shape_of(value)) == 1]
    others = [value for value in loads if value not in bias]
    weights = [v for v in others if shape_of(v)[:2] == (result[1], 1)]
    images = [v for v in others if v not in weights]
    if (len(images), len(weights), len(bias)) not in ((1, 1, 0), (1, 1, 1)):
        return None
    first = bias[0] if bias else None
    return Depthwise(element, images[0], weights[0], first, out, windows)


def depthwise_schedule(found: Depthwise, vector_bytes: int) -> DepthwiseAttr | None:
    """
    Vectors no longer than lines, and tiles of lines that are about even; None where the
    products of a line are too many.
    """
    rows, columns = found.result
    lanes = vector_bytes // BYTES[found.element]
    while lanes >= 2 * columns and lanes > 4:
        lanes //= 2
    most = min(MAX_LINES, MAX_PRODUCTS // prod(found.taps))
    return DepthwiseAttr(lanes, ceil(rows / ceil(rows / most))) if most else None


@dataclass(frozen=True)
class DepthwiseGroup:
    """Such a convolution with a schedule."""

    op: Operation
    convolution: Depthwise
    schedule: DepthwiseAttr
    finish: Finish

    @property
    def units(self) -> int:
        """The pieces of work that are independent."""
        return self.convolution.planes

    @property
    def parts(self) -> int:
        """How many parts the work is worth."""
        elements = self.units * prod(self.convolution.result)
        work = 2 * elements * prod(self.convolution.taps)
        return max(1, min(self.units, work // WORK_OF_A_PART))


def depthwise_group(op: Operation, schedule: DepthwiseAttr) -> DepthwiseGroup | str:
    """What is computed with a schedule, or why it cannot be."""
    found = depthwise_of(op)
    if found is None:
        return f"{op.name} does not say windows, which {schedule} is for"
    return DepthwiseGroup(op, found, schedule, Finish())


class DepthwisePrinter:
    """Prints such a convolution: the function of a channel, and the loop of calls."""

    names = DEPTHWISE_NAMES | {"address_of"}
    """The functions of `penstock.runtime` that are used."""

    def __init__(self, printer: BodyPrinter, group: DepthwiseGroup, number: int):
        self.printer, self.group, self.number = printer, group, number

    def definitions(self) -> list[str]:
        """The lines that make the function which the loop calls."""
        found, schedule = self.group.convolution, self.group.schedule
        strides, before, dilations = (
            found.windows[first : first + 2] for first in (0, 2, 4)
        )
        facts = [
            f'"{found.element}"',
            str(schedule.lanes.data),
            str(schedule.lines.data),
            f"image={found.image}",
            f"result={found.result}",
            f"taps={found.taps}",
            f"strides={strides}",
            f"before={before}",
            f"dilations={dilations}",
        ]
        if found.bias is not None:
            facts.append("bias=True")
        if found.weights is None:
            facts.append("pool=True")
        return ["", f"strip_{self.number} = depthwise_strip({', '.join(facts)})"]

    def print_loops(self, is_split: bool) -> None:
        """Print the loop over channels; of one part of the kernel, or of all."""
        out, units = self.printer, self.group.units
        found = self.group.convolution
        size = BYTES[found.element]
        memrefs = found.input, found.weights, found.out, found.bias
        image, weights, target, bias = (
            None if memref is None else self._address(memref) for memref in memrefs
        )
        ends = f"{units} * part // parts, {units} * (part + 1) // parts"
        unit = out.new_loop()
        with out.block(f"for {unit} in range({ends if is_split else units}):"):
            times = units // prod(shape_of(found.input)[:-2])
            plane = unit if times == 1 else f"{unit} // {times}"
            arguments = [f"{image} + {plane} * {prod(found.image) * size}", "0", "0"]
            if found.weights is not None:
                channels = shape_of(found.weights)[0]
                channel = unit if units == channels else f"{unit} % {channels}"
                arguments[1] = f"{weights} + {channel} * {prod(found.taps) * size}"
                if bias is not None:
                    arguments[2] = f"{bias} + {channel} * {size}"
            arguments.append(f"{target} + {unit} * {prod(found.result) * size}")
            out.line(f"strip_{self.number}({', '.join(arguments)})")

    def _address(self, value: SSAValue) -> str:
        """Print the address of a memref, and give it a name."""
        name = self.printer.new_value()
        self.printer.line(f"{name} = address_of({self.printer.name(value)})")
        return name
