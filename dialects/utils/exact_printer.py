"""A printer of IR that keeps every bit of the floats in it."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import DenseIntOrFPElementsAttr
from xdsl.ir import Attribute
from xdsl.printer import Printer

from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.splat import is_taken_for_another, literal


@dataclass(eq=False, repr=False)
class ExactPrinter(Printer):
    """
    A `Printer` whose dense elements are read back with the same bits, in every op and
    form.
    """

    elide_larger: int | None = None
    """The most elements that are printed; more are left out, as MLIR does, and the text
    cannot be read back."""

    def print_attribute(self, attribute: Attribute) -> None:
        """Print an attribute, as bytes where its numbers would be those of another."""
        if not isa(attribute, DenseIntOrFPElementsAttr):
            super().print_attribute(attribute)
        elif self._is_too_large(attribute):
            self.print_string("dense_resource<__elided__> : ")
            self.print_attribute(attribute.type)
        elif is_taken_for_another(attribute):
            self.print_string(literal(attribute))
        else:
            super().print_attribute(attribute)

    def _is_too_large(self, attribute: DenseIntOrFPElementsAttr) -> bool:
        # A splat is printed as one element.
        limit = self.elide_larger
        return limit is not None and not attribute.is_splat() and len(attribute) > limit
