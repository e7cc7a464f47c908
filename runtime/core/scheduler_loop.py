"""
The scheduler loop: a thread lets the actors of a worker act as long as they can.

After each act it looks at the actors of the worker which that act can have made ready,
and every now and then at those that wait for other workers. The static scheduler and
the dynamic dataflow scheduler are the same loop around other rules, which are bound
when it is compiled: neither loop asks which one it is.
"""

from __future__ import annotations

from collections.abc import Callable

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.atomics import (
    Integer,
    compiled,
    fetch_add,
    load_acquire,
    peek,
    poke,
    store_release,
)
from penstock.runtime.core.os_calls import now
from penstock.runtime.core.state import SPIN, AnyMachine, signal_event
from penstock.runtime.program.tables import Words

POLL_PERIOD = 64
"""Acts after which a busy thread looks at the counters of other workers."""
CLOCK_PERIOD = 16
"""Acts after which the caller's thread looks at the clock."""

HAS_FAILED, HAS_STEPPED, HAS_ENDED = 0, 1, 2
"""The outcomes of a step of an actor; after the last one the run has no more of it."""


Ask = Callable[[AnyMachine, Integer], bool]
"""A question about an actor, given its number."""
Step = Callable[[AnyMachine, Integer, Integer, Integer], int]
"""A step of a worker's actor, given the worker, its base and the actor: its outcome."""
Loop = Callable[[AnyMachine, Integer, Integer], bool]
"""The loop, given the worker and the deadline."""
Enqueue = Callable[
    [AnyMachine, Integer, Integer, Integer, Words, Integer, Integer], Integer
]


def queueing(
    kind: type[AnyMachine], has_step: Ask[AnyMachine], *, inline: bool
) -> Enqueue[AnyMachine]:
    """The function that adds actors to the ring of their worker."""

    @compiled(inline=inline, bound={AnyMachine: kind})
    def enqueue(
        machine: AnyMachine,
        ring: Integer,
        mask: Integer,
        tail: Integer,
        actors: Words,
        first: Integer,
        last: Integer,
    ) -> Integer:
        """
        Add those of the actors from `first` to before `last` that have a step and are
        not there; the ring's new tail.
        """
        layout, state = machine.layout, machine.state
        for i in range(first, last):
            actor = peek(actors, i)
            place = peek(layout.place, actor)
            if peek(state.actors, place + w.QUEUED) != 0:
                continue
            if has_step(machine, actor):
                poke(state.actors, place + w.QUEUED, 1)
                poke(state.rings, ring + (tail & mask), actor)
                tail += 1
        return tail

    return enqueue


def looping(
    kind: type[AnyMachine],
    enqueue: Enqueue[AnyMachine],
    has_room: Callable[[AnyMachine, Integer, Integer], bool],
    step: Step[AnyMachine],
) -> Loop[AnyMachine]:
    """
    The loop of a scheduler. `has_room` says whether the log of a worker has room for a
    step of an actor.
    """

    @compiled(inline=False, bound={AnyMachine: kind})
    def loop(machine: AnyMachine, worker: Integer, deadline: Integer) -> bool:
        """
        Let the actors of a worker, which the thread has locked, act as long as they
        can, or until past the deadline if that is not 0, and unlock it. False if none
        of them can act.
        """
        layout, state = machine.layout, machine.state
        base, workers, control = worker * w.WORKER_WORDS, state.workers, state.control
        head, tail = workers[base + w.HEAD], workers[base + w.TAIL]
        left = workers[base + w.LEFT]
        ring = layout.ring_start[worker]
        mask = layout.ring_start[worker + 1] - ring - 1
        is_static = control[w.MODE] == w.STATIC
        # Under the dataflow scheduler callers and faults move counters, too.
        shared = not is_static or layout.member_start.size > 2
        members = layout.member_start[worker], layout.member_start[worker + 1]
        boundary = layout.boundary_start[worker], layout.boundary_start[worker + 1]
        if workers[base + w.FRESH]:
            workers[base + w.FRESH] = 0
            tail = enqueue(machine, ring, mask, tail, layout.members, *members)
        acted = False
        since_poll, until_clock, last_clock = POLL_PERIOD, 1, 0

        while left > 0 and load_acquire(control, w.STOP) == w.RUNNING:
            # Look at the counters of other workers.
            since_poll += 1
            if shared and (head == tail or since_poll >= POLL_PERIOD):
                since_poll = 0
                tail = enqueue(machine, ring, mask, tail, layout.boundary, *boundary)
            if head == tail:
                break
            # Take the next actor that can act, and let it.
            actor = peek(state.rings, ring + (head & mask))
            if not has_room(machine, worker, actor):
                break
            head += 1
            acted = True
            poke(state.actors, peek(layout.place, actor) + w.QUEUED, 0)
            came = step(machine, worker, base, actor)
            if came == HAS_FAILED:
                break
            left -= came == HAS_ENDED
            # Queue the actors which that can have made ready, itself among them.
            first = peek(layout.neighbour_start, actor)
            last = peek(layout.neighbour_start, actor + 1)
            tail = enqueue(machine, ring, mask, tail, layout.neighbours, first, last)
            # Give the caller's thread back to Python now and then.
            until_clock -= 1
            if deadline and until_clock == 0:
                time = now()
                if time > deadline:
                    break
                until_clock = CLOCK_PERIOD if time - last_clock < SPIN else 1
                last_clock = time

        workers[base + w.HEAD], workers[base + w.TAIL] = head, tail
        store_release(workers, base + w.LEFT, left)
        # Before the worker is unlocked, as a thread that locks all workers has to see
        # that a run has ended. If this one has not acted, the last act was another's.
        ended = acted and left == 0 and fetch_add(control, w.OPEN, -1) == 1
        store_release(workers, base + w.LOCKED, 0)
        # Only the caller waits for the end of a static run; with a deadline this is its
        # thread.
        if ended and not (is_static and deadline):
            signal_event(state)
        return acted

    return loop
