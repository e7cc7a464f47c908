"""
Check what must hold of a whole launch program, from its actors and registers alone.

A program is a marked graph (`marked_graph`): each register and each control is an edge
from its writer to each reader with as many tokens as slots are full at the start, and
one back with as many as are free. Streams order nothing.

An actor writes a register if one of its steps does: as the target of a copy or feed, or
as an argument that the body of the kernel writes. A register that no step of its writer
writes shows the bytes of what lies there: of the variables there and of what the writer
reads over the same bytes. An actor that writes a register over one that it reads, but
no step of it names, works in place and uses both. A register from which another one was
made over the same bytes, and that is read with it, is only held: no byte of it is used.
Then

* each cycle of edges carries a token, else its actors wait for each other forever;
* registers that share bytes are never in use together: all actors that use the one
  reach the writer of the other without a token, and those of the other reach the writer
  of the one over at most one token (over at most k, where both have k slots, each at
  the bytes of one of the other); the writer of the other may be the last to use the
  one, up to a step before the one that writes, or in that one if its attribute
  `unchanged` promises that it copies what it names there to where it lies;
* who uses a register, under whatever name, has done so when its slot is written again;
* nothing is written to a variable, or to a register by an actor that only reads it;
* all bytes of a register that no step writes are covered by what it can show.

All that is wrong is listed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects import memref
from xdsl.dialects.builtin import ArrayAttr, MemRefType, ModuleOp, SymbolRefAttr
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.hints import isa

from penstock.dialects.diagnostics import fail_if_any
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
)
from penstock.lowering.marked_graph import (
    Edge,
    MarkedGraph,
    Storage,
    clashes,
    marks_of,
)

################################################################################
# Places                                                                       #
################################################################################


class Span(NamedTuple):
    """Slots of `size` bytes, the first one at `start`, each `stride` from the next."""

    start: int
    size: int
    stride: int
    slots: int

    @property
    def end(self) -> int:
        """Where the last slot ends."""
        return self.start + self.stride * (self.slots - 1) + self.size

    @property
    def starts(self) -> Iterator[int]:
        """Where each slot starts."""
        return (self.start + self.stride * i for i in range(self.slots))


def shared_by(a: Span, b: Span) -> int:
    """The bytes that the slots of both have in common."""
    if a.start >= b.end or b.start >= a.end:
        return 0
    first, second = list(a.starts), list(b.starts)
    shared = i = j = 0
    while i < a.slots and j < b.slots:
        end, other = first[i] + a.size, second[j] + b.size
        shared += max(0, min(end, other) - max(first[i], second[j]))
        if end <= other:
            i += 1
        else:
            j += 1
    return shared


def slots_match(a: Span, b: Span) -> bool:
    """Whether each slot shares bytes with no other than the same one."""
    if a.slots != b.slots:
        return False
    if a.slots == 1:
        return True
    low, high = sorted((a, b))
    is_inside = high.start + high.size <= low.start + low.stride
    return a.stride == b.stride and is_inside


def uncovered(size: int, pieces: Sequence[tuple[int, int]]) -> int:
    """The bytes from 0 up to a size that lie in none of these from-to pieces."""
    missing = reached = 0
    for start, end in sorted(pieces):
        missing += max(0, min(start, size) - reached)
        reached = max(reached, min(end, size))
    return missing + size - reached


################################################################################
# Steps                                                                        #
################################################################################


def written_arguments(kernel: KernelOp) -> set[int]:
    """The arguments that the body of a kernel writes, or may write."""
    block = kernel.body.block
    stands_for: dict[SSAValue, int] = {arg: arg.index for arg in block.args}
    written: set[int] = set()
    for op in block.walk():
        views = [value for value in op.results if isinstance(value.type, MemRefType)]
        for value in op.operands:
            if (argument := stands_for.get(value)) is None:
                continue
            if views:
                stands_for.update(dict.fromkeys(views, argument))
            elif may_write(op, value):
                written.add(argument)
    return written


def may_write(op: Operation, value: SSAValue) -> bool:
    """Whether an op of a kernel may write a memref that is one of its operands."""
    match op:
        case memref.LoadOp():
            return False
        case memref.CopyOp():
            return op.destination == value
        case LinalgStructuredOperation():
            return value in op.outputs
        case _:
            return True


def unchanged_by(call: CallOp) -> Sequence[str]:
    """What the attribute `unchanged` of a call promises to leave as it is."""
    promised = call.attributes.get("unchanged")
    return names_of(promised) if isa(promised, ArrayAttr[SymbolRefAttr]) else ()


class Access(NamedTuple):
    """
    What one step of an actor names, what of it it writes, and what it leaves as it is,
    though it may write over it.
    """

    named: Sequence[str]
    written: Sequence[str]
    unchanged: Sequence[str] = ()


################################################################################
# From a program to its marked graph                                           #
################################################################################


@dataclass
class ProgramGraph:
    """The actors of a program by number, and how they use registers and variables."""

    program: ProgramOp

    def __post_init__(self) -> None:
        self.table = self.program.symbol_table()
        self.actors = [op for op in self.table.values() if isinstance(op, ActorOp)]
        self.reads = [names_of(actor.reads) for actor in self.actors]
        self.writes = [names_of(actor.writes) for actor in self.actors]
        self.spans = self._spans()
        """Where each register and variable lies, as if chunks followed each other."""
        kernels = [op for op in self.table.values() if isinstance(op, KernelOp)]
        self._written = {k.sym_name.data: written_arguments(k) for k in kernels}
        self.steps = [
            [self._access(step) for step in actor.body.block.ops]
            for actor in self.actors
        ]
        self.writer = {name: i for i, names in enumerate(self.writes) for name in names}
        """The actor that writes, or shows, each register and control."""
        self.first_write = [first_writes(steps) for steps in self.steps]
        """For each actor the first step that writes a register."""
        self.last_use = [last_uses(steps) for steps in self.steps]
        """For each actor the last step that names a register or variable."""
        self.graph = MarkedGraph(len(self.actors), self._edges())
        self.shown: dict[str, tuple[str, ...]] = {}
        """Whose bytes each register and variable has: its own, if a step writes it."""
        self.sources: dict[str, list[str]] = {}
        """What the writer of a register reads of the same bytes and does not hold."""
        self._made_from: dict[str, int] = {}
        self._number = {name: i for i, name in enumerate(self.spans)}
        self._uses: dict[str, dict[int, list[str]]] = defaultdict(
            lambda: defaultdict(list)
        )
        """Under which names actors use the bytes of each register."""
        self._trace()

    def is_variable(self, name: str) -> bool:
        """Whether a symbol is a variable."""
        return isinstance(self.table[name], VariableOp)

    def has_own_bytes(self, name: str) -> bool:
        """Whether a step of a register's writer writes it; true for a variable."""
        writer = self.writer.get(name)
        return self.is_variable(name) or (
            writer is not None and name in self.first_write[writer]
        )

    def _spans(self) -> dict[str, Span]:
        bases: dict[str, tuple[int, int]] = {}
        end = 0
        for name, op in self.table.items():
            if isinstance(op, ChunkOp):
                bases[name] = end, op.memory_case.alignment
                end += op.size.value.data
        spans: dict[str, Span] = {}
        for name, op in self.table.items():
            if isinstance(op, RegisterOp | VariableOp):
                base, alignment = bases[op.chunk.root_reference.data]
                start, size = base + op.offset.value.data, memref_bytes(op.type)
                spans[name] = Span(start, size, size, 1)
                if isinstance(op, RegisterOp):
                    stride = op.stride(alignment)
                    spans[name] = Span(start, size, stride, op.slots.value.data)
        return spans

    def _access(self, step: Operation) -> Access:
        match step:
            case CallOp():
                names = names_of(step.arguments)
                indices = self._written[step.kernel.root_reference.data]
                written = [names[i] for i in sorted(indices)]
                return Access(names, written, unchanged_by(step))
            case CopyOp():
                target = step.target.root_reference.data
                return Access([step.source.root_reference.data, target], [target])
            case FeedOp():
                target = step.target.root_reference.data
                return Access([target], [target])
            case _:
                assert isinstance(step, FetchOp), "checked by the verifier"
                return Access([step.source.root_reference.data], [])

    def _edges(self) -> list[Edge]:
        edges: list[Edge] = []
        for reader, names in enumerate(self.reads):
            for name in names:
                op = self.table[name]
                assert isinstance(op, RegisterOp | ControlOp), "checked by the verifier"
                initial = op.initial_slots if isinstance(op, ControlOp) else 0
                writer, free = self.writer[name], op.slots.value.data - initial
                edges.append(Edge(writer, reader, initial))
                edges.append(Edge(reader, writer, free))
        return edges

    # Whose bytes registers have

    def _trace(self) -> None:
        variables = [name for name in self.spans if self.is_variable(name)]
        self.shown.update({name: (name,) for name in variables})
        for actor in self.graph.order:
            for name in self.writes[actor]:
                if name in self.spans:
                    self._trace_register(name, actor, variables)

    def _trace_register(self, name: str, actor: int, variables: Sequence[str]) -> None:
        read = [other for other in self.reads[actor] if self._stands_on(name, other)]
        origins = 0
        for other in read:
            origins |= self._made_from.get(other, 0)
        direct = [other for other in read if not origins >> self._number[other] & 1]
        self._made_from[name] = origins | sum(1 << self._number[x] for x in direct)
        if name in self.first_write[actor]:
            self.sources[name], self.shown[name] = direct, (name,)
            return
        direct += [other for other in variables if self._stands_on(name, other)]
        self.sources[name] = direct
        span = self.spans[name]
        self.shown[name] = tuple(
            dict.fromkeys(
                origin
                for other in direct
                for origin in self.shown.get(other, ())
                if shared_by(span, self.spans[origin])
            )
        )

    def _stands_on(self, name: str, other: str) -> bool:
        if (span := self.spans.get(other)) is None:
            return False
        own = self.spans[name]
        return shared_by(own, span) > 0 and slots_match(own, span)

    def storages(self) -> dict[str, Storage]:
        """The bytes that each register and variable with bytes of its own lies on."""
        for actor, uses in enumerate(self.last_use):
            for name in dict.fromkeys((*uses, *self._overwritten(actor))):
                for origin in self.shown.get(name, ()):
                    self._uses[origin][actor].append(name)
        return {
            name: Storage(
                span.start, span.end, self.writer.get(name), list(self._uses[name])
            )
            for name, span in self.spans.items()
            if self.has_own_bytes(name)
        }

    def _overwritten(self, actor: int) -> Iterator[str]:
        """What an actor works on in place."""
        for name in self.first_write[actor]:
            if self.writer.get(name) == actor:
                yield from self.sources[name]

    def users(self, name: str, of: str) -> list[int]:
        """Who uses bytes of a register, under any name, that another one shares."""
        span = self.spans[of]
        return [
            actor
            for actor, names in self._uses[name].items()
            if any(shared_by(self.spans[used], span) for used in names)
        ]

    def is_done_before(self, actor: int, victim: str, over: str) -> bool:
        """Whether an actor's steps use a register only before they write another."""
        begins = self.first_write[actor][over]
        unchanged = self.steps[actor][begins].unchanged
        return all(
            step < begins or (step == begins and name in unchanged)
            for name, step in self.last_use[actor].items()
            if victim in self.shown.get(name, ())
            and shared_by(self.spans[name], self.spans[over])
        )


