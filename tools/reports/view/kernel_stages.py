"""
The stages of a kernel, for a region that shows them: maps, folds, loops, and the memory
that the kernel has of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import NamedTuple

from xdsl.dialects import memref, scf
from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import FillOp, GenericOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.utils.hints import isa

from penstock.dialects.kernel.interface import How, StructuredOp
from penstock.dialects.launch import KernelOp
from penstock.dialects.utils.tensors import element_bytes

SHOWN_OPS = 4
"""The most scalar ops in the name of a stage."""


class Buffer(NamedTuple):
    """An argument of a kernel by its place, or memory of its own, with its bytes."""

    name: str
    type: str
    bytes: int
    is_own: bool


class Stage(NamedTuple):
    """A stage: its work, and the buffers that it reads and writes, by number."""

    name: str
    reads: tuple[int, ...]
    writes: tuple[int, ...]


class Region(NamedTuple):
    """The stages of a kernel in their order, and all buffers."""

    buffers: tuple[Buffer, ...]
    stages: tuple[Stage, ...]


def region_of(kernel: KernelOp) -> Region | None:
    """The region of a kernel; None where it would show one stage alone."""
    body = kernel.body.block
    own = [op.memref for op in body.walk() if isinstance(op, memref.AllocOp)]
    values: list[SSAValue] = [*body.args, *own]
    number = {value: index for index, value in enumerate(values)}
    stages = [stage for op in body.ops if (stage := stage_of(op, number)) is not None]
    if len(stages) < 2 and not own:
        return None
    return Region(tuple(map(buffer_of, values)), tuple(stages))


def buffer_of(value: SSAValue) -> Buffer:
    """The buffer that is an argument of a kernel, or is allocated in it."""
    type = value.type
    assert isa(type, MemRefType), "checked by the verifier"
    text = "x".join([*map(str, type.get_shape()), str(type.element_type)])
    size = prod(type.get_shape()) * element_bytes(type)
    if isinstance(value, BlockArgument):
        return Buffer(f"argument {value.index}", text, size, False)
    return Buffer("own memory", text, size, True)


def stage_of(op: Operation, number: Mapping[SSAValue, int]) -> Stage | None:
    """The stage that an op of a kernel's body is; None if it works on no memory."""
    stages = LinalgStructuredOperation | StructuredOp | scf.ForOp | scf.ParallelOp
    if not isinstance(op, stages):
        return None
    reads: dict[int, None] = {}
    writes: dict[int, None] = {}
    for inner in op.walk():
        read, written = accesses(inner)
        reads.update(dict.fromkeys(number[root_of(value)] for value in read))
        writes.update(dict.fromkeys(number[root_of(value)] for value in written))
    return Stage(name_of(op), tuple(reads), tuple(writes))


def accesses(op: Operation) -> tuple[list[SSAValue], list[SSAValue]]:
    """The memrefs that an op reads and writes itself."""
    match op:
        case FillOp():
            return [], [*op.outputs]
        case LinalgStructuredOperation():
            read = [value for value in op.operands if isa(value.type, MemRefType)]
            return read, [*op.outputs]
        case StructuredOp():
            effects = [*op.effects()]
            read = [value for value, how, _ in effects if how is How.READ]
            return read, [value for value, how, _ in effects if how is How.WRITE]
        case memref.LoadOp():
            return [op.memref], []
        case memref.StoreOp():
            return [], [op.memref]
        case memref.CopyOp():
            return [op.source], [op.destination]
        case _:
            return [], []


def root_of(value: SSAValue) -> SSAValue:
    """The argument or allocation in which a memref lies, which other ops view."""
    while isinstance(op := value.owner, Operation) and op.operands:
        value = op.operands[0]
    return value


def name_of(op: Operation) -> str:
    """The work of a stage as text, with its scalar ops."""
    names = dict.fromkeys(scalar_ops(op))
    shown = ", ".join([*names][:SHOWN_OPS]) + (", …" if len(names) > SHOWN_OPS else "")
    match op:
        case FillOp():
            return "fill"
        case GenericOp():
            kinds = {str(kind.data.value) for kind in op.iterator_types}
            verb = "fold" if "reduction" in kinds else "map"
            return f"{verb}: {shown}" if names else "copy"
        case LinalgStructuredOperation():
            return op.name
        case StructuredOp():
            kind = op.name.partition(".")[2]
            return f"{kind}: {shown}" if names else kind
        case _:
            return f"loop: {shown}" if names else "loop"


def scalar_ops(op: Operation) -> Iterator[str]:
    """The names of the ops inside that compute elements, not places."""
    for inner in op.walk():
        is_math = inner.dialect_name() in ("arith", "math") and inner.operands
        if is_math and not any(str(x.type) == "index" for x in inner.results):
            yield inner.name.partition(".")[2]
