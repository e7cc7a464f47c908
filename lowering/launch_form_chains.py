"""
Let small kernels that follow each other be one function.

Actors of one stream that each call one kernel for `cpu` become one actor that calls a
kernel with the phases of all, in their order: between them nothing is looked up, and
what one leaves in the nearest cache is there for the next. Places, not names, are its
arguments: registers of one type at the same bytes are one. The stream is walked in the
order in which its actors are listed. An actor joins the ones before it

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
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, MemRefType, ModuleOp, StringAttr, UnitAttr
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.launch import (
    ActorOp,
    CallOp,
    KernelOp,
    PanelsAttr,
    ProgramOp,
    RegisterOp,
    names_of,
    symbols,
)
from penstock.dialects.launch.panels import PANELS
from penstock.lowering.actor_order import ActorOrder, Run
from penstock.lowering.byte_ranges import Range
from penstock.lowering.launch_form_waves import (
    Program,
    cost_of,
    only_call,
    stream_of,
    sweep,
    unfit,
)
from penstock.lowering.unique_names import UniqueNames

NO_CHAIN = "no_chain"
"""Why an actor is in no chain: an attribute of it."""

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


@dataclass
class Chain(Run):
    """Actors whose steps are taken one after the other."""

    steps: list[Step] = field(default_factory=list[Step])
    names: dict[Place, str] = field(default_factory=dict[Place, str])
    """What lies at each place in the end."""
    made: set[Place] = field(default_factory=set[Place])
    """The places that members write."""

    def __post_init__(self) -> None:
        super().__init__()

    def join(self, number: int, step: Step) -> None:
        """Take an actor in."""
        self.add(number)
        self.steps.append(step)
        for name, place in zip(names_of(step.call.arguments), step.places, strict=True):
            self.names.setdefault(place, name)
        self.names.update({place: name for name, place in step.written.items()})
        self.made.update(step.written.values())

    def hidden_by(self, step: Step) -> list[tuple[str, str]]:
        """What members wrote that an actor writes over, with the names of that."""
        return [
            (self.names[place], name)
            for name, place in step.written.items()
            if place in self.made
        ]

    def conflict(self, step: Step) -> str | None:
        """What an actor uses that lies over something of the chain, but differs."""
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


@dataclass
class Walk:
    """A walk through the actors of a program for the chains of one stream."""

    program: Program
    order: ActorOrder
    stream: tuple[object, int]
    most_ns: int
    listed: list[int] = field(default_factory=list[int])
    """The actors in their new order."""
    chains: list[Chain] = field(default_factory=list[Chain])
    reasons: dict[int, str] = field(default_factory=dict[int, str])

    def __post_init__(self) -> None:
        self._readers: dict[str, list[int]] = {}
        for number, actor in enumerate(self.order.actors):
            for name in names_of(actor.reads):
                self._readers.setdefault(name, []).append(number)

    def all(self) -> None:
        """Walk through the list."""
        chain: Chain | None = None
        for number, actor in enumerate(self.order.actors):
            step: Step | str | None = None
            if stream_of(actor) == self.stream:
                step = self._step_of(actor)
            if isinstance(step, Step):
                chain = self._taken(number, step, chain)
                continue
            if step is not None:
                self.reasons[number] = step
            if chain is not None and chain.is_followed(self.order.before[number]):
                chain.defer(number)
            else:
                self.listed.append(number)
        self._end(chain)

    def _taken(self, number: int, step: Step, chain: Chain | None) -> Chain:
        """The chain that an actor is in."""
        reason = "alone: nothing small is next"
        if chain is not None:
            found = self._refusal(number, step, chain)
            if found is None:
                chain.join(number, step)
                return chain
            reason = found
        self._end(chain)
        self.reasons[number] = reason
        chain = Chain()
        chain.join(number, step)
        return chain

    def _step_of(self, actor: ActorOp) -> Step | str | None:
        """What an actor does, or why it is in no chain; None if it calls no kernel."""
        if (call := only_call(actor)) is None:
            return None
        kernel, table = self.program.kernel(call), self.program.table
        if (reason := unfit(actor, call, kernel, self.most_ns)) is not None:
            return reason
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

    def _refusal(self, number: int, step: Step, chain: Chain) -> str | None:
        """Why an actor cannot join a chain, if so."""
        if chain.steps[0].actor.job != step.actor.job:
            return "job: the ones before belong to another one"
        if len(chain.members) == MOST_MEMBERS:
            return f"members: there are {MOST_MEMBERS} before"
        if chain.is_cut_off(self.order.before[number]):
            return "order: others are between it and the ones before"
        if (other := chain.conflict(step)) is not None:
            return f"bytes: it uses some of @{other}, or as another type"
        for old, new in chain.hidden_by(step):
            for reader in self._readers.get(old, ()):
                if reader == number or reader in chain.members:
                    continue
                if new not in names_of(self.order.actors[reader].reads):
                    return f"bytes: others read @{old}, which it writes over"
        last = chain.steps[-1].actor
        for name in names_of(last.writes):
            for reader in self._readers.get(name, ()):
                if stream_of(self.order.actors[reader]) != self.stream:
                    return "hand-over: another stream waits for the one before"
        return None

    def _end(self, chain: Chain | None) -> None:
        if chain is None:
            return
        self.listed += [*chain.members, *chain.behind]
        if len(chain.members) > 1:
            self.chains.append(chain)


################################################################################
# What becomes of a chain                                                      #
################################################################################


def form_chains(op: ProgramOp, most_ns: int) -> None:
    """Let small kernels of a program that follow each other be one."""
    for stream in dict.fromkeys(map(stream_of, op.actors)):
        program, order = Program(op), ActorOrder(op)
        if not order.follows_list:
            reason = "list: an actor comes after one that is listed behind it"
            note(order, dict.fromkeys(range(len(order.actors)), reason))
            return
        walk = Walk(program, order, stream, most_ns)
        walk.all()
        note(order, walk.reasons)
        if walk.chains:
            replace_chains(program, order, walk)


def note(order: ActorOrder, reasons: Mapping[int, str]) -> None:
    """Leave on actors that call kernels why they are in no chain."""
    for number, reason in reasons.items():
        if only_call(order.actors[number]) is not None:
            order.actors[number].attributes[NO_CHAIN] = StringAttr(reason)


def replace_chains(program: Program, order: ActorOrder, walk: Walk) -> None:
    """Put one actor for each chain, and all actors in their new order."""
    names, block = UniqueNames(program.table), program.op.body.block
    for number in walk.listed:
        order.actors[number].detach()
    first = {chain.members[0]: chain for chain in walk.chains}
    gone = {number for chain in walk.chains for number in chain.members}
    listed: list[ActorOp] = []
    dropped: set[str] = set()
    for number in walk.listed:
        if (chain := first.get(number)) is not None:
            kernel = kernel_of(program, chain, names)
            block.add_op(kernel)
            listed.append(actor_of(program, chain, kernel, names))
            dropped |= set(written_by(chain)) - set(names_of(listed[-1].writes))
        elif number not in gone:
            listed.append(order.actors[number])
    for actor in listed:
        kept = [name for name in names_of(actor.reads) if name not in dropped]
        actor.reads = symbols(kept)
    block.add_ops(listed)
    for name in dropped:
        if isinstance(register := program.table[name], RegisterOp):
            register.detach()
            register.erase()
    sweep(program.op)


def written_by(chain: Chain) -> Iterator[str]:
    """The registers and controls that the members of a chain write."""
    for step in chain.steps:
        yield from names_of(step.actor.writes)


def actor_of(
    program: Program, chain: Chain, kernel: KernelOp, names: UniqueNames
) -> ActorOp:
    """The actor of a chain: it writes what others read, and what is there last."""
    actors = [step.actor for step in chain.steps]
    written = list(written_by(chain))
    read = Counter(name for actor in actors for name in names_of(actor.reads))
    last = set(chain.names.values())
    first, end = (actors[at].sym_name.data for at in (0, -1))
    call = CallOp(kernel.sym_name.data, list(chain.names.values()))
    call.location = chain.steps[0].call.location
    actor = ActorOp(
        names.make(f"{first}..{end}"),
        actors[0].device,
        actors[0].stream.value.data,
        [name for name in read if name not in set(written)],
        [
            name
            for name in written
            if (
                name in last if name in program.ranges else is_read(program, read, name)
            )
        ],
        Region(Block([call])),
        actors[0].job,
    )
    actor.location = actors[0].location
    actor.attributes["chain"] = ArrayAttr([actor.sym_name for actor in actors])
    return actor


def is_read(program: Program, here: Counter[str], name: str) -> bool:
    """Whether others read a control than the members, who read it so often."""
    return program.readers[name] > here[name]


def kernel_of(program: Program, chain: Chain, names: UniqueNames) -> KernelOp:
    """The kernel with the phases of all members, on all places."""
    block = Block(arg_types=[place.type for place in chain.names])
    args: Mapping[Place, SSAValue] = dict(zip(chain.names, block.args, strict=True))
    members = [program.kernel(step.call) for step in chain.steps]
    for step, member in zip(chain.steps, members, strict=True):
        values: dict[SSAValue, SSAValue] = {
            arg: args[place]
            for arg, place in zip(member.body.block.args, step.places, strict=True)
        }
        block.add_ops(op.clone(values) for op in member.body.block.ops)
    kernel = KernelOp(names.make_numbered("chain"), "cpu", Region(block))
    kernel.location = members[0].location
    kernel.attributes["cost"] = cost_of(members)
    panels = [place.panels for place in chain.names]
    if any(panels):
        kernel.attributes[PANELS] = ArrayAttr([x or UnitAttr() for x in panels])
    return kernel


@dataclass(frozen=True)
class LaunchFormChainsPass(ModulePass):
    """
    Let small kernels that follow each other be one function.
    """

    name = "launch-form-chains"

    most_ns: int = 2_000
    """The longest time of a member, as it is modelled, in nanoseconds."""

    def __post_init__(self) -> None:
        if self.most_ns < 1:
            raise PassFailedException(
                f"launch-form-chains: most_ns should be at least 1, got {self.most_ns}"
            )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for program in list(op.walk()):
            if isinstance(program, ProgramOp):
                form_chains(program, self.most_ns)
