"""
The rules of the dynamic dataflow scheduler: when actors of each kind act, and how.

`penstock.runtime.program.actor_kinds` describes the kinds. Each register that an
actor reads or writes is an *entry* of its own in the tables.
"""

# Most of numba carries no types.
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.atomics import (
    Integer,
    arrays_at,
    compiled,
    load_acquire,
    load_word,
    store_release,
    store_word,
)
from penstock.runtime.core.dataflow_tables import PLACE_WORDS, Dataflow
from penstock.runtime.core.scheduler import can_act
from penstock.runtime.core.state import STATE_OFFSET, fail
from penstock.runtime.core.state_layout import State
from penstock.runtime.program.actor_kinds import KINDS, WAITING
from penstock.runtime.program.tables import Layout

PLAIN, CASE, ESAC, INPUT_WISE, LOCK, SEND_IDS, CYCLIC = range(len(KINDS))

dataflow_at = arrays_at(Dataflow)
DATAFLOW_OFFSET = STATE_OFFSET + 16 * len(State._fields)
"""Bytes from the table of the layout's arrays to that of `Dataflow`."""


# Registers ---------------------------------------------------------------------------


@compiled()
def address_in(flow: Dataflow, register: Integer, piece: Integer) -> int:
    """The address of a piece in a register."""
    places, at = flow.places, int(register) * PLACE_WORDS
    parts = places[at + 2]
    frame = piece // parts % places[at + 1]
    return places[at] + frame * places[at + 3] + piece % parts * places[at + 4]


@compiled()
def has_piece(state: State, flow: Dataflow, read: Integer) -> bool:
    """Whether there is something to read."""
    counters = state.counters
    made = load_acquire(counters, flow.read_produced[read])
    return bool(made > counters[flow.read_consumed[read]])


@compiled()
def is_over(state: State, flow: Dataflow, read: Integer) -> bool:
    """Whether there is nothing to read, and never will be."""
    # The last piece was counted before the end was published.
    if load_acquire(state.counters, flow.read_ended[read]) == 0:
        return False
    return not has_piece(state, flow, read)


@compiled()
def has_room(state: State, flow: Dataflow, write: Integer) -> bool:
    """Whether a register has a slot that all of its readers have released."""
    counters = state.counters
    made = counters[flow.write_produced[write]]
    for room in range(flow.room_start[write], flow.room_start[write + 1]):
        used = load_acquire(counters, flow.room_consumed[room])
        if used + flow.room_slots[room] <= made:
            return False
    return True


@compiled()
def give_back(state: State, flow: Dataflow, read: Integer) -> None:
    """Release a piece that was read."""
    counter = flow.read_consumed[read]
    store_release(state.counters, counter, int(state.counters[counter]) + 1)


@compiled()
def hand_on(state: State, flow: Dataflow, write: Integer) -> None:
    """Publish a piece that was written."""
    counter = flow.write_produced[write]
    store_release(state.counters, counter, int(state.counters[counter]) + 1)


@compiled()
def number_in(state: State, flow: Dataflow, read: Integer) -> int:
    """The number in the next piece."""
    piece = int(state.counters[flow.read_consumed[read]])
    return load_word(address_in(flow, flow.read_register[read], piece))


@compiled()
def send_number(state: State, flow: Dataflow, write: Integer, number: Integer) -> None:
    """Produce a number as the next piece."""
    piece = int(state.counters[flow.write_produced[write]])
    store_word(address_in(flow, flow.write_register[write], piece), number)
    hand_on(state, flow, write)


@compiled()
def notes_of(flow: Dataflow, actor: Integer) -> int:
    """The first word of scratch memory for the kind of an actor."""
    reads = flow.read_start[actor + 1] - flow.read_start[actor]
    return int(flow.scratch_start[actor] + reads)


# Conditions --------------------------------------------------------------------------


