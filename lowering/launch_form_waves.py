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

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Block, SSAValue

from penstock.dialects.launch import ActorOp, CallOp, KernelOp, names_of
from penstock.lowering.byte_ranges import ByteRanges, Range
from penstock.lowering.joined_actors import JoinedRun, Joining, JoiningPass, Program
from penstock.lowering.kernel_effects import KernelEffects
from penstock.lowering.numba.waves import MEMBERS

MOST_KERNELS = 8


class Step(NamedTuple):
    """What an actor does to which bytes."""

    actor: ActorOp
    call: CallOp
    writes: Sequence[Range]
    """What it may write."""
    uses: Sequence[Range]
    """All that it uses."""

    @property
    def kernel(self) -> str:
        """The name of the kernel that it calls."""
        return self.call.kernel.root_reference.data


class Wave(JoinedRun[Step]):
    """Actors that may act at the same time."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels: set[str] = set()
        self._written = ByteRanges()
        self._used = ByteRanges()

    def meets(self, step: Step) -> bool:
        """Whether an actor uses what members write, or writes what they use."""
        return any(map(self._used.meets, step.writes)) or any(
            map(self._written.meets, step.uses)
        )

    def take(self, step: Step) -> None:
        super().take(step)
        self.kernels.add(step.kernel)
        for range in step.writes:
            self._written.add(range)
        for range in step.uses:
            self._used.add(range)


class WaveJoining(Joining[Step, Wave]):
    """A walk through the actors of a program for the waves of one stream."""

    reason_name = "no_wave"
    members_name = "wave"
    new_run = Wave

    def __init__(self, program: Program, stream: tuple[object, int], most_ns: int):
        super().__init__(program, stream, most_ns)
        self._written: dict[str, set[int]] = {}
        """Which arguments each kernel writes."""

    def step_of(self, actor: ActorOp, call: CallOp) -> Step:
        kernel, names = self.program.kernel(call), names_of(call.arguments)
        name, ranges = kernel.sym_name.data, self.program.ranges
        if (written := self._written.get(name)) is None:
            written = self._written[name] = KernelEffects(kernel).written
        targets = [*(names[i] for i in sorted(written)), *names_of(actor.writes)]
        used = dict.fromkeys((*names, *names_of(actor.reads), *targets))
        return Step(
            actor,
            call,
            [ranges[x] for x in dict.fromkeys(targets) if x in ranges],
            [ranges[x] for x in used if x in ranges],
        )

    def refusal(self, number: int, step: Step, run: Wave) -> str | None:
        if run.meets(step):
            return "bytes: it uses what the ones before write, or writes what they use"
        if step.kernel not in run.kernels and len(run.kernels) == MOST_KERNELS:
            return f"kernels: the ones before call {MOST_KERNELS} others"
        return None

    def merged(self, run: Wave) -> tuple[KernelOp, ActorOp]:
        # Members that are equal are one loop if they follow each other.
        calls = [step.call for step in sorted(run.steps, key=lambda x: x.kernel)]
        kernel = self._kernel_of([self.program.kernel(call) for call in calls])
        call = CallOp(
            kernel.sym_name.data,
            [name for call in calls for name in names_of(call.arguments)],
        )
        call.location = calls[0].location
        actors = [step.actor for step in run.steps]
        return kernel, self.actor_of(actors, call, lambda name: True)

    def _kernel_of(self, members: Sequence[KernelOp]) -> KernelOp:
        """One kernel with the phases of all members, on the arguments of all."""
        block = Block(arg_types=[type for op in members for type in op.arguments])
        args = iter(block.args)
        for member in members:
            values: dict[SSAValue, SSAValue] = {
                arg: next(args) for arg in member.body.block.args
            }
            block.add_ops(op.clone(values) for op in member.body.block.ops)
        panels = [panels for member in members for panels in member.panels]
        kernel = self.kernel_of(members, block, panels)
        counts = [len(member.arguments) for member in members]
        kernel.attributes[MEMBERS] = DenseArrayBase.from_list(i64, counts)
        return kernel


@dataclass(frozen=True)
class LaunchFormWavesPass(JoiningPass):
    """
    Let small kernels that do not need each other be one, whose members are shared out.
    """

    name = "launch-form-waves"

    JOINING = WaveJoining

    most_ns: int = 10_000
    """The longest time of a member, as it is modelled, in nanoseconds."""
