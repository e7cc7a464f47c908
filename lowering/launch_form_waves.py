"""
Let small kernels that do not need each other be one, whose members threads share out.

The actors of one stream that each call one kernel for `cpu` become one actor that calls
a *wave*: a kernel with all of their phases, and with the attribute `members`, how many
arguments each member takes. Its members may run in any order and at once, so that small
ops, none of which is worth cutting, are work for several threads; and what an act costs
is paid once. The stream is walked in the order in which its actors are listed. An actor
joins the ones before it

* if it is small: the longer of the times that its kernel's `cost` takes at 16 scalar
  operations and at 64 bytes a nanosecond is at most `most_ns`;
* if no byte that it uses is written by one of them, nor one that they use by it: so it
  stays within the memory that is planned;
* if it comes after none of those that have to come after one of them: what lies between
  them in the list goes before the wave or, if it has to, behind it. Orders between the
  members, and only these, are dropped, and no actor waits for what has to wait for it;
* and if all of them together call at most `MOST_KERNELS` different kernels, each of
  which is compiled once more for the wave, next to each other.

An actor that calls a kernel and is in no wave says why: `no_wave`. Actors that act at
other rates than the rest, kernels that may fail or have a `source`, and calls whose
results lie over other arguments, stay alone, and so do all if the list is in no order
in which actors can act. Waves are no members of others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from xdsl.context import Context
from xdsl.dialects import cf
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    DictionaryAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from penstock.dialects.launch import (
    ActorOp,
    CallOp,
    ControlOp,
    KernelOp,
    ProgramOp,
    names_of,
)
from penstock.dialects.launch.panels import PANELS
from penstock.lowering.actor_order import ActorOrder, Run, ranges_of
from penstock.lowering.byte_ranges import ByteRanges, Range
from penstock.lowering.kernel_effects import KernelEffects
from penstock.lowering.numba.waves import MEMBERS, modelled_ns
from penstock.lowering.unique_names import UniqueNames

NO_WAVE = "no_wave"
"""Why an actor is in no wave: an attribute of it."""

MOST_KERNELS = 8


@dataclass
class Program:
    """A program, with what is looked up in it."""

    op: ProgramOp

    def __post_init__(self) -> None:
        self.table = self.op.symbol_table()
        self.ranges = ranges_of(self.op)
        self.readers = Counter(
            name for actor in self.op.actors for name in names_of(actor.reads)
        )
        """How many actors read each register or control."""
        self._written: dict[str, set[int]] = {}

    def kernel(self, call: CallOp) -> KernelOp:
        """What is called."""
        kernel = self.table[call.kernel.root_reference.data]
        assert isinstance(kernel, KernelOp), "checked by the verifier"
        return kernel

    def bytes_of(self, actor: ActorOp, call: CallOp) -> tuple[list[Range], list[Range]]:
        """The bytes that an actor may write, and all that it uses."""
        kernel, names = self.kernel(call), names_of(call.arguments)
        name = kernel.sym_name.data
        if (written := self._written.get(name)) is None:
            written = self._written[name] = KernelEffects(kernel).written
        targets = [*(names[i] for i in sorted(written)), *names_of(actor.writes)]
        used = dict.fromkeys((*names, *names_of(actor.reads), *targets))
        return (
            [self.ranges[x] for x in dict.fromkeys(targets) if x in self.ranges],
            [self.ranges[x] for x in used if x in self.ranges],
        )


def only_call(actor: ActorOp) -> CallOp | None:
    """The only step of an actor, if it is a call of a kernel."""
    steps = list(actor.body.block.ops)
    call = steps[0] if len(steps) == 1 else None
    return call if isinstance(call, CallOp) else None


def unfit(actor: ActorOp, call: CallOp, kernel: KernelOp, most_ns: int) -> str | None:
    """Why an actor that calls a kernel can be in no wave, if so."""
    if actor.kind is not None or actor.every is not None or call.attributes:
        return "step: it is not done in each act, or writes over what it reads"
    if kernel.target.data != "cpu":
        return f"target: its kernel is for {kernel.target.data}"
    if kernel.source is not None or MEMBERS in kernel.attributes:
        return "source: its kernel is not printed from a body of phases alone"
    if any(isinstance(op, cf.AssertOp) for op in kernel.body.walk()):
        return "assert: its kernel may fail"
    time = modelled_ns(kernel)
    if time is None:
        return "cost: its kernel does not tell"
    if time > most_ns:
        return f"size: its kernel takes {time:.0f} ns, more than {most_ns}"
    return None


@dataclass
class Wave(Run):
    """Actors that may act at the same time."""

    written: ByteRanges = field(default_factory=ByteRanges)
    used: ByteRanges = field(default_factory=ByteRanges)
    kernels: set[str] = field(default_factory=set[str])
    job: StringAttr | None = None

    def __post_init__(self) -> None:
        super().__init__()

    def refusal(
        self,
        actor: ActorOp,
        before: Sequence[int],
        kernel: str,
        writes: Sequence[Range],
        uses: Sequence[Range],
    ) -> str | None:
        """Why an actor cannot join, if so."""
        if self.job != actor.job:
            return "job: the ones before belong to another one"
        if any(map(self.used.meets, writes)) or any(map(self.written.meets, uses)):
            return "bytes: it uses what the ones before write, or writes what they use"
        if self.is_cut_off(before):
            return "order: others are between it and the ones before"
        if kernel not in self.kernels and len(self.kernels) == MOST_KERNELS:
            return f"kernels: the ones before call {MOST_KERNELS} others"
        return None

    def join(
        self, number: int, kernel: str, writes: Sequence[Range], uses: Sequence[Range]
    ) -> None:
        """Take an actor in."""
        self.add(number)
        self.kernels.add(kernel)
        for range in writes:
            self.written.add(range)
        for range in uses:
            self.used.add(range)


@dataclass
class Walk:
    """A walk through the actors of a program for the waves of one stream."""

    program: Program
    order: ActorOrder
    stream: tuple[object, int]
    most_ns: int
    listed: list[int] = field(default_factory=list[int])
    """The actors in their new order."""
    waves: list[list[int]] = field(default_factory=list[list[int]])
    reasons: dict[int, str] = field(default_factory=dict[int, str])

    def all(self, numbers: Sequence[int]) -> None:
        """Walk through the list."""
        wave: Wave | None = None
        for number in numbers:
            wave = self._step(number, wave)
        self._end(wave)

    def _step(self, number: int, wave: Wave | None) -> Wave | None:
        """Look at an actor; the wave that is open then."""
        actor, before = self.order.actors[number], self.order.before[number]
        call = only_call(actor)
        if stream_of(actor) == self.stream and call is not None:
            kernel = self.program.kernel(call)
            name = kernel.sym_name.data
            reason = unfit(actor, call, kernel, self.most_ns)
            if reason is None:
                writes, uses = self.program.bytes_of(actor, call)
                if wave is not None:
                    reason = wave.refusal(actor, before, name, writes, uses)
                if wave is None or reason is not None:
                    self._end(wave)
                    wave = Wave(job=actor.job)
                    self.reasons[number] = reason or "alone: nothing small is next"
                wave.join(number, name, writes, uses)
                return wave
            self.reasons[number] = reason
        if wave is not None and wave.is_followed(before):
            wave.defer(number)
        else:
            self.listed.append(number)
        return wave

    def _end(self, wave: Wave | None) -> None:
        if wave is None:
            return
        self.listed += [*wave.members, *wave.behind]
        if len(wave.members) > 1:
            self.waves.append(wave.members)


def stream_of(actor: ActorOp) -> tuple[object, int]:
    """The device and the number of an actor's stream."""
    return actor.device, actor.stream.value.data


