"""
What actors of all kinds need, do and hand on, in compiled code.

`penstock.runtime.program.actor_kinds` says what the kinds are. Each register that an
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
from penstock.runtime.core.dataflow_tables import PLACE_WORDS, General
from penstock.runtime.core.scheduler import can_act
from penstock.runtime.core.state import STATE_OFFSET, fail
from penstock.runtime.core.state_layout import State
from penstock.runtime.program.actor_kinds import KINDS, WAITING
from penstock.runtime.program.tables import Layout

PLAIN, CASE, ESAC, INPUT_WISE, LOCK, SEND_IDS = range(len(KINDS))

general_at = arrays_at(General)
GENERAL_OFFSET = STATE_OFFSET + 16 * len(State._fields)
"""Bytes from the table of the layout's arrays to that of the general ones."""


# Registers ---------------------------------------------------------------------------


@compiled()
def address_in(general: General, register: Integer, piece: Integer) -> int:
    """Where a piece lies in a register."""
    places, at = general.places, int(register) * PLACE_WORDS
    parts = places[at + 2]
    frame = piece // parts % places[at + 1]
    return places[at] + frame * places[at + 3] + piece % parts * places[at + 4]


@compiled()
def has_piece(state: State, general: General, read: Integer) -> bool:
    """Whether there is something to read."""
    counters = state.counters
    made = load_acquire(counters, general.read_produced[read])
    return bool(made > counters[general.read_consumed[read]])


@compiled()
def is_over(state: State, general: General, read: Integer) -> bool:
    """Whether there is nothing to read, and never will be."""
    # The last piece was counted before this was said.
    if load_acquire(state.counters, general.read_ended[read]) == 0:
        return False
    return not has_piece(state, general, read)


@compiled()
def has_room(state: State, general: General, write: Integer) -> bool:
    """Whether all readers of what is written have left a slot of it."""
    counters = state.counters
    made = counters[general.write_produced[write]]
    for room in range(general.room_start[write], general.room_start[write + 1]):
        used = load_acquire(counters, general.room_consumed[room])
        if used + general.room_slots[room] <= made:
            return False
    return True


@compiled()
def give_back(state: State, general: General, read: Integer) -> None:
    """Be done with a piece."""
    counter = general.read_consumed[read]
    store_release(state.counters, counter, int(state.counters[counter]) + 1)


@compiled()
def hand_on(state: State, general: General, write: Integer) -> None:
    """Let others see a piece."""
    counter = general.write_produced[write]
    store_release(state.counters, counter, int(state.counters[counter]) + 1)


@compiled()
def number_in(state: State, general: General, read: Integer) -> int:
    """The number that the next piece is."""
    piece = int(state.counters[general.read_consumed[read]])
    return load_word(address_in(general, general.read_register[read], piece))


@compiled()
def send_number(
    state: State, general: General, write: Integer, number: Integer
) -> None:
    """Hand a number on."""
    piece = int(state.counters[general.write_produced[write]])
    store_word(address_in(general, general.write_register[write], piece), number)
    hand_on(state, general, write)


@compiled()
def notes_of(general: General, actor: Integer) -> int:
    """Where an actor's kind notes things."""
    reads = general.read_start[actor + 1] - general.read_start[actor]
    return int(general.scratch_start[actor] + reads)


# What actors need --------------------------------------------------------------------


@compiled()
def next_input(state: State, general: General, actor: Integer) -> int:
    """
    The entry that an actor is to take a piece of, from the one after the last one on,
    -1 if there is none. One whose actor takes a piece of each is asked only once.
    """
    first, last = general.read_start[actor], general.read_start[actor + 1]
    notes, count = notes_of(general, actor), last - first
    for i in range(count):
        read = first + (general.scratch[notes] + i) % count
        once = general.kind[actor] == INPUT_WISE
        if once and general.scratch[notes + 1 + read - first] != 0:
            continue
        if has_piece(state, general, read):
            return int(read)
    return -1


