"""The parsers of all commands, for the page about them."""

from __future__ import annotations

from penstock.tools.cli import (
    compare_variants,
    import_model,
    reduce,
    run_arguments,
    simulate,
    view,
)
from penstock.tools.cli.command_parser import CommandParser
from penstock.tools.cli.opt import PenstockOptMain


def parsers() -> dict[str, CommandParser]:
    """The parser of each command by its name."""
    found = (
        PenstockOptMain(args=[]).parser,
        run_arguments.arguments(),
        import_model.arguments(),
        compare_variants.arguments(),
        reduce.arguments(),
        simulate.arguments(),
        view.arguments(),
    )
    return {parser.prog: parser for parser in found}
