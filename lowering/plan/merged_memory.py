"""
The memory of several jobs in one plan: what lasts from run to run, and for each group
of jobs that exclude each other one chunk, in which the blocks of each job lie.

`plan-merge-jobs` says the rules.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Operation, SSAValue

from penstock.dialects.job import DeviceAttr
from penstock.dialects.plan import PlanOp
from penstock.dialects.regst import BlockOp, ChunkOp, MemoryCaseAttr, RegisterOp
from penstock.dialects.utils.value_names import name_value
from penstock.lowering.algorithms.packing.problem import align, end_of, side_by_side
from penstock.lowering.analysis.memory_bound import registers_by_block


class Placed(NamedTuple):
    """A block to be made, and the place of each register in it."""

    hint: str
    case: MemoryCaseAttr
    registers: Sequence[RegisterOp]
    offsets: Sequence[int]
    size: int
    sum: int | None = None


def kept_apart(
    hint: str, case: MemoryCaseAttr, registers: Sequence[RegisterOp]
) -> Placed:
    """A block of registers side by side."""
    sizes = [register.size for register in registers]
    offsets = side_by_side(sizes, case.alignment)
    size = end_of(offsets, sizes)
    return Placed(hint, case, registers, offsets, size, size)


def kept_together(
    hint: str, case: MemoryCaseAttr, registers: Sequence[RegisterOp]
) -> Placed:
    """A block of registers that all lie on its first byte."""
    size = max(register.size for register in registers)
    return Placed(hint, case, registers, [0] * len(registers), size, size)


def without(
    block: BlockOp, hint: str, case: MemoryCaseAttr, left: Sequence[RegisterOp]
) -> Placed:
    """The block that is left when all but these registers are taken out of it."""
    sizes = [register.size for register in left]
    starts = [offset_of(register) for register in left]
    offsets = sunk(starts, sizes, case.alignment)
    size = end_of(offsets, sizes)
    if block.sum is None:
        return Placed(hint, case, left, offsets, size)
    total = end_of(side_by_side(sizes, case.alignment), sizes)
    return Placed(hint, case, left, offsets, size, total)


def offset_of(register: RegisterOp) -> int:
    """Where a register lies in its block."""
    assert register.offset is not None, "comes with the block"
    return register.offset.value.data


def sunk(starts: Sequence[int], sizes: Sequence[int], alignment: int) -> list[int]:
    """
    Where things lie once each has sunk, in bytes, as far as it goes: what has ended
    before another one starts still does, so that no two share a byte that did not.
    """
    count = range(len(starts))
    offsets = [0] * len(starts)
    by_end = sorted(count, key=lambda i: (starts[i] + sizes[i], starts[i]))
    below, floor = 0, 0
    for i in sorted(count, key=lambda i: (starts[i], starts[i] + sizes[i])):
        while below < len(by_end) and by_end[below] != i:
            j = by_end[below]
            if starts[j] + sizes[j] > starts[i]:
                break
            floor = max(floor, offsets[j] + sizes[j])
            below += 1
        offsets[i] = align(floor, alignment)
    return offsets


class Lasting(NamedTuple):
    """The block of something that lasts from run to run."""

    block: str
    together: bool
    """Whether all that is in the block lies on its first byte, or side by side."""


def lasting_in(plan: PlanOp) -> dict[RegisterOp, Lasting]:
    """The registers of a plan that lie in bytes of their own all the time."""
    job, variables = plan.sym_name.data, variables_of(plan)
    interfaces = {
        register.register_name: register.interface.data
        for register in plan.registers
        if register.interface is not None
    }
    found: dict[RegisterOp, Lasting] = {}
    for register in plan.registers:
        if register.register in variables:
            found[register] = Lasting(f"{job}_variables", False)
        elif register.interface is not None:
            found[register] = Lasting(register.interface.data, True)
        elif register.header in interfaces:
            found[register] = Lasting(f"{interfaces[register.header]}_header", True)
        elif register.header is not None:
            found[register] = Lasting(f"{job}_headers", False)
    return found


Blocks: TypeAlias = dict[MemoryCaseAttr, list[Placed]]
"""Blocks by the kind of memory that they lie in."""


class Memory:
    """The blocks of all jobs, by the chunks they are to lie in."""

    def __init__(self) -> None:
        self._lasting: dict[tuple[MemoryCaseAttr, Lasting], list[RegisterOp]] = {}
        self._of_job: dict[PlanOp, Blocks] = {}

    def add(self, plan: PlanOp) -> None:
        """Sort the blocks of a plan into what lasts, and the rest."""
        lasting = lasting_in(plan)
        self._of_job[plan] = defaultdict(list)
        for block, registers in registers_by_block(plan).items():
            left: list[RegisterOp] = []
            for register in registers:
                if (where := lasting.get(register)) is None:
                    left.append(register)
                else:
                    key = register.memory_case, where
                    self._lasting.setdefault(key, []).append(register)
            self._add_rest(plan, block, registers, left)

    def _add_rest(
        self,
        plan: PlanOp,
        block: BlockOp,
        registers: Sequence[RegisterOp],
        left: Sequence[RegisterOp],
    ) -> None:
        if not left:
            return
        case = left[0].memory_case
        hint = f"{plan.sym_name.data}_{block.block.name_hint or 'block'}"
        placed = without(block, hint, case, left)
        if len(left) == len(registers):
            offsets = [offset_of(register) for register in left]
            size, total = block.size.value.data, number(block.sum)
            placed = Placed(hint, case, left, offsets, size, total)
        self._of_job[plan][case].append(placed)

    def chunks(self, groups: Sequence[Sequence[PlanOp]]) -> Iterator[Operation]:
        """The chunks and blocks, in which the registers are put."""
        for case, blocks in self._lasting_blocks().items():
            yield from chunk_of(f"{hint_of(case)}_lasting", case, [blocks])
        for group in groups:
            of_jobs = [self._of_job[plan] for plan in group]
            for case in dict.fromkeys(case for of_job in of_jobs for case in of_job):
                hint = f"{hint_of(case)}_{group[0].sym_name.data}"
                blocks = [of_job.get(case, []) for of_job in of_jobs]
                yield from chunk_of(hint, case, blocks)

    def _lasting_blocks(self) -> Blocks:
        """
        The blocks of lasting registers of each kind of memory, those whose registers
        lie side by side first.
        """
        blocks: Blocks = defaultdict(list)
        keys = sorted(self._lasting, key=lambda key: key[1].together)
        for case, where in keys:
            kept = kept_together if where.together else kept_apart
            registers = self._lasting[case, where]
            blocks[case].append(kept(where.block, case, registers))
        return blocks


def number(attribute: IntegerAttr | None) -> int | None:
    """The value of an integer attribute, if there is one."""
    return None if attribute is None else attribute.value.data


def variables_of(plan: PlanOp) -> set[SSAValue]:
    """The registers that hold the same at each act."""
    return {
        value for task in plan.tasks if task.kind == "variable" for value in task.outs
    }


def hint_of(case: MemoryCaseAttr) -> str:
    """A name for the chunks of a memory case."""
    if not isinstance(case.device, DeviceAttr):
        return case.kind.data
    return f"{case.kind.data}_{case.device.kind.data}{case.device.index.data}"


def chunk_of(
    hint: str, case: MemoryCaseAttr, jobs: Sequence[Sequence[Placed]]
) -> Iterator[Operation]:
    """A chunk in which the blocks of each job lie side by side from 0 on."""
    sizes = [[placed.size for placed in blocks] for blocks in jobs]
    offsets = [side_by_side(of_job, case.alignment) for of_job in sizes]
    size = max(end_of(*pair) for pair in zip(offsets, sizes, strict=True))
    chunk = ChunkOp(case, size)
    name_value(chunk.chunk, hint)
    yield chunk
    for blocks, starts in zip(jobs, offsets, strict=True):
        for placed, start in zip(blocks, starts, strict=True):
            block = BlockOp(chunk, start, placed.size, placed.sum)
            name_value(block.block, placed.hint)
            for register, at in zip(placed.registers, placed.offsets, strict=True):
                register.operands[0] = block.block
                register.offset = IntegerAttr(at, i64)
            yield block
