"""
Observers of running programs: one protocol for runs, tasks and ops.

An attached observer is told that a run, task or op starts, and later that it stopped or
failed, always one of the two. It is told of a run as it happens, and
of the tasks and ops in it when it is over, in order of time, as workers that call
Python would be slow. A stream counts as a run; as it may be long, the tasks and ops in
it are told of in between, too, by the thread that gives or takes a piece. Without an
observer an executor notes nothing.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, Literal, NamedTuple, TypeAlias, TypeVar

from penstock.runtime.core import state_layout as w
from penstock.runtime.errors import PenstockError
from penstock.runtime.observe.event_log import Log, Row
from penstock.runtime.observe.program_info import Op, Subject, Task

Level: TypeAlias = Literal["run", "task", "op"]
LEVELS: tuple[Level, ...] = ("run", "task", "op")
"""From the outside to the inside."""


class Event(NamedTuple):
    """
    Something that happens in run number `run` of an executor, from 0.

    Times are in nanoseconds of the monotonic clock, or on a virtual clock from 0; the
    end of a run is 0 when it starts. `act` counts from the start of the run; that of a
    run is the number of acts it makes, 0 for a stream. A run has neither task nor
    worker (-1), a task no op.
    """

    level: Level
    name: str
    run: int
    act: int
    worker: int
    start: int
    end: int
    task: Task | None = None
    op: Op | None = None

    @property
    def duration(self) -> int:
        """Nanoseconds from the start to the end."""
        return self.end - self.start


class Observer:
    """
    The base of observers, which does nothing. Exceptions of its methods reach the
    caller of the run, after all observers have been told all.
    """

    def attached(self, subject: Subject) -> None:
        """Called when it is attached to an executor of that program."""

    def wants(self, run: int) -> bool:
        """Whether to be told of the run with that number, from 0 since attached."""
        return True

    def start(self, event: Event) -> None:
        """Called when something starts."""

    def stop(self, event: Event) -> None:
        """Called when something that started has ended well."""

    def fail(self, event: Event, error: BaseException) -> None:
        """Called when something that started has failed or was interrupted."""


Kind = TypeVar("Kind", bound=Observer)
LogKind = TypeVar("LogKind", bound=Log)


@dataclass
class _Attached:
    observer: Observer
    levels: frozenset[Level]
    tasks: frozenset[str] | None
    runs: int = 0

    def sees(self, event: Event) -> bool:
        """Whether the observer is told of an event."""
        if event.level not in self.levels:
            return False
        if self.tasks is None or event.task is None:
            return True
        return event.task.name in self.tasks


class Observers:
    """The observers that are attached to an executor; its length is their number."""

    def __init__(self, subject: Callable[[], Subject]):
        self._make_subject = subject
        self._attached: list[_Attached] = []
        self._runs = 0
        self.overhead_ns = 0
        """
        Nanoseconds that `watch` took before runs began and after they had ended: time
        of the caller, but not of the runs.
        """

    def __len__(self) -> int:
        return len(self._attached)

    @property
    def present(self) -> Sequence[object]:
        """Those that are attached: a list that stays the same."""
        return self._attached

    @cached_property
    def subject(self) -> Subject:
        """The program that is observed."""
        return self._make_subject()

    def attach(
        self,
        observer: Kind,
        levels: Iterable[Level] = LEVELS,
        tasks: Iterable[str] | None = None,
    ) -> Kind:
        """
        Tell an observer of all that starts from now on, after those attached before,
        and return it. It may be told of some levels only, and of some tasks by name and
        the ops in them. Raises PenstockError if there are no such levels or tasks.
        """
        wanted = frozenset(levels)
        if unknown := sorted(wanted - set(LEVELS)):
            raise PenstockError(f"there is no level {', '.join(unknown)} to observe")
        names = None if tasks is None else frozenset(tasks)
        if names is not None:
            known = {task.name for task in self.subject.tasks}
            if missing := sorted(names - known):
                raise PenstockError(f"there is no task {', '.join(missing)} to observe")
        observer.attached(self.subject)
        self._attached.append(_Attached(observer, wanted, names))
        return observer

    def detach(self, observer: Kind) -> Kind:
        """
        Tell an observer nothing more, and return it. Raises PenstockError if it is not
        attached.
        """
        for attached in self._attached:
            if attached.observer is observer:
                self._attached.remove(attached)
                return observer
        raise PenstockError(f"the {type(observer).__name__} is not attached")

    @contextmanager
    def watch(self, acts: int, *, virtual: bool = False) -> Generator[Log | None]:
        """
        Around a run of that many acts, whose clock may be virtual: tells the observers.
        The run is to leave its rows in the log, if there is one.
        """
        entered = time.monotonic_ns()
        telling = self.begin(lambda: Log(self.subject.tables, acts), acts, virtual)
        if telling is None:
            yield None
            return
        begun = ended = time.monotonic_ns()
        try:
            try:
                yield telling.log
            finally:
                ended = time.monotonic_ns()
        except BaseException as error:
            telling.finish(error, ended)
            for failure in telling.errors:
                error.add_note(f"an observer failed, too: {failure!r}")
            raise
        else:
            telling.finish(None, ended)
            telling.check()
        finally:
            # The clock of the run stands still while observers are told of it.
            self.overhead_ns += begun - entered + time.monotonic_ns() - ended

    def begin(
        self, make_log: Callable[[], LogKind], acts: int, virtual: bool
    ) -> Telling[LogKind] | None:
        """
        Tell that a run of that many acts starts, 0 if their number is not known. The
        executor has to fill the log, and to tell when the run has ended; None if no
        observer wants to be told.
        """
        number, self._runs = self._runs, self._runs + 1
        present = [attached for attached in self._attached if _wants_next(attached)]
        if not present:
            return None
        log = make_log()
        clock = 0 if virtual else time.monotonic_ns()
        run = Event("run", self.subject.name, number, acts, -1, clock, 0)
        return Telling(self.subject, present, run, log, virtual)


def _wants_next(attached: _Attached) -> bool:
    number, attached.runs = attached.runs, attached.runs + 1
    return attached.observer.wants(number)


class _Moment(NamedTuple):
    """
    The start or end of an event, and whether it failed then. The first four fields
    order events of one time; no two moments have them alike.
    """

    time: int
    phase: int
    depth: int
    number: int
    event: Event
    starts: bool
    failed: bool


class Telling(Generic[LogKind]):
    """Tells observers of the events of one run, whose log the executor fills."""

    def __init__(
        self,
        subject: Subject,
        present: Sequence[_Attached],
        run: Event,
        log: LogKind,
        virtual: bool,
    ):
        self.log = log
        self.errors: list[Exception] = []
        """Exceptions that observers have raised."""
        self._subject = subject
        self._present = present
        self._run = run
        self._is_virtual = virtual
        self._has_tasks = any(attached.levels - {"run"} for attached in present)
        self._moments: list[_Moment] = []
        self._rows = 0
        self._latest = 0
        self._lock = threading.Lock()
        self._is_over = False
        self._start(run)

    def go_on(self) -> bool:
        """Tell of events that have ended, if the log needs room; False if none have."""
        # A thread that finds another one here need not wait for it.
        if not self.log.is_due or not self._lock.acquire(blocking=False):
            return False
        try:
            if self._is_over:
                return False
            rows, until = self.log.take()
            self._add(rows, 0)
            self._tell_until(self._latest if self._is_virtual else until, None)
            return bool(rows)
        finally:
            self._lock.release()

    def finish(self, error: BaseException | None, ended: int | None = None) -> None:
        """
        Tell the rest, and that the run has ended, now or at a time of the monotonic
        clock; only the first time.
        """
        with self._lock:
            if self._is_over:
                return
            self._is_over = True
            now = time.monotonic_ns() if ended is None else ended
            rows = self.log.rows()
            self._add(rows, now)
            self._tell_until(None, error)
            end = self._latest if self._is_virtual else now
            self._end(self._run._replace(end=end), error)

    def check(self) -> None:
        """Raise the first thing that an observer has raised."""
        if self.errors:
            raise self.errors[0]

    def _add(self, rows: Sequence[Row], now: int) -> None:
        """Note each event of some rows twice, when it starts and when it ends."""
        for row in rows:
            self._latest = max(self._latest, row.start, row.end)
        if not self._has_tasks:
            return
        now = self._latest if self._is_virtual else now
        for number, row in enumerate(rows, self._rows):
            ended = row.end or now
            failed = row.end == 0 or row.code != 0
            for event in self._events(row, ended):
                depth = LEVELS.index(event.level)
                # At one time ends come before starts, but after the start of the same
                # event.
                last = 2 if ended == row.start else 0
                start = row.start, 1, depth, number, event, True, failed
                self._moments.append(_Moment(*start))
                end = ended, last, -depth, number, event, False, failed
                self._moments.append(_Moment(*end))
        self._rows += len(rows)

    def _tell_until(self, until: int | None, error: BaseException | None) -> None:
        """Tell of all events before a time, or of all, in order."""
        self._moments.sort(key=lambda moment: moment[:4])
        count = len(self._moments)
        if until is not None:
            count = bisect_left(self._moments, until, key=lambda moment: moment.time)
        known, self._moments = self._moments[:count], self._moments[count:]
        for moment in known:
            if moment.starts:
                self._start(moment.event)
            else:
                self._end(moment.event, error if moment.failed else None)

    def _start(self, event: Event) -> None:
        """Tell that something starts."""
        self._tell(event, lambda observer: observer.start(event))

    def _end(self, event: Event, error: BaseException | None) -> None:
        """Tell that something stopped, or failed with an error."""
        if error is None:
            self._tell(event, lambda observer: observer.stop(event))
        else:
            self._tell(event, lambda observer: observer.fail(event, error))

    def _tell(self, event: Event, call: Callable[[Observer], None]) -> None:
        for attached in self._present:
            if attached.sees(event):
                try:
                    call(attached.observer)
                except Exception as error:
                    self.errors.append(error)

    def _events(self, row: Row, end: int) -> Sequence[Event]:
        """The subjects of a row: a task, its only op too, or one of its ops."""
        task = self._subject.tasks[row.actor]
        place = self._run.run, row.act, row.worker, row.start, end, task
        whole = Event("task", task.name, *place)
        has_rows = self._subject.tables.actors[row.actor].log_rows > 1
        if row.what == w.WHOLE and (len(task.ops) != 1 or has_rows):
            return (whole,)
        op = task.ops[0 if row.what == w.WHOLE else row.what]
        inner = Event("op", op.name, *place, op)
        return (inner,) if row.what != w.WHOLE else (whole, inner)
