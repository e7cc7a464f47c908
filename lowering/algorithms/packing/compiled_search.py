"""
Branch and bound for static memory packing: the inner search loop.

`penstock.lowering.algorithms.packing.branch_and_bound` calls `start`, and then `run` in
slices, for each capacity and order, on behalf of the pass `regst-plan-memory`.

A *canonical* layout is one that is built from the bottom to the top, each buffer as low
as those below it allow; every layout can be lowered into a canonical one that is no
higher. `run` goes through the canonical layouts up to a given height depth first: the
next buffer is one of the *open* ones, those without an offset, at its least offset,
which is not below that of the buffer placed before. A branch is pruned when

* the next buffer would lie so high that an open one fits below it: at or above the
  least `offset + size` of an open buffer (dominance);
* the open buffers of a *section* (a clique of conflicts, such as all alive at one step)
  do not fit between the lowest of them and the capacity, or one is above its limit;
* the last buffer conflicts with nothing open: its siblings cannot do better.

Open buffers that fall into groups without a conflict between them are solved group by
group, and when one group has no solution those before it are not tried again.

Sizes and offsets are in units. The whole state of a search is in arrays
(`penstock.lowering.algorithms.packing.search_state`), so that `run` goes on where the
last slice ended.
"""

from __future__ import annotations

from penstock.lowering.algorithms.packing.compiled import (
    INFINITE,
    NONE,
    Numbers,
    compiled,
    inner,
)
from penstock.lowering.algorithms.packing.search_state import (
    FAILED,
    FULL,
    GROUPS,
    IMPOSSIBLE,
    NEXT_GROUP,
    PAUSED,
    SOLVED,
    SUCCEEDED,
    TRY,
    Buffer,
    Frame,
    Search,
    Section,
    has_room,
)

################################################################################
# Candidates                                                                   #
################################################################################


@inner
def highest_offset(search: Search, frame: Frame, end: int, capacity: int) -> int:
    """
    The lowest offset, up to `end`, at which the next buffer cannot be: all that is open
    must fit above it.
    """
    if end + frame.largest_rest <= capacity:
        return end
    largest = 0
    for s in range(frame.first, frame.last):
        largest = max(largest, search.sections[s].rest)
    search.state[0].steps += frame.last - frame.first
    frame.largest_rest = largest
    return min(end, capacity - largest + 1)


@inner
def find_candidates(search: Search, frame: Frame, capacity: int) -> None:
    """List the buffers that may be placed next."""
    state, buffers = search.state[0], search.buffers
    places = range(frame.members, frame.members + frame.count)
    end = INFINITE
    for place in places:
        buffer = buffers[search.members[place]]
        end = min(end, buffer.offset + buffer.size)
    end = highest_offset(search, frame, end, capacity)
    least, top = frame.least_offset, state.candidates
    for place in places:
        buffer = buffers[search.members[place]]
        offset = buffer.offset
        if offset >= end or offset < least:
            continue
        if offset > least or buffer.rank >= frame.least_rank:
            search.candidates[top] = place
            top += 1
    frame.begin = frame.next = state.candidates
    frame.end = state.candidates = top
    state.steps += 2 * frame.count


@inner
def take_candidate(search: Search, frame: Frame) -> int:
    """The place of the candidate that comes first: the lowest one."""
    candidates, best = search.candidates, frame.next
    lowest = search.buffers[search.members[candidates[best]]]
    for x in range(frame.next + 1, frame.end):
        buffer = search.buffers[search.members[candidates[x]]]
        if buffer.offset < lowest.offset or (
            buffer.offset == lowest.offset and buffer.rank < lowest.rank
        ):
            best, lowest = x, buffer
    place = candidates[best]
    candidates[best] = candidates[frame.next]
    search.state[0].steps += frame.end - frame.next
    frame.next += 1
    return place


################################################################################
# Placing                                                                      #
################################################################################


