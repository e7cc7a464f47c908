"""
The state of a session as parts, each of which one of several processes writes to a file
of its own, and the whole that is read from such files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import TYPE_CHECKING, Any

from penstock.runtime.errors import PenstockError
from penstock.runtime.program.variable_part import Part

if TYPE_CHECKING:
    from penstock.runtime.loading.initializers import Array
    from penstock.runtime.loading.variables import Cuts
    from penstock.tools.session.ranks import Ranks


@dataclass(frozen=True)
class StateParts:
    """
    The parts of variables in one process, of `ranks` if there are several, with their
    largest extents. `cuts` say which variables have fewer elements, as others count.
    """

    parts: Sequence[Part]
    ranks: Ranks | None = None
    cuts: Cuts = field(default_factory=dict[str, Sequence[tuple[str, int]]])

    @property
    def rank(self) -> int:
        """The number of this process."""
        return 0 if self.ranks is None else self.ranks.transport.rank

    @property
    def size(self) -> int:
        """The number of processes."""
        return 1 if self.ranks is None else self.ranks.transport.size

    def cut(self) -> list[Part]:
        """The parts, cut to counts, which any rank may have: all ranks call this."""
        from penstock.runtime.loading.variables import cut_part

        is_count = (not x.whole and x.array.dtype.kind in "iu" for x in self.parts)
        numbers = compress(self.parts, is_count)
        own = {part.name: int(part.array) for part in numbers}
        counts = {name: x for found in self._all(own) for name, x in found.items()}
        return [cut_part(part, self.cuts, counts) for part in self.parts]

    def own(self) -> list[Part]:
        """
        The parts that this process writes, cut to counts: no rank before it has them,
        too.
        """
        parts = self.cut()
        keys = [[part.name, [*part.offsets]] for part in parts]
        before = [x for found in self._all(keys)[: self.rank] for x in found]
        pairs = zip(keys, parts, strict=True)
        return [part for key, part in pairs if key not in before]

    def step(self, act: Callable[[], Any]) -> list[Any]:
        """
        Let each process act, and return the results of all, which JSON can hold. Raises
        PenstockError in all of them if one fails.
        """
        try:
            said: dict[str, Any] = {"result": act()}
        except (OSError, PenstockError) as error:
            if self.ranks is None:
                raise
            said = {"error": str(error)}
        found = self._all(said)
        for rank, other in enumerate(found):
            if "error" in other:
                raise PenstockError(f"rank {rank}: {other['error']}")
        return [other["result"] for other in found]

    def _all(self, own: Any) -> list[Any]:
        return [own] if self.ranks is None else self.ranks.values(own)


def keyed(parts: Sequence[Part]) -> dict[str, Array]:
    """The arrays of parts by numbers, which are their names in a file."""
    return {str(number): part.array for number, part in enumerate(parts)}


def facts_of(parts: Sequence[Part]) -> list[dict[str, Any]]:
    """The facts about parts in the order of their numbers."""
    return [
        {
            "name": part.name,
            "offsets": [*part.offsets],
            "shape": [*part.array.shape],
            "whole": [*part.whole],
        }
        for part in parts
    ]


def parts_in(
    arrays: Mapping[str, Array], facts: Sequence[Mapping[str, Any]]
) -> list[Part]:
    """The parts of a file. Raises KeyError or ValueError if it has others."""
    found: list[Part] = []
    for number, said in enumerate(facts):
        array = arrays[str(number)]
        offsets, whole = tuple(said["offsets"]), tuple(said["whole"])
        if [*array.shape] != said["shape"]:
            raise ValueError(f"part {number} has shape {array.shape}")
        found.append(Part(said["name"], offsets, whole, array))
    return found
