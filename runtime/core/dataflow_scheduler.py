"""
The dynamic dataflow scheduler, which lets actors of all kinds act.

It does for plain actors what the static scheduler does, by the same loop, and ends by
itself when there are no more pieces where a run is a stream. The recording one also
minds logs without room, and forwarded counters.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.atomics import Integer, compiled, store_release
from penstock.runtime.core.call_log import has_rows, log_of
from penstock.runtime.core.dataflow_rules import (
    CASE,
    CYCLIC,
    ESAC,
    INPUT_WISE,
    LOCK,
    PLAIN,
    do_case,
    do_esac,
    do_lock,
    do_send,
    finish_cyclic,
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
from penstock.runtime.core.dataflow_tables import Dataflow
from penstock.runtime.core.kernel_calls import calling, noting
from penstock.runtime.core.scheduler_loop import (
    HAS_ENDED,
    HAS_FAILED,
    HAS_STEPPED,
    Loop,
    Step,
    looping,
    queueing,
)
from penstock.runtime.core.state import signal_event
from penstock.runtime.core.state_layout import State
from penstock.runtime.program.tables import Layout


class DataflowMachine(NamedTuple):
    """The arrays that the dynamic dataflow scheduler works on."""

    layout: Layout
    state: State
    flow: Dataflow


@compiled()
def has_step(machine: DataflowMachine, actor: Integer) -> bool:
    """Whether an actor can make a step: act, end, or discard pieces."""
    layout, state, flow = machine.layout, machine.state, machine.flow
    place, control = layout.place[actor], state.control
    phase = state.actors[place + w.PHASE]
    if phase == w.NORMAL:
        if state.actors[place + w.ACTS] >= control[w.TARGET] * flow.repetitions[actor]:
            return False
        if is_ready(layout, state, flow, actor):
            return True
        return control[w.MODE] == w.STREAM and is_finished(layout, state, flow, actor)
    if phase == w.ENDED:
        return False
    if has_leftovers(state, flow, actor):
        return True
    return has_all(state, flow, actor)


@compiled(inline=False)
def outlook(machine: DataflowMachine) -> int:
    """The outlook while no actor acts: STUCK, GOES_ON or WAITS."""
    counters, flow = machine.state.counters, machine.flow
    for actor in range(machine.layout.place.size):
        if has_step(machine, actor):
            return w.GOES_ON
    for i in range(flow.filled_ended.size):
        full = counters[flow.filled_produced[i]] - counters[flow.filled_consumed[i]]
        if counters[flow.filled_ended[i]] == 0 and full < flow.filled_slots[i]:
            return w.WAITS
    for i in range(flow.taken_produced.size):
        if counters[flow.taken_produced[i]] > counters[flow.taken_consumed[i]]:
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
    return log == 0 or has_rows(log, layout.log_rows[actor])


@compiled()
def is_in_act(
    machine: DataflowMachine, actor: Integer, call: Integer, read: Integer
) -> bool:
    """Whether a call is made in the next act, for a piece of the entry `read`."""
    return is_made(machine.layout, machine.state, machine.flow, actor, call, read)


@compiled(inline=False)
def forward_counters(state: State, flow: Dataflow, actor: Integer) -> None:
    """Move the forwarded counters of an actor on, but for injected faults."""
    counters = state.counters
    for forward in range(flow.forward_start[actor], flow.forward_start[actor + 1]):
        place = flow.forward_place[forward]
        own = counters[flow.forward_own[forward]]
        while counters[place + w.MOVES] < own:
            change = 1
            for i in range(flow.change_start[forward], flow.change_start[forward + 1]):
                if flow.change_number[i] == counters[place + w.MOVES]:
                    change = flow.change_by[i]
            counters[place + w.MOVES] += 1
            forwarded = int(counters[place]) + change
            if forwarded > counters[place + w.MOVES]:
                counters[place + w.AHEAD] = 1
            store_release(counters, place, forwarded)


def acting(is_recorded: bool) -> Step[DataflowMachine]:
    """The function for an act of an actor that is ready, whose outcome is a code."""
    make_calls = calling(DataflowMachine, is_recorded, is_in_act)

    @compiled()
    def act_once(
        machine: DataflowMachine, base: Integer, actor: Integer, log: Integer
    ) -> int:
        """Act by the rule of a kind; 0, the code of a call that fails, or REFUSED."""
        layout, state, flow = machine.layout, machine.state, machine.flow
        kind = flow.kind[actor]
        if kind == PLAIN:
            point_args(layout, state, flow, actor)
            code = make_calls(machine, base, actor, -1, log)
            if code == 0:
                finish_plain(layout, state, flow, actor)
            return code
        if kind == CYCLIC:
            last = layout.condition_start[actor + 1]
            state.actors[layout.place[actor] + w.CONDITION] = last
            point_args(layout, state, flow, actor)
            code = make_calls(machine, base, actor, -1, log)
            if code == 0:
                finish_cyclic(layout, state, flow, actor)
            return code
        if kind == INPUT_WISE:
            read = next_input(state, flow, actor)
            # As if it had looked at its conditions: so watchdogs know that it acts.
            last = layout.condition_start[actor + 1]
            state.actors[layout.place[actor] + w.CONDITION] = last
            point_args(layout, state, flow, actor)
            code = make_calls(machine, base, actor, read, log)
            if code == 0:
                finish_input(state, flow, actor, read)
            return code
        if kind == CASE:
            is_done = do_case(state, flow, actor)
        elif kind == LOCK:
            is_done = do_lock(state, flow, actor)
        elif kind == ESAC:
            do_esac(state, flow, actor)
            is_done = True
        else:
            is_done = do_send(state, flow, actor)
        return 0 if is_done else w.REFUSED

    return noting(DataflowMachine, is_recorded, act_once)


def stepping(is_recorded: bool) -> Step[DataflowMachine]:
    """The function for a step of an actor: to act, to end, or to discard pieces."""
    act = acting(is_recorded)

    @compiled(inline=False)
    def move(
        machine: DataflowMachine, worker: Integer, base: Integer, actor: Integer
    ) -> int:
        """Let an actor act, end, or discard pieces."""
        layout, state, flow = machine.layout, machine.state, machine.flow
        place, actors = layout.place[actor], state.actors
        is_normal = actors[place + w.PHASE] == w.NORMAL
        if is_normal and is_ready(layout, state, flow, actor):
            if act(machine, worker, base, actor) != 0:
                return HAS_FAILED
            actors[place + w.ACTS] += 1
            actors[place + w.CONDITION] = layout.condition_start[actor]
            acts = state.control[w.TARGET] * flow.repetitions[actor]
            return HAS_ENDED if actors[place + w.ACTS] == acts else HAS_STEPPED
        if is_normal:
            actors[place + w.PHASE] = w.DRAINING
            say_end(state, flow, actor)
        throw_away(state, flow, actor)
        if not has_all(state, flow, actor):
            return HAS_STEPPED
        actors[place + w.PHASE] = w.ENDED
        return HAS_ENDED

    @compiled()
    def step(
        machine: DataflowMachine, worker: Integer, base: Integer, actor: Integer
    ) -> int:
        """Let an actor make a step, and publish its counters."""
        came = move(machine, worker, base, actor)
        if came != HAS_FAILED:
            if is_recorded:
                forward_counters(machine.state, machine.flow, actor)
            if machine.layout.crosses[actor]:
                signal_event(machine.state)
        return came

    return step


def scheduling(is_recorded: bool) -> Loop[DataflowMachine]:
    """The scheduler; a recording one serves runs with a log or forwarded counters."""
    enqueue = queueing(DataflowMachine, has_step, inline=False)
    room = has_room if is_recorded else any_room
    return looping(DataflowMachine, enqueue, room, stepping(is_recorded))
