"""
The memory of a launch program over its steps, as a report that can be drawn.

A step is an actor, in the order in which the program lists them. A register is alive
from the step that fills it to the last one that reads it, a variable always. Of two
that are alive together over the same bytes the smaller one is drawn as an alias. The
bound is the one that the program says of its chunks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from penstock.lowering.algorithms.occupancy import Occupancy
from penstock.runtime.program.executable import (
    ActorImage,
    Memory,
    ProgramImage,
    Queue,
    TensorKind,
    Variable,
)
from penstock.tools.reports.memory import (
    Block,
    Chunk,
    Register,
    Report,
    Step,
    Usage,
    Zone,
)
from penstock.tools.reports.memory.model import OWNERS


def memory_of(
    image: ProgramImage,
    kinds: Sequence[str],
    ranks: Mapping[str, int] | None = None,
    bodies: Sequence[Report] = (),
) -> Report:
    """
    The report of a program, the actors of which do these kinds of ops, with the ranks
    of chunks that are not of the first one, and the reports of bodies.
    """
    steps = [
        Step(actor.name, kind, actor.device, f"stream {actor.stream}", 0, None)
        for actor, kind in zip(image.actors, kinds, strict=True)
    ]
    finder = _Registers(image, kinds)
    zones: list[Zone] = []
    for memory in image.chunks:
        registers = with_aliases(finder.of(memory.name))
        usage = usage_of(memory, registers, max(1, len(steps)))
        block = Block("all", 0, usage, marked(registers, usage))
        chunk = Chunk(memory.name, memory.size, [block])
        rank = (ranks or {}).get(memory.name, 0)
        name = f"{memory.device} {memory.name}"
        zones.append(Zone(name, usage, [chunk], rank=rank))
    streams = sorted({f"stream {actor.stream}" for actor in image.actors})
    return Report(image.name, (), (), streams, steps, zones, (), bodies=bodies)


class _Registers:
    """The registers in the chunks of a program."""

    def __init__(self, image: ProgramImage, kinds: Sequence[str]):
        self._image = image
        self._kinds = kinds
        self._writer: dict[str, int] = {}
        self._readers: dict[str, list[int]] = {}
        for index, actor in enumerate(image.actors):
            self._writer.update(dict.fromkeys(actor.writes, index))
            for name in self._used_by(actor):
                self._readers.setdefault(name, []).append(index)

    def _used_by(self, actor: ActorImage) -> list[str]:
        """
        The registers that an actor reads or holds, and the variables among its
        arguments.
        """
        variables = {variable.name for variable in self._image.variables}
        names = [name for named in actor.named_by_steps for name in named]
        used = [*actor.reads, *(name for name in names if name in variables)]
        return list(dict.fromkeys(used))

    def of(self, chunk: str) -> list[Register]:
        """The registers in a chunk, the largest first."""
        found = [
            self._register(thing, thing.kind)
            for thing in (*self._image.variables, *self._image.queues)
            if thing.chunk == chunk and thing.kind is not None
        ]
        return sorted(found, key=lambda register: -register.bytes)

    def _register(self, thing: Variable | Queue, kind: TensorKind) -> Register:
        is_variable = isinstance(thing, Variable)
        slots = 1 if isinstance(thing, Variable) else thing.slots
        gaps = 0 if isinstance(thing, Variable) else (slots - 1) * thing.stride
        actors, end = self._image.actors, max(0, len(self._image.actors) - 1)
        writer = self._writer.get(thing.name)
        readers = self._readers.get(thing.name, [])
        first = 0 if writer is None else writer
        return Register(
            name=thing.name,
            type=f"{'x'.join(map(str, kind.shape)) or 'scalar'} {kind.dtype}",
            bytes=gaps + kind.size,
            slots=slots,
            offset=thing.offset,
            address=thing.offset,
            producer=None if writer is None else actors[writer].name,
            op=None if writer is None else self._kinds[writer],
            job=None,
            readers=[actors[reader].name for reader in readers],
            first=0 if is_variable else first,
            last=end if is_variable else max([first, *readers]),
            always=is_variable,
            at_peak=is_variable,
            alias_of=None,
            alias_offset=0,
            shares=0,
            unordered=0,
            reasons=("variable",) if is_variable else (),
        )


def with_aliases(registers: Sequence[Register]) -> list[Register]:
    """The registers, the largest first, with those on their bytes as their aliases."""
    found: list[Register] = []
    by_start = sorted(registers, key=lambda r: (r.address, -r.bytes))
    active: list[Register] = []
    target: dict[str, Register] = {}
    for register in by_start:
        active = [r for r in active if r.address + r.bytes > register.address]
        for other in active:
            together = other.first <= register.last and register.first <= other.last
            inside = register.address + register.bytes <= other.address + other.bytes
            if together and inside and other.name not in target:
                target[register.name] = other
                break
        active.append(register)
    for register in registers:
        if (root := target.get(register.name)) is None:
            found.append(register)
        else:
            shift = register.address - root.address
            found.append(replace(register, alias_of=root.name, alias_offset=shift))
    return found


def usage_of(memory: Memory, registers: Sequence[Register], steps: int) -> Usage:
    """
    The bytes at each step: those of each register that is no alias. The bound is that
    of the plan, without variables; where the program says none, there is no ratio.
    """
    lives: dict[str, tuple[int, int]] = {}
    for register in registers:
        root = register.alias_of or register.name
        first, last = lives.get(root, (register.first, register.last))
        lives[root] = min(first, register.first), max(last, register.last)
    roots = [r for r in registers if r.alias_of is None]
    occupancy = Occupancy([(*lives[r.name], r.bytes) for r in roots])
    live, size = occupancy.of_steps(range(steps)), memory.size
    bound = occupancy.most if memory.bound is None else memory.bound
    owners = [roots[index].name for index in occupancy.owners[:OWNERS]]
    total = sum(r.bytes for r in roots)
    ratio = memory.peak / bound if memory.peak and bound else None
    return Usage(size, total, bound, ratio, live, occupancy.peak, owners)


def marked(registers: Sequence[Register], usage: Usage) -> list[Register]:
    """The registers, with those that are alive at the peak marked."""
    peak = usage.peak_step or 0
    return [replace(r, at_peak=r.first <= peak <= r.last) for r in registers]
