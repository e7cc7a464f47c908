"""
Arguments of kernels that are always the same variables, whose elements may therefore
lie in the order in which the kernel reads them.

An argument is constant if each call of its kernel gives it a variable (a weight, or a
constant), which no step of the program uses in any other place: no other argument, no
other kernel, no copy; over whose bytes no register lies, and which no kernel writes
over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from xdsl.ir import Operation

from penstock.dialects.launch import (
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
    sources_of,
    steps_within,
)
from penstock.dialects.utils.walk import outermost

Place = tuple[str, int]
"""A kernel by name, and the number of one of its arguments."""


def constant_arguments(program: ProgramOp) -> dict[Place, list[VariableOp]]:
    """The variables of each argument of a kernel that is constant."""
    table = {
        op.sym_name.data: op
        for op in program.body.block.ops
        if isinstance(op, VariableOp | KernelOp)
    }
    hidden = set(_under_registers(program))
    uses: dict[str, set[Place | None]] = defaultdict(set)
    given: dict[Place, list[str]] = defaultdict(list)
    for place, name in _uses(program):
        uses[name].add(place)
        if place is not None:
            given[place].append(name)
    found: dict[Place, list[VariableOp]] = {}
    for place, names in given.items():
        ops = [table.get(name) for name in dict.fromkeys(names)]
        variables = [op for op in ops if isinstance(op, VariableOp)]
        alone = all(uses[name] == {place} for name in names)
        if alone and len(variables) == len(ops) and hidden.isdisjoint(variables):
            found[place] = variables
    return found


def _uses(program: ProgramOp) -> Iterator[tuple[Place | None, str]]:
    """
    The names that each step uses, each with its place as an argument of a kernel, or
    None, as for variables that kernels write over.
    """
    for actor in program.actors:
        for update in actor.update_list:
            yield None, update.names[0]
        for step in steps_within(actor.body.block):
            match step:
                case CallOp():
                    kernel = step.kernel.root_reference.data
                    for number, name in enumerate(names_of(step.arguments)):
                        yield (kernel, number), name
                case CopyOp():
                    yield None, step.source.root_reference.data
                    yield None, step.target.root_reference.data
                case FeedOp() | ReceiveOp():
                    yield None, step.target.root_reference.data
                case CollectiveOp():
                    for name in step.names:
                        yield None, name
                case FetchOp() | SendOp():
                    yield None, step.source.root_reference.data
                case LoopOp():
                    for name in (step.count, step.condition, step.made):
                        if name is not None:
                            yield None, name.root_reference.data
                case IfOp():
                    yield None, step.condition.root_reference.data
                case SubviewOp() | CarryOp():
                    for name in sources_of(step):
                        yield None, name
                case _:
                    known = isinstance(step, CommitOp | NumberOp | ReleaseOp)
                    assert known, "the other steps"


def _under_registers(program: ProgramOp) -> Iterator[VariableOp]:
    """The variables over whose bytes registers lie."""
    ops = list(program.body.block.ops)
    chunks: Mapping[str, ChunkOp] = {
        op.sym_name.data: op for op in ops if isinstance(op, ChunkOp)
    }
    ends: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for op in ops:
        if isinstance(op, RegisterOp):
            name, start = op.chunk.root_reference.data, op.offset.value.data
            stride = op.stride(chunks[name].memory_case.alignment)
            ends[name].append((start, start + op.slots.value.data * stride))
    for spans in ends.values():
        spans.sort()
    at = dict.fromkeys(ends, 0)
    reach = dict.fromkeys(ends, 0)
    for op in sorted((op for op in ops if isinstance(op, VariableOp)), key=_offset):
        name, start = op.chunk.root_reference.data, op.offset.value.data
        spans = ends.get(name, [])
        while at.get(name, 0) < len(spans) and (
            spans[at[name]][0] < start + memref_bytes(op.type)
        ):
            reach[name] = max(reach[name], spans[at[name]][1])
            at[name] += 1
        if reach.get(name, 0) > start:
            yield op


def _offset(op: VariableOp) -> int:
    return op.offset.value.data


def called_kernels(
    op: Operation,
) -> Iterator[tuple[KernelOp, dict[int, list[VariableOp]]]]:
    """
    The kernels under an op, each with the variables of its constant arguments: those of
    programs, and others, of which nobody knows who calls them.
    """
    for program in outermost(op, ProgramOp):
        by_kernel: dict[str, dict[int, list[VariableOp]]] = defaultdict(dict)
        for (kernel, number), variables in constant_arguments(program).items():
            by_kernel[kernel][number] = variables
        for kernel in program.body.block.ops:
            if isinstance(kernel, KernelOp):
                yield kernel, by_kernel.get(kernel.sym_name.data, {})
    for kernel in outermost(op, KernelOp):
        if not isinstance(kernel.parent_op(), ProgramOp):
            yield kernel, {}
