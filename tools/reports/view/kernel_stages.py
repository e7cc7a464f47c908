"""
The stages of a kernel, for a region that shows them: maps, folds, loops, and the memory
that the kernel has of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import NamedTuple

from xdsl.dialects import memref, scf
from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import FillOp, GenericOp
from xdsl.ir import BlockArgument, Operation, SSAValue
from xdsl.ir import Region as KernelRegion

from penstock.dialects.kernel.contract import ContractOp
from penstock.dialects.kernel.interface import How, StructuredOp
from penstock.dialects.launch import KernelOp
from penstock.dialects.utils.hints import isa
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
    stages = [stage for op in body.ops for stage in stages_of(op, number)]
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


def stages_of(op: Operation, number: Mapping[SSAValue, int]) -> Iterator[Stage]:
    """The stages that an op of a kernel's body is; none if it works on no memory."""
    match op:
        case ContractOp(finish=KernelRegion() as finish):
            yield from _contraction_of(op, finish, number)
        case LinalgStructuredOperation() | StructuredOp() | scf.ForOp():
            yield _stage_of(op, number)
        case scf.ParallelOp():
            yield _stage_of(op, number)
        case _:
            pass


def _contraction_of(
    op: ContractOp, finish: KernelRegion, number: Mapping[SSAValue, int]
) -> Iterator[Stage]:
    """The sums of a contraction, and what is computed of them while it is."""

    def places(values: Iterable[SSAValue]) -> tuple[int, ...]:
        memrefs = (value for value in values if isa(value.type, MemRefType))
        return tuple(dict.fromkeys(number[root_of(value)] for value in memrefs))

    starts = () if op.start is None else (op.start,)
    outs = places(op.outs)
    yield Stage("contract", places((op.a, op.b, *starts)), outs)
    names = shown_names(finish.walk())
    yield Stage(f"finish: {names}", places((*op.outs, *op.extra)), outs)


def _stage_of(op: Operation, number: Mapping[SSAValue, int]) -> Stage:
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
    names = shown = shown_names(op.walk())
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


def shown_names(ops: Iterable[Operation]) -> str:
    """The names of the first scalar ops among some, each once."""
    names = dict.fromkeys(scalar_ops(ops))
    return ", ".join([*names][:SHOWN_OPS]) + ", …" * (len(names) > SHOWN_OPS)


def scalar_ops(ops: Iterable[Operation]) -> Iterator[str]:
    """The names of those ops that compute elements, not places."""
    for inner in ops:
        is_math = inner.dialect_name() in ("arith", "math") and inner.operands
        if is_math and not any(str(x.type) == "index" for x in inner.results):
            yield inner.name.partition(".")[2]
