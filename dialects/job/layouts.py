"""Layouts of tensors on the devices of a group: SBP (split, broadcast, partial sum)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    IntAttr,
    TensorType,
    i1,
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

from penstock.dialects.job.placements import PlacementAttr


@irdl_attr_definition
class SplitAttr(ParametrizedAttribute):
    """
    The tensor is cut along one axis, such as `#job.split<0>`.
    """

    name = "job.split"

    axis: IntAttr = param_def(converter=IntAttr.get)

    def verify(self) -> None:
        if self.axis.data < 0:
            raise VerifyException(
                f"a split axis must not be negative, got {self.axis.data}"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return (IntAttr(parser.parse_integer(allow_boolean=False)),)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_int(self.axis.data)


@irdl_attr_definition
class BroadcastAttr(ParametrizedAttribute):
    """
    Every device holds the whole tensor.
    """

    name = "job.broadcast"


@irdl_attr_definition
class PartialAttr(ParametrizedAttribute):
    """The tensor is the sum of the parts on the devices."""

    name = "job.partial"


Entry: TypeAlias = SplitAttr | BroadcastAttr | PartialAttr
"""The SBP of a tensor along one dimension of a hierarchy of devices."""


@irdl_attr_definition
class SbpAttr(ParametrizedAttribute):
    """
    The SBP of a tensor on the devices of a placement, one entry for each dimension of
    its hierarchy: `S(axis)` split, `B` broadcast or `P` partial sum, such as
    `#job.sbp<S(0), B>`.
    """

    name = "job.sbp"

    dims: ArrayAttr[Entry]

    def verify(self) -> None:
        if not self.dims.data:
            raise VerifyException("an SBP needs at least one entry")

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        dims = parser.parse_comma_separated_list(
            parser.Delimiter.ANGLE, lambda: parse_sbp_entry(parser)
        )
        return (ArrayAttr(dims),)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(", ".join(sbp_entry_text(dim) for dim in self.dims))


def parse_sbp_entry(parser: AttrParser) -> Entry:
    """Read one of `S(axis)`, `B` and `P`."""
    if parser.parse_optional_keyword("B"):
        return BroadcastAttr()
    if parser.parse_optional_keyword("P"):
        return PartialAttr()
    if not parser.parse_optional_keyword("S"):
        parser.raise_error("expected one of S(axis), B and P")
    with parser.in_parens():
        return SplitAttr(parser.parse_integer(allow_boolean=False))


def sbp_entry_text(entry: Entry) -> str:
    """The text of one entry of an SBP."""
    match entry:
        case SplitAttr():
            return f"S({entry.axis.data})"
        case BroadcastAttr():
            return "B"
        case PartialAttr():
            return "P"


def verify_layout(type: TensorType, sbp: SbpAttr, placement: PlacementAttr) -> None:
    """Raise `VerifyException` unless a tensor can be laid like this on devices."""
    if len(sbp.dims) != (count := len(placement.shape)):
        raise VerifyException(
            f"{sbp} should have one entry for each of the {count} dimensions of "
            f"{placement}"
        )
    if (reason := misfit(type, sbp.dims.data, placement.shape)) is not None:
        raise VerifyException(f"{type} cannot be {sbp} on {placement}: {reason}")


def misfit(
    type: TensorType, entries: Sequence[Entry], hierarchy: Sequence[int]
) -> str | None:
    """
    Why a tensor cannot be laid like this on the first dimensions of a hierarchy, if it
    cannot: every device gets at least one element of each axis that is cut, and only
    numbers have sums.
    """
    shape = type.get_shape()
    least = list(shape)
    for entry, parts in zip(entries, hierarchy, strict=False):
        if isinstance(entry, PartialAttr) and type.element_type == i1:
            return "booleans have no sums"
        if not isinstance(entry, SplitAttr):
            continue
        if (axis := entry.axis.data) >= len(shape):
            return f"it has no axis {axis}"
        if shape[axis] == DYNAMIC_INDEX:
            return f"the extent of its axis {axis} is not known"
        if least[axis] < parts:
            return f"its axis {axis} of {least[axis]} has no {parts} parts"
        least[axis] //= parts
    return None
