"""The text of a program in a saved plan."""

from __future__ import annotations

from os.path import basename

from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr
from xdsl.ir import Operation

from penstock.dialects.launch import ActorOp
from penstock.dialects.utils.diagnostics import named_location, nodes_of, place_of
from penstock.dialects.utils.exact_printer import ExactPrinter


class PlanPrinter(ExactPrinter):
    """
    Prints actors with the place where their task was written, so that a failure can
    name it on any machine: the name of the file, but not its folder. A task that was
    made of nodes of a model has their names too.
    """

    def print_op(self, op: Operation) -> None:
        """Print an operation, and its place if it is an actor."""
        super().print_op(op)
        if isinstance(op, ActorOp) and (place := place_of(op)) is not None:
            line, column = IntAttr(place.line), IntAttr(place.column)
            location = FileLineColLoc(StringAttr(basename(place.file)), line, column)
            self.print_string(" ")
            self.print_attribute(named_location(nodes_of(op), location))
