"""
Passes of a list that find no op of their level, which is most likely a mistake.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.ir import Operation

from penstock.dialects.utils.diagnostics import place_of
from penstock.lowering.analysis.levels import Level, is_check, level_of, levels_in
from penstock.tools.driver.errors import Diagnosis


class UnusedPasses:
    """
    The passes of a list that find nothing, of those that a person wrote.

    A check (`verify-...`) has to find its subject; only if the module was past that
    before the list began it may be left out, as when a dump is resumed. And of all
    passes at least one has to find an op of its level. Passes that work on any IR do
    not count.
    """

    def __init__(self) -> None:
        self._given: set[Level] | None = None
        self._seen: list[tuple[str, Level]] = []
        self._is_settled = False
        """Whether a pass has found its level, or a message was told."""

    def before(self, name: str, module: Operation) -> Iterator[Diagnosis]:
        """The message for a pass that is to run, if it is a check without a subject."""
        level = level_of(name)
        if level is None:
            return
        found = levels_in(module)
        if self._given is None:
            self._given = found
        self._seen.append((name, level))
        if level in found:
            self._is_settled = True
        elif is_check(name) and not self._is_past(level):
            self._is_settled = True
            message = f"{name} finds nothing to check: it wants {level.text}"
            yield Diagnosis(place_of(module), f"{message}, got {_listed(found)}")

    def _is_past(self, level: Level) -> bool:
        return bool(self._given) and min(self._given or ()) > level

    def at_end(self, module: Operation) -> Iterator[Diagnosis]:
        """The message, after the last pass, that none of them has found its level."""
        if self._is_settled or not self._seen:
            return
        wanted = "; ".join(_wishes(self._seen))
        got = _listed(self._given or set())
        message = f"no pass finds an op of its level: {wanted}; got {got}"
        yield Diagnosis(place_of(module), message)


def _wishes(seen: Sequence[tuple[str, Level]]) -> Iterator[str]:
    for level in dict.fromkeys(level for _, level in seen):
        names = dict.fromkeys(name for name, wanted in seen if wanted == level)
        yield f"{', '.join(names)} on {level.text}"


def _listed(levels: set[Level]) -> str:
    texts = [level.text for level in sorted(levels)]
    return " and ".join(texts) or "nothing of any level"
