"""
The general loop: what lets actors of all kinds act, in place of the plain loop.

It does for plain actors what that one does, and ends by itself when there are no more
pieces where a run is a stream. It is compiled apart, so that the plain loop stays as it
is.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.atomics import (
    Integer,
    compiled,
    fetch_add,
    load_acquire,
    load_word,
    store_release,
)
from penstock.runtime.core.dataflow_rules import (
    CASE,
    ESAC,
    INPUT_WISE,
    LOCK,
    PLAIN,
    do_case,
    do_esac,
    do_lock,
    do_send,
    finish_input,
    finish_plain,
    has_all,
    has_leftovers,
    is_finished,
    is_made,
    is_ready,
    next_input,
    point_args,
    say_end,
    throw_away,
)
from penstock.runtime.core.dataflow_tables import General
from penstock.runtime.core.kernel_calls import close_row, has_rows, make_call, open_row
from penstock.runtime.core.os_calls import now
from penstock.runtime.core.scheduler import CLOCK_PERIOD, POLL_PERIOD
from penstock.runtime.core.state import SPIN, ring_bell
from penstock.runtime.core.state_layout import State
from penstock.runtime.program.tables import Layout, Words

HAS_FAILED, HAS_ACTED, HAS_DRAINED, HAS_ENDED = 0, 1, 2, 3
"""What came of a step of an actor."""


@compiled()
def has_step(layout: Layout, state: State, general: General, actor: Integer) -> bool:
    """Whether an actor has anything to do: to act, to end, or to throw away."""
    place, control = layout.place[actor], state.control
    phase = state.actors[place + w.PHASE]
    if phase == w.NORMAL:
        if state.actors[place + w.ACTS] >= control[w.TARGET] * general.turns[actor]:
            return False
        if is_ready(layout, state, general, actor):
            return True
        return control[w.MODE] == w.STREAM and is_finished(state, general, actor)
    if phase == w.ENDED:
        return False
    if has_leftovers(state, general, actor):
        return True
    return has_all(state, general, actor)


@compiled(inline=False)
def outlook(layout: Layout, state: State, general: General) -> int:
    """What can be expected while nobody acts: STUCK, GOES_ON or WAITS."""
    for actor in range(layout.place.size):
        if has_step(layout, state, general, actor):
            return w.GOES_ON
    counters = state.counters
    for i in range(general.filled_ended.size):
        full = (
            counters[general.filled_produced[i]] - counters[general.filled_consumed[i]]
        )
        if counters[general.filled_ended[i]] == 0 and full < general.filled_slots[i]:
            return w.WAITS
    for i in range(general.taken_produced.size):
        if counters[general.taken_produced[i]] > counters[general.taken_consumed[i]]:
            return w.WAITS
    return w.STUCK


@compiled(inline=False)
def enqueue_steps(
    layout: Layout,
    state: State,
    general: General,
    ring: Integer,
    mask: Integer,
    tail: Integer,
    actors: Words,
    first: Integer,
    last: Integer,
) -> Integer:
    """Add those of the actors from `first` to before `last` that have a step."""
    for i in range(first, last):
        actor = actors[i]
        place = layout.place[actor]
        if not state.actors[place + w.QUEUED] and has_step(
            layout, state, general, actor
        ):
            state.actors[place + w.QUEUED] = 1
            state.rings[ring + (tail & mask)] = actor
            tail += 1
    return tail


@compiled()
def log_of(state: State, worker: Integer) -> int:
    """The log of a worker, 0 if there is none."""
    logs = state.control[w.LOG]
    return load_word(logs + 8 * worker) if logs != 0 else 0


@compiled()
def is_full(layout: Layout, log: Integer, actor: Integer) -> bool:
    """Whether there is a log that has no room for an act of an actor."""
    calls = layout.call_start[actor + 1] - layout.call_start[actor]
    return log != 0 and not has_rows(log, 1 + calls if calls > 1 else 1)


@compiled(inline=False)
def tell(state: State, general: General, actor: Integer) -> None:
    """Move on what others see of the counters of an actor, but for faults."""
    counters = state.counters
    for wire in range(general.wire_start[actor], general.wire_start[actor + 1]):
        place = general.wire_place[wire]
        own = counters[general.wire_own[wire]]
        while counters[place + w.MOVES] < own:
            change = 1
            for i in range(general.change_start[wire], general.change_start[wire + 1]):
                if general.change_number[i] == counters[place + w.MOVES]:
                    change = general.change_by[i]
            counters[place + w.MOVES] += 1
            told = int(counters[place]) + change
            if told > counters[place + w.MOVES]:
                counters[place + w.AHEAD] = 1
            store_release(counters, place, told)


def stepping(
    is_recorded: bool,
) -> Callable[[Layout, State, General, Integer, Integer, Integer], int]:
    """What a step of an actor is, which leaves rows in a log, if there is one."""

    @compiled()
    def make_calls(
        layout: Layout,
        state: State,
        general: General,
        seat: Integer,
        actor: Integer,
        read: Integer,
        log: Integer,
    ) -> bool:
        """Make the calls of the next act, for a piece of `read`; False if one fails."""
        point_args(layout, state, general, actor)
        first, last = layout.call_start[actor], layout.call_start[actor + 1]
        act = int(state.actors[layout.place[actor] + w.ACTS])
        for call in range(first, last):
            if not is_made(layout, state, general, actor, call, read):
                continue
            row = 0
            if is_recorded and log != 0 and last - first > 1:
                row = open_row(log, call - first, actor, act)
            code = make_call(layout, state, seat, actor, call)
            if is_recorded and row != 0:
                close_row(row, code)
            if code != 0:
                return False
        return True

    @compiled()
    def act_once(
        layout: Layout,
        state: State,
        general: General,
        seat: Integer,
        actor: Integer,
        log: Integer,
    ) -> bool:
        """An act of an actor that is ready; False if it fails."""
        kind = general.kind[actor]
        if kind == PLAIN:
            if not make_calls(layout, state, general, seat, actor, -1, log):
                return False
            finish_plain(layout, state, general, actor)
            return True
        if kind == INPUT_WISE:
            read = next_input(state, general, actor)
            # As if it had looked at its conditions: whoever sees that knows it acts.
            last = layout.condition_start[actor + 1]
            state.actors[layout.place[actor] + w.CONDITION] = last
            if not make_calls(layout, state, general, seat, actor, read, log):
                return False
            finish_input(state, general, actor, read)
            return True
        if kind == CASE:
            return do_case(state, general, actor)
        if kind == LOCK:
            return do_lock(state, general, actor)
        if kind == ESAC:
            do_esac(state, general, actor)
            return True
        return do_send(state, general, actor)

    @compiled(inline=False)
    def step(
        layout: Layout,
        state: State,
        general: General,
        worker: Integer,
        seat: Integer,
        actor: Integer,
    ) -> int:
        """Let an actor do what it has to do now; what came of it."""
        place, actors = layout.place[actor], state.actors
        if actors[place + w.PHASE] == w.NORMAL and is_ready(
            layout, state, general, actor
        ):
            log = whole = 0
            if is_recorded:
                log = log_of(state, worker)
                if log != 0:
                    whole = open_row(log, w.WHOLE, actor, int(actors[place + w.ACTS]))
            is_done = act_once(layout, state, general, seat, actor, log)
            if is_recorded and log != 0:
                close_row(whole, 0 if is_done else state.control[w.FAILED_CODE])
            if not is_done:
                return HAS_FAILED
            actors[place + w.ACTS] += 1
            actors[place + w.CONDITION] = layout.condition_start[actor]
            return HAS_ACTED
        if actors[place + w.PHASE] == w.NORMAL:
            actors[place + w.PHASE] = w.DRAINING
            say_end(state, general, actor)
        throw_away(state, general, actor)
        if not has_all(state, general, actor):
            return HAS_DRAINED
        actors[place + w.PHASE] = w.ENDED
        return HAS_ENDED

    return step


def looping(
    is_recorded: bool,
) -> Callable[[Integer, Layout, State, General, Integer], bool]:
    """
    What `penstock.runtime.core.scheduler.act` is, for actors of all kinds. What is
    recorded may also have a log without room, or wires.
    """
    step = stepping(is_recorded)

    @compiled(inline=False)
    def loop(
        worker: Integer,
        layout: Layout,
        state: State,
        general: General,
        deadline: Integer,
    ) -> bool:
        """
        Let the actors of a worker act as long as they can, or until past the deadline
        if that is not 0, and leave its seat, which the thread has. False if none of
        them can act.
        """
        seat, seats, control = worker * w.SEAT_WORDS, state.seats, state.control
        head, tail = seats[seat + w.HEAD], seats[seat + w.TAIL]
        left = seats[seat + w.LEFT]
        ring = layout.ring_start[worker]
        mask = layout.ring_start[worker + 1] - ring - 1
        members = layout.member_start[worker], layout.member_start[worker + 1]
        boundary = layout.boundary_start[worker], layout.boundary_start[worker + 1]
        if seats[seat + w.FRESH]:
            seats[seat + w.FRESH] = 0
            tail = enqueue_steps(
                layout, state, general, ring, mask, tail, layout.members, *members
            )
        acted = False
        since_poll, until_clock, last_clock = POLL_PERIOD, 1, 0

        while left > 0 and load_acquire(control, w.STOP) == w.RUNNING:
            since_poll += 1
            if head == tail or since_poll >= POLL_PERIOD:
                since_poll = 0
                tail = enqueue_steps(
                    layout, state, general, ring, mask, tail, layout.boundary, *boundary
                )
            if head == tail:
                break
            actor = int(state.rings[ring + (head & mask)])
            if is_recorded and is_full(layout, log_of(state, worker), actor):
                break
            head += 1
            acted = True
            place = layout.place[actor]
            state.actors[place + w.QUEUED] = 0
            came = step(layout, state, general, worker, seat, actor)
            if came == HAS_FAILED:
                break
            if is_recorded:
                tell(state, general, actor)
            if layout.crosses[actor]:
                ring_bell(state)
            acts = state.actors[place + w.ACTS]
            is_last = acts == control[w.TARGET] * general.turns[actor]
            left -= came == HAS_ENDED or (came == HAS_ACTED and is_last)
            first, last = (
                layout.neighbour_start[actor],
                layout.neighbour_start[actor + 1],
            )
            tail = enqueue_steps(
                layout, state, general, ring, mask, tail, layout.neighbours, first, last
            )
            until_clock -= 1
            if deadline and until_clock == 0:
                time = now()
                if time > deadline:
                    break
                until_clock = CLOCK_PERIOD if time - last_clock < SPIN else 1
                last_clock = time

        seats[seat + w.HEAD], seats[seat + w.TAIL] = head, tail
        store_release(seats, seat + w.LEFT, left)
        # Before the seat is free: who has all seats has to see a run that has ended.
        # Another thread may have made the last act before this one had the seat.
        ended = acted and left == 0 and fetch_add(control, w.OPEN, -1) == 1
        store_release(seats, seat + w.TAKEN, 0)
        if ended:
            ring_bell(state)
        return acted

    return loop