def first_writes(steps: Sequence[Access]) -> dict[str, int]:
    """The first step that writes each register."""
    found: dict[str, int] = {}
    for i, step in enumerate(steps):
        for name in step.written:
            found.setdefault(name, i)
    return found


def last_uses(steps: Sequence[Access]) -> dict[str, int]:
    """The last step that names each register or variable."""
    return {name: i for i, step in enumerate(steps) for name in step.named}


################################################################################
# Findings                                                                     #
################################################################################

Finding = tuple[Operation, str]


def findings_in(program: ProgramOp) -> Iterator[Finding]:
    """All that is wrong with a program, each with the op it is about."""
    graph = ProgramGraph(program)
    yield from forbidden_writes(graph)
    if graph.graph.cycles:
        for cycle in graph.graph.cycles:
            yield deadlock(graph, cycle)
        return
    yield from missing_bytes(graph)
    yield from shared_bytes(graph)


def deadlock(graph: ProgramGraph, cycle: Sequence[int]) -> Finding:
    """That the actors of a cycle never act."""
    actors = [graph.actors[index] for index in (*cycle, cycle[0])]
    names = " -> ".join(f"@{actor.sym_name.data}" for actor in actors)
    return actors[0], f"a cycle of actors has no token, so none ever acts: {names}"