################################################################################
# What becomes of a wave                                                       #
################################################################################


def form_waves(op: ProgramOp, most_ns: int) -> None:
    """Let small kernels of a program be one where they can."""
    for stream in dict.fromkeys(map(stream_of, op.actors)):
        program, order = Program(op), ActorOrder(op)
        if not order.follows_list:
            reason = "list: an actor comes after one that is listed behind it"
            note(order, dict.fromkeys(range(len(order.actors)), reason))
            return
        walk = Walk(program, order, stream, most_ns)
        walk.all(range(len(order.actors)))
        note(order, walk.reasons)
        if walk.waves:
            replace_waves(program, order, walk)


def note(order: ActorOrder, reasons: Mapping[int, str]) -> None:
    """Leave on actors that call kernels why they are in no wave."""
    for number, reason in reasons.items():
        if only_call(order.actors[number]) is not None:
            order.actors[number].attributes[NO_WAVE] = StringAttr(reason)


def replace_waves(program: Program, order: ActorOrder, walk: Walk) -> None:
    """Put one actor for each wave, and all actors in their new order."""
    names, block = UniqueNames(program.table), program.op.body.block
    for number in walk.listed:
        order.actors[number].detach()
    first = {wave[0]: wave for wave in walk.waves}
    gone = {number for wave in walk.waves for number in wave}
    listed: list[ActorOp] = []
    for number in walk.listed:
        if number in first:
            members = [order.actors[other] for other in first[number]]
            kernel, actor = merged(program, members, names)
            block.add_op(kernel)
            listed.append(actor)
        elif number not in gone:
            listed.append(order.actors[number])
    block.add_ops(listed)
    sweep(program.op)


