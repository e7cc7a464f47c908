"""
The check that the text of a module, in its custom and in its generic form, is read back
as the same module.
"""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO

from xdsl.dialects.builtin import ModuleOp

from penstock.dialects.utils.diagnostics import place_of
from penstock.dialects.utils.exact_printer import ExactPrinter
from penstock.tools.driver.diagnostics import Diagnosis, Rejected
from penstock.tools.driver.ir_printing import diff_of


def text_of(
    module: ModuleOp, *, generic: bool = False, elide_larger: int | None = None
) -> str:
    """The text of a module in one of its forms."""
    stream = StringIO()
    printer = ExactPrinter(
        stream, print_generic_format=generic, elide_larger=elide_larger
    )
    printer.print_op(module)
    return stream.getvalue() + "\n"


def check_round_trip(module: ModuleOp, parse: Callable[[bytes, str], ModuleOp]) -> None:
    """
    Raise `Rejected` unless both texts of a module are read back, and mean the same.
    """
    reference = text_of(module, generic=True)
    for form, is_generic in (("custom", False), ("generic", True)):
        text = text_of(module, generic=is_generic)
        where = f"<{form} form>"
        try:
            again = text_of(parse(text.encode(), where), generic=True)
        except Rejected as rejected:
            message = f"the {form} form is not read back"
            notes = tuple(each.render(where) for each in rejected.diagnoses)
            raise _failure(module, message, notes) from rejected
        if again != reference:
            notes = tuple(diff_of(reference, again, "reading it back").splitlines())
            raise _failure(module, f"the {form} form is read back otherwise", notes)


def _failure(module: ModuleOp, message: str, notes: tuple[str, ...]) -> Rejected:
    text = f"--verify-roundtrip: {message}"
    return Rejected([Diagnosis(place_of(module), text, notes)])
