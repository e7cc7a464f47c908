"""The target `mlir` of `penstock-opt`: xDSL's, with every bit of floats kept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import IO

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.targets.mlir import MLIRTarget

from penstock.dialects.utils.exact_printer import ExactPrinter


@dataclass(frozen=True)
class ExactMLIRTarget(MLIRTarget):
    """
    The target that prints IR so that it is read back the same; its colours are xDSL's.
    """

    elide_larger: int | None = None
    """The most elements of a constant that are printed."""

    def emit(self, ctx: Context, module: ModuleOp, output: IO[str]) -> None:
        """Write the text of a module."""
        if self.syntax_highlight:
            super().emit(ctx, module, output)
            return
        printer = ExactPrinter(
            stream=output,
            print_generic_format=self.print_generic_format,
            print_properties_as_attributes=self.print_properties_as_attributes,
            print_debuginfo=self.print_debuginfo,
            elide_larger=self.elide_larger,
        )
        printer.print_op(module)
        printer.print_metadata(ctx.loaded_dialects)
        print("\n", file=output)
