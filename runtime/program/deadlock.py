"""Deadlocks that a program is bound to run into, found before it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.runtime.program.tables import Tables


def find_deadlock(tables: Tables) -> list[str] | None:
    """
    The names of actors that wait for each other in a cycle, or None if none ever will.

    Where each act moves one piece per register, a program stops for ever exactly if
    some cycle of it has no token: no piece on the way from a producer to a reader, no
    free slot on the way back. With pieces that last for several acts, it does if it
    does so within one iteration. Linear in the number of acts of an iteration and of
    reads. Only actors of the plain kind count: the others depend on data.
    """
    rates = {n for actor in tables.actors for _, n in actor.every}
    cycle = find_cycle(_waiting(tables) if rates <= {1} else _left_waiting(tables))
    return None if cycle is None else [tables.actors[actor].name for actor in cycle]


def _is_plain(tables: Tables, *actors: int) -> bool:
    """Whether these are actors, and of the plain kind."""
    return all(x >= 0 and tables.actors[x].kind == "plain" for x in actors)


def _waiting(tables: Tables) -> list[list[int]]:
    """For each actor those that cannot act first before it has acted."""
    followers: list[list[int]] = [[] for _ in tables.actors]
    for index, reader in tables.edges:
        register = tables.registers[index]
        if not _is_plain(tables, register.producer, reader):
            continue
        if register.initial == 0:
            followers[register.producer].append(reader)
        if register.initial == register.slots:
            followers[reader].append(register.producer)
    return followers


def _left_waiting(tables: Tables) -> list[list[int]]:
    """
    For each actor those that wait for it when no actor can act in the first iteration.
    """
    if not all(_is_plain(tables, actor) for actor in range(len(tables.actors))):
        return _waiting(tables)
    done = [0] * len(tables.actors)
    near: list[list[int]] = [[] for _ in done]
    for place, (index, reader) in enumerate(tables.edges):
        if min(reader, tables.registers[index].producer) >= 0:
            near[tables.registers[index].producer].append(place)
            near[reader].append(place)

    def is_blocked(actor: int, edge: int) -> tuple[bool, int]:
        """Whether an actor waits for the other one on an edge, and which that is."""
        index, reader = tables.edges[edge]
        register = tables.registers[index]
        producer = register.producer
        made = done[producer] // tables.actors[producer].acts_for(index)
        used = done[reader] // tables.actors[reader].acts_for(index)
        full = register.initial + made - used
        if actor == reader and full <= 0:
            return True, producer
        return actor == producer and full >= register.slots, reader

    pending = list(range(len(done)))
    while pending:
        actor = pending.pop()
        while done[actor] < tables.repetitions[actor]:
            if any(is_blocked(actor, edge)[0] for edge in near[actor]):
                break
            done[actor] += 1
            for edge in near[actor]:
                index, reader = tables.edges[edge]
                pending += {tables.registers[index].producer, reader} - {actor}
    followers: list[list[int]] = [[] for _ in done]
    for actor, count in enumerate(done):
        for edge in near[actor] if count < tables.repetitions[actor] else ():
            waits, other = is_blocked(actor, edge)
            if waits:
                followers[other].append(actor)
    return followers


def find_cycle(successors: Sequence[Sequence[int]]) -> list[int] | None:
    """The nodes of one cycle of a graph in order, or None if it has no cycle."""
    unseen, open_, finished = 0, 1, 2
    mark = [unseen] * len(successors)
    for root in range(len(successors)):
        if mark[root] != unseen:
            continue
        path = [root]
        pending: list[Iterator[int]] = [iter(successors[root])]
        mark[root] = open_
        while path:
            node = next(pending[-1], None)
            if node is None:
                mark[path.pop()] = finished
                pending.pop()
            elif mark[node] == open_:
                return path[path.index(node) :]
            elif mark[node] == unseen:
                mark[node] = open_
                path.append(node)
                pending.append(iter(successors[node]))
    return None
