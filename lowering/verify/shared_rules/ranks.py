"""
The rules between the programs of several ranks, whatever their level.

A message has two ends: a task that sends it on one rank, and one on another that
receives it. The rank, the peer and the tag of each end say which message it is. Then

* each message that is sent is received once by its peer, and the other way round, with
  the same type and as often in an iteration;
* no two ends on one rank are of one message, and each peer has a program;
* all ranks of a collective take part in it, once each and equally often in an
  iteration, say the same kind, algorithm and ranks, and have the same types; a
  `broadcast` is from the first of them; no message between two of them has its tag;
* each cycle of waits over several ranks has a token, where both ends of a message, and
  all parts of a collective, act together: none can act before the others could. So all
  ranks take part in collectives in one order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from xdsl.ir import Attribute, Operation

from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.verify.shared_rules.joint_graph import (
    Cycle,
    JointGraph,
    Link,
    Wait,
    smallest_increase,
)


class End(NamedTuple):
    """One end of a message: an actor or task by number, with what it says of it."""

    actor: int
    is_send: bool
    peer: int
    tag: int
    type: Attribute


class Part(NamedTuple):
    """A part in a collective: an actor or task by number, with what it says of it."""

    actor: int
    kind: str
    algorithm: str
    ranks: tuple[int, ...]
    tag: int
    sources: tuple[Attribute, ...]
    targets: tuple[Attribute, ...]

    @property
    def text(self) -> str:
        """The attributes that all parts say alike."""
        ranks = ", ".join(map(str, self.ranks))
        return f"{self.kind} by {self.algorithm} of ranks {ranks}"

    @property
    def types(self) -> tuple[Attribute, ...]:
        """The types that all parts have alike."""
        # A broadcast has one end on each rank, of the same tensor.
        return (*self.sources, *self.targets)


class Key(NamedTuple):
    """A message: the ranks that send and receive it, and its tag."""

    source: int
    target: int
    tag: int


class Actor(NamedTuple):
    """An actor or task as messages name it, with its acts in an iteration."""

    op: Operation
    name: str
    rank: int
    """The rank of its device."""
    acts: int


@dataclass
class RankProgram:
    """A program or plan of one rank: what its actors wait for, and its messages."""

    op: Operation
    name: str
    rank: int
    actors: list[Actor]
    links: list[Link]
    """The registers between actors, by the numbers of actors and registers."""
    registers: list[str]
    """The names of the registers."""
    ends: list[End]
    parts: list[Part]
    """Its parts in collectives."""

    @property
    def has_messages(self) -> bool:
        """Whether it exchanges anything with others."""
        return bool(self.ends or self.parts)

    def key_of(self, end: End) -> Key:
        """The message that an end is of."""
        pair = (self.rank, end.peer) if end.is_send else (end.peer, self.rank)
        return Key(*pair, end.tag)

    def text_of(self, actor: int) -> str:
        """An actor with its rank."""
        return f"{self.actors[actor].name} of rank {self.rank}"


class Place(NamedTuple):
    """An end of a message, and the program that it is in."""

    program: RankProgram
    end: End

    @property
    def actor(self) -> Actor:
        """Its actor."""
        return self.program.actors[self.end.actor]

    @property
    def verb(self) -> str:
        """The word for what it does."""
        return "sends" if self.end.is_send else "receives"

    @property
    def way(self) -> str:
        """The message as this end sees it."""
        way = "to" if self.end.is_send else "of"
        return f"message {self.end.tag} {way} rank {self.end.peer}"

    def __str__(self) -> str:
        return self.program.text_of(self.end.actor)


class Channel(NamedTuple):
    """Both ends of a message."""

    sender: Place
    receiver: Place


def groups_of(programs: Sequence[RankProgram]) -> list[list[RankProgram]]:
    """
    The programs that run together: all of a module, unless some have the same rank and
    those with messages have names that end in it, so that they differ in that alone
    (`train_0` and `train_1`, `test_0` and `test_1`).
    """
    groups: dict[str, list[RankProgram]] = {}
    is_named = True
    for program in programs:
        stem = program.name.removesuffix(f"_{program.rank}")
        is_named &= stem != program.name or not program.has_messages
        groups.setdefault(stem, []).append(program)
    is_one = len({program.rank for program in programs}) == len(programs)
    return [*groups.values()] if is_named and not is_one else [[*programs]]


def findings_between(programs: Sequence[RankProgram]) -> Iterator[Finding]:
    """All that is wrong between the programs of one module."""
    for group in groups_of(programs):
        if any(program.has_messages for program in group):
            yield from findings_of_group(group)


def findings_of_group(group: Sequence[RankProgram]) -> Iterator[Finding]:
    """All that is wrong between programs that run together."""
    found = [*shared_ranks(group), *strangers(group)]
    if not found:
        pairing, collectives = Pairing(group), collectives_of(group)
        found = [*pairing.findings(), *bad_collectives(group, collectives)]
        if not found:
            together = [*pairing.channels, *collectives.values()]
            found = [*deadlocks(group, together)]
    yield from found


def shared_ranks(group: Sequence[RankProgram]) -> Iterator[Finding]:
    """Programs of one rank."""
    first: dict[int, RankProgram] = {}
    for program in group:
        other = first.setdefault(program.rank, program)
        if other is not program:
            text = f"@{other.name} and @{program.name} are both of rank {program.rank}"
            yield program.op, text


def strangers(group: Sequence[RankProgram]) -> Iterator[Finding]:
    """Messages of other ranks than their program's."""
    for program in group:
        for end in (*program.ends, *program.parts):
            if (actor := program.actors[end.actor]).rank != program.rank:
                yield (
                    actor.op,
                    f"{actor.name} has a message of rank {actor.rank}, but "
                    f"@{program.name} is of rank {program.rank}",
                )