def merged(
    program: Program, actors: Sequence[ActorOp], names: UniqueNames
) -> tuple[KernelOp, ActorOp]:
    """The kernel and the actor of a wave."""
    calls = [call for actor in actors if (call := only_call(actor)) is not None]
    # Members that are equal are one loop if they follow each other.
    calls.sort(key=lambda call: program.kernel(call).sym_name.data)
    kernel = wave_of([program.kernel(call) for call in calls], names)
    step = CallOp(
        kernel.sym_name.data,
        [name for call in calls for name in names_of(call.arguments)],
    )
    step.location = calls[0].location
    read = dict.fromkeys(name for actor in actors for name in names_of(actor.reads))
    written = [name for actor in actors for name in names_of(actor.writes)]
    outside = read_by_others(program, actors, written)
    first, last = (actors[at].sym_name.data for at in (0, -1))
    actor = ActorOp(
        names.make(f"{first}..{last}"),
        actors[0].device,
        actors[0].stream.value.data,
        [name for name in read if name not in set(written)],
        [
            name
            for name in written
            if name in outside or not isinstance(program.table[name], ControlOp)
        ],
        Region(Block([step])),
        actors[0].job,
    )
    actor.location = actors[0].location
    actor.attributes["wave"] = ArrayAttr([actor.sym_name for actor in actors])
    return kernel, actor


def read_by_others(
    program: Program, actors: Sequence[ActorOp], names: Sequence[str]
) -> set[str]:
    """What actors but for some read of registers and controls."""
    here = Counter(name for actor in actors for name in names_of(actor.reads))
    return {name for name in names if program.readers[name] > here[name]}


def wave_of(members: Sequence[KernelOp], names: UniqueNames) -> KernelOp:
    """One kernel with the phases of all members, on the arguments of all."""
    block = Block(arg_types=[type for op in members for type in op.arguments])
    args = iter(block.args)
    for member in members:
        values: dict[SSAValue, SSAValue] = {
            arg: next(args) for arg in member.body.block.args
        }
        block.add_ops(op.clone(values) for op in member.body.block.ops)
    kernel = KernelOp(names.make_numbered("wave"), "cpu", Region(block))
    kernel.location = members[0].location
    counts = [len(member.arguments) for member in members]
    kernel.attributes[MEMBERS] = DenseArrayBase.from_list(i64, counts)
    kernel.attributes["cost"] = cost_of(members)
    panels = [panels for member in members for panels in member.panels]
    if any(panels):
        kernel.attributes[PANELS] = ArrayAttr([x or UnitAttr() for x in panels])
    return kernel


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
    used |= {call.kernel.root_reference.data for call in calls_in(program)}
    for op in list(program.body.block.ops):
        if isinstance(op, KernelOp | ControlOp) and op.sym_name.data not in used:
            op.detach()
            op.erase()


def calls_in(program: ProgramOp) -> Iterator[CallOp]:
    """All calls of kernels."""
    for actor in program.actors:
        for step in actor.body.block.ops:
            if isinstance(step, CallOp):
                yield step


@dataclass(frozen=True)
class LaunchFormWavesPass(ModulePass):
    """
    Let small kernels that do not need each other be one, whose members are shared out.
    """

    name = "launch-form-waves"

    most_ns: int = 10_000
    """The longest time of a member, as it is modelled, in nanoseconds."""

    def __post_init__(self) -> None:
        if self.most_ns < 1:
            raise PassFailedException(
                f"launch-form-waves: most_ns should be at least 1, got {self.most_ns}"
            )

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for program in list(op.walk()):
            if isinstance(program, ProgramOp):
                form_waves(program, self.most_ns)
