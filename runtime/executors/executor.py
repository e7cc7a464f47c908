"""Running a loaded program: arrays in, arrays out."""

from __future__ import annotations

import logging
import sys
import threading
import weakref
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import NoReturn, TypeAlias, TypeVar

import numpy as np

from penstock.runtime.core.core import Core, address_of_recorder
from penstock.runtime.core.interrupt_shield import Shield
from penstock.runtime.core.watchdog import Watchdog, kernel_names
from penstock.runtime.errors import PeerError, PenstockError, TaskError
from penstock.runtime.executors.recorded import RecordedRun
from penstock.runtime.executors.reference import SequentialRun
from penstock.runtime.executors.resumed import ResumedRun
from penstock.runtime.executors.simulator import Simulation, VirtualClock, run_clock
from penstock.runtime.executors.stream import UNTAKEN, MakeCore, Stream
from penstock.runtime.executors.stream_core import StreamCore
from penstock.runtime.loading.arrays import address_of
from penstock.runtime.loading.initializers import Array
from penstock.runtime.loading.loader import BATCH, LoadedProgram, Port, fitting
from penstock.runtime.observe.event_log import Log
from penstock.runtime.observe.observers import Observers
from penstock.runtime.observe.program_info import Subject, Task, subject_of
from penstock.runtime.options import (
    ENGINES,
    Closing,
    check_name,
    check_named,
    check_pieces,
)
from penstock.runtime.program.output_cuts import cut_outputs
from penstock.runtime.program.tables import Actor, Tables
from penstock.runtime.transport.progress import MessageThread
from penstock.runtime.transport.protocol import Transport

log = logging.getLogger(__name__)

T = TypeVar("T")
Pieces: TypeAlias = list[dict[str, Array]]

NO_PIECES: tuple[Pieces, Pieces] = ([], [])

RECYCLED_BYTES = 1 << 16
"""Bytes from which on the memory of a result is used again once it is free."""

WORK_PER_NANOSECOND = 10
"""Flops and bytes together that take a nanosecond of a virtual clock."""


