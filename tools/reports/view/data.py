"""
The data of the page as JSON: a program, and a trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from penstock.runtime.program.executable import ActorImage, ProgramImage, Queue, Step
from penstock.tools.reports.view.layout import Edge, positions_of
from penstock.tools.reports.view.trace_file import TraceFile

Json: TypeAlias = "dict[str, Any]"
"""A value that `json.dumps` takes."""

SHOWN_FACTS = ("act", "run", "register", "missing", "from", "task", "error")
"""The facts of a slice that the page shows, if the trace has them."""


class Graph:
    """The tasks, registers and edges of a program, each with a number."""

    def __init__(self, image: ProgramImage) -> None:
        self.image = image
        self.kernels = {kernel.name: kernel for kernel in image.kernels}
        self.queues = [*image.queues]
        self.number = {queue.name: i for i, queue in enumerate(self.queues)}
        self.writer = {
            name: index
            for index, actor in enumerate(image.actors)
            for name in actor.writes
        }
        self.kinds = [self._kind(actor) for actor in image.actors]

    def _kind(self, actor: ActorImage) -> str:
        """
        The kind of a task: its ops, each once; without any it is a view, or a tick if
        it makes nothing that has bytes.
        """
        if actor.steps:
            return ", ".join(dict.fromkeys(map(self._op, actor.steps)))
        queues = (self.queues[self.number[name]] for name in actor.writes)
        return "view" if any(queue.kind is not None for queue in queues) else "tick"

    def _op(self, step: Step) -> str:
        if step.verb != "call":
            return step.verb
        work = self.kernels[step.subject].work
        return step.subject if work is None else work.op

    def edges(self) -> list[tuple[int, int, int]]:
        """The edges (from, to, register) of all reads of other tasks' registers."""
        return [
            (self.writer[name], index, self.number[name])
            for index, actor in enumerate(self.image.actors)
            for name in actor.reads
            if name in self.writer
        ]

    def positions(self) -> list[tuple[float, int]]:
        """
        The positions of tasks in the drawing, each below those that it needs in the
        same act.
        """
        ordering: list[Edge] = [
            (start, end)
            for start, end, register in self.edges()
            if self.queues[register].initial == 0
        ]
        return positions_of(len(self.image.actors), ordering)

    def to_json(self) -> Json:
        """The graph as JSON, with positions."""
        return {
            "program": self.image.name,
            "tasks": self._tasks(),
            "registers": [*map(self._register, self.queues)],
            "variables": [
                {
                    "name": v.name,
                    "chunk": v.chunk,
                    "offset": v.offset,
                    "bytes": v.kind.size,
                    "type": type_text(v.kind.shape, v.kind.dtype),
                }
                for v in self.image.variables
            ],
            "edges": self.edges(),
        }

    def _tasks(self) -> list[Json]:
        variables = {v.name: i for i, v in enumerate(self.image.variables)}
        return [
            {
                "name": actor.name,
                "kind": kind,
                "device": actor.device,
                "stream": actor.stream,
                "x": round(x, 3),
                "y": y,
                "ops": [*map(self._op_json, actor.steps)],
                "reads": [self.number[name] for name in actor.reads],
                "writes": [self.number[name] for name in actor.writes],
                "variables": sorted(
                    {
                        variables[name]
                        for step in actor.steps
                        for name in step.arguments
                        if name in variables
                    }
                ),
            }
            for actor, kind, (x, y) in zip(
                self.image.actors, self.kinds, self.positions(), strict=True
            )
        ]

    def _op_json(self, step: Step) -> Json:
        name = step.subject or " to ".join(step.arguments)
        found: Json = {"op": self._op(step), "name": name}
        if step.verb == "call" and (work := self.kernels[step.subject].work):
            found |= {"flops": work.flops, "bytes": work.bytes}
        return found

    def _register(self, queue: Queue) -> Json:
        found: Json = {
            "name": queue.name,
            "slots": queue.slots,
            "initial": queue.initial,
        }
        if queue.kind is not None:
            found |= {
                "chunk": queue.chunk,
                "offset": queue.offset,
                "bytes": queue.kind.size,
                "type": type_text(queue.kind.shape, queue.kind.dtype),
            }
        return found


def type_text(shape: Sequence[int], dtype: str) -> str:
    """A type for a person, such as `2x3 float32`."""
    return f"{'x'.join(map(str, shape)) or 'scalar'} {dtype}"


def trace_json(trace: TraceFile, tasks: Mapping[str, int]) -> Json:
    """
    The tracks with their slices: name, start, duration, category and task by number,
    and facts. The names and categories are lists of their own, as most come often.
    """
    names: dict[str, int] = {}
    categories: dict[str, int] = {}
    tracks: dict[int, list[list[object]]] = {track: [] for track in trace.tracks}
    for piece in trace.slices:
        facts = {key: piece.facts[key] for key in SHOWN_FACTS if key in piece.facts}
        about = str(piece.facts.get("task", piece.name))
        tracks.setdefault(piece.track, []).append(
            [
                names.setdefault(piece.name, len(names)),
                round(piece.start, 3),
                round(piece.duration, 3),
                categories.setdefault(piece.category, len(categories)),
                tasks.get(about, -1),
                facts,
            ]
        )
    return {
        "names": [*names],
        "categories": [*categories],
        "tracks": [
            {"name": trace.tracks.get(track, f"track {track}"), "slices": slices}
            for track, slices in sorted(tracks.items())
        ],
    }
