"""The text of a job that was made of a model."""

from __future__ import annotations

from xdsl.dialects.builtin import NoneAttr
from xdsl.ir import Operation

from penstock.dialects.utils.diagnostics import named_location, nodes_of
from penstock.dialects.utils.exact_printer import ExactPrinter


class NodePrinter(ExactPrinter):
    """
    Prints each op with the names of the nodes that it was made of, as its location:
    names of values do not keep the scopes that names of nodes have.
    """

    def print_op(self, op: Operation) -> None:
        """Print an operation, and the names of its nodes if it has any."""
        super().print_op(op)
        if names := nodes_of(op):
            self.print_string(" ")
            self.print_attribute(named_location(names, NoneAttr()))
