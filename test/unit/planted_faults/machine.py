"""
A machine that runs launch programs in Python as badly as they allow.

Memory is full of poison at first, but for variables, and so is what a step writes
while it is under way. A step begins and ends at two moments, between which others act;
what it reads has to be the same at both. Actors act in any order that registers and
controls allow, whatever their streams, and so do jobs that nothing keeps apart. Kernels
do what their ops mean in NumPy. Loops and conditions are walked as the reference
executor does, step by step. Nothing here comes from the verifiers.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from penstock.runtime.program.control_assembly import assemble
from penstock.runtime.program.control_flow import BadLoop, Walk
from penstock.runtime.program.executable import (
    ActorImage,
    ProgramImage,
    Queue,
    Step,
    TensorKind,
    Variable,
    image_of_job,
)

Array: TypeAlias = NDArray[np.generic]
Bytes: TypeAlias = NDArray[np.uint8]
Outputs: TypeAlias = dict[str, list[Array]]
"""The fetched values, piece by piece, by port."""

POISON = (0xFF, 0xAB)
"""The filling of bytes: not a number, or a number that is none of the results."""


class Stuck(Exception):
    """That nobody can act, though not all acts are made."""


class Work(Protocol):
    """The work of a call of a kernel, by the places of its arguments."""

    @property
    def reads(self) -> frozenset[int]:
        """The arguments of which it needs what they hold."""
        ...

    @property
    def writes(self) -> frozenset[int]:
        """The arguments that it writes."""
        ...

    def __call__(self, args: Sequence[Array]) -> Mapping[int, Array]:
        """The arrays that it writes, given the contents of its arguments."""
        ...


Works: TypeAlias = Mapping[str, Sequence[Work]]
"""
The works of the calls of actors, by the names of these: one after the other, or a
single one that all have. Those of actors with loops or conditions, the calls of which
faults may put in another order, are listed by the names of kernels.
"""


@dataclass(frozen=True)
class Place:
    """Bytes of a chunk, and the shape and dtype that they have."""

    chunk: str
    start: int
    kind: TensorKind

    @property
    def end(self) -> int:
        return self.start + self.kind.size

    def overlaps(self, other: Place) -> bool:
        """Whether both have a byte in common."""
        apart = self.end <= other.start or other.end <= self.start
        return self.chunk == other.chunk and not apart


Kinds: TypeAlias = Mapping[tuple[str, str], TensorKind]
"""The types of the local names of actors, by both names."""

CHUNK_BITS = 40
"""The bits of an address within its chunk; those above them number the chunk."""


@dataclass
class UnderWay:
    """A step that has begun."""

    number: int
    places: list[Place]
    saved: list[bytes]


@dataclass
class BodyWalk:
    """The way of an actor through its loops and conditions in one act."""

    walk: Walk
    steps: Iterator[int]
    cells: Mapping[str, int]
    """The cell of each local name."""


@dataclass
class JobRun:
    """The progress of the actors of a job in one run."""

    job: str | None
    image: ProgramImage
    acts: int
    inputs: Mapping[str, Sequence[Array]]
    released: set[str] = field(default_factory=set[str])
    """The interfaces that others may use from now on."""
    outputs: Outputs = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        actors = self.image.actors
        self.done = [0] * len(actors)
        self.number = [0] * len(actors)
        """The next step of each actor in its act."""
        self.under_way: list[UnderWay | None] = [None] * len(actors)
        self.walks: dict[int, BodyWalk] = {}
        self.is_acting = [False] * len(actors)
        queues = {queue.name: queue for queue in self.image.queues}
        self.queues = queues
        self.made = {name: queue.initial for name, queue in queues.items()}
        self.used = {(r, a.name): 0 for a in actors for r in a.reads}
        self.readers: dict[str, list[str]] = {name: [] for name in queues}
        for register, actor in self.used:
            self.readers[register].append(actor)
        self.every = [dict(actor.every) for actor in actors]

    def is_ready(self, index: int) -> bool:
        """Whether an actor can begin an act."""
        actor = self.image.actors[index]
        if self.done[index] >= self.acts * actor.repetitions:
            return False
        return all(
            self.made[r] > self.used[r, actor.name] for r in actor.reads
        ) and all(
            self.made[w] - self.used[w, reader] < self.queues[w].slots
            for w in actor.writes
            for reader in self.readers[w]
        )

    def enabled(self) -> list[int]:
        """The actors that can do something."""
        return [
            index
            for index, acting in enumerate(self.is_acting)
            if acting or self.is_ready(index)
        ]

    @property
    def is_over(self) -> bool:
        """Whether all acts are made."""
        actors = self.image.actors
        return all(
            done >= self.acts * actor.repetitions
            for done, actor in zip(self.done, actors, strict=True)
        )

    def steps_of(self, index: int) -> list[int]:
        """The steps of the act that an actor is in, by number."""
        actor, every = self.image.actors[index], self.every[index]
        written = {x for step in actor.steps for x in step.arguments}
        rounds = [every.get(x, 1) for x in actor.writes if x in written]
        length = max(rounds or [every.get(x, 1) for x in actor.writes], default=1)
        is_first = self.done[index] % length == 0
        return [
            number
            for number, step in enumerate(actor.steps)
            if step.when == "always" or (step.when == "first") == is_first
        ]

    def complete(self, index: int) -> None:
        """End an act: hand on and give back what ends with it."""
        actor, every = self.image.actors[index], self.every[index]
        self.done[index] += 1
        done = self.done[index]
        self.is_acting[index] = False
        for register in actor.writes:
            self.made[register] += done % every.get(register, 1) == 0
        for register in actor.reads:
            self.used[register, actor.name] += done % every.get(register, 1) == 0


@dataclass
class Turn:
    """A run, and the names that its job uses and that others may use, too."""

    run: JobRun
    reads: frozenset[str] = frozenset()
    writes: frozenset[str] = frozenset()
    rivals: frozenset[str | None] = frozenset()
    """The jobs that never run at the same time."""

    def may_begin_beside(self, other: Turn) -> bool:
        """Whether nothing keeps this run from beginning before another one is over."""
        if other.run.job in self.rivals or other.run.job == self.run.job:
            return False
        used = other.reads - other.run.released
        return not (self.writes & (used | other.writes) or other.writes & self.reads)


class EventRun(JobRun):
    """One act of each actor, which waits for others alone, not for registers."""

    before: Sequence[Sequence[int]] = ()
    """The waits of each actor."""

    def is_ready(self, index: int) -> bool:
        return not self.done[index] and all(self.done[x] for x in self.before[index])


class LinkedRun(JobRun):
    """
    A run of all jobs of a program that are linked to a main job, which begins one for
    each number that is fed. It is over when nobody can act.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        actors = self.image.actors
        self.held = {a.name: [0] * len(a.lists) for a in actors if a.kind == "lock"}
        """The number of grants of each section of a lock."""
        self.waiting: dict[str, list[int]] = {name: [] for name in self.held}
        """The sections that a lock was asked for and has not granted."""
        self.left: dict[str, list[int]] = {actor.name: [] for actor in actors}
        """The numbers that an actor still has to hand on, or branches to signal."""

    def has(self, index: int, register: str) -> bool:
        """Whether an actor has a piece of a register to read."""
        return self.made[register] > self.used[register, self.image.actors[index].name]

    def has_room(self, register: str) -> bool:
        """Whether a register has a free slot."""
        slots = self.queues[register].slots
        used = (self.used[register, reader] for reader in self.readers[register])
        return all(self.made[register] - count < slots for count in used)

    def is_ready(self, index: int) -> bool:
        actor = self.image.actors[index]
        pieces = [self.has(index, register) for register in actor.reads]
        rooms = [self.has_room(register) for register in actor.writes]
        left = self.left[actor.name]
        match actor.kind:
            case "case":
                return pieces[0] or any(rooms[number] for number in left)
            case "esac":
                return any(pieces) and rooms[0]
            case "send_ids":
                return (bool(left) or pieces[0]) and rooms[0]
            case "lock":
                return any(pieces) or (bool(left) and rooms[0])
            case _:
                fed = [x.subject for x in actor.steps if x.verb == "feed"]
                has_more = all(self.done[index] < len(self.inputs[x]) for x in fed)
                return has_more and all(pieces) and all(rooms)

    @property
    def is_over(self) -> bool:
        return not self.enabled()

    def grant(self, actor: ActorImage) -> None:
        """Grant what a lock was asked for, in order, and nothing beside its rivals."""
        held, kept = self.held[actor.name], list[int]()
        for section in self.waiting[actor.name]:
            rivals = actor.lists[section]
            if any(held[x] or x in kept for x in rivals) or section in kept:
                kept.append(section)
            else:
                held[section] += 1
                self.left[actor.name].append(section)
        self.waiting[actor.name] = kept


