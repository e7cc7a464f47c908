"""
A launch program as a marked graph, what its steps use, and whose bytes its registers
have: what `verify-program` looks at. Its docstring says what all of this means.

Nothing here comes from the passes that make programs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from xdsl.ir import Operation

from penstock.dialects.launch import (
    ActorOp,
    CallOp,
    ChunkOp,
    CommitOp,
    CopyOp,
    FeedOp,
    FetchOp,
    KernelOp,
    ProgramOp,
    RegisterOp,
    ReleaseOp,
    VariableOp,
    memref_bytes,
    names_of,
)
from penstock.lowering.algorithms.byte_spans import Access as Access
from penstock.lowering.algorithms.byte_spans import Span as Span
from penstock.lowering.algorithms.byte_spans import shared_by as shared_by
from penstock.lowering.algorithms.byte_spans import slots_match as slots_match
from penstock.lowering.algorithms.byte_spans import uncovered
from penstock.lowering.algorithms.marked_graph import MarkedGraph, Storage
from penstock.lowering.analysis.kernel_effects import KernelEffects
from penstock.lowering.verify.program_rules.iterations import Turn


class Piece(NamedTuple):
    """Bytes from `start` up to `end` of the first slot, and whose they are."""

    origin: str
    start: int
    end: int


################################################################################
# From a program to its marked graph                                           #
################################################################################


@dataclass
class ProgramGraph:
    """
    The actors of one job of a program by number, or of a program that names none, and
    how they use registers and variables.
    """

    program: ProgramOp
    job: str | None = None

    def __post_init__(self) -> None:
        self.table = self.program.symbol_table()
        own = [x for x in self.program.actors if x.job_name == self.job]
        self._effects: dict[str, KernelEffects] = {}
        steps = [[self._access(x) for x in actor.body.block.ops] for actor in own]
        turn = Turn(self.program, own, steps, self._spans(own))
        self._pieces = turn.pieces
        self.table |= {name: self.table[of] for name, of in turn.pieces.items()}
        self.actors = turn.actors
        """The acts of an iteration, with an actor once for each of its own."""
        self.reads, self.writes, self.steps = turn.reads, turn.writes, turn.steps
        self._found = turn.found
        self.spans = turn.spans
        """Where each register and variable lies, as if chunks followed each other."""
        self.writer = {name: i for i, names in enumerate(self.writes) for name in names}
        """The actor that writes, or shows, each register and control."""
        self.first_write = [first_writes(steps) for steps in self.steps]
        """For each actor the first step that writes a register."""
        self.updates = [set(self._updated_by(actor)) for actor in self.actors]
        """For each actor the variables that it writes by copies alone."""
        self.arriving = self._arriving()
        """Interfaces that other jobs have written before an actor of this one acts."""
        for name in self.arriving:
            self.first_write[self.writer[name]][name] = 0
        self.last_use = [last_uses(steps) for steps in self.steps]
        """For each actor the last step that names a register or variable."""
        self.graph = MarkedGraph(len(self.actors), turn.edges)
        self.sources: dict[str, list[str]] = {}
        """
        The registers whose bytes the writer of a register finds there, by its views.
        """
        self.shown: dict[str, tuple[Piece, ...]] = {}
        """
        The pieces whose bytes each register and variable has: its own, if a step writes
        it.
        """
        self._under: dict[str, tuple[Piece, ...]] = {}
        """The pieces under each register before its writer acted."""
        self._uses: dict[str, dict[int, list[Span]]] = defaultdict(
            lambda: defaultdict(list)
        )
        """The bytes of each register that actors use, under any name."""
        self._trace()

    def is_variable(self, name: str) -> bool:
        """Whether a symbol is a variable."""
        return isinstance(self.table[name], VariableOp)

    def is_granted(self, control: str) -> bool:
        """Whether a main job says by a control when a section of the job may begin."""
        return control in self._granted

    @cached_property
    def _granted(self) -> set[str]:
        choosing = [x for x in self.program.actors if x.kind_name == "case"]
        return {name for actor in choosing for name in names_of(actor.writes)}

    def _updated_by(self, actor: ActorOp) -> Iterator[str]:
        by: dict[str, set[bool]] = {}
        for step in actor.body.block.ops:
            for name in self._access(step).written:
                by.setdefault(name, set()).add(isinstance(step, CopyOp))
        for name, are_copies in by.items():
            if self.is_variable(name) and are_copies == {True}:
                yield name

    def register_of(self, name: str) -> str:
        """The register that a piece of one is of."""
        return self._pieces.get(name, name)

    def has_own_bytes(self, name: str) -> bool:
        """Whether a step of a register's writer writes it; true for a variable."""
        writer = self.writer.get(name)
        return self.is_variable(name) or (
            writer is not None and name in self.first_write[writer]
        )

    def _spans(self, actors: Sequence[ActorOp]) -> dict[str, Span]:
        bases: dict[str, tuple[int, int]] = {}
        end = 0
        for name, op in self.table.items():
            if isinstance(op, ChunkOp):
                bases[name] = end, op.memory_case.alignment
                end += op.size.value.data
        spans: dict[str, Span] = {}
        own = {name for actor in actors for name in names_of(actor.writes)}
        for name, op in self.table.items():
            if isinstance(op, VariableOp) or (
                isinstance(op, RegisterOp) and name in own
            ):
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
                effects = self._effects_of(step.kernel.root_reference.data)
                written = [names[i] for i in sorted(effects.written)]
                needed = [names[i] for i in sorted(effects.needed & effects.written)]
                return Access(names, written, step.unchanged, needed)
            case CopyOp():
                target = step.target.root_reference.data
                return Access([step.source.root_reference.data, target], [target])
            case FeedOp():
                target = step.target.root_reference.data
                return Access([target], [target])
            case CommitOp() | ReleaseOp():
                return Access([], [])
            case _:
                assert isinstance(step, FetchOp), "checked by the verifier"
                return Access([step.source.root_reference.data], [])

    def _effects_of(self, name: str) -> KernelEffects:
        if (found := self._effects.get(name)) is None:
            kernel = self.table[name]
            assert isinstance(kernel, KernelOp), "checked by the verifier"
            found = self._effects[name] = KernelEffects(kernel)
        return found

    def _arriving(self) -> list[str]:
        """The interfaces that no step of this job writes, but one of another job."""
        here: dict[str, str] = {}
        for actor, names in enumerate(self.writes):
            for name in names:
                interface = self.interface(name)
                if interface is not None and name not in self.first_write[actor]:
                    here[name] = interface
        wanted = set(here.values())
        made = {
            interface
            for actor in (self.program.actors if wanted else ())
            if actor.job_name != self.job
            for name in names_of(actor.writes)
            if (interface := self.interface(name)) in wanted
            and name in first_writes([self._access(s) for s in actor.body.block.ops])
        }
        return [name for name, interface in here.items() if interface in made]

    def interface(self, name: str) -> str | None:
        """The name of the interface that a register or control is, if it is one."""
        op = self.table[name]
        if not isinstance(op, RegisterOp) or op.interface is None:
            return None
        return op.interface.data

    # Whose bytes registers have

    def _trace(self) -> None:
        variables = [name for name in self.spans if self.is_variable(name)]
        self.shown.update({name: (self._whole(name),) for name in variables})
        for actor in self.graph.order:
            for name in self.writes[actor]:
                if name in self.spans:
                    self._trace_register(name, actor)

    def _whole(self, name: str) -> Piece:
        span = self.spans[name]
        return Piece(name, span.start, span.start + span.size)

    def _trace_register(self, name: str, actor: int) -> None:
        own = self.spans[name]
        found = self.sources[name] = self._found[actor].get(name, [])
        pieces = (piece for other in found for piece in self.shown.get(other, ()))
        inside = (
            Piece(origin, max(start, own.start), min(end, own.start + own.size))
            for origin, start, end in pieces
        )
        under = (piece for piece in inside if piece.start < piece.end)
        self._under[name] = tuple(dict.fromkeys(under))
        is_written = name in self.first_write[actor]
        self.shown[name] = (self._whole(name),) if is_written else self._under[name]

    def storages(self) -> dict[str, Storage]:
        """The bytes that each register and variable with bytes of its own lies on."""
        for actor, uses in enumerate(self.last_use):
            for name in uses:
                self._note(actor, self.shown.get(name, ()))
            for name in self.first_write[actor]:
                if self.writer.get(name) == actor:
                    self._note(actor, self._under[name])
        return {
            name: Storage(
                span.start,
                span.end,
                self.writer.get(name),
                list(self._uses[name]),
                span.slots,
                span.stride,
            )
            for name, span in self.spans.items()
            if self.has_own_bytes(name)
        }

    def _note(self, actor: int, pieces: Sequence[Piece]) -> None:
        for piece in pieces:
            self._uses[piece.origin][actor].append(self._slots_of(piece))

    def _slots_of(self, piece: Piece) -> Span:
        """The same bytes in all slots."""
        size = piece.end - piece.start
        return self.spans[piece.origin]._replace(start=piece.start, size=size)

    def users(self, name: str, of: str) -> list[int]:
        """
        The actors that use, under any name, bytes of a register that another one
        shares.
        """
        span = self.spans[of]
        return [
            actor
            for actor, used in self._uses[name].items()
            if any(shared_by(piece, span) for piece in used)
        ]

    def is_done_before(self, actor: int, victim: str, over: str) -> bool:
        """Whether an actor's steps use a register only before they write another."""
        begins = self.first_write[actor][over]
        steps = self.steps[actor]
        # Only where it lies as a view does a kernel write to it what is there.
        unchanged = set(steps[begins].unchanged if steps else ())
        unchanged &= {*self.sources.get(over, ())}
        return all(
            step < begins or (step == begins and name in unchanged)
            for name, step in self.last_use[actor].items()
            if self._shows(name, victim, over)
        )

    def _shows(self, name: str, victim: str, over: str) -> bool:
        """Whether a name stands for bytes of a register that another one lies on."""
        return any(
            piece.origin == victim
            and shared_by(self._slots_of(piece), self.spans[over])
            for piece in self.shown.get(name, ())
        )

    def missing(self, name: str) -> int:
        """The bytes of a register that are views of nothing."""
        span = self.spans[name]
        others = [self.spans[source] for source in self.sources[name]]
        return uncovered(
            span.size,
            [(x.start - span.start, x.start + x.size - span.start) for x in others],
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