@inner
def raise_neighbours(
    search: Search, placed: Buffer, end: int
) -> tuple[bool, bool, int, int]:
    """
    Lift the open buffers that conflict with a placed one to its end.

    Returns whether there are any, whether each stays within its limit, and the range of
    sections that they and the placed buffer are in.
    """
    state, trail = search.state[0], search.offset_trail
    conflicts, fits = False, True
    first, last = placed.first, placed.last
    for j in search.links[placed.links_from : placed.links_to]:
        buffer = search.buffers[j]
        if not buffer.is_open:
            continue
        conflicts = True
        if buffer.offset < end:
            trail[state.offsets], trail[state.offsets + 1] = j, buffer.offset
            state.offsets += 2
            buffer.offset = end
            fits = fits and end <= buffer.limit
            first, last = min(first, buffer.first), max(last, buffer.last)
    state.steps += placed.links_to - placed.links_from
    return conflicts, fits, first, last


@inner
def save_floor(search: Search, s: int) -> None:
    """Note the floor of a section, to be restored."""
    state, trail, section = search.state[0], search.floor_trail, search.sections[s]
    top = state.floors
    trail[top], trail[top + 1], trail[top + 2] = s, section.floor, section.lowest
    state.floors = top + 3


@inner
def raise_floor(search: Search, section: Section) -> None:
    """Find the floor of a section, which is not below where it was."""
    floor = INFINITE
    for x in range(section.links_from, section.links_to):
        search.state[0].steps += 1
        buffer = search.buffers[search.links[x]]
        if buffer.is_open and buffer.offset < floor:
            floor, section.lowest = buffer.offset, search.links[x]
            if floor <= section.floor:
                break
    if floor < INFINITE:
        section.floor = floor


@inner
def raise_floors(search: Search, first: int, last: int, capacity: int) -> bool:
    """Find the floors of sections; returns whether what is open fits above them."""
    for s in range(first, last):
        section = search.sections[s]
        lowest = search.buffers[section.lowest]
        if lowest.is_open and lowest.offset == section.floor:
            continue
        save_floor(search, s)
        raise_floor(search, section)
        if section.floor + section.rest > capacity:
            return False
    search.state[0].steps += last - first
    return True


@inner
def take_member(search: Search, frame: Frame, place: int) -> None:
    """Move a member behind those that stay open."""
    end = frame.members + frame.count - 1
    members = search.members
    frame.buffer, frame.place = members[place], place
    members[place], members[end] = members[end], members[place]


@inner
def place_buffer(
    search: Search, frame: Frame, place: int, capacity: int
) -> tuple[bool, bool]:
    """
    Put a member at its least offset; returns whether anything open conflicts with it,
    and whether what is open may still fit.
    """
    state = search.state[0]
    state.nodes += 1
    frame.offsets_mark, frame.floors_mark = state.offsets, state.floors
    take_member(search, frame, place)
    buffer = search.buffers[frame.buffer]
    buffer.is_open = 0
    end = buffer.offset + buffer.size
    for s in range(buffer.first, buffer.last):
        save_floor(search, s)
        search.sections[s].rest -= buffer.size
        search.sections[s].floor = end
    conflicts, fits, first, last = raise_neighbours(search, buffer, end)
    return conflicts, fits and raise_floors(search, first, last, capacity)


@inner
def take_back(search: Search, frame: Frame) -> None:
    """Undo what `place_buffer` has done last."""
    state, floors, offsets = search.state[0], search.floor_trail, search.offset_trail
    while state.floors > frame.floors_mark:
        state.floors -= 3
        section = search.sections[floors[state.floors]]
        section.floor = floors[state.floors + 1]
        section.lowest = floors[state.floors + 2]
    while state.offsets > frame.offsets_mark:
        state.offsets -= 2
        search.buffers[offsets[state.offsets]].offset = offsets[state.offsets + 1]
    buffer = search.buffers[frame.buffer]
    buffer.is_open = 1
    for s in range(buffer.first, buffer.last):
        search.sections[s].rest += buffer.size
    end = frame.members + frame.count - 1
    search.members[end] = search.members[frame.place]
    search.members[frame.place] = frame.buffer
    frame.buffer = NONE


