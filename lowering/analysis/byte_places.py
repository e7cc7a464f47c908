"""Byte ranges of the registers and variables of a launch program."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.dialects.launch import (
    ChunkOp,
    ProgramOp,
    RegisterOp,
    VariableOp,
    memref_bytes,
)
from penstock.lowering.algorithms.byte_ranges import Range


def ranges_of(program: ProgramOp) -> Mapping[str, Range]:
    """The bytes of all slots of each register, and of each variable."""
    table = program.symbol_table()
    found: dict[str, Range] = {}
    for name, op in table.items():
        if not isinstance(op, RegisterOp | VariableOp):
            continue
        chunk, start = op.chunk.root_reference.data, op.offset.value.data
        size = memref_bytes(op.type)
        if isinstance(op, RegisterOp):
            memory = table[chunk]
            assert isinstance(memory, ChunkOp), "checked by the verifier"
            stride = op.stride(memory.memory_case.alignment)
            size += (op.slots.value.data - 1) * stride
        found[name] = Range(chunk, start, start + size)
    return found
