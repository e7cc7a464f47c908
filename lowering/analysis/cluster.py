"""
A cluster as a file describes it: how fast its devices are, what memory they have, and
the links between them.

Ranks are dealt to nodes, so many to each. A message between ranks goes over links of
the kind `inside` a node or `between` two. Their topology says which messages share a
link: `full` has one from each end to each other one, `switch` one from each end and one
to it, and `ring` one from each end to the next and to the one before, of which a
message takes the shorter way. A copy between the host of a rank and another device
goes over the bus of that device, which has two ways. A collective of ranks is messages
along the ring of its group.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import pairwise
from math import isfinite
from typing import NamedTuple, cast

from penstock.dialects.job import DeviceAttr, Exchange
from penstock.dialects.utils.tensors import byte_count
from penstock.lowering.algorithms.unique_names import parse_size
from penstock.lowering.analysis.task_times import Machine, Rates
from penstock.plugins import nearest

TOPOLOGIES = ("full", "switch", "ring")


class ClusterError(Exception):
    """A description of a cluster that is none."""


@dataclass(frozen=True)
class LinkKind:
    """Links of one kind."""

    gbytes: float = 10.0
    """Bytes in a nanosecond, each way."""

    latency_ns: float = 5000.0
    """Nanoseconds until the first byte arrives."""

    topology: str = "full"
    """`full`, `switch` or `ring`."""


class Link(NamedTuple):
    """One way of a link, as reports name it."""

    kind: str
    """`inside`, `between` or `bus`."""
    name: str


class Route(NamedTuple):
    """The links that a message takes, for how long it keeps them, and its latency."""

    links: tuple[Link, ...]
    busy_ns: float
    latency_ns: float


class Traffic(NamedTuple):
    """The bytes on links, for how long these are kept, and the latency."""

    bytes: Mapping[Link, int]
    busy_ns: float
    latency_ns: float


@dataclass(frozen=True)
class Cluster:
    """Devices by their kinds, and the links between ranks."""

    machine: Machine = field(default_factory=Machine)
    memory: Mapping[str, int] = field(default_factory=dict[str, int])
    """The bytes of each device of a kind, and of the host of each rank as `cpu`."""
    ranks_of_node: int = 1
    inside: LinkKind = LinkKind()
    between: LinkKind = LinkKind()

    def route(
        self, source: DeviceAttr, target: DeviceAttr, size: int, ranks: int
    ) -> Route:
        """
        The way of so many bytes between two devices of so many ranks. It has no links
        in the memory of one device.
        """
        ends = source.rank.data, target.rank.data
        if ends[0] == ends[1]:
            return self._bus(source, target, size)
        nodes = ends[0] // self.ranks_of_node, ends[1] // self.ranks_of_node
        if nodes[0] != nodes[1]:
            count = -(-ranks // self.ranks_of_node)
            return way("between", self.between, "node", nodes, range(count), size)
        first = nodes[0] * self.ranks_of_node
        members = range(first, min(first + self.ranks_of_node, ranks))
        return way("inside", self.inside, "rank", ends, members, size)

    def collective(self, exchange: Exchange, ranks: int) -> Traffic:
        """
        The way of a collective of some of so many ranks: blocks that pass along the
        ring of its group, or go from each to each in `all_to_all`. All links are kept
        until the one with the most to do is done.
        """
        messages, steps = messages_of(exchange)
        carried: dict[Link, int] = {}
        busy: dict[Link, float] = {}
        latency = 0.0
        for source, target, size in messages:
            a, b = (DeviceAttr(rank, "cpu", 0) for rank in (source, target))
            route = self.route(a, b, size, ranks)
            latency = max(latency, route.latency_ns)
            for link in route.links:
                carried[link] = carried.get(link, 0) + size
                busy[link] = busy.get(link, 0.0) + route.busy_ns
        return Traffic(carried, max(busy.values(), default=0.0), steps * latency)

    def _bus(self, source: DeviceAttr, target: DeviceAttr, size: int) -> Route:
        links: list[Link] = []
        rates: list[float] = []
        for device, direction in ((source, "from"), (target, "to")):
            kind = device.kind.data
            if source != target and kind != "cpu":
                name = f"{direction} {kind}:{device.index.data}"
                links.append(Link("bus", f"rank {device.rank.data} {name}"))
                rates.append(self.machine.of(kind).link_gbytes)
        # Within a memory bytes are read and written.
        rate = min(rates, default=self.machine.of(source.kind.data).gbytes / 2)
        return Route(tuple(links), size / rate, 0.0)


def messages_of(exchange: Exchange) -> tuple[list[tuple[int, int, int]], int]:
    """
    The messages of a collective, each by its ranks with all of its bytes, and the
    number of steps in which one waits for another.
    """
    ranks, count = exchange.ranks, len(exchange.ranks)
    size = max(map(byte_count, (*exchange.sources, *exchange.targets)))
    ring = [(rank, ranks[(i + 1) % count]) for i, rank in enumerate(ranks)]
    rest = (count - 1) * size // count
    match exchange.kind:
        case "all_to_all":
            pairs = ((a, b) for a in ranks for b in ranks if a != b)
            return [(a, b, size // count) for a, b in pairs], 1
        case "broadcast":
            return [(a, b, size) for a, b in ring[:-1]], count - 1
        case "all_reduce":
            return [(a, b, 2 * rest) for a, b in ring], 2 * (count - 1)
        case _:
            return [(a, b, rest) for a, b in ring], count - 1


def way(
    kind: str,
    link: LinkKind,
    word: str,
    ends: tuple[int, int],
    members: range,
    size: int,
) -> Route:
    """The way of so many bytes between two members of a topology."""
    source, target = ends
    names = [f"{word} {source} to {word} {target}"]
    if link.topology == "switch":
        names = [f"{word} {source} out", f"{word} {target} in"]
    if link.topology == "ring":
        count = len(members)
        forth = (target - source) % count
        step = 1 if 2 * forth <= count else -1
        passed = [
            members[(source - members[0] + step * i) % count]
            for i in range(min(forth, count - forth) + 1)
        ]
        names = [f"{word} {a} to {word} {b}" for a, b in pairwise(passed)]
    hops = len(names) if link.topology == "ring" else 1
    links = tuple(Link(kind, name) for name in names)
    return Route(links, size / link.gbytes, hops * link.latency_ns)


def parse_cluster(text: str) -> Cluster:
    """
    The cluster that a file in TOML describes: tables `devices.KIND` with the rates of
    `Machine` and `memory`, `nodes` with `ranks`, and `links.inside` and `links.between`
    with the fields of `LinkKind`; each may be left out.

    Raises ClusterError for anything else.
    """
    try:
        given = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ClusterError(f"no TOML: {error}") from None
    check_keys(given, ("devices", "nodes", "links"), "")
    kinds, memory = dict(Machine().kinds), dict[str, int]()
    rates = [rate.name for rate in fields(Rates)]
    for kind, value in table_in(given, "devices", "").items():
        place = f"devices.{kind}"
        table = table_of(value, place)
        check_keys(table, (*rates, "memory"), place)
        said = {
            name: number_in(table, name, place, may_be_zero=name.endswith("_ns"))
            for name in rates
            if name in table
        }
        kinds[kind] = replace(Machine(kinds).of(kind), **said)
        if "memory" in table:
            memory[kind] = bytes_in(table["memory"], f"{place}.memory")
    nodes = table_in(given, "nodes", "")
    check_keys(nodes, ("ranks",), "nodes")
    ranks = nodes.get("ranks", 1)
    if not isinstance(ranks, int) or ranks < 1:
        raise ClusterError(f"nodes.ranks should be a whole number above 0, got {ranks}")
    links = table_in(given, "links", "")
    check_keys(links, ("inside", "between"), "links")
    inside, between = (link_in(links, name) for name in ("inside", "between"))
    return Cluster(Machine(kinds), memory, ranks, inside, between)


def link_in(links: Mapping[str, object], name: str) -> LinkKind:
    """The links of a kind in a table of links."""
    table, place = table_in(links, name, "links."), f"links.{name}"
    check_keys(table, [x.name for x in fields(LinkKind)], place)
    found = LinkKind()
    if "gbytes" in table:
        found = replace(found, gbytes=number_in(table, "gbytes", place))
    if "latency_ns" in table:
        latency = number_in(table, "latency_ns", place, may_be_zero=True)
        found = replace(found, latency_ns=latency)
    topology = table.get("topology", found.topology)
    if topology not in TOPOLOGIES:
        raise ClusterError(
            f"{place}.topology should be one of {', '.join(TOPOLOGIES)}, got "
            f"{topology!r}"
        )
    return replace(found, topology=topology)


def table_in(given: Mapping[str, object], key: str, place: str) -> dict[str, object]:
    """A table in another one, empty where it is left out."""
    return table_of(given.get(key, {}), f"{place}{key}")


def table_of(given: object, place: str) -> dict[str, object]:
    """A value of TOML that is a table."""
    if not isinstance(given, dict):
        raise ClusterError(f"{place} should be a table, got {given!r}")
    return cast("dict[str, object]", given)


def check_keys(table: Mapping[str, object], known: Sequence[str], place: str) -> None:
    """Raises ClusterError for a key of a table that is not known."""
    for key in table:
        if key not in known:
            where = f"{place} has" if place else "there is"
            raise ClusterError(
                f"{where} no '{key}'{nearest(key, known)} (known: {', '.join(known)})"
            )


def number_in(
    table: Mapping[str, object], key: str, place: str, *, may_be_zero: bool = False
) -> float:
    """A number in a table."""
    match value := table[key]:
        case bool():
            pass
        case int() | float() if isfinite(value):
            if value > 0 or (value == 0 and may_be_zero):
                return float(value)
        case _:
            pass
    least = "of at least" if may_be_zero else "above"
    raise ClusterError(f"{place}.{key} should be a number {least} 0, got {value!r}")


def bytes_in(value: object, place: str) -> int:
    """A size such as `80G`."""
    size = parse_size(value) if isinstance(value, str) else None
    if size is None:
        raise ClusterError(f'{place} should be a size such as "80G", got {value!r}')
    return size
