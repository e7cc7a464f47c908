"""The reference executor: the meaning of a program, in plain Python on one thread."""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.io_kernels import CALLBACK_FAILED, KernelFunction
from penstock.runtime.core.stuck_report import stuck_in
from penstock.runtime.errors import (
    DeadlockError,
    PenstockError,
    TaskError,
    failure_of_callback,
)
from penstock.runtime.executors.reference_kinds import Behaviour, behaviour_of
from penstock.runtime.executors.reference_messages import Messages
from penstock.runtime.program.control_flow import (
    BadLoop,
    HostMemory,
    Walk,
    loop_failure,
)
from penstock.runtime.program.tables import (
    CALLER,
    Argument,
    Call,
    Cell,
    Fixed,
    Slot,
    Tables,
    Words,
)

Kernel = Callable[[int, int, int], int]

NO_LIMIT = 1 << 62
"""More acts than any actor makes."""


def run_sequential(tables: Tables, acts: int) -> None:
    """
    Let every actor make its acts of `acts` iterations, from the program's first slots
    on.

    Raises the errors of `Core.run`. It uses the registers and actors alone, not the
    flat tables, so that it can check those.
    """
    SequentialRun(tables, acts).run()


class SequentialRun:
    """
    A run of a program: pieces and slots on their way, and the acts of each actor.

    Without a number of iterations it is a stream: it ends when there are no more
    pieces. A run that stops early goes on until no iteration has assigned to some of
    its variables alone, and iterations before one that failed have ended (`settle`).
    """

    def __init__(self, tables: Tables, acts: int | None):
        if acts is not None and acts < 0:
            raise PenstockError(f"the number of acts must not be negative, got {acts}")
        self.tables = tables
        self.acts = acts
        self.limits = [
            NO_LIMIT if acts is None else acts * n for n in tables.repetitions
        ]
        """The acts that each actor may make."""
        self.failures: dict[int, TaskError] = {}
        """Actors that have failed, which act no more."""
        self.is_stopped = False
        """Whether no actor is to act now."""
        self.is_settling = False
        """Whether the caller of a stream takes and gives nothing more."""
        self.done = [0] * len(tables.actors)
        self.made = [register.initial for register in tables.registers]
        """The number of pieces that each register has had."""
        self.used = dict.fromkeys(tables.edges, 0)
        """The number of pieces of a register that a reader has released."""
        self.has_end = [False] * len(tables.registers)
        """Whether a register gets no more pieces."""
        self.left_over = dict.fromkeys(tables.edges, 0)
        """The number of pieces that were discarded."""
        self.is_draining = [False] * len(tables.actors)
        self.is_over = [False] * len(tables.actors)
        self.readers: list[list[int]] = [[] for _ in tables.registers]
        for register, reader in tables.edges:
            self.readers[register].append(reader)
        self.messages: Messages | None = None
        """Those to and from other ranks, if there are any."""
        self.walks: dict[int, Walk] = {}
        """The way through the last act of each actor with loops or conditions."""
        self.kernels: dict[int, Kernel] = {
            call.kernel: KernelFunction(call.kernel)
            for actor in tables.actors
            for call in actor.calls
        }
        self.begin()
        self._behaviours: list[Behaviour] = [
            behaviour_of(self, index) for index in range(len(tables.actors))
        ]

    def begin(self) -> None:
        """Wait for work that is under way before the first act."""
        self.tables.go_back()

    def run(self) -> None:
        """Let actors act, one after the other, until all have done so or none can."""
        try:
            ready = [*range(len(self.tables.actors))]
            while ready:
                self.go_on(ready)
                ready = [] if self.messages is None else self.messages.wait(self)
        except TaskError as error:
            failure = self.settle() or error
            raise failure from failure.__cause__
        if self.is_stopped:
            self.settle()
            return
        self.check_end()

    def stop(self) -> None:
        """Let no actor begin an act, from another thread."""
        self.is_stopped = True

    def go_on(self, actors: range | list[int]) -> None:
        """Let these actors act, and all that can because of that, until none can."""
        ready = deque(actors)
        while ready and not self.is_stopped:
            actor = ready.popleft()
            while not self.is_stopped and self.can_act(actor):
                self.act(actor)
                ready.extend(self.neighbours(actor))

    def act(self, actor: int) -> None:
        """Let an actor act that can. Raises TaskError."""
        try:
            self.call_all(actor)
            self.finish(actor)
        except TaskError as error:
            self.failures.setdefault(actor, error)
            raise

    def settle(self) -> TaskError | None:
        """
        Bring iterations to their end: those in which some variable was assigned to, and
        those before one that failed. Returns the failure of the earliest iteration.

        An actor that has failed acts no more, so if that is after its iteration has
        begun to assign (it assigns itself, or was not known to be able to fail),
        variables that come after it keep what they held; the failure has a note that
        names those actors.
        """
        tables = self.tables
        self.is_settling, self.is_stopped = True, False
        while any(actor.assigns for actor in tables.actors):
            self.limits = self.settled_limits()
            try:
                self.acts = self.acts or 0
                self.go_on(range(len(tables.actors)))
                break
            except TaskError:
                continue
        failed = min(self.failures, key=self.turn_of, default=None)
        return None if failed is None else self.noted(self.failures[failed])

    def turn_of(self, actor: int) -> int:
        """The iteration of the next act of an actor."""
        return self.done[actor] // self.tables.repetitions[actor]

    def settled_limits(self) -> list[int]:
        """The acts that each actor may make so that nothing is assigned to in part."""
        tables = self.tables
        jobs = {actor.job for actor in tables.actors} - {None}
        ends: dict[str | None, int] = {}
        for index, actor in enumerate(tables.actors):
            # Actors that devices add to a job are part of it.
            job = actor.job if len(jobs) > 1 else None
            end = self.turn_of(index) if index in self.failures else 0
            if actor.assigns:
                end = self.begun_iterations(index)
            ends[job] = max(ends.get(job, 0), end)
        if len(jobs) > 1:
            ends[None] = NO_LIMIT
        return [
            min(limit, ends[actor.job if len(jobs) > 1 else None] * repetitions)
            for limit, repetitions, actor in zip(
                self.limits, tables.repetitions, tables.actors, strict=True
            )
        ]

    def begun_iterations(self, actor: int) -> int:
        """The iterations in which an actor has acted, or failed to."""
        acts = self.done[actor] + (actor in self.failures)
        return -(-acts // self.tables.repetitions[actor])

    def noted(self, failure: TaskError) -> TaskError:
        """A failure with a note of actors that should have assigned as others have."""
        actors = self.tables.actors
        assigning = [index for index, actor in enumerate(actors) if actor.assigns]
        left = [x for x in assigning if self.done[x] < self.limits[x]]
        if 0 < len(left) < len(assigning):
            listed = ", ".join(f"'{actors[index].name}'" for index in left)
            failure.add_note(f"other variables were assigned to, but not by {listed}")
        return failure

    def check_end(self) -> None:
        """Raise DeadlockError unless all actors have made their acts, or ended."""
        tables, acts = self.tables, self.acts
        if acts is None:
            if not all(self.is_over):
                raise DeadlockError(self.stuck())
        elif any(n < limit for n, limit in zip(self.done, self.limits, strict=True)):
            raise DeadlockError(tables.stuck(self.counters(), self.done, acts))

    def stuck(self) -> list[str]:
        """A line for each actor of a stream that has not ended."""
        phases = [
            w.ENDED if over else w.DRAINING if draining else w.NORMAL
            for over, draining in zip(self.is_over, self.is_draining, strict=True)
        ]
        counters, thrown = self.counters(), self.left_over
        return stuck_in(self.tables, counters, self.done, phases, thrown)

    # Questions of actors

    def has_piece(self, register: int, reader: int) -> bool:
        """Whether there is something to read."""
        return self.made[register] > self.used[register, reader]

    def has_ended(self, register: int, reader: int) -> bool:
        """Whether there is nothing to read, and never will be."""
        return self.has_end[register] and not self.has_piece(register, reader)

    def has_free_slot(self, register: int) -> bool:
        """Whether all readers of a register are done with one of its slots."""
        slots = self.tables.registers[register].slots
        return all(
            self.made[register] - self.used[register, reader] < slots
            for reader in self.readers[register]
            if not (self.is_settling and reader == CALLER)
        )

    # Acts

    def can_act(self, actor: int) -> bool:
        """Whether an actor can act, has to end or has to throw something away."""
        reads = self.tables.actors[actor].reads
        if self.is_over[actor] or actor in self.failures:
            return False
        if self.is_draining[actor]:
            return any(self.has_piece(register, actor) for register in reads) or all(
                self.has_ended(register, actor) for register in reads
            )
        if self.acts is not None:
            if self.done[actor] >= self.limits[actor]:
                return False
            return self._behaviours[actor].is_ready()
        return self.ends(actor) or self._behaviours[actor].is_ready()

    def ends(self, actor: int) -> bool:
        """Whether the next step of an actor is to end, or to discard pieces."""
        if self.acts is not None:
            return False
        behaviour = self._behaviours[actor]
        return self.is_draining[actor] or (
            not behaviour.is_ready() and behaviour.is_finished()
        )

    def neighbours(self, actor: int) -> list[int]:
        """The actors that an act of this one can make ready."""
        found = [
            self.tables.registers[r].producer for r in self.tables.actors[actor].reads
        ]
        for register in self.tables.actors[actor].writes:
            found.extend(self.readers[register])
        return [other for other in found if other != CALLER]

    def address(self, actor: int, arg: Argument) -> int:
        """The word of an argument in the next act of an actor."""
        if isinstance(arg, Fixed):
            return arg.address
        if isinstance(arg, Cell):
            return self.walks[actor].cells[arg.number]
        register = self.tables.registers[arg.register]
        own = self.tables.actors[actor]
        is_read = arg.register in own.reads
        piece = self.used[arg.register, actor] if is_read else self.made[arg.register]
        part = self.done[actor] % own.acts_for(arg.register)
        return register.address_of(piece) + part * arg.slice

    def call_all(self, actor: int) -> None:
        """Make the calls of the next act of an actor, unless it ends."""
        if not self.ends(actor):
            self.make_calls(actor)

    def make_calls(self, actor: int) -> None:
        """Make the calls of the next act of an actor."""
        for _, call in self.calls_of(actor):
            self.call(actor, call)

    def is_lost(self, call: Call) -> bool:
        """Whether the result of a call is for the caller of a stream that is ending."""
        registers = self.tables.registers
        return self.is_settling and any(
            isinstance(arg, Slot) and registers[arg.register].is_taken
            for arg in call.args
        )

    def calls_of(self, actor: int) -> Iterable[tuple[int, Call]]:
        """
        The calls of the next act of an actor, and their places among its calls. Each is
        to be made before the next one is asked for.
        """
        if self.tables.actors[actor].control is not None:
            return self._walk(actor)
        calls = self._behaviours[actor].calls()
        if not self.is_settling:
            return calls
        return [(place, call) for place, call in calls if not self.is_lost(call)]

    def _walk(self, actor: int) -> Iterator[tuple[int, Call]]:
        """The calls of an act with loops and conditions. Raises TaskError."""
        own = self.tables.actors[actor]
        assert own.control is not None, "checked by the caller"
        walk = Walk(own.control, self.root_addresses(actor), HostMemory())
        self.walks[actor] = walk
        made = {*own.calls_in(self.done[actor])}
        try:
            for place in walk.calls():
                call = own.calls[place]
                if place in made and not (self.is_settling and self.is_lost(call)):
                    yield place, call
        except BadLoop as bad:
            loop = own.control.loops[bad.loop]
            text = loop_failure(loop, bad.code, is_count=bad.is_count)
            error = TaskError(own.name, self.done[actor], bad.code, text)
            error.iterations = walk.iterations(loop.around)
            raise self.tables.placed(error) from None

    def root_addresses(self, actor: int) -> list[int]:
        """The addresses of what the loops and conditions of an actor work on."""
        return [self.address(actor, root) for root in self.tables.actors[actor].roots]

    def finish(self, actor: int) -> None:
        """Produce the pieces of the next act of an actor, and release those it used."""
        if not self.ends(actor):
            self._behaviours[actor].finish()
            self.done[actor] += 1
            return
        self.is_draining[actor] = True
        for register in self.tables.actors[actor].writes:
            self.has_end[register] = True
        for register in self.tables.actors[actor].reads:
            edge = register, actor
            self.left_over[edge] += self.made[register] - self.used[edge]
            self.used[edge] = self.made[register]
        self.is_over[actor] = all(
            self.has_end[register] for register in self.tables.actors[actor].reads
        )

    def call(self, actor: int, call: Call) -> None:
        """Make a call, all of it at once. Raises TaskError if it fails."""
        words = [self.address(actor, arg) for arg in call.args]
        row = (ctypes.c_int64 * len(words))(*words)
        self.check(actor, call, self.kernels[call.kernel](ctypes.addressof(row), 0, 1))

    def check(self, actor: int, call: Call, code: int) -> None:
        """Raise TaskError if a call has returned a code."""
        if code == 0:
            return
        name = self.tables.actors[actor].name
        error = TaskError(name, self.done[actor], code, call.message_of(code))
        if (walk := self.walks.get(actor)) is not None:
            error.iterations = walk.iterations(walk.loop)
        if code == CALLBACK_FAILED and call.kernel in self.tables.callbacks:
            cause = self.tables.callbacks[call.kernel].take_error()
            error = failure_of_callback(error, cause)
        raise self.tables.placed(error)

    def counters(self) -> Words:
        """The counters of the compiled executor at this point."""
        counters = self.tables.counters()
        for index, made in enumerate(self.made):
            counters[self.tables.produced_at(index)] = made
            counters[self.tables.ended_at(index)] = self.has_end[index]
        for edge, used in enumerate(self.used.values()):
            counters[self.tables.consumed_at(edge)] = used
        return counters
