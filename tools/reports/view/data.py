"""
The data of the page as JSON: a program, and a trace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os.path import basename
from typing import Any, TypeAlias

from xdsl.ir import Operation

from penstock.dialects.job import DeviceAttr
from penstock.dialects.launch import ActorOp, CallOp, ChunkOp, KernelOp, ProgramOp
from penstock.dialects.utils.diagnostics import nodes_of
from penstock.runtime.program.executable import ActorImage, ProgramImage, Queue, Step
from penstock.tools.reports.view.bodies import BodySteps, bodies_of
from penstock.tools.reports.view.edges import Edge, edges_of
from penstock.tools.reports.view.kernel_stages import Region, region_of
from penstock.tools.reports.view.trace_file import TraceFile
from penstock.tools.session.program_export import image_of

Json: TypeAlias = "dict[str, Any]"
"""A value that `json.dumps` takes."""

SHOWN_FACTS = ("act", "run", "register", "missing", "from", "task", "error")
"""The facts of a slice that the page shows, if the trace has them."""


class Graph:
    """
    The tasks, registers and edges of a program, each with a number. An executable says
    less than its IR: no names of nodes, and no insides of kernels.
    """

    def __init__(self, program: ProgramOp | ProgramImage) -> None:
        is_ir = isinstance(program, ProgramOp)
        self.image = image = image_of(program) if is_ir else program
        self.actors: list[ActorOp | None] = [None] * len(image.actors)
        self.regions: dict[str, Region | None] = {}
        self.holds: dict[str, list[str]] = {}
        """The ops of each kernel that computes several."""
        self.bodies: dict[str, BodySteps] = {}
        """The steps of actors with loops or conditions, by the names of these."""
        self.ranks: dict[str, int] = {}
        """The rank of each chunk of memory, if it is known."""
        if is_ir:
            self.ranks = ranks_of(program)
            self.actors = [*program.actors]
            self.regions = regions_of(program)
            kernels = (op for op in program.body.block.ops if isinstance(op, KernelOp))
            held = {kernel.sym_name.data: [*kernel.computes] for kernel in kernels}
            self.holds = {name: ops for name, ops in held.items() if len(ops) > 1}
        self.kernels = {kernel.name: kernel for kernel in image.kernels}
        if is_ir:
            self.bodies = bodies_of(program, self._op_text)
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

    def _op_text(self, step: Operation) -> str:
        """The op of a step of a body, or the ops that its kernel holds."""
        if not isinstance(step, CallOp):
            return step.name.partition(".")[2]
        name = step.kernel.string_value()
        work, held = self.kernels[name].work, self.holds.get(name)
        own = name if work is None else work.op
        return " + ".join(held or (own,)).replace("op.", "")

    def edges(self) -> list[Edge]:
        """The edges of all reads of other tasks' registers, and what they are for."""
        return [*edges_of(self.image, self.actors)]

    def to_json(self) -> Json:
        """The graph as JSON."""
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
            "regions": [
                *(region for region in self.regions.values() if region),
                *(body.region for body in self.bodies.values()),
            ],
        }

    def _tasks(self) -> list[Json]:
        variables = {v.name: i for i, v in enumerate(self.image.variables)}
        shown = [name for name, region in self.regions.items() if region]
        regions = {name: i for i, name in enumerate(shown)}
        bodies = {name: len(shown) + i for i, name in enumerate(self.bodies)}
        devices = device_texts(self.image.actors, self.actors)
        rows = zip(self.image.actors, self.kinds, self.actors, devices, strict=True)
        return [
            {
                "name": actor.name,
                "kind": kind,
                "device": device,
                "rank": 0 if op is None else op.device.rank.data,
                "stream": actor.stream,
                "nodes": (nodes := [] if op is None else nodes_of(op)),
                "scope": scope_of(nodes),
                "place": actor.place and basename(actor.place),
                "ops": [*map(self._op_json, actor.steps)],
                "reads": [self.number[name] for name in actor.reads],
                "writes": [self.number[name] for name in actor.writes],
                "regions": [bodies[actor.name]]
                if actor.name in bodies
                else [
                    regions[step.subject]
                    for step in actor.steps
                    if step.verb == "call" and step.subject in regions
                ],
                "variables": sorted(
                    {variables[name] for name in actor.names if name in variables}
                ),
            }
            for actor, kind, op, device in rows
        ]

    def _op_json(self, step: Step) -> Json:
        name = step.subject or " to ".join(step.arguments)
        found: Json = {"op": self._op(step), "name": name}
        if step.verb == "call" and (work := self.kernels[step.subject].work):
            found |= {"flops": work.flops, "bytes": work.bytes}
        if step.verb == "call" and (held := self.holds.get(step.subject)):
            found["holds"] = held
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


def ranks_of(program: ProgramOp) -> dict[str, int]:
    """The rank of each chunk of memory, by its name."""
    chunks = (op for op in program.body.block.ops if isinstance(op, ChunkOp))
    return {chunk.sym_name.data: chunk.memory_case.rank.data for chunk in chunks}


def regions_of(program: ProgramOp) -> dict[str, Region | None]:
    """The region of each kernel that has one worth showing, by its name."""
    kernels = (op for op in program.body.block.ops if isinstance(op, KernelOp))
    return {kernel.sym_name.data: region_of(kernel) for kernel in kernels}


def device_texts(
    images: Sequence[ActorImage], actors: Sequence[ActorOp | None]
) -> list[str]:
    """The device of each actor, with its rank if there are several."""
    ranks = {actor.device.rank.data for actor in actors if actor is not None}
    return [
        image.device if op is None else device_text(op.device, has_rank=len(ranks) > 1)
        for image, op in zip(images, actors, strict=True)
    ]


def device_text(device: DeviceAttr, *, has_rank: bool) -> str:
    """A device for a person."""
    rank = f"rank {device.rank.data} " if has_rank else ""
    return f"{rank}{device.kind.data}:{device.index.data}"


def scope_of(nodes: Sequence[str]) -> list[str]:
    """
    The scopes that all nodes of a task lie in, the outermost first, as their names have
    them: `/layers.0/attn/MatMul` lies in `attn` of `layers.0`. Where they have none in
    common it is that of the first one.
    """
    paths = [name.strip("/").split("/")[:-1] for name in nodes]
    if not paths:
        return []
    common: list[str] = []
    for parts in zip(*paths, strict=False):
        if len({*parts}) > 1:
            break
        common.append(parts[0])
    return common or paths[0]


def type_text(shape: Sequence[int], dtype: str) -> str:
    """A type for a person, such as `2x3 float32`."""
    return f"{'x'.join(map(str, shape)) or 'scalar'} {dtype}"


def trace_json(trace: TraceFile, tasks: Mapping[str, int]) -> Json:
    """
    The tracks with their ranks, if there are several, and slices: name, start,
    duration, category and task by number, and facts. The names and categories are lists
    of their own, as most come often.
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
            {
                "name": trace.tracks.get(track, f"track {track}"),
                "rank": trace.rank_of(track),
                "slices": slices,
            }
            for track, slices in sorted(tracks.items())
        ],
    }
