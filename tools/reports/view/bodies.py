"""
The bodies of an actor's loops and conditions: their steps as the stages of its task,
and the memory that they have of their own, over these steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.dialects.builtin import MemRefType, i8
from xdsl.ir import Block, Operation

from penstock.dialects.launch import (
    ActorOp,
    CallOp,
    CarryOp,
    CopyOp,
    IfOp,
    KernelOp,
    LoopOp,
    NumberOp,
    ProgramOp,
    RegisterOp,
    SubviewOp,
    VariableOp,
    memref_bytes,
    names_of,
)
from penstock.lowering.analysis.kernel_effects import KernelEffects
from penstock.runtime.program.executable import Memory
from penstock.tools.reports.memory import (
    Block as MemoryBlock,
)
from penstock.tools.reports.memory import (
    Body,
    Chunk,
    Register,
    Report,
    Step,
    Zone,
)
from penstock.tools.reports.view.kernel_stages import Buffer, Region, Stage
from penstock.tools.reports.view.memory import marked, usage_of, with_aliases

BELOW = " > "
"""The text between a loop or condition and its steps."""

OpText = Callable[[Operation], str]
"""The name of the op that a step does."""


@dataclass(frozen=True)
class Place:
    """The bytes of a name, from `start` on in a register or variable."""

    root: str
    start: int
    type: MemRefType


@dataclass
class BodySteps:
    """The steps of an actor, those in loops and conditions in the order of the text."""

    actor: ActorOp
    table: Mapping[str, Operation]
    op_text: OpText
    stages: list[Stage] = field(default_factory=list[Stage])
    places: dict[str, Place] = field(default_factory=dict[str, Place])
    number: dict[str, int] = field(default_factory=dict[str, int])
    """Name: the buffer that it is."""
    lives: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Name: the first and the last stage that it is in use at."""

    def __post_init__(self) -> None:
        self._effects: dict[str, KernelEffects] = {}
        self._add(self.actor.body.block, "")

    @property
    def memory(self) -> str | None:
        """The register that is the memory of the outermost bodies, if they have one."""
        own = [x for x in names_of(self.actor.writes) if is_memory(self._type_of(x))]
        return own[-1] if own else None

    @property
    def own(self) -> dict[str, Place]:
        """The names of values that lie in the memory of bodies."""
        return {
            name: place
            for name, place in self.places.items()
            if place.root == self.memory and name in self.lives
        }

    @property
    def region(self) -> Region:
        """The steps as stages, and the buffers that they use."""
        buffers = [self._buffer(name) for name in self.number]
        return Region(tuple(buffers), tuple(self.stages))

    def _buffer(self, name: str) -> Buffer:
        place, is_own = self._place_of(name), name in self.own
        where = f" at byte {place.start}" if is_own else f" of {place.root}"
        text = type_text(place.type) + where
        return Buffer(name, text, memref_bytes(place.type), is_own)

    # Names

    def _type_of(self, name: str) -> MemRefType | None:
        op = self.table.get(name)
        return op.type if isinstance(op, RegisterOp | VariableOp) else None

    def _place_of(self, name: str) -> Place:
        if (found := self.places.get(name)) is None:
            type = self._type_of(name)
            assert type is not None, "names are of registers and variables"
            found = Place(name, 0, type)
        return found

    def _add_names(self, step: SubviewOp | CarryOp) -> None:
        if isinstance(step, SubviewOp):
            source = self._place_of(step.source.string_value())
            start = source.start + step.offset.value.data
            self.places[step.sym_name.data] = Place(source.root, start, step.type)
            return
        for name, place in zip((step.after, step.before), places_of(step), strict=True):
            source = self._place_of(place[0])
            self.places[name.data] = Place(
                source.root, source.start + place[1], step.type
            )

    # Steps

    def _add(self, block: Block, path: str) -> None:
        for step in block.ops:
            match step:
                case SubviewOp() | CarryOp():
                    self._add_names(step)
                case LoopOp():
                    self._loop(step, path)
                case IfOp():
                    self._add(step.then.block, f"{path}then{BELOW}")
                    self._add(step.otherwise.block, f"{path}else{BELOW}")
                case _:
                    self._step(step, path)

    def _loop(self, loop: LoopOp, path: str) -> None:
        first = len(self.stages)
        self._add(loop.body.block, f"{path}{form_of(loop)}{BELOW}")
        last = max(first, len(self.stages) - 1)
        for step in loop.carried:
            # From one iteration to the next.
            for name in step.before.data, step.after.data:
                self.lives[name] = first, last

    def _step(self, step: Operation, path: str) -> None:
        read, written = self._accesses(step)
        at = len(self.stages)
        for name in (*read, *written):
            self.number.setdefault(name, len(self.number))
            first, last = self.lives.get(name, (at, at))
            self.lives[name] = min(first, at), max(last, at)
        numbers = [tuple(self.number[x] for x in names) for names in (read, written)]
        self.stages.append(Stage(path + self.op_text(step), *numbers))

    def _accesses(self, step: Operation) -> tuple[list[str], list[str]]:
        match step:
            case CallOp():
                names = names_of(step.arguments)
                written = self._effects_of(step.kernel.string_value()).written
                read = [x for i, x in enumerate(names) if i not in written]
                return read, [names[i] for i in sorted(written)]
            case CopyOp():
                return [step.source.string_value()], [step.target.string_value()]
            case NumberOp():
                return [], [step.target.string_value()]
            case _:
                return [], []

    def _effects_of(self, name: str) -> KernelEffects:
        if (found := self._effects.get(name)) is None:
            kernel = self.table[name]
            assert isinstance(kernel, KernelOp), "checked by the verifier"
            found = self._effects[name] = KernelEffects(kernel)
        return found


