"""
Policies for SBP, by name: ours, and plug-ins of the kinds `sbp-candidates` and
`sbp-cost`.

Entries of an SBP are texts here: `B`, `P` and `S(axis)`. A policy for candidates is a
function of an `SbpRequest` that returns the numbers of signatures that may be taken,
those liked best first, alone or each with a cost of its own. A policy for costs is a
function of a `Transfer` that returns a number, of any unit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, isnan
from typing import NamedTuple, TypeAlias, cast

from penstock.plugins import PlugIn, plugin_of

CANDIDATES = "sbp-candidates"
COST = "sbp-cost"


class Signature(NamedTuple):
    """The entries of operands and results: one way to run an op in parts."""

    operands: tuple[str, ...]
    results: tuple[str, ...]


class SbpRequest(NamedTuple):
    """An op that is to be run in parts."""

    op: str
    """Its name, such as `op.matmul`."""
    operands: Sequence[tuple[int, ...]]
    """The shapes of its operands; -1 for an extent that is not known."""
    results: Sequence[tuple[int, ...]]
    """The shapes of its results."""
    devices: int
    signatures: Sequence[Signature]
    """All ways in which it can be run."""


class Transfer(NamedTuple):
    """A tensor that is brought to where an op wants it, on one dimension of devices."""

    have: str
    want: str
    devices: int
    """The devices along the dimension."""
    size: int
    """The bytes of the whole tensor."""
    is_elsewhere: bool
    """Whether it comes from other devices."""


class Chosen(NamedTuple):
    """A signature by its number, and what it costs to compute by it."""

    number: int
    cost: float = 0.0
    """In the unit of what transfers cost, beside these."""


CandidatePolicy: TypeAlias = Callable[[SbpRequest], Sequence[Chosen]]
CostPolicy: TypeAlias = Callable[[Transfer], float]


def take_all(request: SbpRequest) -> Sequence[Chosen]:
    """All signatures, in the order in which the op lists them."""
    return [*map(Chosen, range(len(request.signatures)))]


def bytes_moved(transfer: Transfer) -> float:
    """The bytes that go from device to device."""
    have, want, count, size, is_elsewhere = transfer
    if have == want and not is_elsewhere:
        return 0
    if want == "P":
        return inf
    if is_elsewhere:
        return count * size if want == "B" else size
    if have == "B":
        return 0
    if have == "P":
        return (2 if want == "B" else 1) * (count - 1) * size
    return (count - 1) * size if want == "B" else size - size // count


CANDIDATES_BUILT_IN: Mapping[str, CandidatePolicy] = {"all": take_all}
COST_BUILT_IN: Mapping[str, CostPolicy] = {"bytes": bytes_moved}


def candidate_policy(name: str) -> CandidatePolicy:
    """The policy of a name. Raises `PluginError` if there is none."""
    if name in CANDIDATES_BUILT_IN:
        return CANDIDATES_BUILT_IN[name]
    plugin = plugin_of(CANDIDATES, name)

    def policy(request: SbpRequest) -> Sequence[Chosen]:
        found = costed(plugin, plugin.call(request))
        chosen, count = [each.number for each in found], len(request.signatures)
        if strange := [number for number in chosen if not 0 <= number < count]:
            plugin.refuse(f"takes signature {strange[0]} of {request.op}, of {count}")
        if len({*chosen}) < len(chosen):
            plugin.refuse(f"takes a signature of {request.op} twice")
        if not chosen:
            plugin.refuse(f"takes no signature of {request.op}")
        return found

    return policy


def costed(plugin: PlugIn, found: object) -> list[Chosen]:
    """The numbers of a plug-in, each with its cost. Raises PluginError for others."""
    if not isinstance(found, Iterable):
        return [*map(Chosen, plugin.integers(found))]
    pairs = [
        cast("tuple[object, ...]", each) if isinstance(each, tuple) else (each, 0)
        for each in cast("Iterable[object]", found)
    ]
    if strange := [pair for pair in pairs if len(pair) != 2]:
        plugin.refuse(f"returns {strange[0]}, no pair of a number and a cost")
    numbers, costs = zip(*pairs, strict=True) if pairs else ((), ())
    for cost in costs:
        if not isinstance(cost, int | float) or not 0 <= cost < inf:
            plugin.refuse(f"returns the cost {cost!r}, no finite number from 0 on")
    return [*map(Chosen, plugin.integers(numbers), cast("Sequence[float]", costs))]


def cost_policy(name: str) -> CostPolicy:
    """The policy of a name. Raises `PluginError` if there is none."""
    if name in COST_BUILT_IN:
        return COST_BUILT_IN[name]
    plugin = plugin_of(COST, name)

    def policy(transfer: Transfer) -> float:
        if bytes_moved(transfer) == inf:
            # Nothing is brought to P where there is another choice.
            return inf
        cost = plugin.call(transfer)
        if not isinstance(cost, int | float) or isnan(cost) or cost < 0:
            way = f"{transfer.have} to {transfer.want}"
            plugin.refuse(f"returns {cost!r} for {way}, no number from 0 on")
        return cost

    return policy
