"""
The source of depthwise convolutions and pools: one micro-kernel call a channel.

Such a stage is an `scf.parallel` that names its `windows`
(`penstock.dialects.op.windows`). With a schedule, a channel of an image is a unit. For
a convolution the source is

    for i0 in range(<units> * part // parts, <units> * (part + 1) // parts):
        micro_kernel_0(...)

and a pool is one call for all units of a part. `micro_kernel_0` is made by
`penstock.runtime.kernels.cpu.depthwise` or `penstock.runtime.kernels.cpu.pooling`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING

from xdsl.dialects import memref, scf
from xdsl.dialects.builtin import DenseArrayBase, MemRefType
from xdsl.ir import Operation, SSAValue
from xdsl.utils.hints import isa

from penstock.dialects.launch.schedules.cpu_window import MAX_LINES, WindowsAttr
from penstock.dialects.launch.stages import WINDOWS
from penstock.lowering.codegen.body.contraction import ELEMENTS
from penstock.lowering.codegen.body.epilogue import Epilogue
from penstock.lowering.codegen.cpu.work_split import WORK_OF_A_PART

if TYPE_CHECKING:
    from penstock.lowering.codegen.body.statements import BodyPrinter

BYTES = {"f32": 4, "f64": 8}
MAX_PRODUCTS = 200
"""The products of vectors of a tile, or what it combines, which are not in loops."""
PRODUCT_LINES = 8
"""The most lines of a tile of products."""
MAX_VECTORS = 8
"""The most vectors of a line of a tile of a pool."""
MAX_STRIDE = 2
"""The largest stride of windows of a line that are multiplied."""


@dataclass(frozen=True)
class Windowed:
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
            return self.windows[6:8]
        return shape_of(self.weights)[-2:]

    @property
    def counted(self) -> tuple[int, ...]:
        """The zeros that count, of a mean: before the image and behind it."""
        return self.windows[8:]


def shape_of(value: SSAValue) -> tuple[int, ...]:
    """The extents of a memref."""
    assert isa(value.type, MemRefType), "kernels work on memrefs"
    return value.type.get_shape()


def windowed_of(op: Operation) -> Windowed | str | None:
    """
    The depthwise convolution or pool of a stage that names its windows, or why vectors
    cannot compute it.
    """
    windows = op.attributes.get(WINDOWS)
    if not isinstance(op, scf.ParallelOp) or not isinstance(windows, DenseArrayBase):
        return None
    numbers = tuple(map(int, windows.get_values()))
    inside = [*op.body.walk()]
    loads = dict.fromkeys(i.memref for i in inside if isinstance(i, memref.LoadOp))
    stores = {i.memref for i in inside if isinstance(i, memref.StoreOp)}
    if len(stores) != 1 or len(numbers) not in (6, 8, 12):
        return None
    (out,) = stores
    assert isa(out.type, MemRefType), "kernels work on memrefs"
    type = out.type.element_type
    element = ELEMENTS.get(type)
    if out in loads or 0 in out.type.get_shape():
        return None
    if element is None:
        return f"windows of {type} are not computed in vectors"
    if len(numbers) == 6:
        if numbers[1] > MAX_STRIDE:
            return f"windows {numbers[1]} apart are not multiplied in vectors"
        return _with_memrefs(element, [*loads], out, numbers)
    if len(loads) != 1:
        return None
    (image,) = loads
    return Windowed(element, image, None, None, out, numbers)


def _with_memrefs(
    element: str, loads: list[SSAValue], out: SSAValue, windows: tuple[int, ...]
) -> Windowed | None:
    """The convolution by which of its memrefs have which shape."""
    result = shape_of(out)
    bias = [value for value in loads if len(shape_of(value)) == 1]
    others = [value for value in loads if value not in bias]
    weights = [v for v in others if shape_of(v)[:2] == (result[1], 1)]
    images = [v for v in others if v not in weights]
    if (len(images), len(weights), len(bias)) not in ((1, 1, 0), (1, 1, 1)):
        return None
    first = bias[0] if bias else None
    return Windowed(element, images[0], weights[0], first, out, windows)


def windows_schedule(found: Windowed, vector_bytes: int) -> WindowsAttr | str:
    """
    Tiles of lines that are about even, or why a line is too much for a tile. Vectors
    are no longer than lines of products, and no longer than images of pools.
    """
    rows, columns = found.result
    is_pool = found.weights is None
    apart, spread = found.windows[1], found.windows[5]
    lanes = vector_bytes // BYTES[found.element]
    while lanes >= 2 * columns * (rows if is_pool else 1) and lanes > 4:
        lanes //= 2
    down, across = found.taps
    work = down * across
    if is_pool:
        tile = min(columns, MAX_VECTORS * lanes)
        reach = min(found.image[1], (tile - 1) * apart + (across - 1) * spread + 1)
        work = ceil(reach / lanes) * down + ceil(tile / lanes) * apart * across
    most = min(MAX_LINES if is_pool else PRODUCT_LINES, MAX_PRODUCTS // work)
    if not most:
        facts = f"{down} x {across} taps, {apart} apart,"
        return f"a line of windows of {facts} is too much for a tile"
    return WindowsAttr(lanes, ceil(rows / ceil(rows / most)))


@dataclass(frozen=True)
class WindowsGroup:
    """Such a phase with a schedule."""

    op: Operation
    windowed: Windowed
    schedule: WindowsAttr
    finish: Epilogue

    @property
    def units(self) -> int:
        """The pieces of work that are independent."""
        return self.windowed.planes

    @property
    def parts(self) -> int:
        """The number of parts that the work is worth."""
        found = self.windowed
        elements = self.units * prod(found.result)
        terms = sum(found.taps) if found.weights is None else prod(found.taps)
        return max(1, min(self.units, 2 * elements * terms // WORK_OF_A_PART))


def windows_group(op: Operation, schedule: WindowsAttr) -> WindowsGroup | str:
    """The computation of an op with its schedule, or why it cannot be computed so."""
    found = windowed_of(op)
    if found is None:
        return f"{op.name} does not say windows, which {schedule} is for"
    if isinstance(found, str):
        return found
    return WindowsGroup(op, found, schedule, Epilogue())


class WindowsPrinter:
    """Prints what is computed of windows: the function, and what calls it."""

    def __init__(self, printer: BodyPrinter, group: WindowsGroup, number: int):
        self.printer, self.group, self.number = printer, group, number

    @property
    def names(self) -> frozenset[str]:
        """The functions of `penstock.runtime` that are used."""
        is_pool = self.group.windowed.weights is None
        kind = "pooling" if is_pool else "depthwise"
        return frozenset((f"{kind}_micro_kernel", "address_of"))

    def definitions(self) -> list[str]:
        """The lines that make the function which is called."""
        found, schedule = self.group.windowed, self.group.schedule
        strides, before, dilations = (
            found.windows[first : first + 2] for first in (0, 2, 4)
        )
        facts = [
            f'"{found.element}"',
            str(schedule.lanes),
            str(schedule.lines if found.weights is not None else self._tile),
            f"image={found.image}",
            f"result={found.result}",
            f"taps={found.taps}",
            f"strides={strides}",
            f"before={before}",
            f"dilations={dilations}",
        ]
        if found.bias is not None:
            facts.append("bias=True")
        if found.counted:
            facts.append(f"counted={found.counted}")
        name = (
            "depthwise_micro_kernel"
            if found.weights is not None
            else "pooling_micro_kernel"
        )
        return ["", f"micro_kernel_{self.number} = {name}({', '.join(facts)})"]

    @property
    def _tile(self) -> tuple[int, int]:
        """The lines and columns of a tile of a pool."""
        schedule, columns = self.group.schedule, self.group.windowed.result[1]
        return schedule.lines, min(columns, MAX_VECTORS * schedule.lanes)

    def print_loops(self, is_split: bool) -> None:
        """Print what computes all channels; those of one part of the kernel, or all."""
        units, found = self.group.units, self.group.windowed
        first, end = "0", f"{units}"
        if is_split:
            first, end = f"{units} * part // parts", f"{units} * (part + 1) // parts"
        if found.weights is not None:
            self._print_convolution(found.weights, first, end)
            return
        image, target = map(self._address, (found.input, found.out))
        self.printer.line(
            f"micro_kernel_{self.number}({image}, {target}, {first}, {end})"
        )

    def _print_convolution(self, weights: SSAValue, first: str, end: str) -> None:
        """Print the loop over channels."""
        out, units = self.printer, self.group.units
        found = self.group.windowed
        size = BYTES[found.element]
        image, factors, target = map(self._address, (found.input, weights, found.out))
        bias = None if found.bias is None else self._address(found.bias)
        unit = out.new_loop()
        ends = end if first == "0" else f"{first}, {end}"
        with out.block(f"for {unit} in range({ends}):"):
            times = units // prod(shape_of(found.input)[:-2])
            plane = unit if times == 1 else f"{unit} // {times}"
            channels = shape_of(weights)[0]
            channel = unit if units == channels else f"{unit} % {channels}"
            arguments = [
                f"{image} + {plane} * {prod(found.image) * size}",
                f"{factors} + {channel} * {prod(found.taps) * size}",
                "0" if bias is None else f"{bias} + {channel} * {size}",
                f"{target} + {unit} * {prod(found.result) * size}",
            ]
            out.line(f"micro_kernel_{self.number}({', '.join(arguments)})")

    def _address(self, value: SSAValue) -> str:
        """Print the address of a memref, and give it a name."""
        name = self.printer.new_value()
        self.printer.line(f"{name} = address_of({self.printer.name(value)})")
        return name
