"""
The findings of `verify-program`, against a simulation of programs in random orders:
each step writes a digest of its operands, and fetched values must not depend on the
order.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TypeAlias

import pytest
from counted_work import LINEAR, growth_of
from draws import draws
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64

from penstock.dialects.launch import (
    ActorOp,
    CallOp,
    ChunkOp,
    ControlOp,
    CopyOp,
    FeedOp,
    FetchOp,
    KernelOp,
    ProgramOp,
    RegisterOp,
    VariableOp,
    memref_bytes,
    names_of,
    symbols,
)
from penstock.dialects.utils.diagnostics import LocatedPassFailure
from penstock.lowering.algorithms.byte_spans import (
    Span,
    shared_by,
    slots_match,
    uncovered,
)
from penstock.lowering.analysis.kernel_effects import KernelEffects
from penstock.lowering.pipelines import PipelineOptions, pipeline
from penstock.lowering.verify.program import VerifyProgramPass
from penstock.tools.driver.compiler import installed_compiler, run_pipeline

Outputs: TypeAlias = dict[str, list[bytes]]
"""The fetched values of each act, by port."""

################################################################################
# Places                                                                       #
################################################################################


def bytes_of(span: Span, slot: int) -> set[int]:
    start = span.start + slot * span.stride
    return set(range(start, start + span.size))


@pytest.mark.parametrize("seed", range(draws(33)))
def test_shared_bytes_are_those_of_the_slots(seed: int):
    rng = random.Random(seed)
    a, b = (
        Span(rng.randrange(20), size, rng.randrange(size, 12), rng.randrange(1, 4))
        for size in (rng.randrange(1, 8), rng.randrange(1, 8))
    )
    pairs = [(i, j) for i in range(a.slots) for j in range(b.slots)]
    common = {(i, j): len(bytes_of(a, i) & bytes_of(b, j)) for i, j in pairs}
    assert shared_by(a, b) == sum(common.values())
    # Slots far apart go on in step, so that only equal strides are safe.
    if slots_match(a, b):
        assert not any(count for (i, j), count in common.items() if i != j)


def test_slots_match_one_by_one():
    assert slots_match(Span(0, 8, 8, 2), Span(4, 4, 8, 2))
    assert not slots_match(Span(0, 8, 8, 2), Span(4, 8, 8, 2))
    assert not slots_match(Span(0, 8, 8, 2), Span(0, 8, 16, 2))
    assert not slots_match(Span(0, 8, 8, 2), Span(0, 8, 8, 3))
    assert slots_match(Span(0, 8, 8, 1), Span(4, 8, 8, 1))


def test_what_pieces_leave_uncovered():
    assert uncovered(10, []) == 10
    assert uncovered(10, [(4, 6), (0, 5)]) == 4
    assert uncovered(10, [(8, 20), (2, 4)]) == 6
    assert uncovered(10, [(0, 10)]) == 0


################################################################################
# A simulation of bytes                                                        #
################################################################################


@dataclass
class Simulation:
    """
    Runs the actors of a program in a random order that its registers allow.

    `in_place` are the actors whose steps also read what lies where they write.
    """

    program: ProgramOp
    in_place: set[str]
    outputs: Outputs = field(default_factory=dict[str, list[bytes]])

    def __post_init__(self) -> None:
        self.table = self.program.symbol_table()
        self.actors: list[ActorOp] = [
            op for op in self.table.values() if isinstance(op, ActorOp)
        ]
        self.acts = dict.fromkeys((actor.sym_name.data for actor in self.actors), 0)
        self.memory = {
            name: bytearray(op.size.value.data)
            for name, op in self.table.items()
            if isinstance(op, ChunkOp)
        }
        self.producer = {r: a for a in self.actors for r in names_of(a.writes)}
        self.readers = {
            r: [a for a in self.actors if r in names_of(a.reads)] for r in self.producer
        }
        for name, op in self.table.items():
            if isinstance(op, VariableOp):
                self.write(name, 0, name.encode())

    def run(self, acts: int, rng: random.Random) -> Outputs:
        """The fetched values while each actor acts this often."""
        while left := [a for a in self.actors if self.done(a) < acts]:
            ready = [actor for actor in left if self.can_act(actor)]
            assert ready, "a deadlock"
            self.act(rng.choice(ready))
        return self.outputs

    def done(self, actor: ActorOp) -> int:
        return self.acts[actor.sym_name.data]

    def can_act(self, actor: ActorOp) -> bool:
        for name in names_of(actor.reads):
            if self.done(self.producer[name]) + self.slots(name)[1] <= self.done(actor):
                return False
        for name in names_of(actor.writes):
            slots, initial = self.slots(name)
            for reader in self.readers[name]:
                if self.done(actor) + initial - self.done(reader) >= slots:
                    return False
        return True

    def slots(self, name: str) -> tuple[int, int]:
        op = self.table[name]
        assert isinstance(op, RegisterOp | ControlOp)
        initial = op.initial_slots if isinstance(op, ControlOp) else 0
        return op.slots.value.data, initial

    def act(self, actor: ActorOp) -> None:
        act = self.done(actor)
        for step in actor.body.block.ops:
            match step:
                case FeedOp():
                    fed = f"{step.port.data} {act}".encode()
                    self.write(step.target.root_reference.data, act, fed)
                case FetchOp():
                    found = self.read(step.source.root_reference.data, act)
                    self.outputs.setdefault(step.port.data, []).append(found)
                case CopyOp():
                    found = self.read(step.source.root_reference.data, act)
                    self.write(step.target.root_reference.data, act, found)
                case _:
                    assert isinstance(step, CallOp)
                    self.call(step, act, actor.sym_name.data in self.in_place)
        self.acts[actor.sym_name.data] += 1

    def call(self, call: CallOp, act: int, in_place: bool) -> None:
        names = names_of(call.arguments)
        kernel = self.table[call.kernel.root_reference.data]
        assert isinstance(kernel, KernelOp)
        written = {names[i] for i in KernelEffects(kernel).written}
        # What is promised to stay as it is, also where it is written over.
        kept = set(call.unchanged)
        saved = [(self.place(n, act), self.read(n, act)) for n in sorted(kept)]
        read = [found for _, found in saved]
        before = [self.read(n, act) for n in names if n in written and in_place]
        # A kernel may write its results before it has read all that it needs.
        for name in written:
            self.write(name, act, b"spoiled")
        read += [self.read(name, act) for name in names if name not in written | kept]
        text = b"".join([kernel.sym_name.data.encode(), *before, *read])
        for name in sorted(written, key=names.index):
            self.write(name, act, text + str(names.index(name)).encode())
        for (chunk, start, end), found in saved:
            self.memory[chunk][start:end] = found

    def place(self, name: str, act: int) -> tuple[str, int, int]:
        op = self.table[name]
        assert isinstance(op, RegisterOp | VariableOp)
        chunk = op.chunk.root_reference.data
        start, size = op.offset.value.data, memref_bytes(op.type)
        if isinstance(op, RegisterOp):
            owner = self.table[chunk]
            assert isinstance(owner, ChunkOp)
            stride = op.stride(owner.memory_case.alignment)
            start += act % op.slots.value.data * stride
        return chunk, start, start + size

    def read(self, name: str, act: int) -> bytes:
        chunk, start, end = self.place(name, act)
        return bytes(self.memory[chunk][start:end])

    def write(self, name: str, act: int, text: bytes) -> None:
        chunk, start, end = self.place(name, act)
        if len(text) != end - start:
            digest = blake2b(text, digest_size=8).digest()
            text = (digest * ((end - start) // 8 + 1))[: end - start]
        self.memory[chunk][start:end] = text


def working_in_place(program: ProgramOp) -> set[str]:
    """The actors that write where something lies that they read, but do not name."""
    table = program.symbol_table()

    def share(a: str, b: str) -> bool:
        first, second = table[a], table[b]
        if not isinstance(first, RegisterOp) or not isinstance(second, RegisterOp):
            return False
        start, begin = first.offset.value.data, second.offset.value.data
        end, over = start + memref_bytes(first.type), begin + memref_bytes(second.type)
        return first.chunk == second.chunk and start < over and begin < end

    return {
        actor.sym_name.data
        for actor in program.body.block.ops
        if isinstance(actor, ActorOp)
        for name in names_of(actor.reads)
        for made in names_of(actor.writes)
        if share(name, made)
    }


################################################################################
# Programs                                                                     #
################################################################################


def parse(text: str) -> ModuleOp:
    compiler = installed_compiler()[0]
    module = compiler.parse(text.encode(), "job.mlir")
    compiler.verify(module)
    return module


def random_job(seed: int, length: int) -> str:
    """A job of vectors: ops that work in place, views, parts and wholes, and others."""
    rng = random.Random(seed)
    lines = ['%v0 = job.input "x" : tensor<16xf32>']
    lines.append('%v1 = job.variable "w" init <ones> : tensor<16xf32>')
    sizes = [16, 16]
    used: set[int] = set()

    def recent(size: int) -> int:
        fits = [i for i, other in enumerate(sizes) if other == size]
        used.add(found := rng.choice(fits[-4:]))
        return found

    while len(sizes) < length:
        size, n = rng.choice(sizes[-4:]), len(sizes)
        kind = rng.choice(["relu", "softmax", "add", "slice", "split", "concat"])
        if size == 4 and kind in ("slice", "split"):
            kind = "softmax"
        if size == 32 and kind == "concat":
            kind = "split"
        a, b = recent(size), recent(size)
        type, half = f"tensor<{size}xf32>", f"tensor<{size // 2}xf32>"
        double = f"tensor<{2 * size}xf32>"
        match kind:
            case "add":
                text, made = f"op.add %v{a}, %v{b} : {type}, {type} -> {type}", [size]
            case "concat":
                operands = f"%v{a}, %v{b} axis 0 : {type}, {type}"
                text, made = f"op.concat {operands} -> {double}", [2 * size]
            case "slice":
                bounds = f"from [{size // 2}] to [{size}] by [1]"
                text, made = f"op.slice %v{a} {bounds} : {type} -> {half}", [size // 2]
            case "split":
                sizes_text = f"axis 0 sizes [{size // 2}, {size // 2}]"
                text = f"op.split %v{a} {sizes_text} : {type} -> {half}, {half}"
                made = [size // 2, size // 2]
            case _:
                text, made = f"op.{kind} %v{a} : {type} -> {type}", [size]
        names = ", ".join(f"%v{n + i}" for i in range(len(made)))
        lines.append(f"{names} = {text}")
        sizes += made
    for i, size in enumerate(sizes):
        if i not in used or rng.random() < 0.05:
            lines.append(f'job.output "y{i}", %v{i} : tensor<{size}xf32>')
    return "\n".join(["job.job @j placement <cpu, [0:0]> {", *lines, "}"])


def compiled(seed: int, length: int, streams: int) -> tuple[ModuleOp, ProgramOp]:
    """The program of a random job; some tasks of every other one have more slots."""
    module, rng = parse(random_job(seed, length)), random.Random(seed)
    for op in module.walk():
        if op.name.startswith("op.") and seed % 2 and rng.random() < 0.3:
            op.attributes["slots"] = IntegerAttr(rng.choice([2, 3]), i64)
    passes = pipeline(PipelineOptions("cpu", streams))
    run_pipeline(*installed_compiler(), module, passes)
    return module, next(op for op in module.walk() if isinstance(op, ProgramOp))


def messages_about(module: ModuleOp) -> list[str]:
    """The messages of `verify-program`."""
    try:
        VerifyProgramPass().apply(Context(), module)
    except LocatedPassFailure as failure:
        return [message for _, message in failure.findings]
    return []


def runs_well(program: ProgramOp, in_place: set[str], expected: Outputs) -> bool:
    """Whether some random orders of a program all fetch the same."""
    return all(
        Simulation(program, in_place).run(4, random.Random(seed)) == expected
        for seed in range(6)
    )


def move(program: ProgramOp, in_place: set[str], rng: random.Random) -> None:
    """
    Let a register start elsewhere in its chunk, mostly where another one does. Only its
    actor says which bytes a kernel that works in place needs: it is left alone.
    """
    registers = [op for op in program.body.block.ops if isinstance(op, RegisterOp)]
    fixed = {
        name
        for actor in program.body.block.ops
        if isinstance(actor, ActorOp) and actor.sym_name.data in in_place
        for name in (*names_of(actor.reads), *names_of(actor.writes))
    }
    table = program.symbol_table()
    for _ in range(100):
        moved, other = rng.sample(registers, 2)
        chunk = table[moved.chunk.root_reference.data]
        assert isinstance(chunk, ChunkOp)
        slots = moved.slots.value.data
        size = moved.stride(64) * (slots - 1) + memref_bytes(moved.type)
        if moved.sym_name.data in fixed:
            continue
        start = other.offset.value.data + rng.choice([0, 0, 0, 16])
        if start + size <= chunk.size.value.data and start != moved.offset.value.data:
            moved.offset = IntegerAttr(start, i64)
            return


def drop(program: ProgramOp, in_place: set[str], rng: random.Random) -> None:
    """Let an actor no longer wait for a control, or for what it only holds."""
    actors = [op for op in program.body.block.ops if isinstance(op, ActorOp)]
    rng.shuffle(actors)
    for actor in actors:
        if actor.sym_name.data in in_place:
            continue
        named = {
            name
            for step in actor.body.block.ops
            for name in (
                names_of(step.arguments)
                if isinstance(step, CallOp)
                else [step.source.root_reference.data]
                if isinstance(step, FetchOp)
                else []
            )
        }
        reads = names_of(actor.reads)
        held = [name for name in reads if name not in named]
        if named and len(reads) > 1 and held:
            gone = rng.choice(held)
            actor.reads = symbols([name for name in reads if name != gone])
            return


def in_listed_order(program: ProgramOp, in_place: set[str]) -> Outputs:
    """The fetched values of a program, made one act after the other."""
    simulation = Simulation(program, in_place)
    for _ in range(4):
        left: list[ActorOp] = [*simulation.actors]
        while left:
            ready = next(i for i, a in enumerate(left) if simulation.can_act(a))
            simulation.act(left.pop(ready))
    return simulation.outputs


@pytest.mark.parametrize("seed", range(draws(4)))
def test_what_is_compiled_is_right_and_runs_well(seed: int):
    module, program = compiled(seed, 40, 1 + seed % 3)
    assert messages_about(module) == []
    in_place = working_in_place(program)
    expected = in_listed_order(program, in_place)
    assert expected
    assert runs_well(program, in_place, expected)


@pytest.mark.slow
@pytest.mark.parametrize("plant", [move, drop])
def test_what_is_not_found_runs_well(
    plant: Callable[[ProgramOp, set[str], random.Random], None],
):
    found = unfound = wrong = 0
    for seed in range(9):
        module, program = compiled(seed, 24, 1 + seed % 3)
        in_place = working_in_place(program)
        expected = in_listed_order(program, in_place)
        plant(program, in_place, random.Random(seed))
        messages = messages_about(module)
        if any("cycle" in message for message in messages):
            continue
        is_right = runs_well(program, in_place, expected)
        assert is_right or messages
        found += bool(messages)
        unfound += not messages
        wrong += not is_right
    assert unfound > 0
    assert wrong > 0
    assert found > 2


def verified_chain(size: int) -> Callable[[], object]:
    """The verification of a chain of so many copies between two places."""
    lines = ["launch.chunk @c on <0, host> size 128"]
    lines += [
        f"launch.register @r{i} in @c at {64 * (i % 2)} slots 1 : memref<16xf32>"
        for i in range(size)
    ]
    lines += ["launch.control @turn slots 1 initial 1"]
    steps = ['launch.feed "x" to @r0']
    steps += [f"launch.copy @r{i} to @r{i + 1}" for i in range(size - 1)]
    for i, step in enumerate(steps):
        reads = f"@r{i - 1}" if i else "@turn"
        writes = f"@r{i}" + (", @turn" if i == size - 1 else "")
        lines.append(
            f"launch.actor @a{i} on <0, cpu:0> stream 0 "
            f"reads [{reads}] writes [{writes}] {{ {step} }}"
        )
    text = "\n".join(["launch.program @chain rank 0 {", *lines, "}"])
    module = parse(text)
    assert messages_about(module) == []
    return lambda: messages_about(module)


def test_a_long_chain_of_actors_takes_linear_time():
    """Looking at all pairs that share bytes would take a hundred times as long."""
    assert growth_of(verified_chain, 20) < LINEAR
