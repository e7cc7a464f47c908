"""
A stream on the reference executor, or on a virtual clock: there are no threads, so
actors act when the caller does something.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

from penstock.runtime.core.interrupt_shield import Shield
from penstock.runtime.errors import DeadlockError, PenstockError, TaskError
from penstock.runtime.executors.recorded import RecordedRun
from penstock.runtime.executors.reference import SequentialRun
from penstock.runtime.executors.simulator import Simulation, VirtualClock, note_acts
from penstock.runtime.executors.stream_core import CLOSED, left_over_of
from penstock.runtime.observe.event_log import StreamLog
from penstock.runtime.program.tables import CALLER, Tables


class NoRoom(PenstockError):
    """
    There is no room for a piece of an input, or no piece of an output, until the caller
    does something else: where no other thread could.
    """


class Stepwise:
    """
    A stream on the reference executor, or on a virtual clock if there are times: actors
    act when the caller fills or takes something, until none can.
    """

    def __init__(self, tables: Tables, times: Sequence[int] | None):
        self.tables = tables
        self._times = times
        self._run = SequentialRun(tables, None)
        self._lock = threading.RLock()
        self._shield = Shield()
        self._clock: VirtualClock | None = None
        self._log: StreamLog | None = None
        self._noted = 0
        """The number of acts of the clock that are in the log."""
        self._is_closed = False
        self._failure: BaseException | None = None

    def begin(self, log: StreamLog | None = None) -> None:
        """Let actors act from now on, and leave rows in a log if there is one."""
        self._log = log
        if self._times is not None:
            self._clock = VirtualClock(self._run, self._times)
        elif log is not None:
            self._run = RecordedRun(log)

    @property
    def failure(self) -> BaseException | None:
        """The error that has ended the stream before its time."""
        return self._failure

    @property
    def simulation(self) -> Simulation | None:
        """The times of acts, if there is a clock."""
        return None if self._clock is None else self._clock.simulation()

    @property
    def is_over(self) -> bool:
        """Whether all actors have ended."""
        return all(self._run.is_over)

    def has_room(self, register: int) -> bool:
        """Whether the caller may fill another slot."""
        return self._run.has_free_slot(register)

    def has_piece(self, register: int) -> bool:
        """Whether there is something for the caller to take."""
        return self._run.has_piece(register, CALLER)

    def has_ended(self, register: int) -> bool:
        """Whether there will be nothing more to take."""
        return self._run.has_ended(register, CALLER)

    def next_piece(self, register: int) -> int:
        """The number of the piece that the caller fills or takes next."""
        if self.tables.registers[register].producer == CALLER:
            return self._run.made[register]
        return self._run.used[register, CALLER]

    def fill(self, register: int) -> None:
        """Hand on the slot that the caller has filled."""
        self._run.made[register] += 1
        self._go_on(self._run.readers[register])

    def empty(self, register: int) -> None:
        """Give back the slot that the caller has taken."""
        self._run.used[register, CALLER] += 1
        self._go_on([self.tables.registers[register].producer])

    def end(self, register: int) -> None:
        """Say that the caller fills no more slots."""
        self._run.has_end[register] = True
        self._go_on(self._run.readers[register])

    def wait_for_room(self, register: int) -> None:
        """
        Raise NoRoom, as no other thread could make room, or DeadlockError if the caller
        could not either.
        """
        self._refuse(
            f"there is no room for another piece of input '{self._of(register)}'"
        )

    def wait_for_piece(self, register: int) -> None:
        """
        Raise NoRoom, as no other thread could make a piece, or DeadlockError if the
        caller could not either.
        """
        self._refuse(f"there is no piece of output '{self._of(register)}'")

    def wait_for_end(self) -> None:
        """Raise DeadlockError, as no other thread could go on."""
        if not self.is_over:
            self._deadlock()

    def check(self) -> None:
        """Raise the error that has ended the stream before its time."""
        if self._is_closed:
            raise PenstockError(CLOSED)
        if self._failure is not None:
            raise self._failure

    def verify(self) -> None:
        """There are no faults."""

    def make_room(self) -> None:
        """Nobody waits for room in the log."""

    def left_over(self) -> dict[tuple[str, str], int]:
        """The number of pieces that were discarded, by reader and register."""
        return left_over_of(self.tables, self._run.left_over, self._run.used)

    def close(self) -> None:
        """End the run, but for iterations that have begun to assign."""
        if not self._is_closed and self._failure is None:
            self._shielded(self._settle)
        self._is_closed = True

    def _settle(self) -> None:
        with self._lock:
            (self._clock or self._run).settle()

    def _shielded(self, work: Callable[[], None]) -> None:
        """Do some work; a signal cuts no iteration short that assigns."""
        if self.tables.assigns:
            self._shield.run(work, self._run.stop)
        else:
            work()

    def _filled(self) -> list[int]:
        registers = enumerate(self.tables.registers)
        return [r for r, register in registers if register.producer == CALLER]

    def _of(self, register: int) -> str:
        return self.tables.registers[register].name

    def _refuse(self, what: str) -> None:
        open_ones = [r for r in self._filled() if not self._run.has_end[r]]
        fed = ", ".join(self._of(r) for r in open_ones if self.has_room(r))
        taken = ", ".join(f"'{self._of(r)}'" for r in self._results())
        if not fed and not taken:
            self._deadlock()
        more = [f"there are more of {fed}"] if fed else []
        more += [f"pieces of output {taken} are taken"] if taken else []
        raise NoRoom(f"{what} before {' or '.join(more)}")

    def _results(self) -> list[int]:
        """The outputs that the caller could take a piece of."""
        registers = enumerate(self.tables.registers)
        return [r for r, x in registers if x.is_taken and self.has_piece(r)]

    def _deadlock(self) -> None:
        self._failure = DeadlockError(self._run.stuck())
        raise self._failure

    def _go_on(self, actors: list[int]) -> None:
        try:
            self._shielded(partial(self._let_act, actors))
        except BaseException as error:
            self._failure = error
            raise

    def _let_act(self, actors: list[int]) -> None:
        run = self._clock or self._run
        with self._lock:
            try:
                run.go_on(actors)
                if self._run.is_stopped:
                    run.settle()
            except TaskError as error:
                failure = run.settle() or error
                raise failure from failure.__cause__
            finally:
                self._note()

    def _note(self) -> None:
        """Leave the acts of the clock in the log that are not there."""
        if self._clock is not None and self._log is not None:
            note_acts(self._clock.acts[self._noted :], self._log)
            self._noted = len(self._clock.acts)
