"""Numbers in the syntax of ops."""

from math import isinf, isnan

from xdsl.dialects.builtin import FloatAttr, f64
from xdsl.irdl import IRDLOperation
from xdsl.irdl.declarative_assembly_format import (
    AttributeVariable,
    CustomDirective,
    ParsingState,
    PrintingState,
    irdl_custom_directive,
)
from xdsl.parser import Parser
from xdsl.printer import Printer

WORDS = {"inf": float("inf"), "neg_inf": float("-inf"), "nan": float("nan")}
"""The numbers that have no digits."""


@irdl_custom_directive
class Number(CustomDirective):
    """
    An `f64` property, as an integer, a float, `inf`, `neg_inf` or `nan`. Any value but
    the bits of a NaN reads back as it was.
    """

    number: AttributeVariable

    def parse(self, parser: Parser, state: ParsingState) -> None:
        self.number.set(state, FloatAttr(parse_number(parser), f64))

    def print(self, printer: Printer, state: PrintingState, op: IRDLOperation) -> None:
        state.print_whitespace(printer)
        attr = self.number.get(op)
        assert isinstance(attr, FloatAttr), "only such properties are written so"
        printer.print_string(number_text(attr.value.data))

    def is_present(self, op: IRDLOperation) -> bool:
        return self.number.is_present(op)

    def is_anchorable(self) -> bool:
        return True


def parse_number(parser: Parser) -> float:
    """Read a number or a word for one."""
    for word, value in WORDS.items():
        if parser.parse_optional_keyword(word):
            return value
    return float(parser.parse_number())


def number_text(value: float) -> str:
    """The shortest text that reads back as the same number."""
    if isnan(value):
        return "nan"
    if isinf(value):
        return "inf" if value > 0 else "neg_inf"
    digits, *exponent = repr(value).split("e")
    # A float is told from an integer by its point.
    return "e".join([digits if "." in digits else f"{digits}.0", *exponent])