class Pairing:
    """The ends of all messages of some programs, each with the other one."""

    def __init__(self, group: Sequence[RankProgram]) -> None:
        self._ranks = {program.rank for program in group}
        self._places: dict[tuple[Key, bool], list[Place]] = {}
        for program in group:
            for end in program.ends:
                key = program.key_of(end), end.is_send
                self._places.setdefault(key, []).append(Place(program, end))
        self.channels = [
            Channel(places[0], other[0])
            for (key, is_send), places in self._places.items()
            if is_send and (other := self._places.get((key, False)))
        ]
        self._alone = [
            places[0]
            for (key, is_send), places in self._places.items()
            if (key, not is_send) not in self._places
        ]

    def findings(self) -> Iterator[Finding]:
        """All that is wrong with the ends of messages."""
        for first, *others in self._places.values():
            for other in others:
                yield (
                    other.actor.op,
                    f"{first.actor.name} and {other.actor.name} of rank "
                    f"{first.program.rank} both {first.verb.removesuffix('s')} "
                    f"{first.way}",
                )
        yield from self._lonely()
        for channel in self.channels:
            yield from misfits(channel)

    def _lonely(self) -> Iterator[Finding]:
        """The ends without another one, or with one of another tag."""
        between = Counter(self._way(place) for place in self._alone)
        partners = {self._way(x): x for x in self._alone if not x.end.is_send}
        for place in self._alone:
            ends, is_send = self._way(place)
            is_pair = between[ends, True] == between[ends, False] == 1
            if is_pair and is_send:
                other = partners[ends, False]
                yield (
                    place.actor.op,
                    f"{place} sends {place.way}, where {other.actor.name} waits for "
                    f"message {other.end.tag}",
                )
            elif not is_pair:
                yield place.actor.op, f"{place} {place.verb} {self._lack(place)}"

    def _way(self, place: Place) -> tuple[tuple[int, int], bool]:
        key = place.program.key_of(place.end)
        return (key.source, key.target), place.end.is_send

    def _lack(self, place: Place) -> str:
        if place.end.peer == place.program.rank:
            return f"{place.way}, its own"
        if place.end.peer not in self._ranks:
            return f"{place.way}, which has no program"
        verb = "receives" if place.end.is_send else "sends"
        return f"{place.way}, where nothing {verb} it"


