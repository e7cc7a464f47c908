"""
The proof that a main job's lock excludes conflicting uses, without IR. `verify-plan`
and `verify-program` ask for it.

A section is held from before its source acts until after its sink has. So an actor of
the same job that comes after the source and before the sink in the same act only acts
while the section is held. Two jobs never use a thing at the same time if each has a
section that covers all of its own uses, and the lock grants neither of the two while
the other one is held.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from penstock.lowering.algorithms.graphs import reached
from penstock.lowering.algorithms.marked_graph import MarkedGraph


class Section(NamedTuple):
    """A section that a lock grants, by what it covers and excludes."""

    job: str
    covered: Collection[int]
    """The actors that act only while the section is held, by number in their job."""
    rivals: Collection[int]
    """The sections that are not held at the same time, by number."""


class Shared(NamedTuple):
    """Something that jobs use, and which of them may not use it beside others."""

    what: str
    users: Mapping[str, Collection[int]]
    """The actors of each job that use it."""
    writers: Collection[str]
    """The jobs that nobody else may use it beside."""


def between(graph: MarkedGraph, source: int, sink: int) -> set[int]:
    """The actors that come after one and before another one in the same act."""
    return reached(graph.next, source) & reached(graph.previous, sink)


def unguarded(sections: Sequence[Section], shared: Shared) -> Iterator[tuple[str, str]]:
    """The pairs of jobs that the lock lets use something at the same time."""
    covering = {
        job: [
            i
            for i, section in enumerate(sections)
            if section.job == job and set(users) <= set(section.covered)
        ]
        for job, users in shared.users.items()
    }
    for one, other in combinations(shared.users, 2):
        if not {one, other} & set(shared.writers):
            continue
        pairs = ((i, j) for i in covering[one] for j in covering[other])
        if not any(
            j in sections[i].rivals and i in sections[j].rivals for i, j in pairs
        ):
            yield one, other
