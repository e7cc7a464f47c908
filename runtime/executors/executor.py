"""Running a loaded program: arrays in, arrays out."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeAlias, TypeVar

import numpy as np

from penstock.runtime.core.core import Core, address_of_recorder
from penstock.runtime.core.direct_calls import (
    DirectCall,
    Input,
    Output,
    Runs,
    bound_call,
    direct_call,
)
from penstock.runtime.core.interrupt_shield import Shield
from penstock.runtime.core.watchdog import Watchdog, kernel_names
from penstock.runtime.errors import PeerError, PenstockError, TaskError, WatchdogError
from penstock.runtime.executors.arguments import (
    arrays_to_bind,
    check_apart,
    check_inputs,
)
from penstock.runtime.executors.axis_order import in_order
from penstock.runtime.executors.bound import Bound
from penstock.runtime.executors.recorded import RecordedRun
from penstock.runtime.executors.reference import SequentialRun
from penstock.runtime.executors.reference_messages import Messages
from penstock.runtime.executors.result_arrays import maker_of
from penstock.runtime.executors.resumed import ResumedRun
from penstock.runtime.executors.simulator import Simulation, VirtualClock, run_clock
from penstock.runtime.executors.stream import UNTAKEN, MakeCore, Stream
from penstock.runtime.executors.stream_core import StreamCore
from penstock.runtime.loading.arrays import address_of
from penstock.runtime.loading.initializers import Array
from penstock.runtime.loading.loader import BATCH, LoadedProgram, Port
from penstock.runtime.observe.event_log import Log
from penstock.runtime.observe.observers import Observers
from penstock.runtime.observe.program_info import Subject, Task, subject_of
from penstock.runtime.options import (
    ENGINES,
    Closing,
    check_name,
    check_pieces,
)
from penstock.runtime.program.output_cuts import cut_outputs
from penstock.runtime.program.tables import Actor, Tables
from penstock.runtime.transport.progress import MessageThread
from penstock.runtime.transport.protocol import Communicator, Transport
from penstock.runtime.transport.records import own_record

log = logging.getLogger(__name__)

T = TypeVar("T")
Pieces: TypeAlias = list[dict[str, Array]]

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
            Core(
                program.tables,
                program.threads,
                resume=ResumedRun,
                record=own_record(),
            )
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
        self._communicator: Communicator | None = None
        self._lost: str | None = None
        """The reason for which messages are on their way that nobody waits for."""
        self._messages: MessageThread | None = None
        self._own_messages: Messages | None = None
        """Those of the reference executor."""
        self._closed = False
        self._lock = threading.Lock()
        self._shield = Shield()
        self._held: object = None
        """The arrays of the run that is under way."""
        self._changing = changing_bytes(program)
        self._cuts = program.image.cuts
        self._makers = {
            name: maker_of(port.shape, port.dtype)
            for name, port in program.outputs.items()
        }
        self._own_core = self._core
        self._gate = np.zeros(1, np.int64)
        self._guard()
        self._runs = self._runs_of(self._core)
        self._direct = self._direct_call()

    def _direct_call(self) -> DirectCall | None:
        """The runs by compiled code, with outputs as they are returned."""
        call = None if self._runs is None else direct_call(self._runs)
        cuts = self._cuts
        if call is None or not cuts:
            return call

        def cut(inputs: Mapping[str, Array]) -> dict[str, Array] | None:
            found = call(inputs)
            return None if found is None else cut_outputs(found, cuts)

        return cut

    def _runs_of(self, core: Core | None) -> Runs | None:
        """The facts for runs by compiled code; None if there is more to do in each."""
        inputs, outputs = self._program.inputs, self._program.outputs
        ports = *inputs.values(), *outputs.values()
        if core is None or any(x.repetitions > 1 for x in ports):
            return None
        starts, ends = zip(*(self._changing or [(0, 0)]), strict=True)
        return Runs(
            core.runner,
            self._gate,
            self.observers.present,
            self._lock,
            (min(starts), max(ends)),
            [Input(k, x.shape, x.dtype, x.table) for k, x in inputs.items()],
            [Output(k, *self._makers[k], x.table) for k, x in outputs.items()],
        )

    def _guard(self) -> None:
        """Let compiled code make runs unless there is more to do than that."""
        is_own = self._core is self._own_core and self._transport is None
        self._gate[0] = self._closed or self._is_special or not is_own

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
        Exchange the messages of the program by a transport from now on, in a
        communicator of its own: all ranks connect the same programs, in the same order.
        Raises PenstockError for the virtual clock.
        """
        if self._engine == "sim":
            raise PenstockError(
                "a virtual clock runs no program of several ranks; simulate-ranks runs "
                "all of them in one process"
            )
        self._transport = transport
        self._guard()
        self._communicator = own = transport.communicator()
        if not (channels := self._program.channels):
            return
        if self._core is None:
            self._own_messages = Messages(channels, self._program.tables, own)
        else:
            self._messages = MessageThread(self._core, channels, own)

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
        return sum(self._program.tables.repetitions)

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
                self._guard()
            try:
                yield
            finally:
                with self._lock:
                    self._core, self._stream_core = own, StreamCore
                    self._guard()

    def close(self) -> None:
        """End the threads. Arrays that were returned stay valid."""
        self._closed = True
        self._guard()
        if self._stream is not None:
            self._stream.close()
        if self._messages is not None:
            self._messages.close()
        if self._communicator is not None:
            self._communicator.close()
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
        direct = self._direct
        if direct is not None and (found := direct(inputs)) is not None:
            return found
        return self._run_one(inputs)

    def quick(self, inputs: Mapping[str, Array]) -> dict[str, Array] | None:
        """
        The outputs of `run`; None, without a run, unless a quick look tells that all
        arrays can be read as they are, and nothing else is to be done.
        """
        return None if self._direct is None else self._direct(inputs)

    def _run_one(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """A run that is more than the core and its arrays."""
        lying = in_order(inputs) if self._program.image.is_pointwise else None
        if lying is None:
            return self._run_checked(inputs)
        arrays, layout = lying
        return layout.put(self._run_checked(arrays))

    def _run_checked(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """A run whose arrays may have to be copied."""
        given = check_inputs(self._program.inputs, inputs)
        # Often a copy of an array that is not contiguous was all that it takes.
        if (found := self.quick(given)) is not None:
            return found
        fed = self._all_apart(given)
        with self._lock:
            self._check_free()
            self._check_counted()
            results = self._run_batch([fed])
        return self._cut(results)[0]

    def bind(
        self,
        inputs: Mapping[str, Array],
        outputs: Mapping[str, Array] | None = None,
    ) -> Bound:
        """
        A run whose arrays stay the same: each time it reads what those of `inputs`
        hold then, and writes to those of `outputs`, or to new ones that it keeps. Of an
        output with as many elements as the data say these have the most, and each run
        returns the first elements.

        Raises PenstockError unless all can be read and written where they are, and no
        array of outputs has bytes of another one.
        """
        program = self._program
        fed = arrays_to_bind(program.inputs, inputs)
        counts = {cut.by for cut in self._cuts}
        named = {
            name: np.empty(port.shape, port.dtype)
            for name, port in program.outputs.items()
            if outputs is None or name in counts
        }
        if outputs is not None:
            ports = {x: p for x, p in program.outputs.items() if x not in counts}
            results = arrays_to_bind(ports, outputs, "outputs")
            check_apart(fed, results)
            own = named | dict(zip(ports, results, strict=True))
            named = {name: own[name] for name in program.outputs}
        given = dict(zip(program.inputs, fed, strict=True))
        run: Callable[[], dict[str, Array]] = partial(self._run_bound, given, named)
        # Inputs may lie where the program assigns.
        if self._runs is not None and not self._changing:
            run = bound_call(self._runs, given, named, run)
        cuts = self._cuts
        return Bound((lambda: cut_outputs(run(), cuts)) if cuts else run)

    def _run_bound(
        self, given: dict[str, Array], results: dict[str, Array]
    ) -> dict[str, Array]:
        """A run on bound arrays with more to do before it, or in it."""
        with self._lock:
            self._check_free()
            self._check_counted()
            self._point([self._all_apart(given)], [results])
            self._act(1)
            self._held = None
        return results

    def run_many(self, pieces: Sequence[Mapping[str, Array]]) -> list[dict[str, Array]]:
        """
        Compute the outputs for each piece, where the work on one piece overlaps with
        that on the next as far as the slots of registers let it. Nothing is run unless
        all pieces fit; the act of a TaskError is the index of the piece.
        """
        check_pieces(pieces)
        inputs = self._program.inputs
        fed = [self._all_apart(check_inputs(inputs, piece)) for piece in pieces]
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
        cuts = self._cuts
        return [cut_outputs(each, cuts) for each in results] if cuts else results

    def stream(self, capacity: int = 2, untaken: int = UNTAKEN) -> Stream:
        """
        A run that ends when there are no more pieces: see
        `penstock.runtime.executors.stream`. No other run may be made until it is
        closed. Raises PenstockError for a program of several ranks.
        """
        if self._transport is not None:
            raise PenstockError("a stream has the messages of one process only")
        with self._lock:
            self._check_free()
            times = self._times() if self._engine == "sim" else ()
            self._is_special = True
            self._guard()
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

    def _all_apart(self, fed: dict[str, Array]) -> dict[str, Array]:
        """The arrays of inputs, which must not change in a run."""
        return {name: self._apart(array) for name, array in fed.items()}

    def _apart(self, array: Array) -> Array:
        """The array of an input; a copy of one that lies where the program assigns."""
        start = address_of(array)
        end = start + array.nbytes
        if any(start < last and first < end for first, last in self._changing):
            return array.copy()
        return array

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
        fed = [self._all_apart(check_inputs(inputs, piece)) for piece in pieces]
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
            self._held = None
        return self._cut(results), found

    def _run_batch(self, fed: Pieces) -> Pieces:
        results = self._point_to(fed)
        self._act(len(fed))
        self._held = None
        return results

    def _point_to(self, fed: Pieces) -> Pieces:
        """New arrays for the results of the next run, which reads and writes these."""
        results: Pieces = [
            {name: make(*given) for name, (make, given) in self._makers.items()}
            for _ in fed
        ]
        self._point(fed, results)
        return results

    def _point(self, fed: Pieces, results: Pieces) -> None:
        """Let the next run read and write these arrays."""
        self._held = fed, results
        point(self._program.inputs.values(), fed)
        point(self._program.outputs.values(), results)

    def _act(self, acts: int) -> None:
        if not self.observers:
            self._act_for(acts, None)
            return
        with self.observers.watch(acts, virtual=self._engine == "sim") as log:
            self._act_for(acts, log)

    def _act_for(self, acts: int, log: Log | None) -> None:
        """
        Let all actors act, and fill the log if there is one. Of several ranks, an error
        ends all of them, and no run follows: messages are on their way.
        """
        if self._transport is None:
            self._act_alone(acts, log)
            return
        if self._lost is not None:
            raise PenstockError(
                f"a run has failed before, and what ranks sent in it is lost: "
                f"{self._lost}"
            )
        try:
            self._act_alone(acts, log)
        except BaseException as error:
            self._lost = str(error) or type(error).__name__
            if isinstance(error, PeerError):
                raise
            # The report of a watchdog is out.
            is_told = isinstance(error, WatchdogError)
            self._transport.abort(error.summary if is_told else self._lost)
            raise

    def _act_alone(self, acts: int, log: Log | None) -> None:
        if self._core is not None:
            self._core.run(acts, log)
        elif self._engine == "sim":
            self.simulation = self._simulated(acts, self._times(), log)
        else:
            tables = self._program.tables
            run = self.reference(tables, acts) if log is None else RecordedRun(log)
            run.messages = self._own_messages
            self._make(run.run, run)

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
    targets = {name for actor in program.image.actors for name in actor.assigned}
    starts = [
        (program.chunks[x.chunk].address + x.offset, x.kind.size)
        for x in program.variables
        if x.name in targets
    ]
    return [(start, start + size) for start, size in starts]


def point(ports: Iterable[Port], pieces: Pieces) -> None:
    """Let each port of the next run read or write its array of each piece."""
    for port in ports:
        port.point_to([piece[port.name] for piece in pieces])
