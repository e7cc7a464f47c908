"""
Profiling observers of runs: counts, times, FLOP rates, live memory, and sampling.

`penstock-run --profile` attaches `CostObserver`, `Trace` embeds `MemoryObserver`, and
users attach any of them to `executor.observers`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from penstock.runtime.errors import PenstockError
from penstock.runtime.observe.observers import Event, Level, Observer
from penstock.runtime.observe.program_info import Place, Subject

Name: TypeAlias = tuple[Level, str]
"""The subject of an event: the name of a program, a task or an op."""


class CountObserver(Observer):
    """Counts starts, ends and failures of programs, tasks and ops."""

    def __init__(self) -> None:
        self.started: Counter[Name] = Counter()
        self.stopped: Counter[Name] = Counter()
        self.failed: Counter[Name] = Counter()

    def start(self, event: Event) -> None:
        """Count a start."""
        self.started[event.level, event.name] += 1

    def stop(self, event: Event) -> None:
        """Count an end."""
        self.stopped[event.level, event.name] += 1

    def fail(self, event: Event, error: BaseException) -> None:
        """Count a failure."""
        self.failed[event.level, event.name] += 1


@dataclass
class Times:
    """The number of events of a subject that ended well, and their nanoseconds."""

    count: int = 0
    total: int = 0
    least: int = 0
    most: int = 0

    def add(self, duration: int) -> None:
        """Add a time."""
        self.least = min(self.least, duration) if self.count else duration
        self.most = max(self.most, duration)
        self.count += 1
        self.total += duration

    @property
    def mean(self) -> float:
        """Nanoseconds on average, 0 if nothing was added."""
        return self.total / self.count if self.count else 0.0


class TimeObserver(Observer):
    """Measures the times of runs, tasks and ops that end well."""

    def __init__(self) -> None:
        self.times: defaultdict[Name, Times] = defaultdict(Times)

    def stop(self, event: Event) -> None:
        """Add the time of an event that has ended."""
        self.times[event.level, event.name].add(event.duration)


@dataclass
class Expense:
    """
    Calls of one op of a task: times, and the flops and bytes of all calls, None where
    the program does not tell.
    """

    task: str
    op: str
    times: Times
    flops: int | None
    bytes: int | None
    calls: int = 0
    """The number of calls; in a loop with a maximum up to so many."""

    @property
    def gflops(self) -> float | None:
        """10^9 scalar operations a second."""
        return _rate(self.flops, self.times.total)

    @property
    def gbytes(self) -> float | None:
        """10^9 bytes a second, read and written."""
        return _rate(self.bytes, self.times.total)


def _rate(amount: int | None, nanoseconds: int) -> float | None:
    return amount / nanoseconds if amount is not None and nanoseconds > 0 else None


class CostObserver(Observer):
    """
    Measures the time of each op of each task, with its flops and bytes where known.
    """

    def __init__(self) -> None:
        self._expenses: dict[tuple[str, str, str], Expense] = {}

    def stop(self, event: Event) -> None:
        """Add the time and the cost of an op."""
        task, op = event.task, event.op
        if task is None or op is None:
            return
        expense = self._expenses.setdefault(
            (task.name, op.kind, op.name),
            Expense(task.name, op.kind, Times(), op.flops and 0, op.bytes and 0),
        )
        expense.times.add(event.duration)
        expense.calls += op.calls
        if op.flops is not None:
            expense.flops = op.flops * expense.times.count
        if op.bytes is not None:
            expense.bytes = op.bytes * expense.times.count

    def expenses(self) -> list[Expense]:
        """All of them, those that took most time first."""
        return sorted(
            self._expenses.values(), key=lambda e: (-e.times.total, e.task, e.op)
        )


class MemoryObserver(Observer):
    """
    Counts the live bytes of each chunk: those of variables always, those of a slot of a
    register from the start of the act that fills it to the end of the last one that
    reads it, unless data says which act that is. A byte that several registers lie on
    counts once.
    """

    def __init__(self) -> None:
        self.live: dict[str, list[tuple[int, int]]] = {}
        """Chunk: times of the last run in nanoseconds, and the bytes from then on."""
        self.peak: dict[str, int] = {}
        """Chunk: the most live bytes of all runs."""
        self._events: list[Event] = []

    def attached(self, subject: Subject) -> None:
        """Get to know the places of a program."""
        self._subject = subject
        self._cuts = _cuts_of(subject)

    def start(self, event: Event) -> None:
        """Forget the last run when one starts."""
        if event.level == "run":
            self._events.clear()

    def stop(self, event: Event) -> None:
        """Remember a task; count at the end of a run."""
        if event.level == "task":
            self._events.append(event)
        elif event.level == "run":
            self._count(event)

    def _count(self, run: Event) -> None:
        moments = sorted(self._moments(), key=lambda moment: moment[:2])
        for chunk, cuts in self._cuts.items():
            cover = _Cover(cuts)
            for place in self._subject.variables:
                if place.chunk == chunk:
                    cover.add(*place.slot(0), 1)
            live = [(run.start, cover.bytes)]
            for time, change, where, start, end in moments:
                if where == chunk:
                    cover.add(start, end, change)
                    if live[-1][0] == time:
                        live.pop()
                    live.append((time, cover.bytes))
            self.live[chunk] = live
            most = max(size for _, size in live)
            self.peak[chunk] = max(self.peak.get(chunk, 0), most)

    def _moments(self) -> Iterator[tuple[int, int, str, int, int]]:
        """Times, +1 or -1, and the chunk and the bytes that become live or free."""
        tables = self._subject.tables
        ends: dict[tuple[int, int], int] = {}
        for event in self._events:
            assert event.task is not None, "tasks have one"
            ends[event.task.number, event.act] = event.end
        for event in self._events:
            assert event.task is not None, "tasks have one"
            for register in tables.actors[event.task.number].writes:
                place = self._subject.places[register]
                piece = self._begun(event, register)
                if place is None or piece is None:
                    continue
                users = self._subject.readers[register]
                acts = [self._last(user, register, piece) for user in users]
                if (filling := self._subject.filling(register, piece)) is not None:
                    acts.append(filling)
                start, end = place.slot(piece)
                yield event.start, 1, place.chunk, start, end
                last = max(ends.get(act, event.end) for act in acts)
                yield last, -1, place.chunk, start, end

    def _begun(self, event: Event, register: int) -> int | None:
        """The piece that an act begins to fill, None if it goes on with one."""
        assert event.task is not None, "tasks have one"
        users = event.task.number, *self._subject.readers[register]
        spans = [self._subject.span(user, register) for user in users]
        if None in spans or spans[0] is None or event.act % spans[0]:
            return None
        return event.act // spans[0] + self._subject.tables.registers[register].initial

    def _last(self, reader: int, register: int, piece: int) -> tuple[int, int]:
        """The act after which a reader is done with a piece at the latest."""
        span = self._subject.span(reader, register)
        assert span is not None, "it was asked for before"
        return reader, (piece + 1) * span - 1


def _cuts_of(subject: Subject) -> Mapping[str, list[int]]:
    """Chunk: where slots and variables start or end, in order."""
    cuts: dict[str, set[int]] = {chunk: {0} for chunk in subject.chunks}
    places: Iterable[Place] = (p for p in subject.places if p is not None)
    for place in (*places, *subject.variables):
        for slot in range(place.slots):
            cuts[place.chunk].update(place.slot(slot))
    return {chunk: sorted(found) for chunk, found in cuts.items()}


class _Cover:
    """The number of live registers on each byte."""

    def __init__(self, cuts: list[int]):
        self._index = {cut: i for i, cut in enumerate(cuts)}
        self._sizes = np.diff(np.array([*cuts, cuts[-1]], np.int64))
        self._counts = np.zeros(len(cuts), np.int64)
        self.bytes = 0
        """Bytes on which something lies."""

    def add(self, start: int, end: int, change: int) -> None:
        """Put something on bytes (1), or take it away (-1)."""
        part = slice(self._index[start], self._index[end])
        before = self._counts[part] > 0
        self._counts[part] += change
        after = self._counts[part] > 0
        sizes = self._sizes[part]
        self.bytes += int(sizes[after].sum()) - int(sizes[before].sum())


class Sampled(Observer):
    """Tells an observer only of every n-th run, from the first one on."""

    def __init__(self, observer: Observer, every: int):
        if every < 1:
            raise PenstockError(f"every n-th run is for n from 1 on, got {every}")
        self.observer = observer
        self.every = every

    def attached(self, subject: Subject) -> None:
        """Tell the observer."""
        self.observer.attached(subject)

    def wants(self, run: int) -> bool:
        """Whether a run is sampled."""
        return run % self.every == 0 and self.observer.wants(run // self.every)

    def start(self, event: Event) -> None:
        """Tell the observer."""
        self.observer.start(event)

    def stop(self, event: Event) -> None:
        """Tell the observer."""
        self.observer.stop(event)

    def fail(self, event: Event, error: BaseException) -> None:
        """Tell the observer."""
        self.observer.fail(event, error)
