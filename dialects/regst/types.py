"""Types of registers, and the kinds of memory that they lie in."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    DenseArrayBase,
    FixedBitwidthType,
    IntAttr,
    IntegerType,
    NoneAttr,
    StringAttr,
    TensorType,
    i64,
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
"""Bytes: what CUDA's own allocator aligns to (OF-62 of docs/sources.md)."""

MAX_BYTES = 2**62
"""
The limit of a register's or a chunk's bytes, so that an `i64` holds any sum of a few.
"""

VECTOR_ALIGNMENT = 16
"""Bytes: the widest access of one thread of a device."""

MEMORY_KINDS = ("device", "host", "network", "pinned", "pinned_network")


@irdl_attr_definition
class MemoryCaseAttr(ParametrizedAttribute):
    """
    One kind of memory of one rank: `<0, host>`, `<0, network>` (host memory that is
    registered for transfers between ranks), `<0, device cuda:1>`, `<0, pinned cuda:1>`
    (host memory that device may copy from and to while the host goes on), or
    `<0, pinned_network cuda:1>` (both).
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
        needs_device = self.kind.data not in ("host", "network")
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
        """Whether the CPU can address this memory."""
        return self.kind.data != "device"

    @property
    def of_header(self) -> MemoryCaseAttr:
        """
        Where the shapes of what lies in this memory are: on the host in the same, for a
        device in memory of the host that is pinned for it.
        """
        if self.is_host:
            return self
        assert isinstance(self.device, DeviceAttr), "checked by the verifier"
        return MemoryCaseAttr(self.rank.data, "pinned", self.device)

    @property
    def device_kind(self) -> str:
        """The kind of the device that this memory belongs to; `cpu` if to none."""
        if isinstance(self.device, NoneAttr):
            return "cpu"
        return self.device.kind.data

    @property
    def is_network(self) -> bool:
        """Whether this memory is registered for transfers between ranks."""
        return self.kind.data in ("network", "pinned_network")

    def joined(self, other: MemoryCaseAttr) -> MemoryCaseAttr:
        """
        The memory that serves as both: pinned if either is, for the device of the
        first that is, and registered for transfers if either is.

        Raises `ValueError` unless both are equal, or memory of one host.
        """
        if self == other:
            return self
        if self.rank != other.rank or not (self.is_host and other.is_host):
            raise ValueError(f"no memory is both {self} and {other}")
        is_network = self.is_network or other.is_network
        for case in (self, other):
            if isinstance(device := case.device, DeviceAttr):
                kind = "pinned_network" if is_network else "pinned"
                return MemoryCaseAttr(self.rank.data, kind, device)
        return MemoryCaseAttr(self.rank.data, "network" if is_network else "host")

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
    `!regst.data<tensor<64x784xf32>>`.

    Where the tensor's shape is known at run time only, there is a maximum for it, whose
    bytes each slot has: `!regst.data<tensor<?x784xf32>, max [64, 784]>`.
    """

    name = "regst.data"

    payload: TensorType
    max_shape: DenseArrayBase[IntegerType] | NoneAttr

    def __init__(self, payload: TensorType, max_shape: Sequence[int] | None = None):
        maximum = NoneAttr()
        if max_shape is not None:
            maximum = DenseArrayBase.from_list(i64, max_shape)
        super().__init__(payload, maximum)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        maximum: Attribute = NoneAttr()
        with parser.in_angle_brackets():
            payload = parser.parse_attribute()
            if parser.parse_optional_punctuation(","):
                parser.parse_keyword("max")
                extents = parser.parse_comma_separated_list(
                    parser.Delimiter.SQUARE,
                    lambda: parser.parse_integer(allow_boolean=False),
                )
                maximum = DenseArrayBase.from_list(i64, extents)
        return payload, maximum

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.payload)
            if self.is_dynamic:
                printer.print_string(f", max {list(self.max_type.get_shape())}")

    def verify(self) -> None:
        self._verify_shape()
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

    def _verify_shape(self) -> None:
        if isinstance(self.max_shape, NoneAttr):
            if not self.payload.has_static_shape():
                raise VerifyException(
                    "a register's payload must have a static shape or a maximum, "
                    f"got {self.payload}"
                )
            return
        if self.payload.has_static_shape():
            raise VerifyException(f"{self.payload} is static and takes no maximum")
        extents, shape = list(self.max_shape.get_values()), self.payload.get_shape()
        if len(extents) != len(shape) or any(
            most < 0 or known not in (DYNAMIC_INDEX, most)
            for most, known in zip(extents, shape, strict=True)
        ):
            raise VerifyException(
                f"the maximum {extents} is no shape of {self.payload}"
            )

    @property
    def is_dynamic(self) -> bool:
        """Whether the shape of the payload is known at run time only."""
        return not isinstance(self.max_shape, NoneAttr)

    @property
    def max_type(self) -> TensorType:
        """The payload with the largest shape that it may have."""
        if isinstance(self.max_shape, NoneAttr):
            return self.payload
        return TensorType(self.payload.element_type, self.max_shape.get_values())

    @property
    def header(self) -> DataType:
        """The register of the run-time shape: eight bytes for each extent."""
        return DataType(TensorType(i64, [self.payload.get_num_dims()]))

    @property
    def size(self) -> int:
        """The bytes of one slot. An `i1` takes a byte."""
        return tensor_bytes(self.max_type)

    def alignment(self, memory_case: MemoryCaseAttr) -> int:
        """Bytes: an alias in this memory starts at multiples of this."""
        element = self.payload.element_type
        assert isinstance(element, FixedBitwidthType), "checked by the verifier"
        return part_alignment(element.size, memory_case)


def part_alignment(element: int, memory_case: MemoryCaseAttr) -> int:
    """
    Bytes: a part of a register, with elements of `element` bytes, starts at multiples
    of this.
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
