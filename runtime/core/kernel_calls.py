"""
The calls of kernels in an act, and their rows in the log of the worker.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.atomics import (
    Integer,
    address_of,
    call_kernel,
    compiled,
    load_acquire,
    peek,
)
from penstock.runtime.core.call_log import close_row, log_of, open_row
from penstock.runtime.core.loop_walk import walking
from penstock.runtime.core.state import AnyMachine, fail
from penstock.runtime.core.state_layout import State
from penstock.runtime.core.work_sharing import share_out
from penstock.runtime.program.tables import Layout


@compiled()
def make_call(
    layout: Layout, state: State, base: Integer, actor: Integer, call: Integer
) -> int:
    """
    Make a call of an actor. Returns its code, which is noted if it is not 0; CUT_SHORT
    if the run has stopped meanwhile.
    """
    control = state.control
    row = address_of(state.rows, peek(layout.row, call))
    parts = peek(layout.parts, call)
    if parts == 1:
        code = int(call_kernel(peek(layout.kernel, call), row, 0, 1))
    else:
        code = share_out(state, base, peek(layout.kernel, call), row, parts)
    if code != 0:
        state.workers[base + w.WRONG_ACTOR] = actor + 1
        state.workers[base + w.WRONG_CALL] = call
        state.workers[base + w.WRONG_CODE] = code
        fail(state, actor, call, code)
    elif (
        parts > 1
        and load_acquire(control, w.STOP) != w.RUNNING
        and not control[w.WHOLE_ACTS]
    ):
        return w.CUT_SHORT
    return code


# Acts --------------------------------------------------------------------------------


def calling(
    kind: type[AnyMachine],
    is_recorded: bool,
    is_made: Callable[[AnyMachine, Integer, Integer, Integer], bool],
) -> Callable[[AnyMachine, Integer, Integer, Integer, Integer], int]:
    """
    The function that makes the calls of an act, each with a row in the log if there are
    several. `is_made` says whether a call of an actor is made for a piece of an entry.
    """
    walk = walking(kind, is_recorded, is_made, make_call)

    @compiled(bound={AnyMachine: kind})
    def make_calls(
        machine: AnyMachine, base: Integer, actor: Integer, read: Integer, log: Integer
    ) -> int:
        """Make the calls of the next act; 0, or the code of the first that fails."""
        layout, state = machine.layout, machine.state
        start = peek(layout.code_start, actor)
        if start != peek(layout.code_start, actor + 1):
            return walk(machine, base, actor, read, log)
        first, last = peek(layout.call_start, actor), peek(layout.call_start, actor + 1)
        for call in range(first, last):
            if not is_made(machine, actor, call, read):
                continue
            row = 0
            if is_recorded and log != 0 and last - first > 1:
                act = peek(state.actors, peek(layout.place, actor) + w.ACTS)
                row = open_row(log, call - first, actor, act)
            code = make_call(layout, state, base, actor, call)
            if is_recorded and row != 0:
                close_row(row, code)
            if code != 0:
                return code
        return 0

    return make_calls


def noting(
    kind: type[AnyMachine],
    is_recorded: bool,
    act: Callable[[AnyMachine, Integer, Integer, Integer], int],
) -> Callable[[AnyMachine, Integer, Integer, Integer], int]:
    """The function that lets an actor act, with a row in the log for the whole act."""

    @compiled(bound={AnyMachine: kind})
    def noted(
        machine: AnyMachine, worker: Integer, base: Integer, actor: Integer
    ) -> int:
        """Let an actor of a worker act; 0, or the code by which it fails."""
        state = machine.state
        log = whole = 0
        if is_recorded:
            log = log_of(state, worker)
            if log != 0:
                number = peek(state.actors, peek(machine.layout.place, actor) + w.ACTS)
                whole = open_row(log, w.WHOLE, actor, number)
        code = act(machine, base, actor, log)
        if is_recorded and whole != 0:
            close_row(
                whole, state.control[w.FAILED_CODE] if code == w.REFUSED else code
            )
        return code

    return noted
