"""
The lists of plug-ins that `penstock-opt --list` prints: those of each kind, from whom
they are, and where they are documented.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from xdsl.universe import Universe

from penstock.dialects.utils.diagnostics import definition_of
from penstock.plugins import (
    KINDS,
    UNIVERSES,
    Kind,
    Offer,
    PluginError,
    installed_entries,
    kind_of,
    offers_of,
    origin_of,
    sentence_of,
    shown,
    told,
)
from penstock.tools.driver.diagnostics import UsageError

_KNOWN = "penstock", "xdsl"
"""The packages whose plug-ins are only counted, in the list of kinds."""

Universes = Mapping[str, Universe]


class Listed(NamedTuple):
    """A kind, and all plug-ins of it."""

    kind: Kind
    offers: Sequence[Offer]

    def as_json(self) -> dict[str, object]:
        """The row and its plug-ins as plain data."""
        kind = self.kind
        return {
            "kind": kind.name,
            "decides": kind.decides,
            "chosen": kind.chosen,
            "documented": kind.page,
            "entry_points": kind.group,
            "plugins": [offer._asdict() for offer in self.offers],
        }


def list_text(universes: Universes, kind: str, *, as_json: bool = False) -> str:
    """
    The plug-ins of a kind, or a line or two about each kind if it is an empty text.

    Raises `UsageError` if there is no such kind.
    """
    try:
        kinds = [kind_of(kind)] if kind else list(KINDS.values())
    except PluginError as error:
        raise UsageError(str(error)) from error
    in_full = bool(kind) or as_json
    found = [Listed(row, list(_offers(row, universes, in_full))) for row in kinds]
    if as_json:
        return json.dumps([each.as_json() for each in found], indent=2)
    if kind:
        return "\n".join(_in_full(found[0]))
    lines = chain.from_iterable(map(_in_short, found))
    return "\n".join([*lines, "", "--list KIND names those of a kind."])


def _in_short(listed: Listed) -> Iterator[str]:
    kind, offers = listed
    yield f"{kind.name} ({len(offers)}): {kind.decides}"
    yield f"  {kind.chosen}; {kind.page}"
    others = [
        x for x in offers if x.origin.partition(" ")[0] not in ("penstock", "xdsl")
    ]
    for offer in others:
        yield f"  {offer.name} of {offer.origin}"


def _in_full(listed: Listed) -> Iterator[str]:
    kind, offers = listed
    yield f"{kind.name}: {kind.decides}"
    yield f"{kind.chosen}; {kind.page}"
    yield ""
    widths = [max((len(x[i]) for x in offers), default=0) for i in range(2)]
    for name, origin, text in offers:
        yield f"{name:{widths[0]}}  {origin:{widths[1]}}  {text}".rstrip()


################################################################################
# Kinds that universes offer                                                   #
################################################################################


def _offers(kind: Kind, universes: Universes, in_full: bool) -> Iterator[Offer]:
    """Those of a kind; unless `in_full`, without importing passes and dialects."""
    if kind.group != UNIVERSES:
        yield from offers_of(kind.name)
        return
    origins = {entry.name: origin_of(entry) for entry in installed_entries(UNIVERSES)}
    for owner, universe in universes.items():
        origin = origins.get(owner, shown(owner))
        for name, factory in sorted(_of_kind(kind, universe).items()):
            if in_full:
                yield _offer(name, origin, factory)
            else:
                yield Offer(name, origin, "")


def _of_kind(kind: Kind, universe: Universe) -> Mapping[str, Callable[[], object]]:
    match kind.name:
        case "dialect":
            return universe.all_dialects
        case "pass":
            return universe.all_passes
        case _:
            return universe.all_targets


def _offer(name: str, origin: str, factory: Callable[[], object]) -> Offer:
    try:
        thing = factory()
    except Exception as error:  # one broken plug-in must not hide the rest
        return Offer(name, origin, f"cannot be loaded: {told(error)}")
    if isinstance(thing, type):
        place = definition_of(thing)
        at = f"{origin.partition(':')[0]}:{place.line}" if place else origin
        return Offer(name, at if origin.endswith(".py") else origin, sentence_of(thing))
    ops = ", ".join(op.name for op in getattr(thing, "operations", ()))
    return Offer(name, origin, ops)
