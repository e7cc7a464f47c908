"""Rules about waves of a plan: members need nothing of each other."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import SSAValue

from penstock.dialects.op.wave import WaveOp
from penstock.dialects.regst import BlockOp, RegisterOp, alias_place
from penstock.dialects.utils.diagnostics import Finding
from penstock.lowering.algorithms.byte_ranges import Range
from penstock.lowering.analysis.aliases import bytes_of, operand_register
from penstock.lowering.verify.plan_rules.graph import PlanGraph
from penstock.lowering.verify.wave_members import Bytes, conflicts_of


def bad_waves(plan_graph: PlanGraph) -> Iterator[Finding]:
    """Members of waves that write bytes which other members use."""
    memories: dict[SSAValue, str] = {}
    for task in plan_graph.tasks:
        if not isinstance(wave := task.op, WaveOp):
            continue
        members: list[Bytes] = []
        first = 0
        for member in wave.members:
            outs = task.outs[first : first + len(member.results)]
            ins = [operand_register(task, i) for i in wave.operands_of(member)]
            writes = [range_of(register, memories) for register in outs]
            uses = [range_of(register, memories) for register in ins]
            members.append(Bytes(writes, [*writes, *uses]))
            first += len(member.results)
        for number in conflicts_of(members):
            yield (
                task,
                f"member {number} ({wave.members[number].name}) of wave "
                f"'{task.task_name.data}' shares bytes with one before it, which one "
                "of them writes",
            )


def range_of(register: SSAValue, memories: dict[SSAValue, str]) -> Range:
    """The bytes of a register, in its chunk or, without a place, in its own."""
    root, start = alias_place(register)
    memory, owner = root, root.owner
    if isinstance(owner, RegisterOp) and owner.block is not None:
        block, memory = owner.block.owner, owner.block
        start += 0 if owner.offset is None else owner.offset.value.data
        if isinstance(block, BlockOp):
            memory, start = block.chunk, start + block.offset.value.data
    name = memories.setdefault(memory, str(len(memories)))
    return Range(name, start, start + bytes_of(register))
