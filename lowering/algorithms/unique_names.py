"""Names that are all different, and sizes as text."""

from __future__ import annotations

import re
from collections.abc import Iterable


class UniqueNames:
    """Gives names that differ from each other and from those taken already."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._last: dict[str, int] = {}

    def make(self, base: str) -> str:
        """`base`, or the first of `base_1`, `base_2`... that is not taken yet."""
        return base if self._take(base) else self.make_numbered(base, 1)

    def make_numbered(self, base: str, first: int = 0) -> str:
        """The first of `base_<first>`, `base_<first + 1>`... that is not taken yet."""
        number = self._last.get(base, first - 1) + 1
        while not self._take(f"{base}_{number}"):
            number += 1
        self._last[base] = number
        return f"{base}_{number}"

    def _take(self, name: str) -> bool:
        is_free = name not in self._taken
        self._taken.add(name)
        return is_free


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