@compiled()
def can_write(state: State, general: General, actor: Integer) -> bool:
    """Whether there is room in all that an actor writes."""
    write, last = general.write_start[actor], general.write_start[actor + 1]
    while write < last and has_room(state, general, write):
        write += 1
    return bool(write == last)


@compiled()
def free_branch(state: State, general: General, actor: Integer) -> int:
    """The first entry that a case has a piece for and that has room, -1 if none."""
    first, notes = general.write_start[actor], notes_of(general, actor)
    for write in range(first, general.write_start[actor + 1]):
        if general.scratch[notes + write - first] > 0 and has_room(
            state, general, write
        ):
            return int(write)
    return -1


@compiled()
def is_ready(layout: Layout, state: State, general: General, actor: Integer) -> bool:
    """Whether an actor has what an act of its kind needs."""
    kind = general.kind[actor]
    if kind == PLAIN:
        return can_act(layout, state, actor)
    read, notes = general.read_start[actor], notes_of(general, actor)
    if kind == CASE:
        is_asked = has_piece(state, general, read)
        return is_asked or free_branch(state, general, actor) >= 0
    if kind == LOCK:
        sections = general.list_start[actor + 1] - general.list_start[actor] - 1
        waiting = general.scratch[notes + sections]
        granted = general.scratch[notes + sections + 1]
        if has_piece(state, general, read + 1):
            return True
        if granted > 0 and can_write(state, general, actor):
            return True
        return bool(waiting + granted < WAITING) and has_piece(state, general, read)
    if not can_write(state, general, actor):
        return False
    if kind == SEND_IDS:
        return general.scratch[notes] > 0 or has_piece(state, general, read)
    return next_input(state, general, actor) >= 0


@compiled()
def has_all(state: State, general: General, actor: Integer) -> bool:
    """Whether there will be no more of anything that an actor reads."""
    read, last = general.read_start[actor], general.read_start[actor + 1]
    while read < last and is_over(state, general, read):
        read += 1
    return bool(read == last)


@compiled()
def is_finished(state: State, general: General, actor: Integer) -> bool:
    """Whether an actor that cannot act never can again."""
    kind = general.kind[actor]
    first, last = general.read_start[actor], general.read_start[actor + 1]
    notes = notes_of(general, actor)
    if kind in (PLAIN, INPUT_WISE):
        for read in range(first, last):
            seen = kind == INPUT_WISE and general.scratch[notes + 1 + read - first]
            if not seen and is_over(state, general, read):
                return True
        return False
    if kind == ESAC:
        return has_all(state, general, actor)
    if kind == CASE:
        branches = general.write_start[actor + 1] - general.write_start[actor]
        for note in range(notes, notes + branches):
            if general.scratch[note] > 0:
                return False
        return is_over(state, general, first)
    if kind == SEND_IDS:
        return general.scratch[notes] == 0 and is_over(state, general, first)
    sections = general.list_start[actor + 1] - general.list_start[actor] - 1
    if general.scratch[notes + sections + 1] > 0:
        return False
    if is_over(state, general, first + 1):
        return True
    for note in range(notes, notes + sections + 1):
        if general.scratch[note] > 0:
            return False
    return is_over(state, general, first)


# What actors do ----------------------------------------------------------------------


@compiled()
def point_args(layout: Layout, state: State, general: General, actor: Integer) -> None:
    """Let the calls of an actor work on the pieces that are next."""
    acts = state.actors[layout.place[actor] + w.ACTS]
    for arg in range(general.arg_start[actor], general.arg_start[actor + 1]):
        piece = int(state.counters[general.arg_counter[arg]])
        address = address_in(general, general.arg_register[arg], piece)
        turn = acts % general.arg_every[arg]
        state.rows[general.arg_word[arg]] = address + turn * general.arg_slice[arg]


@compiled()
def has_begun(general: General, actor: Integer) -> bool:
    """Whether an actor has taken a piece of some of what it reads, not of all."""
    notes = notes_of(general, actor) + 1
    reads = general.read_start[actor + 1] - general.read_start[actor]
    taken = 0
    for note in range(notes, notes + reads):
        taken += general.scratch[note]
    return taken > 0


