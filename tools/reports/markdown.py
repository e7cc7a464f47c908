"""Markdown of generated pages: their first line, tables, and texts from docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from typing import TypeAlias

Lines: TypeAlias = Iterator[str]

HEADING = "<!-- Written by `make docs` from the definitions: change those instead. -->"


def text_of(documented: object) -> str:
    """The docstring of an object, without its indentation; empty if it has none."""
    return inspect.cleandoc(getattr(documented, "__doc__", None) or "")


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Lines:
    """A table, and an empty line after it; nothing without rows."""
    if not rows:
        return
    yield f"| {' | '.join(titles)} |"
    yield f"|{'---|' * len(titles)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |"
    yield ""
