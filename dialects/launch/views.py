"""Views: registers whose bytes are those of other registers, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xdsl.dialects.builtin import ArrayAttr, IntAttr, SymbolRefAttr
from xdsl.ir import Attribute, Operation, ParametrizedAttribute
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

from penstock.dialects.launch.memory import (
    ChunkOp,
    ControlOp,
    RegisterOp,
    VariableOp,
    memref_bytes,
)
from penstock.dialects.utils.hints import isa


@irdl_attr_definition
class ViewAttr(ParametrizedAttribute):
    """
    The register `result` starts `offset` bytes after the register or variable `source`
    (before it, if that is negative), and has the bytes of it where the two meet. The
    one lies inside the other. The text is `#launch.view<@x at 32 as @y>`.
    """

    name = "launch.view"

    source: SymbolRefAttr
    result: SymbolRefAttr
    offset: IntAttr = param_def(converter=IntAttr.get)

    def __init__(self, source: str, result: str, offset: int = 0):
        super().__init__(SymbolRefAttr(source), SymbolRefAttr(result), IntAttr(offset))

    @property
    def names(self) -> tuple[str, str]:
        """The names of the source and of the result."""
        return self.source.string_value(), self.result.string_value()

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            return parse_view(parser).parameters

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            print_view(printer, self)


def parse_view(parser: AttrParser) -> ViewAttr:
    """The text of a view without its brackets."""
    source = parser.parse_symbol_name().data
    offset = parser.parse_integer() if parser.parse_optional_keyword("at") else 0
    parser.parse_keyword("as")
    return ViewAttr(source, parser.parse_symbol_name().data, offset)


def print_view(printer: Printer, view: ViewAttr) -> None:
    """Print what `parse_view` reads."""
    source, result = view.names
    printer.print_symbol_name(source)
    printer.print_string(f" at {view.offset.data} as " if view.offset.data else " as ")
    printer.print_symbol_name(result)


@irdl_custom_directive
class Views(CustomDirective):
    """
    The views among the registers that an actor writes: `views [@x at 32 as @y]`, or
    nothing.
    """

    views: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        parse_list(self.views, "views", parser, state)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        print_list(self.views, "views", printer, state, op)


@irdl_custom_directive
class Updates(CustomDirective):
    """
    The variables that an actor writes over, each with the control that tells of its
    value: `updates [@w as @"w_next/out"]`, or nothing.
    """

    updates: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        parse_list(self.updates, "updates", parser, state)

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        print_list(self.updates, "updates", printer, state, op)


def parse_list(
    views: AttributeVariable, keyword: str, parser: Parser, state: ParsingState
) -> None:
    """Set the views after a keyword, if it is there."""
    if parser.parse_optional_keyword(keyword):
        found = parser.parse_comma_separated_list(
            parser.Delimiter.SQUARE, lambda: parse_view(parser)
        )
        views.set(state, ArrayAttr(found))


def print_list(
    views: AttributeVariable,
    keyword: str,
    printer: Printer,
    state: PrintingState,
    op: IRDLOperation,
) -> None:
    """Print what `parse_list` reads."""
    found = views.get(op)
    if not isa(found, ArrayAttr[ViewAttr]):
        return
    state.print_whitespace(printer)
    printer.print_string(f"{keyword} ")
    with printer.in_square_brackets():
        printer.print_list(found, lambda view: print_view(printer, view))
    state.should_emit_space = True


class Uses(NamedTuple):
    """The registers of an actor, and how many acts a piece of them lasts for."""

    name: str
    reads: Sequence[str]
    writes: Sequence[str]
    rates: Mapping[str, int]


def verify_view(uses: Uses, view: ViewAttr, table: Mapping[str, Operation]) -> None:
    """
    Raise `VerifyException` unless a view of an actor is of a register that it reads, or
    of a variable, and the two lie so, piece by piece in the same slots.
    """
    name, reads, writes, rates = uses
    source, result = view.names
    below, above = table.get(source), table.get(result)
    if result not in writes or not isinstance(above, RegisterOp):
        raise VerifyException(
            f"@{name} has a view @{result}, which is no data register it writes"
        )
    is_read = isinstance(below, RegisterOp) and source in reads
    if not is_read and not isinstance(below, VariableOp):
        raise VerifyException(
            f"@{name} has a view of @{source}, which is neither a variable nor a data "
            "register it reads"
        )
    assert isinstance(below, RegisterOp | VariableOp), "checked above"
    offset, wanted = above.offset.value.data - below.offset.value.data, view.offset.data
    if above.chunk != below.chunk or offset != wanted:
        found = "in another chunk" if above.chunk != below.chunk else f"at {offset}"
        raise VerifyException(
            f"@{name} has a view @{result} at byte {wanted} of @{source}, but it lies "
            f"{found}"
        )
    verify_inside(name, view, below, above)
    verify_same_slots(name, view, below, above)
    chunk = table.get(above.chunk.root_reference.data)
    if isinstance(chunk, ChunkOp) and above.slots.value.data > 1:
        verify_same_stride(name, view, table, chunk.memory_case.alignment)
    acts, others = rates.get(source, 1), rates.get(result, 1)
    if acts != others:
        raise VerifyException(
            f"@{name} has a view @{result} of @{source}, but the pieces of these last "
            f"for {others} and {acts} acts"
        )


def verify_update(uses: Uses, update: ViewAttr, table: Mapping[str, Operation]) -> None:
    """
    Raise `VerifyException` unless an actor tells of a variable that it writes over by a
    control that it writes.
    """
    variable, control = update.names
    if not isinstance(table.get(variable), VariableOp) or update.offset.data:
        raise VerifyException(
            f"@{uses.name} updates @{variable}, which is no whole variable"
        )
    if control not in uses.writes or not isinstance(table.get(control), ControlOp):
        raise VerifyException(
            f"@{uses.name} updates @{variable} as @{control}, which is no control that "
            "it writes"
        )


def verify_inside(
    name: str, view: ViewAttr, below: RegisterOp | VariableOp, above: RegisterOp
) -> None:
    """Raise `VerifyException` unless the source or the result has all of the other."""
    source, result = view.names
    size, whole = memref_bytes(above.type), memref_bytes(below.type)
    offset = view.offset.data
    if not 0 <= offset <= whole - size and not 0 <= -offset <= size - whole:
        raise VerifyException(
            f"@{name} has a view @{result} of {size} bytes at byte {offset} of "
            f"@{source}, which has {whole}"
        )


def verify_same_slots(
    name: str, view: ViewAttr, below: RegisterOp | VariableOp, above: RegisterOp
) -> None:
    """Raise `VerifyException` unless each slot lies in, or around, the same one."""
    source, result = view.names
    slots = 1 if isinstance(below, VariableOp) else below.slots.value.data
    if (own := above.slots.value.data) != slots:
        raise VerifyException(
            f"@{name} has a view @{result} of @{source}, but these have {own} and "
            f"{slots} slots"
        )
    over = None if isinstance(below, VariableOp) else below.over
    if slots > 1 and above.over != over:
        raise VerifyException(
            f"@{name} has a view @{result} of @{source}, but only one of these lies "
            "over another register"
        )


def verify_same_stride(
    name: str, view: ViewAttr, table: Mapping[str, Operation], alignment: int
) -> None:
    """Raise `VerifyException` unless all slots are equally far apart."""
    source, result = view.names
    below, above = table[source], table[result]
    assert isinstance(below, RegisterOp), "variables have one slot"
    assert isinstance(above, RegisterOp), "checked before"
    strides = above.stride(alignment), below.stride(alignment)
    if above.over is None and strides[0] != strides[1]:
        raise VerifyException(
            f"@{name} has a view @{result} of @{source}, but their slots start every "
            f"{strides[0]} and every {strides[1]} bytes"
        )