@compiled()
def next_input(state: State, flow: Dataflow, actor: Integer) -> int:
    """
    The entry that an actor is to take a piece of, from the one after the last one on,
    -1 if there is none. One whose actor takes a piece of each is asked only once.
    """
    first, last = flow.read_start[actor], flow.read_start[actor + 1]
    notes, count = notes_of(flow, actor), last - first
    for i in range(count):
        read = first + (flow.scratch[notes] + i) % count
        once = flow.kind[actor] == INPUT_WISE
        if once and flow.scratch[notes + 1 + read - first] != 0:
            continue
        if has_piece(state, flow, read):
            return int(read)
    return -1


@compiled()
def can_write(state: State, flow: Dataflow, actor: Integer) -> bool:
    """Whether all registers that an actor writes have a free slot."""
    write, last = flow.write_start[actor], flow.write_start[actor + 1]
    while write < last and has_room(state, flow, write):
        write += 1
    return bool(write == last)


@compiled()
def free_branch(state: State, flow: Dataflow, actor: Integer) -> int:
    """The first entry that a case has a piece for and that has room, -1 if none."""
    first, notes = flow.write_start[actor], notes_of(flow, actor)
    for write in range(first, flow.write_start[actor + 1]):
        if flow.scratch[notes + write - first] > 0 and has_room(state, flow, write):
            return int(write)
    return -1


@compiled()
def list_of_act(layout: Layout, state: State, flow: Dataflow, actor: Integer) -> int:
    """The list of the next act of a cycle."""
    first = flow.list_start[actor]
    count = flow.list_start[actor + 1] - first - 1
    return int(first + state.actors[layout.place[actor] + w.ACTS] % count)


@compiled()
def can_go_on(layout: Layout, state: State, flow: Dataflow, actor: Integer) -> bool:
    """Whether the pieces and slots of the next act of a cycle are there."""
    first, reads = flow.read_start[actor], flow.read_start[actor + 1]
    now = list_of_act(layout, state, flow, actor)
    for item in range(flow.list_of[now], flow.list_of[now + 1]):
        read = first + flow.lists[item]
        if read < reads:
            if not has_piece(state, flow, read):
                return False
        elif not has_room(state, flow, flow.write_start[actor] + read - reads):
            return False
    return True


@compiled()
def lacks_piece(layout: Layout, state: State, flow: Dataflow, actor: Integer) -> bool:
    """Whether the next act of a cycle waits for a piece that never comes."""
    first, reads = flow.read_start[actor], flow.read_start[actor + 1]
    now = list_of_act(layout, state, flow, actor)
    for item in range(flow.list_of[now], flow.list_of[now + 1]):
        read = first + flow.lists[item]
        if read < reads and is_over(state, flow, read):
            return True
    return False


@compiled()
def is_ready(layout: Layout, state: State, flow: Dataflow, actor: Integer) -> bool:
    """Whether an actor can act, by the rule of its kind."""
    kind = flow.kind[actor]
    if kind == PLAIN:
        return can_act(layout, state, actor)
    if kind == CYCLIC:
        return can_go_on(layout, state, flow, actor)
    read, notes = flow.read_start[actor], notes_of(flow, actor)
    if kind == CASE:
        is_asked = has_piece(state, flow, read)
        return is_asked or free_branch(state, flow, actor) >= 0
    if kind == LOCK:
        sections = flow.list_start[actor + 1] - flow.list_start[actor] - 1
        waiting = flow.scratch[notes + sections]
        granted = flow.scratch[notes + sections + 1]
        if has_piece(state, flow, read + 1):
            return True
        if granted > 0 and can_write(state, flow, actor):
            return True
        return bool(waiting + granted < WAITING) and has_piece(state, flow, read)
    if not can_write(state, flow, actor):
        return False
    if kind == SEND_IDS:
        return flow.scratch[notes] > 0 or has_piece(state, flow, read)
    return next_input(state, flow, actor) >= 0