class Machine:
    """The memory of a program, and what goes on in it."""

    def __init__(
        self,
        image: ProgramImage,
        works: Works,
        values: Mapping[str, Array],
        unchanged: Mapping[tuple[str, int], frozenset[str]],
        kinds: Kinds,
        rng: random.Random,
    ) -> None:
        self.image = image
        self.works = works
        self.unchanged = unchanged
        self.kinds = kinds
        self.rng = rng
        self.by_rank = False
        """Whether some actors always go before others."""
        self.poison = rng.choice(POISON)
        self.memory = {
            chunk.name: np.full(chunk.size, self.poison, np.uint8)
            for chunk in image.chunks
        }
        self.variables = {variable.name: variable for variable in image.variables}
        self.lasting = [place_of(x) for x in image.variables] + [
            place_of(queue) for queue in image.queues if queue.interface is not None
        ]
        for variable in image.variables:
            place = place_of(variable)
            self.bytes_of(place)[:] = as_bytes(values[variable.name])

    def bytes_of(self, place: Place) -> Bytes:
        """The bytes of a place, to be changed."""
        return self.memory[place.chunk][place.start : place.end]

    def value(self, name: str) -> Array:
        """The value of a variable."""
        place = place_of(self.variables[name])
        return array_of(self.bytes_of(place).tobytes(), place.kind)

    def spoil(self) -> None:
        """Fill all but what lasts from run to run with poison."""
        kept = [self.bytes_of(place).copy() for place in self.lasting]
        for chunk in self.memory.values():
            chunk[:] = self.poison
        for place, content in zip(self.lasting, kept, strict=True):
            self.bytes_of(place)[:] = content

    # Runs

    def start(
        self, job: str | None, acts: int, inputs: Mapping[str, Sequence[Array]]
    ) -> JobRun:
        """A run of a job, or of a program of one, of so many acts."""
        image = self.image if job is None else image_of_job(self.image, job)
        return JobRun(job, image, acts, inputs)

    def play(self, turns: Sequence[Turn]) -> Iterator[int]:
        """
        Make runs, which begin in order, at the same time where nothing keeps them
        apart. Yields how many are over whenever none is under way. Raises Stuck.
        """
        begun = 0
        active: list[Turn] = []
        ranks: dict[tuple[int, int], float] = {}
        while begun < len(turns) or active:
            events = [
                (id(turn), actor, turn)
                for turn in active
                for actor in turn.run.enabled()
            ]
            active = [turn for turn in active if not turn.run.is_over]
            if not active:
                yield begun
                self.by_rank = self.rng.random() < 0.6
            can_begin = begun < len(turns) and all(
                turns[begun].may_begin_beside(turn) for turn in active
            )
            if can_begin and (not active or self.rng.random() < 0.1):
                active.append(turns[begun])
                begun += 1
            elif events:
                _, actor, turn = self.chosen(events, ranks)
                self.go_on(turn.run, actor)
            elif active and not can_begin:
                raise Stuck
        yield begun

    def chosen(
        self,
        events: Sequence[tuple[int, int, Turn]],
        ranks: dict[tuple[int, int], float],
    ) -> tuple[int, int, Turn]:
        """The next event: any, or mostly those of the same actors before others."""
        if not self.by_rank:
            return self.rng.choice(events)
        if self.rng.random() < 0.02:
            ranks.clear()
        for event in events:
            ranks.setdefault(event[:2], self.rng.random())
        return min(events, key=lambda event: ranks[event[:2]])

    def go_on(self, run: JobRun, index: int) -> None:
        """Begin or end one step of an actor."""
        if isinstance(run, LinkedRun) and run.image.actors[index].kind != "plain":
            self.hand_on(run, index)
            return
        if run.image.actors[index].control:
            self.walk_on(run, index)
            return
        steps = run.steps_of(index)
        run.is_acting[index] = True
        if (under_way := run.under_way[index]) is not None:
            self.end_step(run, index, under_way)
            run.under_way[index] = None
            run.number[index] += 1
        elif run.number[index] < len(steps):
            run.under_way[index] = self.begin_step(run, index, steps[run.number[index]])
        if run.number[index] == len(steps):
            run.number[index] = 0
            run.complete(index)

    # Loops and conditions

    def walk_on(self, run: JobRun, index: int) -> None:
        """
        Begin or end one step of an actor with loops or conditions. Raises Stuck where
        one of these cannot go on.
        """
        run.is_acting[index] = True
        if (under_way := run.under_way[index]) is not None:
            self.end_step(run, index, under_way)
            run.under_way[index] = None
            return
        if index not in run.walks:
            run.walks[index] = self.walk_of(run, index)
        try:
            number = next(run.walks[index].steps, None)
        except BadLoop:
            raise Stuck from None
        if number is not None:
            run.under_way[index] = self.begin_step(run, index, number)
            return
        del run.walks[index]
        run.complete(index)

    def walk_of(self, run: JobRun, index: int) -> BodyWalk:
        """The way through an act of an actor that begins."""
        control, roots, cells = assemble(run.image.actors[index])
        chunks = {name: number for number, name in enumerate(self.memory)}
        places = [self.place(run, index, name) for name in roots]
        starts = [(chunks[x.chunk] << CHUNK_BITS) + x.start for x in places]
        walk = Walk(control, starts, WalkMemory([*self.memory.values()]))
        return BodyWalk(walk, walk.calls(), cells)

    # Main jobs

    def hand_on(self, run: LinkedRun, index: int) -> None:
        """Let an actor act that takes and hands on numbers."""
        actor = run.image.actors[index]
        left, first = run.left[actor.name], actor.reads[0]
        match actor.kind:
            case "case":
                if run.has(index, first):
                    left.append(self.take(run, index, first))
                free = [x for x in left if run.has_room(actor.writes[x])]
                for number in free[:1]:
                    left.remove(number)
                    run.made[actor.writes[number]] += 1
            case "esac":
                full = [i for i, x in enumerate(actor.reads) if run.has(index, x)]
                number = self.rng.choice(full)
                run.used[actor.reads[number], actor.name] += 1
                self.send(run, index, number)
            case "send_ids":
                if not left:
                    left += actor.lists[self.take(run, index, first)]
                self.send(run, index, left.pop(0))
            case _:
                wanted, returned = actor.reads
                if run.has(index, returned):
                    run.held[actor.name][self.take(run, index, returned)] -= 1
                elif run.has(index, wanted):
                    run.waiting[actor.name].append(self.take(run, index, wanted))
                run.grant(actor)
                if left and run.has_room(actor.writes[0]):
                    self.send(run, index, left.pop(0))

    def take(self, run: JobRun, index: int, register: str) -> int:
        """Read a number, and give it back. Raises Stuck for one that is none."""
        place, actor = self.place(run, index, register), run.image.actors[index]
        number = int(array_of(self.bytes_of(place).tobytes(), place.kind))
        run.used[register, actor.name] += 1
        if not 0 <= number < max(len(actor.lists), len(actor.writes)):
            raise Stuck
        return number

    def send(self, run: JobRun, index: int, number: int) -> None:
        """Hand on a number."""
        (register,) = run.image.actors[index].writes
        place = self.place(run, index, register)
        self.bytes_of(place)[:] = as_bytes(np.asarray(number, np.int64))
        run.made[register] += 1

    # Steps

    def begin_step(self, run: JobRun, index: int, number: int) -> UnderWay:
        """Note what a step reads, and spoil what it writes."""
        actor = run.image.actors[index]
        step = actor.steps[number]
        places = self.places(run, index, step)
        saved = [self.bytes_of(place).tobytes() for place in places]
        kept = [places[i] for i in self.kept(actor, number)]
        contents = [self.bytes_of(place).copy() for place in kept]
        for i in self.written(actor, step):
            self.bytes_of(places[i])[:] = self.poison
        for place, content in zip(kept, contents, strict=True):
            self.bytes_of(place)[:] = content
        return UnderWay(number, places, saved)

    def end_step(self, run: JobRun, index: int, begun: UnderWay) -> None:
        """Do what a step does, with poison in place of what has changed meanwhile."""
        actor = run.image.actors[index]
        step, places = actor.steps[begun.number], begun.places
        written = self.written(actor, step)
        is_sound = True
        values: list[Array] = []
        kept = self.kept(actor, begun.number)
        for i, (place, saved) in enumerate(zip(places, begun.saved, strict=True)):
            is_read = i in self.read(actor, step)
            if is_read and i not in written and i not in kept:
                is_sound &= self.bytes_of(place).tobytes() == saved
            values.append(array_of(saved, place.kind))
        match step.verb:
            case "feed":
                fed = run.inputs[step.subject][run.done[index]]
                self.bytes_of(places[0])[:] = as_bytes(fed)
            case "fetch":
                value = values[0] if is_sound else self.garbage(places[0])
                run.outputs[step.subject].append(value)
            case "copy":
                content = self.bytes_of(places[0]).copy()
                self.bytes_of(places[1])[:] = content if is_sound else self.poison
            case "call":
                self.end_call(actor, begun, values, is_sound)
            case _:
                interface = run.queues[step.arguments[0]].interface
                assert interface is not None, "checked by the verifier"
                run.released.add(interface)

    def end_call(
        self, actor: ActorImage, begun: UnderWay, values: list[Array], is_sound: bool
    ) -> None:
        """Write what a kernel makes."""
        with np.errstate(all="ignore"):
            made = self.work(actor, actor.steps[begun.number])(values)
        for i, array in made.items():
            target = self.bytes_of(begun.places[i])
            target[:] = as_bytes(array) if is_sound else self.poison
        for i in self.kept(actor, begun.number):
            if self.bytes_of(begun.places[i]).tobytes() != begun.saved[i]:
                # What it copies there is not what lay there: it may have read that.
                for j in made:
                    self.bytes_of(begun.places[j])[:] = self.poison

    def kept(self, actor: ActorImage, number: int) -> list[int]:
        """The arguments of a call that it promises to leave as they are."""
        names = self.unchanged.get((actor.name, number), frozenset())
        step = actor.steps[number]
        return [i for i, name in enumerate(step.arguments) if name in names]

    def work(self, actor: ActorImage, step: Step) -> Work:
        """The work of a call."""
        if actor.control:
            return self.works[step.subject][0]
        works = self.works[actor.name]
        calls = [other for other in actor.steps if other.verb == "call"]
        return works[0] if len(works) == 1 else works[calls.index(step)]

    def written(self, actor: ActorImage, step: Step) -> frozenset[int]:
        """The arguments of a step that it writes."""
        match step.verb:
            case "feed":
                return frozenset({0})
            case "copy":
                return frozenset({1})
            case "call":
                return self.work(actor, step).writes
            case _:
                return frozenset()

    def read(self, actor: ActorImage, step: Step) -> frozenset[int]:
        """The arguments of a step that it reads."""
        match step.verb:
            case "copy" | "fetch":
                return frozenset({0})
            case "call":
                return self.work(actor, step).reads
            case _:
                return frozenset()

    def places(self, run: JobRun, index: int, step: Step) -> list[Place]:
        """Where the arguments of a step lie in an act."""
        found = [self.place(run, index, name) for name in step.arguments]
        if step.verb != "copy" or found[0].kind.size == found[1].kind.size:
            return found
        # Of what is larger each act has a part.
        small = min(found, key=lambda place: place.kind.size).kind
        for i, name in enumerate(step.arguments):
            if found[i].kind.size > small.size:
                part = run.done[index] % run.every[index].get(name, 1)
                start = found[i].start + part * small.size
                found[i] = Place(found[i].chunk, start, small)
        return found

    def place(self, run: JobRun, index: int, name: str) -> Place:
        """Where an argument lies in an act."""
        owner = run.image.actors[index].name
        if (kind := self.kinds.get((owner, name))) is not None:
            body = run.walks[index]
            chunk, start = divmod(body.walk.cells[body.cells[name]], 1 << CHUNK_BITS)
            return Place([*self.memory][chunk], start, kind)
        if (variable := self.variables.get(name)) is not None:
            return place_of(variable)
        is_read = (name, owner) in run.used
        piece = run.used[name, owner] if is_read else run.made[name]
        return place_of(run.queues[name], piece)

    def garbage(self, place: Place) -> Array:
        """Poison with the shape of a place."""
        return array_of(bytes([self.poison]) * place.kind.size, place.kind)


