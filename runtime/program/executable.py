"""
What a launch program says, in plain values: all that the loader needs of it.

The image of a program can be kept as JSON text, so that a program which was looked at
before can be loaded without the libraries that read IR.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from xdsl.ir import Operation

    from penstock.dialects.launch import (
        ActorOp,
        KernelOp,
        PanelsAttr,
        ProgramOp,
        VariableOp,
    )
    from penstock.dialects.regst import MemoryCaseAttr


class TensorKind(NamedTuple):
    """The shape of a dense array, the name of its dtype, and its bytes."""

    shape: tuple[int, ...]
    dtype: str
    size: int


class Memory(NamedTuple):
    """
    A chunk of `size` bytes; `device` is `cpu` for all memory of the host. Among its
    kind the device, or that which memory of the host is `pinned` for, has a `number`.
    """

    name: str
    device: str
    size: int
    number: int = 0
    pinned: str | None = None


class Queue(NamedTuple):
    """
    A register in a chunk, `stride` bytes from slot to slot; a control register lies in
    none: its `chunk` and `kind` are None. An `interface` is what several jobs know by
    this name. With `parts`, so many slots are in each frame, at every `step` bytes, and
    `stride` is that from frame to frame.
    """

    name: str
    chunk: str | None
    offset: int
    stride: int
    slots: int
    initial: int
    kind: TensorKind | None
    interface: str | None = None
    parts: int = 1
    step: int = 0


class Panels(NamedTuple):
    """What `#launch.panels` says."""

    shape: tuple[int, int, int]
    axis: int
    width: int
    depth: int
    quads: bool = False


class Variable(NamedTuple):
    """
    A part of the array that goes by the name `port`, from `offsets` on of what has the
    shape `whole`. A constant has no name to be given by, its `port` is None.
    """

    name: str
    port: str | None
    chunk: str
    offset: int
    kind: TensorKind
    offsets: tuple[int, ...]
    whole: tuple[int, ...]
    panels: Panels | None = None
    winograd: bool = False

    @property
    def place(self) -> tuple[slice, ...]:
        """Where this, or what it is made of for Winograd, lies in the whole."""
        shape = self.whole if self.winograd else self.kind.shape
        pairs = zip(self.offsets, shape, strict=True)
        return tuple(slice(start, start + size) for start, size in pairs)


class Work(NamedTuple):
    """The op that a kernel is made of, and what one call of it takes."""

    op: str
    flops: int
    bytes: int


class Kernel(NamedTuple):
    """
    A kernel for a kind of device; `messages` are those of its assertions. `work` is
    None where the program does not tell.
    """

    name: str
    target: str
    arguments: tuple[TensorKind, ...]
    messages: tuple[str, ...]
    work: Work | None


class Step(NamedTuple):
    """
    What an actor does: `call` a kernel or `copy`, on registers and variables by name,
    or `feed` or `fetch` what goes by the name of a port, or `release` an interface. It
    is done `when` an act is the `first` of a round or in the `rest`, or `always`, and
    for a piece that is `on` one register, or None.
    """

    verb: str
    subject: str
    arguments: tuple[str, ...]
    when: str = "always"
    on: str | None = None


class ActorImage(NamedTuple):
    """
    An actor, the kind of device that it works on, and its job, if there are several.
    Pieces of the registers in `every` last for so many acts; it acts `turns` times in a
    turn. `kind` and `lists` are as in `penstock.runtime.program.actor_kinds`. `place`
    is where it was written, as `file:line:column`, if that is known. One that `commits`
    acts when nothing can fail any more.
    """

    name: str
    job: str | None
    device: str
    stream: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    steps: tuple[Step, ...]
    every: tuple[tuple[str, int], ...] = ()
    turns: int = 1
    kind: str = "plain"
    lists: tuple[tuple[int, ...], ...] = ()
    place: str | None = None
    commits: bool = False


class ProgramImage(NamedTuple):
    """
    A program; everything in the order in which it is listed there. Jobs in one group of
    `exclusive` never run at the same time.
    """

    name: str
    exclusive: tuple[tuple[str, ...], ...]
    chunks: tuple[Memory, ...]
    queues: tuple[Queue, ...]
    variables: tuple[Variable, ...]
    kernels: tuple[Kernel, ...]
    actors: tuple[ActorImage, ...]

    @property
    def jobs(self) -> tuple[str, ...]:
        """The jobs of a program of several."""
        named = (actor.job for actor in self.actors if actor.job is not None)
        return tuple(dict.fromkeys(named))

    @property
    def is_linked(self) -> bool:
        """Whether jobs hand something on to each other, as to a main job."""
        job = {name: actor.job for actor in self.actors for name in actor.writes}
        return any(
            job[name] != actor.job for actor in self.actors for name in actor.reads
        )

    @property
    def port_turns(self) -> dict[str, int]:
        """How many pieces of each port there are in a turn."""
        return {
            step.subject: actor.turns
            for actor in self.actors
            for step in actor.steps
            if step.verb in ("feed", "fetch")
        }

    def to_json(self) -> str:
        """A text that `image_from_json` reads."""
        return json.dumps(self)


def image_of(program: ProgramOp) -> ProgramImage:
    """The image of a program that has been verified."""
    from penstock.dialects.launch import (
        ActorOp,
        ChunkOp,
        ControlOp,
        KernelOp,
        RegisterOp,
        VariableOp,
        frames_of,
        turns_of,
    )

    alignments: dict[str, int] = {}
    chunks: list[Memory] = []
    ops = list(program.body.block.ops)
    registers = {op.sym_name.data: op for op in ops if isinstance(op, RegisterOp)}
    turns = turns_of(program)
    numbers = _numbers_of(op.memory_case for op in ops if isinstance(op, ChunkOp))
    for op in ops:
        if isinstance(op, ChunkOp):
            case, name = op.memory_case, op.sym_name.data
            chunks.append(Memory(name, *_place_of(case, numbers, op.size.value.data)))
            alignments[name] = case.alignment

    def queue(op: RegisterOp | ControlOp) -> Queue:
        name, slots = op.sym_name.data, op.slots.value.data
        if isinstance(op, ControlOp):
            return Queue(name, None, 0, 0, slots, op.initial_slots, None)
        chunk = op.chunk.root_reference.data
        below = None if op.over is None else registers[op.over.root_reference.data]
        parts, step, stride = frames_of(op, below, alignments[chunk])
        kind = kind_of(op.type)
        offset = op.offset.value.data
        interface = None if op.interface is None else op.interface.data
        place = chunk, offset, stride, slots, 0, kind, interface
        return Queue(name, *place, parts, step)

    return ProgramImage(
        program.sym_name.data,
        tuple(map(tuple, program.exclusive_jobs)),
        tuple(chunks),
        tuple(queue(op) for op in ops if isinstance(op, RegisterOp | ControlOp)),
        tuple(_variable(op) for op in ops if isinstance(op, VariableOp)),
        tuple(kernel_image(op) for op in ops if isinstance(op, KernelOp)),
        tuple(
            _actor(op, turns[op.sym_name.data]) for op in ops if isinstance(op, ActorOp)
        ),
    )


def _numbers_of(cases: Iterable[MemoryCaseAttr]) -> dict[tuple[int, int], int]:
    """
    The number of each device in memory cases, by its rank and index: the index, or
    where they are of several ranks, which one process is to play, its place in order.
    """
    from penstock.dialects.job import DeviceAttr

    places = {
        (case.rank.data, case.device.index.data)
        for case in cases
        if isinstance(case.device, DeviceAttr)
    }
    if len({rank for rank, _ in places}) > 1:
        return {place: number for number, place in enumerate(sorted(places))}
    return {(rank, index): index for rank, index in places}


def _place_of(
    case: MemoryCaseAttr, numbers: Mapping[tuple[int, int], int], size: int
) -> tuple[str, int, int, str | None]:
    """What is said of a chunk besides its name."""
    from penstock.dialects.job import DeviceAttr

    kind = case.device_kind
    if not isinstance(case.device, DeviceAttr):
        return "cpu", size, 0, None
    number = numbers[case.rank.data, case.device.index.data]
    return ("cpu", size, number, kind) if case.is_host else (kind, size, number, None)


def kind_of(type: object) -> TensorKind:
    """The shape, dtype and bytes of a dense memref."""
    from xdsl.dialects.builtin import MemRefType
    from xdsl.utils.hints import isa

    from penstock.dialects.launch import memref_bytes
    from penstock.dialects.utils.numpy_types import dtype_name_of

    assert isa(type, MemRefType), "checked by the verifier"
    name = dtype_name_of(type.element_type)
    return TensorKind(tuple(type.get_shape()), name, memref_bytes(type))


def _variable(op: VariableOp) -> Variable:
    kind = kind_of(op.type)
    return Variable(
        op.sym_name.data,
        None if op.init is None else op.port_name,
        op.chunk.root_reference.data,
        op.offset.value.data,
        kind,
        tuple(part.start for part in op.place),
        tuple(op.whole_shape),
        None if (found := op.panels) is None else panels_of(found),
        op.winograd is not None,
    )


def panels_of(attribute: PanelsAttr) -> Panels:
    """What an attribute says."""
    axis, width, depth = attribute.axis, attribute.width, attribute.depth
    quads = bool(attribute.quads.data)
    return Panels(attribute.shape, axis.data, width.data, depth.data, quads)


def kernel_image(op: KernelOp) -> Kernel:
    """The image of a kernel."""
    from xdsl.dialects.cf import AssertOp

    return Kernel(
        op.sym_name.data,
        op.target.data,
        tuple(kind_of(type) for type in op.arguments),
        tuple(inner.msg.data for inner in op.walk() if isinstance(inner, AssertOp)),
        None if op.cost is None else Work._make(op.cost),
    )


def _actor(op: ActorOp, turns: int) -> ActorImage:
    from penstock.dialects.launch import CommitOp, names_of
    from penstock.dialects.utils.diagnostics import place_of

    steps = list(op.body.block.ops)
    done = [step for step in steps if not isinstance(step, CommitOp)]
    return ActorImage(
        op.sym_name.data,
        op.job_name,
        op.device.kind.data,
        op.stream.value.data,
        tuple(names_of(op.reads)),
        tuple(names_of(op.writes)),
        tuple(map(_step, done)),
        tuple(op.rates.items()),
        turns,
        op.kind_name,
        tuple(map(tuple, op.number_lists)),
        None if (place := place_of(op)) is None else str(place),
        len(done) < len(steps),
    )


def _step(op: Operation) -> Step:
    from xdsl.dialects.builtin import StringAttr, SymbolRefAttr

    from penstock.dialects.launch.actors import ON, WHEN

    when, on = op.attributes.get(WHEN), op.attributes.get(ON)
    return _work(op)._replace(
        when=when.data if isinstance(when, StringAttr) else "always",
        on=on.root_reference.data if isinstance(on, SymbolRefAttr) else None,
    )


def _work(op: Operation) -> Step:
    from penstock.dialects.launch import (
        CallOp,
        CopyOp,
        FeedOp,
        FetchOp,
        ReleaseOp,
        names_of,
    )

    match op:
        case CallOp():
            kernel = op.kernel.root_reference.data
            return Step("call", kernel, tuple(names_of(op.arguments)))
        case CopyOp():
            names = op.source.root_reference.data, op.target.root_reference.data
            return Step("copy", "", names)
        case FeedOp():
            return Step("feed", op.port.data, (op.target.root_reference.data,))
        case ReleaseOp():
            return Step("release", "", (op.register.root_reference.data,))
        case _:
            assert isinstance(op, FetchOp), "checked by the verifier"
            return Step("fetch", op.port.data, (op.source.root_reference.data,))


def image_of_job(image: ProgramImage, job: str) -> ProgramImage:
    """
    The image of one job among several, under its name: its actors, what they write and
    call, and all chunks and variables.
    """
    actors = tuple(actor for actor in image.actors if actor.job == job)
    written = {name for actor in actors for name in actor.writes}
    called = {step.subject for actor in actors for step in actor.steps}
    return image._replace(
        name=job,
        exclusive=(),
        queues=tuple(queue for queue in image.queues if queue.name in written),
        kernels=tuple(kernel for kernel in image.kernels if kernel.name in called),
        actors=actors,
    )


# JSON --------------------------------------------------------------------------------


def image_from_json(text: str) -> ProgramImage:
    """
    The image that a text of `ProgramImage.to_json` stands for, which nobody has
    changed: it is not checked.
    """
    name, exclusive, chunks, queues, variables, kernels, actors = _tuples(
        json.loads(text)
    )
    return ProgramImage(
        name,
        exclusive,
        tuple(Memory(*row) for row in chunks),
        tuple(_queue_from(*row) for row in queues),
        tuple(_variable_from(*row) for row in variables),
        tuple(_kernel_from(*row) for row in kernels),
        tuple(_actor_from(*row) for row in actors),
    )


# What `json` returns has no types.
Row: TypeAlias = tuple[Any, ...]


def _tuples(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_tuples(item) for item in cast("list[object]", value))
    return value


def _queue_from(*row: Any) -> Queue:
    queue = Queue(*row)
    made = None if queue.kind is None else TensorKind._make(queue.kind)
    return queue._replace(kind=made)


def _variable_from(name: str, port: str | None, *row: Any) -> Variable:
    chunk, offset, kind, offsets, whole, panels, winograd = row
    place = chunk, offset, TensorKind._make(kind)
    order = None if panels is None else Panels._make(panels)
    return Variable(name, port, *place, offsets, whole, order, winograd)


def _kernel_from(*row: Any) -> Kernel:
    name, target, arguments, messages, work = row
    kinds = tuple(TensorKind._make(kind) for kind in arguments)
    made_of = None if work is None else Work._make(work)
    return Kernel(name, target, kinds, messages, made_of)


def _actor_from(*row: Any) -> ActorImage:
    actor = ActorImage(*row)
    return actor._replace(steps=tuple(Step._make(step) for step in actor.steps))
