"""
Trace files, as `penstock-run --trace` writes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

from penstock.tools.driver.errors import FileError, UsageError, explain_os_error

Json: TypeAlias = "dict[str, Any]"
"""A value of a JSON text, which has no types."""

VERSION = 1
TRACKS = 1 << 16
"""The numbers of tracks of each rank, in a trace of several."""


class Slice(NamedTuple):
    """A slice of a track; times are in microseconds from the start of the trace."""

    name: str
    category: str
    track: int
    start: float
    duration: float
    facts: Mapping[str, object]


class TraceFile(NamedTuple):
    """The tracks of a trace by number, each with its slices in order of time."""

    program: str
    tracks: Mapping[int, str]
    slices: tuple[Slice, ...]


def read_trace(path: Path) -> TraceFile:
    """
    The trace in a file.

    Raises UsageError if the file cannot be opened, FileError if it is no trace of ours.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {explain_os_error(error)}") from error
    except UnicodeDecodeError as error:
        raise FileError(f"{path} is no trace: it is no text") from error
    try:
        whole: object = json.loads(text)
    except ValueError as error:
        raise FileError(f"{path} is no trace: it is no JSON: {error}") from error
    try:
        return trace_of(whole)
    except ValueError as error:
        raise FileError(f"{path} is no trace: {error}") from error


def trace_of(whole: object) -> TraceFile:
    """The trace in a JSON value. Raises ValueError if it is no trace of ours."""
    head = _object(whole, "the file")
    other = _object(head.get("otherData"), "otherData")
    if (version := other.get("version")) != VERSION:
        raise ValueError(f"it has version {version}, not {VERSION}")
    events: object = head.get("traceEvents")
    if not isinstance(events, list):
        raise ValueError("traceEvents is no list")
    tracks: dict[int, str] = {}
    slices: list[Slice] = []
    for number, entry in enumerate(cast("list[object]", events)):
        event = _object(entry, f"event {number}")
        if event.get("ph") == "X":
            slices.append(_slice_from(event, number))
        elif event.get("ph") == "M" and event.get("name") == "thread_name":
            name = _object(event.get("args"), f"args of event {number}").get("name")
            rank = int(event.get("pid", 1)) - 1
            of_rank = f"rank {rank}: " if "programs" in other else ""
            tracks[_track_of(event)] = f"{of_rank}{name}"
    slices.sort(key=lambda s: (s.start, -s.duration))
    program = other.get("program", ", ".join(map(str, other.get("programs", ()))))
    return TraceFile(str(program), tracks, tuple(slices))


def _track_of(event: Json) -> int:
    """The track of an event, of whichever rank."""
    return (int(event.get("pid", 1)) - 1) * TRACKS + int(event.get("tid", 0))


def _object(value: object, what: str) -> Json:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is no object")
    return cast("Json", value)


def _slice_from(event: Json, number: int) -> Slice:
    for key in ("tid", "ts", "dur"):
        if not isinstance(event.get(key), Real):
            raise ValueError(f"{key} of event {number} is no number")
    facts = _object(event.get("args", {}), f"args of event {number}")
    name, category = str(event.get("name", "")), str(event.get("cat", ""))
    place = _track_of(event), float(event["ts"]), float(event["dur"])
    return Slice(name, category, *place, facts)