@compiled()
def has_all(state: State, flow: Dataflow, actor: Integer) -> bool:
    """Whether all inputs of an actor have ended."""
    read, last = flow.read_start[actor], flow.read_start[actor + 1]
    while read < last and is_over(state, flow, read):
        read += 1
    return bool(read == last)


@compiled()
def is_finished(layout: Layout, state: State, flow: Dataflow, actor: Integer) -> bool:
    """Whether an actor that cannot act never can again."""
    kind = flow.kind[actor]
    if kind == CYCLIC:
        return lacks_piece(layout, state, flow, actor)
    first, last = flow.read_start[actor], flow.read_start[actor + 1]
    notes = notes_of(flow, actor)
    if kind in (PLAIN, INPUT_WISE):
        for read in range(first, last):
            seen = kind == INPUT_WISE and flow.scratch[notes + 1 + read - first]
            if not seen and is_over(state, flow, read):
                return True
        return False
    if kind == ESAC:
        return has_all(state, flow, actor)
    if kind == CASE:
        branches = flow.write_start[actor + 1] - flow.write_start[actor]
        for note in range(notes, notes + branches):
            if flow.scratch[note] > 0:
                return False
        return is_over(state, flow, first)
    if kind == SEND_IDS:
        return flow.scratch[notes] == 0 and is_over(state, flow, first)
    sections = flow.list_start[actor + 1] - flow.list_start[actor] - 1
    if flow.scratch[notes + sections + 1] > 0:
        return False
    if is_over(state, flow, first + 1):
        return True
    for note in range(notes, notes + sections + 1):
        if flow.scratch[note] > 0:
            return False
    return is_over(state, flow, first)


# Acts --------------------------------------------------------------------------------


@compiled()
def point_args(layout: Layout, state: State, flow: Dataflow, actor: Integer) -> None:
    """Let the calls of an actor work on the pieces that are next."""
    acts = state.actors[layout.place[actor] + w.ACTS]
    for arg in range(flow.arg_start[actor], flow.arg_start[actor + 1]):
        piece = int(state.counters[flow.arg_counter[arg]])
        address = address_in(flow, flow.arg_register[arg], piece)
        part = acts % flow.arg_every[arg]
        state.rows[flow.arg_word[arg]] = address + part * flow.arg_slice[arg]


@compiled()
def has_begun(flow: Dataflow, actor: Integer) -> bool:
    """Whether an actor has taken a piece of some of its inputs, not of all."""
    notes = notes_of(flow, actor) + 1
    reads = flow.read_start[actor + 1] - flow.read_start[actor]
    taken = 0
    for note in range(notes, notes + reads):
        taken += flow.scratch[note]
    return taken > 0


@compiled()
def is_made(
    layout: Layout,
    state: State,
    flow: Dataflow,
    actor: Integer,
    call: Integer,
    read: Integer,
) -> bool:
    """Whether a call is made in the next act, for a piece of the entry `read`."""
    on = flow.on[call]
    if flow.kind[actor] == CYCLIC:
        now = list_of_act(layout, state, flow, actor)
        is_used = on < 0
        for item in range(flow.list_of[now], flow.list_of[now + 1]):
            is_used = is_used or flow.lists[item] == on
        return bool(is_used)
    if on >= 0 and flow.read_start[actor] + on != read:
        return False
    if flow.when[call] == 0:
        return True
    if flow.kind[actor] == INPUT_WISE:
        is_first = not has_begun(flow, actor)
    else:
        acts = state.actors[layout.place[actor] + w.ACTS]
        is_first = acts % flow.round[actor] == 0
    return is_first == (flow.when[call] == 1)


@compiled()
def finish_plain(layout: Layout, state: State, flow: Dataflow, actor: Integer) -> None:
    """Produce the pieces that end with this act of a plain actor."""
    done = state.actors[layout.place[actor] + w.ACTS] + 1
    for write in range(flow.write_start[actor], flow.write_start[actor + 1]):
        if done % flow.write_every[write] == 0:
            hand_on(state, flow, write)
    for read in range(flow.read_start[actor], flow.read_start[actor + 1]):
        if done % flow.read_every[read] == 0:
            give_back(state, flow, read)


