"""
The head of a CPU kernel's source: facts of its calls on which its code does not depend.

    PARTS = 4
    ROW = ["in0", "out0", 768, 3]

`PARTS` says into how many parts at most the work can be usefully cut. `ROW` is the row
of arguments where some are numbers: text stands for the next address. Kernels that
differ in these lines alone have the same machine code.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

Row: TypeAlias = tuple[str | int, ...]
"""The words of a row of arguments: names of addresses, and numbers."""

Word = TypeVar("Word")

_PARTS = re.compile(r"^PARTS = (\d+)$", re.MULTILINE)
_ROW = re.compile(r"^ROW = (\[.*\])$", re.MULTILINE)


class Source(NamedTuple):
    """A source without its head, in the same lines, and what the head says."""

    code: str
    parts: int | None
    row: Row
    """Empty if all arguments are addresses."""


def split_head(source: str) -> Source:
    """The parts of a source."""
    parts, row = _PARTS.search(source), _ROW.search(source)
    code = _ROW.sub("", _PARTS.sub("", source))
    return Source(
        code,
        None if parts is None else int(parts[1]),
        () if row is None else tuple(json.loads(row[1])),
    )


def row_of(
    addresses: Sequence[Word], row: Row, number: Callable[[int], Word]
) -> list[Word]:
    """The words of a call, given the addresses and how a number is put."""
    if not row:
        return [*addresses]
    left = iter(addresses)
    return [number(word) if isinstance(word, int) else next(left) for word in row]
