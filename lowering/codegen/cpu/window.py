"""
The source of pools and depthwise convolutions: micro-kernel calls.

A pool (`kernel.pool`) is one call for all units of a part, a plane of an image each:

    micro_kernel_0(..., <units> * part // parts, <units> * (part + 1) // parts)

A contraction that is a depthwise convolution (`kernel.contract`) is a call for each
channel of an image:

    for i0 in range(<units> * part // parts, <units> * (part + 1) // parts):
        micro_kernel_0(...)

`micro_kernel_0` is made by `penstock.runtime.kernels.cpu.pooling` or
`penstock.runtime.kernels.cpu.depthwise`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING, ClassVar

from xdsl.ir import Attribute, SSAValue

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.interface import (
    SCHEDULE,
    StructuredOp,
    element_of,
    shape_of,
)
from penstock.dialects.kernel.pool import Pool, PoolOp
from penstock.dialects.kernel.windows import MAX_MULTIPLIED
from penstock.dialects.launch.schedules.cpu_window import MAX_LINES, WindowsAttr
from penstock.lowering.codegen.body.contraction import ELEMENTS
from penstock.lowering.codegen.cpu.stage_printer import CpuStagePrinter
from penstock.lowering.codegen.cpu.tile_model import evenly
from penstock.lowering.codegen.cpu.work_split import SHARED_WORK, WORK_OF_A_PART

if TYPE_CHECKING:
    from penstock.lowering.codegen.body.statements import BodyPrinter

BYTES = {"f32": 4, "f64": 8}
MAX_PRODUCTS, MAX_COMBINED = 2 * MAX_MULTIPLIED, 200
"""The products of vectors of a tile, or what it combines, which are not in loops."""
MAX_UNROLLED = 128
"""The taps of a window that are multiplied without a loop over its lines."""
PRODUCT_VECTORS = 8
"""The most vectors of sums of a tile of products: they are busy with as many."""
MAX_VECTORS = 8
"""The most vectors of a line of a tile of a pool."""
MAX_STRIDE = 4
"""The largest stride of windows of a line whose elements are picked by shuffles."""
NO_FINISH_OF_WINDOWS = "windows are multiplied without a finish"


@dataclass(frozen=True)
class Windowed:
    """
    A convolution of channels on their own, or a pool, by its memrefs, and numbers down
    and across an image.
    """

    element: str
    input: SSAValue
    out: SSAValue
    taps: tuple[int, int]
    strides: tuple[int, int]
    before: tuple[int, int]
    """The elements of the first window that lie before the image."""
    dilations: tuple[int, int]
    weights: SSAValue | None = None
    """None if it is a pool."""
    bias: SSAValue | None = None
    counted: tuple[int, ...] = ()
    """The zeros that count, of a mean: before the image and behind it."""

    @property
    def is_pool(self) -> bool:
        """Whether windows are not multiplied by weights."""
        return self.weights is None

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


def pool_of(op: PoolOp) -> Windowed | str:
    """The windows of a pool, or why vectors cannot compute it."""
    type, rank = element_of(op.out), len(shape_of(op.out))
    if (element := ELEMENTS.get(type)) is None:
        return f"windows of {type} are not computed in vectors"
    if [*op.dims.get_values()] != [rank - 2, rank - 1]:
        return "windows do not move along the last two dimensions"
    if 0 in shape_of(op.out):
        return "there are no windows"
    down, across = op.windows
    counted: tuple[int, ...] = ()
    if op.kind.data is Pool.MEAN:
        ends = (down.before, across.before, down.after, across.after)
        counted = (0,) * 4 if op.counted is None else ends
    return Windowed(
        element,
        op.input,
        op.out,
        (down.taps, across.taps),
        (down.stride, across.stride),
        (down.before, across.before),
        (down.dilation, across.dilation),
        counted=counted,
    )


def depthwise_of(op: ContractOp) -> Windowed | str | None:
    """
    The depthwise convolution that a contraction is, or why vectors cannot compute it;
    None for any other one.
    """
    if (found := op.depthwise()) is None:
        return None
    type = element_of(found.out)
    if (element := ELEMENTS.get(type)) is None:
        return f"windows of {type} are not computed in vectors"
    if 0 in shape_of(found.out):
        return "there are no windows"
    down, across = found.windows
    if across.stride > MAX_STRIDE:
        return f"windows {across.stride} apart are not multiplied in vectors"
    return Windowed(
        element,
        found.input,
        found.out,
        (down.taps, across.taps),
        (down.stride, across.stride),
        (down.before, across.before),
        (down.dilation, across.dilation),
        found.weights,
        found.bias,
    )


def lanes_for(found: Windowed, elements: int, vector_bytes: int) -> int:
    """The lanes of vectors that are not twice as long as what they run over."""
    lanes = vector_bytes // BYTES[found.element]
    while lanes >= 2 * elements and lanes > 4:
        lanes //= 2
    return lanes


def pool_schedule(op: PoolOp, vector_bytes: int) -> WindowsAttr | str:
    """
    The schedule of a pool, or why it has none: tiles of lines that are about even, and
    vectors no longer than images.
    """
    if isinstance(found := pool_of(op), str):
        return found
    rows, columns = found.result
    apart, spread = found.strides[1], found.dilations[1]
    down, across = found.taps
    lanes = lanes_for(found, rows * columns, vector_bytes)
    tile = min(columns, MAX_VECTORS * lanes)
    reach = min(found.image[1], (tile - 1) * apart + (across - 1) * spread + 1)
    work = ceil(reach / lanes) * down + ceil(tile / lanes) * apart * across
    most = min(MAX_LINES, MAX_COMBINED // work)
    if not most:
        facts = f"{down} x {across} taps, {apart} apart,"
        return f"a line of windows of {facts} is too much for a tile"
    return WindowsAttr(lanes, evenly(rows, most))


def depthwise_schedule(found: Windowed | str, vector_bytes: int) -> WindowsAttr | str:
    """
    The schedule of a depthwise convolution, or why it has none: tiles of as many
    vectors of sums as keep the processor busy, and vectors no longer than lines. Lines
    of a tile share loads, unless windows have one line; other vectors are along them.
    """
    if isinstance(found, str):
        return found
    rows, columns = found.result
    down, across = found.taps
    lanes = lanes_for(found, columns, vector_bytes)
    of_line = ceil(columns / lanes)
    if down > 1 and down * across > MAX_UNROLLED:
        most = max(1, MAX_PRODUCTS // across)
        vectors = min(PRODUCT_VECTORS, of_line, most)
        return WindowsAttr(lanes, 1, vectors=evenly(of_line, vectors), looped=True)
    most = max(1, min(PRODUCT_VECTORS, MAX_PRODUCTS // (down * across)))
    if down == 1:
        vectors = evenly(of_line, most)
        return WindowsAttr(
            lanes, evenly(rows, max(1, most // vectors)), vectors=vectors
        )
    lines = evenly(rows, most)
    return WindowsAttr(lanes, lines, vectors=evenly(of_line, max(1, most // lines)))


def facts_of(found: Windowed, schedule: WindowsAttr, tile: str) -> str:
    """The arguments that a micro-kernel is made with."""
    facts = [
        f'"{found.element}"',
        str(schedule.lanes),
        tile,
        f"image={found.image}",
        f"result={found.result}",
        f"taps={found.taps}",
        f"strides={found.strides}",
        f"before={found.before}",
        f"dilations={found.dilations}",
    ]
    if found.bias is not None:
        facts.append("bias=True")
    if schedule.looped:
        facts.append("looped=True")
    if found.counted:
        facts.append(f"counted={found.counted}")
    return ", ".join(facts)


def work_of(found: Windowed) -> int:
    """The work of all planes, by which it is shared."""
    elements = found.planes * prod(found.result)
    return 2 * elements * (sum(found.taps) if found.is_pool else prod(found.taps))


def share_of(units: str, is_split: bool) -> tuple[str, str]:
    """The first unit of a part, or of all, and the end of its units."""
    if not is_split:
        return "0", units
    return f"{units} * part // parts", f"{units} * (part + 1) // parts"


def address_of(printer: BodyPrinter, value: SSAValue) -> str:
    """Print the address of a memref, and give it a name."""
    name = printer.new_value()
    printer.line(f"{name} = address_of({printer.name(value)})")
    return name


class WindowPrinter(CpuStagePrinter, ABC):
    """Prints an op on windows by the function that a micro-kernel is."""

    SCHEDULES = (WindowsAttr,)
    MAKER: ClassVar[str]
    """The function that makes the micro-kernel."""

    def __init__(self, printer: BodyPrinter, op: StructuredOp, number: int):
        schedule = op.attributes[SCHEDULE]
        assert isinstance(schedule, WindowsAttr), "found by its schedule"
        found = self.windows_of(op)
        assert isinstance(found, Windowed), "no misfit"
        self.printer, self.windowed, self.schedule = printer, found, schedule
        self.function = f"micro_kernel_{number}"
        self.names = {"address_of", self.MAKER}

    @classmethod
    @abstractmethod
    def windows_of(cls, op: StructuredOp) -> Windowed | str | None:
        """The windows of an op, why vectors cannot compute it, or None for others."""

    @classmethod
    def misfit(cls, op: StructuredOp, schedule: Attribute) -> str | None:
        found = cls.windows_of(op)
        return found if isinstance(found, str) else None

    @property
    def parts(self) -> int:
        found = self.windowed
        return max(1, min(found.planes, work_of(found) // WORK_OF_A_PART))

    @property
    def is_shared(self) -> bool:
        return work_of(self.windowed) >= SHARED_WORK

    def count(self, value: int, *role: Hashable) -> str:
        """The text of a number in some role, which no instruction depends on."""
        with self.printer.taking_numbers():
            return self.printer.number(value, self.function, *role, least=2)

    @property
    @abstractmethod
    def tile(self) -> str:
        """The size of a tile, as the micro-kernel is made with."""

    def definitions(self) -> list[str]:
        facts = facts_of(self.windowed, self.schedule, self.tile)
        return ["", f"{self.function} = {self.MAKER}({facts})"]


class PoolPrinter(WindowPrinter):
    """Prints a pool: the function that computes planes, and its call."""

    OP = PoolOp
    MAKER = "pooling_micro_kernel"

    @classmethod
    def windows_of(cls, op: StructuredOp) -> Windowed | str:
        assert isinstance(op, PoolOp), "found by its op"
        return pool_of(op)

    @classmethod
    def misfit(cls, op: StructuredOp, schedule: Attribute) -> str | None:
        assert isinstance(schedule, WindowsAttr), "found by its schedule"
        if schedule.vectors > 1 or schedule.looped:
            return f"{schedule} is for products, a pool has tiles of whole lines"
        return super().misfit(op, schedule)

    @property
    def tile(self) -> str:
        schedule, columns = self.schedule, self.windowed.result[1]
        return str((schedule.lines, min(columns, MAX_VECTORS * schedule.lanes)))

    def print(self, is_split: bool) -> None:
        found = self.windowed
        first, end = share_of(self.count(found.planes, "planes"), is_split)
        image, target = (
            address_of(self.printer, value) for value in (found.input, found.out)
        )
        self.printer.line(f"{self.function}({image}, {target}, {first}, {end})")


class DepthwisePrinter(WindowPrinter):
    """Prints a depthwise convolution: the function of a channel, and its calls."""

    OP = ContractOp
    MAKER = "depthwise_micro_kernel"

    @classmethod
    def windows_of(cls, op: StructuredOp) -> Windowed | str | None:
        assert isinstance(op, ContractOp), "found by its op"
        return depthwise_of(op)

    @classmethod
    def misfit(cls, op: StructuredOp, schedule: Attribute) -> str | None:
        assert isinstance(op, ContractOp), "found by its op"
        if cls.windows_of(op) is None:
            return f"{schedule} is for depthwise convolutions, which this is none of"
        if op.finish is not None:
            return NO_FINISH_OF_WINDOWS
        return super().misfit(op, schedule)

    @property
    def tile(self) -> str:
        return str((self.schedule.lines, self.schedule.vectors))

    def print(self, is_split: bool) -> None:
        out, found = self.printer, self.windowed
        units = found.planes
        first, end = share_of(self.count(units, "planes"), is_split)
        assert found.weights is not None, "a convolution has weights"
        size = BYTES[found.element]
        image, factors, target = (
            address_of(out, value) for value in (found.input, found.weights, found.out)
        )
        bias = None if found.bias is None else address_of(out, found.bias)
        unit = out.new_loop()
        ends = end if first == "0" else f"{first}, {end}"
        with out.block(f"for {unit} in range({ends}):"):
            plane = channel = unit
            if (times := units // prod(shape_of(found.input)[:-2])) > 1:
                plane = f"{unit} // {self.count(times, 'results of a plane')}"
            if (channels := prod(shape_of(found.weights)[:-2])) < units:
                channel = f"{unit} % {self.count(channels, 'channels')}"
            arguments = [
                f"{image} + {plane} * {prod(found.image) * size}",
                f"{factors} + {channel} * {prod(found.taps) * size}",
                "0" if bias is None else f"{bias} + {channel} * {size}",
                f"{target} + {unit} * {prod(found.result) * size}",
            ]
            out.line(f"{self.function}({', '.join(arguments)})")
