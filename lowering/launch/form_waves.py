"""
Let the kernels of waves be one, whose members threads share out.

`plan-form-waves` chooses which tasks are a wave, and the actor of such a task calls a
kernel for each member. Calls of an actor that follow each other become one of a kernel
with all of their stages, and with the attribute `members`, how many arguments each
takes: it is cut in parts by members, which run in any order and at once. A call joins
the ones before it

* if its kernel is for `cpu`, cannot fail, and has no `source` and no members;
* if nothing lies over its other arguments in its result (`unchanged`), and it is done
  in each act;
* if no byte that it uses is written by one of them, nor one that they use by it;
* and if all of them together call at most `MOST_KERNELS` different kernels, each of
  which is compiled once more for the wave, next to each other.

A call that is left says why: `no_wave`. Actors with a single call say nothing.

Example: `test/lowering/launch/launch-form-waves-example.mlir`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseArrayBase,
    ModuleOp,
    StringAttr,
    UnitAttr,
    i64,
)
from xdsl.ir import Block, Region, SSAValue
from xdsl.passes import ModulePass

from penstock.dialects.launch import ActorOp, CallOp, KernelOp, ProgramOp, names_of
from penstock.dialects.launch.packed_layout import PANELS
from penstock.dialects.utils.attributes import carry, own_attributes
from penstock.dialects.utils.walk import outermost
from penstock.lowering.algorithms.byte_ranges import ByteRanges, Range
from penstock.lowering.analysis.kernel_effects import KernelEffects
from penstock.lowering.codegen.cpu.wave import MEMBERS
from penstock.lowering.launch.joined_actors import Program, cost_of, sweep

MOST_KERNELS = 8

NO_WAVE = "no_wave"
"""The attribute of a call that says why it has not joined others."""


class Wave:
    """Calls that may be made at the same time."""

    def __init__(self) -> None:
        self.calls: list[CallOp] = []
        self.kernels: set[str] = set()
        self._written = ByteRanges()
        self._used = ByteRanges()

    def refusal(
        self, kernel: str, writes: list[Range], uses: list[Range]
    ) -> str | None:
        """Why a call cannot join these, if so."""
        if any(map(self._used.meets, writes)) or any(map(self._written.meets, uses)):
            return "bytes: it uses what the ones before write, or writes what they use"
        if kernel not in self.kernels and len(self.kernels) == MOST_KERNELS:
            return f"kernels: the ones before call {MOST_KERNELS} others"
        return None

    def take(
        self, call: CallOp, kernel: str, writes: list[Range], uses: list[Range]
    ) -> None:
        """Take one more call."""
        self.calls.append(call)
        self.kernels.add(kernel)
        for range in writes:
            self._written.add(range)
        for range in uses:
            self._used.add(range)


def unfit(call: CallOp, kernel: KernelOp) -> str | None:
    """Why a call is in no wave, if so."""
    if any(name != NO_WAVE for name in own_attributes(call)):
        return "step: it is not made in each act, or writes over what it reads"
    if kernel.target.data != "cpu":
        return f"target: its kernel is for {kernel.target.data}"
    if kernel.source is not None or MEMBERS in kernel.attributes:
        return "source: its kernel is not printed from a body of stages alone"
    if kernel.can_fail:
        return "assert: its kernel may fail"
    return None


class WaveBuilder:
    """Forms the waves of a program."""

    def __init__(self, op: ProgramOp) -> None:
        self._program = Program(op)
        self._written: dict[str, set[int]] = {}
        """The arguments that each kernel writes."""

    def form(self, actor: ActorOp) -> bool:
        """Let calls of an actor be one where they can; whether some are."""
        steps = list(actor.body.block.ops)
        calls = [step for step in steps if isinstance(step, CallOp)]
        if len(calls) < 2 or len(calls) < len(steps):
            return False
        waves = list(self._waves(calls))
        for wave in waves:
            if len(wave.calls) > 1:
                self._join(actor, wave)
        return any(len(wave.calls) > 1 for wave in waves)

    def _waves(self, calls: Sequence[CallOp]) -> Iterator[Wave]:
        wave = Wave()
        for call in calls:
            kernel = self._program.kernel(call)
            name, ranges = kernel.sym_name.data, self._program.ranges
            names = names_of(call.arguments)
            writes = [ranges[names[i]] for i in self._written_by(kernel)]
            uses = [ranges[x] for x in names]
            reason = unfit(call, kernel) or wave.refusal(name, writes, uses)
            if reason is not None:
                call.attributes[NO_WAVE] = StringAttr(reason)
                yield wave
                wave = Wave()
            if reason is None or unfit(call, kernel) is None:
                wave.take(call, name, writes, uses)
        yield wave

    def _written_by(self, kernel: KernelOp) -> list[int]:
        name = kernel.sym_name.data
        if (written := self._written.get(name)) is None:
            written = self._written[name] = KernelEffects(kernel).written
        return sorted(written)

    def _join(self, actor: ActorOp, wave: Wave) -> None:
        # Members that are equal are one loop if they follow each other.
        calls = sorted(wave.calls, key=lambda call: call.kernel.root_reference.data)
        kernel = self._kernel_of([self._program.kernel(call) for call in calls])
        arguments = [name for call in calls for name in names_of(call.arguments)]
        joined = CallOp(kernel.sym_name.data, arguments)
        joined.location = wave.calls[0].location
        for call in wave.calls:
            carry(call, joined)
        self._program.op.body.block.insert_op_before(kernel, actor)
        actor.body.block.insert_op_before(joined, wave.calls[0])
        for call in wave.calls:
            call.detach()
            call.erase()

    def _kernel_of(self, members: Sequence[KernelOp]) -> KernelOp:
        """One kernel with the stages of all members, on the arguments of all."""
        block = Block(arg_types=[type for op in members for type in op.arguments])
        args = iter(block.args)
        for member in members:
            values: dict[SSAValue, SSAValue] = {
                arg: next(args) for arg in member.body.block.args
            }
            block.add_ops(op.clone(values) for op in member.body.block.ops)
        name = self._program.names.make_numbered("wave")
        kernel = KernelOp(name, "cpu", Region(block))
        kernel.location = members[0].location
        for member in members:
            carry(member, kernel)
        kernel.attributes["cost"] = cost_of(members)
        panels = [panels for member in members for panels in member.panels]
        if any(panels):
            kernel.attributes[PANELS] = ArrayAttr([x or UnitAttr() for x in panels])
        counts = [len(member.arguments) for member in members]
        kernel.attributes[MEMBERS] = DenseArrayBase.from_list(i64, counts)
        return kernel


@dataclass(frozen=True)
class LaunchFormWavesPass(ModulePass):
    """
    Let the kernels of waves be one, whose members threads share out.
    """

    name = "launch-form-waves"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for program in outermost(op, ProgramOp):
            builder = WaveBuilder(program)
            if any([builder.form(actor) for actor in program.actors]):
                sweep(program)
