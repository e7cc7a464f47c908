"""Cycles of acts and the slots that break them, against tokens moved one by one."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations_with_replacement
from math import gcd

import pytest

from penstock.lowering.verify.shared_rules.joint_graph import (
    JointGraph,
    Link,
    smallest_increase,
)

TURNS = 3


def random_acts(rng: random.Random) -> list[int]:
    """The acts of each actor in an iteration."""
    return [rng.choice((1, 2, 4)) for _ in range(rng.randrange(2, 6))]


def random_links(rng: random.Random, acts: Sequence[int]) -> Iterator[Link]:
    """Registers that hold data for later actors, or slots that are full for any."""
    for register in range(rng.randrange(1, 2 * len(acts))):
        writer = rng.randrange(len(acts))
        slots = rng.randrange(1, 3)
        is_data = rng.random() < 0.6 and writer < len(acts) - 1
        first = writer + 1 if is_data else 0
        others = [x for x in range(first, len(acts)) if x != writer]
        readers = rng.sample(others, min(len(others), rng.randrange(1, 3)))
        # Each piece lasts for as many acts as both ends can count.
        pieces = gcd(acts[writer], *(acts[reader] for reader in readers))
        full = 0 if is_data else rng.randrange(slots + 1)
        for reader in readers:
            yield Link(writer, reader, register, pieces, full, slots - full)


def ends(acts: Sequence[int], links: Sequence[Link], more: Mapping[int, int]) -> bool:
    """Whether all turns come to their end: the rule of the executor, act by act."""
    done = [0] * len(acts)
    moved = True
    while moved:
        moved = False
        for actor, count in enumerate(acts):
            if done[actor] < TURNS * count and all(
                can_act(actor, link, acts, done, more) for link in links
            ):
                done[actor] += 1
                moved = True
    return done == [TURNS * count for count in acts]


def can_act(
    actor: int,
    link: Link,
    acts: Sequence[int],
    done: Sequence[int],
    more: Mapping[int, int],
) -> bool:
    """Whether a register lets an actor make its next act."""
    made, taken = (acts[x] // link.pieces for x in (link.writer, link.reader))
    ready = link.full + done[link.writer] // made
    begun = link.full + -(-(done[link.writer] + 1) // made)
    left = done[link.reader] // taken
    if actor == link.reader and ready <= left:
        return False
    slots = link.full + link.free + more.get(link.register, 0)
    return actor != link.writer or begun - left <= slots


def fewest(acts: Sequence[int], links: Sequence[Link]) -> int | None:
    """The least number of slots that lets all turns come to their end, if any does."""
    registers = sorted({link.register for link in links})
    for count in range(9):
        for chosen in combinations_with_replacement(registers, count):
            if ends(acts, links, {x: chosen.count(x) for x in chosen}):
                return count
    return None


@pytest.mark.parametrize("seed", range(60))
def test_the_fewest_slots_that_break_all_cycles_are_found(seed: int) -> None:
    rng = random.Random(seed)
    acts = random_acts(rng)
    links = [*random_links(rng, acts)]
    graph = JointGraph(acts, links)
    endless = {link.register: TURNS * max(acts) for link in links}
    is_hopeless = not ends(acts, links, endless)
    assert bool(graph.cycles(None)) == is_hopeless
    assert bool(graph.cycles({})) != ends(acts, links, {})
    if is_hopeless:
        return
    found = smallest_increase(graph)
    assert ends(acts, links, found.more)
    assert found.is_least
    if sum(found.more.values()) < 4:
        assert sum(found.more.values()) == fewest(acts, links)
    # Without a search some slots are found that are all needed.
    quick = smallest_increase(graph, budget=0)
    assert ends(acts, links, quick.more)
    assert quick.at_least <= sum(found.more.values()) <= sum(quick.more.values())
    for register, count in quick.more.items():
        assert not ends(acts, links, {**quick.more, register: count - 1})


def test_many_slots_are_found_without_a_long_search() -> None:
    """As many pieces as 400 micro-batches before the first comes back."""
    acts = [1, 400, 400, 1, 400]
    links = [
        Link(0, 1, 0, 1, 0, 1),
        Link(1, 2, 1, 400, 0, 2),
        Link(2, 3, 2, 1, 0, 1),
        Link(3, 4, 3, 1, 0, 1),
        Link(1, 4, 4, 400, 0, 1),
    ]
    found = smallest_increase(JointGraph(acts, links))
    assert dict(found.more) == {4: 399}
    assert not found.is_least
