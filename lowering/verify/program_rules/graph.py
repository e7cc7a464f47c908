"""
A launch program as a marked graph, what its steps use, and whose bytes its registers
have: what `verify-program` looks at. Its docstring says what all of this means.

Nothing here comes from the passes that make programs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from xdsl.ir import Operation

from penstock.dialects.launch import (
    ActorOp,
    CallOp,
    CarryOp,
    ChunkOp,
    CollectiveOp,
    CommitOp,
    CopyOp,
    FeedOp,
    FetchOp,
    IfOp,
    KernelOp,
    LoopOp,
    NumberOp,
    ProgramOp,
    ReceiveOp,
    RegisterOp,
    ReleaseOp,
    SendOp,
    SubviewOp,
    VariableOp,
    memref_bytes,
    names_of,
    roots_within,
    steps_within,
)
from penstock.dialects.launch.control_flow import NAMING
from penstock.lowering.algorithms.byte_spans import Access, Span
from penstock.lowering.algorithms.marked_graph import MarkedGraph
from penstock.lowering.analysis.kernel_effects import KernelEffects
from penstock.lowering.verify.program_rules.iterations import Iteration
from penstock.lowering.verify.shared_rules.uses import Acts, Uses, first_writes

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
        steps = [self._accesses(actor) for actor in own]
        self.all_spans = self._spans(own)
        """The places of registers, before those of several pieces have their own."""
        iteration = Iteration(self.program, own, steps, self.all_spans)
        self._pieces = iteration.pieces
        self.table |= {name: self.table[of] for name, of in iteration.pieces.items()}
        self.actors = iteration.actors
        """The acts of an iteration, with an actor once for each of its own."""
        self.writes, self.spans = iteration.writes, iteration.spans
        self.graph = MarkedGraph(len(self.actors), iteration.edges)
        self.iterations = [iteration.acts_in(i) for i in range(iteration.count)]
        """The acts of each of those that count as one, in the order of actors."""
        self.updates = [set(self._updated_by(actor)) for actor in self.actors]
        """For each actor the variables that it writes by copies, or says to update."""
        self.arriving = self._arriving(iteration.steps)
        """Interfaces that other jobs have written before an actor of this one acts."""
        self.uses = Uses(
            Acts(
                self.graph,
                self.graph.order,
                iteration.reads,
                iteration.writes,
                iteration.steps,
                iteration.found,
                iteration.spans,
                {name for name in self.spans if self.is_variable(name)},
                self.arriving,
            )
        )

    def is_variable(self, name: str) -> bool:
        """Whether a symbol is a variable."""
        return isinstance(self.table[name], VariableOp)

    @cached_property
    def variables(self) -> Sequence[str]:
        """The variables, in the order of the places that they have."""
        return [name for name in self.all_spans if self.is_variable(name)]

    def is_granted(self, control: str) -> bool:
        """Whether a main job says by a control when a section of the job may begin."""
        return control in self._granted

    @cached_property
    def _granted(self) -> set[str]:
        choosing = [x for x in self.program.actors if x.kind_name == "case"]
        return {name for actor in choosing for name in names_of(actor.writes)}

    def _updated_by(self, actor: ActorOp) -> Iterator[str]:
        by: dict[str, set[bool]] = {}
        steps = zip(actor.body.block.ops, self._accesses(actor), strict=True)
        for step, access in steps:
            for name in access.written:
                by.setdefault(name, set()).add(isinstance(step, CopyOp))
        said = {update.names[0] for update in actor.update_list}
        for name, are_copies in by.items():
            if self.is_variable(name) and (are_copies == {True}) != (name in said):
                yield name

    def register_of(self, name: str) -> str:
        """The register that a piece of one is of."""
        return self._pieces.get(name, name)

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

    def _accesses(self, actor: ActorOp) -> list[Access]:
        """
        The accesses of an actor's steps to registers and variables. A loop is one step,
        as nothing in it is over before its last iteration, and so is a condition.
        """
        block = actor.body.block
        roots = roots_within(block)
        return [self._of_roots(step, roots) for step in block.ops]

    def _of_roots(self, step: Operation, roots: Mapping[str, Sequence[str]]) -> Access:
        if not isinstance(step, IfOp | LoopOp | NAMING):
            access = self._access(step)
            if not roots or not any(name in roots for name in access.named):
                return access
        own = [step, *(x for r in step.regions for x in steps_within(r.block))]
        named: dict[str, None] = {}
        written: dict[str, None] = {}
        for inner in own:
            needed, writes = self.effects(inner)
            named.update({x: None for y in needed for x in roots.get(y, (y,))})
            written.update({x: None for y in writes for x in roots.get(y, (y,))})
        return Access([*(named | written)], [*written])

    def effects(self, step: Operation) -> tuple[Sequence[str], Sequence[str]]:
        """The names that a step itself needs, and those that it writes."""
        match step:
            case LoopOp():
                names = (step.count, step.condition)
                made = [] if step.made is None else [step.made.string_value()]
                return [x.string_value() for x in names if x is not None], made
            case IfOp():
                return [step.condition.string_value()], []
            case NumberOp():
                return [], [step.target.string_value()]
            case CarryOp() | SubviewOp():
                return [], []
            case _:
                access = self._access(step)
                return access.needed, access.written

    def _access(self, step: Operation) -> Access:
        match step:
            case CallOp():
                names = names_of(step.arguments)
                effects = self._effects_of(step.kernel.root_reference.data)
                written = [names[i] for i in sorted(effects.written)]
                needed = [names[i] for i in sorted(effects.needed)]
                return Access(names, written, step.unchanged, needed)
            case CopyOp():
                source, target = names_in(step)
                return Access([source, target], [target], needed=[source])
            case CollectiveOp():
                sources, targets = names_of(step.sources), names_of(step.targets)
                return Access(step.names, targets, needed=sources)
            case FeedOp() | ReceiveOp():
                target = step.target.root_reference.data
                return Access([target], [target])
            case CommitOp() | ReleaseOp():
                return Access([], [])
            case _:
                assert isinstance(step, FetchOp | SendOp), "checked by the verifier"
                source = step.source.root_reference.data
                return Access([source], [], needed=[source])

    def _effects_of(self, name: str) -> KernelEffects:
        if (found := self._effects.get(name)) is None:
            kernel = self.table[name]
            assert isinstance(kernel, KernelOp), "checked by the verifier"
            found = self._effects[name] = KernelEffects(kernel)
        return found

    def _arriving(self, steps: Sequence[Sequence[Access]]) -> list[str]:
        """The interfaces that no step of this job writes, but one of another job."""
        here: dict[str, str] = {}
        for names, own in zip(self.writes, steps, strict=True):
            written = first_writes(own)
            for name in names:
                interface = self.interface(name)
                if interface is not None and name not in written:
                    here[name] = interface
        wanted = set(here.values())
        made = {
            interface
            for actor in (self.program.actors if wanted else ())
            if actor.job_name != self.job
            for name in names_of(actor.writes)
            if (interface := self.interface(name)) in wanted
            and name in first_writes(self._accesses(actor))
        }
        return [name for name, interface in here.items() if interface in made]

    def interface(self, name: str) -> str | None:
        """The name of the interface that a register or control is, if it is one."""
        op = self.table[name]
        if not isinstance(op, RegisterOp) or op.interface is None:
            return None
        return op.interface.data


def names_in(step: CallOp | CopyOp) -> Sequence[str]:
    """The names that a step is given."""
    if isinstance(step, CallOp):
        return names_of(step.arguments)
    return [step.source.root_reference.data, step.target.root_reference.data]
