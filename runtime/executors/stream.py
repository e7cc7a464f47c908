"""
Streams: runs that end when there are no more pieces, whatever their numbers.

The caller is at the end of some registers: it fills those that actors bring data in
from, as long as there is room, and takes pieces of those that they bring data out to
(OneFlow's foreign inputs and outputs with their buffers). When it says that it fills no
more, each actor ends once it can never act again; what is left over of other inputs
then is thrown away and counted, so unequal numbers of pieces are no deadlock.

Pieces of an output that nobody takes wait in a bounded queue. Where it is full, actors
wait for its slots, and so does the caller who gives pieces.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np

from penstock.runtime.core.watchdog import Watchdog, kernel_names
from penstock.runtime.errors import PenstockError
from penstock.runtime.executors.simulator import Simulation
from penstock.runtime.executors.stream_core import CLOSED, StreamCore, wait_limit
from penstock.runtime.executors.stream_ports import Wiring, piece_shape
from penstock.runtime.executors.stream_stepwise import NoRoom as NoRoom
from penstock.runtime.executors.stream_stepwise import Stepwise
from penstock.runtime.loading.initializers import Array
from penstock.runtime.loading.loader import LoadedProgram, fitting
from penstock.runtime.observe.event_log import StreamLog
from penstock.runtime.observe.observers import Observers, Telling
from penstock.runtime.options import Closing, check_count
from penstock.runtime.program.tables import Tables

UNTAKEN = 256
"""The default limit of pieces of an output that nobody has taken."""

MakeCore: TypeAlias = Callable[[Tables, int], StreamCore]
"""Makes the core of a stream, given its tables and the number of threads."""


class EndOfData(PenstockError):
    """There are no more pieces of an output."""


class Ending(NamedTuple):
    """
    The pieces of each output that were not taken, and the number of pieces of a
    register (second name) that an actor (first name) discarded.
    """

    outputs: Mapping[str, Sequence[Array]]
    left_over: Mapping[tuple[str, str], int]


class Engine(Protocol):
    """An executor of actors in a stream; registers are known by their numbers."""

    tables: Tables

    def begin(self, log: StreamLog | None = None) -> None:
        """Let actors act from now on, and leave rows in a log if there is one."""
        ...

    @property
    def failure(self) -> BaseException | None:
        """The error that has ended the stream before its time."""
        ...

    @property
    def is_over(self) -> bool:
        """Whether all actors have ended."""
        ...

    def has_room(self, register: int) -> bool:
        """Whether the caller may fill another slot."""
        ...

    def has_piece(self, register: int) -> bool:
        """Whether there is something for the caller to take."""
        ...

    def has_ended(self, register: int) -> bool:
        """Whether there will be nothing more to take."""
        ...

    def next_piece(self, register: int) -> int:
        """The number of the piece that the caller fills or takes next."""
        ...

    def fill(self, register: int) -> None:
        """Hand on the slot that the caller has filled."""
        ...

    def empty(self, register: int) -> None:
        """Give back the slot that the caller has taken."""
        ...

    def end(self, register: int) -> None:
        """Say that the caller fills no more slots."""
        ...

    def wait_for_room(self, register: int) -> None:
        """Let some time pass."""
        ...

    def wait_for_piece(self, register: int) -> None:
        """Let some time pass."""
        ...

    def wait_for_end(self) -> None:
        """Let some time pass."""
        ...

    def check(self) -> None:
        """Raise the error that has ended the stream before its time."""
        ...

    def verify(self) -> None:
        """Raise MessageError if injected faults have falsified what actors see."""
        ...

    def make_room(self) -> None:
        """Let others see that there is more room in the log."""
        ...

    def left_over(self) -> dict[tuple[str, str], int]:
        """The number of pieces that were discarded, by reader and register."""
        ...

    def close(self) -> None:
        """End all that goes on."""
        ...


class Stream(Closing):
    """
    A stream of a program. Close it after use, or use it in a `with` block.

    `capacity` pieces of an input may be on their way before actors take them, and
    `untaken` pieces of an output may wait to be taken before actors wait for the
    caller. It may be used from several threads; threads that wait let actors act
    meanwhile. It is a run for the observers of the executor, and failed for them if it
    is closed before the end.
    """

    def __init__(
        self,
        program: LoadedProgram,
        engine: str = "actors",
        capacity: int = 2,
        times: Sequence[int] = (),
        *,
        untaken: int = UNTAKEN,
        observers: Observers | None = None,
        watchdog: Watchdog | None = None,
        make_core: MakeCore = StreamCore,
    ):
        if capacity < 1:
            raise PenstockError(f"a stream needs room for a piece, got {capacity}")
        check_count("untaken", untaken)
        self._untaken = untaken
        self._keeps_all = False
        """Whether all that is left of outputs is asked for, however much it is."""
        self._wiring = Wiring(program, capacity)
        tables = self._wiring.tables
        self._engine: Engine
        if engine == "actors":
            self._engine = core = make_core(tables, program.threads)
            if watchdog is not None:
                core.watch(watchdog, partial(kernel_names, program.image))
        else:
            self._engine = Stepwise(tables, times if engine == "sim" else None)
        self._telling: Telling[StreamLog] | None = None
        if observers is not None:
            make_log = partial(StreamLog, tables)
            self._telling = observers.begin(make_log, 0, engine == "sim")
        self._engine.begin(None if self._telling is None else self._telling.log)
        self._taken: dict[str, deque[Array]] = {x: deque() for x in program.outputs}
        self._ended: set[str] = set()
        self._is_closed = False
        self._giving = {name: threading.Lock() for name in program.inputs}
        self._taking = {name: threading.Lock() for name in program.outputs}
        self._notified: list[_Notifier] = []
        self._functions: dict[str, Callable[[Array], object]] = {}

    def shape_of(self, name: str) -> tuple[int, ...]:
        """The shape of a piece of an input or output."""
        ports = {**self._wiring.outputs, **self._wiring.inputs}
        return piece_shape(self._wiring.find(name, ports, "port")[0])

    def put(self, name: str, array: Array, timeout: float | None = None) -> None:
        """
        Give a piece of an input, as soon as there is room: while an output has as many
        pieces as may wait, that may take until another thread takes one. Raises
        TimeoutError if there is no room for so many seconds, PenstockError if the piece
        does not fit or no more was to come, and the error that ends the stream.
        """
        port, register = self._wiring.find(name, self._wiring.inputs, "input")
        piece = fitting(f"input '{name}'", array, piece_shape(port), port.dtype)
        limit = wait_limit(timeout)
        with self._giving[name]:
            if name in self._ended:
                raise PenstockError(f"no more pieces of input '{name}' were to come")
            while not self._engine.has_room(register):
                if not self._collect():
                    self._wait(limit, partial(self._engine.wait_for_room, register))
            place = self._wiring.slot(register, self._engine.next_piece(register))
            place[:] = piece.reshape(-1).view(np.uint8)
            self._engine.fill(register)
        self._tell()

    def end(self, *names: str) -> None:
        """Say that no more pieces of these inputs come, or of none."""
        for name in names or tuple(self._wiring.inputs):
            _, register = self._wiring.find(name, self._wiring.inputs, "input")
            with self._giving[name]:
                if name not in self._ended:
                    self._ended.add(name)
                    self._engine.end(register)

    def take(self, name: str, timeout: float | None = None) -> Array:
        """
        The next piece of an output. Raises EndOfData if there are no more, TimeoutError
        if there is none for so many seconds, and the error that ends the stream.
        """
        _, register = self._wiring.find(name, self._wiring.outputs, "output")
        limit = wait_limit(timeout)
        with self._taking[name]:
            while not self._taken[name]:
                if self._engine.has_piece(register):
                    self._take(name, register)
                elif self._engine.has_ended(register):
                    self._engine.verify()
                    raise EndOfData(f"there are no more pieces of output '{name}'")
                elif not self._collect():
                    self._wait(limit, partial(self._engine.wait_for_piece, register))
            self._engine.verify()
            was_full = not self._may_wait(name)
            piece = self._taken[name].popleft()
            if was_full and self._engine.has_piece(register):
                # A thread that waits for room need not look at this output.
                self._take(name, register)
        self._tell()
        return piece

    def notify(self, name: str, function: Callable[[Array], object]) -> None:
        """
        Call a function with each piece of an output, in a thread of its own, in which
        it must not use the stream. Its exceptions are raised by `finish`. Engines
        without threads call it while the caller gives or takes a piece.
        """
        self._wiring.find(name, self._wiring.outputs, "output")
        if isinstance(self._engine, Stepwise):
            self._functions[name] = function
        else:
            self._notified.append(_Notifier(self, name, function))

    def finish(self, timeout: float | None = None) -> Ending:
        """
        End all inputs, and wait until all actors have ended: all that is left of
        outputs is kept. Raises TimeoutError if that takes so many seconds, and the
        error that ends the stream.
        """
        self._keeps_all = True
        self.end()
        limit = wait_limit(timeout)
        while not self._engine.is_over:
            if not self._collect():
                self._wait(limit, self._engine.wait_for_end)
        for notifier in self._notified:
            notifier.join()
        self._collect()
        self._engine.verify()
        if self._telling is not None:
            self._telling.finish(None)
            self._telling.check()
        taken = {name: list(pieces) for name, pieces in self._taken.items()}
        return Ending(taken, self._engine.left_over())

    def run(self, inputs: Mapping[str, Iterable[Array]]) -> Ending:
        """
        Give all pieces of each input, and end the input then; wait until all actors
        have ended. Each iterable is asked in a thread of its own, but by engines that
        have none. Inputs that are not named have no pieces. All pieces of outputs that
        nobody takes are kept. Raises the errors of `put`, `finish` and the iterables.
        """
        self._keeps_all = True
        for name in inputs:
            self._wiring.find(name, self._wiring.inputs, "input")
        if unnamed := self._wiring.inputs.keys() - inputs.keys():
            self.end(*unnamed)
        if isinstance(self._engine, Stepwise):
            self._give_in_turns(inputs)
        else:
            self._give_at_once(inputs)
        return self.finish()

    def _give_in_turns(self, inputs: Mapping[str, Iterable[Array]]) -> None:
        """Give a piece of each input after the other, where there is room."""
        left = {name: iter(pieces) for name, pieces in inputs.items()}
        held: dict[str, Array] = {}
        while left:
            for name, pieces in [*left.items()]:
                if name not in held and (piece := next(pieces, None)) is not None:
                    held[name] = piece
                if name not in held:
                    self.end(name)
                    del left[name]
                    continue
                # One that has no room leaves its turn to others, of which one has some.
                with suppress(NoRoom):
                    self.put(name, held[name])
                    del held[name]

    def _give_at_once(self, inputs: Mapping[str, Iterable[Array]]) -> None:
        """Give the pieces of all inputs, each in a thread."""
        with ThreadPoolExecutor(max(len(inputs), 1), "penstock-feed") as pool:
            fed = [pool.submit(self._give, *given) for given in inputs.items()]
        errors = [error for x in fed if (error := x.exception()) is not None]
        if errors:
            # The others were told only that the stream is closed.
            raise min(errors, key=lambda error: str(error) == CLOSED)

    def _give(self, name: str, pieces: Iterable[Array]) -> None:
        try:
            for piece in pieces:
                self.put(name, piece)
            self.end(name)
        except BaseException:
            self.close()
            raise

    @property
    def simulation(self) -> Simulation | None:
        """The times of acts, if the stream is on a virtual clock."""
        engine = self._engine
        return engine.simulation if isinstance(engine, Stepwise) else None

    @property
    def is_closed(self) -> bool:
        """Whether nothing goes on any more."""
        return self._is_closed

    def close(self) -> None:
        """End the stream wherever it is."""
        failure = self._engine.failure or PenstockError(CLOSED)
        self._is_closed = True
        self._engine.close()
        if self._telling is not None:
            self._telling.finish(failure)

    def _tell(self) -> None:
        """Tell observers of acts that have ended, if the log needs room."""
        if self._telling is not None and self._telling.go_on():
            self._engine.make_room()

    def _collect(self) -> bool:
        """
        Take pieces of outputs that no thread waits for, as far as they may wait; False
        if there are none.
        """
        found = False
        for name, (_, register) in self._wiring.outputs.items():
            if self._taking[name].acquire(blocking=False):
                try:
                    while self._may_wait(name) and self._engine.has_piece(register):
                        self._take(name, register)
                        found = True
                finally:
                    self._taking[name].release()
        for name, function in self._functions.items():
            while self._taken[name]:
                function(self._taken[name].popleft())
        return found

    def _may_wait(self, name: str) -> bool:
        """Whether another piece of an output may wait to be taken."""
        # Functions are called with theirs at once.
        is_free = self._keeps_all or name in self._functions
        return is_free or len(self._taken[name]) < self._untaken

    def _take(self, name: str, register: int) -> None:
        port = self._wiring.outputs[name][0]
        place = self._wiring.slot(register, self._engine.next_piece(register))
        array = place.copy().view(port.dtype).reshape(piece_shape(port))
        self._engine.empty(register)
        self._taken[name].append(array)

    def _wait(self, limit: float | None, wait: Callable[[], None]) -> None:
        self._engine.check()
        if limit is not None and time.monotonic() > limit:
            raise TimeoutError(f"the stream did not go on in time{self._full()}")
        wait()
        self._tell()
        self._engine.check()

    def _full(self) -> str:
        """The outputs of which no more pieces may wait, for a message."""
        full = [repr(name) for name in self._taken if not self._may_wait(name)]
        if not full:
            return ""
        return f": {self._untaken} pieces of output {', '.join(full)} wait to be taken"


class _Notifier:
    """A thread that calls a function with all pieces of an output."""

    def __init__(self, stream: Stream, name: str, function: Callable[[Array], object]):
        self._stream = stream
        self._name = name
        self._function = function
        self._error: BaseException | None = None
        self._thread = threading.Thread(
            target=self._serve, name=f"penstock-notify-{name}", daemon=True
        )
        self._thread.start()

    def join(self) -> None:
        """Wait for the last call. Raises the exception of one of them."""
        self._thread.join()
        if self._error is not None:
            raise self._error

    def _serve(self) -> None:
        try:
            while True:
                self._function(self._stream.take(self._name))
        except EndOfData:
            pass
        except BaseException as error:
            self._error = error