def misfits(channel: Channel) -> Iterator[Finding]:
    """The differences between the ends of a message."""
    sender, receiver = channel
    if sender.program is receiver.program:
        yield sender.actor.op, f"{sender} sends {sender.way}, its own"
        return
    if sender.end.type != receiver.end.type:
        yield (
            receiver.actor.op,
            f"{sender} sends message {sender.end.tag} as {sender.end.type}, but "
            f"{receiver} receives {receiver.end.type}",
        )
    made, taken = sender.actor.acts, receiver.actor.acts
    if made != taken:
        yield (
            receiver.actor.op,
            f"{sender} sends message {sender.end.tag} {times(made)} in an iteration, "
            f"but {receiver} receives it {times(taken)}",
        )


class Member(NamedTuple):
    """A part in a collective, and the program that it is in."""

    program: RankProgram
    end: Part

    @property
    def actor(self) -> Actor:
        """Its actor."""
        return self.program.actors[self.end.actor]

    def __str__(self) -> str:
        return self.program.text_of(self.end.actor)


def collectives_of(group: Sequence[RankProgram]) -> dict[int, list[Member]]:
    """The parts of each collective, by its tag."""
    found: dict[int, list[Member]] = {}
    for program in group:
        for part in program.parts:
            found.setdefault(part.tag, []).append(Member(program, part))
    return found


def bad_collectives(
    group: Sequence[RankProgram], collectives: Mapping[int, Sequence[Member]]
) -> Iterator[Finding]:
    """All that is wrong with the parts of collectives."""
    ranks = {program.rank for program in group}
    for tag, members in collectives.items():
        first = members[0]
        seen: dict[int, Member] = {}
        for member in members:
            other = seen.setdefault(member.program.rank, member)
            if other is not member:
                yield (
                    member.actor.op,
                    f"{other.actor.name} and {member} both take part in "
                    f"collective {tag}",
                )
            yield from different_parts(tag, first, member)
        for rank in first.end.ranks:
            if rank not in seen:
                lack = "does not" if rank in ranks else "has no program"
                yield (
                    first.actor.op,
                    f"{first} takes part in collective {tag} with rank {rank}, which "
                    f"{lack}",
                )
    yield from shared_tags(group, collectives)


def different_parts(tag: int, first: Member, member: Member) -> Iterator[Finding]:
    """The differences between two parts of a collective."""
    own, other = member.end, first.end
    pairs = [
        (other.text, own.text),
        (" and ".join(map(str, other.types)), " and ".join(map(str, own.types))),
        (times(first.actor.acts), times(member.actor.acts)),
    ]
    for said, says in pairs:
        if said != says:
            yield (
                member.actor.op,
                f"{first} takes part in collective {tag} as {said}, but {member} as "
                f"{says}",
            )
            return
    is_first = member.program.rank == own.ranks[0]
    if own.kind == "broadcast" and bool(own.sources) != is_first:
        verb = "reads nothing for" if is_first else "is not the first of"
        yield member.actor.op, f"{member} {verb} collective {tag}, which it sends"


def shared_tags(
    group: Sequence[RankProgram], collectives: Mapping[int, Sequence[Member]]
) -> Iterator[Finding]:
    """Messages that could be taken for those of a collective."""
    for program in group:
        for end in program.ends:
            for member in collectives.get(end.tag, ())[:1]:
                if {program.rank, end.peer} <= {*member.end.ranks}:
                    name = program.text_of(end.actor)
                    yield (
                        program.actors[end.actor].op,
                        f"{name} has a message of tag {end.tag}, which is that of "
                        f"collective {end.tag} of the same ranks",
                    )


def times(count: int) -> str:
    """A number of acts in words."""
    return "once" if count == 1 else f"{count} times"


################################################################################
# Waits over several ranks                                                     #
################################################################################


Together: TypeAlias = "Sequence[Place] | Sequence[Member]"
"""Ends or parts whose actors act together."""


