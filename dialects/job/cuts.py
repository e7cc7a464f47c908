"""Cuts of outputs: the axes of which other outputs say how much is there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr, IntegerAttr, StringAttr, i64
from xdsl.ir import Attribute, ParametrizedAttribute
from xdsl.irdl import IRDLOperation, irdl_attr_definition, param_def
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from penstock.dialects.utils.hints import isa


@irdl_attr_definition
class CutAttr(ParametrizedAttribute):
    """An axis of an output, and the output that says how much of it is there."""

    name = "job.cut"

    count: StringAttr = param_def()
    axis: IntegerAttr = param_def()

    def verify(self) -> None:
        if not self.count.data or self.axis.type != i64 or self.axis.value.data < 0:
            raise VerifyException(
                f"a cut is by an output, along an axis from 0 on, got {self}"
            )

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return parse_cut(parser)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            print_cut(printer, self)


CutList = ArrayAttr.constr(CutAttr)


def parse_cut(parser: AttrParser) -> tuple[StringAttr, IntegerAttr]:
    """Read a cut without its brackets."""
    count = parser.parse_str_literal()
    parser.parse_keyword("axis")
    return StringAttr(count), IntegerAttr(parser.parse_integer(), i64)


def print_cut(printer: Printer, cut: CutAttr) -> None:
    """Print a cut without its brackets."""
    printer.print_string_literal(cut.count.data)
    printer.print_string(f" axis {cut.axis.value.data}")


def cut_list(counts: Mapping[int, str]) -> ArrayAttr[CutAttr]:
    """The cuts of an output by the outputs that count its axes."""
    return ArrayAttr(
        CutAttr(StringAttr(name), IntegerAttr(axis, i64))
        for axis, name in sorted(counts.items())
    )


@irdl_custom_directive
class Cuts(CustomDirective):
    """The cuts of an output: `"rows" axis 0, "columns" axis 1`."""

    cuts: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        found = parser.parse_comma_separated_list(
            parser.Delimiter.NONE, lambda: CutAttr(*parse_cut(parser))
        )
        self.cuts.set(state, ArrayAttr(found))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        cuts = self.cuts.get(op)
        assert isa(cuts, ArrayAttr[CutAttr]), "only such properties are written so"
        printer.print_list(cuts, lambda cut: print_cut(printer, cut))

    def is_present(self, op: IRDLOperation) -> bool:
        return self.cuts.is_present(op)

    def is_anchorable(self) -> bool:
        return True


def verify_cuts(cuts: ArrayAttr[CutAttr] | None, rank: int | None = None) -> None:
    """
    Raise `VerifyException` unless each axis is cut once, and is one of a tensor of this
    rank, if that is known.
    """
    if cuts is None:
        return
    axes = [cut.axis.value.data for cut in cuts]
    if not axes or len(set(axes)) < len(axes):
        raise VerifyException(f"each axis is cut once, got the axes {axes}")
    for axis in axes:
        if rank is not None and axis >= rank:
            raise VerifyException(f"axis {axis} is out of range for {rank} dimensions")
