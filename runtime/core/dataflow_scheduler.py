"""
The dynamic dataflow scheduler, which lets actors of all kinds act.

It does for plain actors what the static scheduler does, by the same loop, and ends by
itself when there are no more pieces where a run is a stream. What is recorded may also
have a log without room, or wires.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.atomics import Integer, compiled, store_release
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
from penstock.runtime.core.kernel_calls import calling, has_rows, log_of, noting
from penstock.runtime.core.scheduler_loop import (
    HAS_ENDED,
    HAS_FAILED,
    HAS_STEPPED,
    Loop,
    Step,
    looping,
    queueing,
)
from penstock.runtime.core.state import ring_bell
from penstock.runtime.core.state_layout import State
from penstock.runtime.program.tables import Layout


class DataflowMachine(NamedTuple):
    """The arrays that the dynamic dataflow scheduler works on."""

    layout: Layout
    state: State
    general: General


@compiled()
def has_step(machine: DataflowMachine, actor: Integer) -> bool:
    """Whether an actor has anything to do: to act, to end, or to throw away."""
    layout, state, general = machine.layout, machine.state, machine.general
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
def outlook(machine: DataflowMachine) -> int:
    """What can be expected while nobody acts: STUCK, GOES_ON or WAITS."""
    counters, general = machine.state.counters, machine.general
    for actor in range(machine.layout.place.size):
        if has_step(machine, actor):
            return w.GOES_ON
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


@compiled()
def any_room(machine: DataflowMachine, worker: Integer, actor: Integer) -> bool:
    """Whether a log has room: there is none."""
    return True


@compiled()
def has_room(machine: DataflowMachine, worker: Integer, actor: Integer) -> bool:
    """Whether a log, if there is one, has room for the rows of an act of an actor."""
    layout, log = machine.layout, log_of(machine.state, worker)
    calls = layout.call_start[actor + 1] - layout.call_start[actor]
    return log == 0 or has_rows(log, 1 + calls if calls > 1 else 1)


@compiled()
def is_in_act(
    machine: DataflowMachine, actor: Integer, call: Integer, read: Integer
) -> bool:
    """Whether a call is made in the next act, for a piece of the entry `read`."""
    return is_made(machine.layout, machine.state, machine.general, actor, call, read)


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


def acting(is_recorded: bool) -> Step[DataflowMachine]:
    """The function for an act of an actor that is ready, whose outcome is a code."""
    make_calls = calling(DataflowMachine, is_recorded, is_in_act)

    @compiled()
    def act_once(
        machine: DataflowMachine, seat: Integer, actor: Integer, log: Integer
    ) -> int:
        """Do what actors of a kind do; 0, the code of a call that fails, or REFUSED."""
        layout, state, general = machine.layout, machine.state, machine.general
        kind = general.kind[actor]
        if kind == PLAIN:
            point_args(layout, state, general, actor)
            code = make_calls(machine, seat, actor, -1, log)
            if code == 0:
                finish_plain(layout, state, general, actor)
            return code
        if kind == INPUT_WISE:
            read = next_input(state, general, actor)
            # As if it had looked at its conditions: whoever sees that knows it acts.
            last = layout.condition_start[actor + 1]
            state.actors[layout.place[actor] + w.CONDITION] = last
            point_args(layout, state, general, actor)
            code = make_calls(machine, seat, actor, read, log)
            if code == 0:
                finish_input(state, general, actor, read)
            return code
        if kind == CASE:
            is_done = do_case(state, general, actor)
        elif kind == LOCK:
            is_done = do_lock(state, general, actor)
        elif kind == ESAC:
            do_esac(state, general, actor)
            is_done = True
        else:
            is_done = do_send(state, general, actor)
        return 0 if is_done else w.REFUSED

    return noting(DataflowMachine, is_recorded, act_once)


def stepping(is_recorded: bool) -> Step[DataflowMachine]:
    """The function for a step of an actor: to act, to end, or to throw away."""
    act = acting(is_recorded)

    @compiled(inline=False)
    def move(
        machine: DataflowMachine, worker: Integer, seat: Integer, actor: Integer
    ) -> int:
        """Let an actor do what it has to do now."""
        layout, state, general = machine.layout, machine.state, machine.general
        place, actors = layout.place[actor], state.actors
        is_normal = actors[place + w.PHASE] == w.NORMAL
        if is_normal and is_ready(layout, state, general, actor):
            if act(machine, worker, seat, actor) != 0:
                return HAS_FAILED
            actors[place + w.ACTS] += 1
            actors[place + w.CONDITION] = layout.condition_start[actor]
            acts = state.control[w.TARGET] * general.turns[actor]
            return HAS_ENDED if actors[place + w.ACTS] == acts else HAS_STEPPED
        if is_normal:
            actors[place + w.PHASE] = w.DRAINING
            say_end(state, general, actor)
        throw_away(state, general, actor)
        if not has_all(state, general, actor):
            return HAS_STEPPED
        actors[place + w.PHASE] = w.ENDED
        return HAS_ENDED

    @compiled()
    def step(
        machine: DataflowMachine, worker: Integer, seat: Integer, actor: Integer
    ) -> int:
        """Let an actor make a step, and others see what it counted."""
        came = move(machine, worker, seat, actor)
        if came != HAS_FAILED:
            if is_recorded:
                tell(machine.state, machine.general, actor)
            if machine.layout.crosses[actor]:
                ring_bell(machine.state)
        return came

    return step


def scheduling(is_recorded: bool) -> Loop[DataflowMachine]:
    """The dynamic dataflow scheduler, for runs with a log or wires if recorded."""
    enqueue = queueing(DataflowMachine, has_step, inline=False)
    room = has_room if is_recorded else any_room
    return looping(DataflowMachine, enqueue, room, stepping(is_recorded))