def is_memory(type: MemRefType | None) -> bool:
    """Whether a register, or a part of one, is of bytes that hold other values."""
    return type is not None and type.element_type == i8 and type.get_num_dims() == 1


def places_of(carry: CarryOp) -> list[tuple[str, int]]:
    """The place that a carried value is written at first, and that it is read at."""
    places = [(x.source.string_value(), x.offset.data) for x in carry.places]
    return [places[0], places[-1]]


def bodies_of(program: ProgramOp, op_text: OpText) -> dict[str, BodySteps]:
    """The steps of the actors with loops or conditions, by the names of these."""
    actors = [
        actor
        for actor in program.actors
        if any(isinstance(step, IfOp | LoopOp) for step in actor.body.block.ops)
    ]
    table = program.symbol_table() if actors else {}
    return {x.sym_name.data: BodySteps(x, table, op_text) for x in actors}


def memory_of_body(steps: BodySteps) -> Report | None:
    """The memory of the bodies of an actor over their steps; None without any."""
    actor, memory = steps.actor, steps.memory
    if memory is None or not steps.own:
        return None
    type = steps.table[memory]
    assert isinstance(type, RegisterOp), "it is one that the actor writes"
    names = [stage.name for stage in steps.stages]
    device, stream = actor.device.kind.data, f"stream {actor.stream.value.data}"
    registers = with_aliases([*_registers(steps, names)])
    memory_of = Memory(memory, device, memref_bytes(type.type))
    usage = usage_of(memory_of, registers, len(names))
    block = MemoryBlock("all", 0, usage, marked(registers, usage))
    zone = Zone(memory, usage, [Chunk(memory, usage.size, [block])])
    name = actor.sym_name.data
    return Report(
        name,
        (),
        (),
        [stream],
        [Step(each, each, device, stream, i, None) for i, each in enumerate(names)],
        [zone],
        (),
        body=Body(name, counted_forms(actor), memory),
    )


def form_of(loop: LoopOp) -> str:
    """A loop in few words, such as `loop up to 20`."""
    return f"loop {'up to ' if loop.is_bounded else ''}{loop.times.value.data}"


def counted_forms(actor: ActorOp) -> str:
    """The loops and conditions of an actor that lie in no other one."""
    found: list[str] = []
    for step in actor.body.block.ops:
        if isinstance(step, LoopOp):
            found.append(form_of(step))
        elif isinstance(step, IfOp):
            found.append("if")
    return ", ".join(found)


def _registers(steps: BodySteps, names: Sequence[str]) -> Iterator[Register]:
    own = sorted(steps.own.items(), key=lambda x: -memref_bytes(x[1].type))
    for name, place in own:
        first, last = steps.lives[name]
        yield Register(
            name=name,
            type=type_text(place.type),
            bytes=memref_bytes(place.type),
            slots=1,
            offset=place.start,
            address=place.start,
            producer=names[first],
            op=names[first].rpartition(BELOW)[2],
            job=None,
            readers=(),
            first=first,
            last=last,
            always=False,
            at_peak=False,
            alias_of=None,
            alias_offset=0,
            shares=0,
            unordered=0,
            reasons=(),
        )


def type_text(type: MemRefType) -> str:
    """The shape and element type of a buffer, such as `2x3xf32`."""
    return "x".join([*map(str, type.get_shape()), str(type.element_type)])
