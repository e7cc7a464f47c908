"""Traces: what viewers may ask of the file, and what it says of programs we know."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, TypeAlias

import pytest

from penstock.runtime.core.core import Core
from penstock.runtime.core.io_kernels import Callback
from penstock.runtime.errors import TaskError
from penstock.runtime.executors.simulator import simulate
from penstock.runtime.observe.chrome_trace import Trace
from penstock.runtime.observe.event_log import Log
from penstock.runtime.observe.observers import Observers
from penstock.runtime.observe.program_info import subject_of
from penstock.runtime.program.tables import Actor, Call, Register, Tables

Json: TypeAlias = "dict[str, Any]"

NEEDED = {
    "X": {"name", "cat", "pid", "tid", "ts", "dur", "args"},
    "M": {"name", "pid", "tid", "args"},
    "C": {"name", "pid", "tid", "ts", "args"},
    "s": {"name", "cat", "pid", "tid", "ts", "id"},
    "f": {"name", "cat", "pid", "tid", "ts", "id", "bp"},
}
"""The phases that may occur, and the keys of each."""


def check(trace: Json) -> list[Json]:
    """Check the rules of the format, and return the events."""
    events: list[Json] = trace["traceEvents"]
    named = {event["tid"] for event in events if event["ph"] == "M"}
    times = [event["ts"] for event in events if event["ph"] != "M"]
    assert times == sorted(times)
    for event in events:
        assert event.keys() == NEEDED[event["ph"]] | {"ph"}
        assert event["tid"] in named
        assert event.get("dur", 0) >= 0
    tracks: defaultdict[int, list[Json]] = defaultdict(list)
    for event in slices(events):
        tracks[event["tid"]].append(event)
    for track in tracks.values():
        check_nesting(track)
    check_flows(events, tracks)
    return events


def check_nesting(track: Sequence[Json]) -> None:
    """Slices of a track lie side by side or inside each other."""
    open_until: list[float] = []
    for event in sorted(track, key=lambda e: (e["ts"], -e["dur"])):
        while open_until and open_until[-1] <= event["ts"] + 1e-9:
            open_until.pop()
        end = event["ts"] + event["dur"]
        assert not open_until or end <= open_until[-1] + 1e-6
        open_until.append(end)


def check_flows(events: Sequence[Json], tracks: dict[int, list[Json]]) -> None:
    """Each flow starts in a slice and ends at the start of a later one."""
    starts = {event["id"]: event for event in events if event["ph"] == "s"}
    ends = {event["id"]: event for event in events if event["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert len(starts) == sum(event["ph"] == "s" for event in events)
    for number, start in starts.items():
        end = ends[number]
        assert (start["name"], start["cat"]) == (end["name"], end["cat"])
        assert start["ts"] <= end["ts"]
        inside = [
            s
            for s in tracks[start["tid"]]
            if s["ts"] <= start["ts"] <= s["ts"] + s["dur"]
        ]
        assert inside
        assert any(s["ts"] == end["ts"] for s in tracks[end["tid"]])


def slices(events: Sequence[Json]) -> list[Json]:
    return [event for event in events if event["ph"] == "X"]


def of(events: Sequence[Json], category: str) -> list[tuple[str, float, float]]:
    """Names, starts and ends of the slices of a category."""
    return [
        (event["name"], event["ts"], event["ts"] + event["dur"])
        for event in slices(events)
        if event["cat"] == category
    ]


def pair(slots: int = 1) -> Tables:
    """`make` on worker 0, which fills `r` for `take` on worker 1."""
    register = Register("r", 0, slots)
    return Tables([register], [Actor("make", 0, (), (0,)), Actor("take", 1, (0,))])


def virtual(tables: Tables, acts: int, times: Sequence[int]) -> list[Json]:
    """The events of a run on the virtual clock, in microseconds."""
    trace = Trace()
    watching = Observers(lambda: subject_of(tables))
    watching.attach(trace)
    with watching.watch(acts, virtual=True) as log:
        assert log is not None
        simulate(tables, acts, times, log)
    return check(json.loads(trace.to_json()))


def real(tables: Tables, acts: int) -> list[Json]:
    """The events of a run of the compiled core."""
    trace = Trace()
    watching = Observers(lambda: subject_of(tables))
    watching.attach(trace)
    with Core(tables) as core, watching.watch(acts) as log:
        core.run(acts, log)
    return check(json.loads(trace.to_json()))


def test_acts_of_two_streams_and_why_they_wait():
    # take needs 3 us for what make does in 1 us, and there is one slot.
    events = virtual(pair(), 2, [1000, 3000])
    assert of(events, "task") == [
        ("make", 0, 1),
        ("take", 1, 4),
        ("make", 4, 5),
        ("take", 5, 8),
    ]
    assert of(events, "idle") == [
        ("waits for r", 0, 1),
        ("waits for r", 1, 4),
        ("waits for r", 4, 5),
    ]
    reasons = [e["args"] for e in slices(events) if e["cat"] == "idle"]
    piece = {"register": "r", "missing": "piece", "from": "make", "task": "take"}
    slot = {"register": "r", "missing": "free slot", "from": "take", "task": "make"}
    assert reasons == [piece, slot, piece]


def test_a_second_slot_ends_the_wait_for_one():
    events = virtual(pair(2), 2, [1000, 3000])
    assert of(events, "task") == [
        ("make", 0, 1),
        ("make", 1, 2),
        ("take", 1, 4),
        ("take", 4, 7),
    ]
    assert of(events, "idle") == [("waits for r", 0, 1)]


def test_of_two_registers_the_later_one_is_the_reason():
    registers = [Register("early", 0), Register("late", 1)]
    actors = [Actor("a", 0, (), (0,)), Actor("b", 1, (), (1,)), Actor("c", 2, (0, 1))]
    events = virtual(Tables(registers, actors), 1, [1000, 2000, 500])
    assert of(events, "idle") == [("waits for late", 0, 2)]


def test_initial_pieces_are_waited_for_by_nobody():
    tables = Tables(
        [Register("r", 0, 2, 1)], [Actor("make", 0, (), (0,)), Actor("take", 1, (0,))]
    )
    events = virtual(tables, 2, [1000, 100])
    # The first piece is there; the second one is made in the first act.
    assert of(events, "idle") == [("waits for r", 0.1, 1)]
    flows = [(e["ts"], e["tid"]) for e in events if e["ph"] == "s"]
    assert len(flows) == 1


def test_flows_lead_from_each_piece_to_its_reader():
    events = virtual(pair(2), 3, [1000, 3000])
    starts = [e["ts"] for e in events if e["ph"] == "s"]
    ends = [e["ts"] for e in events if e["ph"] == "f"]
    # In the last nanosecond of who makes it.
    assert starts == [0.999, 1.999, 4.999]
    assert ends == [1, 4, 7]
    assert {e["cat"] for e in events if e["ph"] in "sf"} == {"control"}


def test_flows_can_be_left_out():
    tables, trace = pair(), Trace(flows=False)
    watching = Observers(lambda: subject_of(tables))
    watching.attach(trace)
    with watching.watch(1, virtual=True) as log:
        assert log is not None
        simulate(tables, 1, [1, 1], log)
    assert {e["ph"] for e in check(trace.to_dict())} == {"M", "X"}


def test_a_real_run_has_the_order_of_the_program():
    def nap(args: int, part: int, parts: int) -> int:
        time.sleep(0.002)
        return 0

    kernel = Callback(nap)
    registers = [Register(f"r{i}", i) for i in range(2)]
    calls = (Call(kernel.address), Call(kernel.address))
    actors = [
        Actor("a", 0, (), (0,), calls),
        Actor("b", 1, (0,), (1,), calls[:1]),
        Actor("c", 0, (1,), (), ()),
    ]
    events = real(Tables(registers, actors, [kernel]), 2)
    tasks = of(events, "task")
    for act in range(2):
        a, b, c = (
            [(s, e) for n, s, e in tasks if n == name][act] for name in ("a", "b", "c")
        )
        assert a[1] - a[0] >= 4000
        assert b[1] - b[0] >= 2000
        assert a[1] <= b[0] <= b[1] <= c[0]
    assert [name for name, _, _ in of(events, "op")] == ["call 0", "call 1"] * 2
    ((_, start, end),) = of(events, "run")
    assert start == 0
    assert all(start <= s <= e <= end for _, s, e in tasks)
    assert ("waits for r0", 0) in [(n, s) for n, s, _ in of(events, "idle")]


def test_two_runs_follow_each_other():
    tables, trace = pair(), Trace()
    watching = Observers(lambda: subject_of(tables))
    watching.attach(trace)
    with Core(tables) as core:
        for _ in range(2):
            with watching.watch(3) as log:
                core.run(3, log)
    events = check(trace.to_dict())
    assert len(of(events, "task")) == 12
    first, second = of(events, "run")
    assert first[2] <= second[1]
    assert {e["args"]["run"] for e in slices(events) if e["cat"] == "task"} == {0, 1}


def test_a_failed_act_says_why():
    kernel = Callback(lambda args, part, parts: 9)
    tables, trace = (
        Tables([], [Actor("bad", 0, calls=(Call(kernel.address),))]),
        Trace(),
    )
    watching = Observers(lambda: subject_of(tables))
    watching.attach(trace)
    with Core(tables) as core, pytest.raises(TaskError), watching.watch(1) as log:
        core.run(1, log)
    (task,) = (e for e in slices(check(trace.to_dict())) if e["cat"] == "task")
    message = "TaskError: task 'bad' failed at act 0 with code 9"
    assert task["args"]["error"] == message


def test_names_are_kept_whatever_they_hold():
    name = 'a "b" \\ <c> \n é'
    events = virtual(Tables([], [Actor(name)]), 1, [1])
    assert [n for n, _, _ in of(events, "task")] == [name]


def test_logs_of_many_acts_are_whole():
    tables = pair(4)
    log = Log(tables, 1000)
    with Core(tables) as core:
        core.run(1000, log)
    rows = log.rows()
    for actor in range(2):
        acts = [row for row in rows if row.actor == actor]
        assert [row.act for row in acts] == list(range(1000))
        times = [time for row in acts for time in (row.start, row.end)]
        assert times == sorted(times)
