"""
The effects of the body of a kernel on its arguments: those that it writes, and those
whose earlier contents it needs.

A body needs an argument if one of its ops, in the order of the text, reads it before
all of it has been written. `linalg.fill` and `memref.copy` write all elements of their
target, `linalg.generic` one for each combination of the loops that its output is
indexed by; a structured op (`penstock.dialects.kernel.interface`) says its own. A store
in a loop counts as one of all elements, under a condition or not. So a kernel that is
not said to need an argument may still read elements of it that only a part of its
stores would have written; those of ops do not. Any other op counts as one that reads
and writes all memrefs among its operands.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from xdsl.dialects import memref
from xdsl.dialects.builtin import MemRefType
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.dialects.linalg.ops import FillOp, GenericOp
from xdsl.ir import Operation, SSAValue
from xdsl.ir.affine import AffineDimExpr

from penstock.dialects.kernel.interface import Effect, How, StructuredOp
from penstock.dialects.launch import KernelOp
from penstock.dialects.utils.hints import isa


@dataclass
class KernelEffects:
    """The arguments, by number, that the body of a kernel writes and needs."""

    kernel: KernelOp
    written: set[int] = field(default_factory=set[int])
    """Those that it writes, or may write."""
    needed: set[int] = field(default_factory=set[int])
    """Those that it may read before it has written all of them."""

    def __post_init__(self) -> None:
        block = self.kernel.body.block
        stands_for: dict[SSAValue, int] = {arg: arg.index for arg in block.args}
        missing = [element_count(arg) for arg in block.args]
        for op in block.walk():
            argument = next((stands_for[x] for x in op.operands if x in stands_for), -1)
            views = [value for value in op.results if is_memref(value)]
            if views and argument >= 0:
                stands_for.update(dict.fromkeys(views, argument))
                continue
            for value, how, elements in effects_of(op):
                if (index := stands_for.get(value)) is None:
                    continue
                if how is How.READ and missing[index] > 0:
                    self.needed.add(index)
                elif how is How.WRITE:
                    self.written.add(index)
                    missing[index] -= missing[index] if elements is None else elements


def effects_of(op: Operation) -> Iterator[Effect]:
    """The accesses of an op to memrefs, reads first."""
    match op:
        case memref.LoadOp():
            yield Effect(op.memref, How.READ)
        case memref.StoreOp():
            yield Effect(op.memref, How.WRITE)
        case memref.CopyOp():
            yield Effect(op.source, How.READ)
            yield Effect(op.destination, How.WRITE, element_count(op.destination))
        case FillOp():
            for value in op.outputs:
                yield Effect(value, How.WRITE, element_count(value))
        case StructuredOp():
            yield from op.effects()
        case GenericOp():
            yield from effects_of_generic(op)
        case LinalgStructuredOperation():
            # Named ops add to what is there.
            for value in (*op.inputs, *op.outputs):
                yield Effect(value, How.READ)
            for value in op.outputs:
                yield Effect(value, How.WRITE)
        case _:
            given = [value for value in op.operands if is_memref(value)]
            yield from (Effect(value, How.READ) for value in given)
            yield from (Effect(value, How.WRITE) for value in given)


def effects_of_generic(op: GenericOp) -> Iterator[Effect]:
    """The reads of `linalg.generic` that its body uses, and then its writes."""
    scalars = op.body.block.args
    for value, scalar in zip(op.operands, scalars, strict=True):
        if is_memref(value) and scalar.uses:
            yield Effect(value, How.READ)
    extents = loop_extents(op)
    maps = list(op.get_indexing_maps())[len(op.inputs) :]
    for value, map in zip(op.outputs, maps, strict=True):
        loops = map.data.used_dims()
        yield Effect(value, How.WRITE, prod(extents[loop] for loop in loops))


def loop_extents(op: GenericOp) -> dict[int, int]:
    """
    The trip count of each loop of `linalg.generic` that alone indexes a dimension.
    """
    extents: dict[int, int] = {}
    for value, map in zip(op.operands, op.get_indexing_maps(), strict=True):
        if not isa(type := value.type, MemRefType):
            continue
        for index, extent in zip(map.data.results, type.get_shape(), strict=True):
            if isinstance(index, AffineDimExpr):
                extents.setdefault(index.position, extent)
    return extents


def is_memref(value: SSAValue) -> bool:
    """Whether a value is a memref."""
    return isinstance(value.type, MemRefType)


def element_count(value: SSAValue) -> int:
    """The elements of a memref of static shape."""
    type = value.type
    assert isa(type, MemRefType), "kernels take memrefs"
    return type.element_count()
