"""Observers of streams: told of the same in every engine, in order, always in pairs."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from penstock.runtime.core.state_layout import WHOLE
from penstock.runtime.errors import PenstockError, TaskError
from penstock.runtime.executors import stream as stream_module
from penstock.runtime.executors.executor import Executor
from penstock.runtime.executors.stream import Stream
from penstock.runtime.observe.chrome_trace import Trace
from penstock.runtime.observe.event_log import RING, StreamLog
from penstock.runtime.observe.metrics import CountObserver, MemoryObserver, Sampled
from penstock.runtime.observe.observers import Event, Level, Observer
from penstock.runtime.program.tables import Actor, Tables

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "executors"))

from test_observers import Diary, assert_paired
from test_stream import (
    NUMBER,
    Text,
    cases,
    engines,
    executor,
    main_job,
    number,
    pair,
    values,
)
from test_trace import check


def rates() -> Text:
    """Sums of four of x, each with the sum of one y and one z, whichever is first."""
    text = Text()
    for port in "xyz":
        text.feed(port)
    text.register("sum")
    steps = [
        'launch.copy @x to @sum {when = "first"}',
        'launch.call @add [@x, @sum] {when = "rest"}',
    ]
    text.actor("acc", ["x"], ["sum"], steps, every={"sum": 4})
    text.register("one")
    steps = [
        f'launch.copy @{x} to @one {{on = @{x}, when = "first"}} '
        f'launch.call @add [@{x}, @one] {{on = @{x}, when = "rest"}}'
        for x in "yz"
    ]
    text.actor("any", ["y", "z"], ["one"], steps, kind='kind "input_wise"')
    text.add("both", "sum", "one")
    text.fetch("both")
    return text


ACTS = {
    **{"feed_x": 12, "feed_y": 3, "feed_z": 3},
    **{"acc": 12, "any": 6, "add_both": 3, "fetch_both": 3},
}
"""The number of acts of each actor for three results."""


def give(stream: Stream, first: int = 0, last: int = 3) -> list[int]:
    """The results of `rates` for some pieces."""
    found: list[int] = []
    for turn in range(first, last):
        for value in range(4):
            stream.put("x", pair(10 * turn + value), 300)
        stream.put("z", pair(1000), 300)
        stream.put("y", pair(2000), 300)
        found.append(int(stream.take("both", 300)[0]))
    return found


@contextmanager
def told_by(
    text: Text,
    engine: str,
    threads: int,
    *observers: Observer,
    levels: Sequence[Level] = ("run", "task", "op"),
) -> Generator[Stream]:
    with executor(text, engine, threads) as runner:
        for observer in observers:
            runner.observers.attach(observer, levels)
        with runner.stream() as stream:
            yield stream


def small_logs(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    """Let the logs of streams have room for so many rows."""
    monkeypatch.setattr(stream_module, "StreamLog", partial(StreamLog, room=room))


@engines
@pytest.mark.parametrize("room", [1, 16, RING])
def test_every_act_is_told_once_whatever_the_log_has_room_for(
    engine: str, threads: int, room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_logs(monkeypatch, room)
    diary = Diary()
    with told_by(rates(), engine, threads, diary) as stream:
        found = give(stream)
        stream.finish(300)
    assert found == [10 * 4 * turn + 6 + 3000 for turn in range(3)]
    assert_paired(diary.lines)
    tasks = Counter((v, e.name, e.act) for v, e in diary.lines if e.level == "task")
    assert tasks == {
        (verb, name, act): 1
        for verb in ("start", "stop")
        for name, count in ACTS.items()
        for act in range(count)
    }
    # Of the two steps of a sum one is made for each piece; add_both makes two calls.
    ops = [e for v, e in diary.lines if e.level == "op" and v == "stop"]
    assert len(ops) == sum(ACTS.values()) + ACTS["add_both"]
    times = [e.start if v == "start" else e.end for v, e in diary.lines]
    assert times == sorted(times)
    (first, run), (last, end) = diary.lines[0], diary.lines[-1]
    assert (first, last) == ("start", "stop")
    assert run.level == end.level == "run"
    assert all(run.start <= time <= end.end for time in times)


@engines
def test_a_long_stream_is_told_of_before_it_ends(
    engine: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_logs(monkeypatch, 8)
    counts = CountObserver()
    with told_by(rates(), engine, threads, counts) as stream:
        give(stream, 0, 10)
        early = counts.stopped["task", "acc"]
        stream.finish(300)
    assert 20 <= early <= 40
    assert counts.stopped["task", "acc"] == 40


def test_nothing_is_told_of_that_is_later_than_what_goes_on() -> None:
    log = StreamLog(Tables([], [Actor("slow", 0), Actor("quick", 1)]), 4)
    slow = log.open(WHOLE, 0, 0)
    for act in range(7):
        log.close(1, log.open(WHOLE, 1, act), 0)
    (begun, *_) = (row for row in log.rows() if row.actor == 0)
    time.sleep(0.005)
    rows, until = log.take()
    assert [(row.actor, row.act) for row in rows] == [(1, act) for act in range(7)]
    assert until == begun.start
    log.close(0, slow, 0)
    time.sleep(0.005)
    (row,), until = log.take()
    assert (row.actor, row.start) == (0, begun.start)
    assert until > row.end
    assert log.rows() == []


@engines
def test_jobs_of_a_main_job_are_told_in_pairs(engine: str, threads: int) -> None:
    diary = Diary()
    with told_by(main_job(), engine, threads, diary) as stream:
        ending = stream.run({"job": [number(x) for x in (0, 1, 1, 0, 1)]})
    assert_paired(diary.lines)
    work = Counter(e.name for v, e in diary.lines if e.level == "task" and v == "stop")
    assert [work[f"work_{i}"] for i in range(3)] == [2, 3, 3]
    assert len(values(ending, "out_1")) == 3


@engines
def test_a_number_that_is_wrong_is_told_as_failed(engine: str, threads: int) -> None:
    diary = Diary()

    def run(stream: Stream) -> None:
        stream.put("which", number(1), 300)
        stream.put("which", number(5), 300)
        stream.finish(300)

    with (
        told_by(cases(False), engine, threads, diary) as stream,
        pytest.raises(TaskError),
    ):
        run(stream)
    assert_paired(diary.lines)
    failed = [(e.level, e.name) for v, e in diary.lines if v == "fail TaskError"]
    assert failed == [("task", "case"), ("run", "p")]


@engines
def test_a_stream_that_is_closed_early_has_failed(engine: str, threads: int) -> None:
    diary = Diary()
    with told_by(rates(), engine, threads, diary) as stream:
        give(stream, 0, 1)
    assert_paired(diary.lines)
    assert [(v, e.level) for v, e in diary.lines if v.startswith("fail")] == [
        ("fail PenstockError", "run")
    ]
    stops = Counter(e.name for v, e in diary.lines if e.level == "task" and v == "stop")
    assert stops == {"acc": 4, "any": 2, "feed_x": 4} | dict.fromkeys(
        ("feed_y", "feed_z", "add_both", "fetch_both"), 1
    )


def test_a_stream_is_a_run_between_others() -> None:
    text = Text()
    text.feed("x")
    text.fetch("x")
    diary, every = Diary(), Diary()
    with executor(text) as runner:
        runner.observers.attach(diary, ["run"])
        runner.observers.attach(Sampled(every, 2), ["run"])
        runner.run({"x": pair(1)})
        with runner.stream() as stream:
            stream.run({"x": [pair(1), pair(2)]})
        runner.run({"x": pair(1)})
    runs = [(e.run, e.act) for v, e in diary.lines if v == "stop"]
    assert runs == [(0, 1), (1, 0), (2, 1)]
    assert [e.run for v, e in every.lines if v == "stop"] == [0, 2]


def test_nothing_is_noted_while_nobody_looks_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(tables: object) -> None:
        raise AssertionError("a log was made")

    monkeypatch.setattr(stream_module, "StreamLog", refuse)
    with executor(rates()) as runner:
        runner.observers.detach(runner.observers.attach(CountObserver()))
        with runner.stream() as stream:
            give(stream)


@engines
def test_what_an_observer_raises_comes_when_the_stream_has_ended(
    engine: str, threads: int
) -> None:
    class Broken(Observer):
        def start(self, event: Event) -> None:
            raise ValueError(event.level)

    diary = Diary()
    with told_by(rates(), engine, threads, Broken(), diary) as stream:
        give(stream)
        with pytest.raises(ValueError, match="run"):
            stream.finish(300)
    assert diary.lines[-1][0] == "stop"
    assert_paired(diary.lines)


# Traces and bytes --------------------------------------------------------------------


def trace_of(runner: Executor) -> Trace:
    trace = runner.observers.attach(Trace())
    with runner.stream() as stream:
        give(stream)
        stream.finish(300)
    return trace


@engines
def test_a_trace_of_a_stream_has_its_acts_and_who_fed_whom(
    engine: str, threads: int
) -> None:
    with executor(rates(), engine, threads) as runner:
        events = check(trace_of(runner).to_dict())
    slices = [e for e in events if e["ph"] == "X" and e["cat"] in ("task", "edge")]
    assert Counter(e["name"] for e in slices) == ACTS
    flows = Counter(e["name"] for e in events if e["ph"] == "s")
    # The actor that takes its inputs in any order is not told apart by acts.
    assert flows == {"x": 12, "sum": 3, "one": 3, "both": 3}
    (run,) = [e for e in events if e["ph"] == "X" and e["cat"] == "run"]
    assert "error" not in run["args"]


def test_flows_lead_from_the_last_act_for_a_piece() -> None:
    with executor(rates(), "sim") as runner:
        events = check(trace_of(runner).to_dict())
    ids = {e["id"]: e["ts"] for e in events if e["ph"] == "s" and e["name"] == "sum"}
    acts = [e for e in events if e["ph"] == "X" and e["name"] == "acc"]
    lasts = [e["ts"] + e["dur"] for e in acts if e["args"]["act"] % 4 == 3]
    for moment, last in zip(sorted(ids.values()), lasts, strict=True):
        assert last - 0.0011 <= moment <= last


@engines
def test_live_bytes_of_a_stream_end_with_it(engine: str, threads: int) -> None:
    memory = MemoryObserver()
    with executor(rates(), engine, threads) as runner:
        runner.observers.attach(memory)
        with runner.stream() as stream:
            give(stream)
            stream.finish(300)
        (size,) = (chunk.size for chunk in runner.program.image.chunks)
    (live,) = memory.live.values()
    assert live[-1][1] == 0
    # The sum lasts from its first x to its reader, the register of x from act to act.
    assert 32 <= memory.peak["memory"] <= size


def test_bytes_that_numbers_rule_are_not_counted() -> None:
    text = Text()
    text.feed("id", NUMBER)
    text.register("next", NUMBER, 2)
    lists = "[array<i64: 1, 2>, array<i64: 3>]"
    text.actor("send", ["id"], ["next"], kind=f'kind "send_ids" lists {lists}')
    text.fetch("next")
    memory = MemoryObserver()
    with told_by(text, "sequential", 1, memory) as stream:
        ending = stream.run({"id": [number(0), number(1)]})
    assert values(ending, "next") == [1, 2, 3]
    assert memory.peak == {"memory": 0}


def test_a_closed_stream_says_so() -> None:
    with told_by(rates(), "sequential", 1) as stream:
        stream.close()
        with pytest.raises(PenstockError, match="the stream is closed"):
            stream.take("both")
