"""
The compiled executor: threads that run actors without Python or the GIL.

The thread that calls `Core.run` works too, in slices between which Python handles
signals: a short run has ended before another thread could have woken up. Where actors
call Python it only waits, as the exception of a signal must not end up in their code.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Protocol

import numpy as np

from penstock.runtime.core import state_layout as w
from penstock.runtime.core.dataflow_tables import Dataflow, dataflow_tables
from penstock.runtime.core.direct_calls import Runner
from penstock.runtime.core.entry_points import (
    Starter,
    address_of_entry,
    attend,
    halt,
    lock_all_workers,
    run_starter,
    take_part,
    unlock_all_workers,
)
from penstock.runtime.core.interrupt_shield import Shield
from penstock.runtime.core.interrupt_watch import interrupts
from penstock.runtime.core.io_kernels import CALLBACK_FAILED
from penstock.runtime.core.loops_under_way import loops_under_way
from penstock.runtime.core.state_layout import State
from penstock.runtime.core.watchdog import STALLED, CoreMemory, Watchdog, Watcher
from penstock.runtime.errors import (
    DeadlockError,
    PenstockError,
    TaskError,
    WatchdogError,
    failure_of_callback,
)
from penstock.runtime.options import Closing
from penstock.runtime.program.actor_kinds import not_held, refusal
from penstock.runtime.program.control_flow import loop_failure
from penstock.runtime.program.tables import (
    ACTOR_WORDS,
    CACHE_LINE,
    CALLER,
    Layout,
    Tables,
    Words,
)

CHUNKS = 8
"""Parts of a kernel for each thread, so that late threads find some too."""
NAP_TIME = 10_000_000
"""Nanoseconds after which a thread that sleeps in a run looks again."""
START_SECONDS = 1.0
"""The time that a thread may take to begin."""
RETRY_SECONDS = 0.0005
"""The time between two looks whether an interrupted run has stopped."""


def parts_of(most: int, threads: int) -> int:
    """
    The parts in which so many threads compute a kernel, of which `most` are of use.
    They are as many for each thread, so that none waits for the last one of another,
    and finds in its caches the weights that it read the time before.
    """
    if threads < 2:
        return 1
    parts = min(most, CHUNKS * threads, w.CLAIM)
    return parts - parts % threads if parts > threads else parts


class RunLog(Protocol):
    """The memory for rows of a run: starts and ends of acts and calls."""

    first: int
    """The iterations that there were before the run."""

    @property
    def address(self) -> int:
        """Of a word for each worker: the address of its rows."""
        ...


class Remainder(Protocol):
    """The rest of a run that has stopped."""

    @property
    def failures(self) -> dict[int, TaskError]:
        """Actor: its failure."""
        ...

    def settle(self) -> TaskError | None:
        """
        Bring iterations to their end in which a variable was assigned to. The failure
        of the earliest iteration that has one.
        """
        ...


class Resume(Protocol):
    """
    A function that goes on with a run without the core, given the iterations that
    actors were to make from the core's beginning on, its words, and failed actors.
    """

    def __call__(
        self,
        tables: Tables,
        iterations: int,
        words: tuple[Layout, State],
        failures: Mapping[int, TaskError],
        *,
        is_plain: bool,
    ) -> Remainder: ...


class Record(Protocol):
    """A place for words that outlive this process, and for what they say."""

    def words(self, name: str, size: int) -> Words:
        """Zeros from the start of a cache line on."""
        ...

    def describe(
        self,
        actors: Sequence[tuple[str, int, int, int]],
        messages: Sequence[tuple[str, int, int]],
    ) -> None:
        """
        Tell of each actor its text, its worker, the place of its words and the number
        behind that of its last condition; of each message its name, and the counters
        of how many there were and of how many were taken.
        """
        ...

    def close(self) -> None:
        """Remove all of it."""
        ...


class Remote(Protocol):
    """The messages of other processes that actors wait for."""

    @property
    def error(self) -> PenstockError | None:
        """The reason for which none come any more."""
        ...

    def ring(self) -> None:
        """Begin to look at messages, as a run begins."""
        ...


class _MainThread:
    """The number of the main thread, which is that of the thread that forks."""

    def __init__(self) -> None:
        self.ask()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.ask)

    def ask(self) -> None:
        """Look again which thread is the main one."""
        self.number = threading.main_thread().ident


_main_thread = _MainThread()


def address_of_recorder(is_dataflow: bool) -> int:
    """The address of the scheduler that fills a log, which the first call loads."""
    return address_of_entry("dataflow_recorder" if is_dataflow else "recorder")


class _Memory:
    """The words that threads share; `address` is that of their table."""

    def __init__(
        self,
        tables: Tables,
        threads: int,
        dataflow: Dataflow | None,
        record: Record | None,
    ):
        def zeros(name: str, size: int) -> Words:
            return _aligned(size) if record is None else record.words(name, size)

        # Threads that are bound to a worker do not look for shared kernels.
        helpers = threads - len(tables.bound)
        parts = [parts_of(x, helpers) for x in tables.layout.parts.tolist()]
        self.layout = tables.layout._replace(parts=np.array(parts, np.int64))
        self.dataflow = dataflow
        self.state = State(
            counters=zeros("counters", len(tables.counters())),
            actors=zeros(
                "actors", int(tables.layout.place.max(initial=0)) + ACTOR_WORDS
            ),
            rows=_aligned(len(tables.rows)),
            rings=_aligned(int(tables.layout.ring_start[-1])),
            workers=zeros("workers", tables.workers * w.WORKER_WORDS),
            threads=_aligned(threads),
            control=zeros("control", w.CONTROL_WORDS),
        )
        self.state.control[w.CORES] = _cores()
        self.state.control[w.LEFT_OUT] = -1
        self.state.control[w.SLEEP_LIMIT + 1] = NAP_TIME
        self.state.control[w.MODE] = w.STATIC if dataflow is None else w.DATAFLOW
        arrays = (*self.layout, *self.state, *(dataflow or ()))
        words = [word for x in arrays for word in (x.ctypes.data, x.size)]
        self._table = np.array(words, np.int64)
        self.address: int = self._table.ctypes.data
        self.state.control[w.TABLES] = self.address
        self.state.control[w.WHOLE_ACTS] = tables.assigns
        # The dataflow scheduler computes addresses before each act.
        rows = self.state.rows if dataflow is None else None
        self._bindings = bindings = binding_table(tables, rows)
        self.state.control[w.BINDINGS] = bindings.ctypes.data if bindings.size else 0
        self.reset(tables)
        if record is not None:
            record.describe([*_described(tables)], [*_messages(tables)])
            weakref.finalize(self, record.close)

    def reset(self, tables: Tables) -> None:
        """Go back to the state before the first act. Nobody may be acting."""
        state, places = self.state, self.layout.place
        state.counters[:] = tables.counters()
        state.actors[places + w.ACTS] = 0
        state.actors[places + w.QUEUED] = 0
        state.actors[places + w.PHASE] = 0
        if self.dataflow is not None:
            self.dataflow.scratch[:] = 0
        state.actors[places + w.CONDITION] = self.layout.condition_start[:-1]
        state.rows[:] = tables.rows
        state.workers[w.LEFT :: w.WORKER_WORDS] = 0
        state.workers[w.WRONG_ACTOR :: w.WORKER_WORDS] = 0
        state.control[w.TARGET] = 0
        state.control[w.OPEN] = 0


def _described(tables: Tables) -> Iterator[tuple[str, int, int, int]]:
    """Of each actor its text, its worker, and the facts by which an act is told."""
    places, ends = tables.layout.place.tolist(), tables.layout.condition_start.tolist()
    for index, actor in enumerate(tables.actors):
        where = "" if actor.place is None else f" ({actor.place})"
        text = f"'{actor.name}'{where}"
        yield text, actor.worker, places[index], ends[index + 1]


def _messages(tables: Tables) -> Iterator[tuple[str, int, int]]:
    """Of each message that actors wait for its name, and both of its counters."""
    for edge, (index, _) in enumerate(tables.edges):
        register = tables.registers[index]
        if register.producer == CALLER:
            counters = tables.produced_at(index), tables.consumed_at(edge)
            yield register.name, *counters


def binding_table(tables: Tables, rows: Words | None) -> Words:
    """The table of bindings to the caller's arrays, for argument rows; maybe empty."""
    if rows is None or not tables.bound_words:
        return np.zeros(0, np.int64)
    words = [len(tables.bound_words)]
    for word, bound in tables.bound_words:
        words += [
            rows.ctypes.data + word * rows.itemsize,
            bound.pointer,
            int(tables.rows[word]),
            bound.shift,
            bound.alignment - 1,
        ]
    return np.array(words, np.int64)


