"""
A time line of runs in the format of Chrome's tracing, which Perfetto and others read.

There is a track for each stream (and each worker, where several run one), and one for
runs. A slice is an act, with its calls inside if there are several. Where a stream was
idle until its next act could be made, a slice names the reason: the register in which a
piece was last to arrive, or a slot to become free. Flows lead from the act that fills a
slot to those that read it, counters show live bytes. Where data says how often actors
act (`penstock.runtime.program.actor_kinds`), readers of a slot are not known: there are
neither reasons nor flows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from penstock.notebook import Displayed
from penstock.runtime.observe.metrics import MemoryObserver
from penstock.runtime.observe.observers import Event, Observer
from penstock.runtime.observe.program_info import Subject, Task
from penstock.runtime.program.executable import ProgramImage
from penstock.runtime.program.tables import PLAIN

VERSION = 1
"""Of the form: it changes when a key changes or goes, not when one is added."""

Json: TypeAlias = "dict[str, Any]"
"""A trace event, for `json.dumps`."""

PROCESS = 1
RUNS = 0
"""The track of runs; those of streams count from 1."""

KINDS = {
    "copy": "copy",
    "feed": "edge",
    "fetch": "edge",
    "collective": "message",
    "receive": "message",
    "send": "message",
    "wait": "wait",
}
"""The category of tasks that do one of these; others compute."""


class _Reason(NamedTuple):
    """The reason of an act to wait until some time."""

    time: int
    register: str
    missing: str
    actor: str


class Trace(Observer, Displayed):
    """
    Collects a time line of all runs that it is told of.

    `flows` are left out on request, as there are as many as acts read registers.
    """

    def __init__(self, *, flows: bool = True) -> None:
        self._flows = flows
        self._memory = MemoryObserver()
        self._events: list[Json] = []
        self._tasks: list[tuple[Event, str | None]] = []
        self._ops: list[tuple[Event, str | None]] = []
        self._origin: int | None = None
        self._tracks: dict[tuple[int, int], int] = {}
        self._next_flow = 0
        self.image: ProgramImage | None = None
        """The program that was observed; None before there is one."""

    def attached(self, subject: Subject) -> None:
        """Get to know a program."""
        self._subject = subject
        self.image = subject.image
        self._memory.attached(subject)
        for task in subject.tasks:
            key = task.stream, task.worker
            self._tracks.setdefault(key, len(self._tracks) + 1)

    def start(self, event: Event) -> None:
        """Forget the tasks of the last run when one starts."""
        self._memory.start(event)
        if event.level == "run":
            self._tasks.clear()
            self._ops.clear()
            if self._origin is None:
                self._origin = event.start

    def stop(self, event: Event) -> None:
        """Remember a task; draw all at the end of a run."""
        self._memory.stop(event)
        self._see(event, None)

    def fail(self, event: Event, error: BaseException) -> None:
        """Remember a task that failed; draw all at the end of a run."""
        self._see(event, f"{type(error).__name__}: {error}")

    def _see(self, event: Event, error: str | None) -> None:
        if event.level == "task":
            self._tasks.append((event, error))
        elif event.level == "op":
            self._ops.append((event, error))
        else:
            self._draw(event, error)

    # Drawing

    def _draw(self, run: Event, error: str | None) -> None:
        facts: Json = {"run": run.run, "acts": run.act}
        self._slice(run.name or "run", "run", RUNS, run, facts, error)
        tasks = [event for event, _ in self._tasks]
        for event, error in self._tasks:
            self._draw_task(event, error)
        for event, error in self._ops:
            self._draw_op(event, error)
        self._events += self._idle(run, tasks)
        if self._flows:
            self._events += self._arrows(tasks)
        if error is None:
            self._events += self._counters()

    def _draw_task(self, event: Event, error: str | None) -> None:
        task = _task_of(event)
        facts: Json = {"act": event.act, "run": event.run, "op": task.kind}
        if len(task.ops) == 1:
            facts |= _cost(event)
        verbs = {op.verb for op in task.ops}
        if verbs & {"collective", "send", "receive"}:
            facts["message"] = task.ops[0].name
        category = KINDS.get(verbs.pop(), "task") if len(verbs) == 1 else "task"
        self._slice(event.name, category, self._track(event), event, facts, error)

    def _draw_op(self, event: Event, error: str | None) -> None:
        if len(_task_of(event).ops) > 1:
            facts: Json = {"act": event.act, "run": event.run} | _cost(event)
            self._slice(event.name, "op", self._track(event), event, facts, error)

    def _slice(
        self,
        name: str,
        category: str,
        track: int,
        event: Event,
        facts: Json,
        error: str | None,
    ) -> None:
        if error is not None:
            facts["error"] = error
        place = self._place("X", track, event.start)
        length = {"dur": event.duration / 1000}
        self._events.append(
            {"name": name, "cat": category, **place, **length, "args": facts}
        )

    def _place(self, phase: str, track: int, time: int) -> Json:
        since = (time - self.start_ns) / 1000
        return {"ph": phase, "pid": PROCESS, "tid": track, "ts": since}

    def _track(self, event: Event) -> int:
        task = _task_of(event)
        return self._tracks[task.stream, task.worker]

    def _idle(self, run: Event, tasks: Sequence[Event]) -> Iterator[Json]:
        """A slice wherever a stream waited for a register."""
        ends = {(_task_of(event).number, event.act): event.end for event in tasks}
        last = dict.fromkeys(self._tracks.values(), run.start)
        for event in sorted(tasks, key=lambda event: event.start):
            track = self._track(event)
            since = last[track]
            last[track] = max(since, event.end)
            reason = max(self._reasons(event, ends), default=None)
            if reason is None or (until := min(reason.time, event.start)) <= since:
                continue
            facts: Json = {
                "register": reason.register,
                "missing": reason.missing,
                "from": reason.actor,
                "task": event.name,
            }
            yield {
                "name": f"waits for {reason.register}",
                "cat": "idle",
                **self._place("X", track, since),
                "dur": (until - since) / 1000,
                "args": facts,
            }

    def _reasons(
        self, event: Event, ends: Mapping[tuple[int, int], int]
    ) -> Iterator[_Reason]:
        """The acts of this run that an act had to wait for, and when they had ended."""
        tables = self._subject.tables
        actor = tables.actors[_task_of(event).number]
        number = _task_of(event).number
        for index in actor.reads:
            register = tables.registers[index]
            key = self._source(event, index)
            if key is not None and (time := ends.get(key)) is not None:
                producer = tables.actors[register.producer].name
                yield _Reason(time, register.name, "piece", producer)
        for index in actor.writes:
            register, span = tables.registers[index], self._subject.span(number, index)
            if span is None or event.act % span:
                continue
            piece = event.act // span + register.initial - register.slots
            for reader in self._subject.readers[index]:
                last = self._last(reader, index, piece)
                if (time := ends.get((reader, last))) is not None:
                    name = tables.actors[reader].name
                    yield _Reason(time, register.name, "free slot", name)

    def _source(self, event: Event, register: int) -> tuple[int, int] | None:
        """The act that filled the slot of a register that an act reads, if known."""
        actor = self._subject.tables.actors[_task_of(event).number]
        if actor.kind != PLAIN:
            return None
        piece = event.act // actor.acts_for(register)
        return self._subject.filling(register, piece)

    def _last(self, reader: int, register: int, piece: int) -> int:
        """The act in which a reader is done with a piece, -1 if that is not known."""
        actor = self._subject.tables.actors[reader]
        if actor.kind != PLAIN:
            return -1
        return (piece + 1) * actor.acts_for(register) - 1

    def _arrows(self, tasks: Sequence[Event]) -> Iterator[Json]:
        """Two events for each piece that an act reads: where it starts and ends."""
        tables = self._subject.tables
        events = {(_task_of(event).number, event.act): event for event in tasks}
        for event in tasks:
            for index in tables.actors[_task_of(event).number].reads:
                register, key = tables.registers[index], self._source(event, index)
                if key is None or (source := events.get(key)) is None:
                    continue
                is_data = self._subject.places[index] is not None
                self._next_flow += 1
                facts = {
                    "name": register.name,
                    "cat": "data" if is_data else "control",
                    "id": self._next_flow,
                }
                # Inside of the slice, whose end is no part of it.
                inside = max(source.start, source.end - 1)
                yield {**facts, **self._place("s", self._track(source), inside)}
                end = self._place("f", self._track(event), event.start)
                yield {**facts, **end, "bp": "e"}

    def _counters(self) -> Iterator[Json]:
        """The live bytes of each chunk."""
        for chunk, live in self._memory.live.items():
            for time, size in live:
                place = self._place("C", RUNS, time)
                yield {
                    "name": f"live bytes of {chunk}",
                    **place,
                    "args": {"bytes": size},
                }

    # The result

    @property
    def start_ns(self) -> int:
        """The time of the monotonic clock that its times count from."""
        return 0 if self._origin is None else self._origin

    def to_dict(self) -> Json:
        """The whole trace; events are in order of time."""
        events = sorted(self._events, key=lambda event: event["ts"])
        return {
            "displayTimeUnit": "ns",
            "otherData": {"program": self._subject.name, "version": VERSION},
            "traceEvents": [*self._names(), *events],
        }

    def _names(self) -> Iterator[Json]:
        yield self._name("process_name", RUNS, f"@{self._subject.name}")
        yield self._name("thread_name", RUNS, "runs")
        streams = [stream for stream, _ in self._tracks]
        devices = {(x.stream, x.worker): x.device for x in self._subject.tasks}
        for (stream, worker), track in self._tracks.items():
            text = f"stream {stream} ({devices[stream, worker]})"
            if streams.count(stream) > 1:
                text += f" on worker {worker}"
            yield self._name("thread_name", track, text)

    def _name(self, what: str, track: int, text: str) -> Json:
        where = {"ph": "M", "pid": PROCESS, "tid": track}
        return {"name": what, **where, "args": {"name": text}}

    def to_json(self) -> str:
        """The whole trace as a JSON text with a line for each event."""
        trace = self.to_dict()
        events = ",\n".join(json.dumps(event) for event in trace.pop("traceEvents"))
        head = json.dumps(trace)[1:-1]
        return f'{{{head}, "traceEvents": [\n{events}\n]}}\n'


def _task_of(event: Event) -> Task:
    assert event.task is not None, "tasks and ops have one"
    return event.task


def _cost(event: Event) -> Json:
    """The cost of the op of an event, and its rates."""
    op = event.op or _task_of(event).ops[0]
    # A slice of a long loop is of all its iterations.
    found: Json = {"calls": op.calls} if op.calls > 1 else {}
    for key, rate, amount in (
        ("flops", "GFLOP/s", op.flops),
        ("bytes", "GB/s", op.bytes),
    ):
        if amount is not None:
            found[key] = amount
            if event.duration:
                found[rate] = round(amount / event.duration, 3)
    return found
