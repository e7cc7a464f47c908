"""
Half precision: tensors hold `f16` and `bf16`, kernels compute in `f32`.

Bodies are built with the element types of tensors. Then each number that is loaded from
memory is extended to `f32`, all ops are computed there, and results are rounded once
when they are stored. Only where numbers are rounded on purpose (`arith.truncf`, which a
cast is) the lost bits do not come back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from xdsl.dialects import arith, linalg, memref
from xdsl.dialects.builtin import AnyFloat, FloatAttr, MemRefType, bf16, f16, f32
from xdsl.dialects.linalg.abstract_ops import LinalgStructuredOperation
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator

from penstock.dialects.utils.hints import isa

HALVES = (f16, bf16)
"""The types of floats that are computed in more bits than they have."""


def is_half(type: Attribute) -> bool:
    """Whether a number has 16 bits and a point."""
    return type in HALVES


class ScalarRegions(ABC):
    """The interface of ops whose regions compute elements of memrefs."""

    @abstractmethod
    def loaded_arguments(self, block: Block) -> Sequence[SSAValue]:
        """
        The arguments of a block of its regions that are elements of memrefs, in their
        types; other ones are in the types that it computes in.
        """

    @abstractmethod
    def stored_values(self) -> Sequence[SSAValue]:
        """The memrefs that its regions yield elements of, in order, if of any."""


def compute_in_f32(body: Region) -> None:
    """Make `f32` of all `f16` and `bf16` scalars of a kernel's body."""
    for op in list(body.walk()):
        for region in op.regions:
            for block in region.blocks:
                _widen_arguments(op, block)
        _widen_results(op)
    for op in list(body.walk()):
        _narrow_stored(op)


def _widen_arguments(op: Operation, block: Block) -> None:
    loaded = op.loaded_arguments(block) if isinstance(op, ScalarRegions) else ()
    for arg in reversed(block.args):
        if not is_half(arg.type):
            continue
        if arg in loaded:
            if arg.uses:
                _extend(arg, InsertPoint.at_start(block))
            continue
        if isinstance(op, LinalgStructuredOperation):
            # It is an element of a memref; what the others do with it they say.
            if isinstance(op, linalg.ops.GenericOp) and arg.uses:
                _extend(arg, InsertPoint.at_start(block))
        else:
            Rewriter.replace_value_with_new_type(arg, f32)


def _widen_results(op: Operation) -> None:
    for result in tuple(op.results):
        if not is_half(result.type):
            continue
        match op:
            case arith.ConstantOp(value=FloatAttr() as value):
                op.properties["value"] = FloatAttr(value.value.data, f32)
                Rewriter.replace_value_with_new_type(result, f32)
            case memref.LoadOp() | arith.TruncFOp():
                _extend(result, InsertPoint.after(op))
            case _:
                Rewriter.replace_value_with_new_type(result, f32)
    if isinstance(op, arith.ExtFOp) and op.input.type == op.result.type:
        op.result.replace_all_uses_with(op.input)
        op.detach()
        op.erase()


def _extend(value: SSAValue, place: InsertPoint) -> None:
    """Let all users of a value have it as 32 bits."""
    extended = arith.ExtFOp(value, f32)
    users = [use for use in value.uses if use.operation is not extended]
    Rewriter.insert_op(extended, place)
    for use in users:
        use.operation.operands[use.index] = extended.result


def _narrow_stored(op: Operation) -> None:
    """Round the values that an op writes to the element type of memory."""
    match op:
        case memref.StoreOp():
            _narrow(op, 0, op.memref)
        case linalg.ops.FillOp():
            _narrow(op, 0, op.outputs[0])
        case linalg.ops.YieldOp():
            generic = op.parent_op()
            if isinstance(generic, linalg.ops.GenericOp):
                for index, target in enumerate(generic.outputs):
                    _narrow(op, index, target)
        case _ if op.has_trait(IsTerminator):
            parent = op.parent_op()
            targets = (
                parent.stored_values() if isinstance(parent, ScalarRegions) else ()
            )
            for index, target in enumerate(targets):
                _narrow(op, index, target)
        case _:
            pass


def _narrow(op: Operation, index: int, target: SSAValue) -> None:
    assert isa(target.type, MemRefType), "kernels work on memrefs"
    element, value = target.type.element_type, op.operands[index]
    if not is_half(element) or value.type != f32:
        return
    assert isinstance(element, AnyFloat), "halves are floats"
    owner = value.owner
    if isinstance(owner, arith.ExtFOp) and owner.input.type == element:
        op.operands[index] = owner.input
        if not owner.result.uses:
            owner.detach()
            owner.erase()
        return
    rounded: Operation = arith.TruncFOp(value, element)
    if isinstance(owner, arith.ConstantOp) and isa(owner.value, FloatAttr):
        rounded = arith.ConstantOp(FloatAttr(owner.value.value.data, element))
    Rewriter.insert_op(rounded, InsertPoint.before(op))
    op.operands[index] = rounded.results[0]
    if isinstance(owner, arith.ConstantOp) and not value.uses:
        owner.detach()
        owner.erase()
