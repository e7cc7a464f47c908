"""Streams that do not go on: who is stuck, unless all wait for the caller."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from watched_runs import Clock, Reports, without_times

from penstock.runtime.core.state_layout import CONDITION, LOCKED, QUEUED, WORKER_WORDS
from penstock.runtime.core.watchdog import Watchdog
from penstock.runtime.errors import PenstockError, WatchdogError
from penstock.runtime.executors import stream as stream_module
from penstock.runtime.executors.stream import Stream
from penstock.runtime.executors.stream_core import StreamCore, is_idle
from penstock.runtime.observe.event_log import StreamLog
from penstock.runtime.observe.metrics import CountObserver
from penstock.runtime.testing.fault_injection import Fault, Gate, KernelFault, inject

sys.path.insert(0, str(Path(__file__).parents[1] / "executors"))

from test_stream import (
    NUMBER,
    Text,
    executor,
    number,
    pair,
    values,
    without_places,
)

SECONDS = 0.01
"""The wait of a watchdog, on a clock that stands still, but for jumps."""

threads_of = pytest.mark.parametrize("threads", [1, 2, 3])


def sums(slots: int = 1) -> Text:
    text = Text()
    text.feed("x")
    text.feed("y")
    text.add("s", "x", "y", slots=slots)
    text.fetch("s")
    return text


Start = Callable[..., "Future[Any]"]


@contextmanager
def watched(
    text: Text,
    reports: Reports,
    threads: int,
    *faults: Fault,
    fails: bool = True,
) -> Generator[tuple[Stream, Clock, Callable[[str, int | None], bool]]]:
    """
    A stream, the clock of its watchdog, and whether an actor is in its kernel when all
    have made so many acts.
    """
    clock = Clock()
    with watched_cores() as cores, executor(text, threads=threads) as run:
        run.watch(Watchdog(SECONDS, reports, fails, clock))
        with inject(run, *faults), run.stream() as stream:
            yield stream, clock, partial(is_at, cores[-1])


WATCH: Callable[..., None] = StreamCore.watch


@contextmanager
def watched_cores() -> Generator[list[StreamCore]]:
    """The cores of streams that are watched from now on."""
    cores: list[StreamCore] = []

    def watch(core: StreamCore, *arguments: Any) -> None:
        cores.append(core)
        WATCH(core, *arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StreamCore, "watch", watch)
        yield cores


def rests(cores: list[StreamCore]) -> bool:
    """Whether the last stream has done all it can until its caller does something."""
    core = cores[-1]
    # Nothing else says it, and what it is not told by others cannot change.
    return is_idle(core.memory, core._helpers)  # pyright: ignore[reportPrivateUsage]


def is_at(core: StreamCore, name: str, acts: int | None) -> bool:
    """Whether an actor is in its kernel, and all have made so many acts."""
    index = [actor.name for actor in core.tables.actors].index(name)
    base = core.tables.actors[index].worker * WORKER_WORDS
    actors, place = core.memory.state.actors, int(core.memory.layout.place[index])
    return bool(
        acts in (None, core.acts_made())
        and core.memory.state.workers[base + LOCKED]
        and actors[place + QUEUED] == 0
        and actors[place + CONDITION] == core.memory.layout.condition_start[index + 1]
    )


def put(stream: Stream, value: int) -> None:
    for name in "xy":
        stream.put(name, pair(value), 300)


@threads_of
def test_a_stalled_stream_is_reported_and_ends(threads: int) -> None:
    reports = Reports()
    fault = KernelFault("add_s", act=1, seconds=600, call=1)
    # Two acts of each feed, one of all others.
    with watched(sums(), reports, threads, fault) as (stream, clock, at):
        put(stream, 3)
        assert int(stream.take("s", 300)[0]) == 6
        clock.jump(2 * SECONDS, lambda: at("add_s", 6))
        put(stream, 4)
        with pytest.raises(WatchdogError) as caught:
            stream.take("s", 300)
        # Whatever is asked for later has the same answer.
        with pytest.raises(WatchdogError):
            stream.finish(300)
    lines = without_times(str(caught.value))
    assert lines == without_times(reports.texts[0])
    assert without_places(lines) == [
        "'feed_x' at act 2: no piece in register 'x' from the caller; "
        "no free slot in register 'x', held by 'add_s'",
        "'feed_y' at act 2: no piece in register 'y' from the caller; "
        "no free slot in register 'y', held by 'add_s'",
        "'add_s' at act 1: is in copy x to s, kernel add",
        "'fetch_s' at act 1: no piece in register 's' from 'add_s'",
    ]
    assert len(reports.texts) == 1


@pytest.mark.parametrize("threads", [1, 3])
def test_who_waits_for_the_caller_is_not_stuck(threads: int) -> None:
    reports, counts, clock = Reports(), CountObserver(), Clock()
    with watched_cores() as cores, executor(sums(), threads=threads) as runner:
        runner.watch(Watchdog(SECONDS, reports, clock=clock))
        runner.observers.attach(counts)
        with runner.stream() as stream:
            put(stream, 3)
            # Neither while nobody takes what there is, nor while nobody gives more.
            clock.pass_by(2 * SECONDS, lambda: rests(cores))
            assert int(stream.take("s", 300)[0]) == 6
            clock.jump(2 * SECONDS, lambda: rests(cores))
            with pytest.raises(TimeoutError):
                stream.take("s", 0.05)
            clock.pass_by(2 * SECONDS, lambda: rests(cores))
            stream.put("x", pair(1), 300)
            clock.pass_by(2 * SECONDS, lambda: rests(cores))
            assert stream.finish(300).outputs == {"s": []}
    assert reports.texts == []
    assert counts.stopped["task", "add_s"] == 1


@threads_of
def test_time_that_the_caller_takes_does_not_count(threads: int, start: Start) -> None:
    reports, gate = Reports(), Gate()
    # The first to act, so that nothing is done after the pause and before the kernel.
    fault = KernelFault("feed_x", act=0, gate=gate)
    with watched(sums(), reports, threads, fault) as (stream, clock, _):

        def let_time_pass() -> None:
            clock.pass_by(0.6 * SECONDS, lambda: gate.is_reached)
            gate.open()

        clock.pass_by(0.8 * SECONDS)
        passing = start(let_time_pass)
        put(stream, 3)
        assert int(stream.take("s", 300)[0]) == 6
        passing.result(300)
        stream.finish(300)
    assert reports.texts == []


def test_a_report_alone_lets_the_stream_go_on() -> None:
    gate = Gate()

    class Opening(Reports):
        """Reports that let the stream go on."""

        def __call__(self, text: str) -> None:
            super().__call__(text)
            gate.open()

    reports, fault = Opening(), KernelFault("add_s", act=0, gate=gate)
    with watched(sums(), reports, 2, fault, fails=False) as (stream, clock, at):
        clock.jump(2 * SECONDS, lambda: at("add_s", 2))
        put(stream, 3)
        assert int(stream.take("s", 300)[0]) == 6
        assert values(stream.finish(300), "s") == []
    assert len(reports.texts) == 1


def test_a_stall_while_the_caller_is_away_is_told_when_it_is_back() -> None:
    reports = Reports()
    fault = KernelFault("add_s", act=0, seconds=600)
    with watched(sums(), reports, 2, fault) as (stream, clock, at):
        clock.jump(2 * SECONDS, lambda: at("add_s", 2))
        put(stream, 3)
        assert reports.said.wait(300)
        with pytest.raises(WatchdogError):
            stream.take("s", 300)
    names = [thread.name for thread in threading.enumerate()]
    assert not [name for name in names if name.startswith("penstock")]


def test_actors_that_wait_for_others_to_end_say_so() -> None:
    # The sum ends with x, while another actor that reads y is in its kernel.
    reports = Reports()
    text = sums()
    text.add("t", "y")
    text.fetch("t")
    fault = KernelFault("add_t", act=1, seconds=600)
    with watched(text, reports, 3, fault) as (stream, clock, at):
        stream.put("x", pair(1), 300)
        for _ in range(3):
            stream.put("y", pair(1), 300)
        stream.end("x")
        # Of x one act of its feed, of y two, one of each sum and its fetch.
        clock.jump(2 * SECONDS, lambda: at("add_t", 7))
        with pytest.raises(WatchdogError) as caught:
            stream.finish(300)
    lines = without_places(without_times(str(caught.value)))
    assert "'add_s' at act 1: the end of register 'y' from 'feed_y'" in lines
    assert not [line for line in lines if "feed_x" in line]


def test_who_has_no_room_to_note_what_it_does_waits_for_the_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stream_module, "StreamLog", partial(StreamLog, room=8))
    reports = Reports()
    text = Text()
    text.feed("id", NUMBER)
    text.register("next", NUMBER, 2)
    numbers = ", ".join(map(str, range(50)))
    lists = f"[array<i64: {numbers}>]"
    text.actor("send", ["id"], ["next"], kind=f'kind "send_ids" lists {lists}')
    text.register("any", NUMBER)
    text.actor("esac", ["next"], ["any"], kind='kind "esac"')
    text.control("go")
    text.actor("case", ["any"], ["go"], kind='kind "case"')
    text.actor("end", ["go"], [])
    clock = Clock()
    with watched_cores() as cores, executor(text, threads=2) as runner:
        runner.watch(Watchdog(SECONDS, reports, clock=clock))
        runner.observers.attach(CountObserver())
        with runner.stream() as stream:
            stream.put("id", number(0), 300)
            clock.pass_by(2 * SECONDS, lambda: rests(cores))
            stream.finish(300)
    assert reports.texts == []


def test_engines_without_threads_cannot_be_watched() -> None:
    with executor(sums(), "sim") as runner, pytest.raises(PenstockError) as caught:
        runner.watch(Watchdog(1))
    assert str(caught.value) == "the sim engine cannot be watched"