@compiled()
def is_made(
    layout: Layout,
    state: State,
    general: General,
    actor: Integer,
    call: Integer,
    read: Integer,
) -> bool:
    """Whether a call is made in the next act, for a piece of the entry `read`."""
    on = general.on[call]
    if on >= 0 and general.read_start[actor] + on != read:
        return False
    if general.when[call] == 0:
        return True
    if general.kind[actor] == INPUT_WISE:
        is_first = not has_begun(general, actor)
    else:
        acts = state.actors[layout.place[actor] + w.ACTS]
        is_first = acts % general.round[actor] == 0
    return is_first == (general.when[call] == 1)


@compiled()
def finish_plain(
    layout: Layout, state: State, general: General, actor: Integer
) -> None:
    """Hand on what ends with this act of a plain actor."""
    done = state.actors[layout.place[actor] + w.ACTS] + 1
    for write in range(general.write_start[actor], general.write_start[actor + 1]):
        if done % general.write_every[write] == 0:
            hand_on(state, general, write)
    for read in range(general.read_start[actor], general.read_start[actor + 1]):
        if done % general.read_every[read] == 0:
            give_back(state, general, read)


@compiled()
def finish_input(state: State, general: General, actor: Integer, read: Integer) -> None:
    """Be done with a piece of an entry, and hand on what all of them were made to."""
    first, last = general.read_start[actor], general.read_start[actor + 1]
    notes = notes_of(general, actor)
    general.scratch[notes] = (read - first + 1) % (last - first)
    general.scratch[notes + 1 + read - first] = 1
    give_back(state, general, read)
    for note in range(notes + 1, notes + 1 + last - first):
        if general.scratch[note] == 0:
            return
    for note in range(notes + 1, notes + 1 + last - first):
        general.scratch[note] = 0
    for write in range(general.write_start[actor], general.write_start[actor + 1]):
        hand_on(state, general, write)


@compiled()
def is_number(state: State, actor: Integer, number: Integer, count: Integer) -> bool:
    """Whether there is something of a number; the run fails if not."""
    if 0 <= number < count:
        return True
    fail(state, actor, w.BAD_NUMBER, number)
    return False


@compiled(inline=False)
def do_case(state: State, general: General, actor: Integer) -> bool:
    """Take a number if there is one, and hand on one piece where there is room."""
    read, notes = general.read_start[actor], notes_of(general, actor)
    first = general.write_start[actor]
    if has_piece(state, general, read):
        number = number_in(state, general, read)
        if not is_number(state, actor, number, general.write_start[actor + 1] - first):
            return False
        general.scratch[notes + number] += 1
        give_back(state, general, read)
    branch = free_branch(state, general, actor)
    if branch >= 0:
        general.scratch[notes + branch - first] -= 1
        hand_on(state, general, branch)
    return True


@compiled(inline=False)
def do_esac(state: State, general: General, actor: Integer) -> None:
    """Take a piece, and say of which entry."""
    first, last = general.read_start[actor], general.read_start[actor + 1]
    read = next_input(state, general, actor)
    general.scratch[notes_of(general, actor)] = (read - first + 1) % (last - first)
    give_back(state, general, read)
    send_number(state, general, general.write_start[actor], read - first)


@compiled(inline=False)
def do_send(state: State, general: General, actor: Integer) -> bool:
    """Hand on the next number of a list, and be done with the list after the last."""
    read, notes = general.read_start[actor], notes_of(general, actor)
    lists = general.list_start[actor]
    number = number_in(state, general, read)
    count = general.list_start[actor + 1] - lists - 1
    if not is_number(state, actor, number, count):
        return False
    sent = general.scratch[notes]
    first, last = general.list_of[lists + number], general.list_of[lists + number + 1]
    if first + sent < last:
        item = int(general.lists[first + sent])
        send_number(state, general, general.write_start[actor], item)
        sent += 1
    if first + sent >= last:
        sent = 0
        give_back(state, general, read)
    general.scratch[notes] = sent
    return True


