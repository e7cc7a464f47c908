"""
Joining of small actors of one stream to one actor, whose kernel has the stages of all,
for `launch-form-chains`.

The stream is walked in the order in which its actors are listed. An actor that calls
one kernel joins the ones before it if the pass has no reason against it; else it says
why, and those after it may join it. Actors between members in the list go before them
all or, if they have to, behind them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Block, Region
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.launch import (
    ActorOp,
    CallOp,
    ControlOp,
    KernelOp,
    PanelsAttr,
    ProgramOp,
    RegisterOp,
    ViewAttr,
    names_of,
    steps_within,
    symbols,
)
from penstock.dialects.launch.packed_layout import PANELS
from penstock.dialects.utils.attributes import carry, own_attributes
from penstock.dialects.utils.diagnostics import fused_location
from penstock.dialects.utils.walk import outermost
from penstock.lowering.algorithms.unique_names import UniqueNames
from penstock.lowering.analysis.byte_places import ranges_of
from penstock.lowering.codegen.cpu.wave import MEMBERS, modelled_ns
from penstock.lowering.launch.actor_order import ActorOrder, Run


class Program:
    """A program, with what is looked up in it."""

    def __init__(self, op: ProgramOp):
        self.op = op
        self.table = op.symbol_table()
        self.ranges = ranges_of(op)
        self.order = ActorOrder(op)
        self.names = UniqueNames(self.table)
        self._readers = Counter(
            name for actor in self.order.actors for name in names_of(actor.reads)
        )

    def kernel(self, call: CallOp) -> KernelOp:
        """The kernel of a call."""
        kernel = self.table[call.kernel.root_reference.data]
        assert isinstance(kernel, KernelOp), "checked by the verifier"
        return kernel

    def is_control(self, name: str) -> bool:
        """Whether something that actors read is a control, not a register."""
        return isinstance(self.table[name], ControlOp)

    def readers_but(self, actors: Sequence[ActorOp]) -> Counter[str]:
        """The number of actors but for these that read each register or control."""
        return self._readers - Counter(
            name for actor in actors for name in names_of(actor.reads)
        )


StepT = TypeVar("StepT")


class JoinedRun(Run, Generic[StepT]):
    """A run, with what its members do."""

    def __init__(self) -> None:
        super().__init__()
        self.steps: list[StepT] = []

    def take(self, step: StepT) -> None:
        """Note what one more member does."""
        self.steps.append(step)


RunT = TypeVar("RunT", bound=JoinedRun[Any])


class Joining(ABC, Generic[StepT, RunT]):
    """A walk through the actors of a program for those of one stream that join."""

    reason_name: ClassVar[str]
    """The attribute of actors that says why they have not joined others."""
    members_name: ClassVar[str]
    """The attribute of an actor that says which ones it is made of."""
    new_run: Callable[[], RunT]
    """Makes a run without members: the class of runs."""

    def __init__(self, program: Program, stream: tuple[object, int], most_ns: int):
        self.program = program
        self.most_ns = most_ns
        self.stream = stream
        self._listed: list[int] = []
        """The actors in their new order."""
        self._joined: list[RunT] = []
        self._reasons: dict[int, str] = {}

    @abstractmethod
    def step_of(self, actor: ActorOp, call: CallOp) -> StepT | str:
        """
        The step of an actor that is small enough, or the reason why it stays alone.
        """

    @abstractmethod
    def refusal(self, number: int, step: StepT, run: RunT) -> str | None:
        """Why an actor that may come right after a run cannot join it, if so."""

    @abstractmethod
    def merged(self, run: RunT) -> tuple[KernelOp, ActorOp]:
        """The kernel and the actor that the members of a run become."""

    def apply(self) -> None:
        """Let actors be one where they can."""
        order = self.program.order
        if order.follows_list:
            self._walk()
        else:
            reason = "list: an actor comes after one that is listed behind it"
            self._reasons = dict.fromkeys(range(len(order.actors)), reason)
        for number, reason in self._reasons.items():
            actor = order.actors[number]
            if only_call(actor) is not None:
                actor.attributes[self.reason_name] = StringAttr(reason)
        if self._joined:
            self._replace()

    def _walk(self) -> None:
        run: RunT | None = None
        for number, actor in enumerate(self.program.order.actors):
            before = self.program.order.before[number]
            step: StepT | str | None = None
            if stream_of(actor) == self.stream:
                step = self._step_or_reason(actor)
            if isinstance(step, str):
                self._reasons[number] = step
            elif step is not None:
                run = self._taken(number, step, run)
                continue
            if run is not None and run.is_followed(before):
                run.defer(number)
            else:
                self._listed.append(number)
        self._end(run)

    def _step_or_reason(self, actor: ActorOp) -> StepT | str | None:
        """
        The step of an actor, or the reason why it stays alone; None if it calls no
        kernel.
        """
        if (call := only_call(actor)) is None:
            return None
        kernel = self.program.kernel(call)
        if (reason := unfit(actor, call, kernel, self.most_ns)) is not None:
            return reason
        return self.step_of(actor, call)

    def _taken(self, number: int, step: StepT, run: RunT | None) -> RunT:
        """The run that an actor is in."""
        reason = "alone: nothing small is next"
        if run is not None:
            reason = self._refusal(number, step, run)
        if run is None or reason is not None:
            self._end(run)
            run = self.new_run()
        if reason is not None:
            self._reasons[number] = reason
        run.add(number)
        run.take(step)
        return run

    def _refusal(self, number: int, step: StepT, run: RunT) -> str | None:
        """Why an actor cannot join a run, if so."""
        actors = self.program.order.actors
        if actors[run.members[0]].job != actors[number].job:
            return "job: the ones before belong to another one"
        if run.is_cut_off(self.program.order.before[number]):
            return "order: others are between it and the ones before"
        return self.refusal(number, step, run)

    def _end(self, run: RunT | None) -> None:
        if run is None:
            return
        self._listed += [*run.members, *run.behind]
        if len(run.members) > 1:
            self._joined.append(run)

    def _replace(self) -> None:
        """Put one actor for each run, and all actors in their new order."""
        actors, block = self.program.order.actors, self.program.op.body.block
        for number in self._listed:
            actors[number].detach()
        first = {run.members[0]: run for run in self._joined}
        gone = {number for run in self._joined for number in run.members}
        listed: list[ActorOp] = []
        dropped: set[str] = set()
        for number in self._listed:
            if (run := first.get(number)) is not None:
                kernel, actor = self.merged(run)
                block.add_op(kernel)
                listed.append(actor)
                members = [actors[member] for member in run.members]
                dropped |= written_by(members) - set(names_of(actor.writes))
            elif number not in gone:
                listed.append(actors[number])
        for actor in listed:
            kept = [name for name in names_of(actor.reads) if name not in dropped]
            actor.reads = symbols(kept)
        block.add_ops(listed)
        for name in dropped:
            if isinstance(register := self.program.table[name], RegisterOp):
                register.detach()
                register.erase()
        sweep(self.program.op)

    # For `merged`

    def actor_of(
        self,
        actors: Sequence[ActorOp],
        call: CallOp,
        is_kept: Callable[[str], bool],
    ) -> ActorOp:
        """
        The actor that others become: it makes one call, and writes what they write if
        it is a control that others read, or a register that is kept.
        """
        program = self.program
        written, readers = written_by(actors), program.readers_but(actors)
        read = dict.fromkeys(name for actor in actors for name in names_of(actor.reads))
        first, last = (actors[at].sym_name.data for at in (0, -1))
        actor = ActorOp(
            program.names.make(f"{first}..{last}"),
            actors[0].device,
            actors[0].stream.value.data,
            [name for name in read if name not in written],
            [
                name
                for other in actors
                for name in names_of(other.writes)
                if (readers[name] if program.is_control(name) else is_kept(name))
            ],
            Region(Block([call])),
            actors[0].job,
        )
        if views := views_among(actors, names_of(actor.writes)):
            actor.views = ArrayAttr(views)
        actor.location = fused_location(actors)
        for other in reversed(actors):
            carry(other, actor)
            carry(other.body.block.first_op or other, call)
        names = ArrayAttr([other.sym_name for other in actors])
        actor.attributes[self.members_name] = names
        return actor

    def kernel_of(
        self,
        members: Sequence[KernelOp],
        block: Block,
        panels: Sequence[PanelsAttr | None],
    ) -> KernelOp:
        """The kernel that others become, with this body of arguments in `panels`."""
        name = self.program.names.make_numbered(self.members_name)
        kernel = KernelOp(name, "cpu", Region(block))
        kernel.location = members[0].location
        for member in members:
            carry(member, kernel)
        kernel.attributes["cost"] = cost_of(members)
        if any(panels):
            kernel.attributes[PANELS] = ArrayAttr([x or UnitAttr() for x in panels])
        return kernel


def views_among(actors: Sequence[ActorOp], kept: Collection[str]) -> list[ViewAttr]:
    """
    The views in kept registers before actors write them, one actor after the other: a
    view of another member's view has the source of that.
    """
    written = written_by(actors)
    found: dict[str, list[ViewAttr]] = {}
    for view in (view for actor in actors for view in actor.view_list):
        source, result = view.names
        below = found.get(source, []) if source in written else [ViewAttr(source, "")]
        found.setdefault(result, []).extend(
            ViewAttr(x.names[0], result, x.offset.data + view.offset.data)
            for x in below
        )
    return [view for name, views in found.items() if name in kept for view in views]


def only_call(actor: ActorOp) -> CallOp | None:
    """The only step of an actor, if it is a call of a kernel."""
    steps = list(actor.body.block.ops)
    call = steps[0] if len(steps) == 1 else None
    return call if isinstance(call, CallOp) else None


def unfit(actor: ActorOp, call: CallOp, kernel: KernelOp, most_ns: int) -> str | None:
    """Why an actor that calls a kernel cannot be one with others, if so."""
    if actor.kind is not None or actor.every is not None or own_attributes(call):
        return "step: it is not done in each act, or writes over what it reads"
    if actor.update_list:
        return "update: its kernel writes over a variable"
    if kernel.target.data != "cpu":
        return f"target: its kernel is for {kernel.target.data}"
    if kernel.source is not None or MEMBERS in kernel.attributes:
        return "source: its kernel is not printed from a body of stages alone"
    if kernel.failures:
        return "assert: its kernel may fail"
    time = modelled_ns(kernel)
    if time is None:
        return "cost: its kernel does not tell"
    if time > most_ns:
        return f"size: its kernel takes {time:.0f} ns, more than {most_ns}"
    return None


def stream_of(actor: ActorOp) -> tuple[object, int]:
    """The device and the number of an actor's stream."""
    return actor.device, actor.stream.value.data


