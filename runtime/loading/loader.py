"""
From a launch program to what the executors run: memory, compiled kernels, tables.

Everything a program needs is allocated here, once. Chunks come first, then variables
get their values, then actors become rows of calls. The actors of one stream share a
worker; those that work in the memory of a device other than the processor share one
worker of their own, because a device is driven from one thread. Streams on which
something is done take turns with workers first, so that they are spread evenly. Where
numbers say which actors act, and there are several threads, what hands on numbers and
does nothing else has a worker of its own, too: no kernel keeps a job from beginning.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.runtime.core.io_kernels import (
    Callback,
    copy_kernel,
    feed_kernel,
    fetch_kernel,
)
from penstock.runtime.errors import OutOfMemory, PenstockError
from penstock.runtime.loading.arrays import address_of, numpy_dtype, reread
from penstock.runtime.loading.contiguous import contiguous
from penstock.runtime.loading.devices import Chunk, Cpu, Device, Place, Wired
from penstock.runtime.loading.shared_variables import SharedVariables
from penstock.runtime.loading.weight_layout import stored_value
from penstock.runtime.options import warn_of_threads
from penstock.runtime.program.actor_kinds import DYNAMIC
from penstock.runtime.program.channels import Bytes, Channel, Collective
from penstock.runtime.program.control_assembly import assemble
from penstock.runtime.program.deadlock import find_deadlock
from penstock.runtime.program.executable import (
    ActorImage,
    Memory,
    ProgramImage,
    Queue,
    Step,
    TensorKind,
    Variable,
    image_of_job,
)
from penstock.runtime.program.io_binding import Binding, bindings_of
from penstock.runtime.program.tables import (
    CALLER,
    Actor,
    Argument,
    Bound,
    Call,
    Cell,
    Fixed,
    Register,
    Slot,
    Tables,
)

if TYPE_CHECKING:
    from penstock.runtime.loading.initializers import Array

NOTHING = np.zeros(1, np.int64)
"""The size of copies that move nothing."""

BATCH = 256
"""Pieces that one run of the core feeds and fetches at most."""


@dataclass(frozen=True)
class Port:
    """
    A tensor that the caller gives or takes, piece by piece. Several pieces of one
    iteration are fed and fetched as one array: `repetitions` is the first extent of its
    `shape`, if it is not 1.

    `table` is what `feed` and `fetch` read: a cursor, the bytes of a piece, and the
    address of each piece of at most BATCH iterations.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    table: npt.NDArray[np.int64]
    repetitions: int = 1
    nbytes: int = field(init=False)
    """The bytes of an array."""
    _cells: memoryview = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # An element of a memoryview is set in half the time of one of an array.
        object.__setattr__(self, "_cells", self.table.data)
        object.__setattr__(self, "nbytes", prod(self.shape) * self.dtype.itemsize)

    @property
    def first_pointer(self) -> int:
        """Where the address of the first piece of a run is."""
        return self.table.ctypes.data + 2 * self.table.itemsize

    def takes(self, array: Array) -> bool:
        """Whether an array can be read as it is: a quick check of what most are."""
        return (
            type(array) is np.ndarray
            and array.shape == self.shape
            # Most have the one dtype that NumPy has for a kind of element.
            and (array.dtype is self.dtype or array.dtype == self.dtype)
            and (not self.shape or array.flags.c_contiguous)
        )

    def point_at(self, piece: Array) -> None:
        """Let the next run read or write a contiguous array in its only act."""
        if self.repetitions > 1:
            self.point_to([piece])
            return
        cells = self._cells
        cells[0] = 0
        cells[2] = address_of(piece)

    def point_to(self, pieces: Sequence[Array]) -> None:
        """Let the next run read or write these contiguous arrays, one in each act."""
        self.table[0] = 0
        starts = [address_of(piece) for piece in pieces]
        if self.repetitions > 1:
            size = int(self.table[1])
            starts = [x + i * size for x in starts for i in range(self.repetitions)]
        self.table[2 : 2 + len(starts)] = starts


