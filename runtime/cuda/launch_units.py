"""
Launch units of the actors on CUDA devices, and the acts that they wait for.

A *unit* is the work that is launched at once: an act of one actor, or of several that
become one graph. Its acts return long before they are done. Actors of the host that
have to wait for the end have an actor in between, the *waiter* of the unit
(`penstock.runtime.cuda.host_actors`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from penstock.runtime.loading.devices import Place
from penstock.runtime.program.actors import CALLER, PLAIN, Actor, Register


class Edge(NamedTuple):
    """
    An act comes after one of another unit: `made` of its acts are for a piece for which
    `taken` acts of this are, and `shift` says for which piece.
    """

    unit: int
    made: int
    taken: int
    shift: int

    def act_before(self, act: int) -> int:
        """The last act of the other unit to come before an act; negative for none."""
        return (act // self.taken + self.shift + 1) * self.made - 1


@dataclass(frozen=True)
class Unit:
    """Actors whose acts of one number a device is asked for at once, in this order."""

    name: str
    actors: tuple[int, ...]


@dataclass(frozen=True)
class Flow:
    """A program: its registers, its actors, and where those work that need a device."""

    registers: Sequence[Register]
    actors: Sequence[Actor]
    places: Sequence[Place | None]

    @cached_property
    def readers(self) -> list[list[int]]:
        """For each register the actors that read it."""
        found: list[list[int]] = [[] for _ in self.registers]
        for index, actor in enumerate(self.actors):
            for register in actor.reads:
                found[register].append(index)
        return found

    @cached_property
    def neighbours(self) -> list[set[int]]:
        """For each actor those that it shares a register with; the caller is one."""
        found: list[set[int]] = [set() for _ in self.actors]
        for index, register in enumerate(self.registers):
            for reader in self.readers[index]:
                found[reader].add(register.producer)
                if register.producer != CALLER:
                    found[register.producer].add(reader)
            if register.is_taken:
                found[register.producer].add(CALLER)
        return found


def running_ahead(flow: Flow) -> list[int]:
    """
    The actors on devices that need not wait for the end of their acts: they, and all
    their neighbours on the host, are of the plain kind.
    """
    near = flow.neighbours
    found: list[int] = []
    for index, place in enumerate(flow.places):
        around = {index, *near[index]}
        if place is None or CALLER in around:
            continue
        kinds = {flow.actors[x].kind for x in around}
        whens = {(call.when, call.on) for call in flow.actors[index].calls}
        if kinds == {PLAIN} and all(on is None for _, on in whens):
            found.append(index)
    return found


def before_in_act(flow: Flow) -> list[list[int]]:
    """For each actor those whose act of the same number has to come first."""
    before: list[list[int]] = [[] for _ in flow.actors]
    readers = flow.readers
    for index, register in enumerate(flow.registers):
        for reader in readers[index]:
            if register.producer == CALLER:
                continue
            if register.initial == 0:
                before[reader].append(register.producer)
            if register.initial == register.slots:
                before[register.producer].append(reader)
    return before


def order_in_act(flow: Flow) -> list[int]:
    """All actors, each after those that come first in an act, as far as that goes."""
    before = before_in_act(flow)
    missing = [len(set(xs)) for xs in before]
    after: list[set[int]] = [set() for _ in before]
    for index, xs in enumerate(before):
        for other in xs:
            after[other].add(index)
    order = [index for index, count in enumerate(missing) if not count]
    for actor in order:
        for other in sorted(after[actor]):
            missing[other] -= 1
            if not missing[other]:
                order.append(other)
    return order


def groups_of(flow: Flow, capturable: Collection[int]) -> list[list[int]]:
    """
    The actors, of those that run ahead and can be captured, that may become graphs,
    each group in the order of an act.

    All work on one device, once an iteration, and copy nothing to or from the host. No
    actor outside of a group lies on a path between two actors of it.
    """
    before, level = before_in_act(flow), [0] * len(flow.actors)
    order = order_in_act(flow)
    if len(order) < len(flow.actors):
        # They wait for each other: the loader says so.
        return []
    device = [
        _graph_device(flow, x) if x in capturable else None for x in range(len(level))
    ]
    groups: dict[tuple[int, int], list[int]] = {}
    for actor in order:
        own = device[actor]
        level[actor] = max(
            (level[x] + (own is None or device[x] != own) for x in before[actor]),
            default=0,
        )
        if own is not None:
            groups.setdefault((own, level[actor]), []).append(actor)
    return [group for group in groups.values() if _is_worth_it(flow, group)]


def _graph_device(flow: Flow, actor: int) -> int | None:
    """The device for which an actor may be in a graph."""
    place = flow.places[actor]
    if place is None or place.is_transfer or flow.actors[actor].every:
        return None
    return place.device


def _is_worth_it(flow: Flow, group: Sequence[int]) -> bool:
    return sum(len(flow.actors[actor].calls) for actor in group) > 1


def edges_of(flow: Flow, units: Sequence[Unit]) -> list[tuple[Edge, ...]]:
    """For each unit the waits of its acts: pieces, and slots that are free again."""
    unit_of = {x: i for i, unit in enumerate(units) for x in unit.actors}
    found: list[dict[Edge, None]] = [{} for _ in units]
    readers = flow.readers
    for index, register in enumerate(flow.registers):
        producer = unit_of.get(register.producer)
        for reader in readers[index]:
            own = unit_of.get(reader)
            if own is None or producer is None or own == producer:
                continue
            made = flow.actors[register.producer].acts_for(index)
            taken = flow.actors[reader].acts_for(index)
            found[own][Edge(producer, made, taken, -register.initial)] = None
            free = register.initial - register.slots
            found[producer][Edge(own, taken, made, free)] = None
    return [tuple(edges) for edges in found]


def used_by(flow: Flow, unit: Unit) -> list[int]:
    """The registers that actors of a unit read or write, each once."""
    actors = [flow.actors[x] for x in unit.actors]
    return list(dict.fromkeys(r for x in actors for r in (*x.reads, *x.writes)))


def hosts_of(flow: Flow, unit: Unit, ahead: Collection[int]) -> list[int]:
    """
    The actors that know a unit is done only when it is: those around it on the host,
    and those on devices that wait for the end of their own acts.
    """
    near = flow.neighbours
    return sorted({x for actor in unit.actors for x in near[actor]} - {*ahead})


def is_last(flow: Flow, unit: Unit, ahead: Collection[int]) -> bool:
    """Whether no other unit comes after a unit in an act."""
    readers = flow.readers
    written = {r for actor in unit.actors for r in flow.actors[actor].writes}
    after = {x for register in written for x in readers[register]}
    return not (after & {*ahead}) - {*unit.actors}