@dataclass(frozen=True)
class WalkMemory:
    """The chunks of a machine, as loops and conditions read and write them."""

    chunks: Sequence[Bytes]

    def part(self, address: int, size: int) -> Bytes:
        """Bytes from an address on. Raises Stuck where there are none."""
        chunk, start = divmod(address, 1 << CHUNK_BITS)
        found = self.chunks[chunk][start : start + size]
        if len(found) < size:
            raise Stuck
        return found

    def word(self, address: int) -> int:
        return int(np.frombuffer(self.part(address, 8).tobytes(), np.int64)[0])

    def flag(self, address: int) -> bool:
        return bool(self.part(address, 1)[0])

    def write(self, address: int, word: int) -> None:
        self.part(address, 8)[:] = as_bytes(np.asarray(word, np.int64))

    def copy(self, target: int, source: int, size: int) -> None:
        self.part(target, size)[:] = self.part(source, size).copy()


def place_of(owner: Queue | Variable, piece: int = 0) -> Place:
    """Where a variable, or a piece of a register, lies."""
    kind, start = owner.kind, owner.offset
    assert kind is not None, "controls lie nowhere"
    assert owner.chunk is not None, "comes with the kind"
    if isinstance(owner, Queue):
        frame = piece // owner.parts % (owner.slots // owner.parts)
        start += frame * owner.stride + piece % owner.parts * owner.step
    return Place(owner.chunk, start, kind)


def as_bytes(array: Array) -> Bytes:
    """The bytes of an array, row by row."""
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)


def array_of(content: bytes, kind: TensorKind) -> Array:
    """The array that bytes are."""
    return np.frombuffer(content, np.dtype(kind.dtype)).reshape(kind.shape)


def same(found: Outputs, wanted: Outputs) -> bool:
    """Whether all pieces of all ports are equal, bit by bit."""
    return found.keys() == wanted.keys() and all(
        len(found[port]) == len(pieces)
        and all(
            one.tobytes() == other.tobytes()
            for one, other in zip(found[port], pieces, strict=True)
        )
        for port, pieces in wanted.items()
    )