@dataclass(frozen=True)
class LoadedProgram:
    """A program in memory: its tables, its ports, and what must live as long."""

    tables: Tables
    inputs: Mapping[str, Port]
    outputs: Mapping[str, Port]
    chunks: Mapping[str, Chunk]
    variables: tuple[Variable, ...]
    """Those that are no constants."""
    devices: Mapping[str, Device]
    threads: int
    """The number of CPU threads that run its kernels."""
    image: ProgramImage
    """The image that it was loaded from."""
    flags: Mapping[str, npt.NDArray[np.int64]]
    """For each interface that is released words, the first is 1 from then on."""
    originals: dict[str, Array]
    """The weights that variables for Winograd are made of, which do not tell them."""
    channels: Sequence[Channel | Collective] = ()
    """The messages and collectives that actors wait for."""


def load_jobs(
    image: ProgramImage,
    sources: Mapping[str, str],
    values: Callable[[], Mapping[str, Array]],
    *,
    threads: int = 1,
    devices: Mapping[str, Device] | None = None,
    shared: SharedVariables | None = None,
    jobs: Sequence[str] = (),
) -> dict[str, LoadedProgram]:
    """
    Allocate, initialise and compile everything that the jobs of a verified program
    need, each by its name. They have the same memory: each chunk is allocated, and each
    variable initialised, once. A program that names no jobs is one job of its own name,
    and so is one that is linked to a main job. Where `jobs` of several ranks are named,
    there is a program for each, in their order: an empty one if it is of other ranks.

    `sources` has the text of each kernel that is called by name; `values` gives the
    array of each variable (its own part) and constant by its name, once there is
    memory. Streams are spread over `threads` workers, and kernels that can be done in
    parts over as many threads. Variables lie where other programs have them that were
    loaded with the same `shared`. Raises PenstockError if there is no such device or
    not enough memory, or if the program cannot run to its end.
    """
    warn_of_threads(threads)
    memory = _with_memory(image, sources, values, threads, devices, shared)
    if not image.jobs or image.is_linked:
        return {image.name: memory.finish()}
    programs: dict[str, LoadedProgram] = {}
    for job in jobs or image.jobs:
        own = image_of_job(memory.image, job)
        # Without kernels a job only moves data, over before a thread could help.
        count = threads if own.kernels else 1
        loader = _Loader(own, sources, count, memory.devices, memory.chunks)
        loader.originals = memory.originals
        programs[job] = loader.finish()
    return programs


def _with_memory(
    image: ProgramImage,
    sources: Mapping[str, str],
    values: Callable[[], Mapping[str, Array]],
    threads: int,
    devices: Mapping[str, Device] | None,
    shared: SharedVariables | None,
) -> _Loader:
    """A loader that has allocated and initialised all memory."""
    if threads < 1:
        raise PenstockError(f"there must be at least one thread, got {threads}")
    available = {"cpu": Cpu(), **(devices or {})}
    if shared is None:
        loader = _Loader(image, sources, threads, available)
        loader.allocate()
        loader.initialize(values())
        return loader
    with shared.adopting(image, available) as adopted:
        loader = _Loader(adopted.image, sources, threads, available, adopted.chunks)
        loader.allocate()
        loader.initialize(values(), adopted.valued)
    return loader


def part_of(variable: Variable, given: npt.ArrayLike) -> Array:
    """
    The part of a whole array that a variable is. Raises PenstockError if that is none
    of the variable's whole shape and dtype.
    """
    dtype = numpy_dtype(variable.kind.dtype)
    array = fitting(f"variable '{variable.port}'", given, variable.whole, dtype)
    return array[(*variable.place, ...)]


class Local(NamedTuple):
    """A local name: its cell, bytes, and the registers and variables that it is of."""

    cell: Cell
    size: int
    roots: tuple[str, ...]


