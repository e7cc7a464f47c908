"""A printer of IR that keeps every bit of the floats in it."""

from __future__ import annotations

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute
from xdsl.printer import Printer
from xdsl.utils.hints import isa

from penstock.dialects.utils.splat import is_taken_for_another, literal


class ExactPrinter(Printer):
    """
    A `Printer` whose dense elements are read back with the same bits, in every op and
    form.
    """

    def print_attribute(self, attribute: Attribute) -> None:
        """Print an attribute, as bytes where its numbers would be those of another."""
        if isa(attribute, DenseIntOrFPElementsAttr) and is_taken_for_another(attribute):
            self.print_string(literal(attribute))
        else:
            super().print_attribute(attribute)