def written_by(actors: Sequence[ActorOp]) -> set[str]:
    """The registers and controls that actors write."""
    return {name for actor in actors for name in names_of(actor.writes)}


def cost_of(members: Sequence[KernelOp]) -> DictionaryAttr:
    """The costs of kernels together."""
    costs = [cost for member in members if (cost := member.cost) is not None]
    ops = ", ".join(dict.fromkeys(op for op, _, _ in costs))
    return DictionaryAttr(
        {
            "bytes": IntegerAttr(sum(size for _, _, size in costs), i64),
            "flops": IntegerAttr(sum(flops for _, flops, _ in costs), i64),
            "op": StringAttr(ops),
        }
    )


def sweep(program: ProgramOp) -> None:
    """Remove kernels that nobody calls, and controls that nobody uses."""
    used = {
        name
        for actor in program.actors
        for names in (actor.reads, actor.writes)
        for name in names_of(names)
    }
    used |= {
        step.kernel.root_reference.data
        for actor in program.actors
        for step in steps_within(actor.body.block)
        if isinstance(step, CallOp)
    }
    for op in list(program.body.block.ops):
        if isinstance(op, KernelOp | ControlOp) and op.sym_name.data not in used:
            op.detach()
            op.erase()


@dataclass(frozen=True)
class JoiningPass(ModulePass):
    """A pass that lets small actors become one."""

    JOINING: ClassVar[type[Joining[Any, Any]]]

    most_ns: int

    def __post_init__(self) -> None:
        if self.most_ns < 1:
            raise PassFailedException(
                f"{self.name}: most_ns should be at least 1, got {self.most_ns}"
            )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for program in outermost(op, ProgramOp):
            for stream in dict.fromkeys(map(stream_of, program.actors)):
                self.JOINING(Program(program), stream, self.most_ns).apply()
