"""Devices and groups of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from math import prod

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntAttr,
    IntegerType,
    StringAttr,
    i64,
)
from xdsl.ir import (
    Attribute,
    ParametrizedAttribute,
)
from xdsl.irdl import (
    irdl_attr_definition,
    param_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

MAX_DEVICES = 65_536
"""The most devices of one placement; a slip of the pen is refused, not written out."""


@irdl_attr_definition
class DeviceAttr(ParametrizedAttribute):
    """
    One device of one rank (process), such as `#job.device<0, cuda:1>`.
    """

    name = "job.device"

    rank: IntAttr = param_def(converter=IntAttr.get)
    kind: StringAttr = param_def(converter=StringAttr.get)
    index: IntAttr = param_def(converter=IntAttr.get)

    def verify(self) -> None:
        if self.rank.data < 0:
            raise VerifyException(f"rank must not be negative, got {self.rank.data}")
        if self.index.data < 0:
            raise VerifyException(
                f"device index must not be negative, got {self.index.data}"
            )
        verify_device_kind(self.kind.data)

    @property
    def host(self) -> DeviceAttr:
        """The CPU of the same rank, in whose memory the host buffers lie."""
        return DeviceAttr(self.rank, "cpu", 0)

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            rank = parser.parse_integer(allow_boolean=False)
            parser.parse_punctuation(",")
            kind = parser.parse_identifier()
            parser.parse_punctuation(":")
            index = parser.parse_integer(allow_boolean=False)
        return IntAttr(rank), StringAttr(kind), IntAttr(index)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(
                f"{self.rank.data}, {self.kind.data}:{self.index.data}"
            )


def verify_device_kind(kind: str) -> None:
    """Raise `VerifyException` unless `kind` can stand for a device in the text."""
    if not re.fullmatch(r"[a-z_][a-z0-9_]*", kind):
        raise VerifyException(f"a device kind is a lower case word, got '{kind}'")


@irdl_attr_definition
class PlacementAttr(ParametrizedAttribute):
    """
    A group of devices of one kind: ranges of `rank:first-last` devices, kept as the
    least list of ranges in ascending order, and the hierarchy (the shape of the device
    mesh) over which SBP signatures of several dimensions are laid.

    `#job.placement<cuda, [0:0-3, 1:0-3], hierarchy = [2, 4]>`; the hierarchy is left
    out where the group is one row.
    """

    name = "job.placement"

    kind: StringAttr = param_def(converter=StringAttr.get)
    devices: DenseArrayBase[IntegerType]
    """Pairs of rank and device index, flattened, ascending."""
    hierarchy: DenseArrayBase[IntegerType]

    def __init__(
        self,
        kind: str,
        devices: Iterable[tuple[int, int]],
        hierarchy: Sequence[int] = (),
    ):
        pairs = sorted(set(devices))
        super().__init__(
            StringAttr(kind),
            DenseArrayBase.from_list(i64, list(chain.from_iterable(pairs))),
            DenseArrayBase.from_list(i64, list(hierarchy) or [len(pairs)]),
        )

    def verify(self) -> None:
        verify_device_kind(self.kind.data)
        pairs = self.pairs
        if not pairs:
            raise VerifyException("a placement needs at least one device")
        if len(pairs) > MAX_DEVICES:
            raise VerifyException(
                f"a placement has at most {MAX_DEVICES} devices, got {len(pairs)}"
            )
        if negative := [pair for pair in pairs if min(pair) < 0]:
            rank, index = negative[0]
            raise VerifyException(
                f"ranks and device indices must not be negative, got {rank}:{index}"
            )
        shape = self.shape
        if min(shape) < 1 or prod(shape) != len(pairs):
            raise VerifyException(
                f"the hierarchy {list(shape)} does not hold {len(pairs)} devices"
            )

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The (rank, device index) of each device, ascending."""
        flat = self.devices.get_values()
        return tuple(zip(flat[::2], flat[1::2], strict=True))

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the hierarchy."""
        return self.hierarchy.get_values()

    @property
    def ranges(self) -> list[tuple[int, int, int]]:
        """The (rank, first, last) of each run of neighbouring devices."""
        runs: list[tuple[int, int, int]] = []
        for rank, index in self.pairs:
            if runs and runs[-1][0] == rank and runs[-1][2] == index - 1:
                runs[-1] = (rank, runs[-1][1], index)
            else:
                runs.append((rank, index, index))
        return runs

    def single_device(self) -> DeviceAttr | None:
        """The device of a placement that has just one, else None."""
        if len(pairs := self.pairs) != 1:
            return None
        rank, index = pairs[0]
        return DeviceAttr(rank, self.kind, index)

    @classmethod
    def on(cls, device: DeviceAttr) -> PlacementAttr:
        """The placement on just one device."""
        return cls(device.kind.data, [(device.rank.data, device.index.data)])

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            kind = parser.parse_identifier()
            parser.parse_punctuation(",")
            ranges = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: parse_device_range(parser)
            )
            hierarchy: list[int] = []
            if parser.parse_optional_punctuation(","):
                parser.parse_keyword("hierarchy")
                parser.parse_punctuation("=")
                hierarchy = parser.parse_comma_separated_list(
                    parser.Delimiter.SQUARE,
                    lambda: parser.parse_integer(allow_boolean=False),
                )
        attr = cls(kind, chain.from_iterable(ranges), hierarchy)
        return attr.kind, attr.devices, attr.hierarchy

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            ranges = ", ".join(
                f"{rank}:{first}" if first == last else f"{rank}:{first}-{last}"
                for rank, first, last in self.ranges
            )
            printer.print_string(f"{self.kind.data}, [{ranges}]")
            if len(self.shape) > 1:
                printer.print_string(f", hierarchy = {list(self.shape)}")


def parse_device_range(parser: AttrParser) -> list[tuple[int, int]]:
    """Read `rank:index` or `rank:first-last` as (rank, index) pairs."""
    position = parser.pos
    rank = parser.parse_integer(allow_boolean=False)
    parser.parse_punctuation(":")
    first = last = parser.parse_integer(allow_boolean=False)
    if parser.parse_optional_punctuation("-"):
        last = parser.parse_integer(allow_boolean=False)
    if last < first:
        parser.raise_error(f"the device range {rank}:{first}-{last} is empty", position)
    if (count := last - first + 1) > MAX_DEVICES:
        parser.raise_error(
            f"a placement has at most {MAX_DEVICES} devices, got {count}", position
        )
    return [(rank, index) for index in range(first, last + 1)]
