"""
The state of a search: its tables, and its progress.

Sizes and offsets are in units.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.lowering.algorithms.packing.compiled import Ints, Numbers, inner

GROUPS = -2

# Ends of a slice: out of steps, with a layout, with a proof that there is none, or out
# of room in the arrays.
PAUSED, SOLVED, IMPOSSIBLE, FULL = range(4)

# Next steps: a choice at the top frame, the same after its choice has failed or has led
# to a layout, or another one of its groups.
TRY, FAILED, SUCCEEDED, NEXT_GROUP = range(4)


class Buffer:
    """A buffer. `links` holds what it conflicts with."""

    size: int
    limit: int
    """The highest offset that it may have."""
    first: int
    last: int
    """Its sections, from the first up to, but not with, the last."""
    reach: int
    """One past the last section that it or one which conflicts with it has."""
    links_from: int
    links_to: int
    key: int
    second_key: int
    """The priority among those that could lie at one offset: low keys come first."""
    total: int
    """The bytes open in its fullest section, when it was last ranked."""
    rank: int
    """Its place in its group by key, total and second key."""
    offset: int
    """The least offset that it can have while it is open, else the one it has."""
    solution: int
    is_open: int


class Section:
    """Buffers that all conflict. `links` holds them."""

    links_from: int
    links_to: int
    rest: int
    """The sizes of open buffers."""
    floor: int
    """The lowest offset of open buffers."""
    lowest: int
    """A buffer that lies there."""
    spans: int
    """The number of open buffers that reach into the next section."""


class Frame:
    """A choice among candidates, or groups to be solved one after the other."""

    buffer: int
    """The buffer that is placed, NONE, or GROUPS."""
    place: int
    """Its place in the list of members."""
    next: int
    end: int
    """The candidates, or groups, that are left."""
    begin: int
    """Where the lists of candidates and members, and the trails, ended before."""
    members_mark: int
    offsets_mark: int
    floors_mark: int
    members: int
    count: int
    """The open buffers: where they are among the members, and how many."""
    first: int
    last: int
    """The sections that they are in, or may be in."""
    least_offset: int
    least_rank: int
    """The buffer that was placed last: what comes is not below it."""
    largest_rest: int
    """Not less than what is open in any section."""


class State:
    """The progress of a search: the ends of its lists, and its counts."""

    depth: int
    candidates: int
    members: int
    offsets: int
    floors: int
    steps: int
    nodes: int
    next: int


class Search(NamedTuple):
    """All that a search works on."""

    state: Sequence[State]
    """One row."""
    buffers: Sequence[Buffer]
    sections: Sequence[Section]
    frames: Sequence[Frame]
    links: Numbers
    maxima: Ints
    """Row k, while ranking: what is open in the fullest of 2**k sections."""
    candidates: Numbers
    """Candidates by their place in `members`; groups by their sections, by twos."""
    members: Numbers
    offset_trail: Numbers
    """By twos: a buffer and its former offset."""
    floor_trail: Numbers
    """By threes: a section, its former floor and what lay there."""


@inner
def has_room(search: Search) -> bool:
    """Whether the lists have room for whatever the next step may add."""
    state, count = search.state[0], len(search.buffers) + len(search.sections)
    return (
        state.depth + 2 < len(search.frames)
        and state.candidates + 2 * count < len(search.candidates)
        and state.members + 2 * count < len(search.members)
        and state.offsets + 2 * count < len(search.offset_trail)
        and state.floors + 6 * count < len(search.floor_trail)
    )
