"""
The time lines of several ranks as one, on the clock of rank 0.

Each rank is a process of the trace. Flows lead from each message that a rank sends to
where another one receives it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.runtime.observe.chrome_trace import VERSION, Json


class RankTrace(NamedTuple):
    """
    The trace of one rank (`Trace.to_dict`), and the time at which it begins, in
    nanoseconds of the clock of rank 0.
    """

    trace: Json
    start: int


def trace_of_ranks(traces: Sequence[RankTrace]) -> Json:
    """The trace of all ranks, in the order of their numbers."""
    first = min(each.start for each in traces)
    moved = [
        [
            _moved(event, rank, len(traces), each.start - first)
            for event in each.trace["traceEvents"]
        ]
        for rank, each in enumerate(traces)
    ]
    events = [event for found in moved for event in found]
    flows = max((event.get("id", 0) for event in events), default=0)
    events += _messages(moved, flows + 1)
    names = [event for event in events if event["ph"] == "M"]
    others = [event for event in events if event["ph"] != "M"]
    return {
        "displayTimeUnit": "ns",
        "otherData": {
            "programs": [each.trace["otherData"]["program"] for each in traces],
            "version": VERSION,
        },
        "traceEvents": [*names, *sorted(others, key=lambda event: event["ts"])],
    }


def text_of(trace: Json) -> str:
    """A trace as a JSON text with a line for each event."""
    events = ",\n".join(json.dumps(event) for event in trace["traceEvents"])
    head = json.dumps({key: x for key, x in trace.items() if key != "traceEvents"})
    return f'{{{head[1:-1]}, "traceEvents": [\n{events}\n]}}\n'


def offset_of(rounds: Sequence[tuple[int, int, int, int]]) -> int:
    """
    The nanoseconds to be added to the own clock to get that of another process.

    In each round both send their time to each other: when the own one was sent, when
    the other one's arrived, both on the own clock; and when the other one was sent, and
    the own one arrived there, on the other clock. The round that took the least time
    tells best: half of that is the largest error.
    """

    def trip(times: tuple[int, int, int, int]) -> int:
        sent, got, sent_there, got_there = times
        return got - sent + got_there - sent_there

    sent, got, sent_there, got_there = min(rounds, key=trip)
    return (got_there - sent - (got - sent_there)) // 2


def _moved(event: Json, rank: int, count: int, later: int) -> Json:
    """An event in the process of its rank, and at its time on the common line."""
    made = {**event, "pid": rank + 1}
    if "ts" in event:
        made["ts"] = event["ts"] + later / 1000
    if "id" in event:
        made["id"] = event["id"] * count + rank
    if event["name"] == "process_name":
        made["args"] = {"name": f"rank {rank}: {event['args']['name']}"}
    return made


def _messages(ranks: Sequence[Sequence[Json]], flow: int) -> Iterator[Json]:
    """Two events for each message: where it is sent, and where it is received."""
    ends: dict[tuple[str, int, int, str, int, int], Json] = {}
    for rank, events in enumerate(ranks):
        for event in events:
            facts = event.get("args", {})
            message = facts.get("message")
            if event["ph"] == "X" and message and facts["op"] != "collective":
                peer, tag = message.split("/")
                pair = (rank, int(peer)) if facts["op"] == "send" else (int(peer), rank)
                ends[facts["op"], *pair, tag, facts["run"], facts["act"]] = event
    for key, sent in ends.items():
        got = ends.get(("receive", *key[1:])) if key[0] == "send" else None
        if got is None:
            continue
        flow += 1
        facts = {"name": sent["name"], "cat": "message", "id": flow}
        # The sender may hear of it later than the receiver.
        start = min(sent["ts"], got["ts"])
        yield {**facts, **_place(sent), "ph": "s", "ts": start}
        yield {**facts, **_place(got), "ph": "f", "ts": got["ts"], "bp": "e"}


def _place(event: Json) -> Json:
    return {key: event[key] for key in ("pid", "tid")}