@compiled()
def finish_cyclic(layout: Layout, state: State, flow: Dataflow, actor: Integer) -> None:
    """Produce and release the pieces of this act of a cycle."""
    first, reads = flow.read_start[actor], flow.read_start[actor + 1]
    now = list_of_act(layout, state, flow, actor)
    for item in range(flow.list_of[now], flow.list_of[now + 1]):
        read = first + flow.lists[item]
        if read >= reads:
            hand_on(state, flow, flow.write_start[actor] + read - reads)
    for item in range(flow.list_of[now], flow.list_of[now + 1]):
        read = first + flow.lists[item]
        if read < reads:
            give_back(state, flow, read)


@compiled()
def finish_input(state: State, flow: Dataflow, actor: Integer, read: Integer) -> None:
    """Release a piece of an entry, and produce the results after the last entry."""
    first, last = flow.read_start[actor], flow.read_start[actor + 1]
    notes = notes_of(flow, actor)
    flow.scratch[notes] = (read - first + 1) % (last - first)
    flow.scratch[notes + 1 + read - first] = 1
    give_back(state, flow, read)
    for note in range(notes + 1, notes + 1 + last - first):
        if flow.scratch[note] == 0:
            return
    for note in range(notes + 1, notes + 1 + last - first):
        flow.scratch[note] = 0
    for write in range(flow.write_start[actor], flow.write_start[actor + 1]):
        hand_on(state, flow, write)


@compiled()
def is_number(state: State, actor: Integer, number: Integer, count: Integer) -> bool:
    """Whether a number is in range; the run fails if not."""
    if 0 <= number < count:
        return True
    fail(state, actor, w.BAD_NUMBER, number)
    return False


@compiled(inline=False)
def do_case(state: State, flow: Dataflow, actor: Integer) -> bool:
    """Take a number if there is one, and produce one piece where there is room."""
    read, notes = flow.read_start[actor], notes_of(flow, actor)
    first = flow.write_start[actor]
    if has_piece(state, flow, read):
        number = number_in(state, flow, read)
        if not is_number(state, actor, number, flow.write_start[actor + 1] - first):
            return False
        flow.scratch[notes + number] += 1
        give_back(state, flow, read)
    branch = free_branch(state, flow, actor)
    if branch >= 0:
        flow.scratch[notes + branch - first] -= 1
        hand_on(state, flow, branch)
    return True


@compiled(inline=False)
def do_esac(state: State, flow: Dataflow, actor: Integer) -> None:
    """Take a piece, and say of which entry."""
    first, last = flow.read_start[actor], flow.read_start[actor + 1]
    read = next_input(state, flow, actor)
    flow.scratch[notes_of(flow, actor)] = (read - first + 1) % (last - first)
    give_back(state, flow, read)
    send_number(state, flow, flow.write_start[actor], read - first)


@compiled(inline=False)
def do_send(state: State, flow: Dataflow, actor: Integer) -> bool:
    """Produce the next number of a list, and release the list after the last one."""
    read, notes = flow.read_start[actor], notes_of(flow, actor)
    lists = flow.list_start[actor]
    number = number_in(state, flow, read)
    count = flow.list_start[actor + 1] - lists - 1
    if not is_number(state, actor, number, count):
        return False
    sent = flow.scratch[notes]
    first, last = flow.list_of[lists + number], flow.list_of[lists + number + 1]
    if first + sent < last:
        item = int(flow.lists[first + sent])
        send_number(state, flow, flow.write_start[actor], item)
        sent += 1
    if first + sent >= last:
        sent = 0
        give_back(state, flow, read)
    flow.scratch[notes] = sent
    return True


# Locks -------------------------------------------------------------------------------