@inner
def count_spans(search: Search, buffer: Buffer, change: int) -> bool:
    """Count a buffer that is open or no longer so; returns whether groups part."""
    parts = False
    for s in range(buffer.first, buffer.reach - 1):
        search.sections[s].spans += change
        parts = parts or search.sections[s].spans == 0
    return parts


################################################################################
# Ranks                                                                        #
################################################################################


@inner
def find_totals(search: Search, members: Numbers, first: int, last: int) -> None:
    """Find what is open in the fullest section of each member."""
    maxima = search.maxima
    for s in range(first, last):
        maxima[0, s] = search.sections[s].rest
    span, k = 1, 0
    while 2 * span <= last - first:
        for s in range(first, last - 2 * span + 1):
            maxima[k + 1, s] = max(maxima[k, s], maxima[k, s + span])
        span, k = 2 * span, k + 1
    for i in members:
        buffer = search.buffers[i]
        span, k = 1, 0
        while 2 * span <= buffer.last - buffer.first:
            span, k = 2 * span, k + 1
        buffer.total = max(maxima[k, buffer.first], maxima[k, buffer.last - span])
    search.state[0].steps += (last - first + len(members)) * (k + 1)


@inner
def precedes(search: Search, i: int, j: int) -> bool:
    """Whether buffer i has a lower rank than j."""
    a, b = search.buffers[i], search.buffers[j]
    if a.key != b.key:
        return a.key < b.key
    if a.total != b.total:
        return a.total > b.total
    return a.second_key < b.second_key


@inner
def rank_members(search: Search, members: Numbers) -> None:
    """Sort the members of a group, which mostly are sorted, by Shell's method."""
    gap = len(members) // 2
    while gap:
        for x in range(gap, len(members)):
            i, y = members[x], x
            while y >= gap and precedes(search, i, members[y - gap]):
                members[y] = members[y - gap]
                y -= gap
            members[y] = i
            search.state[0].steps += 1 + (x - y) // gap
        gap //= 2
    for x in range(len(members)):
        search.buffers[members[x]].rank = x


################################################################################
# Frames                                                                       #
################################################################################


@inner
def push_choice(
    search: Search, members: int, count: int, first: int, last: int
) -> Frame:
    """Add a frame for the choice among open buffers."""
    state = search.state[0]
    frame = search.frames[state.depth]
    state.depth += 1
    frame.buffer = NONE
    frame.members, frame.count = members, count
    frame.first, frame.last = first, last
    return frame


@inner
def push_groups(
    search: Search, members: int, count: int, first: int, last: int
) -> None:
    """
    Add a frame for the groups that open buffers fall into. Their ranks are kept behind
    the members: each group ranks its own again.
    """
    state = search.state[0]
    frame = push_choice(search, members, count, first, last)
    frame.buffer = GROUPS
    frame.members_mark, frame.begin = state.members, state.candidates
    for x in range(members, members + count):
        search.members[state.members] = search.buffers[search.members[x]].rank
        state.members += 1
    for s in range(first, last):
        if search.sections[s].spans == 0:
            search.candidates[state.candidates] = first
            search.candidates[state.candidates + 1] = s + 1
            state.candidates += 2
            first = s + 1
    frame.next, frame.end = frame.begin, state.candidates


@inner
def push_group(search: Search, groups: Frame, capacity: int) -> bool:
    """Add a frame for the next group; returns whether it has members."""
    state = search.state[0]
    first, last = search.candidates[groups.next], search.candidates[groups.next + 1]
    groups.next += 2
    begin = top = groups.members_mark + groups.count
    for x in range(groups.members, groups.members + groups.count):
        buffer = search.buffers[search.members[x]]
        if buffer.first >= first and buffer.last <= last:
            search.members[top] = search.members[x]
            top += 1
    state.members = top
    state.steps += groups.count
    if top == begin:
        return False
    members = search.members[begin:top]
    find_totals(search, members, first, last)
    rank_members(search, members)
    frame = push_choice(search, begin, top - begin, first, last)
    frame.least_offset = frame.least_rank = 0
    frame.largest_rest = INFINITE
    find_candidates(search, frame, capacity)
    return True