class Executor(Closing):
    """
    Runs a program on the compiled core (`actors`), on the reference executor in plain
    Python (`sequential`), or on a virtual clock (`sim`), where acts take the time that
    the flops and bytes of their kernels stand for. All have the same results. Close it
    after use.

    Between loading and closing, nothing of a program is allocated anew: a run
    allocates only the arrays that it returns.
    """

    def __init__(self, program: LoadedProgram, engine: str = "actors"):
        check_name("engine", engine, ENGINES)
        self._program = program
        self._engine = engine
        actors, workers = len(program.tables.actors), program.threads
        log.debug("%s: %d actors on %d workers", engine, actors, workers)
        self.simulation: Simulation | None = None
        """The times of the acts of the last run, if it ran on a virtual clock."""
        self._core = (
            Core(program.tables, program.threads, resume=ResumedRun)
            if engine == "actors"
            else None
        )
        # An executor that is dropped ends its threads at once, so nothing leads back to
        # it.
        self.observers = Observers(partial(_observed, program, engine == "actors"))
        """
        The observers; a run is one call of `run`, or at most BATCH pieces of many.
        """
        self.reference: Callable[[Tables, int], SequentialRun] = SequentialRun
        """Makes the runs of the engine `sequential` that nobody observes."""
        self._watchdog: Watchdog | None = None
        self._stream: Stream | None = None
        self._stream_core: MakeCore = StreamCore
        self._is_special: bool = program.tables.is_dynamic
        """Whether there was a stream, or there can be nothing else."""
        self._transport: Transport | None = None
        self._messages: MessageThread | None = None
        self._closed = False
        self._lock = threading.Lock()
        self._shield = Shield()
        self._pieces: tuple[Pieces, Pieces] = NO_PIECES
        self._last: dict[str, Array] = {}
        """The large arrays that the last run has returned."""
        self._changing = changing_bytes(program)

    @property
    def program(self) -> LoadedProgram:
        """The program that it runs."""
        return self._program

    @property
    def engine(self) -> str:
        """The name of what runs the program."""
        return self._engine

    def connect(self, transport: Transport) -> None:
        """
        Exchange the messages of the program by a transport from now on. Raises
        PenstockError for another engine than `actors`.
        """
        if self._core is None:
            raise PenstockError(
                f"the {self._engine} engine runs no program of several ranks; "
                "simulate-ranks runs all of them in one process"
            )
        self._transport = transport
        if channels := self._program.channels:
            self._messages = MessageThread(self._core, channels, transport)

    def watch(self, watchdog: Watchdog) -> None:
        """
        Let a watchdog look at all runs from now on, which raise WatchdogError then if
        nothing goes on for its time. Raises PenstockError for the reference executor.
        """
        if self._core is None:
            raise PenstockError(f"the {self._engine} engine cannot be watched")
        self._watchdog = watchdog
        self._core.watch(watchdog, partial(kernel_names, self._program.image))

    @property
    def acts_in_run(self) -> int:
        """The number of acts of all tasks together for one piece."""
        return sum(self._program.tables.turns)

    def acts_made(self) -> int:
        """
        The number of acts of the tasks since the executor, or a run after one that
        failed, began; also while it runs. The reference executor counts none.
        """
        return 0 if self._core is None else self._core.acts_made()

    @contextmanager
    def on_core(self, core: Core, make_core: MakeCore = StreamCore) -> Generator[None]:
        """
        Run on another core meanwhile, and close it in the end; streams that begin then
        have cores made by a function. Raises PenstockError for the reference executor.
        """
        with core:
            if (own := self._core) is None:
                raise PenstockError(f"the {self._engine} engine runs on no core")
            if self._watchdog is not None:
                core.watch(self._watchdog, partial(kernel_names, self._program.image))
            with self._lock:
                self._core, self._stream_core = core, make_core
            try:
                yield
            finally:
                with self._lock:
                    self._core, self._stream_core = own, StreamCore

    def close(self) -> None:
        """End the threads. Arrays that were returned stay valid."""
        self._closed = True
        if self._stream is not None:
            self._stream.close()
        if self._messages is not None:
            self._messages.close()
        if self._core is not None:
            self._core.close()

    @contextmanager
    def stopped(self) -> Generator[None]:
        """Let no run be under way meanwhile. Raises PenstockError if closed."""
        with self._lock:
            self._check_free()
            self._shield.wait()
            if self._core is not None:
                self._core.settle()
            yield

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """
        Compute the outputs for one array for each input, of its shape and dtype, which
        must not change meanwhile.

        Threads that call this at once run one after the other. Raises PenstockError if
        the arrays do not fit, and the errors of `Core.run`; the executor can run again
        after either.
        """
        # The steps of `run_many` for one piece, as few as it takes: those of a
        # short run are most of its time, above all the first one after a pause.
        fed = check_inputs(self._program.inputs, inputs)
        if self._changing:
            fed = self._apart(fed)
        with self._lock:
            if self._closed or self._is_special:
                self._check_free()
                self._check_counted()
            results: dict[str, Array] = {}
            for name, port in self._program.outputs.items():
                results[name] = made = self._new_result(name, port)
                port.point_at(made)
            for name, port in self._program.inputs.items():
                port.point_at(fed[name])
            # They must live until the workers stop, which two interrupts do not wait
            # for.
            self._pieces = [fed], [results]
            self._act(1)
            self._pieces = NO_PIECES
        return self._cut([results])[0]

    def _new_result(self, name: str, port: Port) -> Array:
        """
        An array for a result of a run. A large one gets the memory of the last one if
        that is free again, as the system would have to map each page of new memory.
        """
        if port.nbytes < RECYCLED_BYTES:
            return np.empty(port.shape, port.dtype)
        array = self._last.get(name)
        if array is None or is_shared(array):
            self._last[name] = array = np.empty(port.shape, port.dtype)
        return array

    def run_many(self, pieces: Sequence[Mapping[str, Array]]) -> list[dict[str, Array]]:
        """
        Compute the outputs for each piece, where the work on one piece overlaps with
        that on the next as far as the slots of registers let it. Nothing is run unless
        all pieces fit; the act of a TaskError is the index of the piece.
        """
        check_pieces(pieces)
        inputs = self._program.inputs
        fed = [self._apart(check_inputs(inputs, piece)) for piece in pieces]
        results: list[dict[str, Array]] = []
        with self._lock:
            self._check_free()
            self._check_counted()
            for start in range(0, len(pieces), BATCH):
                try:
                    results += self._run_batch(fed[start : start + BATCH])
                except TaskError as error:
                    error.act += start
                    raise
        return self._cut(results)

    def _cut(self, results: Pieces) -> Pieces:
        """The results of pieces with the extents that are only known now."""
        cuts = self._program.image.cuts
        return [cut_outputs(each, cuts) for each in results] if cuts else results

    def stream(self, capacity: int = 2, untaken: int = UNTAKEN) -> Stream:
        """
        A run that ends when there are no more pieces: see
        `penstock.runtime.executors.stream`. No other run may be made until it is
        closed.
        """
        with self._lock:
            self._check_free()
            times = self._times() if self._engine == "sim" else ()
            self._is_special = True
            self._stream = Stream(
                self._program,
                self._engine,
                capacity,
                times,
                untaken=untaken,
                observers=self.observers,
                watchdog=self._watchdog,
                make_core=self._stream_core,
            )
            return self._stream

    def _apart(self, fed: dict[str, Array]) -> dict[str, Array]:
        """
        The arrays of inputs, which must not change in a run: copies of those that lie
        where the program assigns.
        """
        for name, array in fed.items():
            start = address_of(array)
            end = start + array.nbytes
            if any(start < last and first < end for first, last in self._changing):
                fed[name] = array.copy()
        return fed

    def _check_free(self) -> None:
        """Raise PenstockError unless a run may begin."""
        if self._closed:
            raise PenstockError("the executor is closed")
        if self._stream is not None and not self._stream.is_closed:
            raise PenstockError("a stream of the executor is open")
        if self._stream is not None:
            # Actors of a stream end where they are.
            self._program.tables.go_back()

    def _check_counted(self) -> None:
        """Raise PenstockError unless it is known how often actors act in a run."""
        if self._program.tables.is_dynamic:
            raise PenstockError(
                "numbers say how often actors of the program act, so it runs as a "
                "stream"
            )

    def simulate(
        self, pieces: Sequence[Mapping[str, Array]], times: Mapping[str, int]
    ) -> tuple[list[dict[str, Array]], Simulation]:
        """
        Compute the outputs for at most BATCH pieces as if an act of the actor of each
        name took that many nanoseconds; the results, and the times of all acts.

        Raises the errors of `run_many` and `simulate`, and PenstockError unless there
        is a time for each actor.
        """
        inputs = self._program.inputs
        fed = [self._apart(check_inputs(inputs, piece)) for piece in pieces]
        names = [actor.name for actor in self._program.tables.actors]
        if missing := sorted(set(names) - set(times)):
            raise PenstockError(f"no times are given for actors {', '.join(missing)}")
        if len(pieces) > BATCH:
            raise PenstockError(
                f"at most {BATCH} pieces can be simulated, got {len(pieces)}"
            )
        with self._lock:
            self._check_free()
            self._check_counted()
            results = self._point_to(fed)
            with self.observers.watch(len(fed), virtual=True) as log:
                found = self._simulated(len(fed), [times[x] for x in names], log)
            self._pieces = NO_PIECES
        return self._cut(results), found

    def _run_batch(self, fed: Pieces) -> Pieces:
        results = self._point_to(fed)
        self._act(len(fed))
        self._pieces = NO_PIECES
        return results

    def _point_to(self, fed: Pieces) -> Pieces:
        """New arrays for the results of the next run, which reads and writes these."""
        results: Pieces = [
            {
                port.name: np.empty(port.shape, port.dtype)
                for port in self._program.outputs.values()
            }
            for _ in fed
        ]
        self._pieces = (fed, results)
        point(self._program.inputs.values(), fed)
        point(self._program.outputs.values(), results)
        return results

    def _act(self, acts: int) -> None:
        if not self.observers:
            self._act_for(acts, None)
            return
        with self.observers.watch(acts, virtual=self._engine == "sim") as log:
            self._act_for(acts, log)

    def _act_for(self, acts: int, log: Log | None) -> None:
        """Let all actors act, and fill the log if there is one."""
        if self._core is not None and self._transport is not None:
            self._run_with_others(self._core, self._transport, acts, log)
        elif self._core is not None:
            self._core.run(acts, log)
        elif self._engine == "sim":
            self.simulation = self._simulated(acts, self._times(), log)
        else:
            tables = self._program.tables
            run = self.reference(tables, acts) if log is None else RecordedRun(log)
            self._make(run.run, run)

    def _run_with_others(
        self, core: Core, transport: Transport, acts: int, log: Log | None
    ) -> None:
        """Let all actors act; what goes wrong here ends all ranks."""
        try:
            core.run(acts, log)
        except PeerError:
            raise
        except BaseException as error:
            transport.abort(str(error) or type(error).__name__)
            raise

    def _simulated(
        self, acts: int, times: Sequence[int], log: Log | None
    ) -> Simulation:
        """The run of `simulate`."""
        run = SequentialRun(self._program.tables, acts)
        clock = VirtualClock(run, times)
        return self._make(partial(run_clock, clock, log), run)

    def _make(self, work: Callable[[], T], run: SequentialRun) -> T:
        """Do the work of a run; an iteration that assigns is not cut short."""
        if not run.tables.assigns:
            return work()
        return self._shield.run(work, run.stop)

    def _times(self) -> list[int]:
        """
        Nanoseconds of the acts of each actor, from flops and bytes of its kernels.
        """
        tasks, actors = self.observers.subject.tasks, self.program.tables.actors
        work = [
            sum(
                ((op.flops or 0) + (op.bytes or 0)) * rows
                for op, rows in zip(task.ops, rows_of(task, actor), strict=True)
            )
            for task, actor in zip(tasks, actors, strict=True)
        ]
        return [max(1, amount // WORK_PER_NANOSECOND) for amount in work]


def rows_of(task: Task, actor: Actor) -> list[int]:
    """The rows of each op of a task in a log at most."""
    return [1] * len(task.ops) if actor.control is None else actor.call_rows


def _observed(program: LoadedProgram, is_compiled: bool) -> Subject:
    """The program metadata for observers, made when the first one is attached."""
    if is_compiled:
        # Not in a run, which is measured.
        address_of_recorder(program.tables.needs_dataflow)
    return subject_of(program.tables, program.image)


def changing_bytes(program: LoadedProgram) -> list[tuple[int, int]]:
    """The address ranges of the variables that a program assigns to."""
    actors = program.image.actors
    copies = [x for actor in actors for x in actor.steps if x.verb == "copy"]
    targets = {step.arguments[1] for step in copies}
    starts = [
        (program.chunks[x.chunk].address + x.offset, x.kind.size)
        for x in program.variables
        if x.name in targets
    ]
    return [(start, start + size) for start, size in starts]


def is_shared(array: Array) -> bool:
    """Whether an array has references besides a container, the caller and this."""
    return sys.getrefcount(array) > UNSHARED or weakref.getweakrefcount(array) > 0


def _unshared() -> int:
    """The count of `is_shared` for an array without other references."""
    counted = {"": np.empty(0)}
    array = counted[""]

    def count(array: Array) -> int:
        return sys.getrefcount(array)

    return count(array)


UNSHARED = _unshared()


def point(ports: Iterable[Port], pieces: Pieces) -> None:
    """Let each port of the next run read or write its array of each piece."""
    for port in ports:
        port.point_to([piece[port.name] for piece in pieces])


def check_inputs(
    ports: Mapping[str, Port], given: Mapping[str, Array]
) -> dict[str, Array]:
    """
    The arrays of one piece, contiguous. Raises PenstockError unless there is one of
    the right shape and dtype for each port, and no other array.
    """
    check_named(given)
    fed: dict[str, Array] = {}
    for name, port in ports.items():
        if name not in given:
            refuse_names(ports, given)
        if not port.takes(array := given[name]):
            array = fitting(f"input '{name}'", array, port.shape, port.dtype)
        fed[name] = array
    if len(given) != len(fed):
        refuse_names(ports, given)
    return fed


def refuse_names(ports: Mapping[str, object], given: Mapping[str, Array]) -> NoReturn:
    """Raise PenstockError for arrays that have no port or ports that have no array."""
    if missing := sorted(set(ports) - set(given)):
        raise PenstockError(f"no arrays are given for inputs {', '.join(missing)}")
    extra = ", ".join(sorted(set(given) - set(ports)))
    known = ", ".join(sorted(ports)) or "none"
    raise PenstockError(f"there are no inputs {extra}, the program takes {known}")