@compiled()
def may_hold(flow: Dataflow, actor: Integer, section: Integer, before: Integer) -> bool:
    """
    Whether no section that excludes this one is held, and none of the first `before`
    requests is for such a section or for this one.
    """
    lists, notes = flow.list_start[actor], notes_of(flow, actor)
    sections = flow.list_start[actor + 1] - lists - 1
    queue = notes + sections + 2
    first, last = (
        flow.list_of[lists + section],
        flow.list_of[lists + section + 1],
    )
    for item in range(first, last):
        if flow.scratch[notes + flow.lists[item]] > 0:
            return False
    for request in range(queue, queue + before):
        other = flow.scratch[request]
        if other == section:
            return False
        for item in range(first, last):
            if flow.lists[item] == other:
                return False
    return True


@compiled(inline=False)
def grant(flow: Dataflow, actor: Integer) -> None:
    """Grant all sections that can be granted, in the order of the requests."""
    notes = notes_of(flow, actor)
    sections = flow.list_start[actor + 1] - flow.list_start[actor] - 1
    counts = notes + sections
    queue, granted = counts + 2, counts + 2 + WAITING
    kept, scratch = 0, flow.scratch
    for request in range(scratch[counts]):
        section = int(scratch[queue + request])
        if may_hold(flow, actor, section, kept):
            scratch[notes + section] += 1
            scratch[granted + scratch[counts + 1]] = section
            scratch[counts + 1] += 1
        else:
            scratch[queue + kept] = section
            kept += 1
    scratch[counts] = kept


@compiled(inline=False)
def do_lock(state: State, flow: Dataflow, actor: Integer) -> bool:
    """Take a section given back and a request, and produce one section granted."""
    read, notes = flow.read_start[actor], notes_of(flow, actor)
    sections = flow.list_start[actor + 1] - flow.list_start[actor] - 1
    counts, scratch = notes + sections, flow.scratch
    if has_piece(state, flow, read + 1):
        number = number_in(state, flow, read + 1)
        if not is_number(state, actor, number, sections):
            return False
        if scratch[notes + number] == 0:
            fail(state, actor, w.NOT_HELD, number)
            return False
        scratch[notes + number] -= 1
        give_back(state, flow, read + 1)
        grant(flow, actor)
    if scratch[counts] + scratch[counts + 1] < WAITING and has_piece(state, flow, read):
        number = number_in(state, flow, read)
        if not is_number(state, actor, number, sections):
            return False
        scratch[counts + 2 + scratch[counts]] = number
        scratch[counts] += 1
        give_back(state, flow, read)
        grant(flow, actor)
    if scratch[counts + 1] > 0 and can_write(state, flow, actor):
        granted = counts + 2 + WAITING
        first = int(scratch[granted])
        send_number(state, flow, flow.write_start[actor], first)
        scratch[counts + 1] -= 1
        for i in range(granted, granted + scratch[counts + 1]):
            scratch[i] = scratch[i + 1]
    return True


# The end of data ---------------------------------------------------------------------


@compiled()
def say_end(state: State, flow: Dataflow, actor: Integer) -> None:
    """Publish that an actor will write no more."""
    for write in range(flow.write_start[actor], flow.write_start[actor + 1]):
        store_release(state.counters, flow.write_ended[write], 1)


@compiled()
def has_leftovers(state: State, flow: Dataflow, actor: Integer) -> bool:
    """Whether an actor that has ended has pieces to discard."""
    read, last = flow.read_start[actor], flow.read_start[actor + 1]
    while read < last and not has_piece(state, flow, read):
        read += 1
    return bool(read < last)


@compiled(inline=False)
def throw_away(state: State, flow: Dataflow, actor: Integer) -> None:
    """Discard and count all pieces for an actor that has ended."""
    first, notes = flow.read_start[actor], flow.scratch_start[actor]
    for read in range(first, flow.read_start[actor + 1]):
        counter = flow.read_consumed[read]
        made = load_acquire(state.counters, flow.read_produced[read])
        flow.scratch[notes + read - first] += made - state.counters[counter]
        store_release(state.counters, counter, made)
