"""Rules about waves of a program: members need nothing of each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from penstock.dialects.launch import (
    ActorOp,
    CallOp,
    KernelOp,
    ProgramOp,
    names_of,
    steps_within,
)
from penstock.dialects.utils.diagnostics import Finding, LocatedPassFailure
from penstock.lowering.algorithms.byte_ranges import Range
from penstock.lowering.analysis.byte_places import ranges_of
from penstock.lowering.analysis.kernel_effects import KernelEffects
from penstock.lowering.codegen.cpu.wave import MEMBERS, member_counts, members_of
from penstock.lowering.verify.wave_members import Bytes, conflicts_of


def bad_waves(program: ProgramOp) -> Iterator[Finding]:
    """Waves that are none, and members that write bytes which other members use."""
    waves: dict[str, KernelOp] = {}
    for op in program.body.block.ops:
        if isinstance(op, KernelOp) and MEMBERS in op.attributes:
            if found := list(unsound(op)):
                yield from found
            else:
                waves[op.sym_name.data] = op
    if not waves:
        return
    ranges = ranges_of(program)
    for actor in program.actors:
        for step in steps_within(actor.body.block):
            if not isinstance(step, CallOp):
                continue
            if (wave := waves.get(step.kernel.root_reference.data)) is not None:
                names = names_of(step.arguments)
                if not all(name in ranges for name in names):
                    text = f"wave @{wave.sym_name.data} works on local names"
                    yield step, text
                    continue
                yield from clashes(actor, wave, [ranges[name] for name in names])


def unsound(wave: KernelOp) -> Sequence[Finding]:
    """The reasons why a kernel cannot have members."""
    try:
        members_of(wave)
    except LocatedPassFailure as failure:
        return failure.findings
    return ()


def clashes(
    actor: ActorOp, wave: KernelOp, arguments: Sequence[Range]
) -> Iterator[Finding]:
    """Members that write bytes which others use, given where arguments lie."""
    written = KernelEffects(wave).written
    members: list[Bytes] = []
    first = 0
    for count in member_counts(wave):
        own = range(first, first + count)
        writes = [arguments[i] for i in own if i in written]
        members.append(Bytes(writes, [arguments[i] for i in own]))
        first += count
    for number in conflicts_of(members):
        yield (
            actor,
            f"member {number} of wave @{wave.sym_name.data} shares bytes with one "
            f"before it in @{actor.sym_name.data}, which one of them writes",
        )
