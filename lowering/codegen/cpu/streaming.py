"""
Results that are written past the caches.

A store to memory that is in no cache reads the line first, and pushes others out. Where
a kernel reads and writes more than the last cache holds, an element of its result has
left the caches before the next kernel reads it, so nothing is lost if it is written to
memory at once: a copy takes 0.7 of the time. `STREAMED_BYTES` is three quarters of 32
MiB, the last cache of many processors. Three kinds of results are written as usual:
those that the kernel reads, or adds to; those of elementary functions, which take
longer than memory; and those that lie over an operand in a run, whose lines are in the
caches already.
"""

from __future__ import annotations

from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Block, SSAValue

from penstock.dialects.kernel.views import root_of
from penstock.dialects.utils.hints import isa
from penstock.dialects.utils.tensors import element_bytes
from penstock.lowering.codegen.body.statements import Computation
from penstock.lowering.codegen.cpu.packed_operands import uses_of
from penstock.lowering.codegen.cpu.work import FUNCTION_WEIGHT, weight

STREAMED_BYTES = 24 << 20
"""Bytes of all arguments of a kernel from which on its results leave the caches."""


def is_streamed(computation: Computation) -> bool:
    """Whether a stage writes a result that is in no cache when it is read."""
    results = [root_of(output) for output in computation.op.outputs]
    if weight(computation.body) >= FUNCTION_WEIGHT:
        return False
    return all(
        isinstance(result.owner, Block)
        and argument_bytes(result.owner) >= STREAMED_BYTES
        and is_only_written(result)
        for result in results
    )


def argument_bytes(block: Block) -> int:
    """The bytes of all memrefs among the arguments of a kernel."""
    types = [arg.type for arg in block.args if isa(arg.type, MemRefType)]
    return sum(type.element_count() * element_bytes(type) for type in types)


def is_only_written(memref: SSAValue) -> bool:
    """Whether each stage that uses a memref writes its elements, and reads none."""
    for op in uses_of(memref):
        if not isinstance(op, LinalgStructuredOperation):
            return False
        outputs = op.body.block.args[-len(op.outputs) :]
        if any(root_of(value) is memref for value in op.inputs):
            return False
        if any(arg.uses.get_length() for arg in outputs):
            return False
    return True
