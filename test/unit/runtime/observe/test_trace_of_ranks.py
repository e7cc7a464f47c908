"""The time lines of several ranks as one."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from penstock.runtime.observe.trace_of_ranks import (
    RankTrace,
    offset_of,
    text_of,
    trace_of_ranks,
)
from penstock.tools.reports.view.trace_file import trace_of


def trace(name: str, *events: dict[str, Any]) -> dict[str, Any]:
    head = {"name": "process_name", "ph": "M", "pid": 1, "tid": 0}
    return {
        "displayTimeUnit": "ns",
        "otherData": {"program": name, "version": 1},
        "traceEvents": [{**head, "args": {"name": f"@{name}"}}, *events],
    }


def act(name: str, at: float, op: str, message: str | None = None) -> dict[str, Any]:
    facts = {"act": 0, "run": 1, "op": op} | ({"message": message} if message else {})
    where = {"ph": "X", "pid": 1, "tid": 1, "ts": at, "dur": 2.0}
    return {"name": name, "cat": "task", **where, "args": facts}


def flow(phase: str, at: float) -> dict[str, Any]:
    return {"ph": phase, "pid": 1, "tid": 1, "ts": at, "id": 1, "name": "r"}


def test_ranks_are_processes_on_one_line_of_time() -> None:
    first = trace("j_0", act("a", 0.0, "op.relu"), flow("s", 1.0), flow("f", 3.0))
    second = trace("j_1", act("b", 5.0, "op.relu"), flow("s", 6.0), flow("f", 7.0))
    found = trace_of_ranks([RankTrace(first, 1_004_000), RankTrace(second, 1_000_000)])
    assert found["otherData"] == {"programs": ["j_0", "j_1"], "version": 1}
    names = [x for x in found["traceEvents"] if x["ph"] == "M"]
    assert [x["args"]["name"] for x in names] == ["rank 0: @j_0", "rank 1: @j_1"]
    acts = {x["name"]: x for x in found["traceEvents"] if x["ph"] == "X"}
    assert (acts["a"]["pid"], acts["a"]["ts"]) == (1, 4.0)
    assert (acts["b"]["pid"], acts["b"]["ts"]) == (2, 5.0)
    # Flows of different ranks stay apart.
    flows = {x["pid"]: x["id"] for x in found["traceEvents"] if x["ph"] in "sf"}
    assert flows[1] != flows[2]
    times = [x["ts"] for x in found["traceEvents"] if "ts" in x]
    assert times == sorted(times)
    assert json.loads(text_of(found)) == found


def test_a_page_shows_the_tracks_of_all_ranks() -> None:
    name = {"name": "thread_name", "ph": "M", "pid": 1, "tid": 1}
    ranks = [
        trace(program, {**name, "args": {"name": "stream 0"}}, act(at, 0.0, "op.relu"))
        for program, at in (("j_0", "a"), ("j_1", "b"))
    ]
    found = trace_of(trace_of_ranks([RankTrace(each, 0) for each in ranks]))
    assert found.programs == ("j_0", "j_1")
    (first, second) = found.tracks
    assert [*found.tracks.values()] == ["rank 0: stream 0", "rank 1: stream 0"]
    assert {x.name: x.track for x in found.slices} == {"a": first, "b": second}
    assert [found.rank_of(track) for track in found.tracks] == [0, 1]
    assert trace_of(ranks[0]).rank_of(first) is None


def test_flows_lead_from_a_message_to_where_it_is_received() -> None:
    first = trace(
        "j_0", act("m/send", 4.0, "send", "1/3"), act("x", 1.0, "send", "1/9")
    )
    second = trace("j_1", act("m", 3.0, "receive", "0/3"))
    found = trace_of_ranks([RankTrace(first, 0), RankTrace(second, 2000)])
    start, end = (
        next(x for x in found["traceEvents"] if x["ph"] == phase) for phase in "sf"
    )
    assert start["id"] == end["id"]
    assert (start["pid"], start["ts"], end["pid"], end["ts"]) == (1, 4.0, 2, 5.0)
    # Nothing receives the other one.
    assert sum(x["ph"] == "s" for x in found["traceEvents"]) == 1


def test_the_offset_of_a_clock_is_found_by_exchanges() -> None:
    random, offset = np.random.default_rng(3), -1_234_567
    rounds: list[tuple[int, int, int, int]] = []
    least = 1 << 60
    for start in range(0, 8_000_000, 1_000_000):
        there, back = (int(x) for x in random.integers(100, 5000, 2))
        least = min(least, there + back)
        # Both send at about the same time, each on its own clock.
        sent, sent_there = start, start + 40 + offset
        got, got_there = sent_there - offset + back, sent + offset + there
        rounds.append((sent, got, sent_there, got_there))
    assert abs(offset_of(rounds) - offset) <= least // 2 + 1