def _cores() -> int:
    """A bit for each core that this thread may run on, 0 if there is no choice."""
    if sys.platform != "linux":
        return 0
    cores = os.sched_getaffinity(0)
    if len(cores) == 1 or max(cores) > 62:
        return 0
    return sum(1 << core for core in cores)


def _aligned(size: int) -> Words:
    """Zeros from the start of a cache line on."""
    words = np.zeros(size + CACHE_LINE, np.int64)
    skip = -(words.ctypes.data // words.itemsize) % CACHE_LINE
    return words[skip : skip + size]


class _Thread:
    """A thread that takes part in all runs until they are halted as closed."""

    def __init__(self, number: int, memory: _Memory):
        self._number = number
        self._memory = memory
        self.error: BaseException | None = None
        # A daemon, as else Python would wait for idle threads before anything can close
        # them; `Core` joins them at exit.
        self.thread = threading.Thread(
            target=self._serve, name=f"penstock-worker-{number}", daemon=True
        )

        self._asked = False
        self._begun = threading.Event()

    def start(self) -> None:
        """Start the thread, unless an earlier call did that before an interrupt."""
        if not self._has_begun():
            self._asked = True
            self.thread.start()

    def join(self) -> None:
        """Wait for the end of the thread, if it has begun."""
        if self._has_begun():
            self.thread.join()

    def _has_begun(self) -> bool:
        return self._asked and self._begun.wait(START_SECONDS)

    def _serve(self) -> None:
        self._begun.set()
        threads = self._memory.state.threads
        threads[self._number] = threading.get_native_id()
        try:
            attend(self._memory.address, self._number)
        except BaseException as error:
            self.error = error
            halt(self._memory.address, w.INTERRUPTED)
        finally:
            threads[self._number] = 0


def _close_threads(threads: list[_Thread], memory: _Memory) -> None:
    halt(memory.address, w.CLOSED)
    while threads:
        threads[-1].join()
        threads.pop()


class Core(Closing):
    """
    The executor of one program, on `threads` threads, or as many as it has workers if
    that is more; those besides the caller's live from the first run until `close`.

    It is also closed when it is collected, when a `with` block over it ends and when
    Python exits. After a failed run it is as new, but for the contents of registers.
    The dynamic dataflow scheduler runs any program, the static one those that need no
    other; `dataflow` asks for the former. A program that assigns to variables needs
    `resume`, to end iterations that have begun. A `record` tells others of its acts.
    """

    def __init__(
        self,
        tables: Tables,
        threads: int = 1,
        *,
        dataflow: bool = False,
        resume: Resume | None = None,
        record: Record | None = None,
    ):
        assert resume is not None or not tables.assigns, "assignments come to an end"
        self.tables = tables
        self._resume = resume
        self.is_dataflow: bool = dataflow or tables.needs_dataflow
        """Whether the dynamic dataflow scheduler runs it."""
        self._count = max(threads, tables.workers)
        # Where nothing calls Python, the caller is the first thread.
        self._caller = w.OBSERVER if tables.bound else 0
        self._first = self._caller + 1
        kinds = dataflow_tables(tables) if self.is_dataflow else None
        self._memory = _Memory(tables, self._count, kinds, record)
        self._control = self._memory.state.control
        self._lock = threading.Lock()
        self._threads: list[_Thread] = []
        self._started = False
        self._has_actors = bool(tables.actors)
        self._has_loops = any(x.control and x.control.loops for x in tables.actors)
        self._is_interrupted = False
        self._at_interrupt: list[str] = []
        """The loops that a run was in when it was interrupted."""
        self._log: RunLog | None = None
        self._record(None)
        self._watcher: Watcher | None = None
        self._remote: Remote | None = None
        self._control[w.THREAD_OF_CALLER] = self._caller
        self._wake = tables.workers > 1 or self._caller == w.OBSERVER
        self._control[w.WAKE] = self._wake
        self._start_run = run_starter(self._memory.address)
        self._control[w.BY_PYTHON] = w.YES
        self._shield = Shield()
        self._closed = False
        self._close_threads = weakref.finalize(
            self, _close_threads, self._threads, self._memory
        )

    @property
    def memory(self) -> CoreMemory:
        """The words that its threads share, to be looked at."""
        return self._memory

    def acts_made(self) -> int:
        """The number of acts of all actors so far, also while they run."""
        return int(self._memory.state.actors[self._memory.layout.place + w.ACTS].sum())

    def run(self, acts: int, log: RunLog | None = None) -> None:
        """
        Let every actor act this many times, or make its acts of so many iterations; one
        thread at a time, others wait. A log that was made for so many acts is filled.

        Raises TaskError if a kernel fails, DeadlockError if no actor can go on, and
        the exception of a signal in the calling thread, once all threads have stopped.
        """
        if acts < 0:
            raise PenstockError(f"the number of acts must not be negative, got {acts}")
        if self._threads:
            self._check_caller()
        with self._lock:
            if self._closed:
                raise PenstockError("the core is closed")
            if not self._clean:
                self._stop()
            if acts > 0 and self._has_actors:
                if log is not None or self._log is not None:
                    self._record(log)
                self._run(self._start_run, acts)

    @property
    def runner(self) -> Runner:
        """The parts that calls by compiled code need (`DirectCall`)."""
        control = int(self._control.ctypes.data)
        return Runner(self._memory.address, control, self._lock, self._go_on)

    def _go_on(self, held: list[object]) -> None:
        """
        Bring a run of one act to its end that compiled code has begun; what it reads
        and writes is held until no thread does.
        """
        try:
            self._run(lambda _acts, _limit: w.UNFINISHED, 1)
        finally:
            if self._clean:
                held[:] = [None] * len(held)

    @property
    def _clean(self) -> bool:
        """Whether no run is left that has not come to its end."""
        return bool(self._control[w.BY_PYTHON] != w.UNCLEAN)

    @_clean.setter
    def _clean(self, value: bool) -> None:
        is_usual = (
            self._started
            and self._has_actors
            and self._log is self._watcher is self._remote is None
            and not (self._has_loops or self._closed)
        )
        usual = w.NO if is_usual else w.YES
        self._control[w.BY_PYTHON] = usual if value else w.UNCLEAN

    def _record(self, log: RunLog | None) -> None:
        """Choose the scheduler of the next run, which fills a log if one is given."""
        self._log = log
        self._control[w.LOG] = 0 if log is None else log.address
        if log is not None:
            log.first = int(self._control[w.TARGET])
        if log is not None or self.tables.forwarded:
            self._control[w.LOOP] = address_of_recorder(self.is_dataflow)
        else:
            self._control[w.LOOP] = (
                address_of_entry("dataflow") if self.is_dataflow else 0
            )

    def connect(self, remote: Remote, messages: int = 0) -> None:
        """
        Let actors wait for messages of other processes from now on, those of the table
        at an address by the threads of runs. A run that fails leaves variables as they
        are: the other processes fail, too.
        """
        self._remote = remote
        self._control[w.MESSAGES] = messages
        self._control[w.REMOTE] = 1
        self._clean = self._clean

    def watch(
        self, watchdog: Watchdog, kernels: Callable[[], Sequence[str]] | None = None
    ) -> None:
        """
        Let a watchdog look at all runs from now on, in place of any before. `kernels`
        names the kernels of each actor, for its reports.
        """
        with self._lock:
            if self._watcher is not None:
                self._watcher.close()
            self._watcher = Watcher(watchdog, self.tables, self._memory, kernels)
            self._clean = self._clean
            weakref.finalize(self, self._watcher.close)

    def close(self) -> None:
        """Stop a run that another thread is in, and end the threads."""
        self._check_caller()
        self._closed = True
        self._clean = self._clean
        halt(self._memory.address, w.CLOSED)
        with self._lock:
            if not self._clean:
                self._stop()
            self._close_threads()
            if self._watcher is not None:
                self._watcher.close()

    def _check_caller(self) -> None:
        if self._threads:
            caller = threading.current_thread()
            if any(worker.thread is caller for worker in self._threads):
                raise PenstockError(
                    "a callback cannot run or close the core that calls it"
                )

    def _run(self, start: Starter, acts: int) -> None:
        """Begin a run of so many acts by a function, and wait for its end."""
        address, caller = self._memory.address, self._caller
        # Python handles signals in the main thread only.
        in_main = threading.get_ident() == _main_thread.number
        limit = w.SLICE if in_main else w.FOREVER
        self._clean = False
        if self._remote is not None:
            self._remote.ring()
        self._is_interrupted, self._at_interrupt = False, list[str]()
        try:
            if in_main and self._has_loops:
                interrupts.begin(self._interrupt)
            if not self._started:
                self._start_threads()
            if self._watcher is not None:
                self._watcher.begin(acts)
            state = start(acts, limit)
            while state == w.UNFINISHED:
                state = take_part(address, caller, limit)
            if self._watcher is not None:
                self._watcher.end()
            if in_main and self._has_loops:
                interrupts.end(self._interrupt)
            if self._is_interrupted:
                # Python may have raised it where nobody could catch it.
                raise KeyboardInterrupt
            if state == w.STOPPED:
                raise self._error(acts)
        except BaseException as error:
            interrupts.end(self._interrupt)
            if self._watcher is not None:
                self._watcher.end()
            if isinstance(error, KeyboardInterrupt):
                self._note_loops(error)
            failure = self._stop(error, acts)
            if failure is None:
                raise
            raise failure from failure.__cause__
        self._clean = True

    def _interrupt(self) -> None:
        """End a run of the main thread, which does not come back to Python itself."""
        self._at_interrupt = [*loops_under_way(self.tables, self._memory.state)]
        self._is_interrupted = True
        halt(self._memory.address, w.INTERRUPTED)

    def _note_loops(self, error: KeyboardInterrupt) -> None:
        """Say which loops an interrupted run was in."""
        running = loops_under_way(self.tables, self._memory.state)
        for text in self._at_interrupt or running:
            error.add_note(text)

    def _start_threads(self) -> None:
        for number in range(self._first + len(self._threads), self._count):
            self._threads.append(_Thread(number, self._memory))
        for worker in self._threads:
            worker.start()
        self._started = True

    def settle(self) -> None:
        """Bring a run to its end that was interrupted, if there is one."""
        with self._lock:
            if not self._clean:
                self._stop()

    def _stop(
        self, error: BaseException | None = None, acts: int = 0
    ) -> TaskError | None:
        """
        Stop all threads, bring iterations to their end in which a variable was assigned
        to, and go back to the state before the first act. Returns the failure of an
        iteration before that of the error, if the error is of a task in the last `acts`
        iterations.
        """
        halt(self._memory.address, w.INTERRUPTED)
        work = partial(self._end_iterations, error, acts)
        return self._shield.run(work) if self.tables.assigns else work()

    def _end_iterations(
        self, error: BaseException | None, acts: int
    ) -> TaskError | None:
        address = self._memory.address
        while not lock_all_workers(address):
            time.sleep(RETRY_SECONDS)
        failure = None
        if self.tables.assigns and self._remote is None:
            failure = self._settled(error, acts)
        self.tables.go_back()
        self._memory.reset(self.tables)
        if any(worker.error for worker in self._threads):
            _close_threads(self._threads, self._memory)
            self._started = False
        if not self._closed:
            self._control[w.STOP] = w.RUNNING
        unlock_all_workers(address)
        self._clean = True
        return failure if isinstance(error, TaskError) else None

    def _settled(self, error: BaseException | None, acts: int) -> TaskError | None:
        """
        Bring iterations to their end, while no actor acts; see `SequentialRun.settle`.
        Returns the failure of the earliest one, which may be `error` itself.
        """
        tables, state = self.tables, self._memory.state
        before = int(state.control[w.TARGET]) - acts
        failures: dict[int, TaskError] = {}
        if isinstance(error, TaskError):
            failures[int(state.control[w.FAILED_ACTOR])] = error
        for base in range(0, state.workers.size, w.WORKER_WORDS):
            index = int(state.workers[base + w.WRONG_ACTOR]) - 1
            if index >= 0 and index not in failures:
                call, code = state.workers[[base + w.WRONG_CALL, base + w.WRONG_CODE]]
                failures[index] = self._task_error(index, int(call), int(code), before)
        known = list(failures)
        assert self._resume is not None, "variables are assigned to"
        run = self._resume(
            tables,
            int(state.control[w.TARGET]),
            (self._memory.layout, state),
            failures,
            is_plain=not self.is_dataflow,
        )
        found = run.settle()
        for index in run.failures.keys() - known:
            run.failures[index].act -= before * tables.repetitions[index]
        return found

    def _error(self, acts: int) -> PenstockError:
        """The error that the first thread that stopped has noted."""
        control, state = self._control, self._memory.state
        while control[w.STOP] == w.FAILING:
            time.sleep(RETRY_SECONDS)
        if self._remote is not None and self._remote.error is not None:
            return self._remote.error
        if control[w.STOP] == w.FAILED:
            return self._task_error(
                int(control[w.FAILED_ACTOR]),
                int(control[w.FAILED_CALL]),
                int(control[w.FAILED_CODE]),
                int(control[w.TARGET]) - acts,
            )
        if control[w.STOP] == w.DEADLOCKED:
            acts_made = state.actors[self.tables.layout.place + w.ACTS]
            before = (control[w.TARGET] - acts) * np.array(
                self.tables.repetitions, np.int64
            )
            done = (acts_made - before).tolist()
            return DeadlockError(self.tables.stuck(state.counters, done, acts))
        if control[w.STOP] == STALLED and self._watcher is not None:
            seconds = self._watcher.watchdog.seconds
            return WatchdogError(seconds, self._watcher.stuck)
        for worker in self._threads:
            if worker.error:
                return PenstockError(f"a worker's thread failed: {worker.error!r}")
        return PenstockError("the core was closed during a run")

    def _task_error(self, index: int, made: int, code: int, start: int) -> TaskError:
        """
        The failure of an actor at its next act, counted from iteration `start` on: that
        of a call, given its number among all calls.
        """
        tables = self.tables
        acts = self._memory.state.actors[tables.layout.place[index] + w.ACTS]
        act = int(acts) - start * tables.repetitions[index]
        actor = tables.actors[index]
        if made == w.BAD_NUMBER:
            error = TaskError(actor.name, act, code, refusal(actor, code))
            return tables.placed(error)
        if made == w.NOT_HELD:
            return tables.placed(TaskError(actor.name, act, code, not_held(code)))
        if made <= w.FIRST_LOOP:
            return self._loop_error(index, act, made, code)
        number = made - int(tables.layout.call_start[index])
        call = actor.calls[number]
        error = TaskError(actor.name, act, code, call.message_of(code))
        if actor.control is not None:
            error.iterations = self._iterations(index, actor.control.loop_of[number])
        if code == CALLBACK_FAILED and call.kernel in tables.callbacks:
            error = failure_of_callback(
                error, tables.callbacks[call.kernel].take_error()
            )
        return tables.placed(error)

    def _loop_error(self, index: int, act: int, made: int, code: int) -> TaskError:
        """The failure of an actor one of whose loops cannot go on."""
        actor = self.tables.actors[index]
        assert actor.control is not None, "a loop of it has failed"
        number, is_condition = divmod(w.FIRST_LOOP - made, 2)
        loop = actor.control.loops[number]
        text = loop_failure(loop, code, is_count=not is_condition)
        error = TaskError(actor.name, act, code, text)
        error.iterations = self._iterations(index, loop.around)
        return self.tables.placed(error)

    def _iterations(self, index: int, loop: int) -> tuple[int, ...]:
        """The numbers of the iterations of a loop and of those around it."""
        control = self.tables.actors[index].control
        places = self.tables.control_places[index]
        assert control is not None, "the actor has a loop"
        assert places is not None, "the actor has a loop"
        rows = self._memory.state.rows
        return tuple(int(rows[places.number_at(x)]) for x in control.loops_around(loop))
