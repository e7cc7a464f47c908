"""
Rules on tables, and searches that put buffers into a sequence.

A *sequence* of buffers stands for the layout in which each lies on the highest end of
those before it that it conflicts with. That end is its head; its tail is the least that
lies above it. With both known, it is known without laying anything out how high the
layout becomes when a buffer is put in at any place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.lowering.algorithms.packing.compiled import (
    INFINITE,
    NONE,
    Numbers,
    compiled,
    inner,
)


class Item:
    """A buffer. `links` holds what it conflicts with. All is in units."""

    size: int
    links_from: int
    links_to: int
    place: int
    """Its place in the sequence, or NONE."""
    head: int
    """Its offset."""
    tail: int
    """The least height above it."""
    mark: int


class Layout(NamedTuple):
    """A sequence of some of the buffers."""

    items: Sequence[Item]
    links: Numbers
    sequence: Numbers
    above: Numbers
    """Room for one number more than there are buffers."""
    numbers: Numbers
    """The length of the sequence, and the state of the random numbers."""


################################################################################
# Rules                                                                        #
################################################################################


@inner
def mark_neighbours(items: Sequence[Item], links: Numbers, i: int, mark: int) -> None:
    """Give a mark to all that conflicts with a buffer."""
    for x in range(items[i].links_from, items[i].links_to):
        items[links[x]].mark = mark


@inner
def lowest_gap(items: Sequence[Item], placed: Numbers, i: int, best_fit: bool) -> int:
    """Where a buffer fits between those placed, by offset, that are marked with it."""
    floor, lowest, smallest = 0, NONE, INFINITE
    for j in placed:
        other = items[j]
        if other.mark != i:
            continue
        gap = other.head - floor
        if items[i].size <= gap < smallest:
            if not best_fit:
                return floor
            lowest, smallest = floor, gap
        floor = max(floor, other.head + other.size)
    return floor if lowest == NONE else lowest


@compiled
def place_in_order(
    items: Sequence[Item],
    links: Numbers,
    order: Numbers,
    placed: Numbers,
    best_fit: bool,
) -> None:
    """
    Give each buffer a head: what `greedy.place_in_order` does. `placed` is room for
    them in the order of offsets.
    """
    for item in items:
        item.mark = NONE
    for count, i in enumerate(order):
        mark_neighbours(items, links, i, i)
        items[i].head = lowest_gap(items, placed[:count], i, best_fit)
        x = count
        while x > 0 and items[placed[x - 1]].head > items[i].head:
            placed[x] = placed[x - 1]
            x -= 1
        placed[x] = i


################################################################################
# Sequences                                                                    #
################################################################################


@inner
def find_heads(layout: Layout) -> int:
    """Lay a sequence out; returns its end."""
    items, peak = layout.items, 0
    for i in layout.sequence[: layout.numbers[0]]:
        item, head = items[i], 0
        for j in layout.links[item.links_from : item.links_to]:
            if 0 <= items[j].place < item.place:
                head = max(head, items[j].head + items[j].size)
        item.head = head
        peak = max(peak, head + item.size)
    return peak


@inner
def find_tails(layout: Layout) -> None:
    """Find what lies above each buffer of a sequence."""
    items = layout.items
    for i in layout.sequence[: layout.numbers[0]][::-1]:
        item, tail = items[i], 0
        for j in layout.links[item.links_from : item.links_to]:
            if items[j].place > item.place:
                tail = max(tail, items[j].tail + items[j].size)
        item.tail = tail


@inner
def find_heights(layout: Layout, i: int) -> int:
    """
    For each place in the sequence, how high the layout gets through buffer i there;
    returns the least of them. They are left in `above`.
    """
    items, above, count = layout.items, layout.above, layout.numbers[0]
    mark_neighbours(items, layout.links, i, i)
    above[count] = 0
    for x in range(count - 1, -1, -1):
        item = items[layout.sequence[x]]
        top = item.size + item.tail if item.mark == i else 0
        above[x] = max(above[x + 1], top)
    low, least = 0, INFINITE
    for x in range(count + 1):
        above[x] += low + items[i].size
        least = min(least, above[x])
        if x < count and items[layout.sequence[x]].mark == i:
            item = items[layout.sequence[x]]
            low = max(low, item.head + item.size)
    return least


@inner
def put_in(layout: Layout, i: int, place: int) -> None:
    """Put a buffer into the sequence."""
    sequence, count = layout.sequence, layout.numbers[0]
    for x in range(count, place, -1):
        sequence[x] = sequence[x - 1]
        layout.items[sequence[x]].place = x
    sequence[place] = i
    layout.items[i].place = place
    layout.numbers[0] = count + 1


@inner
def take_out(layout: Layout, i: int) -> int:
    """Take a buffer out of the sequence; returns where it was."""
    sequence, count = layout.sequence, layout.numbers[0]
    place = layout.items[i].place
    for x in range(place, count - 1):
        sequence[x] = sequence[x + 1]
        layout.items[sequence[x]].place = x
    layout.items[i].place = NONE
    layout.numbers[0] = count - 1
    return place


@inner
def spread_heads(layout: Layout, i: int) -> None:
    """Set the head of a buffer that was put in, and raise what follows from it."""
    items, links = layout.items, layout.links
    for item in items:
        item.mark = 0
    item = items[i]
    item.head, item.mark = 0, 1
    for j in links[item.links_from : item.links_to]:
        if 0 <= items[j].place < item.place:
            item.head = max(item.head, items[j].head + items[j].size)
    for k in layout.sequence[item.place : layout.numbers[0]]:
        lower = items[k]
        if lower.mark:
            for j in links[lower.links_from : lower.links_to]:
                upper, end = items[j], lower.head + lower.size
                if upper.place > lower.place and upper.head < end:
                    upper.head, upper.mark = end, 1


@inner
def spread_tails(layout: Layout, i: int) -> None:
    """The same for tails."""
    items, links = layout.items, layout.links
    for item in items:
        item.mark = 0
    item = items[i]
    item.tail, item.mark = 0, 1
    for j in links[item.links_from : item.links_to]:
        if items[j].place > item.place:
            item.tail = max(item.tail, items[j].tail + items[j].size)
    for k in layout.sequence[: item.place + 1][::-1]:
        upper = items[k]
        if upper.mark:
            for j in links[upper.links_from : upper.links_to]:
                lower, end = items[j], upper.tail + upper.size
                if 0 <= lower.place < upper.place and lower.tail < end:
                    lower.tail, lower.mark = end, 1


@compiled
def insert_in_order(layout: Layout, order: Numbers) -> None:
    """Put each buffer in where the layout gets least high through it."""
    for i in order:
        least, place = find_heights(layout, i), 0
        while layout.above[place] != least:
            place += 1
        put_in(layout, i, place)
        spread_heads(layout, i)
        spread_tails(layout, i)


################################################################################
# Local search                                                                 #
################################################################################


@inner
def random_below(layout: Layout, end: int) -> int:
    """The next of the random numbers from 0 up to, but not with, `end`."""
    state = layout.numbers[1] * 1103515245 + 12345 & 0x7FFFFFFF
    layout.numbers[1] = state
    return (state >> 8) % end


@inner
def pick_critical(layout: Layout, peak: int) -> int:
    """One of the buffers that the height of the layout is due to."""
    picked, count = NONE, 0
    for i in layout.sequence[: layout.numbers[0]]:
        item = layout.items[i]
        if item.head + item.size + item.tail == peak:
            count += 1
            if random_below(layout, count) == 0:
                picked = i
    return picked


@inner
def pick_place(layout: Layout, limit: int) -> int:
    """One of the places where the layout gets no higher than a limit."""
    picked, count = NONE, 0
    for x in range(layout.numbers[0] + 1):
        if layout.above[x] <= limit:
            count += 1
            if random_below(layout, count) == 0:
                picked = x
    return picked


@inner
def go_back(layout: Layout, sequence: Numbers) -> int:
    """Go back to a sequence of all buffers; returns its end."""
    layout.sequence[:] = sequence
    for place, i in enumerate(sequence):
        layout.items[i].place = place
    return find_heads(layout)


@compiled
def restore(layout: Layout, sequence: Numbers) -> int:
    """Go back to a sequence of all buffers; returns its end."""
    return go_back(layout, sequence)


@compiled
def move_buffers(layout: Layout, best: Numbers, limit: int, moves: int) -> int:
    """
    Move what the height is due to somewhere else, so that the layout gets no higher, or
    now and then a little; until it is at most `limit` high. Returns the least height,
    which `best` is the sequence of.
    """
    peak = least = find_heads(layout)
    for _ in range(moves):
        if least <= limit:
            break
        find_tails(layout)
        i = pick_critical(layout, peak)
        take_out(layout, i)
        find_heads(layout)
        find_tails(layout)
        allowed = max(find_heights(layout, i), peak)
        if random_below(layout, 50) == 0:
            allowed += peak // 50
        put_in(layout, i, pick_place(layout, allowed))
        peak = find_heads(layout)
        if peak < least:
            least = peak
            best[:] = layout.sequence
        elif peak > least + least // 20:
            peak = go_back(layout, best)
    return least
