"""
Models at each level as text: the passes that take them there, and what these leave.
"""

from __future__ import annotations

from io import StringIO
from typing import TYPE_CHECKING

from penstock.tools.session.model import Model, lower, lowering_of, program_of
from penstock.tools.session.options import CompileOptions

if TYPE_CHECKING:
    from xdsl.printer import Printer

    from penstock.tools.driver.compiler import Compiler
    from penstock.tools.driver.pass_pipeline import PassTable


def pipeline_text(
    front: tuple[Compiler, PassTable],
    model: Model,
    options: CompileOptions,
    level: str | None,
) -> str:
    """The passes that compile a model, up to a level if one is named."""
    from penstock.tools.driver.edited_pipeline import dump

    return dump(lowering_of(*front, model, options, level).passes)


def text_at(
    front: tuple[Compiler, PassTable],
    model: Model,
    options: CompileOptions,
    level: str,
    printer: type[Printer] | None = None,
) -> str:
    """
    A model at a level of IR as text, printed by `printer` or `ExactPrinter`, or the
    source of its kernels. Raises what `lower` raises, and UsageError for an unknown
    level.
    """
    lower(*front, model, options, level)
    if level == "source":
        from penstock.tools.session.kernel_sources import kernel_sources
        from penstock.tools.session.saved_plan.plan import source_text

        return source_text(kernel_sources(program_of(model)))
    from penstock.dialects.utils.exact_printer import ExactPrinter

    text = StringIO()
    (printer or ExactPrinter)(text).print_op(model.module)
    return text.getvalue() + "\n"