def forbidden_writes(graph: ProgramGraph) -> Iterator[Finding]:
    """Steps that write variables, or registers that their actor only reads."""
    for index, actor in enumerate(graph.actors):
        for name in graph.first_write[index]:
            if graph.is_variable(name):
                yield actor, f"@{actor.sym_name.data} writes @{name}, a variable"
            elif graph.writer.get(name) != index:
                yield (
                    actor,
                    f"@{actor.sym_name.data} writes @{name}, which it only reads",
                )


def missing_bytes(graph: ProgramGraph) -> Iterator[Finding]:
    """Registers that are handed on without all of their bytes."""
    for name, sources in graph.sources.items():
        if graph.has_own_bytes(name):
            continue
        span = graph.spans[name]
        spans = [graph.spans[source] for source in sources]
        pieces = [
            (max(0, other.start - span.start), other.start + other.size - span.start)
            for other in spans
        ]
        if missing := uncovered(span.size, pieces):
            actor = graph.actors[graph.writer[name]]
            yield (
                actor,
                f"@{actor.sym_name.data} has no step that writes @{name}, and "
                f"{missing} of its bytes lie in nothing that it reads",
            )


def shared_bytes(graph: ProgramGraph) -> Iterator[Finding]:
    """Registers that share bytes and may be in use together."""
    stored = graph.storages()
    names, storages = list(stored), list(stored.values())
    pairs = [(names[i], names[j]) for i, j in clashes(graph.graph, storages)]
    pairs = [(a, b) for a, b in pairs if shared_by(graph.spans[a], graph.spans[b])]
    for a, b in pairs:
        if None in (stored[a].writer, stored[b].writer):
            variable, other = (a, b) if stored[a].writer is None else (b, a)
            shared = shared_by(graph.spans[a], graph.spans[b])
            message = f"@{other} lies on {shared} bytes of @{variable}, a variable"
            yield graph.table[other], message
    acting = [
        (a, b)
        for a, b in pairs
        if stored[a].writer is not None and stored[b].writer is not None
    ]
    alone = [(name, name) for name in names if stored[name].writer is not None]
    turns = Turns(graph, [*acting, *alone])
    for name, _ in alone:
        if (why := turns.broken_by_itself(name)) is not None:
            yield graph.table[name], why
    for a, b in acting:
        if (why := turns.broken_by(a, b)) is not None:
            shared = shared_by(graph.spans[a], graph.spans[b])
            start = f"registers @{a} and @{b} share {shared} bytes, but "
            yield graph.table[b], start + why