def deadlocks(
    group: Sequence[RankProgram], together: Sequence[Together]
) -> Iterator[Finding]:
    """
    Cycles of waits over several ranks; none where those of one rank are wrong already,
    of which its own rules tell.
    """
    joint = Joint(group, together)
    if hopeless := joint.graph.cycles(None):
        if not any(joint.is_of_one_rank(cycle) for cycle in hopeless):
            for cycle in hopeless:
                op, text = joint.text_of(cycle)
                yield op, f"{text}; no slots break the cycle"
        return
    cycles = joint.graph.cycles({})
    if not cycles or any(joint.is_of_one_rank(cycle) for cycle in cycles):
        return
    increase = smallest_increase(joint.graph)
    slots = " and ".join(
        f"{count} more {'slot' if count == 1 else 'slots'} for {joint.registers[x]}"
        for x, count in sorted(increase.more.items())
    )
    op, text = joint.text_of(cycles[0])
    least = "" if increase.is_least else f", at least {increase.at_least} are needed"
    yield op, f"{text}; it takes {slots} to break all such cycles{least}"


class Joint:
    """
    The programs of all ranks as one graph, in which messages and collectives are single
    actors.
    """

    def __init__(
        self, group: Sequence[RankProgram], together: Sequence[Together]
    ) -> None:
        self._group = group
        self.registers: list[str] = []
        """The names of all registers, with their ranks."""
        self._ends: list[dict[int, tuple[RankProgram, int]]] = []
        self._rank: list[int] = []
        sent = {
            (x.program.rank, x.end.actor): first
            for first, *others in together
            for x in others
        }
        numbers: dict[tuple[int, int], int] = {}
        acts: list[int] = []
        for program in group:
            for number, actor in enumerate(program.actors):
                if (program.rank, number) not in sent:
                    numbers[program.rank, number] = len(acts)
                    acts.append(actor.acts)
                    self._ends.append({program.rank: (program, number)})
        for key, sender in sent.items():
            numbers[key] = node = numbers[sender.program.rank, sender.end.actor]
            program = next(x for x in group if x.rank == key[0])
            self._ends[node][key[0]] = program, key[1]
        links: list[Link] = []
        for program in group:
            first = len(self.registers)
            self.registers += [f"{x} of rank {program.rank}" for x in program.registers]
            self._rank += [program.rank] * len(program.registers)
            links += [
                link._replace(
                    writer=numbers[program.rank, link.writer],
                    reader=numbers[program.rank, link.reader],
                    register=first + link.register,
                )
                for link in program.links
            ]
        self.graph = JointGraph(acts, links)

    def is_of_one_rank(self, cycle: Cycle) -> bool:
        """Whether all waits of a cycle are for registers of one rank."""
        links = (wait.link for wait in cycle if wait.link is not None)
        return len({self._rank[link.register] for link in links}) == 1

    def text_of(self, cycle: Cycle) -> Finding:
        """The actor of a cycle that is listed first, and the cycle from there on."""
        # An actor that waits for itself says nothing new.
        waits = [wait for wait in cycle if wait.link is not None]
        start = min(range(len(waits)), key=lambda i: self._listed(waits[i]))
        waits = waits[start:] + waits[:start]
        # A message is told by the end that is waited for, and the one that waits.
        names = [self._name(waits[0].first, waits[0].link)]
        for before, wait in pairwise((*waits, waits[0])):
            for by in (before, wait):
                name = self._name(wait.first, by.link)
                if name != names[-1]:
                    names.append(name)
        program, number = self._end(waits[0].first, waits[0].link)
        text = f"ranks wait for each other: {' -> '.join(names)}"
        return program.actors[number].op, text

    def _end(self, node: int, link: Link | None) -> tuple[RankProgram, int]:
        assert link is not None, "the waits of a cycle that is told are for registers"
        return self._ends[node][self._rank[link.register]]

    def _listed(self, wait: Wait) -> tuple[int, int]:
        program, number = self._end(wait.first, wait.link)
        return self._group.index(program), number

    def _name(self, node: int, link: Link | None) -> str:
        program, number = self._end(node, link)
        return program.text_of(number)
