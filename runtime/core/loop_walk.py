"""
The walk through the loops and conditions of an actor, compiled to run without Python.

It follows the words of `penstock.runtime.program.control_words`. An iteration sets the
words of arguments that change with it, so calls are made as outside of loops.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.atomics import (
    Integer,
    compiled,
    copy_bytes,
    load_acquire,
    load_byte,
    load_word,
    peek,
    poke,
    prefetch,
    store_word,
)
from penstock.runtime.core.call_log import close_row, note_row, open_row
from penstock.runtime.core.os_calls import now
from penstock.runtime.core.state import AnyMachine, fail
from penstock.runtime.core.state_layout import State
from penstock.runtime.program.control_words import (
    AFTER,
    ALL,
    BACKWARD,
    BEGIN,
    BODY,
    BRANCH,
    CARRY_WORDS,
    CONDITION,
    COPY_WORDS,
    COUNT,
    CURRENT,
    DO,
    DONE,
    END,
    FETCH_WORDS,
    FRAME,
    JUMP,
    LINE,
    LOOP,
    LOOP_WORDS,
    MADE,
    NEXT,
    POINT_WORDS,
    TIMES,
)
from penstock.runtime.program.tables import Layout, Words

GOES_ON, IS_OVER, IS_BAD, IS_CUT = 0, -1, -2, -3
"""Whether a loop has another iteration, or ends, cannot go on, or is to stop."""


@compiled()
def set_points(code: Words, rows: Words, at: Integer, number: Integer) -> int:
    """Set the words of a list of points; the word of code after it."""
    end = int(at) + 1 + POINT_WORDS * peek(code, at)
    for point in range(int(at) + 1, end, POINT_WORDS):
        address = peek(rows, peek(code, point + 1)) + peek(code, point + 2)
        poke(rows, peek(code, point), address + number * peek(code, point + 3))
    return end


@compiled()
def swap(code: Words, rows: Words, at: Integer, parity: Integer) -> int:
    """Set the words of a list of carried values; the word of code after it."""
    end = int(at) + 1 + CARRY_WORDS * peek(code, at)
    for carry in range(int(at) + 1, end, CARRY_WORDS):
        place = carry + 2 + 2 * (parity + peek(code, carry + 1) & 1)
        address = peek(rows, peek(code, place)) + peek(code, place + 1)
        poke(rows, peek(code, carry), address)
    return end


@compiled()
def fetch_rows(code: Words, rows: Words, at: Integer) -> None:
    """
    Begin to fetch the rows of the next iteration into the caches: those that another
    thread wrote come from the core of that.
    """
    end = at + 1 + FETCH_WORDS * peek(code, at)
    for fetch in range(at + 1, end, FETCH_WORDS):
        address = peek(rows, peek(code, fetch)) + peek(code, fetch + 1)
        for line in range(peek(code, fetch + 2)):
            prefetch(address + LINE * line)


@compiled(inline=False)
def copy_back(code: Words, rows: Words, at: Integer) -> None:
    """Copy carried values to their first place from the other one."""
    for copy in range(at + 1, at + 1 + COPY_WORDS * peek(code, at), COPY_WORDS):
        target = peek(rows, peek(code, copy)) + peek(code, copy + 1)
        source = peek(rows, peek(code, copy + 2)) + peek(code, copy + 3)
        copy_bytes(target, source, peek(code, copy + 4))


@compiled()
def begin_loop(code: Words, rows: Words, about: Integer) -> bool:
    """Read how many iterations a loop is to make; False if these are too many."""
    frame, times = peek(code, about + FRAME), peek(code, about + TIMES)
    count = times
    if peek(code, about + COUNT) >= 0:
        count = load_word(peek(rows, peek(code, about + COUNT)))
    poke(rows, frame + DONE, 0)
    poke(rows, frame + ALL, count)
    return bool(0 <= count <= times)


@compiled()
def begin_iteration(code: Words, rows: Words, about: Integer) -> int:
    """Begin the next iteration of a loop if there is one."""
    frame = peek(code, about + FRAME)
    made, count = peek(rows, frame + DONE), peek(rows, frame + ALL)
    has_count = peek(code, about + COUNT) >= 0
    condition = peek(code, about + CONDITION)
    parity = made if has_count or condition >= 0 else count - made
    points = swap(code, rows, about + LOOP_WORDS, parity & 1)
    if condition >= 0:
        if load_byte(peek(rows, condition)) == 0:
            return IS_OVER
        if made == count and not has_count:
            return IS_BAD
    if made == count:
        return IS_OVER
    number = count - 1 - made if peek(code, about + BACKWARD) != 0 else made
    poke(rows, frame + CURRENT, number)
    fetch_rows(code, rows, set_points(code, rows, points, number))
    return GOES_ON


@compiled()
def end_loop(code: Words, rows: Words, about: Integer) -> None:
    """Bring carried values to their first place, and say how often it has gone on."""
    made = peek(rows, peek(code, about + FRAME) + DONE)
    if made & 1 == 1:
        carried = about + LOOP_WORDS
        points = carried + 1 + CARRY_WORDS * peek(code, carried)
        fetches = points + 1 + POINT_WORDS * peek(code, points)
        copy_back(code, rows, fetches + 1 + FETCH_WORDS * peek(code, fetches))
    if peek(code, about + MADE) >= 0:
        store_word(peek(rows, peek(code, about + MADE)), made)


@compiled(inline=False)
def fail_at_loop(
    layout: Layout, state: State, base: Integer, actor: Integer, about: Integer
) -> int:
    """End the run because a loop cannot go on; the code of that."""
    code, rows = layout.code, state.rows
    call = w.FIRST_LOOP - 2 * peek(code, about + LOOP)
    count = peek(rows, peek(code, about + FRAME) + ALL)
    failed, times = count, peek(code, about + TIMES)
    if 0 <= count <= times:
        call, failed = call - 1, times + 1
    state.workers[base + w.WRONG_ACTOR] = actor + 1
    state.workers[base + w.WRONG_CALL] = call
    state.workers[base + w.WRONG_CODE] = failed
    fail(state, actor, call, failed)
    return failed


@compiled()
def is_cut_short(state: State, base: Integer) -> bool:
    """Whether a loop ends as the run has stopped; watchdogs see that it goes on."""
    turns, control = base + w.TURNS, state.control
    poke(state.workers, turns, peek(state.workers, turns) + 1)
    is_running = load_acquire(control, w.STOP) == w.RUNNING
    return not is_running and not control[w.WHOLE_ACTS]


@compiled()
def go_on(layout: Layout, state: State, base: Integer, at: Integer) -> int:
    """
    Begin a loop, or its next iteration, at an instruction. Returns the next one;
    IS_BAD if the loop cannot go on, IS_CUT if the run has stopped.
    """
    code, rows = layout.code, state.rows
    about = peek(code, at + 1)
    if peek(code, at) == NEXT:
        done = peek(code, about + FRAME) + DONE
        poke(rows, done, peek(rows, done) + 1)
    elif not begin_loop(code, rows, about):
        return IS_BAD
    if is_cut_short(state, base):
        return IS_CUT
    came = begin_iteration(code, rows, about)
    if came == GOES_ON:
        return peek(code, about + BODY)
    if came == IS_OVER:
        end_loop(code, rows, about)
        return peek(code, about + AFTER)
    return IS_BAD


@compiled()
def move(code: Words, rows: Words, at: Integer) -> int:
    """Do an instruction that calls nothing and belongs to no loop; the next one."""
    verb, cell = peek(code, at), peek(code, at + 1)
    if verb == JUMP:
        return cell
    if verb == BRANCH:
        is_true = load_byte(peek(rows, cell)) != 0
        return int(at) + 3 if is_true else peek(code, at + 2)
    store_word(peek(rows, cell), peek(rows, peek(code, at + 2)))
    return int(at) + 3


@compiled(inline=False)
def add_time(
    layout: Layout, state: State, call: Integer, start: Integer, end: Integer
) -> None:
    """Add to the time of all iterations of a call in this act."""
    summed = peek(layout.summed, call)
    if state.rows[summed] == 0:
        state.rows[summed] = start
    state.rows[summed + 1] += end - start


@compiled(inline=False)
def note_sums(
    layout: Layout,
    state: State,
    log: Integer,
    actor: Integer,
    last_call: Integer,
    code: Integer,
) -> None:
    """
    Leave a row for each call that has one for all of its iterations. The last call that
    was made has returned a code.
    """
    first, last = peek(layout.call_start, actor), peek(layout.call_start, actor + 1)
    act = peek(state.actors, peek(layout.place, actor) + w.ACTS)
    for call in range(first, last):
        summed = peek(layout.summed, call)
        if summed < 0 or state.rows[summed] == 0:
            continue
        start = state.rows[summed]
        end = start + state.rows[summed + 1]
        came = code if call == last_call else 0
        note_row(log, call - first, actor, act, start, end, came)
        state.rows[summed] = 0
        state.rows[summed + 1] = 0


def walking(
    kind: type[AnyMachine],
    is_recorded: bool,
    is_made: Callable[[AnyMachine, Integer, Integer, Integer], bool],
    make_call: Callable[[Layout, State, Integer, Integer, Integer], int],
) -> Callable[[AnyMachine, Integer, Integer, Integer, Integer], int]:
    """
    The function that makes the calls of an act of an actor with loops or conditions.
    """

    @compiled(bound={AnyMachine: kind})
    def do(
        machine: AnyMachine, base: Integer, actor: Integer, call: Integer, log: Integer
    ) -> int:
        """Make a call, with a row in the log if there is one; its code."""
        layout, state = machine.layout, machine.state
        if not is_recorded or log == 0 or peek(layout.log_rows, actor) == 1:
            return make_call(layout, state, base, actor, call)
        if peek(layout.summed, call) >= 0:
            start = now()
            code = make_call(layout, state, base, actor, call)
            add_time(layout, state, call, start, now())
            return code
        act = peek(state.actors, peek(layout.place, actor) + w.ACTS)
        first = peek(layout.call_start, actor)
        row = open_row(log, call - first, actor, act)
        code = make_call(layout, state, base, actor, call)
        close_row(row, code)
        return code

    @compiled(inline=False, bound={AnyMachine: kind})
    def walk(
        machine: AnyMachine, base: Integer, actor: Integer, read: Integer, log: Integer
    ) -> int:
        """Make the calls of the next act; 0, or the code of what fails first."""
        layout, state = machine.layout, machine.state
        code, rows = layout.code, state.rows
        at = set_points(code, rows, peek(layout.code_start, actor), 0)
        failed = call = 0
        while failed == 0 and peek(code, at) != END:
            verb = peek(code, at)
            if verb == DO:
                call = peek(code, at + 1)
                at += 2
                if is_made(machine, actor, call, read):
                    failed = do(machine, base, actor, call, log)
            elif verb in (BEGIN, NEXT):
                about = peek(code, at + 1)
                at = go_on(layout, state, base, at)
                if at == IS_BAD:
                    failed = fail_at_loop(layout, state, base, actor, about)
                elif at == IS_CUT:
                    failed = w.CUT_SHORT
            else:
                at = move(code, rows, at)
        if is_recorded and log != 0 and peek(layout.log_rows, actor) > 1:
            note_sums(layout, state, log, actor, call, failed)
        return failed

    return walk