@inner
def pop(search: Search, frame: Frame) -> None:
    """Remove the top frame."""
    state = search.state[0]
    state.depth -= 1
    state.candidates = frame.begin
    if frame.buffer == GROUPS:
        state.members = frame.members_mark
        for x in range(frame.count):
            buffer = search.buffers[search.members[frame.members + x]]
            buffer.rank = search.members[frame.members_mark + x]


################################################################################
# Search                                                                       #
################################################################################


@inner
def try_candidate(search: Search, frame: Frame, capacity: int) -> int:
    """Place the next candidate of a frame, and add a frame for what is then open."""
    place = take_candidate(search, frame)
    buffer = search.buffers[search.members[place]]
    if buffer.offset > buffer.limit:
        return TRY
    conflicts, fits = place_buffer(search, frame, place, capacity)
    if not conflicts:
        frame.next = frame.end
    if not fits:
        take_back(search, frame)
        return TRY
    buffer.solution = buffer.offset
    parts = count_spans(search, buffer, -1)
    count = frame.count - 1
    if count == 0:
        return SUCCEEDED
    if parts:
        push_groups(search, frame.members, count, frame.first, frame.last)
        return NEXT_GROUP
    below = push_choice(search, frame.members, count, frame.first, frame.last)
    below.least_offset, below.least_rank = buffer.offset, buffer.rank
    below.largest_rest = frame.largest_rest
    find_candidates(search, below, capacity)
    return TRY


@inner
def next_group(search: Search, frame: Frame, capacity: int) -> int:
    """Go on with the next group of the top frame."""
    while frame.next < frame.end:
        if push_group(search, frame, capacity):
            return TRY
    pop(search, frame)
    return SUCCEEDED


@inner
def end_group(search: Search, frame: Frame, outcome: int) -> int:
    """Say what is next when a group of the top frame has ended."""
    if outcome == SUCCEEDED:
        return NEXT_GROUP
    pop(search, frame)
    return FAILED


@inner
def next_choice(search: Search, frame: Frame, outcome: int, capacity: int) -> int:
    """Take back the choice of the top frame, and make another one if it has failed."""
    if frame.buffer != NONE:
        count_spans(search, search.buffers[frame.buffer], 1)
        take_back(search, frame)
    if outcome != SUCCEEDED and frame.next < frame.end:
        return try_candidate(search, frame, capacity)
    pop(search, frame)
    return SUCCEEDED if outcome == SUCCEEDED else FAILED


@compiled
def start(search: Search) -> None:
    """Set a search up, of which only the buffers and sections are filled in."""
    state, count = search.state[0], len(search.buffers)
    for i in range(count):
        search.members[i] = i
    state.members = count
    push_groups(search, 0, count, 0, len(search.sections))
    state.next = NEXT_GROUP


@compiled
def run(search: Search, capacity: int, steps: int) -> int:
    """
    Go on with a search until it has made `steps` steps since its start.

    Returns `SOLVED`, `IMPOSSIBLE`, `PAUSED` (out of steps) or `FULL` (out of room in
    the arrays).
    """
    state = search.state[0]
    while state.depth:
        if state.steps >= steps:
            return PAUSED
        if not has_room(search):
            return FULL
        frame = search.frames[state.depth - 1]
        if state.next == NEXT_GROUP:
            state.next = next_group(search, frame, capacity)
        elif frame.buffer == GROUPS:
            state.next = end_group(search, frame, state.next)
        else:
            state.next = next_choice(search, frame, state.next, capacity)
    return SOLVED if state.next == SUCCEEDED else IMPOSSIBLE
