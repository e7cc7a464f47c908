"""
Events inside of passes, for the driver that runs them: passes within a pass, and counts
of what a pass has done.

Without a driver that listens they cost a look at a variable, and nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

_around: ContextVar[Callable[[str], AbstractContextManager[None]] | None] = ContextVar(
    "around_nested_passes", default=None
)
_counted: ContextVar[Callable[[str, int], None] | None] = ContextVar(
    "counts_of_passes", default=None
)


def apply_nested(module_pass: ModulePass, ctx: Context, module: ModuleOp) -> None:
    """Apply a pass inside of another one, in the context that a driver gives it."""
    around = _around.get()
    if around is None:
        module_pass.apply(ctx, module)
        return
    with around(module_pass.name):
        module_pass.apply(ctx, module)


def count(what: str, number: int = 1) -> None:
    """
    Add a number to a statistic of the pass that runs, such as `ops fused`, which
    `--pass-statistics` prints.
    """
    if (counted := _counted.get()) is not None:
        counted(what, number)


@contextmanager
def around_nested(
    around: Callable[[str], AbstractContextManager[None]],
) -> Generator[None]:
    """A context in which `around` gives a context to each pass inside of a pass."""
    token = _around.set(around)
    try:
        yield
    finally:
        _around.reset(token)


@contextmanager
def counting(counted: Callable[[str, int], None]) -> Generator[None]:
    """A context in which `counted` is called with what passes count."""
    token = _counted.set(counted)
    try:
        yield
    finally:
        _counted.reset(token)
