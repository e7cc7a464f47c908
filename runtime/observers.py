"""
Who looks on while a program runs: one protocol for runs, tasks and ops.

An observer that is attached to an executor is told that something starts, and later
that it stopped or failed, always one of the two. It is told of a run as it happens, and
of the tasks and ops in it when it is over, in order of time, as workers that call
Python would be slow. While nobody is attached to an executor, nothing is noted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from penstock.runtime.errors import PenstockError
from penstock.runtime.log import Log, Row
from penstock.runtime.subject import Op, Subject, Task
from penstock.runtime.words import WHOLE

Level: TypeAlias = Literal["run", "task", "op"]
LEVELS: tuple[Level, ...] = ("run", "task", "op")
"""From the outside to the inside."""


class Event(NamedTuple):
    """
    Something that happens in run number `run` of an executor, from 0.

    Times are in nanoseconds of the monotonic clock, or on a virtual clock from 0; the
    end of a run is 0 when it starts. `act` counts from the start of the run; that of a
    run is the number of acts it makes. A run has neither task nor worker (-1), a task
    no op.
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
    The base of observers, which does nothing. What its methods raise reaches the caller
    of the run, after all observers have been told all.
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
    """Those who are attached to an executor; their number is its length."""

    def __init__(self, subject: Callable[[], Subject]):
        self._make_subject = subject
        self._attached: list[_Attached] = []
        self._runs = 0

    def __len__(self) -> int:
        return len(self._attached)

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
        number, self._runs = self._runs, self._runs + 1
        present = [attached for attached in self._attached if _wants_next(attached)]
        if not present:
            yield None
            return
        telling = _Telling(self.subject, present, virtual)
        log = Log(self.subject.tables, acts)
        clock = 0 if virtual else time.monotonic_ns()
        run = Event("run", self.subject.name, number, acts, -1, clock, 0)
        telling.start(run)
        try:
            yield log
        except BaseException as error:
            telling.finish(run, log, error)
            for failure in telling.errors:
                error.add_note(f"an observer failed, too: {failure!r}")
            raise
        telling.finish(run, log, None)
        if telling.errors:
            raise telling.errors[0]


def _wants_next(attached: _Attached) -> bool:
    number, attached.runs = attached.runs, attached.runs + 1
    return attached.observer.wants(number)


class _Telling:
    """Tells observers what happened in one run."""

    def __init__(self, subject: Subject, present: Sequence[_Attached], virtual: bool):
        self._subject = subject
        self._is_virtual = virtual
        self._present = present
        self._levels = {level for attached in present for level in attached.levels}
        self.errors: list[Exception] = []

    def start(self, event: Event) -> None:
        """Tell that something starts."""
        self._tell(event, lambda observer: observer.start(event))

    def end(self, event: Event, error: BaseException | None) -> None:
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

    def finish(self, run: Event, log: Log, error: BaseException | None) -> None:
        """Tell what has happened in a run, and that it has ended."""
        rows = log.rows()
        now = time.monotonic_ns()
        if self._is_virtual:
            now = max((row.end for row in rows), default=0)
        if self._levels != {"run"}:
            for event, started, failed in self._in_order(run, rows, now):
                if started:
                    self.start(event)
                else:
                    self.end(event, error if failed else None)
        self.end(run._replace(end=now), error)

    def _in_order(
        self, run: Event, rows: Sequence[Row], now: int
    ) -> list[tuple[Event, bool, bool]]:
        """Each event twice, when it starts and when it ends, and whether it failed."""
        moments: list[tuple[int, int, int, int, Event, bool, bool]] = []
        for number, row in enumerate(rows):
            ended = row.end or now
            failed = row.end == 0 or row.code != 0
            for depth, event in enumerate(self._events(run, row, ended)):
                # What ends comes before what starts at that time, but after its start.
                last = 2 if ended == row.start else 0
                moments.append((row.start, 1, depth, number, event, True, failed))
                moments.append((ended, last, -depth, number, event, False, failed))
        moments.sort(key=lambda moment: moment[:4])
        return [moment[4:] for moment in moments]

    def _events(self, run: Event, row: Row, end: int) -> Sequence[Event]:
        """What a row is about: a task, its only op too, or one of its ops."""
        task = self._subject.tasks[row.actor]
        place = run.run, row.act, row.worker, row.start, end, task
        whole = Event("task", task.name, *place)
        if row.what == WHOLE and len(task.ops) != 1:
            return (whole,)
        op = task.ops[0 if row.what == WHOLE else row.what]
        inner = Event("op", op.name, *place, op)
        return (inner,) if row.what != WHOLE else (whole, inner)
