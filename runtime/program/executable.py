"""
The image of a launch program, in plain values: all that the loader needs of it.

The image of a program can be kept as JSON text, so that a program which was looked at
before can be loaded without the libraries that read IR.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple, TypeAlias, cast

from penstock.runtime.program.output_cuts import OutputCut


class TensorKind(NamedTuple):
    """The shape of a dense array, the name of its dtype, and its bytes."""

    shape: tuple[int, ...]
    dtype: str
    size: int


class Memory(NamedTuple):
    """
    A chunk of `size` bytes; `device` is `cpu` for all memory of the host. Among its
    kind the device, or that which memory of the host is `pinned` for, has a `number`.
    Registers without variables take `peak` bytes of it, and in no layout fewer than
    `bound`, if these are known.
    """

    name: str
    device: str
    size: int
    number: int = 0
    pinned: str | None = None
    peak: int | None = None
    bound: int | None = None


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
    """The packed layout of a `#launch.panels`."""

    shape: tuple[int, int, int]
    axis: int
    width: int
    depth: int
    group: int = 1


class Variable(NamedTuple):
    """
    A part of the array that goes by the name `port`, from `offsets` on of what has the
    shape `whole`. A constant has no name to be given by, its `port` is None. A variable
    goes by the names in `also`, too. States have as many elements of it along axes as
    the variables of some names say, its `cuts`.
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
    also: tuple[str, ...] = ()
    cuts: tuple[tuple[str, int], ...] = ()

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
    A step of an actor: `call` a kernel or `copy`, on registers and variables by name,
    or `feed` or `fetch` a port by its name, or `release` an interface, or `send` or
    `receive` a message of another rank, `<rank>/<tag>`, or take part in a `collective`,
    `<kind>/<algorithm>/<rank>-<rank>.../<tag>`. It is done `when` an act is the `first`
    of a round or in the `rest`, or `always`, and for a piece that is `on` one register,
    or None.
    """

    verb: str
    subject: str
    arguments: tuple[str, ...]
    when: str = "always"
    on: str | None = None


class ControlStep(NamedTuple):
    """
    A step of an actor among loops and conditions, in the order of its text, by `verb`:

        step                                        [index among the actor's steps]
        subview  [name, source]                     [offset, step, size]
        carry    [before, after, source, ...]       [size, offset, ...]
        number   [target]
        loop     [count, condition, made]           [times, whether it is backward]
        if       [condition]
        else
        end                                         of a loop or condition

    A name that there is none of is empty. The names of a `step` are those that it uses.
    """

    verb: str
    names: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()

    @property
    def declared(self) -> tuple[str, ...]:
        """The local names that it declares."""
        return self.names[: {"subview": 1, "carry": 2}.get(self.verb, 0)]

    @property
    def used(self) -> tuple[str, ...]:
        """The names that it uses."""
        return tuple(name for name in self.names[len(self.declared) :] if name)

    @property
    def written(self) -> tuple[str, ...]:
        """The names that it writes itself, other than as a step."""
        match self.verb:
            case "number":
                return self.names
            case "loop":
                return tuple(name for name in self.names[2:] if name)
            case _:
                return ()


class ActorImage(NamedTuple):
    """
    An actor, the kind of device that it works on, and its job, if there are several.
    Pieces of the registers in `every` last for so many acts; it acts `repetitions`
    times in an iteration. `kind` and `lists` are as in
    `penstock.runtime.program.actor_kinds`. `place` is where it was written, as
    `file:line:column`, if that is known. One that `commits` acts when nothing can fail
    any more. `control` has its loops and conditions, if there are any: its steps then
    use local names, too. `updates` are the variables that its kernels write over, each
    with the register that tells others of it.
    """

    name: str
    job: str | None
    device: str
    stream: int
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    steps: tuple[Step, ...]
    every: tuple[tuple[str, int], ...] = ()
    repetitions: int = 1
    kind: str = "plain"
    lists: tuple[tuple[int, ...], ...] = ()
    place: str | None = None
    commits: bool = False
    control: tuple[ControlStep, ...] = ()
    updates: tuple[tuple[str, str], ...] = ()

    @property
    def assigned(self) -> set[str]:
        """The targets of its copies, and the variables that its kernels write over."""
        copied = {step.arguments[1] for step in self.steps if step.verb == "copy"}
        return copied | {name for name, _ in self.updates}

    @property
    def local_names(self) -> dict[str, tuple[str, ...]]:
        """The registers and variables that each local name is of."""
        found: dict[str, tuple[str, ...]] = {}
        for step in self.control:
            for name in step.declared:
                roots = [
                    x for source in step.used for x in found.get(source, (source,))
                ]
                found[name] = tuple(dict.fromkeys(roots))
        return found

    @property
    def sizes(self) -> dict[str, int]:
        """The bytes of each local name."""
        where = {"subview": 2, "carry": 0}
        return {
            name: step.numbers[where[step.verb]]
            for step in self.control
            for name in step.declared
        }

    @property
    def named_by_steps(self) -> list[tuple[str, ...]]:
        """The registers and variables that each step names, or a local name is of."""
        if not self.control:
            return [step.arguments for step in self.steps]
        local = self.local_names
        return [
            tuple(x for name in step.arguments for x in local.get(name, (name,)))
            for step in self.steps
        ]

    @property
    def written_by_control(self) -> list[str]:
        """
        The registers that loops write themselves: numbers, and values that are carried.
        """
        if not self.control:
            return []
        local = self.local_names
        carried = [
            x for step in self.control if step.verb == "carry" for x in step.used
        ]
        names = [*carried, *(x for step in self.control for x in step.written)]
        return [x for name in names for x in local.get(name, (name,))]

    @property
    def names(self) -> set[str]:
        """The registers and variables that it uses in steps, loops and conditions."""
        used = {x for names in self.named_by_steps for x in names}
        if self.control:
            local = self.local_names
            names = (x for step in self.control for x in step.used)
            used |= {x for name in names for x in local.get(name, (name,))}
        return used


class ProgramImage(NamedTuple):
    """
    A program; everything in the order in which it is listed there. Jobs in one group of
    `exclusive` never run at the same time. `cuts` are of outputs. A program that
    `is_pointwise` has tensors of one shape, and scalars, and each element of a tensor
    depends on those at its place alone: the order of these in memory is all the same.
    """

    name: str
    exclusive: tuple[tuple[str, ...], ...]
    chunks: tuple[Memory, ...]
    queues: tuple[Queue, ...]
    variables: tuple[Variable, ...]
    kernels: tuple[Kernel, ...]
    actors: tuple[ActorImage, ...]
    cuts: tuple[OutputCut, ...] = ()
    is_pointwise: bool = False

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
    def port_repetitions(self) -> dict[str, int]:
        """The number of pieces of each port in an iteration."""
        return {
            step.subject: actor.repetitions
            for actor in self.actors
            for step in actor.steps
            if step.verb in ("feed", "fetch")
        }

    def to_json(self) -> str:
        """A text that `image_from_json` reads."""
        return json.dumps(self)


def image_of_job(image: ProgramImage, job: str) -> ProgramImage:
    """
    The image of one job among several, under its name: its actors, what they write and
    call, and all chunks and variables.
    """
    actors = tuple(actor for actor in image.actors if actor.job == job)
    written = {name for actor in actors for name in actor.writes}
    called = {step.subject for actor in actors for step in actor.steps}
    fetched = {x.subject for actor in actors for x in actor.steps if x.verb == "fetch"}
    return image._replace(
        name=job,
        exclusive=(),
        queues=tuple(queue for queue in image.queues if queue.name in written),
        kernels=tuple(kernel for kernel in image.kernels if kernel.name in called),
        actors=actors,
        cuts=tuple(cut for cut in image.cuts if cut.port in fetched),
    )


# JSON --------------------------------------------------------------------------------


def image_from_json(text: str) -> ProgramImage:
    """
    The image that a text of `ProgramImage.to_json` stands for, which nobody has
    changed: it is not checked.
    """
    found = _tuples(json.loads(text))
    name, exclusive, chunks, queues, variables, kernels, actors, *more = found
    cuts, is_pointwise = more
    return ProgramImage(
        name,
        exclusive,
        tuple(Memory(*row) for row in chunks),
        tuple(_queue_from(*row) for row in queues),
        tuple(_variable_from(*row) for row in variables),
        tuple(_kernel_from(*row) for row in kernels),
        tuple(_actor_from(*row) for row in actors),
        tuple(OutputCut._make(row) for row in cuts),
        is_pointwise,
    )


# `json` returns values without types.
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
    chunk, offset, kind, offsets, whole, panels, winograd, also, cuts = row
    place = chunk, offset, TensorKind._make(kind)
    order = None if panels is None else Panels._make(panels)
    more = winograd, also, cuts
    return Variable(name, port, *place, offsets, whole, order, *more)


def _kernel_from(*row: Any) -> Kernel:
    name, target, arguments, messages, work = row
    kinds = tuple(TensorKind._make(kind) for kind in arguments)
    made_of = None if work is None else Work._make(work)
    return Kernel(name, target, kinds, messages, made_of)


def _actor_from(*row: Any) -> ActorImage:
    actor = ActorImage(*row)
    return actor._replace(
        steps=tuple(Step._make(step) for step in actor.steps),
        control=tuple(ControlStep._make(step) for step in actor.control),
    )