@dataclass
class _Loader:
    image: ProgramImage
    sources: Mapping[str, str]
    threads: int
    devices: Mapping[str, Device]
    chunks: dict[str, Chunk] = field(default_factory=dict[str, Chunk])
    inputs: dict[str, Port] = field(default_factory=dict[str, Port])
    outputs: dict[str, Port] = field(default_factory=dict[str, Port])
    flags: dict[str, npt.NDArray[np.int64]] = field(
        default_factory=dict[str, npt.NDArray[np.int64]]
    )
    originals: dict[str, npt.NDArray[np.generic]] = field(
        default_factory=dict[str, npt.NDArray[np.generic]]
    )

    def __post_init__(self) -> None:
        image = self.image
        self.channels: list[Channel | Collective] = []
        self.local: dict[str, Local] = {}
        """The local names of the actor that is being made."""
        self.memories = {memory.name: memory.device for memory in image.chunks}
        self.numbers = {memory.name: memory.number for memory in image.chunks}
        self.kernels = {kernel.name: kernel for kernel in image.kernels}
        self.queues = {queue.name: queue for queue in image.queues}
        self.variables = {variable.name: variable for variable in image.variables}
        self.producers = {
            name: index
            for index, actor in enumerate(image.actors)
            for name in actor.writes
        }
        busy = [actor.stream for actor in image.actors if actor.steps]
        streams = dict.fromkeys([*busy, *(actor.stream for actor in image.actors)])
        self.workers = {stream: number for number, stream in enumerate(streams)}
        self.ruling = {
            name
            for actor in image.actors
            if actor.kind in DYNAMIC
            for name in (*actor.reads, *actor.writes)
        }
        """The registers of actors that numbers rule, or that make some."""
        # Nobody reads a register that has no producer.
        self.registers = {name: index for index, name in enumerate(self.producers)}

    # Memory

    def allocate(self) -> None:
        for memory in self.image.chunks:
            if memory.name in self.chunks:
                continue
            self.chunks[memory.name] = self._chunk(memory)

    def _chunk(self, memory: Memory) -> Chunk:
        """The memory that is allocated for a chunk."""
        try:
            if memory.pinned is not None and memory.pinned in self.devices:
                device = self.devices[memory.pinned]
                return device.allocate_pinned(memory.size, memory.number)
            device = self._device(memory.device)
            return device.allocate(memory.size, memory.number)
        except OutOfMemory as error:
            owners = ", ".join(largest_owners(self.image, [memory.name]))
            most = f"; most of it is for {owners}" if owners else ""
            raise PenstockError(f"{error}{most}") from error

    def _device(self, kind: str) -> Device:
        if (device := self.devices.get(kind)) is None:
            raise PenstockError(
                f"the program needs a device of kind '{kind}', which no plug-in here "
                "opens: load its file, with --load FILE.py or load=['FILE.py']"
            )
        return device

    def initialize(
        self, values: Mapping[str, Array], valued: Collection[str] = ()
    ) -> None:
        for variable in self.image.variables:
            if variable.name in valued:
                continue
            chunk = self.chunks[variable.chunk]
            value = values[variable.name]
            chunk.write(variable.offset, stored_value(variable, value))
            if variable.winograd and variable.port is not None:
                self.originals[variable.port] = value

    # Actors

    def finish(self) -> LoadedProgram:
        wired = self._wired()
        tables = Tables(
            wired.registers,
            wired.actors,
            wired.callbacks,
            [self._bound_port(binding) for binding in bindings_of(self.image)],
        )
        if (cycle := find_deadlock(tables)) is not None:
            raise PenstockError(f"actors wait for each other: {' -> '.join(cycle)}")
        for port, _, _ in self.image.cuts:
            if (repetitions := self.outputs[port].repetitions) > 1:
                raise PenstockError(
                    f"output '{port}' comes {repetitions} times in an iteration, "
                    "so it cannot be cut"
                )
        return LoadedProgram(
            tables,
            self.inputs,
            self.outputs,
            self.chunks,
            tuple(x for x in self.image.variables if x.port is not None),
            self.devices,
            self.threads,
            self.image,
            self.flags,
            self.originals,
            self.channels,
        )

    def _wired(self) -> Wired:
        """The registers and actors, driven by their devices where they need it."""
        registers = [self._register(name) for name in self.registers]
        actors = [self._actor(actor) for actor in self.image.actors]
        self._connect(registers, actors)
        wired, callbacks = Wired(registers, actors), list[Callback]()
        for kind in sorted({*self.memories.values()} - {"cpu"}):
            wired = self._wired_by(kind, wired)
            callbacks += wired.callbacks
        return wired._replace(callbacks=callbacks)

    def _connect(self, registers: list[Register], actors: list[Actor]) -> None:
        """Let actors that have a message wait for it, too."""
        for index, image in enumerate(self.image.actors):
            for step in image.steps:
                if step.verb not in MESSAGES:
                    continue
                data, done = [*map(self._bytes, step.arguments)], len(registers)
                if step.verb == "collective":
                    channel = self._collective(index, step, done, data)
                else:
                    channel = self._channel(index, step, done, *data)
                held = [x.register for x in data if x.register is not None]
                slots = max((registers[x].slots for x in held), default=2)
                registers.append(Register(f"{channel}", CALLER, slots))
                reads = (*actors[index].reads, channel.done)
                actors[index] = replace(actors[index], reads=reads)
                self.channels.append(channel)

    def _bytes(self, name: str) -> Bytes:
        """The bytes of a register or variable."""
        register, size = self.registers.get(name), self._place(name)[2].size
        return Bytes(register, self._address(name) if register is None else 0, size)

    def _channel(self, actor: int, step: Step, done: int, data: Bytes) -> Channel:
        """The message that an actor sends or receives."""
        peer, tag = map(int, step.subject.split("/"))
        name, is_send = self.image.actors[actor].name, step.verb == "send"
        return Channel(actor, name, is_send, peer, tag, data.size, done, data)

    def _collective(
        self, actor: int, step: Step, done: int, data: Sequence[Bytes]
    ) -> Collective:
        """The collective that an actor takes part in."""
        kind, algorithm, ranks, tag = step.subject.split("/")
        image = self.image.actors[actor]
        sources = sum(x not in image.writes for x in step.arguments)
        return Collective(
            actor,
            image.name,
            kind,
            algorithm,
            tuple(map(int, ranks.split("-"))),
            int(tag),
            self._place(step.arguments[0])[2].dtype,
            done,
            data[:sources],
            data[sources:],
        )

    def _wired_by(self, kind: str, wired: Wired) -> Wired:
        """The same, driven by a kind of devices, too."""
        added = wired.actors[len(self.image.actors) :]
        places = [self._place_on(kind, actor) for actor in self.image.actors]
        worker = max([self.threads, *(actor.worker + 1 for actor in added)])
        every = [*places, *[None] * len(added)]
        try:
            return self._device(kind).wire(wired.registers, wired.actors, every, worker)
        except OutOfMemory as error:
            at = kind, error.device
            chunks = [x.name for x in self.image.chunks if (x.device, x.number) == at]
            if not (owners := ", ".join(largest_owners(self.image, chunks))):
                raise
            text = f"{error}; most of what the program has there is for {owners}"
            raise PenstockError(text) from error

    def _place_on(self, kind: str, actor: ActorImage) -> Place | None:
        """Where an actor works if it uses memory of a kind of device."""
        used = {x for x in actor.names if self._is_data(x)}
        held = (x for x in (*actor.reads, *actor.writes) if self._is_data(x))
        chunks = [self._place(name)[0] for name in (*sorted(used), *held)]
        numbers = [self.numbers[x] for x in chunks if self.memories[x] == kind]
        if not numbers:
            return None
        is_transfer = any(self.memories[self._place(x)[0]] != kind for x in used)
        return Place(actor.stream, numbers[0], is_transfer)

    def _is_data(self, name: str) -> bool:
        """Whether a register or variable lies somewhere."""
        return name in self.variables or self.queues[name].chunk is not None

    def _bound_port(self, binding: Binding) -> Bound:
        ports = self.inputs if binding.is_input else self.outputs
        port, index = ports[binding.port], self.registers[binding.register]
        return Bound(index, port.first_pointer, binding.shift, port.dtype.itemsize)

    def _register(self, name: str) -> Register:
        queue, producer = self.queues[name], self.producers[name]
        address = 0 if queue.chunk is None else self._address(name)
        frames = queue.stride, queue.parts, queue.step
        return Register(name, producer, queue.slots, queue.initial, address, *frames)

    def _place(self, name: str) -> tuple[str, int, TensorKind]:
        """The chunk, offset and type of a register or variable."""
        if (variable := self.variables.get(name)) is not None:
            return variable.chunk, variable.offset, variable.kind
        queue: Queue = self.queues[name]
        assert queue.chunk is not None, "checked by the verifier"
        assert queue.kind is not None, "what lies in a chunk has a type"
        return queue.chunk, queue.offset, queue.kind

    def _address(self, name: str) -> int:
        chunk, offset, _ = self._place(name)
        return self.chunks[chunk].address + offset

    def _actor(self, actor: ActorImage) -> Actor:
        control, roots, local = None, (), dict[str, int]()
        if actor.control:
            control, roots, local = assemble(actor)
        self.local = {
            name: Local(Cell(local[name]), actor.sizes[name], names)
            for name, names in actor.local_names.items()
        }
        return Actor(
            actor.name,
            self._worker(actor),
            tuple(self.registers[name] for name in actor.reads),
            tuple(self.registers[name] for name in actor.writes),
            tuple(self._step(step, actor) for step in actor.steps),
            tuple((self.registers[name], count) for name, count in actor.every),
            actor.kind,
            actor.lists,
            actor.job,
            actor.place,
            actor.commits,
            not actor.assigned.isdisjoint(self.variables),
            control,
            tuple(self._argument(name) for name in roots),
            tuple(self._address(name) for name, _ in actor.updates),
            self._times(actor),
        )

    def _times(self, actor: ActorImage) -> int | None:
        """The acts of an actor with a message in an iteration, if they are several."""
        has_message = any(step.verb in MESSAGES for step in actor.steps)
        return actor.repetitions if has_message and actor.repetitions > 1 else None

    def _worker(self, actor: ActorImage) -> int:
        names = (*actor.reads, *actor.writes)
        if any(self._memory_kind(name) != "cpu" for name in names):
            return self.threads
        if self.threads > 1 and self.ruling and self._is_light(actor):
            return self.threads
        return self.workers[actor.stream] % self.threads

    def _is_light(self, actor: ActorImage) -> bool:
        """
        Whether an actor only produces numbers of actors, or lets others act: such ones
        have a worker of their own, which no kernel blocks.
        """
        used = {x for x in actor.names if self._is_data(x)}
        verbs = {step.verb for step in actor.steps}
        return used <= self.ruling and verbs <= {"feed", "fetch"}

    def _memory_kind(self, name: str) -> str:
        """The device whose kernels work in the memory of a register or variable."""
        return self.memories[self._place(name)[0]] if self._is_data(name) else "cpu"

    def _step(self, step: Step, actor: ActorImage) -> Call:
        call = self._work(step, actor)
        if step.when == "always" and step.on is None:
            return call
        on = None if step.on is None else self.registers[step.on]
        return replace(call, when=step.when, on=on)

    def _work(self, step: Step, actor: ActorImage) -> Call:
        match step.verb:
            case "call":
                return self._call(step, actor)
            case "copy":
                return self._copy(*step.arguments)
            case "feed":
                return self._edge(feed_kernel(), step, self.inputs, actor.repetitions)
            case "release":
                return self._release(*step.arguments)
            case verb if verb in MESSAGES:
                return self._message(step.arguments[0])
            case _:
                return self._edge(fetch_kernel(), step, self.outputs, actor.repetitions)

    def _call(self, step: Step, actor: ActorImage) -> Call:
        kernel = self.kernels[step.subject]
        args = [self._argument(name) for name in step.arguments]
        device = self._device(actor.device)
        call = device.call(kernel, self.sources[kernel.name], args)
        return replace(call, messages=kernel.messages)

    def _copy(self, source: str, target: str) -> Call:
        roots = [x for name in (source, target) for x in self._roots(name)]
        kinds = {self._memory_kind(name) for name in roots} - {"cpu"}
        if len(kinds) > 1:
            raise PenstockError(
                f"cannot copy between devices of kinds {', '.join(sorted(kinds))}"
            )
        device = self._device(kinds.pop() if kinds else "cpu")
        sizes = [self._size(name) for name in (source, target)]
        # Of what is larger each act has a part.
        size = min(sizes)
        args = [
            Slot(self.registers[name], size) if whole > size else self._argument(name)
            for name, whole in zip((source, target), sizes, strict=True)
        ]
        return device.copy(size, *args)

    def _roots(self, name: str) -> Sequence[str]:
        """The registers and variables that a name of a step is, or is of."""
        return self.local[name].roots if name in self.local else (name,)

    def _size(self, name: str) -> int:
        """The bytes of what a step names."""
        return (
            self.local[name].size if name in self.local else self._place(name)[2].size
        )

    def _message(self, name: str) -> Call:
        """The call of an act with a message, which a transport has moved before."""
        place = self._argument(name)
        return Call(copy_kernel(), (Fixed(NOTHING.ctypes.data), place, place))

    def _release(self, register: str) -> Call:
        """The call that raises the flag of an interface."""
        name = self.queues[register].interface
        assert name is not None, "checked by the verifier"
        # The flag, what it becomes, and the bytes of that.
        words = self.flags.setdefault(name, np.array([0, 1, 8], np.int64))
        flag = words.ctypes.data
        return Call(copy_kernel(), (Fixed(flag + 16), Fixed(flag + 8), Fixed(flag)))

    def _edge(
        self, kernel: int, step: Step, ports: dict[str, Port], repetitions: int
    ) -> Call:
        port, (place,) = step.subject, step.arguments
        if port in ports:
            raise PenstockError(f"two actors serve the port '{port}'")
        kind = self._place(place)[2]
        table = np.zeros(2 + BATCH * repetitions, np.int64)
        table[1] = kind.size
        shape = port_shape(kind, repetitions)
        ports[port] = Port(port, shape, numpy_dtype(kind.dtype), table, repetitions)
        return Call(kernel, (Fixed(table.ctypes.data), self._argument(place)))

    def _argument(self, name: str) -> Argument:
        if name in self.local:
            return self.local[name].cell
        if name in self.variables:
            return Fixed(self._address(name))
        return Slot(self.registers[name])


