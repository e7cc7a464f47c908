"""Sizes of memory as text."""

from __future__ import annotations

import re

SIZE = re.compile(r"([0-9]+)([KMGT]?)")


def parse_size(text: str) -> int | None:
    """
    The bytes that a size stands for: a number of bytes, or of KiB, MiB, GiB or TiB with
    `K`, `M`, `G` or `T` behind it. None for any other text.
    """
    if (found := SIZE.fullmatch(text)) is None:
        return None
    number, unit = found.groups()
    return int(number) << " KMGT".index(unit or " ") * 10
