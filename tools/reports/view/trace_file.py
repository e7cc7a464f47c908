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


NAMING = ("from", "register", "task")
"""The facts of a slice that are names of its program."""


class Slice(NamedTuple):
    """A slice of a track; times are in microseconds from the start of the trace."""

    name: str
    category: str
    track: int
    start: float
    duration: float
    facts: Mapping[str, object]

    def renamed(self, names: Mapping[str, str]) -> Slice:
        """The same with other names, as far as there are some."""

        def name_of(key: str, value: object) -> object:
            if key not in NAMING or not isinstance(value, str):
                return value
            return names.get(value, value)

        facts = {key: name_of(key, value) for key, value in self.facts.items()}
        return self._replace(name=names.get(self.name, self.name), facts=facts)


class TraceFile(NamedTuple):
    """
    The tracks of a trace by number, each with its slices in order of time, and its
    program, or that of each rank.
    """

    programs: tuple[str, ...]
    tracks: Mapping[int, str]
    slices: tuple[Slice, ...]

    def rank_of(self, track: int) -> int | None:
        """The rank of a track, None in a trace of one process."""
        return track // TRACKS if len(self.programs) > 1 else None

    def renamed(self, names: Mapping[str, Mapping[str, str]]) -> TraceFile:
        """The same with other names for what is in its programs, by these."""
        of = [names[program] for program in self.programs]
        found = (piece.renamed(of[piece.track // TRACKS]) for piece in self.slices)
        return self._replace(slices=tuple(found)) if any(of) else self


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
    programs = other.get("programs", [other.get("program", "")])
    if not isinstance(programs, list):
        raise ValueError("programs is no list")
    names = tuple(map(str, cast("list[object]", programs)))
    used = {track // TRACKS for track in (*tracks, *(x.track for x in slices))}
    if not used <= {*range(len(names))}:
        raise ValueError(f"it has events of other processes than {len(names)}")
    return TraceFile(names, tracks, tuple(slices))


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