class Turns:
    """Whether pairs of registers are used in turn, though they look otherwise."""

    def __init__(
        self,
        graph: ProgramGraph,
        pairs: Sequence[tuple[str, str]],
    ) -> None:
        self._graph = graph
        self._position = {actor: i for i, actor in enumerate(graph.graph.order)}
        names = dict.fromkeys(name for pair in pairs for name in pair)
        writers = list(dict.fromkeys(graph.writer[name] for name in names))
        marks = marks_of(graph.graph, writers)
        self._bit = {writer: i for i, writer in enumerate(writers)}
        self._same_act = graph.graph.after(marks)
        self._next_act = graph.graph.after_up_to_next_act(marks)

    def broken_by(self, one: str, other: str) -> str | None:
        """Who uses the bytes of the one when they are the other's; None if nobody."""
        graph = self._graph
        a, b = sorted((one, other), key=self._written_at)
        writer, later = graph.writer[a], graph.writer[b]
        for user in graph.users(a, of=b):
            is_last = user == later and graph.is_done_before(user, a, b)
            if not is_last and not self._same_act[user] >> self._bit[later] & 1:
                return self._complaint(user, a, later, b)
        turns = 1
        if slots_match(graph.spans[a], graph.spans[b]):
            turns = graph.spans[a].slots
        for user in graph.users(b, of=a):
            if not self._comes_back(user, writer, turns):
                return self._complaint(user, b, writer, a) + " again"
        return None

    def broken_by_itself(self, name: str) -> str | None:
        """Who uses a register's bytes, under another name, when they are new ones."""
        graph, writer = self._graph, self._graph.writer[name]
        for user in graph.users(name, of=name):
            if not self._comes_back(user, writer, graph.spans[name].slots):
                return self._complaint(user, name, writer, name) + " again"
        return None

    def _written_at(self, name: str) -> tuple[int, int]:
        writer = self._graph.writer[name]
        return self._position[writer], self._graph.first_write[writer][name]

    def _complaint(self, user: int, used: str, writer: int, over: str) -> str:
        actors = self._graph.actors
        return (
            f"@{actors[user].sym_name.data} may use @{used} after "
            f"@{actors[writer].sym_name.data} has begun to write @{over}"
        )

    def _comes_back(self, user: int, writer: int, turns: int) -> bool:
        """Whether an actor's act comes before that of the writer so many acts later."""
        if user == writer:
            return True
        if self._next_act[user] >> self._bit[writer] & 1:
            return True
        return turns > 1 and self._graph.graph.reaches(user, writer, turns)


@dataclass(frozen=True)
class VerifyProgramPass(ModulePass):
    """
    Check what must hold of a whole program, from its actors and registers alone.
    """

    name = "verify-program"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        programs = [program for program in op.walk() if isinstance(program, ProgramOp)]
        fail_if_any(found for program in programs for found in findings_in(program))
