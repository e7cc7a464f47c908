"""What registers hold, and the kinds of memory that they lie in."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    FixedBitwidthType,
    IntAttr,
    NoneAttr,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition, param_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.job import DeviceAttr, verify_device_kind

HOST_ALIGNMENT = 64
"""Bytes: a cache line, which is also the widest vector."""

DEVICE_ALIGNMENT = 512
"""Bytes: what CUDA's own allocator aligns to (OF-62)."""

MAX_BYTES = 2**62
"""What a register or a chunk stays below, so that an i64 holds any sum of a few."""

VECTOR_ALIGNMENT = 16
"""Bytes: the widest access of one thread of a device."""

MEMORY_KINDS = ("device", "host", "network", "pinned")


@irdl_attr_definition
class MemoryCaseAttr(ParametrizedAttribute):
    """
    One kind of memory of one rank: `<0, host>`, `<0, network>` (host memory that is
    registered for transfers), `<0, device cuda:1>`, or `<0, pinned cuda:1>` (host
    memory that device may copy from and to while the host goes on).
    """

    name = "regst.memory_case"

    rank: IntAttr = param_def(converter=IntAttr.get)
    kind: StringAttr = param_def(converter=StringAttr.get)
    device: DeviceAttr | NoneAttr

    def __init__(self, rank: int, kind: str, device: DeviceAttr | None = None):
        super().__init__(IntAttr(rank), StringAttr(kind), device or NoneAttr())

    def verify(self) -> None:
        if self.rank.data < 0:
            raise VerifyException(f"rank must not be negative, got {self.rank.data}")
        if self.kind.data not in MEMORY_KINDS:
            raise VerifyException(
                f"unknown memory kind '{self.kind.data}', "
                f"expected one of {', '.join(MEMORY_KINDS)}"
            )
        needs_device = self.kind.data in ("device", "pinned")
        if needs_device and isinstance(self.device, NoneAttr):
            raise VerifyException(f"{self.kind.data} memory needs a device")
        if not needs_device and not isinstance(self.device, NoneAttr):
            raise VerifyException(f"{self.kind.data} memory takes no device")
        if needs_device and self.device_kind == "cpu":
            raise VerifyException(
                f"{self.kind.data} memory is of a device that is no cpu, "
                f"got {self.device}"
            )

    @property
    def alignment(self) -> int:
        """Bytes: blocks and registers start at multiples of this."""
        return DEVICE_ALIGNMENT if self.kind.data == "device" else HOST_ALIGNMENT

    @property
    def is_host(self) -> bool:
        """Whether the processor can address this memory."""
        return self.kind.data != "device"

    @property
    def device_kind(self) -> str:
        """The kind of the device that this memory belongs to; `cpu` if to none."""
        if isinstance(self.device, NoneAttr):
            return "cpu"
        return self.device.kind.data

    @classmethod
    def of(cls, device: DeviceAttr) -> MemoryCaseAttr:
        """The memory that kernels on a device work in."""
        if device.kind.data == "cpu":
            return cls(device.rank.data, "host")
        return cls(device.rank.data, "device", device)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            rank = parser.parse_integer(allow_boolean=False)
            parser.parse_punctuation(",")
            kind = parser.parse_identifier()
            device: DeviceAttr | NoneAttr = NoneAttr()
            if (device_kind := parser.parse_optional_identifier()) is not None:
                verify_device_kind(device_kind)
                parser.parse_punctuation(":")
                index = parser.parse_integer(allow_boolean=False)
                device = DeviceAttr(rank, device_kind, index)
        return IntAttr(rank), StringAttr(kind), device

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.rank.data}, {self.kind.data}")
            if isinstance(self.device, DeviceAttr):
                printer.print_string(
                    f" {self.device.kind.data}:{self.device.index.data}"
                )


@irdl_attr_definition
class DataType(ParametrizedAttribute, TypeAttribute):
    """
    A register whose slots hold one tensor each, such as
    `!regst.data<tensor<64x784xf32>>`. The tensor's shape is static.
    """

    name = "regst.data"

    payload: TensorType

    def verify(self) -> None:
        if not self.payload.has_static_shape():
            raise VerifyException(
                f"a register's payload must have a static shape, got {self.payload}"
            )
        if not isinstance(self.payload.element_type, FixedBitwidthType):
            raise VerifyException(
                "a register's payload must have elements of a fixed size, "
                f"got {self.payload.element_type}"
            )
        if self.size >= MAX_BYTES:
            raise VerifyException(
                "a register's payload must be smaller than 2^62 bytes, "
                f"got {self.size} of {self.payload}"
            )

    @property
    def size(self) -> int:
        """The bytes of one slot. An `i1` takes a byte."""
        return tensor_bytes(self.payload)

    def alignment(self, memory_case: MemoryCaseAttr) -> int:
        """Bytes: an alias in this memory starts at multiples of this."""
        element = self.payload.element_type
        assert isinstance(element, FixedBitwidthType), "checked by the verifier"
        return part_alignment(element.size, memory_case)


def part_alignment(element: int, memory_case: MemoryCaseAttr) -> int:
    """
    Bytes: what is only a part of something, with elements of `element` bytes, starts
    at multiples of this.
    """
    return element if memory_case.is_host else max(element, VECTOR_ALIGNMENT)


def tensor_bytes(type: TensorType) -> int:
    """The bytes of a tensor of static shape, dense and row by row."""
    element = type.element_type
    assert isinstance(element, FixedBitwidthType), "payloads have a fixed size"
    return type.element_count() * element.size


@irdl_attr_definition
class ControlType(ParametrizedAttribute, TypeAttribute):
    """
    A register whose slots hold nothing: it only orders tasks.
    """

    name = "regst.control"


@irdl_attr_definition
class ChunkType(ParametrizedAttribute, TypeAttribute):
    """
    A run of bytes that is allocated once.
    """

    name = "regst.chunk"


@irdl_attr_definition
class BlockType(ParametrizedAttribute, TypeAttribute):
    """
    A part of a chunk.
    """

    name = "regst.block"