# Locks -------------------------------------------------------------------------------


@compiled()
def may_hold(
    general: General, actor: Integer, section: Integer, before: Integer
) -> bool:
    """
    Whether nobody holds what excludes a section, and none of the requests that stand
    `before` is for that or for the section.
    """
    lists, notes = general.list_start[actor], notes_of(general, actor)
    sections = general.list_start[actor + 1] - lists - 1
    queue = notes + sections + 2
    first, last = general.list_of[lists + section], general.list_of[lists + section + 1]
    for item in range(first, last):
        if general.scratch[notes + general.lists[item]] > 0:
            return False
    for request in range(queue, queue + before):
        other = general.scratch[request]
        if other == section:
            return False
        for item in range(first, last):
            if general.lists[item] == other:
                return False
    return True


@compiled(inline=False)
def grant(general: General, actor: Integer) -> None:
    """Grant what can be granted, in the order in which it was asked for."""
    notes = notes_of(general, actor)
    sections = general.list_start[actor + 1] - general.list_start[actor] - 1
    counts = notes + sections
    queue, granted = counts + 2, counts + 2 + WAITING
    kept, scratch = 0, general.scratch
    for request in range(scratch[counts]):
        section = int(scratch[queue + request])
        if may_hold(general, actor, section, kept):
            scratch[notes + section] += 1
            scratch[granted + scratch[counts + 1]] = section
            scratch[counts + 1] += 1
        else:
            scratch[queue + kept] = section
            kept += 1
    scratch[counts] = kept


@compiled(inline=False)
def do_lock(state: State, general: General, actor: Integer) -> bool:
    """Take what is given back and asked for, and hand on one section granted."""
    read, notes = general.read_start[actor], notes_of(general, actor)
    sections = general.list_start[actor + 1] - general.list_start[actor] - 1
    counts, scratch = notes + sections, general.scratch
    if has_piece(state, general, read + 1):
        number = number_in(state, general, read + 1)
        if not is_number(state, actor, number, sections):
            return False
        if scratch[notes + number] == 0:
            fail(state, actor, w.NOT_HELD, number)
            return False
        scratch[notes + number] -= 1
        give_back(state, general, read + 1)
        grant(general, actor)
    if scratch[counts] + scratch[counts + 1] < WAITING and has_piece(
        state, general, read
    ):
        number = number_in(state, general, read)
        if not is_number(state, actor, number, sections):
            return False
        scratch[counts + 2 + scratch[counts]] = number
        scratch[counts] += 1
        give_back(state, general, read)
        grant(general, actor)
    if scratch[counts + 1] > 0 and can_write(state, general, actor):
        granted = counts + 2 + WAITING
        first = int(scratch[granted])
        send_number(state, general, general.write_start[actor], first)
        scratch[counts + 1] -= 1
        for i in range(granted, granted + scratch[counts + 1]):
            scratch[i] = scratch[i + 1]
    return True


# The end of data ---------------------------------------------------------------------


@compiled()
def say_end(state: State, general: General, actor: Integer) -> None:
    """Let others see that an actor will write no more."""
    for write in range(general.write_start[actor], general.write_start[actor + 1]):
        store_release(state.counters, general.write_ended[write], 1)


@compiled()
def has_leftovers(state: State, general: General, actor: Integer) -> bool:
    """Whether there is something to throw away for an actor that has ended."""
    read, last = general.read_start[actor], general.read_start[actor + 1]
    while read < last and not has_piece(state, general, read):
        read += 1
    return bool(read < last)


@compiled(inline=False)
def throw_away(state: State, general: General, actor: Integer) -> None:
    """Be done with all pieces for an actor that has ended, and count them."""
    first, notes = general.read_start[actor], general.scratch_start[actor]
    for read in range(first, general.read_start[actor + 1]):
        counter = general.read_consumed[read]
        made = load_acquire(state.counters, general.read_produced[read])
        general.scratch[notes + read - first] += made - state.counters[counter]
        store_release(state.counters, counter, made)
