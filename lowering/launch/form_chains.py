"""
Let small kernels that follow each other be one function.

Actors of one stream that each call one kernel for `cpu` become one actor that calls a
kernel with the stages of all, in their order: between them nothing is looked up, and
the results of one are still in L1 for the next. Places, not names, are its arguments:
registers of one type at the same bytes are one. The stream is walked in the order in
which its actors are listed. An actor joins the ones before it

* if it is small: the longer of the times that its kernel's `cost` takes at 16 scalar
  operations and at 64 bytes a nanosecond is at most `most_ns`, so that nobody would cut
  it in parts;
* if what it writes lies where nothing lies that they use, or just where something of
  its type does, and so does what it reads and they write; all in registers of one slot;
* if it comes after none of those that have to come after one of them, and no other
  stream waits for the one just before it: what lies between them in the list goes
  before the chain or, if it has to, behind it;
* if nobody else reads what it writes over, but who also reads what it writes;
* and if they are fewer than `MOST_MEMBERS`.

Registers that only members use are dropped with the orders between them; their bytes
stay what they were, so the planned memory does. An actor that calls a kernel and is in
no chain says why: `no_chain`. Actors that act at other rates than the rest, kernels
that may fail or have a `source`, waves, and calls whose results lie over other
arguments, stay alone, and so do all if the list is in no order in which actors can act.

Example: `test/lowering/launch/launch-form-chains-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.dialects.builtin import ArrayAttr, MemRefType
from xdsl.ir import Block, SSAValue

from penstock.dialects.launch import (
    ActorOp,
    CallOp,
    KernelOp,
    PanelsAttr,
    RegisterOp,
    ViewAttr,
    names_of,
)
from penstock.lowering.algorithms.byte_ranges import Range
from penstock.lowering.launch.joined_actors import (
    JoinedRun,
    Joining,
    JoiningPass,
    Program,
    stream_of,
)

MOST_MEMBERS = 16


class Place(NamedTuple):
    """Where an argument lies, as what."""

    range: Range
    type: MemRefType
    panels: PanelsAttr | None


@dataclass(frozen=True)
class Step:
    """An actor that may be a member, with what it does to which places."""

    actor: ActorOp
    call: CallOp
    places: Sequence[Place]
    """Those of the arguments of its call."""
    written: Mapping[str, Place]
    """Those of the registers that it writes, by name."""


class Chain(JoinedRun[Step]):
    """Actors whose steps are taken one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.names: dict[Place, str] = {}
        """The name of the register at each place in the end."""
        self.found: dict[Place, str] = {}
        """The names of registers at places that members read before they write them."""
        self.made: set[Place] = set()
        """The places that members write."""

    def take(self, step: Step) -> None:
        super().take(step)
        for name, place in zip(names_of(step.call.arguments), step.places, strict=True):
            self.names.setdefault(place, name)
            if place not in self.made and name not in step.written:
                self.found.setdefault(place, name)
        self.names.update({place: name for name, place in step.written.items()})
        self.made.update(step.written.values())

    def hidden_by(self, step: Step) -> list[tuple[str, str]]:
        """
        The results of members that an actor writes over, each with the name of the new
        ones.
        """
        return [
            (self.names[place], name)
            for name, place in step.written.items()
            if place in self.made
        ]

    def conflict(self, step: Step) -> str | None:
        """
        The name of a register of the chain whose bytes overlap those that an actor
        uses, but are not the same, where one of both writes them; None without one.
        """
        targets = set(step.written.values())
        for place in step.places:
            for other in self.names:
                is_changed = place in targets or other in self.made
                if is_changed and place != other and overlap(place.range, other.range):
                    return self.names[other]
        return None


def overlap(a: Range, b: Range) -> bool:
    """Whether two ranges share bytes."""
    return a.memory == b.memory and a.start < b.end and b.start < a.end


class ChainJoining(Joining[Step, Chain]):
    """A walk through the actors of a program for the chains of one stream."""

    reason_name = "no_chain"
    members_name = "chain"
    new_run = Chain

    def __init__(self, program: Program, stream: tuple[object, int], most_ns: int):
        super().__init__(program, stream, most_ns)
        self._readers: dict[str, list[int]] = {}
        for number, actor in enumerate(program.order.actors):
            for name in names_of(actor.reads):
                self._readers.setdefault(name, []).append(number)

    def step_of(self, actor: ActorOp, call: CallOp) -> Step | str:
        kernel, table = self.program.kernel(call), self.program.table
        names = names_of(call.arguments)
        for name in names:
            register = table[name]
            if isinstance(register, RegisterOp) and register.slots.value.data > 1:
                return f"slots: @{name} has several"
        places = [
            Place(self.program.ranges[name], type, panels)
            for name, type, panels in zip(
                names, kernel.arguments, kernel.panels, strict=True
            )
        ]
        by_name = dict(zip(names, places, strict=True))
        targets = [x for x in names_of(actor.writes) if x in self.program.ranges]
        if any(name not in by_name for name in targets):
            return "step: it has a result that its call does not name"
        return Step(actor, call, places, {name: by_name[name] for name in targets})

    def refusal(self, number: int, step: Step, run: Chain) -> str | None:
        if len(run.members) == MOST_MEMBERS:
            return f"members: there are {MOST_MEMBERS} before"
        if (other := run.conflict(step)) is not None:
            return f"bytes: it uses some of @{other}, or as another type"
        actors = self.program.order.actors
        for old, new in run.hidden_by(step):
            for reader in self._readers.get(old, ()):
                if reader == number or reader in run.members:
                    continue
                if new not in names_of(actors[reader].reads):
                    return f"bytes: others read @{old}, which it writes over"
        for name in names_of(run.steps[-1].actor.writes):
            for reader in self._readers.get(name, ()):
                if stream_of(actors[reader]) != self.stream:
                    return "hand-over: another stream waits for the one before"
        return None

    def merged(self, run: Chain) -> tuple[KernelOp, ActorOp]:
        kernel = self._kernel_of(run)
        # Of several names of a place others may read the last one alone.
        last = list(run.names.values())
        call = CallOp(kernel.sym_name.data, last)
        call.location = run.steps[0].call.location
        actors = [step.actor for step in run.steps]
        merged = self.actor_of(actors, call, set(last).__contains__)
        written = set(names_of(merged.writes))
        found = [
            ViewAttr(name, run.names[place])
            for place, name in run.found.items()
            if run.names[place] != name and run.names[place] in written
        ]
        views = dict.fromkeys((*merged.view_list, *found))
        merged.views = ArrayAttr(views) if views else None
        return kernel, merged

    def _kernel_of(self, chain: Chain) -> KernelOp:
        """The kernel with the stages of all members, on all places."""
        block = Block(arg_types=[place.type for place in chain.names])
        args: Mapping[Place, SSAValue] = dict(zip(chain.names, block.args, strict=True))
        members = [self.program.kernel(step.call) for step in chain.steps]
        for step, member in zip(chain.steps, members, strict=True):
            values: dict[SSAValue, SSAValue] = {
                arg: args[place]
                for arg, place in zip(member.body.block.args, step.places, strict=True)
            }
            block.add_ops(op.clone(values) for op in member.body.block.ops)
        return self.kernel_of(members, block, [place.panels for place in chain.names])


@dataclass(frozen=True)
class LaunchFormChainsPass(JoiningPass):
    """
    Let small kernels that follow each other be one function.
    """

    name = "launch-form-chains"

    JOINING = ChainJoining

    most_ns: int = 2_000
    """The longest time of a member, as it is modelled, in nanoseconds."""
