"""Texts to modules, and passes on these."""

from __future__ import annotations

from functools import cache
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ModuleOp,
)
from xdsl.ir import Operation
from xdsl.passes import PassPipeline

from penstock.dialects import get_all_dialects
from penstock.lowering import get_all_passes
from penstock.tools.driver.pass_pipeline import parse_passes


@cache
def context() -> Context:
    """A context with all dialects."""
    from xdsl.dialects.builtin import Builtin

    found = Context()
    found.load_dialect(Builtin)
    for name, factory in get_all_dialects().items():
        found.register_dialect(name, factory)
    return found


def parsed(text: str) -> ModuleOp:
    """A module from its text."""
    from xdsl.parser import Parser

    return Parser(context(), text).parse_module()


def run_passes(module: ModuleOp, passes: str) -> None:
    """Apply passes, given as for the driver."""
    PassPipeline(parse_passes(get_all_passes(), passes)).apply(context(), module)


def only(module: ModuleOp, kind: type[Operation]) -> Any:
    """The op of a kind in a module."""
    return next(op for op in module.body.block.ops if isinstance(op, kind))