def port_shape(kind: TensorKind, repetitions: int) -> tuple[int, ...]:
    """The shape of the array of all pieces of an iteration."""
    return kind.shape if repetitions == 1 else (repetitions, *kind.shape)


def raise_if_any(problems: Sequence[str], what: str = "weights") -> None:
    """Raise PenstockError with all that is wrong with something, each thing once."""
    different = list(dict.fromkeys(problems))
    if len(different) == 1:
        raise PenstockError(different[0])
    if different:
        head = f"{len(different)} things are wrong with the {what}:"
        raise PenstockError("\n  ".join((head, *different)))


def fitting(
    what: str, given: npt.ArrayLike, shape: Sequence[int], dtype: np.dtype[np.generic]
) -> Array:
    """
    A given array as a contiguous one in the byte order of this machine, copied only if
    need be. Raises PenstockError unless it has a shape and a dtype.
    """
    array: Array = np.asarray(given)
    if array.dtype != dtype:
        array = reread(array, dtype)
    if array.shape != tuple(shape):
        raise PenstockError(
            f"{what} has shape {tuple(shape)}, got an array of shape {array.shape}"
        )
    if array.dtype == dtype:
        return contiguous(array)
    if array.dtype.newbyteorder("=") != dtype:
        raise PenstockError(
            f"{what} has dtype {dtype.name}, got an array of dtype {array.dtype.name}"
        )
    return contiguous(array.astype(dtype))


MESSAGES = ("collective", "receive", "send")
"""The verbs of steps that a transport does."""

OWNERS = 5
"""The number of owners that are named."""


def named(actor: ActorImage) -> str:
    """The name of a task, and the place that it was written at, if that is known."""
    at = "" if actor.place is None else f" at {actor.place}"
    return f"task '{actor.name}'{at}"


def largest_owners(image: ProgramImage, chunks: Collection[str]) -> list[str]:
    """
    The registers and variables with most bytes in chunks, each with its task, and where
    that was written.
    """
    writer = {name: actor for actor in image.actors for name in actor.writes}
    rows: list[tuple[int, str]] = []
    for queue in image.queues:
        if queue.chunk in chunks and queue.kind is not None:
            size = queue.kind.size * queue.slots
            task = f" ({named(writer[queue.name])})" if queue.name in writer else ""
            rows.append((size, f"'{queue.name}' {size}{task}"))
    for variable in image.variables:
        if variable.chunk in chunks:
            name = variable.name if variable.port is None else variable.port
            size = variable.kind.size
            rows.append((size, f"'{name}' {size} (variable)"))
    # Of equal ones those that are listed first.
    rows.sort(key=lambda row: -row[0])
    return [text for _, text in rows[:OWNERS]]
